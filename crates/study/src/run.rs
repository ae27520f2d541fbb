//! Running the matrix of a study.

use crate::StudyError;
use crate::flash_history::PreparedFlash;
use crate::ftl_device::{build_device, resolve};
use crate::generated::run_generated;
use crate::iozone::run_iozone;
use crate::jobs::{CellTables, JobsOutcome, JobsRun, PreparedDevices, pooled_tables, run_jobs};
use crate::matrix::Run;
use crate::mount_check::check_mounts;
use crate::raw_nand::{Context, RawNandRun};
use crate::replay::{AddressRule, Replay};
use crate::requests::{Request, Requests};
use crate::results::{Metric, Number, Row, StudyResults, TestRow, cumulative, device_metrics};
use crate::service_times::{ServiceTimes, rebuild_metric};
use crate::single::unwritten_note;
use crate::stacks::kernel_notes;
use crate::study_file::{Preconditioning, Study};
use crate::windows::Windows;
use crate::workload_kinds::UNIFORM;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trace::{Operation, Options};

/// Points of a cumulative curve.
const CURVE_POINTS: u64 = 200;

/// Time between two calls of the progress function while nothing finishes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Requests between two looks at the stop flag.
const STRIDE: usize = 4096;

/// What a run measured.
#[derive(Clone, Default)]
struct Measured {
    metrics: Vec<Metric>,
    /// What follows from them under another way of counting.
    derived: Vec<Metric>,
    /// Points of its cumulative curve.
    curve: Vec<[u64; 5]>,
    /// Everything of a run of processes, to be pooled with other repeats.
    jobs: Option<Box<JobsOutcome>>,
    /// The tests of a run of IOzone, or the phases of a test.
    tests: Vec<TestRow>,
}

/// What became of a run: none if it was stopped.
type Outcome = Result<Option<Measured>, StudyError>;

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
    if study.is_of_kernel() {
        let reason = "kind `kernel` runs in a virtual machine, which `nandlab run` starts";
        return Err(StudyError::Study { place: "workload".into(), reason: reason.into() });
    }
    let runs = study.runs()?;
    let traces = load_traces(study, &runs)?;
    // Runs that cannot differ are carried out once.
    let groups = same_work(&runs);
    let prepared = Prepared::default();
    let stop = AtomicBool::new(false);
    let (sender, receiver) = channel();
    // Workers without work would cost memory.
    let jobs = jobs.clamp(1, groups.len().max(1));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|error| StudyError::Study { place: "--jobs".into(), reason: error.to_string() })?;
    let mut outcomes: Vec<Option<Outcome>> = groups.iter().map(|_| None).collect();
    let unmountable = Mutex::new(None);
    std::thread::scope(|scope| {
        // A thread of its own: this one reports progress and asks whether to stop.
        scope.spawn(|| {
            pool.install(|| match can_be_mounted(study, &runs, &prepared, &stop) {
                Ok(()) => run_all(study, &runs, &groups, &traces, &prepared, &stop, sender),
                Err(error) => {
                    *unmountable.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    // The loop below ends when the last sender is gone.
                    drop(sender);
                }
            });
        });
        let (mut done, mut label) = (0, String::new());
        loop {
            match receiver.recv_timeout(PROGRESS_INTERVAL) {
                Ok((index, outcome)) => {
                    let group: &Vec<usize> = &groups[index];
                    label = runs[group[0]].label();
                    done += group.len();
                    // What has begun goes on to its end; nothing else would be of use.
                    stop.fetch_or(outcome.is_err(), Ordering::Relaxed);
                    outcomes[index] = Some(outcome);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if !progress(done, runs.len(), &label) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    match unmountable.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => collect(study, &runs, &groups, &traces, outcomes),
    }
}

/// Mounts every stack of a study of file systems once, before anything is run.
fn can_be_mounted(
    study: &Study,
    runs: &[Run],
    prepared: &Prepared,
    stop: &AtomicBool,
) -> Result<(), StudyError> {
    let stopped = || stop.load(Ordering::Relaxed);
    let check = || check_mounts(runs, study.seed, &prepared.flash, &stopped);
    catch_unwind(AssertUnwindSafe(check))
        .unwrap_or_else(|panic| Err(internal_error(panic.as_ref())))
}

/// What is made once and copied for every run.
#[derive(Default)]
struct Prepared {
    devices: PreparedDevices,
    flash: PreparedFlash,
}

/// Numbers of the runs, those with the same results together.
fn same_work(runs: &[Run]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        match groups.iter_mut().find(|group| runs[group[0]].is_same_work(run)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups
}

fn run_all(
    study: &Study,
    runs: &[Run],
    groups: &[Vec<usize>],
    traces: &BTreeMap<PathBuf, Requests>,
    prepared: &Prepared,
    stop: &AtomicBool,
    sender: Sender<(usize, Outcome)>,
) {
    // The progress function said stop, or the work was cancelled from outside.
    let stopped = || stop.load(Ordering::Relaxed) || cancellation::is_requested();
    // Single runs differ in length a hundredfold: they are handed out one by one.
    groups.par_iter().enumerate().with_max_len(1).for_each_with(
        sender,
        |sender, (index, group)| {
            if stopped() {
                return;
            }
            let run = &runs[group[0]];
            let requests = run.trace.as_ref().map(|path| &traces[path]);
            let outcome = catch_unwind(AssertUnwindSafe(|| match (&run.jobs, &run.iozone) {
                (Some(jobs), _) => {
                    run_processes(study, run.repeat, jobs, &prepared.devices, &stopped)
                }
                (_, Some(plan)) => {
                    let tests =
                        run_iozone(plan, study.seed, run.repeat, &prepared.flash, &stopped)?;
                    Ok(tests.map(|tests| Measured { tests, ..Measured::default() }))
                }
                _ => match &run.raw_nand {
                    Some(plan) => run_test(study, run.repeat, plan, &prepared.flash, &stopped),
                    None => run_one(study, run, requests, &stopped),
                },
            }));
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
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    StudyError::Study { place: "internal error, please report it".into(), reason: text.to_owned() }
}

fn collect(
    study: &Study,
    runs: &[Run],
    groups: &[Vec<usize>],
    traces: &BTreeMap<PathBuf, Requests>,
    outcomes: Vec<Option<Outcome>>,
) -> Result<StudyResults, StudyError> {
    let is_finished = |outcome: &Option<Outcome>| matches!(outcome, Some(Ok(Some(_))));
    let sizes = outcomes.iter().zip(groups).filter(|(outcome, _)| is_finished(outcome));
    let finished = sizes.map(|(_, group)| group.len()).sum();
    let mut by_run: Vec<Option<Measured>> = vec![None; runs.len()];
    for (outcome, group) in outcomes.into_iter().zip(groups) {
        let Some(outcome) = outcome else { continue };
        let measured = outcome.map_err(|error| StudyError::Run {
            run: runs[group[0]].label(),
            reason: error.to_string(),
            finished,
            total: runs.len(),
        })?;
        // The runs of a group have the same results.
        for index in group {
            by_run[*index].clone_from(&measured);
        }
    }
    let notes_of = |(path, requests): (&PathBuf, &Requests)| -> Vec<String> {
        requests.notes.iter().map(|note| format!("{}: {note}", path.display())).collect()
    };
    let mut results = StudyResults {
        columns: study.columns(),
        axis_kinds: study.axis_kinds(),
        rows: Vec::new(),
        derived: Vec::new(),
        curves: Vec::new(),
        tables: Vec::new(),
        notes: traces.iter().flat_map(notes_of).chain(kernel_notes(runs)).collect(),
        interrupted: by_run.iter().any(Option::is_none),
    };
    results.notes.extend(unwritten_reads(&by_run));
    let mut cells: Vec<CellTables> = Vec::new();
    let mut places: BTreeMap<&[String], usize> = BTreeMap::new();
    for (run, measured) in runs.iter().zip(by_run) {
        let Some(measured) = measured else { continue };
        let row = |metric| Row { axes: run.axes.clone(), repeat: run.repeat, metric };
        results.rows.extend(measured.metrics.into_iter().map(row));
        results.derived.extend(measured.derived.into_iter().map(row));
        for TestRow { test, metrics, note } in measured.tests {
            let axes: Vec<String> = run.axes.iter().cloned().chain([test.to_owned()]).collect();
            results.notes.extend(note.map(|note| format!("{}, {test}: {note}", run.label())));
            let row = |metric| Row { axes: axes.clone(), repeat: run.repeat, metric };
            results.rows.extend(metrics.into_iter().map(row));
        }
        match measured.jobs {
            Some(outcome) => {
                // Looked up, not taken from the end: repeats of extra runs come after other combinations.
                let place = *places.entry(&run.axes).or_insert(cells.len());
                if place == cells.len() {
                    cells.push(CellTables::new(run.axes.clone()));
                }
                outcome.pool(&mut cells[place]);
            }
            None if study.has_file_systems() => {}
            None => results.curves.push((run.axes.clone(), measured.curve)),
        }
    }
    if study.has_jobs() {
        results.tables = pooled_tables(&results.columns, &cells);
    }
    Ok(results)
}

/// What a reader has to know of runs that read pages which held nothing.
fn unwritten_reads(by_run: &[Option<Measured>]) -> Option<String> {
    let metric = |measured: &Measured, name: &str| {
        let found = measured.metrics.iter().find(|metric| metric.name == name)?;
        match found.value {
            Number::Count(count) => Some(count),
            Number::Real(_) => None,
        }
    };
    let counted: Vec<[u64; 2]> = by_run
        .iter()
        .flatten()
        .filter_map(|measured| {
            let pages = metric(measured, "unwritten_read_pages").filter(|pages| *pages > 0)?;
            Some([pages, metric(measured, "host_read_pages")?])
        })
        .collect();
    let most = counted.iter().max_by_key(|[pages, _]| *pages)?;
    let (runs, of) = (counted.len(), by_run.len());
    let what = unwritten_note(most[0], most[1])?;
    Some(format!("in {runs} of {of} runs, at most: {what}"))
}

fn load_traces(study: &Study, runs: &[Run]) -> Result<BTreeMap<PathBuf, Requests>, StudyError> {
    let limit = if study.quick { study.workload.requests_quick } else { None };
    let mut traces = BTreeMap::new();
    for path in runs.iter().filter_map(|run| run.trace.as_ref()) {
        if !traces.contains_key(path) {
            traces.insert(path.clone(), Requests::load(path, &Options::default(), limit)?);
        }
    }
    Ok(traces)
}

fn run_processes(
    study: &Study,
    repeat: u32,
    jobs: &JobsRun,
    devices: &PreparedDevices,
    stopped: &dyn Fn() -> bool,
) -> Outcome {
    let outcome = run_jobs(jobs, study.seed, repeat, devices, stopped)?;
    Ok(outcome.map(|outcome| Measured {
        metrics: outcome.metrics(),
        jobs: Some(Box::new(outcome)),
        ..Measured::default()
    }))
}

fn run_test(
    study: &Study,
    repeat: u32,
    plan: &RawNandRun,
    prepared: &PreparedFlash,
    stopped: &dyn Fn() -> bool,
) -> Outcome {
    if stopped() {
        return Ok(None);
    }
    let seed = study.seed.wrapping_add(repeat.into());
    let context = Context { prepared, study_seed: study.seed, seed };
    let tests = (plan.test.carry_out)(plan, &context)?;
    Ok(Some(Measured { tests, ..Measured::default() }))
}

fn run_one(
    study: &Study,
    run: &Run,
    requests: Option<&Requests>,
    stopped: &dyn Fn() -> bool,
) -> Outcome {
    let mut replay = Replay::new(build_device(&run.device)?, AddressRule::Error);
    let Some(requests) = requests else {
        let complete = run_generated(study, run.repeat, &mut replay, stopped)?;
        if !complete {
            return Ok(None);
        }
        let mut metrics = device_metrics(&replay);
        if study.workload.kind == UNIFORM {
            let predicted = resolve(&run.device)?.predicted_waf();
            metrics.extend(predicted.map(|waf| Metric::number("predicted_waf", waf, "ratio")));
        }
        return Ok(Some(Measured { metrics, ..Measured::default() }));
    };
    let complete = match study.workload.preconditioning {
        Preconditioning::None => true,
        Preconditioning::Image => serve_all(&mut replay, requests.set_up(), stopped)?,
        Preconditioning::ImageAndPass => serve_all(&mut replay, requests.requests.iter(), stopped)?,
    };
    if !complete {
        return Ok(None);
    }
    replay.reset_counters();
    measure(study, run, &mut replay, requests, stopped)
}

/// Serves requests in order; false if it was stopped.
fn serve_all<'a>(
    replay: &mut Replay,
    requests: impl Iterator<Item = &'a Request>,
    stopped: &dyn Fn() -> bool,
) -> Result<bool, StudyError> {
    for (number, request) in requests.enumerate() {
        if number % STRIDE == 0 && stopped() {
            return Ok(false);
        }
        replay.serve(request.operation, request.offset_bytes, request.length_bytes)?;
    }
    Ok(true)
}

/// Serves the measured requests and takes their costs by windows and along a curve.
fn measure(
    study: &Study,
    run: &Run,
    replay: &mut Replay,
    requests: &Requests,
    stopped: &dyn Fn() -> bool,
) -> Outcome {
    let mut by_request = Windows::new(study.workload.window, run.charge);
    let mut by_operation = Windows::new(study.workload.window, run.charge);
    let all = requests.measured().filter(|request| is_io(request)).count() as u64;
    // About as many points as a figure can show.
    let stride = all.div_ceil(CURVE_POINTS).max(1);
    let (mut io, mut last_operation) = (0, 0);
    let mut curve = vec![[0; 5]];
    let mut times = study.workload.service_times.then(|| ServiceTimes::start(replay));
    for (number, request) in requests.measured().enumerate() {
        if number % STRIDE == 0 && stopped() {
            return Ok(None);
        }
        let operation = u64::from(request.file_operation);
        // File operations are numbered in order: one is complete when the next begins.
        if operation > last_operation {
            by_operation.reached(operation - 1, replay.counters(), replay.host().write_pages);
            last_operation = operation;
        }
        replay.serve(request.operation, request.offset_bytes, request.length_bytes)?;
        if let Some(times) = &mut times {
            times.served(request.operation, replay);
        }
        if !is_io(request) {
            continue;
        }
        io += 1;
        let counters = replay.counters();
        by_request.reached(io, counters, replay.host().write_pages);
        if io % stride == 0 || io == all {
            curve.push(cumulative(io, counters));
        }
    }
    by_operation.reached(last_operation, replay.counters(), replay.host().write_pages);
    let mut metrics = by_request.metrics("");
    if requests.has_file_operations {
        metrics.extend(by_operation.metrics("operation_window_"));
        metrics.push(Metric::count("file_operations", last_operation, "operations"));
    }
    // A shortened trace has copied less than its metadata say.
    if let (Some(copied), false) = (requests.metadata_number("copied_bytes"), study.quick) {
        let written = replay.host().write_bytes.max(1);
        metrics.push(Metric::number(
            "metadata_share",
            1.0 - copied as f64 / written as f64,
            "ratio",
        ));
    }
    metrics.extend(device_metrics(replay));
    if let Some(times) = times {
        metrics.extend(times.metrics(replay));
        // After all other metrics, since it changes the layer.
        metrics.push(rebuild_metric(replay)?);
    }
    let derived = if study.published_charging.is_empty() {
        Vec::new()
    } else {
        run.charge.totals(replay.counters(), replay.host().write_pages)
    };
    Ok(Some(Measured { metrics, derived, curve, ..Measured::default() }))
}

/// Reads and writes are I/Os; flushes and trims are served but not counted as such.
fn is_io(request: &Request) -> bool {
    matches!(request.operation, Operation::Read | Operation::Write | Operation::WriteZeroes)
}
