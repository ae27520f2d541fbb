//! Running the matrix of a study: every plan once, side by side, whatever kind of workload it is of.

use crate::StudyError;
use crate::matrix::Run;
use crate::metric::{Number, TestRow};
use crate::mount_check::check_mounts;
use crate::pooled::PooledCells;
use crate::requests::Requests;
use crate::results::{Curve, Heads, Measurements, Rows, StudyResults};
use crate::single::unwritten_note;
use crate::study_file::Study;
use crate::workload::contract::{Identity, Measured, Prepared, RunContext};
use crate::workload::table::{WORKLOADS, find_workload};
use ftl::OwnPolicyError;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trace::Options;

/// Time between two calls of the progress function while nothing finishes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// What became of a run: none if it was stopped.
type Outcome = Result<Option<Measured>, StudyError>;

/// What is kept of a group of runs until all are done.
#[derive(Debug)]
struct Kept {
    metrics: Measurements,
    derived: Measurements,
    curve: Option<Curve>,
    tests: Vec<KeptTest>,
}

/// What is kept of a test, as of a [`TestRow`].
#[derive(Debug)]
struct KeptTest {
    test: &'static str,
    metrics: Measurements,
    note: Option<String>,
}

/// What was measured so far, in small forms: there may be ten thousand cells.
struct Collected {
    heads: Heads,
    cells: PooledCells,
    /// By group: none if it is not done, or was stopped.
    groups: Vec<Option<Result<Kept, StudyError>>>,
}

impl Collected {
    fn new(work: &Work<'_>) -> Self {
        Self {
            heads: Heads::default(),
            cells: PooledCells::new(
                work.runs.iter().map(|run| &run.axes),
                work.study.timeline.as_ref().is_some_and(|timeline| timeline.places),
            ),
            groups: work.groups.iter().map(|_| None).collect(),
        }
    }

    fn add(&mut self, work: &Work<'_>, index: usize, outcome: Outcome) {
        debug_assert!(self.groups[index].is_none(), "a group is carried out once");
        self.groups[index] = match outcome {
            Err(error) => Some(Err(error)),
            Ok(None) => None,
            Ok(Some(measured)) => {
                let samples = measured.samples.map(|samples| Arc::new(*samples));
                for run in &work.groups[index] {
                    self.cells.ended(*run, samples.as_ref());
                }
                let mut test = |row: TestRow| KeptTest {
                    test: row.test,
                    metrics: self.heads.pack(row.metrics),
                    note: row.note,
                };
                let tests = measured.tests.into_iter().map(&mut test).collect();
                Some(Ok(Kept {
                    metrics: self.heads.pack(measured.metrics),
                    derived: self.heads.pack(measured.derived),
                    curve: measured.curve.map(|points| Curve::pack(&points)),
                    tests,
                }))
            }
        };
    }
}

/// What the workers share.
struct Work<'a> {
    study: &'a Study,
    runs: &'a [Run],
    /// Numbers of the runs, those with the same results together.
    groups: &'a [Vec<usize>],
    traces: &'a BTreeMap<PathBuf, Requests>,
    prepared: &'a Prepared,
    /// The progress function said stop, or a run failed.
    stop: &'a AtomicBool,
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
    let runs = study.runs()?;
    if let Some(place) = runs.iter().find_map(|run| run.plan.carried_out_elsewhere()) {
        return Err(StudyError::Study { place: "workload".into(), reason: place.into() });
    }
    check_timeline(study, &runs)?;
    let traces = load_traces(study, &runs)?;
    // Runs that cannot differ are carried out once.
    let groups = same_work(&runs);
    let prepared = Prepared::default();
    let stop = AtomicBool::new(false);
    let work = Work {
        study,
        runs: &runs,
        groups: &groups,
        traces: &traces,
        prepared: &prepared,
        stop: &stop,
    };
    let (sender, receiver) = channel();
    // Workers without work would cost memory.
    let jobs = jobs.clamp(1, groups.len().max(1));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|error| StudyError::Study { place: "--jobs".into(), reason: error.to_string() })?;
    let mut collected = Collected::new(&work);
    let unmountable = Mutex::new(None);
    std::thread::scope(|scope| {
        // A thread of its own: this one reports progress, and stops the runs if the caller says so.
        scope.spawn(|| {
            pool.install(|| match can_be_mounted(&work) {
                Ok(()) => run_all(&work, sender),
                Err(error) => {
                    *unmountable.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    // The loop below ends when the last sender is gone.
                    drop(sender);
                }
            });
        });
        receive(&work, &receiver, &mut collected, progress);
    });
    match unmountable.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => collect(&work, collected),
    }
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

/// Says which run a timeline shows, where there are several.
fn timeline_note(work: &Work<'_>) -> Option<String> {
    let first = work.runs.first().filter(|_| work.runs.len() > 1)?;
    work.study.timeline_file.as_ref()?;
    let (label, repeat) = (first.label(), first.repeat);
    Some(format!(
        "the timeline shows the first of {} runs: {label}, repeat {repeat}",
        work.runs.len()
    ))
}

/// Takes the outcomes as they come, and reports progress, until the last sender is gone.
fn receive(
    work: &Work<'_>,
    receiver: &Receiver<(usize, Outcome)>,
    collected: &mut Collected,
    progress: &mut dyn FnMut(usize, usize, &str) -> bool,
) {
    let (mut done, mut label) = (0, String::new());
    loop {
        match receiver.recv_timeout(PROGRESS_INTERVAL) {
            Ok((index, outcome)) => {
                let group: &Vec<usize> = &work.groups[index];
                label = work.runs[group[0]].label();
                done += group.len();
                // What has begun goes on to its end; nothing else would be of use.
                work.stop.fetch_or(outcome.is_err(), Ordering::Relaxed);
                collected.add(work, index, outcome);
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
fn can_be_mounted(work: &Work<'_>) -> Result<(), StudyError> {
    let stopped = || work.stop.load(Ordering::Relaxed);
    let check = || check_mounts(work.runs, work.study.seed, &work.prepared.flash, &stopped);
    // A panic would take the thread along, and the caller would wait for progress without end.
    catch_unwind(AssertUnwindSafe(check))
        .unwrap_or_else(|panic| Err(internal_error(panic.as_ref())))
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

fn run_all(work: &Work<'_>, sender: Sender<(usize, Outcome)>) {
    // The progress function said stop, or the work was cancelled from outside.
    let stopped = || work.stop.load(Ordering::Relaxed) || cancellation::is_requested();
    // Single runs differ in length a hundredfold: they are handed out one by one.
    work.groups.par_iter().enumerate().with_max_len(1).for_each_with(
        sender,
        |sender, (index, group)| {
            if stopped() {
                return;
            }
            let run = &work.runs[group[0]];
            let context = RunContext {
                study_seed: work.study.seed,
                repeat: run.repeat,
                requests: run.plan.trace().map(|path| &work.traces[path]),
                prepared: work.prepared,
                // Of the first run alone, whatever the number of workers.
                timeline_file: work.study.timeline_file.as_deref().filter(|_| index == 0),
                stopped: &stopped,
            };
            let outcome = catch_unwind(AssertUnwindSafe(|| run.plan.carry_out(&context)));
            let outcome = outcome.unwrap_or_else(|reason| {
                // A run that was cut short has no results; those that were finished have.
                if cancellation::is_interruption(reason.as_ref()) {
                    return Ok(None);
                }
                Err(internal_error(reason.as_ref()))
            });
            // The receiver outlives all senders, so a send cannot fail.
            let _ = sender.send((index, outcome));
        },
    );
}

fn internal_error(panic: &(dyn std::any::Any + Send)) -> StudyError {
    // Not a defect of the engine: a policy of the user's own failed, and says so itself.
    if let Some(OwnPolicyError { policy, reason }) = panic.downcast_ref::<OwnPolicyError>() {
        return StudyError::Study { place: policy.clone(), reason: reason.clone() };
    }
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    StudyError::Study { place: "internal error, please report it".into(), reason: text.to_owned() }
}

/// What each run measured, in the order of the plan; none of runs that were not finished.
fn by_run<'k>(
    work: &Work<'_>,
    groups: &'k [Option<Result<Kept, StudyError>>],
) -> Result<Vec<Option<&'k Kept>>, StudyError> {
    let is_finished = |group: &Option<Result<Kept, StudyError>>| matches!(group, Some(Ok(_)));
    let sizes = groups.iter().zip(work.groups).filter(|(group, _)| is_finished(group));
    let finished = sizes.map(|(_, runs)| runs.len()).sum();
    let mut by_run = vec![None; work.runs.len()];
    for (kept, runs) in groups.iter().zip(work.groups) {
        let Some(kept) = kept else { continue };
        let kept = kept.as_ref().map_err(|error| StudyError::Run {
            run: work.runs[runs[0]].label(),
            reason: error.to_string(),
            finished,
            total: work.runs.len(),
        })?;
        // The runs of a group have the same results.
        for run in runs {
            by_run[*run] = Some(kept);
        }
    }
    Ok(by_run)
}

fn collect(work: &Work<'_>, collected: Collected) -> Result<StudyResults, StudyError> {
    let (study, runs) = (work.study, work.runs);
    let by_run = by_run(work, &collected.groups)?;
    let notes_of = |(path, requests): (&PathBuf, &Requests)| -> Vec<String> {
        requests.notes.iter().map(|note| format!("{}: {note}", path.display())).collect()
    };
    let mut results = StudyResults {
        columns: study.columns(),
        axis_kinds: study.axis_kinds(),
        rows: Rows::default(),
        derived: Rows::default(),
        curves: Vec::new(),
        tables: Vec::new(),
        notes: work.traces.iter().flat_map(notes_of).chain(notes_of_plans(runs)).collect(),
        interrupted: by_run.iter().any(Option::is_none),
    };
    results.notes.extend(timeline_note(work));
    results.notes.extend(unwritten_reads(&by_run));
    for (run, kept) in runs.iter().zip(&by_run) {
        let Some(kept) = kept else { continue };
        results.rows.push(run.axes.clone(), run.repeat, kept.metrics.clone());
        results.derived.push(run.axes.clone(), run.repeat, kept.derived.clone());
        for KeptTest { test, metrics, note } in &kept.tests {
            let axes = run.axes.iter().cloned().chain([(*test).to_owned()]).collect();
            let note = note.iter().map(|note| format!("{}, {test}: {note}", run.label()));
            results.notes.extend(note);
            results.rows.push(axes, run.repeat, metrics.clone());
        }
        results.curves.extend(kept.curve.iter().map(|curve| (run.axes.clone(), curve.clone())));
    }
    debug_assert!(
        results.rows.iter().all(|row| row.axes.len() == results.columns.len()),
        "a row has a cell for each column"
    );
    // Even where no run was finished: the heads of the tables are part of the digest.
    if runs.iter().any(|run| run.plan.has_pooled_tables()) {
        results.tables = collected.cells.tables(&results.columns);
    }
    Ok(results)
}

/// Notes of the plans, each once.
fn notes_of_plans(runs: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    for note in runs.iter().filter_map(|run| run.plan.note()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// A note on runs that read pages which held nothing.
fn unwritten_reads(by_run: &[Option<&Kept>]) -> Option<String> {
    let metric = |kept: &Kept, name: &str| {
        let found = kept.metrics.iter().find(|metric| metric.name == name)?;
        match found.value {
            Number::Count(count) => Some(count),
            Number::Real(_) => None,
        }
    };
    let counted: Vec<[u64; 2]> = by_run
        .iter()
        .flatten()
        .filter_map(|kept| {
            let pages = metric(kept, "unwritten_read_pages").filter(|pages| *pages > 0)?;
            Some([pages, metric(kept, "host_read_pages")?])
        })
        .collect();
    let most = counted.iter().max_by_key(|[pages, _]| *pages)?;
    debug_assert!(
        most[0] <= most[1],
        "{} of {} pages that were read held nothing",
        most[0],
        most[1]
    );
    let (runs, of) = (counted.len(), by_run.len());
    let what = unwritten_note(most[0], most[1])?;
    Some(format!("in {runs} of {of} runs, at most: {what}"))
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
