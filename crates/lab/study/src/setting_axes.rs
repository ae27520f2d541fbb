//! Axes that are settings: of translation layers, of the chip's shape, of schedulers.
//!
//! An axis called after a setting varies it for every candidate that has it; a candidate that has it not is the same for
//! all its values. `page.cleaning`, with the name of a layer or scheduler in front, varies it for that one alone.

use crate::StudyError;
use crate::ftl_device::{DeviceOptions, find_layer};
use crate::study_file::Study;
use ftl::{COMMON_PARAMETERS, Parameter, Settings, Value, find_ftl};
use sched::{SCHEDULERS, SchedulerEntry};
use std::collections::{BTreeMap, BTreeSet};

/// Axes of the chip's shape.
pub(crate) const SHAPE_AXES: [&str; 2] = ["blocks", "pages_per_block"];

/// True if the axis `axis` varies the setting `name` of `owner`.
fn is_setting(axis: &str, owner: &str, name: &str) -> bool {
    // The last dot divides: names of schedulers such as `cfq-3.4` hold dots, names of settings do not.
    axis == name || axis.rsplit_once('.') == Some((owner, name))
}

/// Names of axes that vary the settings `names` of `owner`.
fn names_of<'a>(owner: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.flat_map(|name| [name.to_owned(), format!("{owner}.{name}")]).collect()
}

fn layer_parameters(own: &'static [Parameter]) -> impl Iterator<Item = &'static str> {
    COMMON_PARAMETERS.iter().chain(own).map(|parameter| parameter.name)
}

/// Axes that vary a setting of a layer that the study names.
pub(crate) fn layer_axes(study: &Study) -> BTreeSet<String> {
    let named: BTreeSet<String> =
        study.axes.get("ftl").into_iter().flatten().map(ToString::to_string).collect();
    // A setting of a layer that is not run would be an axis that varies nothing.
    let entries = named.iter().filter_map(|name| find_ftl(name));
    entries.flat_map(|entry| names_of(entry.name, layer_parameters(entry.parameters))).collect()
}

/// Axes that vary a tunable of a scheduler that the study names.
pub(crate) fn scheduler_axes(study: &Study) -> BTreeSet<String> {
    let on_axis = |axes: &BTreeMap<String, Vec<_>>| -> Vec<String> {
        axes.get("scheduler").into_iter().flatten().map(ToString::to_string).collect()
    };
    let of_extra_runs = study.extra_runs.iter().flat_map(|extra| on_axis(&extra.axes));
    let mut found = BTreeSet::new();
    for name in on_axis(&study.axes).into_iter().chain(of_extra_runs) {
        // A variant has the tunables of its scheduler, under its own name.
        let variant = study.scheduler_variants.get(&name);
        let base = variant.map_or(name.as_str(), |variant| variant.scheduler.as_str());
        if let Some(entry) = SCHEDULERS.iter().find(|entry| entry.name == base) {
            found.extend(names_of(&name, tunables(entry)));
        }
    }
    found
}

/// True of the axis `scheduler`, and of those that vary tunables.
pub(crate) fn is_of_scheduler(axis: &str) -> bool {
    let name = axis.rsplit_once('.').map_or(axis, |(_, name)| name);
    axis == "scheduler"
        || SCHEDULERS.iter().any(|entry| tunables(entry).any(|tunable| tunable == name))
}

fn tunables(entry: &SchedulerEntry) -> impl Iterator<Item = &'static str> {
    entry.tunables().map(|parameter| parameter.name)
}

/// Takes the settings of the device's layer, and its shape, from the values of axes.
///
/// `is_of_file` says which axes only fill in the name of a trace.
///
/// # Errors
/// [`StudyError::Study`] with the axis, for a shape that is no number or a setting that is out of range.
pub(crate) fn apply_to_device<'a>(
    device: &mut DeviceOptions,
    values: impl Iterator<Item = (&'a str, &'a str)>,
    is_of_file: impl Fn(&str) -> bool,
) -> Result<(), StudyError> {
    let layer = find_layer(&device.ftl)?;
    for (axis, value) in values.filter(|(axis, _)| !is_of_file(axis)) {
        let shape = match axis {
            "blocks" => Some(&mut device.blocks),
            "pages_per_block" => Some(&mut device.pages_per_block),
            _ => None,
        };
        if let Some(shape) = shape {
            *shape = Some(value.parse().map_err(|_| StudyError::Study {
                place: format!("axes.{axis}"),
                reason: format!("`{value}` is no whole number; give a number of {}", what(axis)),
            })?);
            continue;
        }
        let parameters = layer_parameters(layer.parameters);
        for name in parameters.filter(|name| is_setting(axis, layer.name, name)) {
            device.settings.insert(name.to_owned(), Value::from(value));
            // Checked one by one, so that the message names the axis.
            Settings::new(layer.parameters, &device.settings).map_err(|error| {
                StudyError::Study { place: format!("axes.{axis}"), reason: error.to_string() }
            })?;
        }
    }
    Ok(())
}

fn what(axis: &str) -> &'static str {
    if axis == "blocks" { "blocks" } else { "pages" }
}

/// The tunables of the scheduler called `name` that the values of axes set.
pub(crate) fn scheduler_settings(
    entry: &SchedulerEntry,
    name: &str,
    values: &BTreeMap<&str, &str>,
) -> BTreeMap<String, Value> {
    let mut given = BTreeMap::new();
    for (axis, value) in values {
        for tunable in tunables(entry).filter(|tunable| is_setting(axis, name, tunable)) {
            given.insert(tunable.to_owned(), Value::from(*value));
        }
    }
    given
}
