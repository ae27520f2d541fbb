//! What is replayed, and how.

use serde::Serialize;
use std::path::PathBuf;
use trace::AddressRule;

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// At the times of the trace, whatever is outstanding, as `btreplay` does.
    OpenLoop {
        /// The trace takes this many millionths of its time: 500,000 is twice as fast.
        time_ppm: u32,
    },
    /// As soon as fewer than this many are outstanding, as fio with `replay_no_stall=1`.
    ClosedLoop {
        /// Requests outstanding.
        queue_depth: u32,
    },
}

/// A trace, and how it is sent.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Trace file, or `-`.
    pub trace: PathBuf,
    /// How to read it.
    pub reading: trace::Options,
    /// When requests are sent.
    pub pace: Pace,
    /// Addresses past the end.
    pub address: AddressRule,
    /// Requests that the block layer holds, a direction (`/sys/block/*/queue/nr_requests`).
    pub nr_requests: u32,
    /// File that takes a timeline of requests and dies.
    pub timeline: Option<PathBuf>,
    /// Seed of the simulation's streams.
    pub seed: u64,
}
