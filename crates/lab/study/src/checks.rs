//! Everything about a study that can be found wrong before it runs.

use crate::StudyError;
use crate::ftl_device::find_layer;
use crate::layers::DEFAULT_SETTINGS;
use crate::study_file::Study;
use crate::values::AxisValue;
use crate::workload::contract::{KnownAxes, WorkloadKind};
use crate::workload::table::WORKLOADS;
use std::collections::{BTreeMap, BTreeSet};

/// Runs that a study may stand for: more are a slip, and would fill the memory with their plan.
const RUNS_MAX: u64 = 10_000;

/// Writes in multiples of the logical pages that a study may have.
const WRITES_MAX: u32 = 10_000;

/// Operations that a publication may be thought to charge for a host page write.
const CHARGE_MAX: u64 = 1_000;

/// Columns of the results beside those of the axes and of the kind.
const RESERVED_COLUMNS: [&str; 4] = ["repeat", "metric", "value", "unit"];

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

impl Study {
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        check_name(&self.name)?;
        let kind = self.kind()?;
        self.check_workload(kind)?;
        (kind.check)(self)?;
        self.check_axes(kind)?;
        self.check_replaced_axes()?;
        self.check_names()?;
        self.check_runs()
    }

    fn check_workload(&self, kind: &WorkloadKind) -> Result<(), StudyError> {
        let workload = &self.workload;
        let given = [
            ("options", workload.options.is_some()),
            ("readers", workload.readers.is_some()),
            ("writers", workload.writers.is_some()),
            ("mixed", workload.mixed.is_some()),
            ("script", workload.script.is_some()),
            ("file", workload.file.is_some()),
            ("capacity_bytes", workload.capacity_bytes.is_some()),
            ("service_times", workload.service_times),
            ("requests_quick", workload.requests_quick.is_some()),
            ("warm_up_writes", workload.warm_up_writes.is_some()),
            ("measured_writes", workload.measured_writes.is_some()),
            ("hot_pages_percent", workload.hot_pages_percent.is_some()),
            ("hot_writes_percent", workload.hot_writes_percent.is_some()),
        ];
        if let Some((key, _)) = given.iter().find(|(key, given)| *given && !kind.keys.contains(key))
        {
            let keys = kind.keys.join(", ");
            return wrong("workload", format!("kind `{}` takes {keys}, but not {key}", kind.name));
        }
        if workload.window == 0 || workload.requests_quick == Some(0) {
            return wrong("workload", "window and requests_quick must be at least 1");
        }
        if workload.hot_pages_percent.is_some_and(|percent| !(1..100).contains(&percent)) {
            return wrong("workload.hot_pages_percent", "must be 1 to 99");
        }
        if workload.hot_writes_percent.is_some_and(|percent| percent > 100) {
            return wrong("workload.hot_writes_percent", "must be 0 to 100");
        }
        if workload.measured_writes == Some(0) {
            return wrong("workload.measured_writes", "must be at least 1");
        }
        let writes = [workload.warm_up_writes, workload.measured_writes];
        if writes.into_iter().flatten().any(|writes| writes > WRITES_MAX) {
            let reason = format!(
                "warm_up_writes and measured_writes count in multiples of the logical pages: \
                 at most {WRITES_MAX}"
            );
            return wrong("workload", reason);
        }
        Ok(())
    }

    fn check_axes(&self, kind: &WorkloadKind) -> Result<(), StudyError> {
        let known = (kind.axes)(self);
        for (axis, values) in &self.axes {
            if values.is_empty() {
                return wrong("axes", format!("axis `{axis}` has no values"));
            }
            if !known.names().any(|name| name == axis) {
                return Err(unknown_axis(axis, &known));
            }
            if is_reserved(axis, kind, &known) || !is_plain(axis) {
                return wrong("axes", format!("`{axis}` cannot be the name of a column"));
            }
        }
        // Counted before anything is planned: a slip must not fill the memory.
        self.check_run_count()?;
        for (axis, values) in &self.axes {
            check_values(&format!("axes.{axis}"), values)?;
        }
        for extra in &self.extra_runs {
            for (axis, values) in &extra.axes {
                check_values(&format!("extra_runs.axes.{axis}"), values)?;
            }
        }
        match self.axis_order.iter().find(|axis| !self.axes.contains_key(*axis)) {
            Some(axis) => Err(StudyError::unknown(
                "axis in axis_order",
                axis,
                self.axes.keys().map(String::as_str),
            )),
            None => Ok(()),
        }
    }

    /// Tables that replace or select values of axes may name only axes that the study has.
    ///
    /// # Errors
    /// The table, the axis, and the nearest axis of the study.
    fn check_replaced_axes(&self) -> Result<(), StudyError> {
        let of_extra_runs = self.extra_runs.iter().map(|extra| ("extra_runs.axes", &extra.axes));
        let of_quick_form = self.quick_form.iter().map(|form| ("quick_form.axes", &form.axes));
        let of_timeline = self.timeline.iter().map(|timeline| ("timeline.axes", &timeline.axes));
        for (place, axes) in of_extra_runs.chain(of_quick_form).chain(of_timeline) {
            let Some(axis) = axes.keys().find(|axis| !self.axes.contains_key(*axis)) else {
                continue;
            };
            let known = self.axes.keys().map(String::as_str);
            let hint = suggestion::nearest(axis, known.clone())
                .map_or(String::new(), |nearest| format!(" (did you mean `{nearest}`?)"));
            let known = known.collect::<Vec<_>>().join(", ");
            let reason = format!(
                "the study has no axis `{axis}`{hint}; its axes are {known}: add `{axis}` to [axes], or take it out here"
            );
            return wrong(place, reason);
        }
        Ok(())
    }

    fn check_run_count(&self) -> Result<(), StudyError> {
        if self.repeats == 0 {
            return wrong("repeats", "must be at least 1");
        }
        // Saturating: a product beyond all numbers is too large as well.
        let product = |repeats: u32, lengths: &mut dyn Iterator<Item = usize>| {
            lengths.fold(u64::from(repeats), |runs, length| runs.saturating_mul(length as u64))
        };
        let mut runs = product(self.repeats, &mut self.axes.values().map(Vec::len));
        if runs > RUNS_MAX {
            let reason =
                format!("axes and repeats make {runs} runs; at most {RUNS_MAX} are possible");
            return wrong("axes, repeats", reason);
        }
        for extra in &self.extra_runs {
            if extra.repeats == Some(0) {
                return wrong("extra_runs.repeats", "must be at least 1");
            }
            let own = |(name, values): (&String, &Vec<_>)| {
                extra.axes.get(name).map_or(values.len(), Vec::len)
            };
            let repeats = extra.repeats.unwrap_or(self.repeats);
            runs = runs.saturating_add(product(repeats, &mut self.axes.iter().map(own)));
            if runs > RUNS_MAX {
                let reason = format!(
                    "with [[extra_runs]] axes and repeats make {runs} runs; at most {RUNS_MAX} are possible"
                );
                return wrong("extra_runs.repeats", reason);
            }
        }
        Ok(())
    }

    /// Names of settings and layers in tables, whether or not a run uses them.
    fn check_names(&self) -> Result<(), StudyError> {
        for name in self.axes.get("settings").into_iter().flatten().map(ToString::to_string) {
            if name != DEFAULT_SETTINGS && !self.settings.contains_key(&name) {
                let known = self.settings.keys().map(String::as_str);
                return Err(StudyError::unknown("settings", &name, known));
            }
        }
        let configured = self.settings.values().flat_map(BTreeMap::keys);
        for layer in configured.chain(self.published_charging.keys()) {
            find_layer(layer)?;
        }
        let charges = self.published_charging.values();
        match charges.map(|charge| charge.reads.max(charge.writes)).max() {
            Some(most) if most > CHARGE_MAX => wrong(
                "published_charging",
                format!("{most} operations for a page write; at most {CHARGE_MAX}"),
            ),
            _ => Ok(()),
        }
    }

    /// Everything that the runs need: devices, traces, names.
    fn check_runs(&self) -> Result<(), StudyError> {
        for run in self.runs()? {
            // The repeats of a combination share their plan; each combination has a first one.
            if run.repeat == 0 {
                run.plan.check()?;
            }
        }
        Ok(())
    }
}

/// Checks that the values of an axis can be cells of a table, each of another row.
///
/// # Errors
/// The place, and the value that is missing, has a character of CSV, or is there twice.
fn check_values(place: &str, values: &[AxisValue]) -> Result<(), StudyError> {
    // An empty list would leave out all runs of the product, without a word.
    if values.is_empty() {
        return wrong(place, "has no values");
    }
    let mut seen = BTreeSet::new();
    for value in values.iter().map(ToString::to_string) {
        if !is_plain(&value) {
            let reason = format!(
                "{value:?}: no commas, quotes or line breaks: it becomes a cell of a CSV file"
            );
            return wrong(place, reason);
        }
        if let Some(twice) = seen.replace(value) {
            return wrong(place, format!("`{twice}` is there twice"));
        }
    }
    Ok(())
}

/// The error of an axis that means nothing; known ones with a layer in front are not listed.
fn unknown_axis(axis: &str, known: &KnownAxes) -> StudyError {
    let listed: Vec<&str> = known.names().filter(|name| !name.contains('.')).collect();
    let hint = suggestion::nearest(axis, known.names())
        .map_or(String::new(), |nearest| format!(" (did you mean `{nearest}`?)"));
    let advice = known.advice.map_or(String::new(), |advice| advice(axis));
    let listed = listed.join(", ");
    StudyError::Study {
        place: "axes".into(),
        reason: format!("unknown axis `{axis}`{hint}; known: {listed}{advice}"),
    }
}

/// True if results have a column of that name already, or those of another kind have: rows of several
/// studies are put into one table.
fn is_reserved(axis: &str, kind: &WorkloadKind, known: &KnownAxes) -> bool {
    let is_column = |kind: &WorkloadKind| kind.columns.contains(&axis);
    RESERVED_COLUMNS.contains(&axis)
        || is_column(kind)
        // Results of raw NAND have no column `test`, so its own axis may be called so.
        || (WORKLOADS.iter().any(is_column) && !known.own.contains(&axis))
}

/// Refuses a name that would lead out of the folder of results: a folder is called by it.
fn check_name(name: &str) -> Result<(), StudyError> {
    let is_component = !name.is_empty()
        && !["", ".", ".."].contains(&name.trim())
        // Both slashes, whatever the system.
        && !name.contains(['/', '\\'])
        && !name.chars().any(char::is_control);
    if is_component {
        return Ok(());
    }
    let reason = format!(
        "{name:?} cannot be the name of a folder, which results are put in; give it one name without \
         slashes, such as \"my-study\""
    );
    wrong("name", reason)
}

/// True if the text can be a cell of a CSV file as it is.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains([',', '"', '\n', '\r'])
}
