//! Processes that make I/O, in the words of the tools they are modelled after.
//!
//! A [`Job`] says what its processes do: which addresses, how large, how often, how many at once,
//! through the page cache or past it. [`start_job`] spawns them over a [`page_cache::BlockFile`]; each
//! leaves a [`ProcessReport`]. `ioping` is the closed loop of one request at a time that the tool
//! of that name is; `fio`'s options `rw`, `rwmixread`, `bs`, `iodepth`, `rate_iops`, `thinktime` and
//! `random_distribution` are fields of a job.

mod addresses;
mod job;
mod latency;
mod run;

pub use addresses::{Addresses, Distribution, Region, ZONES_MAX, Zones};
pub use job::{Job, JobError, Pace, Pattern, Urgent};
pub use latency::{Latencies, PackedLatencies, jain_index};
pub use run::{ProcessReport, Sample, start_job};
