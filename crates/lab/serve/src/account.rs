//! What clients asked for and how long it took.

use jobs::Latencies;
use serde::Serialize;

/// A reply that leaves later than this after its moment could not keep its time.
// Half of what a fast NVMe drive takes for a read.
pub(crate) const LATE_NS: u64 = 100_000;

/// Requests, their latencies in simulated time, and how late replies left.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Latencies in simulated time: of reads, writes, flushes and trims.
    pub latencies: [Latencies; 4],
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Requests that the device or its power failed. Requests that break a rule are refused before.
    pub failed: u64,
    /// How much later than their moment replies left, nanoseconds of the host.
    pub lateness: Latencies,
    /// Replies that left more than 100 us after their moment.
    pub late: u64,
}

/// [`Account`] in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Requests carried out, by kind: read, write, flush, trim. A power cut may keep a reply from its client.
    pub requests: [u64; 4],
    /// Bytes read and written.
    pub bytes: [u64; 2],
    /// Requests that the device or its power failed.
    pub failed: u64,
    /// Simulated latency at p50, p99 and the longest, by kind, nanoseconds.
    pub latency_ns: [[u64; 3]; 4],
    /// Lateness at p50, p99 and the longest, nanoseconds of the host.
    pub lateness_ns: [u64; 3],
    /// Replies that left more than 100 us after their moment.
    pub late: u64,
}

fn points(latencies: &Latencies) -> [u64; 3] {
    [latencies.quantile_ns(500_000), latencies.quantile_ns(990_000), latencies.max_ns()]
}

impl Account {
    /// A request of a kind was answered.
    pub(crate) fn answered(&mut self, kind: usize, latency_ns: u64, bytes: u64) {
        self.latencies[kind].record(latency_ns);
        if let Some(moved) = self.bytes.get_mut(kind) {
            *moved += bytes;
        }
    }

    /// All of it in figures.
    pub fn totals(&self) -> Totals {
        Totals {
            requests: self.latencies.each_ref().map(Latencies::count),
            bytes: self.bytes,
            failed: self.failed,
            latency_ns: self.latencies.each_ref().map(points),
            lateness_ns: points(&self.lateness),
            late: self.late,
        }
    }
}
