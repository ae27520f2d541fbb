//! From a study file and a combination of axis values to a run of ioping.

use super::run::{IopingPlan, ProcessPlan, Role, run_ioping};
use crate::StudyError;
use crate::block_stack::{BlockStack, device_axes};
use crate::braces::{filled_in, names_in_braces};
use crate::setting_axes::scheduler_axes;
use crate::study_file::Study;
use crate::study_parts::refuse;
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, RunContext, WorkloadKind,
};
use ::ioping::{Access, Options, PROFILES, Target, find_profile};
use ::jobs::Region;

/// Axes that mean something to such a study; all others only fill in the options of ioping.
const IOPING_AXES: [&str; 4] = ["scheduler", "device", "mechanism", "profile"];

/// The version that is run unless the axis `profile` names another.
const PROFILE: &str = "v1.3";

/// Processes of a run: each takes memory.
const PROCESSES_MAX: u32 = 1024;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "ioping",
    summary: "ioping over a scheduler and a block device in simulated time: [host] and `options`",
    keys: &["options", "readers", "writers", "mixed"],
    axes,
    columns: &["role"],
    check,
    plan: |study, values| Ok(Box::new(plan(study, values)?)),
};

fn axes(study: &Study) -> KnownAxes {
    let options = study.workload.options.as_deref().unwrap_or_default();
    let of_study = names_in_braces(options).chain(scheduler_axes(study)).chain(device_axes(study));
    KnownAxes { own: &IOPING_AXES, of_study: of_study.collect(), ..KnownAxes::default() }
}

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// Checks what does not depend on a combination of axis values.
///
/// # Errors
/// Parts that mean nothing to ioping; a missing command line or axis; a number of processes out of range.
fn check(study: &Study) -> Result<(), StudyError> {
    refuse(study, &["host.block_device", "job", "limits", "timeline"])?;
    let workload = &study.workload;
    if workload.options.is_none() {
        return wrong("workload", "kind `ioping` needs `options`, the command line of ioping");
    }
    if !study.axes.contains_key("scheduler") {
        return wrong("axes", "an axis `scheduler` with at least one scheduler is missing");
    }
    let given = [workload.readers, workload.writers, workload.mixed];
    // Saturating: a sum beyond all numbers is too large as well.
    let sum = given.into_iter().flatten().fold(0_u32, u32::saturating_add);
    if given.iter().any(Option::is_some) && !(1..=PROCESSES_MAX).contains(&sum) {
        let reason = format!(
            "readers, writers and mixed are {sum} processes; 1 to {PROCESSES_MAX} are possible"
        );
        return wrong("workload", reason);
    }
    Ok(())
}

/// Resolves one combination of axis values.
///
/// # Errors
/// Names that do not exist, with a suggestion; options that the version does not have; files that do not fit.
fn plan(study: &Study, values: &Combination<'_>) -> Result<IopingPlan, StudyError> {
    let stack = BlockStack::of(study, values)?;
    let name = values.get("profile").copied().unwrap_or(PROFILE);
    let Some(profile) = find_profile(name) else {
        let known = PROFILES.iter().map(|profile| profile.name);
        return Err(StudyError::unknown("profile of ioping", name, known));
    };
    let text = study.workload.options.as_deref().unwrap_or_default();
    let options = Options::parse(&filled_in(text, values), profile)
        .or_else(|error| wrong("workload.options", error.to_string()))?;
    let roles = roles(study, options.access)?;
    let processes = regions(&stack, &options, roles.len() as u64)?;
    let processes = roles.into_iter().zip(processes);
    let processes = processes.map(|(role, region)| ProcessPlan { role, region }).collect();
    Ok(IopingPlan { stack, options, processes })
}

/// What each process does: what the command line says, or as many readers and writers as the study says.
fn roles(study: &Study, access: Access) -> Result<Vec<Role>, StudyError> {
    let workload = &study.workload;
    let counts = [
        (Role::Reader, workload.readers),
        (Role::Writer, workload.writers),
        (Role::Mixed, workload.mixed),
    ];
    if counts.iter().all(|(_, count)| count.is_none()) {
        return Ok(vec![Role::of(access)]);
    }
    if access != Access::Read {
        let reason =
            "-W and -G: `readers`, `writers` and `mixed` say what processes do; leave them out";
        return wrong("workload.options", reason);
    }
    let of_role = |(role, count): (Role, Option<u32>)| (0..count.unwrap_or(0)).map(move |_| role);
    Ok(counts.into_iter().flat_map(of_role).collect())
}

/// The bytes of the device that each process has for its target.
///
/// # Errors
/// A target that is too small, with the option that says so.
fn regions(
    stack: &BlockStack,
    options: &Options,
    processes: u64,
) -> Result<Vec<Region>, StudyError> {
    let (device_bytes, free_bytes) = (stack.device_bytes, stack.host.free_bytes);
    debug_assert!(free_bytes <= device_bytes, "the stack refused more free bytes than there are");
    let first_free = device_bytes - free_bytes;
    let region = |index: u64| match options.target {
        Target::Device => Region { offset_bytes: 0, bytes: device_bytes },
        Target::File => Region { offset_bytes: first_free, bytes: free_bytes },
        // Each process makes a file of its own; they lie side by side in whole pages, as no two share one.
        Target::Directory => {
            let bytes = free_bytes / processes / page_cache::PAGE_BYTES * page_cache::PAGE_BYTES;
            Region { offset_bytes: first_free + index * bytes, bytes }
        }
    };
    let regions: Vec<Region> = (0..processes).map(region).collect();
    for region in &regions {
        options
            .working_set_on(region.bytes)
            .or_else(|error| wrong("workload.options", error.to_string()))?;
    }
    Ok(regions)
}

impl Plan for IopingPlan {
    fn carry_out(&self, context: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        let tests = run_ioping(self, context)?;
        Ok(tests.map(|tests| Measured { tests, ..Measured::default() }))
    }

    fn identity(&self, _: u32) -> Option<Identity> {
        // Places are drawn by the repeat, so no run is like another.
        None
    }
}
