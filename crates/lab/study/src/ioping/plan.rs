//! From a study file and a combination of axis values to a run of ioping.

use super::mounted::MountedPlan;
use super::run::{IopingPlan, ProcessPlan, Role, run_ioping};
use crate::StudyError;
use crate::block_choice::{block_of, check_aging};
use crate::block_stack::{BlockStack, device_axes};
use crate::braces::{filled_in, names_in_braces};
use crate::flash_aging::FRESH;
use crate::raw_host::{RawHost, check_flash_states};
use crate::setting_axes::{is_of_scheduler, scheduler_axes};
use crate::study_file::Study;
use crate::study_parts::refuse;
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, RunContext, WorkloadKind,
};
use ::ioping::{Access, Options, PROFILES, Target, find_profile};
use ::jobs::Region;

/// Axes that mean something to such a study; all others only fill in the options of ioping.
const IOPING_AXES: [&str; 4] = ["scheduler", "device", "mechanism", "profile"];

/// The same for a study of file systems.
const FILE_SYSTEM_AXES: [&str; 8] =
    ["block_device", "board", "device", FILE_SYSTEM, "flash", "part", "profile", "scheduler"];

/// The axis of the file system that the target is on.
const FILE_SYSTEM: &str = "file_system";

/// Its value for the device itself, as without the axis.
const NO_FILE_SYSTEM: &str = "none";

/// The version that is run unless the axis `profile` names another.
const PROFILE: &str = "v1.3";

/// Processes of a run: each takes memory.
const PROCESSES_MAX: u32 = 1024;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "ioping",
    summary: "ioping over a scheduler and a block device, or on a file system: [host] and `options`",
    keys: &["options", "readers", "writers", "mixed"],
    axes,
    has_timeline: true,
    columns: &["role"],
    check,
    plan: |study, values| {
        Ok(match values.get(FILE_SYSTEM) {
            None | Some(&NO_FILE_SYSTEM) => Box::new(plan(study, values)?),
            Some(_) => Box::new(plan_on_mount(study, values)?),
        })
    },
};

fn axes(study: &Study) -> KnownAxes {
    let options = study.workload.options.as_deref().unwrap_or_default();
    let of_study = names_in_braces(options).chain(scheduler_axes(study)).chain(device_axes(study));
    let own: &[&str] = if has_file_systems(study) { &FILE_SYSTEM_AXES } else { &IOPING_AXES };
    KnownAxes { own, of_study: of_study.collect(), ..KnownAxes::default() }
}

fn has_file_systems(study: &Study) -> bool {
    study.axes.contains_key(FILE_SYSTEM)
}

/// A value of the axis is the device itself.
fn has_device_itself(study: &Study) -> bool {
    let of_extra_runs = study.extra_runs.iter().filter_map(|extra| extra.axes.get(FILE_SYSTEM));
    let mut values = study.axes.get(FILE_SYSTEM).into_iter().chain(of_extra_runs).flatten();
    values.any(|value| value.to_string() == NO_FILE_SYSTEM)
}

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// Checks what does not depend on a combination of axis values.
///
/// # Errors
/// Parts that mean nothing to ioping; a missing command line or axis; a number of processes out of range.
fn check(study: &Study) -> Result<(), StudyError> {
    refuse(study, &["job", "limits", "timeline"])?;
    if has_file_systems(study) {
        check_flash_states(study)?;
        if !has_device_itself(study) {
            let of_host = study.host.as_ref().and_then(|host| host.device.as_ref());
            let of_host = of_host.map(|_| "host.device".to_owned());
            let axes = study.axes.contains_key("device").then(|| "device".to_owned());
            let mut axes = axes.into_iter().chain(device_axes(study));
            if let Some(place) = of_host.or_else(|| axes.next().map(|axis| format!("axes.{axis}")))
            {
                let reason = "is for ioping on a device itself: the device under a file system is `block_device`";
                return wrong(&place, reason);
            }
        }
    } else {
        refuse(study, &["host.block_device"])?;
    }
    let workload = &study.workload;
    if workload.options.is_none() {
        return wrong("workload", "kind `ioping` needs `options`, the command line of ioping");
    }
    if !has_file_systems(study) && !study.axes.contains_key("scheduler") {
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
    let options = options_of(study, values)?;
    let roles = roles(study, options.access)?;
    let processes = regions(&stack, &options, roles.len() as u64)?;
    let processes = roles.into_iter().zip(processes);
    let processes = processes.map(|(role, region)| ProcessPlan { role, region }).collect();
    Ok(IopingPlan { stack, options, processes })
}

/// Resolves one combination of axis values that names a file system.
///
/// # Errors
/// As [`plan`]; a target that no file system has.
fn plan_on_mount(study: &Study, values: &Combination<'_>) -> Result<MountedPlan, StudyError> {
    // The axis `profile` names the version of the tool here; that of the file system follows from the kernel.
    let mut of_host = values.clone();
    of_host.remove("profile");
    let host = RawHost::of(study, &of_host)?;
    let block = block_of(study, values, host.kind)?;
    let options = options_of(study, values)?;
    let flash = host.flash(study, values.get("flash").copied().unwrap_or(FRESH))?;
    check_aging(&block, flash.aging.is_some())?;
    let file_bytes = study.host.as_ref().map_or(0, |host| host.free_bytes);
    check_target(&options, file_bytes)?;
    let roles = roles(study, options.access)?;
    let meets_scheduler = host.kind.is_on_block_device;
    let others = values.iter().filter(|(axis, _)| meets_scheduler || !is_of_scheduler(axis));
    let work_key = others.map(|(_, value)| (*value).to_owned()).collect();
    Ok(MountedPlan { host, flash, block, options, roles, file_bytes, work_key })
}

/// Checks that a file system has the target, and that requests fit into it.
fn check_target(options: &Options, file_bytes: u64) -> Result<(), StudyError> {
    let place = "workload.options";
    match options.target {
        Target::Device => {
            let reason = "a file system has no target `device`: end with `directory` or `file`, or leave \
                          the axis `file_system` at `none`";
            return wrong(place, reason);
        }
        Target::File if file_bytes == 0 => {
            let reason = "is missing: the target `file` is not there without it, which is written before the run";
            return wrong("host.free_bytes", reason);
        }
        Target::File => {
            options.working_set_on(file_bytes).or_else(|error| wrong(place, error.to_string()))?;
        }
        Target::Directory => {}
    }
    let places = [options.size_bytes, options.offset_bytes, options.working_set_bytes.unwrap_or(0)];
    let are_pages = places.iter().all(|bytes| bytes.is_multiple_of(page_cache::PAGE_BYTES));
    if options.is_direct && !are_pages {
        let reason = format!(
            "-s, -o and -S must be multiples of {} bytes with -D on a file system; single sectors are not \
             modelled",
            page_cache::PAGE_BYTES
        );
        return wrong(place, reason);
    }
    Ok(())
}

/// The command line, in the words of its version.
fn options_of(study: &Study, values: &Combination<'_>) -> Result<Options, StudyError> {
    let name = values.get("profile").copied().unwrap_or(PROFILE);
    let Some(profile) = find_profile(name) else {
        let known = PROFILES.iter().map(|profile| profile.name);
        return Err(StudyError::unknown("profile of ioping", name, known));
    };
    let text = study.workload.options.as_deref().unwrap_or_default();
    Options::parse(&filled_in(text, values), profile)
        .or_else(|error| wrong("workload.options", error.to_string()))
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
