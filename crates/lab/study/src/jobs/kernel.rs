//! Studies whose processes run on a real kernel: checked and planned here, run by the Python package
//! in a virtual machine.

use super::plan::{axes_in_words, plan_jobs, wrong};
use crate::StudyError;
use crate::study_file::Study;
use crate::study_parts::{first_given, refuse};
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, RunContext, WorkloadKind,
};
use ::jobs::{Distribution, Order, Pace};

/// Axes that such a study must have, and the values that exist.
const KERNEL_AXES: [(&str, &[&str]); 3] = [
    ("device", &["flash-card", "null-blk"]),
    ("kernel", &["6.1", "6.12"]),
    ("scheduler", &["bfq", "kyber", "mq-deadline", "none", "sfq"]),
];

/// The names of those axes.
const OWN_AXES: [&str; 3] = [KERNEL_AXES[0].0, KERNEL_AXES[1].0, KERNEL_AXES[2].0];

/// Bytes of the disks in the machine.
const DISK_BYTES: u64 = 1 << 30;

/// Blocks of those disks.
const BLOCK_BYTES: u64 = 4096;

/// Processes that the program in the machine starts at most.
const PROCESSES_MAX: u32 = 256;

/// Requests of a run: the machine keeps the time of each.
const REQUESTS_MAX: u64 = 1_000_000;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "kernel",
    summary: "processes on a disk of a real kernel in a virtual machine: [[job]]",
    keys: &[],
    axes,
    has_timeline: false,
    columns: &[],
    check,
    plan: |study, values| {
        check_combination(study, values)?;
        Ok(Box::new(KernelPlan))
    },
};

/// A run that this crate only checks.
#[derive(Debug)]
struct KernelPlan;

impl Plan for KernelPlan {
    fn carry_out(&self, _: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        unreachable!("no run is begun that is carried out elsewhere")
    }

    fn identity(&self, _: u32) -> Option<Identity> {
        // A real kernel measures no time twice.
        None
    }

    fn carried_out_elsewhere(&self) -> Option<&'static str> {
        Some("kind `kernel` runs in a virtual machine, which `nandlab run` starts")
    }
}

fn axes(study: &Study) -> KnownAxes {
    KnownAxes { own: &OWN_AXES, of_study: axes_in_words(study), ..KnownAxes::default() }
}

/// Checks what does not depend on a combination of axis values.
///
/// # Errors
/// Keys that mean nothing to a real kernel, axes that are missing.
fn check(study: &Study) -> Result<(), StudyError> {
    refuse(study, &["limits"])?;
    // `make reproduce` leaves out studies with this key, as not every machine has QEMU.
    if !study.needs_vm {
        return wrong("needs_vm", "workload kind `kernel` needs `needs_vm = true`");
    }
    let parts = ["host", "scheduler_variants", "mechanisms", "extra_runs", "timeline"];
    if let Some(key) = first_given(study, &parts) {
        return wrong(key, "workload kind `kernel` does not take it: the machine is as it is");
    }
    if study.jobs.is_empty() {
        return wrong("job", "workload kind `kernel` needs at least one [[job]]");
    }
    match KERNEL_AXES.iter().find(|(axis, _)| !study.axes.contains_key(*axis)) {
        Some((axis, known)) => {
            let known = known.join(", ");
            wrong("axes", format!("an axis `{axis}` is missing; its values are {known}"))
        }
        None => Ok(()),
    }
}

/// Checks one combination of axis values against the machine.
///
/// # Errors
/// Names that do not exist, with a suggestion; jobs that the program in the machine cannot do.
fn check_combination(study: &Study, values: &Combination<'_>) -> Result<(), StudyError> {
    for (axis, known) in KERNEL_AXES {
        let value = values.get(axis).copied().unwrap_or_default();
        if !known.contains(&value) {
            return Err(StudyError::unknown(axis, value, known.iter().copied()));
        }
    }
    let jobs = plan_jobs(study, values, DISK_BYTES, DISK_BYTES)?;
    for (job, spec) in jobs.iter().zip(&study.jobs) {
        let place = format!("job {}", job.name);
        // The program in the machine has one size, and draws uniformly and in no other way.
        let bytes = job.order.sizes[0].min_bytes();
        let mut order = Order::random(bytes, Distribution::Uniform);
        order.random_percent = if job.order.random_percent == 0 { 0 } else { 100 };
        let is_plain = job.order == order
            && job.iodepth == 1
            && job.pace == Pace::Closed { think_ns: 0 }
            && job.fsync_writes == 0
            && (job.start_delay_ns, job.bytes, job.passes) == (0, u64::MAX, 1)
            && (job.verify.is_none(), job.flow.is_none(), job.ends.is_none()) == (true, true, true)
            && !job.waits_for_earlier
            && job.steady.is_none()
            && job.latency_target.is_none()
            && (spec.offset_bytes, spec.size_bytes) == (0, 0)
            && job.priority == (process::Class::BestEffort, process::NORMAL_LEVEL)
            && job.urgent.iter().all(Vec::is_empty)
            && (job.runtime_ns, job.ramp_ns) == (0, 0)
            && spec.requests.is_some()
            && job.is_private
            && spec.region == "free"
            && matches!(job.read_percent, 0 | 100);
        if !is_plain {
            return wrong(
                &place,
                "in a study of kind `kernel` a job only reads or only writes, one request after \
                 the other, at random or in order: name, processes, rw, bs, requests and mode",
            );
        }
        if !bytes.is_multiple_of(BLOCK_BYTES) {
            let reason = format!(
                "bs is {bytes}, but must be a multiple of {BLOCK_BYTES}, the block of the disks"
            );
            return wrong(&place, reason);
        }
    }
    let processes: u32 = jobs.iter().map(|job| job.processes).sum();
    if processes > PROCESSES_MAX {
        return wrong("job", format!("{processes} processes; at most {PROCESSES_MAX}"));
    }
    // Saturating: a sum beyond all numbers is too large as well.
    let requests = |(sum, job): (u64, &::jobs::Job)| {
        sum.saturating_add(job.requests.saturating_mul(u64::from(job.processes)))
    };
    let all = jobs.iter().fold(0, |sum, job| requests((sum, job)));
    if all > REQUESTS_MAX {
        return wrong("job", format!("{all} requests in a run; at most {REQUESTS_MAX}"));
    }
    Ok(())
}
