//! Tables that are made of several runs: latencies of all repeats together, and time lines of the first.
//!
//! A combination of axis values is one cell, wherever its repeats stand in the plan: extra runs add repeats
//! to a combination of the axes after all of those.

use crate::metric::Metric;
use crate::results::Table;
use ::jobs::{Latencies, PackedLatencies, Sample};
use device::{Activity, ActivityKind};
use std::collections::BTreeMap;

/// Directions of requests, in the order in which they are kept.
pub(crate) const DIRECTIONS: [&str; 2] = ["read", "write"];

/// Quantiles reported, as parts of a million, and their names.
const QUANTILES: [(u32, &str); 5] =
    [(500_000, "p50"), (900_000, "p90"), (990_000, "p99"), (999_000, "p999"), (999_900, "p9999")];

/// What a run adds to the pooled tables.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// Latencies of reads, then of writes; all processes together.
    pub(crate) latencies: [PackedLatencies; 2],
    /// When a request began, by which process, and the request; of the first repeat only.
    pub(crate) requests: Vec<(u64, u32, Sample)>,
    /// What the dies of the device did; of the first repeat only.
    pub(crate) activity: Vec<Activity>,
}

/// A combination of axis values with the latencies of all its repeats, and the time line of the first.
#[derive(Clone, Debug, Default)]
struct Cell {
    axes: Vec<String>,
    /// Latencies of reads, then of writes.
    latencies: [Latencies; 2],
    requests: Vec<[String; 4]>,
    activity: Vec<[String; 4]>,
}

/// The cells of a study, in the order in which their first runs stand in the plan.
#[derive(Debug, Default)]
pub(crate) struct PooledCells {
    cells: Vec<Cell>,
    /// Places of the cells, by axis values.
    places: BTreeMap<Vec<String>, usize>,
}

impl PooledCells {
    /// Adds a run to the cell of its axis values.
    pub(crate) fn add(&mut self, axes: &[String], samples: &Samples) {
        let next = self.cells.len();
        // Looked up, not taken from the end: the repeats of extra runs come after other combinations.
        let place = *self.places.entry(axes.to_vec()).or_insert(next);
        if place == next {
            self.cells.push(Cell { axes: axes.to_vec(), ..Cell::default() });
        }
        debug_assert_eq!(self.cells.len(), self.places.len(), "a cell for each combination");
        samples.pool(&mut self.cells[place]);
    }

    /// The tables: pooled latencies, their distributions, time lines.
    pub(crate) fn tables(&self, columns: &[String]) -> Vec<Table> {
        let table = |name: &'static str, own: &[&str]| Table {
            name,
            columns: columns
                .iter()
                .cloned()
                .chain(own.iter().map(|own| (*own).to_owned()))
                .collect(),
            rows: Vec::new(),
        };
        let mut pooled = table("pooled", &["metric", "value", "unit"]);
        let mut histogram = table("latencies", &["direction", "from_ns", "to_ns", "count"]);
        let mut requests = table("requests", &["start_ns", "pid", "direction", "latency_ns"]);
        let mut activity = table("activity", &["start_ns", "end_ns", "die", "kind"]);
        for cell in &self.cells {
            let row =
                |own: &[String]| cell.axes.iter().chain(own).cloned().collect::<Vec<String>>();
            for (direction, latencies) in DIRECTIONS.iter().zip(&cell.latencies) {
                for metric in latency_metrics(direction, latencies) {
                    let own = [metric.name, metric.value.to_string(), metric.unit.to_owned()];
                    pooled.rows.push(row(&own));
                }
                for (from_ns, to_ns, count) in coarse(latencies.buckets()) {
                    let numbers = [from_ns, to_ns, count].map(|number| number.to_string());
                    histogram
                        .rows
                        .push(row(&[&[(*direction).to_owned()], numbers.as_slice()].concat()));
                }
            }
            requests.rows.extend(cell.requests.iter().map(|own| row(own)));
            activity.rows.extend(cell.activity.iter().map(|own| row(own)));
        }
        vec![pooled, histogram, requests, activity]
    }
}

impl Samples {
    /// Adds the run to its cell.
    fn pool(&self, cell: &mut Cell) {
        for (pooled, own) in cell.latencies.iter_mut().zip(&self.latencies) {
            pooled.add_packed(own);
        }
        // Time lines are of the first repeat: others have no samples.
        cell.requests.extend(self.requests.iter().map(|(start_ns, pid, sample)| {
            let direction = DIRECTIONS[usize::from(!sample.is_read)];
            [
                start_ns.to_string(),
                pid.to_string(),
                direction.to_owned(),
                sample.latency_ns.to_string(),
            ]
        }));
        cell.activity.extend(self.activity.iter().map(|activity| {
            let kind = match activity.kind {
                ActivityKind::Read => "read",
                ActivityKind::Program => "program",
                ActivityKind::ForegroundCleaning => "foreground cleaning",
                ActivityKind::BackgroundCleaning => "background cleaning",
            };
            [
                activity.start_ns.to_string(),
                activity.end_ns.to_string(),
                activity.die.to_string(),
                kind.to_owned(),
            ]
        }));
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
