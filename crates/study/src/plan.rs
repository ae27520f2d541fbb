//! A study file, checked whole before anything runs, and the matrix of runs it stands for.

use crate::StudyError;
use crate::device::{DeviceOptions, find_layer, find_part_or_file};
use crate::windows::HostWriteCharge;
use crate::workload::WORKLOADS;
use ftl::{Settings, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the settings that every layer has without being told.
const DEFAULT_SETTINGS: &str = "default";

/// Axes that mean something to the stack; all others only name files.
const STACK_AXES: [&str; 4] = ["ftl", "part", "settings", "spare_percent"];

/// One axis of a study: its values, in the order of the file.
pub type Axis = (String, Vec<String>);

/// A study as its file states it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Name, as its file is called.
    pub name: String,
    /// Title of the report.
    pub title: String,
    /// The question it answers.
    pub question: String,
    /// Part of every run, unless `part` is an axis.
    #[serde(default)]
    pub part: Option<String>,
    /// Blocks of the chip, instead of the part's own number.
    #[serde(default)]
    pub blocks: Option<u32>,
    /// Seed of all random streams.
    pub seed: u64,
    /// Runs of each combination, each with its own streams.
    #[serde(default = "one")]
    pub repeats: u32,
    /// Published results beside the file.
    #[serde(default)]
    pub reference: Option<String>,
    /// True if it needs a virtual machine, which quick runs leave out.
    #[serde(default)]
    pub needs_vm: bool,
    /// What is asked of the device.
    pub workload: Workload,
    /// Values to vary.
    pub axes: BTreeMap<String, Vec<AxisValue>>,
    /// Order of the axis columns; alphabetical if absent.
    #[serde(default)]
    pub axis_order: Vec<String>,
    /// Settings by name, then by layer: `[settings.fast-logs.bast]`.
    #[serde(default)]
    pub settings: BTreeMap<String, BTreeMap<String, BTreeMap<String, SettingValue>>>,
    /// Operations that the publication seems to charge for each host page write, by layer.
    #[serde(default)]
    pub(crate) published_charging: BTreeMap<String, HostWriteCharge>,
    #[serde(skip)]
    folder: PathBuf,
    /// True for the short form.
    #[serde(skip_deserializing, default)]
    pub quick: bool,
}

/// A value on an axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisValue {
    /// A number.
    Number(i64),
    /// A word.
    Word(String),
}

impl std::fmt::Display for AxisValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

/// A setting's value in a study file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// True or false.
    Switch(bool),
    /// A whole number.
    Integer(i64),
    /// A word.
    Word(String),
}

impl From<&SettingValue> for Value {
    fn from(value: &SettingValue) -> Self {
        match value {
            SettingValue::Switch(switch) => Self::Switch(*switch),
            SettingValue::Integer(number) => Self::Integer(*number),
            SettingValue::Word(word) => Self::Word(word.clone()),
        }
    }
}

/// What is asked of the device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// A name of the table of workloads.
    pub kind: String,
    /// Trace file, relative to the study file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Bytes the device offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// What is done before counting starts.
    #[serde(default)]
    pub preconditioning: Preconditioning,
    /// Requests replayed in the short form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_quick: Option<usize>,
    /// Requests, and file operations, in a window.
    #[serde(default = "hundred")]
    pub window: u64,
    /// Writes before counting, in multiples of the logical pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_writes: Option<u32>,
    /// Writes counted, in multiples of the logical pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_writes: Option<u32>,
    /// Share of the pages that are hot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_pages_percent: Option<u32>,
    /// Share of the writes that go to hot pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_writes_percent: Option<u32>,
}

/// State of the device when counting starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preconditioning {
    /// As delivered.
    None,
    /// The set-up of the trace: file system made, disk filled.
    Image,
    /// The set-up and one full pass of the trace.
    #[default]
    ImageAndPass,
}

impl Preconditioning {
    /// Value of the `initial` column.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "erased",
            Self::Image => "image",
            Self::ImageAndPass => "image-and-pass",
        }
    }
}

/// One run of a study.
#[derive(Clone, Debug)]
pub struct Run {
    /// Axis values in the order of the columns, `initial` last.
    pub axes: Vec<String>,
    /// Repeat number.
    pub repeat: u32,
    /// The device.
    pub device: DeviceOptions,
    /// The trace, for workloads that have one.
    pub trace: Option<PathBuf>,
    pub(crate) charge: HostWriteCharge,
}

/// Reads a study file, applies `key=value` overrides and checks everything that can be checked
/// without running.
///
/// # Errors
/// File, line, key, reason and a suggestion.
pub fn load(path: &Path, overrides: &[String], seed: Option<u64>, quick: bool) -> Result<Study, StudyError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|reason| StudyError::File { path: shown.clone(), reason })?;
    let wrong = |reason: String| StudyError::Study { place: shown.clone(), reason };
    // Parsed directly first, so that messages carry line and column of the file.
    let mut study: Study = toml::from_str(&text).map_err(|error| wrong(explain_toml(&error)))?;
    if !overrides.is_empty() {
        let mut table: toml::Table = text.parse().expect("parsed before");
        for given in overrides {
            apply_override(&mut table, given)?;
        }
        study = Study::deserialize(toml::Value::Table(table)).map_err(|error| StudyError::Study {
            place: format!("{shown} with {}", overrides.join(", ")),
            reason: explain_toml(&error),
        })?;
    }
    study.folder = path.parent().unwrap_or(Path::new(".")).to_path_buf();
    study.seed = seed.unwrap_or(study.seed);
    study.quick = quick;
    study.check().map_err(|error| match error {
        StudyError::Study { place, reason } => StudyError::Study { place: format!("{shown}: {place}"), reason },
        other => wrong(other.to_string()),
    })?;
    Ok(study)
}

impl Study {
    /// Axes in the order of the columns.
    pub fn ordered_axes(&self) -> Vec<Axis> {
        let mut names: Vec<&String> = self.axes.keys().collect();
        let place = |name: &str| self.axis_order.iter().position(|other| other == name).unwrap_or(usize::MAX);
        names.sort_by_key(|name| place(name));
        names.iter().map(|name| ((*name).clone(), self.axes[*name].iter().map(ToString::to_string).collect())).collect()
    }

    /// Names of the axis columns.
    pub fn columns(&self) -> Vec<String> {
        let mut columns: Vec<String> = self.ordered_axes().into_iter().map(|(name, _)| name).collect();
        columns.push("initial".into());
        columns
    }

    /// All runs, in the order of the axes.
    ///
    /// # Errors
    /// Names and settings that do not fit.
    pub fn runs(&self) -> Result<Vec<Run>, StudyError> {
        let axes = self.ordered_axes();
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for (_, values) in &axes {
            combinations = combinations
                .iter()
                .flat_map(|head| values.iter().map(move |value| [head.as_slice(), std::slice::from_ref(value)].concat()))
                .collect();
        }
        let mut runs = Vec::new();
        for combination in combinations {
            for repeat in 0..self.repeats {
                runs.push(self.run(&axes, &combination, repeat)?);
            }
        }
        Ok(runs)
    }

    fn run(&self, axes: &[Axis], values: &[String], repeat: u32) -> Result<Run, StudyError> {
        let value = |axis: &str| axes.iter().zip(values).find(|((name, _), _)| name == axis).map(|(_, value)| value.as_str());
        let ftl = value("ftl").unwrap_or_default().to_owned();
        let mut device = DeviceOptions {
            part: value("part").map(str::to_owned).or_else(|| self.part.clone()),
            blocks: self.blocks,
            logical_bytes: self.workload.capacity_bytes,
            settings: BTreeMap::new(),
            ftl,
        };
        let chosen = value("settings").unwrap_or(DEFAULT_SETTINGS);
        if let Some(given) = self.settings.get(chosen).and_then(|layers| layers.get(&device.ftl)) {
            for (name, value) in given {
                match (name.as_str(), value) {
                    ("blocks", SettingValue::Integer(blocks)) => device.blocks = u32::try_from(*blocks).ok(),
                    _ => drop(device.settings.insert(name.clone(), value.into())),
                }
            }
        }
        if let Some(spare) = value("spare_percent") {
            device.logical_bytes = Some(self.logical_bytes_for(spare, &device)?);
        }
        let layer = find_layer(&device.ftl)?;
        Settings::new(layer.parameters, &device.settings).map_err(|error| StudyError::Study {
            place: format!("settings.{chosen}.{}", device.ftl),
            reason: error.to_string(),
        })?;
        let trace = self.workload.file.as_ref().map(|file| {
            let named = axes.iter().zip(values).fold(file.clone(), |file, ((name, _), value)| file.replace(&format!("{{{name}}}"), value));
            self.folder.join(named)
        });
        let charge = self.published_charging.get(&device.ftl).copied().unwrap_or_default();
        let mut axis_values = values.to_vec();
        axis_values.push(self.workload.preconditioning.name().to_owned());
        Ok(Run { axes: axis_values, repeat, device, trace, charge })
    }

    /// Logical bytes that leave `spare_percent` of the physical pages as spare (Sf, not OP).
    fn logical_bytes_for(&self, spare: &str, device: &DeviceOptions) -> Result<u64, StudyError> {
        let spare: u64 = spare.parse().ok().filter(|percent| (1..100).contains(percent)).ok_or_else(|| StudyError::Study {
            place: "axes.spare_percent".into(),
            reason: format!("`{spare}` is no percentage from 1 to 99"),
        })?;
        let mut geometry = find_part_or_file(device.part.as_deref().unwrap_or(nand::DEFAULT_PART))?.geometry;
        geometry.blocks = device.blocks.unwrap_or(geometry.blocks);
        Ok(u64::from(geometry.pages()) * (100 - spare) / 100 * u64::from(geometry.page_data_bytes))
    }

    fn check(&self) -> Result<(), StudyError> {
        let wrong = |place: &str, reason: String| Err(StudyError::Study { place: place.to_owned(), reason });
        let Some(kind) = WORKLOADS.iter().find(|entry| entry.name == self.workload.kind) else {
            return Err(StudyError::unknown("workload", &self.workload.kind, WORKLOADS.iter().map(|entry| entry.name)));
        };
        if !self.axes.contains_key("ftl") {
            return wrong("axes", "an axis `ftl` with at least one translation layer is missing".into());
        }
        if let Some((axis, _)) = self.axes.iter().find(|(_, values)| values.is_empty()) {
            return wrong("axes", format!("axis `{axis}` has no values"));
        }
        if self.repeats == 0 || self.workload.window == 0 {
            return wrong("repeats, workload.window", "must be at least 1".into());
        }
        let file = self.workload.file.as_deref().unwrap_or_default();
        let unused = |axis: &&String| !STACK_AXES.contains(&axis.as_str()) && !file.contains(&format!("{{{axis}}}"));
        if let Some(axis) = self.axes.keys().find(unused) {
            let known = STACK_AXES.join(", ");
            return wrong("axes", format!("axis `{axis}` is neither one of {known} nor named in workload.file as {{{axis}}}"));
        }
        if kind.name == "trace" && file.is_empty() {
            return wrong("workload", "kind `trace` needs `file`".into());
        }
        for name in self.axes.get("settings").into_iter().flatten().map(ToString::to_string) {
            if name != DEFAULT_SETTINGS && !self.settings.contains_key(&name) {
                return Err(StudyError::unknown("settings", &name, self.settings.keys().map(String::as_str)));
            }
        }
        for layer in self.settings.values().flat_map(BTreeMap::keys).chain(self.published_charging.keys()) {
            find_layer(layer)?;
        }
        for run in self.runs()? {
            find_part_or_file(run.device.part.as_deref().unwrap_or(nand::DEFAULT_PART))?;
            if let Some(trace) = run.trace.filter(|trace| !trace.exists()) {
                return wrong("workload.file", format!("there is no trace {}", trace.display()));
            }
        }
        Ok(())
    }
}

/// Sets `a.b.c=value` in a table; lists take values separated by commas.
fn apply_override(table: &mut toml::Table, given: &str) -> Result<(), StudyError> {
    let wrong = |reason: &str| StudyError::Study { place: format!("--set {given}"), reason: reason.to_owned() };
    let (path, text) = given.split_once('=').ok_or_else(|| wrong("write it as key=value, with dots between the levels of the key"))?;
    let mut keys: Vec<&str> = path.trim().split('.').collect();
    let last = keys.pop().filter(|key| !key.is_empty()).ok_or_else(|| wrong("the key is empty"))?;
    let mut place = table;
    for key in keys {
        place = place
            .entry(key)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| wrong("part of the key names a value, not a table"))?;
    }
    let value = if matches!(place.get(last), Some(toml::Value::Array(_))) {
        toml::Value::Array(text.split(',').map(|item| scalar(item.trim())).collect())
    } else {
        scalar(text.trim())
    };
    place.insert(last.to_owned(), value);
    Ok(())
}

fn scalar(text: &str) -> toml::Value {
    match Value::from(text) {
        Value::Integer(number) => toml::Value::Integer(number),
        Value::Switch(switch) => toml::Value::Boolean(switch),
        Value::Word(word) => toml::Value::String(word),
    }
}

/// The message of a TOML error, with a suggestion for a misspelt key.
fn explain_toml(error: &toml::de::Error) -> String {
    let message = error.to_string().trim_end().to_owned();
    let quoted: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
    match quoted.split_first() {
        Some((given, known)) if error.message().starts_with("unknown field") => {
            match trace::suggest::nearest(given, known.iter().copied()) {
                Some(nearest) => format!("{message}\ndid you mean `{nearest}`?"),
                None => message,
            }
        }
        _ => message,
    }
}

const fn one() -> u32 {
    1
}

const fn hundred() -> u64 {
    100
}
