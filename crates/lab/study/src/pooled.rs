//! Tables that are made of several runs: latencies of all repeats together, and time lines of the first.
//!
//! A combination of axis values is one cell, wherever its repeats stand in the plan: extra runs add repeats
//! to a combination of the axes after all of those.

use crate::metric::Metric;
use crate::results::Table;
use ::jobs::{Latencies, PackedLatencies, Sample};
use device::{Activity, ActivityKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// Directions of requests, in the order in which they are kept.
pub(crate) const DIRECTIONS: [&str; 2] = ["read", "write"];

/// Quantiles reported, as parts of a million, and their names.
const QUANTILES: [(u32, &str); 5] =
    [(500_000, "p50"), (900_000, "p90"), (990_000, "p99"), (999_000, "p999"), (999_900, "p9999")];

/// What a run adds to the pooled tables.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// Latencies of reads, then of writes; all processes together.
    pub(crate) latencies: [PackedLatencies; 2],
    /// When a request began, by which process, and the request; of the first repeat only.
    pub(crate) requests: Vec<(u64, u32, Sample)>,
    /// What the dies of the device did; of the first repeat only.
    pub(crate) activity: Vec<Activity>,
    /// Number of each process, when it began to count, when it exited, when its rate was steady, and its depth; of
    /// the first repeat only.
    pub(crate) processes: Vec<(u32, u64, u64, Option<u64>, u32)>,
}

/// Names of the tables, and their columns after those of the axes.
const TABLES: [(&str, &[&str]); TABLES_MAX] = [
    ("pooled", &["metric", "value", "unit"]),
    ("latencies", &["direction", "from_ns", "to_ns", "count"]),
    ("requests", &["start_ns", "pid", "direction", "latency_ns"]),
    ("activity", &["start_ns", "end_ns", "die", "kind"]),
    PROCESSES,
];

/// Tables of a study that asks for all.
const TABLES_MAX: usize = 5;

/// The table that only a study with `timeline.places` has, as it has columns of its own in the table of requests.
const PROCESSES: (&str, &[&str]) =
    ("processes", &["pid", "start_ns", "exit_ns", "steady_ns", "iodepth"]);

/// Columns of requests that only such a study has.
const PLACES: [&str; 2] = ["offset_bytes", "bytes"];

/// A combination of axis values: runs whose samples wait for the others, and then lines of the tables.
#[derive(Debug)]
struct Cell {
    axes: Arc<[String]>,
    /// Runs that have yet to end.
    runs_left: u32,
    /// Samples of runs that have ended, by the number of the run.
    waiting: Vec<(usize, Arc<Samples>)>,
    /// Lines of each of [`TABLES`] without the axis values.
    lines: [Arc<str>; TABLES_MAX],
}

/// The cells of a study, in the order in which their first runs stand in the plan.
///
/// A cell is made into lines as soon as the last of its runs has ended: distributions take a hundred
/// times the memory.
#[derive(Debug)]
pub(crate) struct PooledCells {
    cells: Vec<Cell>,
    /// Places of the cells, by the number of the run.
    places: Vec<usize>,
    /// Requests have their places, and processes a table.
    has_places: bool,
}

impl PooledCells {
    /// Cells of runs with these axis values; `has_places` as `timeline.places` of the study.
    pub(crate) fn new<'a>(axes: impl Iterator<Item = &'a Arc<[String]>>, has_places: bool) -> Self {
        let (mut cells, mut places): (Vec<Cell>, Vec<usize>) = Default::default();
        // Looked up, not taken from the end: the repeats of extra runs come after other combinations.
        let mut by_axes: BTreeMap<&[String], usize> = BTreeMap::new();
        for axes in axes {
            let place = *by_axes.entry(axes).or_insert(cells.len());
            if place == cells.len() {
                let (waiting, lines) = Default::default();
                cells.push(Cell { axes: axes.clone(), runs_left: 0, waiting, lines });
            }
            cells[place].runs_left += 1;
            places.push(place);
        }
        Self { cells, places, has_places }
    }

    /// The run with this number has ended, with or without samples.
    pub(crate) fn ended(&mut self, run: usize, samples: Option<&Arc<Samples>>) {
        let cell = &mut self.cells[self.places[run]];
        debug_assert!(cell.runs_left > 0, "a run ends once");
        cell.runs_left -= 1;
        cell.waiting.extend(samples.map(|samples| (run, samples.clone())));
        if cell.runs_left == 0 {
            cell.pool(self.has_places);
        }
    }

    /// The tables: pooled latencies, their distributions, time lines.
    pub(crate) fn tables(mut self, columns: &[String]) -> Vec<Table> {
        // Old digests cover the heads of tables: one that nobody asked for is not there.
        let wanted = TABLES.iter().filter(|(name, _)| self.has_places || *name != PROCESSES.0);
        let mut tables: Vec<Table> = wanted
            .map(|(name, own)| {
                let more = if self.has_places && *name == "requests" { &PLACES[..] } else { &[] };
                Table::new(name, columns, &[own, more].concat())
            })
            .collect();
        for cell in &mut self.cells {
            // Some of its runs were not finished.
            if !cell.waiting.is_empty() {
                cell.pool(self.has_places);
            }
            for (table, lines) in tables.iter_mut().zip(&cell.lines) {
                table.push(cell.axes.clone(), lines.clone());
            }
        }
        tables
    }
}

impl Cell {
    /// Makes lines of the samples of all runs.
    fn pool(&mut self, has_places: bool) {
        // In the order of the plan, whichever run ended first.
        self.waiting.sort_by_key(|(run, _)| *run);
        let mut latencies: [Latencies; 2] = Default::default();
        let [mut pooled, mut histogram, mut requests, mut activity, mut processes]: [String;
            TABLES_MAX] = Default::default();
        for (_, samples) in self.waiting.drain(..) {
            for (pooled, own) in latencies.iter_mut().zip(&samples.latencies) {
                pooled.add_packed(own);
            }
            samples.write_time_lines(&mut requests, &mut activity, has_places);
            for (pid, start_ns, exit_ns, steady_ns, depth) in &samples.processes {
                // 0 for one that was never steady: a time of that is none.
                let steady_ns = steady_ns.unwrap_or(0);
                let _ = writeln!(processes, "{pid},{start_ns},{exit_ns},{steady_ns},{depth}");
            }
        }
        for (direction, latencies) in DIRECTIONS.iter().zip(&latencies) {
            for Metric { name, value, unit } in latency_metrics(direction, latencies) {
                let _ = writeln!(pooled, "{name},{value},{unit}");
            }
            for (from_ns, to_ns, count) in coarse(latencies.buckets()) {
                let _ = writeln!(histogram, "{direction},{from_ns},{to_ns},{count}");
            }
        }
        self.waiting = Vec::new();
        self.lines = [pooled, histogram, requests, activity, processes].map(Into::into);
    }
}

impl Samples {
    /// Adds the time lines of the run, which only the first repeat has.
    fn write_time_lines(&self, requests: &mut String, activity: &mut String, has_places: bool) {
        for (start_ns, pid, sample) in &self.requests {
            let direction = DIRECTIONS[usize::from(!sample.is_read)];
            let _ = write!(requests, "{start_ns},{pid},{direction},{}", sample.latency_ns);
            if has_places {
                let _ = write!(requests, ",{},{}", sample.place.offset_bytes, sample.place.bytes);
            }
            requests.push('\n');
        }
        for Activity { start_ns, end_ns, die, kind, .. } in &self.activity {
            let kind = match kind {
                ActivityKind::Read => "read",
                ActivityKind::Program => "program",
                ActivityKind::ForegroundCleaning => "foreground cleaning",
                ActivityKind::BackgroundCleaning => "background cleaning",
            };
            let _ = writeln!(activity, "{start_ns},{end_ns},{die},{kind}");
        }
    }
}

/// Count, mean, maximum and quantiles of the requests of a direction.
pub(crate) fn latency_metrics(direction: &str, latencies: &Latencies) -> Vec<Metric> {
    // A direction without requests has no rows.
    if latencies.count() == 0 {
        return Vec::new();
    }
    let name = |what: &str| format!("{direction}_latency_{what}_ns");
    let mut metrics = vec![
        Metric::count(format!("{direction}_requests"), latencies.count(), "requests"),
        Metric::number(name("mean"), latencies.mean_ns(), "ns"),
        Metric::count(name("max"), latencies.max_ns(), "ns"),
    ];
    metrics.extend(
        QUANTILES
            .iter()
            .map(|(share, what)| Metric::count(name(what), latencies.quantile_ns(*share), "ns")),
    );
    metrics
}

/// Buckets an eighth of a power of two wide, enough to draw a distribution: lowest latency, highest
/// latency, count.
fn coarse(fine: impl Iterator<Item = (u64, u64, u64)>) -> Vec<(u64, u64, u64)> {
    let mut buckets: Vec<(u64, u64, u64)> = Vec::new();
    for (from_ns, _, count) in fine {
        // Below 16 ns a bucket is one nanosecond wide.
        let width_ns = 1_u64 << from_ns.max(1).ilog2().saturating_sub(3);
        let low_ns = from_ns / width_ns * width_ns;
        debug_assert!(buckets.last().is_none_or(|last| last.0 <= low_ns), "buckets go up");
        match buckets.last_mut() {
            Some(last) if last.0 == low_ns => last.2 += count,
            _ => buckets.push((low_ns, low_ns + width_ns - 1, count)),
        }
    }
    buckets
}
