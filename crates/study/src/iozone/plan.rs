//! From a study file and a combination of axis values to a run of IOzone.

use crate::StudyError;
use crate::block_choice::{block_of, check_history};
use crate::flash_history::{FRESH, FlashPlan};
use crate::raw_host::{RawHost, check_flash_states};
use crate::setting_axes::{is_of_scheduler, scheduler_axes};
use crate::study_file::Study;
use iozone::{Contents, Options};
use mount::BlockRequest;
use std::collections::BTreeMap;

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

/// A run of IOzone on a file system.
#[derive(Clone, Debug)]
pub(crate) struct IozoneRun {
    pub(crate) host: RawHost,
    pub(crate) flash: FlashPlan,
    pub(crate) options: Options,
    /// Times that IOzone is run in a row; the times of a test are summed.
    pub(crate) passes: u32,
    /// The block device and its scheduler, if the file system stands on one.
    pub(crate) block: BlockRequest,
    /// Options of the mount, in the kernel's words.
    pub(crate) mount_options: Vec<String>,
    /// What tells this run from others that do other work. The scheduler is not in it for a file system
    /// on raw NAND, which submits no bio, nor the cleaner for one that has none.
    pub(crate) work_key: Vec<String>,
}

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// Axes that a study of this kind may have.
pub(crate) fn iozone_axes(study: &Study) -> Vec<String> {
    let mut axes: Vec<String> = IOZONE_AXES.iter().map(|axis| (*axis).to_owned()).collect();
    let options = study.workload.options.as_deref().unwrap_or_default();
    // What stands in braces is an axis.
    for rest in options.split('{').skip(1) {
        axes.extend(rest.split_once('}').map(|(axis, _)| axis.to_owned()));
    }
    axes.extend(scheduler_axes(study));
    axes
}

/// Checks what does not depend on a combination of axis values.
///
/// # Errors
/// Keys that are missing or mean nothing to IOzone.
pub(crate) fn check_iozone_study(study: &Study) -> Result<(), StudyError> {
    if study.workload.options.is_none() {
        return wrong("workload", "kind `iozone` needs `options`, the command line of IOzone");
    }
    if !study.axes.contains_key("file_system") {
        return wrong("axes", "an axis `file_system` with at least one file system is missing");
    }
    check_flash_states(study)
}

/// Resolves one combination.
///
/// # Errors
/// Names that do not exist, with a suggestion; values that do not fit.
pub(crate) fn plan_iozone(
    study: &Study,
    values: &BTreeMap<&str, &str>,
) -> Result<IozoneRun, StudyError> {
    let value = |axis: &str| values.get(axis).copied();
    let host = RawHost::of(study, values)?;
    let block = block_of(study, values, host.kind)?;
    let options = options_of(study, values)?;
    let flash = host.flash(study, value("flash").unwrap_or(FRESH))?;
    check_history(&block, flash.history.is_some())?;
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
    Ok(IozoneRun { host, flash, options, passes, block, mount_options, work_key })
}

/// IOzone's command line with the axes' values in it.
pub(crate) fn options_of(
    study: &Study,
    values: &BTreeMap<&str, &str>,
) -> Result<Options, StudyError> {
    let text = study.workload.options.as_deref().unwrap_or_default();
    let filled = values
        .iter()
        .fold(text.to_owned(), |text, (axis, value)| text.replace(&format!("{{{axis}}}"), value));
    let place = "workload.options";
    let mut options = Options::parse(&filled).or_else(|error| wrong(place, error.to_string()))?;
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
