//! What a process leaves when it ends.

use crate::{Latencies, Place};
use page_cache::FileError;
use serde::{Deserialize, Serialize};

/// One request as its process saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When the call was made.
    pub start_ns: u64,
    /// How long it took.
    pub latency_ns: u64,
    /// Where it went.
    pub place: Place,
    /// True for a read, false for a write.
    pub is_read: bool,
}

/// What a process did.
#[derive(Clone, Debug, Default)]
pub struct ProcessReport {
    /// Number of the process.
    pub pid: u32,
    /// Latencies of its reads.
    pub reads: Latencies,
    /// Latencies of its writes.
    pub writes: Latencies,
    /// Latencies of its `fsync` calls.
    pub fsyncs: Latencies,
    /// Bytes read and written.
    pub bytes: u64,
    /// When the process began, or when its ramp was over.
    pub start_ns: u64,
    /// When its last counted request was complete.
    pub end_ns: u64,
    /// When it exited.
    pub exit_ns: u64,
    /// Requests that it had under way at most; where it searched for that number, what it found.
    pub depth: u32,
    /// When its rate was steady.
    pub steady_ns: Option<u64>,
    /// The first error, which ended it.
    pub error: Option<FileError>,
    /// Every request, if they are recorded.
    pub samples: Vec<Sample>,
}

impl ProcessReport {
    /// Bytes a second from the beginning, or the end of the ramp, to the last counted request.
    pub fn throughput_bytes_per_s(&self) -> f64 {
        // A process without a request moved nothing: 0, not undefined.
        let elapsed_ns = self.end_ns.saturating_sub(self.start_ns).max(1);
        self.bytes as f64 * 1e9 / elapsed_ns as f64
    }
}
