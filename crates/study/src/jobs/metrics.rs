//! What a run of processes measured, and the tables pooled over repeats.

use super::run::Phases;
use crate::results::{Metric, Table};
use block::Behind;
use device::{Activity, ActivityKind, DeviceStatistics};
use workload::{Latencies, PackedLatencies, ProcessReport, Sample, jain_index};

/// Quantiles reported, as parts of a million, and their names.
const QUANTILES: [(u32, &str); 5] =
    [(500_000, "p50"), (900_000, "p90"), (990_000, "p99"), (999_000, "p999"), (999_900, "p9999")];

const DIRECTIONS: [&str; 2] = ["read", "write"];

/// What a run yields.
#[derive(Clone, Debug)]
pub(crate) struct JobsOutcome {
    pub(crate) end_ns: u64,
    /// Phases of bios: reads, then writes.
    pub(crate) phases: [Phases; 2],
    pub(crate) device: DeviceStatistics,
    pub(crate) activity: Vec<Activity>,
    /// Reads, writes; all processes together.
    latencies: [PackedLatencies; 2],
    /// Bytes a second of each process, and bytes of all.
    shares: Vec<f64>,
    bytes: u64,
    /// When a request began, by which process, and the request.
    samples: Vec<(u64, u32, Sample)>,
}

/// A combination of axis values with the latencies of all its repeats, and the time line of the
/// first.
#[derive(Clone, Debug, Default)]
pub(crate) struct CellTables {
    pub(crate) axes: Vec<String>,
    /// Latencies of reads, then of writes.
    latencies: [Latencies; 2],
    requests: Vec<[String; 4]>,
    activity: Vec<[String; 4]>,
}

impl CellTables {
    /// A cell without runs.
    pub(crate) fn new(axes: Vec<String>) -> Self {
        Self { axes, ..Self::default() }
    }
}

impl JobsOutcome {
    /// Takes from the processes' reports what is kept of a run.
    pub(crate) fn new(
        end_ns: u64,
        phases: &[Phases; 2],
        device: DeviceStatistics,
        activity: Vec<Activity>,
        reports: &[ProcessReport],
    ) -> Self {
        let mut pooled = [Latencies::default(), Latencies::default()];
        let mut samples = Vec::new();
        for report in reports {
            pooled[0].add(&report.reads);
            pooled[1].add(&report.writes);
            let own = report.samples.iter();
            samples.extend(own.map(|sample| (sample.start_ns, report.pid, *sample)));
        }
        // Processes report each for itself; a time line goes by time.
        samples.sort_unstable_by_key(|(start_ns, pid, _)| (*start_ns, *pid));
        Self {
            end_ns,
            phases: *phases,
            device,
            activity,
            latencies: pooled.map(|latencies| latencies.pack()),
            shares: reports.iter().map(ProcessReport::throughput_bytes_per_s).collect(),
            bytes: reports.iter().map(|report| report.bytes).sum(),
            samples,
        }
    }

    /// Keeps of requests and activity what began before `end_ns`.
    #[must_use]
    pub(crate) fn cut(mut self, end_ns: u64) -> Self {
        self.samples.retain(|(start_ns, ..)| *start_ns < end_ns);
        self.activity.retain(|activity| activity.start_ns < end_ns);
        self
    }

    /// The rows of the run.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for (direction, packed) in DIRECTIONS.iter().zip(&self.latencies) {
            let mut latencies = Latencies::default();
            latencies.add_packed(packed);
            metrics.extend(latency_metrics(direction, &latencies));
        }
        for (direction, phases) in DIRECTIONS.iter().zip(&self.phases) {
            metrics.extend(phase_metrics(direction, phases));
        }
        let seconds = self.end_ns.max(1) as f64 / 1e9;
        let device = &self.device;
        metrics.extend([
            Metric::number("jain_index", jain_index(&self.shares), "ratio"),
            Metric::number("throughput_bytes_per_s", self.bytes as f64 / seconds, "bytes/s"),
            Metric::count("simulated_ns", self.end_ns, "ns"),
            Metric::count("device_commands", device.completed, "commands"),
            Metric::count("device_cleaned_blocks", device.cleaned_blocks, "blocks"),
            Metric::count("device_foreground_cleaning_ns", device.foreground_cleaning_ns, "ns"),
            Metric::count("device_background_cleaning_ns", device.background_cleaning_ns, "ns"),
            Metric::count("device_read_modify_writes", device.read_modify_writes, "pages"),
            Metric::count("device_page_programs", device.chip.page_programs, "operations"),
        ]);
        metrics
    }

    /// Adds the run to its cell.
    pub(crate) fn pool(&self, cell: &mut CellTables) {
        for (pooled, own) in cell.latencies.iter_mut().zip(&self.latencies) {
            pooled.add_packed(own);
        }
        // Time lines are of the first repeat: others have no samples.
        cell.requests.extend(self.samples.iter().map(|(start_ns, pid, sample)| {
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

fn latency_metrics(direction: &str, latencies: &Latencies) -> Vec<Metric> {
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

fn phase_metrics(direction: &str, phases: &Phases) -> Vec<Metric> {
    if phases.bios == 0 {
        return Vec::new();
    }
    let mean = |sum_ns: u64| sum_ns as f64 / phases.bios as f64;
    let mut metrics = vec![
        Metric::count(format!("{direction}_bios"), phases.bios, "bios"),
        Metric::count(format!("{direction}_bios_merged"), phases.merged, "bios"),
    ];
    let parts = [
        ("q2g", phases.q2g_ns),
        ("g2i", phases.g2i_ns),
        ("i2d", phases.i2d_ns),
        ("d2c", phases.d2c_ns),
    ];
    let part = |(what, sum_ns): (&str, u64)| {
        Metric::number(format!("{direction}_{what}_mean_ns"), mean(sum_ns), "ns")
    };
    metrics.extend(parts.map(part));
    let kinds = |behind: &Behind| {
        [
            ("reads", behind.reads_ns),
            ("writes", behind.writes_ns),
            ("cleaning", behind.cleaning_ns),
            ("idling", behind.idling_ns),
        ]
    };
    metrics.extend(kinds(&phases.behind).map(|(what, sum_ns)| {
        Metric::number(format!("{direction}_behind_{what}_mean_ns"), mean(sum_ns), "ns")
    }));
    let longest = &phases.longest;
    metrics.extend([
        Metric::number(format!("{direction}_overtaken_mean"), mean(phases.overtaken.0), "requests"),
        Metric::count(format!("{direction}_overtaken_max"), phases.overtaken.1, "requests"),
        Metric::count(format!("{direction}_longest_bio_ns"), longest.q2c_ns, "ns"),
        Metric::count(format!("{direction}_longest_bio_overtaken"), longest.overtaken, "requests"),
    ]);
    metrics.extend(kinds(&longest.behind).map(|(what, ns)| {
        Metric::count(format!("{direction}_longest_bio_behind_{what}_ns"), ns, "ns")
    }));
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
        match buckets.last_mut() {
            Some(last) if last.0 == low_ns => last.2 += count,
            _ => buckets.push((low_ns, low_ns + width_ns - 1, count)),
        }
    }
    buckets
}

/// The tables that are made of all repeats: pooled latencies, their distributions, time lines.
pub(crate) fn pooled_tables(columns: &[String], cells: &[CellTables]) -> Vec<Table> {
    let table = |name: &'static str, own: &[&str]| Table {
        name,
        columns: columns.iter().cloned().chain(own.iter().map(|own| (*own).to_owned())).collect(),
        rows: Vec::new(),
    };
    let mut pooled = table("pooled", &["metric", "value", "unit"]);
    let mut histogram = table("latencies", &["direction", "from_ns", "to_ns", "count"]);
    let mut requests = table("requests", &["start_ns", "pid", "direction", "latency_ns"]);
    let mut activity = table("activity", &["start_ns", "end_ns", "die", "kind"]);
    for cell in cells {
        let row = |own: &[String]| cell.axes.iter().chain(own).cloned().collect::<Vec<String>>();
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
