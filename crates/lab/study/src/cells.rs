//! Cells of a study: pieces of work that can be carried out anywhere, each with a key.
//!
//! The key of a cell is the BLAKE3 of all that its result depends on: what its plan is made of, seed and
//! repeat, the contents of files, and the engine. A plan is made of the study and of the values of the
//! axes alone (`WorkloadKind::plan`). Other values of the axes, texts and references change no key, so a
//! study that is extended by a value finds its finished cells again.

use crate::StudyError;
use crate::cell_result;
use crate::matrix::Run;
use crate::own_files::OwnFile;
use crate::study_file::Study;
use crate::work::Work;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Form of the descriptions; another form gives other keys.
const FORM: u32 = 1;

/// Keys of a study that no plan reads, or that the values of a run stand for.
const NOT_OF_PLANS: [&str; 8] =
    ["name", "title", "question", "reference", "needs_vm", "axes", "extra_runs", "repeats"];

/// A piece of work of a study: runs that cannot differ.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Cell {
    /// BLAKE3 of all that the result depends on, in hexadecimal.
    pub key: String,
    /// Runs that have this result.
    pub runs: usize,
    /// Values of the axes of the first of them.
    pub label: String,
}

/// The cells of a study, in the order of the plan; `engine` names the engine that is to carry them out.
///
/// # Errors
/// A study that is wrong, or that is not carried out here; a file that cannot be read.
pub fn cells(study: &Study, engine: &str) -> Result<Vec<Cell>, StudyError> {
    Ok(CellWorker::new(study, engine)?.cells())
}

/// A study whose cells are carried out one by one, in any order.
///
/// What cells share, such as traces and devices filled with data, is made once.
pub struct CellWorker {
    work: Work,
    keys: Vec<String>,
}

impl CellWorker {
    /// Reads all that the cells of a study need.
    ///
    /// # Errors
    /// As of [`cells`].
    pub fn new(study: &Study, engine: &str) -> Result<Self, StudyError> {
        let work = Work::of(study)?;
        let keys = keys_of(&work, engine)?;
        Ok(Self { work, keys })
    }

    /// The cells, in the order of the plan.
    pub fn cells(&self) -> Vec<Cell> {
        let cell = |(number, key): (usize, &String)| Cell {
            key: key.clone(),
            runs: self.work.groups[number].len(),
            label: self.work.first_of(number).label(),
        };
        self.keys.iter().enumerate().map(cell).collect()
    }

    /// Files that the cells read: the name by which the study finds each, and its path.
    pub fn files(&self) -> Vec<(String, PathBuf)> {
        let own = self.work.study.own_files().into_iter();
        let mut files: Vec<_> = own.map(|file| (file.name, PathBuf::from(file.path))).collect();
        for path in self.work.traces.keys() {
            // The folder was put before the name, unless the name is a whole path.
            let name = path.strip_prefix(&self.work.study.folder).unwrap_or(path);
            files.push((name.display().to_string(), path.clone()));
        }
        files
    }

    /// Mounts every stack of a study of file systems once.
    ///
    /// # Errors
    /// [`StudyError::Unmountable`] with all that cannot be mounted.
    pub fn check_mounts(&self) -> Result<(), StudyError> {
        let stopped = || cancellation::is_requested();
        let flash = &self.work.prepared.flash;
        crate::mount_check::check_mounts(&self.work.runs, self.work.study.seed, flash, &stopped)
    }

    /// Carries out the cell with that number; none if somebody asked to stop.
    ///
    /// # Errors
    /// What ended the run; a number that no cell has.
    pub fn run_cell(&self, number: usize) -> Result<Option<Vec<u8>>, StudyError> {
        let Some(key) = self.keys.get(number) else {
            let reason = format!("the study has {} cells", self.keys.len());
            return Err(StudyError::Study { place: format!("cell {number}"), reason });
        };
        // No timeline: its file belongs to the machine of the caller, who runs that cell itself.
        let measured = self.work.carry_out(number, None)?;
        Ok(measured.map(|measured| cell_result::encode(&measured, key)))
    }
}

/// The key of each cell.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn keys_of(work: &Work, engine: &str) -> Result<Vec<String>, StudyError> {
    let mut of_plans = json!(work.study);
    let fields = of_plans.as_object_mut().expect("a study is a table");
    for name in NOT_OF_PLANS {
        // `shift_remove` keeps the order of the rest, and the text is hashed as it stands; `remove`
        // would swap in the last one.
        fields.shift_remove(name);
    }
    // Written once: it is the same for ten thousand cells.
    let common = json!({"form": FORM, "engine": engine, "study": of_plans}).to_string();
    let columns = work.study.columns();
    let files = Contents::of(work)?;
    let key = |group: &Vec<usize>| {
        // The first run stands for the group, so a value put before it on an axis gives the cell
        // another key: it is run again, never mistaken.
        let run = &work.runs[group[0]];
        let mut hasher = blake3::Hasher::new();
        hasher.update(common.as_bytes());
        hasher.update(describe(run, &columns, &files).to_string().as_bytes());
        hasher.finalize().to_hex().to_string()
    };
    let keys: Vec<String> = work.groups.iter().map(key).collect();
    debug_assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len(), "cells differ");
    Ok(keys)
}

/// What a run has beside the study.
fn describe(run: &Run, columns: &[String], files: &Contents) -> Value {
    let values: Vec<(&String, &String)> = columns.iter().zip(&*run.axes).collect();
    json!({
        "values": values,
        "repeat": run.repeat,
        "files": files.read_by(run),
        "trace": run.plan.trace().map(|path| &files.traces[path]),
    })
}

/// BLAKE3 of the files that a study names.
struct Contents {
    /// The user's own files, and whether only runs with that value of an axis read them.
    own: Vec<(OwnFile, String, bool)>,
    traces: BTreeMap<PathBuf, String>,
}

impl Contents {
    fn of(work: &Work) -> Result<Self, StudyError> {
        let study = &work.study;
        let of_extra_runs = study.extra_runs.iter().flat_map(|extra| extra.axes.values());
        let on_axes: BTreeSet<String> =
            study.axes.values().chain(of_extra_runs).flatten().map(ToString::to_string).collect();
        let host = study.host.as_ref();
        let of_all: Vec<&String> = [
            study.part.as_ref(),
            study.workload.script.as_ref(),
            host.map(|host| &host.board),
            host.and_then(|host| host.device.as_ref()),
            host.and_then(|host| host.block_device.as_ref()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let own = study.own_files().into_iter().map(|file| {
            let content = content_of(Path::new(&file.path))?;
            // Whatever is not known to belong to single values counts for all cells: too many keys
            // cost time, too few give wrong results.
            let is_of_value = on_axes.contains(&file.name) && !of_all.contains(&&file.name);
            Ok((file, content, is_of_value))
        });
        let traces = work.traces.keys().map(|path| Ok((path.clone(), content_of(path)?)));
        let own = own.collect::<Result<_, StudyError>>()?;
        Ok(Self { own, traces: traces.collect::<Result<_, StudyError>>()? })
    }

    /// Kind, name and content of each file that a run may read.
    fn read_by(&self, run: &Run) -> Vec<[&str; 3]> {
        let own = self
            .own
            .iter()
            .filter(|(file, _, is_of_value)| !is_of_value || run.axes.contains(&file.name));
        own.map(|(file, content, _)| [file.what, &file.name, content]).collect()
    }
}

/// BLAKE3 of a file, in hexadecimal.
fn content_of(path: &Path) -> Result<String, StudyError> {
    let read = || -> std::io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(std::fs::File::open(path)?)?;
        Ok(hasher.finalize())
    };
    let unread = |reason| StudyError::File { path: path.display().to_string(), reason };
    Ok(read().map_err(unread)?.to_hex().to_string())
}
