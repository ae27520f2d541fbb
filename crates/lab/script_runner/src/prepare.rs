//! What can be said of a script before it runs.

use crate::aging::check_age;
use crate::{RunnerError, Setup};
use file_systems::{KINDS, find_kind};
use mount::BlockDeviceChoice;
use script::{ControlLine, Given, Order, Place, Script, ScriptError, Step};

/// Longest `sleep` or `settle`: a year.
const MILLISECONDS_MAX: u64 = 366 * 24 * 3600 * 1000;

/// A script that can be carried out: every line makes sense after the lines before it, on this setup.
///
/// A script without mounts is given them, as [`script::with_mounts`] does.
///
/// # Errors
/// The first line that cannot be carried out, with the reason.
pub fn prepare(script: &Script, setup: &Setup) -> Result<Script, RunnerError> {
    let script = script::with_mounts(script);
    let mut order =
        Order::new(setup.kind.map(|kind| Given { name: kind.name, is_over_ubi: kind.is_over_ubi }));
    script.survey(&mut order, &mut |order, command| {
        let checked = check(&command.step, setup).and_then(|()| order.step(&command.step));
        checked.map_err(|reason| RunnerError::Line { place: command.place.clone(), reason })
    })?;
    for (place, period_ms, duration_ms) in script.timed_blocks() {
        // The last pass may take a whole period.
        let all_ms = duration_ms.saturating_add(period_ms);
        check_time(all_ms).map_err(|reason| RunnerError::Line { place, reason })?;
    }
    Ok(script)
}

impl From<ScriptError> for RunnerError {
    fn from(error: ScriptError) -> Self {
        Self::Line { place: Place::of_line(error.line), reason: error.reason }
    }
}

fn check_time(milliseconds: u64) -> Result<(), String> {
    if milliseconds > MILLISECONDS_MAX {
        return Err(format!("{milliseconds} ms is more than a year"));
    }
    Ok(())
}

/// What a line asks of the setup.
fn check(step: &Step, setup: &Setup) -> Result<(), String> {
    let profiled = |kind: &mount::Kind| {
        let found = kind.profile(setup.request.profile.as_deref());
        let fits = || kind.check_block_device(&setup.request.block.device);
        found.and_then(|_| fits()).map_err(|error| error.to_string())
    };
    let found = |name: &str| find_kind(name).map_err(|error| error.to_string());
    match step {
        Step::Control(ControlLine::Mount { file_system, source, options }) => {
            // `a,,b` would reach the file system as an option without a name.
            if options.iter().any(String::is_empty) {
                return Err("an option is empty: divide options by one comma, or write `-`".into());
            }
            let kind = found(file_system)?;
            kind.check_source(source)?;
            profiled(kind)
        }
        Step::Control(ControlLine::MountGiven { blocks }) => {
            let asked = || {
                let shown = KINDS.iter().filter(|kind| kind.is_shown).map(|kind| kind.name);
                let known = shown.collect::<Vec<_>>().join(", ");
                format!("which file system is mounted? give --fs: {known}")
            };
            profiled(setup.kind.ok_or_else(asked)?)?;
            let found = setup.part.geometry.blocks;
            match blocks.filter(|asked| *asked != found) {
                Some(asked) => {
                    Err(format!("the script wants {asked} blocks, but the chip has {found}"))
                }
                None => Ok(()),
            }
        }
        Step::Control(
            ControlLine::PowerCut
            | ControlLine::Snap(_)
            | ControlLine::Save(_)
            | ControlLine::Load(_)
            | ControlLine::RemoveChip
            | ControlLine::AddChip
            | ControlLine::Age { .. }
            | ControlLine::Wear { .. }
            | ControlLine::Scrub,
        ) if setup.request.block.device != BlockDeviceChoice::MtdBlock => {
            let device = setup.request.block.device.name();
            Err(format!(
                "the line is about the raw chip, and files are on `{device}`: leave it out"
            ))
        }
        Step::Control(ControlLine::Attach(_)) => {
            // The device is attached as the file systems over UBI would attach it.
            KINDS.iter().filter(|kind| kind.is_over_ubi).try_for_each(profiled)
        }
        Step::Control(ControlLine::Age { milliseconds, celsius }) => {
            check_age(*milliseconds, *celsius)
        }
        Step::Control(ControlLine::Settle { milliseconds }) | Step::Sleep { milliseconds } => {
            check_time(*milliseconds)
        }
        _ => Ok(()),
    }
}
