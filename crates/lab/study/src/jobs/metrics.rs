//! What a run of processes measured.

use super::phases::Phases;
use crate::metric::Metric;
use crate::pooled::{DIRECTIONS, Samples, latency_metrics};
use ::jobs::{Latencies, ProcessReport, jain_index};
use block::WaitBreakdown;
use device::{Activity, DeviceStatistics};

/// What a run yields.
#[derive(Clone, Debug)]
pub(crate) struct JobsOutcome {
    pub(crate) end_ns: u64,
    /// Phases of bios: reads, then writes.
    pub(crate) phases: [Phases; 2],
    pub(crate) device: DeviceStatistics,
    /// Bios that the scheduler gave up when their process exited.
    pub(crate) cancelled_bios: u64,
    /// What is pooled with other repeats.
    pub(crate) samples: Samples,
    /// Bytes a second of each process, and bytes of all.
    shares: Vec<f64>,
    bytes: u64,
    /// When the first process began to count: 0, or the end of its ramp.
    counted_from_ns: u64,
}

impl JobsOutcome {
    /// Takes from the processes' reports what is kept of a run.
    pub(crate) fn new(
        end_ns: u64,
        phases: &[Phases; 2],
        device: &DeviceStatistics,
        activity: Vec<Activity>,
        reports: &[ProcessReport],
    ) -> Self {
        let mut pooled = [Latencies::default(), Latencies::default()];
        let mut requests = Vec::new();
        for report in reports {
            pooled[0].add(&report.reads);
            pooled[1].add(&report.writes);
            let own = report.samples.iter();
            requests.extend(own.map(|sample| (sample.start_ns, report.pid, *sample)));
        }
        // Processes report each for itself; a time line goes by time.
        // By number of the process where times are equal, so that the table is the same on every machine.
        requests.sort_unstable_by_key(|(start_ns, pid, _)| (*start_ns, *pid));
        let latencies = pooled.map(|latencies| latencies.pack());
        let processes = reports
            .iter()
            .map(|one| (one.pid, one.start_ns, one.exit_ns, one.steady_ns, one.depth))
            .collect();
        Self {
            end_ns,
            phases: *phases,
            device: *device,
            cancelled_bios: 0,
            samples: Samples { latencies, requests, activity, processes },
            shares: reports.iter().map(ProcessReport::throughput_bytes_per_s).collect(),
            bytes: reports.iter().map(|report| report.bytes).sum(),
            counted_from_ns: reports.iter().map(|report| report.start_ns).min().unwrap_or(0),
        }
    }

    /// Keeps of requests and activity what began before `end_ns`.
    #[must_use]
    pub(crate) fn cut(mut self, end_ns: u64) -> Self {
        self.samples.requests.retain(|(start_ns, ..)| *start_ns < end_ns);
        self.samples.activity.retain(|activity| activity.start_ns < end_ns);
        self.samples.processes.retain(|(_, start_ns, ..)| *start_ns < end_ns);
        self
    }

    /// The rows of the run.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let mut metrics = Vec::new();
        for (direction, packed) in DIRECTIONS.iter().zip(&self.samples.latencies) {
            let mut latencies = Latencies::default();
            latencies.add_packed(packed);
            metrics.extend(latency_metrics(direction, &latencies));
        }
        for (direction, phases) in DIRECTIONS.iter().zip(&self.phases) {
            metrics.extend(phase_metrics(direction, phases));
        }
        // A run without requests ends at once; its throughput is 0, not undefined.
        let seconds = (self.end_ns - self.counted_from_ns).max(1) as f64 / 1e9;
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
        // Only a policy that cancels has any: no scheduler is given a row that cannot apply to it.
        if self.cancelled_bios > 0 {
            metrics.push(Metric::count("cancelled_bios", self.cancelled_bios, "bios"));
        }
        // Likewise what only some devices do.
        let rare = [
            ("device_retried_reads", device.retried_reads, "reads"),
            ("device_read_retries", device.read_retries, "reads"),
            ("device_slc_written_pages", device.slc.written_pages, "pages"),
            ("device_slc_folded_pages", device.slc.folded_pages, "pages"),
            ("device_slc_stale_pages", device.slc.stale_pages, "pages"),
            ("device_slc_page_programs", device.slc_chip.page_programs, "operations"),
            ("device_slc_erases", device.slc_chip.erases, "operations"),
            ("device_bkops", device.bkops, "operations"),
            ("device_suspensions", device.suspensions, "operations"),
        ];
        let done = rare.into_iter().filter(|(_, count, _)| *count > 0);
        metrics.extend(done.map(|(name, count, unit)| Metric::count(name, count, unit)));
        metrics
    }
}

fn phase_metrics(direction: &str, phases: &Phases) -> Vec<Metric> {
    // A mean of nothing is no number, and a row of zero would be read as a latency.
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
    let kinds = |wait: &WaitBreakdown| {
        [
            ("reads", wait.reads_ns),
            ("writes", wait.writes_ns),
            ("cleaning", wait.cleaning_ns),
            ("idling", wait.idling_ns),
        ]
    };
    metrics.extend(kinds(&phases.wait).map(|(what, sum_ns)| {
        Metric::number(format!("{direction}_behind_{what}_mean_ns"), mean(sum_ns), "ns")
    }));
    let longest = &phases.longest;
    metrics.extend([
        Metric::number(format!("{direction}_overtaken_mean"), mean(phases.overtaken.0), "requests"),
        Metric::count(format!("{direction}_overtaken_max"), phases.overtaken.1, "requests"),
        Metric::count(format!("{direction}_longest_bio_ns"), longest.q2c_ns, "ns"),
        Metric::count(format!("{direction}_longest_bio_overtaken"), longest.overtaken, "requests"),
    ]);
    metrics.extend(kinds(&longest.wait).map(|(what, ns)| {
        Metric::count(format!("{direction}_longest_bio_behind_{what}_ns"), ns, "ns")
    }));
    metrics
}
