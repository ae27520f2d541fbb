//! How long a translation layer keeps a host waiting, by the time of its chip.
//!
//! A request takes what the chip works for it, cleaning included: one chip, one request at a time, no
//! bus or processor of a controller. A rebuild is the start after a power cut.

use crate::StudyError;
use crate::metric::Metric;
use crate::replay::Replay;
use ::jobs::Latencies;
use trace::Operation;

/// Time of the chip for each request of a replay.
#[derive(Default)]
pub(crate) struct ServiceTimes {
    before_ns: u64,
    reads: Latencies,
    writes: Latencies,
    all: Latencies,
}

impl ServiceTimes {
    /// Times that begin now.
    pub(crate) fn start(replay: &Replay) -> Self {
        Self { before_ns: chip_ns(replay), ..Self::default() }
    }

    /// A request was served.
    pub(crate) fn served(&mut self, operation: Operation, replay: &Replay) {
        let now_ns = chip_ns(replay);
        debug_assert!(self.before_ns <= now_ns, "the time of the chip goes on");
        let took_ns = now_ns - self.before_ns;
        self.before_ns = now_ns;
        // All requests, flushes and trims included.
        self.all.record(took_ns);
        match operation {
            Operation::Read => self.reads.record(took_ns),
            Operation::Write | Operation::WriteZeroes => self.writes.record(took_ns),
            Operation::Trim | Operation::Flush => {}
        }
    }

    /// The rows: quantiles, and throughput by the chip's time.
    pub(crate) fn metrics(&self, replay: &Replay) -> Vec<Metric> {
        debug_assert!(self.reads.count() + self.writes.count() <= self.all.count());
        let host = replay.host();
        let moved = (host.read_bytes + host.write_bytes) as f64;
        let seconds = chip_ns(replay).max(1) as f64 / 1e9;
        let mut rows =
            vec![Metric::number("throughput_kib_per_s", moved / 1024.0 / seconds, "KiB/s")];
        let kinds = [("read", &self.reads), ("write", &self.writes), ("call", &self.all)];
        for (name, latencies) in kinds.iter().filter(|(_, latencies)| latencies.count() > 0) {
            rows.extend([
                Metric::count(format!("{name}_p50_ns"), latencies.quantile_ns(500_000), "ns"),
                Metric::count(format!("{name}_p99_ns"), latencies.quantile_ns(990_000), "ns"),
                Metric::count(format!("{name}_max_ns"), latencies.max_ns(), "ns"),
            ]);
        }
        rows
    }
}

/// Time of the chip for a rebuild of the tables, as after a power cut; the replay is at its end.
pub(crate) fn rebuild_metric(replay: &mut Replay) -> Result<Metric, StudyError> {
    let before_ns = chip_ns(replay);
    replay.rebuild()?;
    Ok(Metric::count("rebuild_ns", chip_ns(replay) - before_ns, "ns"))
}

fn chip_ns(replay: &Replay) -> u64 {
    replay.busy_ns().iter().sum()
}
