//! The matrix of runs that a study stands for.

use crate::StudyError;
use crate::ftl_device::{DeviceOptions, chip_of, find_layer};
use crate::iozone::{IozoneRun, plan_iozone};
use crate::jobs::{JobsRun, check_kernel_run, plan_run};
use crate::raw_nand::{RawNandRun, plan_raw_nand};
use crate::setting_axes::apply_to_device;
use crate::study_file::{SettingValue, Study};
use crate::windows::HostWriteCharge;
use ftl::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Name of the settings that every layer has by itself.
pub(crate) const DEFAULT_SETTINGS: &str = "default";

/// Axes that mean something to the stack; all others only name files.
pub(crate) const STACK_AXES: [&str; 4] = ["ftl", "part", "settings", "spare_percent"];

/// Value of the `initial` column where pages are written until the device is in a steady state.
const WARMED_UP: &str = "warmed-up";

/// One axis of a study: its values, in the order of the file.
pub type Axis = (String, Vec<String>);

/// One run of a study.
#[derive(Clone, Debug)]
pub struct Run {
    /// Axis values in the order of the columns, `initial` last.
    pub axes: Vec<String>,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Layer and chip of the run.
    pub device: DeviceOptions,
    /// The trace, for workloads that have one.
    pub trace: Option<PathBuf>,
    pub(crate) charge: HostWriteCharge,
    /// Processes over a simulated scheduler; then, and in studies of a real kernel, the device above is
    /// not used.
    pub(crate) jobs: Option<Arc<JobsRun>>,
    /// IOzone on a file system; then the device above is not used either.
    pub(crate) iozone: Option<Arc<IozoneRun>>,
    /// A test of a file system; then the device above is not used either.
    pub(crate) raw_nand: Option<Arc<RawNandRun>>,
}

impl Run {
    /// The axis values, for messages.
    pub(crate) fn label(&self) -> String {
        self.axes.join(" ")
    }

    /// True if the two cannot differ in their results: a layer may have nothing under a name of
    /// settings, a trace is the same in every repeat, and a scheduler has no path to raw NAND.
    pub(crate) fn is_same_work(&self, other: &Self) -> bool {
        if let (Some(own), Some(others)) = (&self.iozone, &other.iozone) {
            return own.work_key == others.work_key && self.repeat == other.repeat;
        }
        if let (Some(own), Some(others)) = (&self.raw_nand, &other.raw_nand) {
            return own.work_key == others.work_key && self.repeat == other.repeat;
        }
        // Jobs are drawn by the repeat, so none of their runs is like another.
        self.jobs.is_none()
            && self.raw_nand.is_none()
            && self.device == other.device
            && self.trace == other.trace
            && self.charge == other.charge
            && (self.trace.is_some() || self.repeat == other.repeat)
    }
}

impl Study {
    /// Axes in the order of the columns.
    pub fn ordered_axes(&self) -> Vec<Axis> {
        let mut names: Vec<&String> = self.axes.keys().collect();
        // Axes without a place come last, by name.
        let place = |name: &str| {
            self.axis_order.iter().position(|other| other == name).unwrap_or(usize::MAX)
        };
        names.sort_by_key(|name| place(name));
        let values = |name: &String| self.axes[name].iter().map(ToString::to_string).collect();
        names.into_iter().map(|name| (name.clone(), values(name))).collect()
    }

    /// Names of the axis columns.
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> =
            self.ordered_axes().into_iter().map(|(name, _)| name).collect();
        if self.has_iozone() {
            columns.push("test".into());
        } else if self.has_raw_nand() {
            columns.push("phase".into());
        } else if !self.has_processes() {
            columns.push("initial".into());
        }
        columns
    }

    /// All runs, in the order of the axes.
    ///
    /// # Errors
    /// Names and settings that do not fit.
    pub fn runs(&self) -> Result<Vec<Run>, StudyError> {
        let mut runs = self.product(&self.ordered_axes(), self.repeats)?;
        let place = |run: &Run| (run.axes.clone(), run.repeat);
        let mut known: BTreeSet<(Vec<String>, u32)> = runs.iter().map(place).collect();
        for also in &self.also {
            let mut axes = self.ordered_axes();
            for (name, values) in &mut axes {
                if let Some(replaced) = also.axes.get(name) {
                    *values = replaced.iter().map(ToString::to_string).collect();
                }
            }
            for run in self.product(&axes, also.repeats.unwrap_or(self.repeats))? {
                // A combination that is named twice is run once.
                if known.insert(place(&run)) {
                    runs.push(run);
                }
            }
        }
        Ok(runs)
    }

    /// The runs of all combinations of these axes.
    fn product(&self, axes: &[Axis], repeats: u32) -> Result<Vec<Run>, StudyError> {
        // The first axis changes slowest.
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for (_, values) in axes {
            let longer = |head: &Vec<String>| {
                let head = head.clone();
                values
                    .iter()
                    .map(move |value| [head.as_slice(), std::slice::from_ref(value)].concat())
            };
            combinations = combinations.iter().flat_map(longer).collect();
        }
        let mut runs = Vec::new();
        for combination in combinations {
            let run = if self.has_processes() || self.has_file_systems() {
                self.processes_run(axes, &combination)?
            } else {
                self.run(axes, &combination)?
            };
            runs.extend((0..repeats).map(|repeat| Run { repeat, ..run.clone() }));
        }
        Ok(runs)
    }

    fn processes_run(&self, axes: &[Axis], values: &[String]) -> Result<Run, StudyError> {
        let named: BTreeMap<&str, &str> = axes
            .iter()
            .map(|(name, _)| name.as_str())
            .zip(values.iter().map(String::as_str))
            .collect();
        let (mut jobs, mut iozone, mut raw_nand) = (None, None, None);
        if self.has_jobs() {
            jobs = Some(Arc::new(plan_run(self, &named)?));
        } else if self.has_iozone() {
            iozone = Some(Arc::new(plan_iozone(self, &named)?));
        } else if self.has_raw_nand() {
            raw_nand = Some(Arc::new(plan_raw_nand(self, &named)?));
        } else {
            check_kernel_run(self, &named)?;
        }
        Ok(Run {
            axes: values.to_vec(),
            repeat: 0,
            device: DeviceOptions::default(),
            trace: None,
            charge: HostWriteCharge::default(),
            jobs,
            iozone,
            raw_nand,
        })
    }

    fn run(&self, axes: &[Axis], values: &[String]) -> Result<Run, StudyError> {
        let value = |axis: &str| {
            let found = axes.iter().zip(values).find(|((name, _), _)| name == axis);
            found.map(|(_, value)| value.as_str())
        };
        let layer = value("ftl").unwrap_or_default();
        let part = value("part").or(self.part.as_deref());
        let mut device = DeviceOptions {
            ftl: layer.to_owned(),
            part: part.map(|part| self.part_beside(part)),
            settings: BTreeMap::new(),
            blocks: self.blocks,
            pages_per_block: self.pages_per_block,
            logical_bytes: self.workload.capacity_bytes,
        };
        self.apply_settings(value("settings").unwrap_or(DEFAULT_SETTINGS), &mut device)?;
        let named =
            axes.iter().zip(values).map(|((axis, _), value)| (axis.as_str(), value.as_str()));
        apply_to_device(&mut device, named, |axis| self.names_file(axis))?;
        if let Some(spare) = value("spare_percent") {
            device.logical_bytes = Some(logical_bytes_for(spare, &device)?);
        }
        let trace = self.workload.file.as_ref().map(|file| {
            let named = axes.iter().zip(values).fold(file.clone(), |file, ((name, _), value)| {
                file.replace(&format!("{{{name}}}"), value)
            });
            self.folder.join(named)
        });
        let charge = self.published_charging.get(layer).copied().unwrap_or_default();
        let initial =
            if trace.is_some() { self.workload.preconditioning.name() } else { WARMED_UP };
        let axes = values.iter().cloned().chain([initial.to_owned()]).collect();
        Ok(Run { axes, repeat: 0, device, trace, charge, jobs: None, iozone: None, raw_nand: None })
    }

    /// True if the name of the trace holds `{axis}`.
    pub(crate) fn names_file(&self, axis: &str) -> bool {
        let file = self.workload.file.as_deref().unwrap_or_default();
        file.contains(&format!("{{{axis}}}"))
    }

    /// The settings called `chosen` of the device's layer; `blocks` among them is the chip's.
    fn apply_settings(&self, chosen: &str, device: &mut DeviceOptions) -> Result<(), StudyError> {
        let layer = find_layer(&device.ftl)?;
        let place = format!("settings.{chosen}.{}", device.ftl);
        let wrong = |reason: String| StudyError::Study { place: place.clone(), reason };
        let given = self.settings.get(chosen).and_then(|layers| layers.get(&device.ftl));
        for (name, value) in given.into_iter().flatten() {
            match (name.as_str(), value) {
                ("blocks", SettingValue::Integer(blocks)) => {
                    let blocks = u32::try_from(*blocks);
                    device.blocks =
                        Some(blocks.map_err(|_| wrong("`blocks` is no number of blocks".into()))?);
                }
                _ => drop(device.settings.insert(name.clone(), value.into())),
            }
        }
        // Checked here, where the name of the settings is known.
        Settings::new(layer.parameters, &device.settings)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(())
    }
}

/// Logical bytes that leave `spare` percent of the physical pages as spare (Sf, not OP).
fn logical_bytes_for(spare: &str, device: &DeviceOptions) -> Result<u64, StudyError> {
    let wrong = || StudyError::Study {
        place: "axes.spare_percent".into(),
        reason: format!("`{spare}` is no percentage above 0 and below 100"),
    };
    let percent: f64 = spare.parse().map_err(|_| wrong())?;
    if !(percent > 0.0 && percent < 100.0) {
        return Err(wrong());
    }
    let geometry = chip_of(device)?.geometry;
    let pages = f64::from(geometry.pages()) * (100.0 - percent) / 100.0;
    Ok(pages as u64 * u64::from(geometry.page_data_bytes))
}
