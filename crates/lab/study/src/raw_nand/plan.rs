//! From a study file and a combination of axis values to a run of a test.

use super::contract::{Context, Needs, RawNandRun, Test};
use super::script_file::script_of;
use super::spec::Limits;
use super::table::TESTS;
use crate::StudyError;
use crate::block_choice::{block_of, check_aging};
use crate::flash_aging::FRESH;
use crate::iozone::options_of;
use crate::raw_host::{RawHost, check_flash_states};
use crate::run_timeline::RunTimeline;
use crate::setting_axes::{is_of_scheduler, scheduler_axes};
use crate::study_file::Study;
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, RunContext, StackPlan, WorkloadKind,
};
use file_workload::FileSet;
use iozone::Options;
use script::Script;

/// The axis whose values are names of `[limits.NAME]`.
const LIMITS_AXIS: &str = "limits";

/// Its column in the results. Recorded results, their claims and their digests have this name.
const LIMITS_COLUMN: &str = "room";

/// The axis whose values are files of scripts; the key of that name in `[workload]` stands for one value.
const SCRIPT_AXIS: &str = "script";

/// Axes of such a study, beside the tunables of its schedulers.
const RAW_NAND_AXES: [&str; 17] = [
    "block_device",
    "board",
    "data",
    "file_mib",
    "file_set",
    "file_system",
    "files",
    "flash",
    LIMITS_AXIS,
    "operations",
    "part",
    "profile",
    "rate_kib_per_s",
    "scheduler",
    SCRIPT_AXIS,
    "test",
    "written_mib",
];

/// Axes that only some tests have.
const AXES_OF_TESTS: [&str; 8] = [
    "data",
    "file_mib",
    "file_set",
    "files",
    "operations",
    "rate_kib_per_s",
    SCRIPT_AXIS,
    "written_mib",
];

/// Value of an axis that means nothing to a test.
const NOT_ASKED: &str = "-";

/// Flash and memory as chip and board have them.
const WHOLE: &str = "whole";

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "raw-nand",
    summary: "tests of file systems on raw NAND, named by the axis `test`: [host] and [limits]",
    keys: &["options", "capacity_bytes", "script"],
    axes,
    has_timeline: true,
    columns: &["phase"],
    check,
    plan: |study, values| Ok(Box::new(plan(study, values)?)),
};

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

fn axes(study: &Study) -> KnownAxes {
    let of_study = scheduler_axes(study).into_iter().collect();
    let advice = |axis: &str| {
        if axis == LIMITS_COLUMN {
            return format!("; axis `{axis}` is now called `{LIMITS_AXIS}`: rename it");
        }
        String::new()
    };
    KnownAxes {
        own: &RAW_NAND_AXES,
        of_study,
        columns: &[(LIMITS_AXIS, LIMITS_COLUMN)],
        advice: Some(advice),
    }
}

/// Checks what does not depend on a combination of axis values.
///
/// # Errors
/// Keys that are missing or mean nothing to such a study.
fn check(study: &Study) -> Result<(), StudyError> {
    // No default: a study that forgot one of them would time something else than it says.
    for axis in ["file_system", "test"] {
        if !study.axes.contains_key(axis) {
            return wrong("axes", format!("an axis `{axis}` with at least one value is missing"));
        }
    }
    if study.limits.contains_key(WHOLE) {
        return wrong(
            "limits",
            "`whole` is chip and board as they are and cannot mean anything else",
        );
    }
    check_flash_states(study)
}

/// Resolves one combination of axis values.
///
/// # Errors
/// Names that do not exist, with a suggestion; values that do not fit.
fn plan(study: &Study, values: &Combination<'_>) -> Result<RawNandRun, StudyError> {
    let value = |axis: &str| values.get(axis).copied();
    let named = value("test").unwrap_or_default();
    let Some(test) = TESTS.iter().find(|test| test.name == named) else {
        return Err(StudyError::unknown("test", named, TESTS.iter().map(|test| test.name)));
    };
    check_axes(test, values)?;
    let mut host = RawHost::of(study, values)?;
    let limits_name = value(LIMITS_AXIS).unwrap_or(WHOLE);
    let limits = limits_of(study, limits_name)?;
    let place = format!("limits.{limits_name}");
    // Before the flash is planned: aging fills the partition, not the chip.
    let RawHost { part, board, .. } = &mut host;
    limits.apply(&mut part.geometry, board).or_else(|reason| wrong(&place, reason))?;
    let flash_name = value("flash").unwrap_or(FRESH);
    let flash = match limits.filling() {
        Some(_) if flash_name != FRESH => {
            return wrong(&place, "free_mib fills fresh flash: leave the axis `flash` at `fresh`");
        }
        Some(aging) => host.flash_with(Some(aging), limits_name),
        None => host.flash(study, flash_name)?,
    };
    let block = block_of(study, values, host.kind)?;
    check_aging(&block, flash.aging.is_some())?;
    // Such a test reads the counters of the chip, and a card's chips are none of the machine's.
    if !test.has_block_device && block.device != mount::BlockDeviceChoice::MtdBlock {
        let needs = format!("test `{}` needs the chip itself", test.name);
        let name = host.kind.name;
        return if host.kind.usual_block_device == mount::MTDBLOCK {
            wrong("block_device", format!("{needs}: leave it at `mtdblock`"))
        } else {
            wrong("file_system", format!("{needs}, on which `{name}` never stands: leave it out"))
        };
    }
    // 0 where a test has no such axis, which `check_axes` has made sure of.
    let number = |axis: &str| count(values, axis);
    let (benchmark, script) = work_of(study, values, test)?;
    // Only bios to a block device meet a scheduler.
    let meets_scheduler = host.kind.is_on_block_device;
    let others = values.iter().filter(|(axis, _)| meets_scheduler || !is_of_scheduler(axis));
    let work_key = others.map(|(_, value)| (*value).to_owned()).collect();
    Ok(RawNandRun {
        test,
        flash,
        mount_options: limits.mount_options,
        benchmark,
        file_set: file_set(values)?,
        operations: number("operations")?,
        capacity_bytes: study.workload.capacity_bytes,
        script,
        block,
        work_key,
        files: number("files")?,
        rate_kib_per_s: number("rate_kib_per_s")?,
        written_bytes: u64::from(number("written_mib")?) << 20,
        host,
    })
}

impl Plan for RawNandRun {
    fn carry_out(&self, run: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        if (run.stopped)() {
            return Ok(None);
        }
        let prepared = &run.prepared.flash;
        let timeline = RunTimeline::begin(run)?;
        let (study_seed, seed, watcher) = (run.study_seed, run.seed(), timeline.watcher());
        let context = Context { prepared, study_seed, seed, watcher };
        let tests = (self.test.carry_out)(self, &context)?;
        timeline.finish()?;
        Ok(Some(Measured { tests, ..Measured::default() }))
    }

    fn identity(&self, repeat: u32) -> Option<Identity> {
        Some(self.work_key.iter().cloned().chain([repeat.to_string()]).collect())
    }

    fn why_no_timeline(&self) -> Option<String> {
        let name = self.test.name;
        (!self.test.takes_time).then(|| format!("nothing takes time in test `{name}`"))
    }

    fn stack(&self) -> Option<StackPlan<'_>> {
        let Self { host, flash, block, mount_options, .. } = self;
        Some(StackPlan { host, flash, block, mount_options })
    }
}

/// The limits of a name on their axis.
///
/// # Errors
/// [`StudyError::Unknown`] for a name that does not exist, with a suggestion.
fn limits_of(study: &Study, name: &str) -> Result<Limits, StudyError> {
    match study.limits.get(name) {
        Some(limits) => Ok(limits.clone()),
        // A study need not have a table for what changes nothing.
        None if name == WHOLE => Ok(Limits::default()),
        None => {
            let known = study.limits.keys().map(String::as_str).chain([WHOLE]);
            Err(StudyError::unknown("limits", name, known))
        }
    }
}

/// What the test does: IOzone's command line, or a script.
fn work_of(
    study: &Study,
    values: &Combination<'_>,
    test: &Test,
) -> Result<(Option<Options>, Script), StudyError> {
    let nothing = Script::default;
    let (options, script) = (&study.workload.options, &study.workload.script);
    match (test.needs, options, script) {
        (Needs::Nothing, ..) => Ok((None, nothing())),
        (Needs::Script, Some(_), _) => {
            wrong("workload.options", "test `script` takes a script: leave `options` out")
        }
        (Needs::Script, None, key) => {
            let file = study.file_of(chosen_script(values, key.as_deref())?);
            Ok((None, script_of(&file)?))
        }
        (Needs::Options | Needs::OptionsOrScript, Some(_), None) => {
            let options = options_of(study, values)?;
            if test.needs == Needs::OptionsOrScript && options.remounts {
                return wrong("workload.options", "-U: this test mounts by itself; leave it out");
            }
            Ok((Some(options), nothing()))
        }
        (Needs::OptionsOrScript, None, Some(file)) => Ok((None, script_of(&study.file_of(file))?)),
        (Needs::Options, ..) => {
            let name = test.name;
            wrong("workload", format!("test `{name}` needs `options`, the command line of IOzone"))
        }
        (Needs::OptionsOrScript, ..) => {
            let name = test.name;
            let reason = format!(
                "test `{name}` needs `script`, a file of system calls, or `options`, the command line of \
                 IOzone, and not both"
            );
            wrong("workload", reason)
        }
    }
}

/// The file of the script: a value of the axis, or the key.
///
/// # Errors
/// Both, or neither.
fn chosen_script<'a>(
    values: &Combination<'a>,
    key: Option<&'a str>,
) -> Result<&'a str, StudyError> {
    let of_axis = values.get(SCRIPT_AXIS).copied().filter(|value| *value != NOT_ASKED);
    match (of_axis, key) {
        (Some(file), None) | (None, Some(file)) => Ok(file),
        (Some(_), Some(_)) => wrong(
            "workload.script",
            "the axis `script` names scripts, too: leave one of the two out",
        ),
        (None, None) => wrong(
            "workload",
            "test `script` needs `script`, a file of system calls, or an axis `script` of such files",
        ),
    }
}

/// An axis that a test has must have a value, any other must not.
fn check_axes(test: &Test, values: &Combination<'_>) -> Result<(), StudyError> {
    // All tests of a study share its columns, so a test has a value even for axes of others: `-`.
    for axis in AXES_OF_TESTS {
        let given = values.get(axis).copied().filter(|value| *value != NOT_ASKED);
        let place = format!("axes.{axis}");
        if given.is_some() && !test.axes.contains(&axis) {
            let reason = format!("means nothing to test `{}`: set it to `-` there", test.name);
            return wrong(&place, reason);
        }
        // The key of the workload may stand for the axis: `chosen_script` looks at both.
        let may_be_key = axis == SCRIPT_AXIS;
        if given.is_none() && test.axes.contains(&axis) && !may_be_key {
            return wrong(&place, format!("test `{}` needs a value", test.name));
        }
    }
    Ok(())
}

/// The file set on an axis; none where the axis means nothing.
fn file_set(values: &Combination<'_>) -> Result<Option<FileSet>, StudyError> {
    let name = values.get("file_set").copied().filter(|value| *value != NOT_ASKED);
    let found = name.map(FileSet::named).transpose();
    found.or_else(|reason| wrong("axes.file_set", reason))
}

/// A whole number on an axis; 0 where the axis means nothing.
fn count(values: &Combination<'_>, axis: &str) -> Result<u32, StudyError> {
    match values.get(axis) {
        None | Some(&NOT_ASKED) => Ok(0),
        Some(text) => {
            text.parse().ok().filter(|count| (1..=1_000_000).contains(count)).map_or_else(
                || {
                    wrong(
                        &format!("axes.{axis}"),
                        format!("`{text}` must be a number, 1 to 1000000"),
                    )
                },
                Ok,
            )
        }
    }
}
