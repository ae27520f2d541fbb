//! Running the matrix of a study: every cell once, side by side, whatever kind of workload it is of.

use crate::StudyError;
use crate::cell_result;
use crate::cells::keys_of;
use crate::collected::{Collected, collect};
use crate::matrix::Run;
use crate::mount_check::check_mounts;
use crate::results::StudyResults;
use crate::study_file::Study;
use crate::work::{Outcome, Work, internal_error};
use crate::workload::table::{WORKLOADS, find_workload};
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time between two calls of the progress function while nothing finishes.
/// Short beside the 2 s within which Ctrl-C has to show what is finished, long beside the cost of a
/// call into Python.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Where finished cells are kept, so that they are carried out once.
pub trait CellStore {
    /// The engine that carries cells out, in words that no other engine has. It is part of each key.
    fn engine(&self) -> &str;

    /// The result of the cell with this key; none if it is not finished.
    fn take(&mut self, key: &str) -> Option<Vec<u8>>;

    /// The result that was taken last is damaged. The cell is run again.
    fn refuse(&mut self, key: &str);

    /// Keeps the result of a cell that was finished just now.
    fn keep(&mut self, key: &str, result: &[u8]);

    /// True if cells that are not finished stay so: nothing is carried out.
    fn is_all(&self) -> bool {
        false
    }
}

/// Nothing is kept.
struct NoStore;

impl CellStore for NoStore {
    fn engine(&self) -> &'static str {
        ""
    }

    fn take(&mut self, _: &str) -> Option<Vec<u8>> {
        None
    }

    fn refuse(&mut self, _: &str) {}

    fn keep(&mut self, _: &str, _: &[u8]) {}
}

/// A cell that has ended, and its result in the form that is kept.
struct Ended {
    cell: usize,
    outcome: Outcome,
    result: Option<Vec<u8>>,
}

/// Runs all combinations of a study on `jobs` workers.
///
/// `progress` gets the runs done, all runs and the label of the last one; it returns false to stop.
/// What is finished by then is returned, marked as interrupted.
///
/// # Errors
/// The first error in the order of the plan, among the runs done when one failed; no other is begun
/// after that.
pub fn run_study(
    study: &Study,
    jobs: usize,
    progress: &mut dyn FnMut(usize, usize, &str) -> bool,
) -> Result<StudyResults, StudyError> {
    let work = Work::of(study)?;
    run_work(&work, jobs, &[], &mut NoStore, progress)
}

/// Runs what `store` does not hold of a study, and keeps there what is finished.
///
/// The results are those of [`run_study`], wherever the cells were carried out.
///
/// # Errors
/// As of [`run_study`]; what was finished before the error is kept.
pub fn run_study_with(
    study: &Study,
    jobs: usize,
    store: &mut dyn CellStore,
    progress: &mut dyn FnMut(usize, usize, &str) -> bool,
) -> Result<StudyResults, StudyError> {
    let work = Work::of(study)?;
    let keys = keys_of(&work, store.engine())?;
    run_work(&work, jobs, &keys, store, progress)
}

/// Carries out cells that are not finished; `keys` is empty if nothing is kept.
fn run_work(
    work: &Work,
    jobs: usize,
    keys: &[String],
    store: &mut dyn CellStore,
    progress: &mut dyn FnMut(usize, usize, &str) -> bool,
) -> Result<StudyResults, StudyError> {
    check_timeline(&work.study, &work.runs)?;
    let mut collected = Collected::new(work);
    let mut missing = take_finished(work, keys, store, &mut collected);
    if store.is_all() {
        missing.clear();
    }
    let (sender, receiver) = channel();
    // Workers without work would cost memory.
    let jobs = jobs.clamp(1, missing.len().max(1));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|error| StudyError::Study { place: "--jobs".into(), reason: error.to_string() })?;
    let unmountable = Mutex::new(None);
    std::thread::scope(|scope| {
        // A thread of its own: this one reports progress, and stops the runs if the caller says so.
        scope.spawn(|| {
            pool.install(|| match can_be_mounted(work, &missing) {
                Ok(()) => run_all(work, &missing, keys, sender),
                Err(error) => {
                    *unmountable.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    // The loop below ends when the last sender is gone.
                    drop(sender);
                }
            });
        });
        receive(work, &receiver, keys, store, &mut collected, progress);
    });
    match unmountable.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => collect(work, collected),
    }
}

/// Takes finished cells from the store; those that are left to run.
fn take_finished(
    work: &Work,
    keys: &[String],
    store: &mut dyn CellStore,
    collected: &mut Collected,
) -> Vec<usize> {
    let mut missing = Vec::new();
    for cell in 0..work.groups.len() {
        // A store may hold a hundred thousand cells: who asks to stop need not wait for them.
        if work.is_stopped() {
            break;
        }
        // A timeline is written by the run itself.
        let is_run_anyway = cell == 0 && work.study.timeline_file.is_some();
        let key = keys.get(cell).filter(|_| !is_run_anyway);
        let taken = key.and_then(|key| {
            let result = store.take(key)?;
            // A store is a folder that others write, too: nothing in it is believed without its
            // checksum.
            let measured = cell_result::decode(&result, key).ok();
            if measured.is_none() {
                store.refuse(key);
            }
            measured
        });
        match taken {
            Some(measured) => collected.add(work, cell, Ok(Some(measured))),
            None => missing.push(cell),
        }
    }
    missing
}

/// # Errors
/// A timeline of a run that has none: by its kind of workload, or by itself.
fn check_timeline(study: &Study, runs: &[Run]) -> Result<(), StudyError> {
    let (Some(_), Some(first)) = (&study.timeline_file, runs.first()) else { return Ok(()) };
    let name = &study.workload.kind;
    let reason = if find_workload(name).is_some_and(|kind| kind.has_timeline) {
        let Some(why) = first.plan.why_no_timeline() else { return Ok(()) };
        format!("{}: {why}, so it has none; give the axes values of another run", first.label())
    } else {
        let kinds = WORKLOADS.iter().filter(|kind| kind.has_timeline);
        let kinds: Vec<String> = kinds.map(|kind| format!("`{}`", kind.name)).collect();
        format!(
            "a run of kind `{name}` has none, for no time passes in it; these kinds have one: {}",
            kinds.join(", ")
        )
    };
    Err(StudyError::Study { place: "timeline".into(), reason })
}

/// Takes the outcomes as they come, and reports progress, until the last sender is gone.
fn receive(
    work: &Work,
    receiver: &Receiver<Ended>,
    keys: &[String],
    store: &mut dyn CellStore,
    collected: &mut Collected,
    progress: &mut dyn FnMut(usize, usize, &str) -> bool,
) {
    let (mut done, mut label) = (collected.runs_done(work), String::new());
    loop {
        match receiver.recv_timeout(PROGRESS_INTERVAL) {
            Ok(Ended { cell, outcome, result }) => {
                label = work.first_of(cell).label();
                done += work.groups[cell].len();
                if let Some(result) = result {
                    store.keep(&keys[cell], &result);
                }
                // What has begun goes on to its end; nothing else would be of use.
                work.stop.fetch_or(outcome.is_err(), Ordering::Relaxed);
                collected.add(work, cell, outcome);
            }
            // Progress is reported even if no run ends: it is how the caller stops a study.
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        debug_assert!(done <= work.runs.len(), "no run is done twice");
        if !progress(done, work.runs.len(), &label) {
            work.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Mounts every stack once, before anything is run.
fn can_be_mounted(work: &Work, missing: &[usize]) -> Result<(), StudyError> {
    let stopped = || work.stop.load(Ordering::Relaxed);
    // What is finished was mounted once.
    let runs: Vec<Run> = missing.iter().map(|cell| work.first_of(*cell).clone()).collect();
    let check = || check_mounts(&runs, work.study.seed, &work.prepared.flash, &stopped);
    // A panic would take the thread along, and the caller would wait for progress without end.
    catch_unwind(AssertUnwindSafe(check))
        .unwrap_or_else(|panic| Err(internal_error(panic.as_ref())))
}

fn run_all(work: &Work, missing: &[usize], keys: &[String], sender: Sender<Ended>) {
    // Single runs differ in length a hundredfold: they are handed out one by one.
    missing.par_iter().with_max_len(1).for_each_with(sender, |sender, cell| {
        if work.is_stopped() {
            return;
        }
        let cell = *cell;
        // Of the first run alone, whatever the number of workers.
        let timeline_file = work.study.timeline_file.as_deref().filter(|_| cell == 0);
        let outcome = work.carry_out(cell, timeline_file);
        let result = match (keys.get(cell), &outcome) {
            // By the worker, as bytes of samples take long to write; only the store itself is left
            // to the receiving thread.
            (Some(key), Ok(Some(measured))) => Some(cell_result::encode(measured, key)),
            _ => None,
        };
        // The receiver outlives all senders, so a send cannot fail.
        let _ = sender.send(Ended { cell, outcome, result });
    });
}
