//! The work that a study stands for: its runs, those with the same results together, and what they share.

use crate::StudyError;
use crate::matrix::Run;
use crate::requests::Requests;
use crate::study_file::Study;
use crate::workload::contract::{Identity, Measured, Prepared, RunContext};
use ftl::OwnPolicyError;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use trace::Options;

/// What became of a run: none if it was stopped.
pub(crate) type Outcome = Result<Option<Measured>, StudyError>;

/// What the workers share.
pub(crate) struct Work {
    pub(crate) study: Study,
    pub(crate) runs: Vec<Run>,
    /// Numbers of the runs, those with the same results together: a group is a cell.
    pub(crate) groups: Vec<Vec<usize>>,
    pub(crate) traces: BTreeMap<PathBuf, Requests>,
    pub(crate) prepared: Prepared,
    /// The progress function said stop, or a run failed.
    pub(crate) stop: AtomicBool,
}

impl Work {
    /// The runs of a study, with the traces that they read.
    ///
    /// # Errors
    /// A study that is wrong, or that is not carried out here; a trace that cannot be read.
    pub(crate) fn of(study: &Study) -> Result<Self, StudyError> {
        let runs = study.runs()?;
        if let Some(place) = runs.iter().find_map(|run| run.plan.carried_out_elsewhere()) {
            return Err(StudyError::Study { place: "workload".into(), reason: place.into() });
        }
        let traces = load_traces(study, &runs)?;
        // Runs that cannot differ are carried out once.
        let groups = same_work(&runs);
        let (prepared, stop) = (Prepared::default(), AtomicBool::new(false));
        Ok(Self { study: study.clone(), runs, groups, traces, prepared, stop })
    }

    /// The run that stands for all of a cell.
    pub(crate) fn first_of(&self, cell: usize) -> &Run {
        &self.runs[self.groups[cell][0]]
    }

    /// True if the work is to end: the progress function said so, or somebody outside.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || cancellation::is_requested()
    }

    /// Carries out a cell; a panic is an error, and a run that was cut short has no results.
    pub(crate) fn carry_out(&self, cell: usize, timeline_file: Option<&Path>) -> Outcome {
        let run = self.first_of(cell);
        let context = RunContext {
            study_seed: self.study.seed,
            repeat: run.repeat,
            requests: run.plan.trace().map(|path| &self.traces[path]),
            prepared: &self.prepared,
            timeline_file,
            stopped: &|| self.is_stopped(),
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| run.plan.carry_out(&context)));
        outcome.unwrap_or_else(|reason| {
            // A run that was cut short has no results; those that were finished have.
            if cancellation::is_interruption(reason.as_ref()) {
                return Ok(None);
            }
            Err(internal_error(reason.as_ref()))
        })
    }
}

/// Numbers of the runs, those with the same results together, in the order of their first ones.
fn same_work(runs: &[Run]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    // A table: to compare every run with every other one takes seconds where there are ten thousand.
    let mut places: BTreeMap<Identity, usize> = BTreeMap::new();
    for (index, run) in runs.iter().enumerate() {
        let next = groups.len();
        let place = match run.plan.identity(run.repeat) {
            Some(identity) => *places.entry(identity).or_insert(next),
            None => next,
        };
        if place == next {
            groups.push(Vec::new());
        }
        groups[place].push(index);
    }
    debug_assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), runs.len());
    groups
}

/// The error that a panic stands for; every boundary of the engine says it in these words.
pub fn internal_error(panic: &(dyn std::any::Any + Send)) -> StudyError {
    // Not a defect of the engine: a policy of the user's own failed, and says so itself.
    if let Some(OwnPolicyError { policy, reason }) = panic.downcast_ref::<OwnPolicyError>() {
        return StudyError::Study { place: policy.clone(), reason: reason.clone() };
    }
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    StudyError::Study { place: "internal error, please report it".into(), reason: text.to_owned() }
}

/// Loads every trace once, however many runs read it.
fn load_traces(study: &Study, runs: &[Run]) -> Result<BTreeMap<PathBuf, Requests>, StudyError> {
    let limit = if study.quick { study.workload.requests_quick } else { None };
    let mut traces = BTreeMap::new();
    for path in runs.iter().filter_map(|run| run.plan.trace()) {
        if !traces.contains_key(path) {
            traces.insert(path.to_owned(), Requests::load(path, &Options::default(), limit)?);
        }
    }
    Ok(traces)
}
