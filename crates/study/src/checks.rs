//! Everything about a study that can be found wrong before it runs.

use crate::StudyError;
use crate::block_choice::check_block_device;
use crate::ftl_device::{find_layer, resolve};
use crate::iozone::{check_iozone_study, iozone_axes};
use crate::jobs::{check_kernel_study, jobs_axes, kernel_axes};
use crate::matrix::{DEFAULT_SETTINGS, STACK_AXES};
use crate::raw_nand::{check_raw_nand_study, raw_nand_axes};
use crate::setting_axes::{SHAPE_AXES, layer_axes};
use crate::study_file::Study;
use crate::workload_kinds::{WORKLOADS, WorkloadEntry};
use std::collections::{BTreeMap, BTreeSet};

/// Runs that a study may stand for: more are a slip, and would fill the memory with their plan.
const RUNS_MAX: u64 = 10_000;

/// Writes in multiples of the logical pages that a study may ask for.
const WRITES_MAX: u32 = 10_000;

/// Operations that a publication may be thought to charge for a host page write.
const CHARGE_MAX: u64 = 1_000;

/// Columns of the results beside the axes; `test` is one unless it is an axis.
const RESERVED_COLUMNS: [&str; 6] = ["initial", "repeat", "metric", "phase", "value", "unit"];
const TEST_COLUMN: &str = "test";

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

impl Study {
    pub(crate) fn check(&self) -> Result<(), StudyError> {
        check_name(&self.name)?;
        let names = || WORKLOADS.iter().map(|entry| entry.name);
        let Some(kind) = WORKLOADS.iter().find(|entry| entry.name == self.workload.kind) else {
            return Err(StudyError::unknown("workload", &self.workload.kind, names()));
        };
        self.check_workload(kind)?;
        check_block_device(self)?;
        if self.is_of_kernel() {
            check_kernel_study(self)?;
        }
        if self.has_iozone() {
            check_iozone_study(self)?;
        }
        if self.has_raw_nand() {
            check_raw_nand_study(self)?;
        } else if !self.rooms.is_empty() {
            return wrong("rooms", "only workload kind `raw-nand` has rooms");
        }
        self.check_axes()?;
        self.check_names()?;
        self.check_runs()
    }

    fn check_workload(&self, kind: &WorkloadEntry) -> Result<(), StudyError> {
        let workload = &self.workload;
        let given = [
            ("options", workload.options.is_some()),
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
        if kind.name == "trace" && workload.file.as_ref().is_none_or(String::is_empty) {
            return wrong("workload", "kind `trace` needs `file`");
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

    fn check_axes(&self) -> Result<(), StudyError> {
        if self.has_processes() {
            if !self.axes.contains_key("scheduler") {
                return wrong("axes", "an axis `scheduler` with at least one scheduler is missing");
            }
        } else if !self.has_file_systems() && !self.axes.contains_key("ftl") {
            return wrong("axes", "an axis `ftl` with at least one translation layer is missing");
        }
        if self.axes.contains_key("spare_percent") && self.workload.capacity_bytes.is_some() {
            return wrong(
                "axes",
                "spare_percent and workload.capacity_bytes both say how large the device is",
            );
        }
        let of_processes = if self.is_of_kernel() {
            kernel_axes(self)
        } else if self.has_iozone() {
            iozone_axes(self)
        } else if self.has_raw_nand() {
            raw_nand_axes(self)
        } else {
            jobs_axes(self)
        };
        for (axis, values) in &self.axes {
            if values.is_empty() {
                return wrong("axes", format!("axis `{axis}` has no values"));
            }
            if self.has_processes() || self.has_file_systems() {
                if !of_processes.contains(axis) {
                    let known = of_processes.iter().map(String::as_str);
                    return Err(StudyError::unknown("axis", axis, known));
                }
            } else if !self.names_file(axis) {
                let settings = layer_axes(self);
                let own = STACK_AXES.iter().chain(&SHAPE_AXES).copied();
                let known = own.chain(settings.iter().map(String::as_str));
                if !known.clone().any(|known| known == axis) {
                    return Err(self.unknown_axis(axis, known));
                }
            }
            // Results of raw NAND have no column `test`, so an axis may be called so.
            let is_test = axis == TEST_COLUMN && !self.has_raw_nand();
            if is_test || RESERVED_COLUMNS.contains(&axis.as_str()) || !is_plain(axis) {
                return wrong("axes", format!("`{axis}` cannot be the name of a column"));
            }
        }
        // Counted before anything is planned: a slip must not fill the memory.
        self.check_run_count()?;
        for (axis, values) in &self.axes {
            let mut seen = BTreeSet::new();
            for value in values.iter().map(ToString::to_string) {
                if !is_plain(&value) {
                    let reason = format!(
                        "{value:?}: no commas, quotes or line breaks, please: it becomes a cell of a CSV file"
                    );
                    return wrong(&format!("axes.{axis}"), reason);
                }
                if let Some(twice) = seen.replace(value) {
                    return wrong(&format!("axes.{axis}"), format!("`{twice}` is there twice"));
                }
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

    /// The error of an axis that means nothing; `known` ones with a layer in front are not listed.
    fn unknown_axis<'a>(
        &self,
        axis: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> StudyError {
        let listed = known.clone().filter(|known| !known.contains('.')).collect::<Vec<_>>();
        let hint = trace::suggest::nearest(axis, known)
            .map_or(String::new(), |nearest| format!(" (did you mean `{nearest}`?)"));
        let of_trace = if self.workload.kind == "trace" {
            format!("; an axis of traces is named in workload.file as {{{axis}}}")
        } else {
            String::new()
        };
        let listed = listed.join(", ");
        StudyError::Study {
            place: "axes".into(),
            reason: format!("unknown axis `{axis}`{hint}; known: {listed}{of_trace}"),
        }
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
        for also in &self.also {
            if also.repeats == Some(0) {
                return wrong("also.repeats", "must be at least 1");
            }
            let own = |(name, values): (&String, &Vec<_>)| {
                also.axes.get(name).map_or(values.len(), Vec::len)
            };
            let repeats = also.repeats.unwrap_or(self.repeats);
            runs = runs.saturating_add(product(repeats, &mut self.axes.iter().map(own)));
            if runs > RUNS_MAX {
                let reason = format!(
                    "with [[also]] axes and repeats make {runs} runs; at most {RUNS_MAX} are possible"
                );
                return wrong("also.repeats", reason);
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

    /// Devices and traces of all runs.
    fn check_runs(&self) -> Result<(), StudyError> {
        let runs = self.runs()?;
        if self.has_processes() || self.has_file_systems() {
            return Ok(());
        }
        for run in runs {
            resolve(&run.device)?;
            // Found before hours of other runs.
            if let Some(trace) = run.trace.filter(|trace| !trace.is_file()) {
                return wrong("workload.file", format!("there is no trace {}", trace.display()));
            }
        }
        Ok(())
    }
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
