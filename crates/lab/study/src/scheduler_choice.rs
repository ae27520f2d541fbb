//! The scheduler that a study names, with its tunables.

use crate::StudyError;
use crate::setting_axes::scheduler_settings;
use crate::study_file::Study;
use sched::{SCHEDULERS, SchedulerEntry, Settings, Value, find_scheduler, scheduler_names};
use std::collections::BTreeMap;

/// The scheduler or variant of a name, with what axes and then a mechanism set on top of it.
///
/// # Errors
/// Names that do not exist, with a suggestion; values that do not fit.
pub(crate) fn scheduler_of(
    study: &Study,
    name: &str,
    mechanism: &str,
    values: &BTreeMap<&str, &str>,
) -> Result<(&'static SchedulerEntry, Settings), StudyError> {
    let variant = study.scheduler_variants.get(name);
    let base = variant.map_or(name, |variant| variant.scheduler.as_str());
    let entry = find_scheduler(base).ok_or_else(|| {
        let names: Vec<&str> = scheduler_names().collect();
        let variants = study.scheduler_variants.keys().map(String::as_str);
        StudyError::unknown("scheduler", base, names.into_iter().chain(variants))
    })?;
    let mut given: BTreeMap<String, Value> = BTreeMap::new();
    // The variant's tunables first: a mechanism sets its own on top.
    for (key, value) in variant.into_iter().flat_map(|variant| &variant.set) {
        given.insert(key.clone(), value.into());
    }
    given.extend(scheduler_settings(entry, name, values));
    let has =
        |entry: &SchedulerEntry, key: &str| entry.tunables().any(|parameter| parameter.name == key);
    for (key, value) in study.mechanisms.get(mechanism).into_iter().flat_map(|m| &m.scheduler) {
        // A mechanism may name tunables that this scheduler lacks; one that none has is a slip.
        if !SCHEDULERS.iter().any(|entry| has(entry, key)) {
            let known: Vec<&str> =
                SCHEDULERS.iter().flat_map(|e| e.tunables()).map(|p| p.name).collect();
            return Err(StudyError::unknown("tunable", key, known.into_iter()));
        }
        if has(entry, key) {
            given.insert(key.clone(), value.into());
        }
    }
    let settings = entry.settings(&given).map_err(|error| StudyError::Study {
        place: format!("scheduler {name}"),
        reason: error.to_string(),
    })?;
    Ok((entry, settings))
}
