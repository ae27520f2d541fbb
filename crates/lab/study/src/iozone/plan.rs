//! From a study file and a combination of axis values to a run of IOzone.

use super::run::{IozonePlan, run_iozone};
use crate::StudyError;
use crate::block_choice::{block_of, check_aging};
use crate::braces::{filled_in, names_in_braces};
use crate::flash_aging::FRESH;
use crate::raw_host::{RawHost, check_flash_states};
use crate::setting_axes::{is_of_scheduler, scheduler_axes};
use crate::study_file::Study;
use crate::study_parts::refuse;
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, RunContext, StackPlan, WorkloadKind,
};
use iozone::{Contents, Options};

/// Axes that mean something to such a study; all others only fill in the options of IOzone.
const IOZONE_AXES: [&str; 11] = [
    "block_device",
    "board",
    "cache",
    "cleaner",
    "data",
    "file_system",
    "flash",
    "part",
    "passes",
    "profile",
    "scheduler",
];

/// Times that IOzone may be run in a row.
const PASSES_MAX: u32 = 100;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "iozone",
    summary: "IOzone on file systems on raw NAND in simulated time: [host] and `options`",
    keys: &["options"],
    axes,
    has_timeline: true,
    columns: &["test"],
    check,
    plan: |study, values| Ok(Box::new(plan(study, values)?)),
};

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

fn axes(study: &Study) -> KnownAxes {
    let options = study.workload.options.as_deref().unwrap_or_default();
    let of_study = names_in_braces(options).chain(scheduler_axes(study)).collect();
    KnownAxes { own: &IOZONE_AXES, of_study, ..KnownAxes::default() }
}

/// Checks what does not depend on a combination of axis values.
///
/// # Errors
/// Keys that are missing or mean nothing to IOzone.
fn check(study: &Study) -> Result<(), StudyError> {
    refuse(study, &["limits"])?;
    if study.workload.options.is_none() {
        return wrong("workload", "kind `iozone` needs `options`, the command line of IOzone");
    }
    if !study.axes.contains_key("file_system") {
        return wrong("axes", "an axis `file_system` with at least one file system is missing");
    }
    check_flash_states(study)
}

/// Resolves one combination of axis values.
///
/// # Errors
/// Names that do not exist, with a suggestion; values that do not fit.
fn plan(study: &Study, values: &Combination<'_>) -> Result<IozonePlan, StudyError> {
    let value = |axis: &str| values.get(axis).copied();
    let host = RawHost::of(study, values)?;
    let block = block_of(study, values, host.kind)?;
    let options = options_of(study, values)?;
    let flash = host.flash(study, value("flash").unwrap_or(FRESH))?;
    check_aging(&block, flash.aging.is_some())?;
    let passes = value("passes").unwrap_or("1");
    let Some(passes) = passes.parse().ok().filter(|count| (1..=PASSES_MAX).contains(count)) else {
        return wrong("axes.passes", format!("`{passes}` must be a number, 1 to {PASSES_MAX}"));
    };
    let mount_options = match value("cleaner") {
        // With this option `mount.nilfs2` starts no cleaner.
        Some("off") if host.kind.has_cleaner => vec!["nogc".to_owned()],
        None | Some("off" | "on") => Vec::new(),
        Some(other) => {
            return Err(StudyError::unknown("cleaner", other, ["off", "on"].into_iter()));
        }
    };
    let matters = |axis: &str| match axis {
        "cleaner" => host.kind.has_cleaner,
        axis => host.kind.is_on_block_device || !is_of_scheduler(axis),
    };
    // What cannot change the work is no part of its key.
    let others = values.iter().filter(|(axis, _)| matters(axis));
    let work_key = others.map(|(_, value)| (*value).to_owned()).collect();
    Ok(IozonePlan { host, flash, options, passes, block, mount_options, work_key })
}

impl Plan for IozonePlan {
    fn carry_out(&self, context: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        let tests = run_iozone(self, context)?;
        Ok(tests.map(|tests| Measured { tests, ..Measured::default() }))
    }

    fn identity(&self, repeat: u32) -> Option<Identity> {
        Some(self.work_key.iter().cloned().chain([repeat.to_string()]).collect())
    }

    fn stack(&self) -> Option<StackPlan<'_>> {
        let Self { host, flash, block, mount_options, .. } = self;
        Some(StackPlan { host, flash, block, mount_options })
    }
}

/// IOzone's command line with the axes' values in it.
pub(crate) fn options_of(study: &Study, values: &Combination<'_>) -> Result<Options, StudyError> {
    let text = study.workload.options.as_deref().unwrap_or_default();
    let filled = filled_in(text, values);
    let place = "workload.options";
    let mut options = Options::parse(&filled).or_else(|error| wrong(place, error.to_string()))?;
    // `__dentry_open` of fs/open.c (Linux 2.6.32) refuses `O_DIRECT` where the file system's
    // `address_space_operations` have no `direct_IO`.
    if options.is_direct {
        return wrong(
            place,
            "-I: none of these file systems opens files with O_DIRECT here (EINVAL)",
        );
    }
    match values.get("cache").copied() {
        None => {}
        Some("cold") => options.remounts = true,
        Some("warm") if !options.remounts => {}
        Some("warm") => {
            return wrong(place, "-U makes the cache cold: leave it to the axis `cache`");
        }
        Some(other) => {
            return Err(StudyError::unknown("cache", other, ["cold", "warm"].into_iter()));
        }
    }
    match values.get("data").copied() {
        None => {}
        Some("pattern") => options.contents = Contents::Pattern,
        Some("random") => options.contents = Contents::Random { same_percent: 0 },
        Some(other) => {
            return Err(StudyError::unknown("data", other, ["pattern", "random"].into_iter()));
        }
    }
    Ok(options)
}
