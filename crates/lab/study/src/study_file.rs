//! What a study file holds, and how it is read: every message names file, line, key and reason.

use crate::StudyError;
use crate::axis_values::read_axes;
use crate::flash_aging::FlashState;
use crate::jobs::spec::{
    ExtraRuns, Host, JobSpec, Mechanism, QuickForm, SchedulerVariant, Timeline,
};
use crate::overrides::apply_override;
use crate::raw_nand::spec::Limits;
use crate::values::{AxisValue, SettingValue};
use crate::windows::HostWriteCharge;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A study as its file states it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Name: one component of a path, as the folder of its results is called by it.
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
    /// Pages of a block, instead of the part's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages_per_block: Option<u32>,
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
    /// The kind of workload that runs carry out, and its keys.
    pub workload: Workload,
    /// Axes and the values on each.
    #[serde(deserialize_with = "read_axes")]
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
    /// Board and device, for studies of the block path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Processes, for studies of the block path.
    #[serde(default, rename = "job", skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSpec>,
    /// Names on the scheduler axis that stand for a scheduler with settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scheduler_variants: BTreeMap<String, SchedulerVariant>,
    /// Names on the mechanism axis: what is switched off.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mechanisms: BTreeMap<String, Mechanism>,
    /// Names on the flash axis: how far the flash has aged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flash_states: BTreeMap<String, FlashState>,
    /// Names on the axis `limits`: limits of flash and memory.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Limits>,
    /// Runs beside the product of the axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_runs: Vec<ExtraRuns>,
    /// How the short form differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_form: Option<QuickForm>,
    /// Runs of which everything is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// File that takes a timeline of the first run.
    #[serde(skip)]
    pub timeline_file: Option<PathBuf>,
    /// Folder of the study file, which other files are relative to.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    /// Places of files that lie elsewhere on this machine, by the name that the study has for each.
    #[serde(skip)]
    pub(crate) moved: BTreeMap<String, PathBuf>,
    /// True for the short form.
    #[serde(skip_deserializing, default)]
    pub quick: bool,
}

/// What runs do: a kind of workload and its keys.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// A name of the table of workloads.
    pub kind: String,
    /// Command line of IOzone or ioping; `{axis}` in it is replaced by the value of the axis.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<String>,
    /// Processes of ioping that read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readers: Option<u32>,
    /// Processes of ioping that write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writers: Option<u32>,
    /// Processes of ioping that write and read in turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed: Option<u32>,
    /// Script of system calls, relative to the study file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
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
    /// The chip's time of each request is measured, and that of a rebuild after the last one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub service_times: bool,
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

/// State of the device when a trace is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preconditioning {
    /// The device is as it was delivered.
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

/// Reads a study file, applies `key=value` overrides and checks everything that can be checked
/// without running.
///
/// # Errors
/// File, line, key, reason and a suggestion.
pub fn load(
    path: &Path,
    overrides: &[String],
    seed: Option<u64>,
    quick: bool,
) -> Result<Study, StudyError> {
    load_moved(path, overrides, seed, quick, BTreeMap::new())
}

/// Reads a study file as [`load`] does, on a machine where the files that it names lie elsewhere.
///
/// # Errors
/// As of [`load`].
pub fn load_moved(
    path: &Path,
    overrides: &[String],
    seed: Option<u64>,
    quick: bool,
    moved: BTreeMap<String, PathBuf>,
) -> Result<Study, StudyError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|reason| StudyError::File { path: shown.clone(), reason })?;
    let wrong = |place: String, reason: String| StudyError::Study { place, reason };
    // Parsed directly first, so that messages carry line and column of the file.
    let mut study: Study =
        toml::from_str(&text).map_err(|error| wrong(shown.clone(), explain_toml(&error)))?;
    if !overrides.is_empty() {
        let mut table: toml::Table = text.parse().expect("parsed before");
        for given in overrides {
            apply_override(&mut table, given)?;
        }
        study = Study::deserialize(toml::Value::Table(table)).map_err(|error| {
            wrong(format!("{shown} with {}", overrides.join(", ")), explain_toml(&error))
        })?;
    }
    study.folder = path.parent().unwrap_or(Path::new(".")).to_path_buf();
    study.moved =
        moved.into_iter().map(|(name, place)| (crate::own_files::plain(&name), place)).collect();
    // The command line goes before the file.
    study.seed = seed.unwrap_or(study.seed);
    study.quick = quick;
    // After the overrides and before the check, which sees what is run.
    if quick {
        study.shorten();
    }
    study.check().map_err(|error| match error {
        StudyError::Study { place, reason } => wrong(format!("{shown}: {place}"), reason),
        // These name a file of their own, and the line in it: the study is not what is wrong.
        own @ (StudyError::Part(_) | StudyError::Board(_)) => own,
        other => wrong(shown.clone(), other.to_string()),
    })?;
    Ok(study)
}

impl Study {
    /// Takes the axes and repeats of the short form, if the file states one.
    fn shorten(&mut self) {
        let Some(form) = self.quick_form.clone() else { return };
        // Axes that the short form does not name stay. One that the study lacks is left to the check, which
        // refuses it: taken over, it would be one of the study's.
        for (axis, values) in form.axes {
            self.axes.entry(axis).and_modify(|own| *own = values);
        }
        self.repeats = form.repeats.unwrap_or(self.repeats);
        self.extra_runs.retain(|extra| !extra.full_only);
    }
}

/// Keys that had another name, and the one they have.
const RENAMED_KEYS: [(&str, &str); 2] = [("also", "extra_runs"), ("rooms", "limits")];

/// The message of a TOML error, with a suggestion for a misspelt key or word.
fn explain_toml(error: &toml::de::Error) -> String {
    let message = error.to_string().trim_end().to_owned();
    let is_old = |key: &str| error.message().starts_with(&format!("unknown field `{key}`"));
    if let Some((old, new)) = RENAMED_KEYS.iter().find(|(old, _)| is_old(old)) {
        // The list of all keys does not help where a key only has a new name.
        let renamed = format!("key `{old}` is now called `{new}`: rename it");
        return message.replace(error.message(), &renamed);
    }
    let is_unknown =
        ["unknown field", "unknown variant"].iter().any(|kind| error.message().starts_with(kind));
    // What was given is quoted first, then what is known.
    let quoted: Vec<&str> = error.message().split('`').skip(1).step_by(2).collect();
    let nearest = match quoted.split_first() {
        Some((given, known)) if is_unknown => suggestion::nearest(given, known.iter().copied()),
        _ => None,
    };
    match nearest {
        Some(nearest) => format!("{message}\ndid you mean `{nearest}`?"),
        None => message,
    }
}

const fn one() -> u32 {
    1
}

const fn hundred() -> u64 {
    100
}
