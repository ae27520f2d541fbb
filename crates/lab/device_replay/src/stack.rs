//! The devices and schedulers that a trace is replayed on, one beside the other.

use crate::options::ReplayOptions;
use crate::outcome::Outcome;
use crate::player::{ReplayError, replay};
use device::{BlockDevice, DeviceSpec, Preconditioning, SpecError, Steadiness};
use sched::{SchedulerEntry, find_scheduler, scheduler_names};
use serde::Serialize;
use std::collections::BTreeMap;
use suggestion::hint;
use thiserror::Error;

/// Stacks to replay a trace on: each layer under each scheduler.
#[derive(Clone, Debug)]
pub struct Stacks {
    /// Name of a device, or a device file.
    pub device: String,
    /// Keys of the device that are changed.
    pub changes: BTreeMap<String, String>,
    /// Translation layers; empty for that of the device.
    pub ftls: Vec<String>,
    /// Schedulers.
    pub schedulers: Vec<String>,
    /// What the device holds.
    pub preconditioning: Preconditioning,
}

/// A trace on one of the stacks.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The translation layer; none of a device without flash.
    pub ftl: Option<String>,
    /// How the device came to its state; none where that was not asked for.
    pub steadiness: Option<Steadiness>,
    /// What became of the trace.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Why stacks could not be built or replayed on.
#[derive(Debug, Error)]
pub enum StackError {
    /// The device.
    #[error(transparent)]
    Device(#[from] SpecError),
    /// The preconditioning came to the end of the device's life.
    #[error("device `{device}`: {reason}")]
    Precondition {
        /// Name of the device.
        device: String,
        /// What the layer said.
        reason: String,
    },
    /// A scheduler that does not exist.
    #[error("no scheduler is called `{name}`{hint}; known: {known}")]
    Scheduler {
        /// Name that was given.
        name: String,
        /// A near name, as a half sentence.
        hint: String,
        /// All names.
        known: String,
    },
    /// A translation layer that does not exist.
    #[error("no translation layer is called `{name}`{hint}; known: {known}")]
    Ftl {
        /// Name that was given.
        name: String,
        /// A near name, as a half sentence.
        hint: String,
        /// All names.
        known: String,
    },
    /// A timeline shows one stack.
    #[error(
        "--timeline shows one stack, and {stacks} are asked for: name one layer and one scheduler"
    )]
    OneTimeline {
        /// Stacks that were asked for.
        stacks: usize,
    },
    /// A device without flash has no translation layer to choose.
    #[error("device `{device}` has no flash: leave --ftl out")]
    NoFlash {
        /// Name of the device.
        device: String,
    },
    /// The replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// The device of a name, or of a file.
///
/// # Errors
/// [`SpecError`] of a name that does not exist, or a file that cannot be read.
pub fn device_of(stacks: &Stacks) -> Result<DeviceSpec, SpecError> {
    let mut spec = device::find_or_load(&stacks.device)?;
    for (key, value) in &stacks.changes {
        spec.set(key, value)?;
    }
    Ok(spec)
}

fn scheduler_of(name: &str) -> Result<&'static SchedulerEntry, StackError> {
    find_scheduler(name).ok_or_else(|| StackError::Scheduler {
        name: name.to_owned(),
        hint: hint(name, scheduler_names()),
        known: scheduler_names().collect::<Vec<_>>().join(", "),
    })
}

/// The key of a device that stands for a parameter of its layer.
fn setting(name: &str) -> String {
    format!("flash.settings.{name}")
}

/// The device with this layer on its dies; `changes` are the keys that were asked for.
///
/// # Errors
/// [`StackError::NoFlash`]; [`StackError::Ftl`], with a suggestion.
pub fn with_ftl(
    spec: &DeviceSpec,
    name: &str,
    changes: &BTreeMap<String, String>,
) -> Result<DeviceSpec, StackError> {
    if ftl::find_ftl(name).is_none() {
        let names: Vec<&str> = ftl::FTLS.iter().map(|entry| entry.name).collect();
        let hint = hint(name, names.iter().copied());
        return Err(StackError::Ftl { name: name.to_owned(), hint, known: names.join(", ") });
    }
    if spec.flash.is_none() {
        return Err(StackError::NoFlash { device: spec.name.clone() });
    }
    let mut spec = spec.clone();
    spec.set("flash.ftl", name)?;
    // What the device says of its own layer, another one may not know.
    if let (Some(flash), Some(entry)) = (&mut spec.flash, ftl::find_ftl(name)) {
        let is_known = |key: &str| {
            let all = entry.parameters.iter().chain(ftl::COMMON_PARAMETERS);
            all.into_iter().any(|parameter| parameter.name == key)
        };
        flash.settings.retain(|key, _| is_known(key) || changes.contains_key(&setting(key)));
    }
    Ok(spec)
}

/// A device as its preconditioning leaves it.
fn prepared(
    spec: &DeviceSpec,
    how: Preconditioning,
    seed: u64,
) -> Result<(Box<dyn BlockDevice>, Option<Steadiness>), StackError> {
    let mut device = device::build(spec, seed)?;
    let Some(steps) = how.steps(seed) else { return Ok((device, None)) };
    let steadiness = device.precondition(&steps).map_err(|error| StackError::Precondition {
        device: spec.name.clone(),
        reason: error.to_string(),
    })?;
    Ok((device, steadiness))
}

/// Replays a trace on every stack: layer by layer, each under all schedulers on copies of one device.
///
/// # Errors
/// See [`StackError`].
pub fn replay_all(options: &ReplayOptions, stacks: &Stacks) -> Result<Vec<Run>, StackError> {
    // Names are checked before a large device is filled.
    let spec = device_of(stacks)?;
    let schedulers =
        stacks.schedulers.iter().map(|name| scheduler_of(name)).collect::<Result<Vec<_>, _>>()?;
    let mut specs = vec![spec.clone()];
    if !stacks.ftls.is_empty() {
        specs = stacks
            .ftls
            .iter()
            .map(|ftl| with_ftl(&spec, ftl, &stacks.changes))
            .collect::<Result<_, _>>()?;
    }
    let count = specs.len() * schedulers.len();
    if options.timeline.is_some() && count != 1 {
        return Err(StackError::OneTimeline { stacks: count });
    }
    let mut runs = Vec::new();
    // A device is prepared once for each layer: to fill it takes longer than most traces.
    for spec in &specs {
        let (device, steadiness) = prepared(spec, stacks.preconditioning, options.seed)?;
        for scheduler in &schedulers {
            let settings = scheduler.settings(&BTreeMap::new()).expect("its own defaults");
            let settings = settings.with_seed(options.seed);
            let outcome = replay(options, (scheduler, &settings), device.clone_box())?;
            let ftl = spec.flash.as_ref().map(|flash| flash.ftl.clone());
            runs.push(Run { ftl, steadiness, outcome });
        }
    }
    Ok(runs)
}
