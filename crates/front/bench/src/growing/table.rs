//! All cases: what a further unit may take of the heap. Each kind of workload has at least one.

use super::case::{Case, Work};

/// What every study begins with.
macro_rules! study {
    ($($rest:expr),*) => {
        concat!("name = \"growth\"\ntitle = \"growth\"\nquestion = \"How much?\"\nseed = 1\n", $($rest),*)
    };
}

/// A study of one layer on a small chip, with writes that are drawn.
macro_rules! layer {
    ($kind:literal, $writes:literal, $axes:literal) => {
        study!(
            "part = \"k9f2g08u0c\"\nblocks = 128\n[workload]\nkind = \"",
            $kind,
            "\"\nwarm_up_writes = 1\nmeasured_writes = ",
            $writes,
            "\n[axes]\nftl = [\"page\"]\nspare_percent = [20]\n",
            $axes
        )
    };
}

/// A study on an eMMC card.
macro_rules! card {
    ($($rest:literal),*) => {
        study!(
            $($rest),*,
            "[host]\nboard = \"odroid-xu\"\ndevice = \"emmc-4.5-64gb\"\nfree_bytes = 67_108_864\n",
            "[axes]\nscheduler = [\"noop\"]\n"
        )
    };
}

/// A study of a file system on raw NAND.
macro_rules! raw_nand {
    ($file_system:literal, $($rest:literal),*) => {
        study!(
            "part = \"k9f2g08u0c\"\nrepeats = UNITS\n", $($rest),*,
            "file_system = [\"", $file_system, "\"]\n"
        )
    };
}

/// Bytes that a further request or write may take: none. The bound leaves room for what a run happens to need.
const NEXT_TO_NONE: f64 = 0.5;

/// Bytes that a further write of the whole device may take, which is thousands of writes.
const OF_A_DEVICE_WRITE: f64 = 1000.0;

/// Bytes that a further cell may take: its plan and its rows.
const OF_A_CELL: f64 = 4096.0;

/// Bytes that a further repeat on a file system may take: 16 bytes for each value, and each test of a run has a
/// hundred and more.
const OF_A_REPEAT: f64 = 12_000.0;

/// All cases, sorted by name.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "cells of a study",
        kind: None,
        unit: "cell",
        units: 100,
        work: Work::Cells(layer!("uniform", "1", "cleaning_seed = [SEEDS]\n")),
        bytes_per_unit_max: OF_A_CELL,
    },
    Case {
        name: "hot-cold",
        kind: Some("hot-cold"),
        unit: "write of the whole device",
        units: 2,
        work: Work::Study(layer!("hot-cold", "UNITS", "")),
        bytes_per_unit_max: OF_A_DEVICE_WRITE,
    },
    Case {
        name: "ioping",
        kind: Some("ioping"),
        unit: "request",
        units: 1_000,
        work: Work::Study(card!(
            "[workload]\nkind = \"ioping\"\noptions = \"-D -i 0 -c UNITS -s 4k directory\"\n"
        )),
        bytes_per_unit_max: NEXT_TO_NONE,
    },
    Case {
        name: "iozone, jffs2 over block2mtd",
        kind: Some("iozone"),
        unit: "repeat",
        units: 1,
        work: Work::Study(raw_nand!(
            "jffs2-block2mtd",
            "[workload]\nkind = \"iozone\"\noptions = \"-i 0 -i 1 -s 256k -r 32k\"\n",
            "[host]\nboard = \"s5pv210-datasheet\"\nkernel = \"2.6.29\"\n",
            "[axes]\nscheduler = [\"noop\"]\n"
        )),
        bytes_per_unit_max: OF_A_REPEAT,
    },
    Case {
        name: "iozone, nilfs2",
        kind: Some("iozone"),
        unit: "repeat",
        units: 1,
        work: Work::Study(raw_nand!(
            "nilfs2",
            "[workload]\nkind = \"iozone\"\noptions = \"-i 0 -i 1 -s 256k -r 32k\"\n",
            "[host]\nboard = \"s5pv210-datasheet\"\nkernel = \"2.6.29\"\n",
            "[axes]\nscheduler = [\"noop\"]\n"
        )),
        bytes_per_unit_max: OF_A_REPEAT,
    },
    Case {
        name: "jobs",
        kind: Some("jobs"),
        unit: "request",
        units: 10_000,
        work: Work::Study(card!(
            "[workload]\nkind = \"jobs\"\n",
            "[[job]]\nname = \"readers\"\nprocesses = 1\nrw = \"randread\"\nbs = \"4k\"\n",
            "requests = UNITS\nmode = \"direct\"\n"
        )),
        bytes_per_unit_max: NEXT_TO_NONE,
    },
    Case {
        name: "power cuts, jffs2",
        kind: None,
        unit: "file",
        units: 40,
        work: Work::Cuts("jffs2"),
        bytes_per_unit_max: OF_A_FILE,
    },
    Case {
        name: "power cuts, ubifs",
        kind: None,
        unit: "file",
        units: 40,
        work: Work::Cuts("ubifs"),
        bytes_per_unit_max: OF_A_FILE,
    },
    Case {
        name: "power cuts, yaffs2",
        kind: None,
        unit: "file",
        units: 40,
        work: Work::Cuts("yaffs2"),
        bytes_per_unit_max: OF_A_FILE,
    },
    Case {
        name: "raw-nand, files that stay on jffs2 over block2mtd",
        kind: Some("raw-nand"),
        unit: "repeat",
        units: 4,
        work: Work::Study(raw_nand!(
            "jffs2-block2mtd",
            "[workload]\nkind = \"raw-nand\"\ncapacity_bytes = 6_000_000\n",
            "[host]\nboard = \"s5pv210-datasheet\"\nkernel = \"2.6.35\"\n",
            "[axes]\ntest = [\"copy-delete\"]\nfile_set = [\"jpg\"]\noperations = [40]\n"
        )),
        // The most of forty repeats, which differ by their seeds, lies above that of four.
        bytes_per_unit_max: 150_000.0,
    },
    Case {
        name: "raw-nand, yaffs2",
        kind: Some("raw-nand"),
        unit: "repeat",
        units: 1,
        work: Work::Study(raw_nand!(
            "yaffs2",
            "[workload]\nkind = \"raw-nand\"\noptions = \"-i 0 -s 1m -r 4k\"\n",
            "[host]\nboard = \"s5pv210-datasheet\"\nkernel = \"2.6.35\"\n",
            "[limits.small]\npartition_mib = 10\n",
            "[flash_states.empty]\nfill_percent = 0\n",
            "[axes]\ntest = [\"mount\"]\nflash = [\"empty\"]\nlimits = [\"small\"]\n"
        )),
        bytes_per_unit_max: OF_A_REPEAT,
    },
    Case {
        name: "replay on a device",
        kind: None,
        unit: "request",
        // More than a batch of the reader, which is kept whole.
        units: 100_000,
        work: Work::DeviceReplay("emmc-4.5-64gb"),
        bytes_per_unit_max: NEXT_TO_NONE,
    },
    Case {
        name: "sequential",
        kind: Some("sequential"),
        unit: "write of the whole device",
        units: 2,
        work: Work::Study(layer!("sequential", "UNITS", "")),
        bytes_per_unit_max: OF_A_DEVICE_WRITE,
    },
    Case {
        name: "trace, Parquet",
        kind: Some("trace"),
        unit: "request",
        units: 100_000,
        work: Work::Trace(TRACE, "parquet"),
        bytes_per_unit_max: OF_A_TRACE,
    },
    Case {
        name: "trace, text of fio",
        kind: Some("trace"),
        unit: "request",
        units: 100_000,
        work: Work::Trace(TRACE, "log"),
        bytes_per_unit_max: OF_A_TRACE,
    },
    Case {
        name: "uniform",
        kind: Some("uniform"),
        unit: "write of the whole device",
        units: 2,
        work: Work::Study(layer!("uniform", "UNITS", "")),
        bytes_per_unit_max: OF_A_DEVICE_WRITE,
    },
];

/// Bytes that a further request of a trace may take in a study: all runs share the decoded trace, 24 bytes a request,
/// in a list that doubles. The command `replay` keeps no request.
const OF_A_TRACE: f64 = 50.0;

/// A study that replays a trace.
const TRACE: &str = study!(
    "part = \"k9f2g08u0c\"\nblocks = 128\n",
    "[workload]\nkind = \"trace\"\nfile = \"TRACE\"\ncapacity_bytes = 8_388_608\n",
    "[axes]\nftl = [\"page\"]\n"
);

/// Bytes that a further file of a script may take while power is cut: its operations, which hold the bytes that they
/// program (two pages of a file of 3,000 bytes, its header or inode, and the journal of the file system).
const OF_A_FILE: f64 = 48_000.0;
