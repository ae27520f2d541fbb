//! Scripts whose power is cut at every operation of the chip.

use crate::boundary::{carry_out, tell};
use crate::script::{save, save_disk};
use crate::{NandlabError, failed};
use crash::{
    CACHE_MODELS, Check, Crash, CrashError, Cuts, FilesOfCut, Outcome, Recoveries, Sabotage, Setup,
    Shown, TORN_MODELS, Then, Verdict, find_torn_model,
};
use file_systems::find_kind;
use image::ImageOnChip;
use mount::{
    BlockDeviceChoice, BlockRequest, CardContents, MTDBLOCK, MountError, MountRequest, UbiRequest,
};
use mtd::LAYOUTS;
use nand::{Chip, FaultSettings, Storage};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Blocks of the chip, or as large a partition of a card, where nothing says how many.
const BLOCKS: u32 = 64;

/// The torn model that leaves nothing of an operation of a chip.
const NOTHING_LEFT: &str = "nothing";
/// The one that leaves nothing of a device's cache.
const CACHE_LOST: &str = "lost";

/// Options of `cut_script`, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arguments {
    pub(crate) fs: String,
    part: String,
    block_device: Option<String>,
    #[serde(default)]
    image: Option<PathBuf>,
    blocks: Option<u32>,
    pages_per_block: Option<u32>,
    profile: Option<String>,
    pub(crate) seed: u64,
    #[serde(default = "one")]
    every: u64,
    #[serde(default)]
    only: Option<u64>,
    /// This cut is shown beside the trees before and after it.
    #[serde(default)]
    show: Option<u64>,
    /// The chip after the cut `only` goes to this file.
    #[serde(default)]
    dump: Option<PathBuf>,
    #[serde(default)]
    torn: Vec<String>,
    /// How deep recoveries are cut.
    #[serde(default)]
    recoveries: usize,
    /// The one cut of each recovery, as 3:prefix.
    #[serde(default)]
    then: Vec<String>,
    pub(crate) workers: Option<usize>,
}

fn one() -> u64 {
    1
}

/// What `cut_script` answers.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    outcome: Outcome,
    /// The cut that was asked for, once for each torn model.
    shown: Vec<Shown>,
}

/// What a script is cut on.
pub(crate) struct OnChip {
    pub(crate) chip: Chip,
    card: CardContents,
    pub(crate) setup: Setup,
    /// The medium holds an image.
    pub(crate) has_image: bool,
}

/// Cuts a script at its cut points; the outcome as JSON.
///
/// `progress(done, total, label)` may raise to stop it, and so may a signal handler.
///
/// `check(cuts)` gets the files of several cuts and answers why each does not hold, or None of one that holds. It
/// answers None in place of the list if it was asked to stop; what it raises ends the call. A cut is its point, its
/// torn model, its acknowledgement or None, and its files, each as path, letter of its kind, permission bits, bytes
/// or target, and the first path of the same inode. The letter of what cannot be read is `?`.
#[pyfunction]
#[pyo3(signature = (shown, text, arguments_json, progress, check=None))]
pub(crate) fn cut_script(
    python: Python<'_>,
    shown: String,
    text: String,
    arguments_json: &str,
    progress: Py<PyAny>,
    check: Option<Py<PyAny>>,
) -> PyResult<String> {
    let arguments: Arguments = serde_json::from_str(arguments_json).map_err(failed)?;
    let cut = move || {
        let mut raised = None;
        let told = &mut raised;
        let mut ask = check.map(move |check| {
            move |cuts: &[FilesOfCut]| match Python::attach(|python| asked(python, &check, cuts)) {
                Ok(verdicts) => verdicts,
                Err(error) => {
                    *told = Some(error);
                    None
                }
            }
        });
        let check = ask.as_mut().map(|ask| ask as &mut Check<'_>);
        let progress = |done, total| tell(&progress, done, total, "");
        let outcome = arguments.cut(&shown, &text, check, progress);
        drop(ask);
        if let Some(error) = raised {
            return Err(error);
        }
        let outcome = outcome.map_err(NandlabError::new_err)?;
        serde_json::to_string(&outcome).map_err(failed)
    };
    // Cuts that were done before a signal came are worth seeing; the outcome says that they are not all.
    carry_out(python, cut)?.part()
}

/// What is wrong, by the option or the line that it is about.
pub(crate) fn told(shown: &str, error: CrashError) -> String {
    match error {
        CrashError::Line { place, reason } => format!("{shown}:{}: {reason}", place.behind_file()),
        CrashError::NoCutPoint { .. } => format!("--only: {error}"),
        CrashError::NoGuarantee { .. } => format!("--fs: {error}"),
        CrashError::TornModel { .. } => format!("--torn: {error}"),
        CrashError::Mount(MountError::BlockDevice { .. }) => format!("--block-device: {error}"),
        other => format!("{shown}: {other}"),
    }
}

/// Hands the files of cuts to a function of Python.
fn asked(
    python: Python<'_>,
    check: &Py<PyAny>,
    cuts: &[FilesOfCut],
) -> PyResult<Option<Vec<Verdict>>> {
    let mut handed = Vec::with_capacity(cuts.len());
    for FilesOfCut { cut_point, torn, acknowledged, tree } in cuts {
        let mut files = Vec::with_capacity(tree.rows.len());
        let mut names = BTreeMap::new();
        for (path, row) in &tree.rows {
            let first = *names.entry(row.inode).or_insert(path);
            let letter = row.facts.kind.letter();
            let bytes = if letter == 'l' { row.facts.target.clone() } else { row.content.to_vec() };
            let [path, content, first] =
                [path, &bytes, first].map(|bytes| PyBytes::new(python, bytes));
            files.push((path, letter, row.facts.permissions, content, first));
        }
        for path in &tree.unreadable {
            let [path, content] = [path.as_slice(), b""].map(|bytes| PyBytes::new(python, bytes));
            files.push((path.clone(), '?', 0, content, path));
        }
        handed.push((*cut_point, *torn, *acknowledged, files));
    }
    check.call1(python, (handed,))?.extract(python)
}

impl Arguments {
    fn cut(
        &self,
        shown: &str,
        text: &str,
        check: Option<&mut Check<'_>>,
        progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<Answer, String> {
        let script = script::parse(text).map_err(|error| crate::script::told(shown, &error))?;
        let OnChip { chip, card, setup, .. } = self.bench()?;
        let told = |error: CrashError| told(shown, error);
        let crash = match &self.image {
            Some(_) => Crash::from_image(&chip, &card, &setup, &script),
            None => Crash::new(&chip, &setup, &script),
        };
        let crash = crash.map_err(told)?;
        let mut cuts = self.cuts()?;
        let mut models = crash.models(&cuts.torn).map_err(told)?;
        if self.dump.is_some() && cuts.torn.is_empty() {
            // A file holds one medium: the one without what the cut could take.
            models.retain(|model| [NOTHING_LEFT, CACHE_LOST].contains(&model.name));
            cuts.torn.clone_from(&models);
        }
        let mut outcome = crash.run_checked(&cuts, check, progress).map_err(told)?;
        outcome.tell(text);
        // After a signal no file system is mounted any more.
        let shown = self.show.filter(|_| !outcome.interrupted).into_iter();
        let shown = shown.flat_map(|cut| models.iter().map(move |one| (cut, one)));
        let shown: Result<Vec<Shown>, CrashError> =
            shown.map(|(cut, model)| crash.show(cut, model)).collect();
        let shown = shown.map_err(told)?;
        if let (Some(path), Some(cut)) = (&self.dump, self.only) {
            // The run above has refused a cut that does not exist.
            let saved = match crash.card_after(cut, models[0]) {
                Some(card) => save_disk(path, &card, chip.geometry().capacity_bytes()),
                None => save(path, &crash.chip_after(cut, models[0]).map_err(told)?),
            };
            saved.map_err(|reason| format!("{}: {reason}", path.display()))?;
        }
        Ok(Answer { outcome, shown })
    }

    pub(crate) fn bench(&self) -> Result<OnChip, String> {
        let kind = find_kind(&self.fs).map_err(|error| format!("--fs: {error}"))?;
        kind.profile(self.profile.as_deref()).map_err(|error| format!("--profile: {error}"))?;
        let mut part = study::find_part_or_file(&self.part).map_err(|error| error.to_string())?;
        let geometry = &mut part.geometry;
        geometry.pages_per_block = self.pages_per_block.unwrap_or(geometry.pages_per_block);
        let image = self.image.as_ref().map(|path| ImageOnChip::read(path, geometry)).transpose();
        let image = image.map_err(|error| error.to_string())?;
        let wanted = self.blocks.or(image.as_ref().map(|image| image.blocks));
        geometry.blocks = wanted.unwrap_or(BLOCKS);
        study::check_geometry(geometry)
            .map_err(|reason| format!("--blocks, --pages-per-block: {reason}"))?;
        let fits = |layout: &&mtd::OobLayout| {
            layout.name.starts_with("linux-")
                && (layout.page_bytes, layout.oob_bytes)
                    == (geometry.page_data_bytes, geometry.page_oob_bytes)
        };
        let layout = LAYOUTS.iter().find(fits).ok_or_else(|| {
            format!(
                "--part {}: pages of {} + {} bytes have no spare-area layout here: 2048 + 64 and \
                 512 + 16 have one",
                self.part, geometry.page_data_bytes, geometry.page_oob_bytes
            )
        })?;
        let mut block = BlockRequest::default();
        if let Some(name) = &self.block_device {
            let found = BlockDeviceChoice::find(name);
            block.device = found.map_err(|error| format!("--block-device: {error}"))?;
        } else if kind.is_on_block_device && kind.usual_block_device != MTDBLOCK {
            let found = BlockDeviceChoice::find(kind.usual_block_device);
            block.device = found.map_err(|error| format!("--fs {}: {error}", kind.name))?;
        }
        kind.check_block_device(&block.device)
            .map_err(|error| format!("--block-device: {error}"))?;
        let is_on_card = block.device != BlockDeviceChoice::MtdBlock;
        let ubi = UbiRequest {
            header_offset: image.as_ref().and_then(|image| image.ubi_header_offset),
            ..UbiRequest::default()
        };
        let request = MountRequest {
            profile: self.profile.clone(),
            seed: self.seed,
            block,
            ubi,
            ..MountRequest::default()
        };
        let (seed, sabotage) = (self.seed, Sabotage::None);
        let mut chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        let mut card = CardContents::default();
        let told = |error: image::ImageError| error.to_string();
        match (&self.image, &image) {
            (Some(path), Some(image)) if is_on_card => {
                card.put(0, image.disk_bytes(path).map_err(told)?);
            }
            (Some(path), Some(image)) => chip = image.chip(path, &part, layout).map_err(told)?,
            _ => {}
        }
        let setup = Setup { kind: kind.name, request, layout, seed, sabotage };
        let has_image = self.image.is_some();
        Ok(OnChip { chip, card, setup, has_image })
    }

    pub(crate) fn cuts(&self) -> Result<Cuts, String> {
        let mut torn = Vec::new();
        for name in &self.torn {
            torn.push(find_torn_model(name).ok_or_else(|| {
                let models = TORN_MODELS.iter().chain(CACHE_MODELS);
                let known: Vec<&str> = models.map(|model| model.name).collect();
                format!("--torn: `{name}` is none of {}", known.join(", "))
            })?);
        }
        let then: Result<Vec<Then>, String> = self.then.iter().map(|one| one.parse()).collect();
        let then = then.map_err(|error| format!("--then: {error}"))?;
        let recoveries = match (self.recoveries, then.is_empty()) {
            (_, false) => Recoveries::Only(then),
            (0, true) => Recoveries::None,
            (depth, true) => Recoveries::Each { depth, most: usize::MAX },
        };
        let (every, only, workers) = (self.every, self.only, self.workers);
        Ok(Cuts { every, only, torn, workers, recoveries, ..Cuts::default() })
    }
}
