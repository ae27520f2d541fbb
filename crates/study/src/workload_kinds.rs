//! Kinds of workload a study can name.

/// The kind that runs IOzone on file systems on raw NAND.
pub(crate) const IOZONE: &str = "iozone";

/// The kind that is described by `[[job]]` tables.
pub(crate) const JOBS: &str = "jobs";

/// The kind whose `[[job]]` tables are carried out by a real kernel, which this crate only plans.
pub(crate) const KERNEL: &str = "kernel";

/// The kind whose axis `test` names what is done with file systems on raw NAND.
pub(crate) const RAW_NAND: &str = "raw-nand";

/// The kind that writes single pages, every page as likely as the others.
pub(crate) const UNIFORM: &str = "uniform";

/// A row of the table of workloads.
pub struct WorkloadEntry {
    /// Name that `workload.kind` gives.
    pub name: &'static str,
    /// What such a workload does, in one line.
    pub summary: &'static str,
    /// Keys it takes, beside `kind`.
    pub keys: &'static [&'static str],
}

/// All kinds, sorted by name.
pub const WORKLOADS: &[WorkloadEntry] = &[
    WorkloadEntry {
        name: "hot-cold",
        summary: "single-page writes, `hot_writes_percent` of them to `hot_pages_percent` of the pages",
        keys: &[
            "capacity_bytes",
            "hot_pages_percent",
            "hot_writes_percent",
            "warm_up_writes",
            "measured_writes",
        ],
    },
    WorkloadEntry {
        name: IOZONE,
        summary: "IOzone on file systems on raw NAND in simulated time: [host] and `options`",
        keys: &["options"],
    },
    WorkloadEntry {
        name: JOBS,
        summary: "processes over a scheduler and a block device in simulated time: [host] and [[job]]",
        keys: &[],
    },
    WorkloadEntry {
        name: KERNEL,
        summary: "processes on a disk of a real kernel in a virtual machine: [[job]]",
        keys: &[],
    },
    WorkloadEntry {
        name: RAW_NAND,
        summary: "tests of file systems on raw NAND, named by the axis `test`: [host] and [rooms]",
        keys: &["options", "capacity_bytes", "script"],
    },
    WorkloadEntry {
        name: "sequential",
        summary: "single-page writes over the whole device, in order, again and again",
        keys: &["capacity_bytes", "warm_up_writes", "measured_writes"],
    },
    WorkloadEntry {
        name: "trace",
        summary: "a block trace; `{axis}` in the file name is replaced by the axis value",
        keys: &[
            "file",
            "capacity_bytes",
            "preconditioning",
            "requests_quick",
            "service_times",
            "window",
        ],
    },
    WorkloadEntry {
        name: UNIFORM,
        summary: "single-page writes, every page as likely as the others",
        keys: &["capacity_bytes", "warm_up_writes", "measured_writes"],
    },
];

#[cfg(test)]
mod tests {
    use super::WORKLOADS;

    #[test]
    fn the_table_is_sorted_and_its_names_are_unique() {
        assert!(WORKLOADS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
