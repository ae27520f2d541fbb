//! From a study file and a combination of axis values to a run of IOzone.

use super::spec::FlashState;
use crate::StudyError;
use crate::ftl_device::find_part_or_file;
use crate::jobs::find_board;
use crate::study_file::Study;
use board::Board;
use iozone::{Contents, Options};
use mount::{Kind, find_kind};
use mtd::{LAYOUTS, OobLayout};
use nand::Part;
use sched::{find_scheduler, scheduler_names};
use std::collections::BTreeMap;

/// Axes that mean something to such a study; all others only fill in the options of IOzone.
const IOZONE_AXES: [&str; 9] =
    ["board", "cache", "data", "file_system", "flash", "part", "passes", "profile", "scheduler"];

/// Flash as the tool that formats it leaves it.
pub(crate) const FRESH: &str = "fresh";

/// Times that IOzone may be run in a row.
const PASSES_MAX: u32 = 100;

/// A run of IOzone on a file system.
#[derive(Clone, Debug)]
pub(crate) struct IozoneRun {
    pub(crate) kind: &'static Kind,
    pub(crate) profile: &'static str,
    pub(crate) board: Board,
    pub(crate) part: Part,
    pub(crate) layout: &'static OobLayout,
    pub(crate) options: Options,
    /// Times that IOzone is run in a row; the times of a test are summed.
    pub(crate) passes: u32,
    /// None for fresh flash.
    pub(crate) history: Option<FlashState>,
    /// What tells this flash from others.
    pub(crate) flash_key: String,
    /// What tells this run from others that do other work. The scheduler is not in it: it has no
    /// path to a file system on raw NAND, which submits no bio.
    pub(crate) work_key: Vec<String>,
}

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// Axes that a study of this kind may have.
pub(crate) fn iozone_axes(study: &Study) -> Vec<String> {
    let mut axes: Vec<String> = IOZONE_AXES.iter().map(|axis| (*axis).to_owned()).collect();
    let options = study.workload.options.as_deref().unwrap_or_default();
    for rest in options.split('{').skip(1) {
        axes.extend(rest.split_once('}').map(|(axis, _)| axis.to_owned()));
    }
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
    for (name, state) in &study.flash_states {
        let place = format!("flash_states.{name}");
        state.check().or_else(|reason| wrong(&place, reason))?;
        if name == FRESH {
            return wrong(&place, "`fresh` is the formatted flash and cannot mean anything else");
        }
    }
    let given = [
        ("job", !study.jobs.is_empty()),
        ("mechanisms", !study.mechanisms.is_empty()),
        ("timeline", study.timeline.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((key, _)) => wrong(key, "means nothing to workload kind `iozone`"),
        None => Ok(()),
    }
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
    let kind = find_kind(value("file_system").unwrap_or_default()).map_err(|_| {
        let known = mount::KINDS.iter().map(|kind| kind.name);
        StudyError::unknown("file system", value("file_system").unwrap_or_default(), known)
    })?;
    let host = study.host.as_ref();
    let Some(board) = value("board").or(host.map(|host| host.board.as_str())) else {
        return wrong("host", "name a board in [host], or make `board` an axis");
    };
    let mut board = find_board(board)?;
    if let Some(host) = host {
        board.hz = host.hz.unwrap_or(board.hz);
        board.kernel = host.kernel.clone().unwrap_or(board.kernel);
        board.check().or_else(|reason| wrong("host", reason))?;
    }
    let own = format!("linux-{}", board.kernel);
    let asked = value("profile")
        .map(str::to_owned)
        .or_else(|| kind.profiles.contains(&own.as_str()).then_some(own));
    let profile =
        kind.profile(asked.as_deref()).or_else(|error| wrong("profile", error.to_string()))?;
    check_scheduler(study, value("scheduler"))?;
    let part = value("part").or(study.part.as_deref());
    let Some(part) = part else {
        return wrong("part", "name the chip, or make `part` an axis");
    };
    let mut part = find_part_or_file(part)?;
    part.geometry.blocks = study.blocks.unwrap_or(part.geometry.blocks);
    let layout = layout_of(&part)?;
    let options = options_of(study, values)?;
    let flash = value("flash").unwrap_or(FRESH);
    let history = match study.flash_states.get(flash) {
        Some(state) => Some(state.clone()),
        None if flash == FRESH => None,
        None => {
            let known = study.flash_states.keys().map(String::as_str).chain([FRESH]);
            return Err(StudyError::unknown("state of the flash", flash, known));
        }
    };
    let passes = value("passes").unwrap_or("1");
    let Some(passes) = passes.parse().ok().filter(|count| (1..=PASSES_MAX).contains(count)) else {
        return wrong("axes.passes", format!("`{passes}` must be a number, 1 to {PASSES_MAX}"));
    };
    let flash_key = [kind.name, profile, &part.name, flash].join(" ");
    let others = values.iter().filter(|(axis, _)| **axis != "scheduler");
    let work_key = others.map(|(_, value)| (*value).to_owned()).collect();
    Ok(IozoneRun {
        kind,
        profile,
        board,
        part,
        layout,
        options,
        passes,
        history,
        flash_key,
        work_key,
    })
}

/// The scheduler must exist although none of these file systems meets it.
fn check_scheduler(study: &Study, name: Option<&str>) -> Result<(), StudyError> {
    let Some(name) = name else { return Ok(()) };
    let variant = study.scheduler_variants.get(name);
    let base = variant.map_or(name, |variant| variant.scheduler.as_str());
    if find_scheduler(base).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = scheduler_names().collect();
    let variants = study.scheduler_variants.keys().map(String::as_str);
    Err(StudyError::unknown("scheduler", base, names.into_iter().chain(variants)))
}

/// Linux's own layout of the spare area for pages of this size.
fn layout_of(part: &Part) -> Result<&'static OobLayout, StudyError> {
    let geometry = &part.geometry;
    let fits = |layout: &&OobLayout| {
        (layout.page_bytes, layout.oob_bytes) == (geometry.page_data_bytes, geometry.page_oob_bytes)
            && layout.name.starts_with("linux")
    };
    LAYOUTS.iter().find(fits).ok_or_else(|| StudyError::Study {
        place: "part".into(),
        reason: format!(
            "{}: no layout of the spare area for pages of {} + {} bytes is known",
            part.name, geometry.page_data_bytes, geometry.page_oob_bytes
        ),
    })
}

/// IOzone's command line with the axes' values in it.
fn options_of(study: &Study, values: &BTreeMap<&str, &str>) -> Result<Options, StudyError> {
    let text = study.workload.options.as_deref().unwrap_or_default();
    let filled = values
        .iter()
        .fold(text.to_owned(), |text, (axis, value)| text.replace(&format!("{{{axis}}}"), value));
    let place = "workload.options";
    let mut options = Options::parse(&filled).or_else(|error| wrong(place, error.to_string()))?;
    if options.is_direct {
        return wrong(place, "-I: no file system on raw NAND opens files with O_DIRECT (EINVAL)");
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
