//! Running the matrix of a study, and single replays.

use crate::StudyError;
use crate::device::{DeviceOptions, build_device};
use crate::plan::{Preconditioning, Run, Study};
use crate::replay::{AddressRule, Replay};
use crate::requests::{Request, Requests};
use crate::results::{Metric, Row, StudyResults, cumulative, device_metrics, shape};
use crate::windows::Windows;
use nand::random::Stream;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use trace::{Columns, Operation, Options};

/// Points of a cumulative curve.
const CURVE_POINTS: u64 = 200;

/// Time between two calls of the progress function while nothing finishes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

type Outcome = Result<(Vec<Metric>, Vec<[u64; 5]>), StudyError>;

/// Runs all combinations of a study on `jobs` workers.
///
/// `progress` gets the runs done, all runs and the label of the last one; it returns false to stop.
/// What is finished by then is returned, marked as interrupted.
///
/// # Errors
/// The first error in the order of the plan.
pub fn run_study(
    study: &Study,
    jobs: usize,
    progress: &mut dyn FnMut(usize, usize, &str) -> bool,
) -> Result<StudyResults, StudyError> {
    let runs = study.runs()?;
    let traces = load_traces(study, &runs)?;
    let stop = AtomicBool::new(false);
    let (sender, receiver) = channel();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs.max(1))
        .build()
        .map_err(|error| StudyError::Study { place: "--jobs".into(), reason: error.to_string() })?;
    let mut outcomes: Vec<Option<Outcome>> = (0..runs.len()).map(|_| None).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| pool.install(|| run_all(study, &runs, &traces, &stop, sender)));
        let (mut done, mut label) = (0, String::new());
        loop {
            match receiver.recv_timeout(PROGRESS_INTERVAL) {
                Ok((index, outcome)) => {
                    let index: usize = index;
                    label = runs[index].axes.join(" ");
                    outcomes[index] = Some(outcome);
                    done += 1;
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            }
            if !progress(done, runs.len(), &label) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    collect(study, &runs, outcomes)
}

fn run_all(
    study: &Study,
    runs: &[Run],
    traces: &BTreeMap<PathBuf, Requests>,
    stop: &AtomicBool,
    sender: Sender<(usize, Outcome)>,
) {
    let numbered: Vec<(usize, &Run)> = runs.iter().enumerate().collect();
    numbered.par_iter().with_max_len_one().for_each_with(sender, |sender, (index, run)| {
        if !stop.load(Ordering::Relaxed) {
            let requests = run.trace.as_ref().map(|path| &traces[path]);
            // The receiver outlives all senders, so a send cannot fail.
            let _ = sender.send((*index, run_one(study, run, requests)));
        }
    });
}

/// Single runs differ in length a hundredfold: hand them out one by one.
trait OneByOne: rayon::iter::IndexedParallelIterator + Sized {
    fn with_max_len_one(self) -> rayon::iter::MaxLen<Self> {
        self.with_max_len(1)
    }
}

impl<I: rayon::iter::IndexedParallelIterator> OneByOne for I {}

fn collect(
    study: &Study,
    runs: &[Run],
    outcomes: Vec<Option<Outcome>>,
) -> Result<StudyResults, StudyError> {
    let mut results = StudyResults {
        columns: study.columns(),
        rows: Vec::new(),
        curves: Vec::new(),
        notes: Vec::new(),
        interrupted: outcomes.iter().any(Option::is_none),
    };
    for (run, outcome) in runs.iter().zip(outcomes) {
        let Some(outcome) = outcome else { continue };
        let (metrics, curve) = outcome?;
        let row = |metric| Row { axes: run.axes.clone(), repeat: run.repeat, metric };
        results.rows.extend(metrics.into_iter().map(row));
        results.curves.push((run.axes.clone(), curve));
    }
    Ok(results)
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

fn run_one(study: &Study, run: &Run, requests: Option<&Requests>) -> Outcome {
    let mut replay = Replay::new(build_device(&run.device)?, AddressRule::Error);
    match requests {
        Some(requests) => run_trace(study, run, &mut replay, requests),
        None => run_generated(study, run, &mut replay),
    }
}

fn run_trace(study: &Study, run: &Run, replay: &mut Replay, requests: &Requests) -> Outcome {
    let serve = |replay: &mut Replay, request: &Request| {
        replay.serve(request.operation, request.offset_bytes, request.length_bytes)
    };
    match study.workload.preconditioning {
        Preconditioning::None => {}
        Preconditioning::Image => {
            let set_up = requests
                .requests
                .iter()
                .take_while(|request| requests.has_file_operations && request.file_operation == 0);
            set_up.into_iter().try_for_each(|request| serve(replay, request))?;
        }
        Preconditioning::ImageAndPass => {
            requests.requests.iter().try_for_each(|request| serve(replay, request))?
        }
    }
    replay.reset_counters();
    let mut by_request = Windows::new(study.workload.window, run.charge);
    let mut by_operation = Windows::new(study.workload.window, run.charge);
    let all = requests.measured().filter(|request| is_io(request)).count() as u64;
    let stride = all.div_ceil(CURVE_POINTS).max(1);
    let (mut io, mut last_operation) = (0, 0);
    let mut curve = vec![[0; 5]];
    for request in requests.measured() {
        let operation = u64::from(request.file_operation);
        if operation > last_operation {
            by_operation.reached(
                operation - 1,
                replay.ftl().flash().chip().counters(),
                replay.host().write_pages,
            );
            last_operation = operation;
        }
        serve(replay, request)?;
        if !is_io(request) {
            continue;
        }
        io += 1;
        let counters = replay.ftl().flash().chip().counters();
        by_request.reached(io, counters, replay.host().write_pages);
        if io % stride == 0 || io == all {
            curve.push(cumulative(io, counters));
        }
    }
    by_operation.reached(
        last_operation,
        replay.ftl().flash().chip().counters(),
        replay.host().write_pages,
    );
    let mut metrics = by_request.metrics("");
    if requests.has_file_operations {
        metrics.extend(by_operation.metrics("operation_window_"));
        metrics.push(Metric::count("file_operations", last_operation, "operations"));
    }
    if let (Some(copied), false) = (requests.metadata_number("copied_bytes"), study.quick) {
        let written = replay.host().write_bytes.max(1);
        metrics.push(Metric::number(
            "metadata_share",
            1.0 - copied as f64 / written as f64,
            "ratio",
        ));
    }
    metrics.extend(device_metrics(replay));
    Ok((metrics, curve))
}

/// Reads and writes are I/Os; flushes and trims are served but not counted as such.
fn is_io(request: &Request) -> bool {
    matches!(request.operation, Operation::Read | Operation::Write | Operation::WriteZeroes)
}

fn run_generated(study: &Study, run: &Run, replay: &mut Replay) -> Outcome {
    let workload = &study.workload;
    let pages = replay.ftl().logical_pages();
    let page_bytes = replay.ftl().flash().geometry().page_data_bytes;
    let mut stream = Stream::new(study.seed + u64::from(run.repeat), &workload.kind);
    let mut next = 0;
    let hot_pages = (u64::from(pages) * u64::from(workload.hot_pages_percent.unwrap_or(20)) / 100)
        .max(1) as u32;
    let mut page = |kind: &str| match kind {
        "sequential" => {
            next = (next + 1) % pages;
            next
        }
        "hot-cold" if stream.below(100) < workload.hot_writes_percent.unwrap_or(80) => {
            stream.below(hot_pages)
        }
        "hot-cold" => hot_pages + stream.below((pages - hot_pages).max(1)),
        _ => stream.below(pages),
    };
    for lpn in 0..pages {
        replay.serve(Operation::Write, u64::from(lpn) * u64::from(page_bytes), page_bytes)?;
    }
    let multiple =
        |count: Option<u32>, default: u32| u64::from(count.unwrap_or(default)) * u64::from(pages);
    let quick_divisor = if study.quick { 4 } else { 1 };
    for _ in 0..multiple(workload.warm_up_writes, 6) / quick_divisor {
        replay.serve(
            Operation::Write,
            u64::from(page(&workload.kind).min(pages - 1)) * u64::from(page_bytes),
            page_bytes,
        )?;
    }
    replay.reset_counters();
    for _ in 0..multiple(workload.measured_writes, 4) / quick_divisor {
        replay.serve(
            Operation::Write,
            u64::from(page(&workload.kind).min(pages - 1)) * u64::from(page_bytes),
            page_bytes,
        )?;
    }
    Ok((device_metrics(replay), Vec::new()))
}

/// What `nandlab replay` is told.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// The device.
    pub device: DeviceOptions,
    /// How to read the trace.
    pub trace: Options,
    /// What to do with addresses past the end.
    pub address: AddressRule,
    /// Uncounted passes before the counted one.
    pub warm_up_passes: u32,
}

/// What a single replay yields.
pub struct ReplayResults {
    /// All metrics.
    pub metrics: Vec<Metric>,
    /// Format the trace was read as.
    pub format: &'static str,
    /// Shape of the chip.
    pub chip: String,
    /// Bytes the device offers.
    pub capacity_bytes: u64,
    /// What the reader left out or changed, and what the replay did.
    pub notes: Vec<String>,
}

/// Replays a trace on one device, streaming: memory does not grow with the trace.
///
/// # Errors
/// Bad traces, names, settings; addresses past the end unless told otherwise.
pub fn replay_trace(path: &Path, options: &ReplayOptions) -> Result<ReplayResults, StudyError> {
    // Names and settings are checked before a long trace is read.
    let mut replay = Replay::new(build_device(&options.device)?, options.address);
    let mut columns = Columns::default();
    let mut notes = Vec::new();
    let mut format = "";
    for pass in 0..=options.warm_up_passes {
        replay.reset_counters();
        let mut reader = trace::open(path, &options.trace)?.into_columns()?;
        format = reader.reader().format().name;
        while reader.next_columns(&mut columns)? {
            for index in 0..columns.len() {
                replay.serve(
                    columns.operation[index],
                    columns.offset_bytes[index],
                    columns.length_bytes[index],
                )?;
            }
        }
        if pass == options.warm_up_passes {
            let counters = reader.reader().notes().counters();
            notes.extend(
                counters
                    .into_iter()
                    .filter(|(_, count)| *count > 0)
                    .map(|(what, count)| format!("{what}: {count}")),
            );
            notes.extend(reader.reader().notes().first_skipped.iter().cloned());
        }
    }
    if replay.host().lost_reads > 0 {
        notes.push(format!("lost_reads: {}", replay.host().lost_reads));
    }
    Ok(ReplayResults {
        metrics: device_metrics(&replay),
        format,
        chip: shape(replay.ftl().flash().geometry()),
        capacity_bytes: replay.capacity_bytes(),
        notes,
    })
}
