//! Processes that make I/O, in the words of the tools they are modelled after.
//!
//! A [`Job`] says what its processes do: which addresses, how large, how often, how many at once,
//! through the page cache or past it. [`start_jobs`] spawns them over a [`page_cache::BlockFile`]; each
//! leaves a [`ProcessReport`]. `ioping` is the closed loop of one request at a time that the tool
//! of that name is; `fio`'s options `rw`, `rwmixread`, `bs`, `iodepth`, `rate_iops`, `thinktime` and
//! `random_distribution` are fields of a job.

mod addresses;
mod depth_search;
mod distribution;
mod flow;
mod job;
mod latency;
mod order;
mod process;
mod random_map;
mod report;
mod run;
mod sizes;
mod steady;
mod written;

pub use addresses::{Addresses, Place, Region, Strides};
pub use depth_search::LatencyTarget;
pub use distribution::{Distribution, ZONES_MAX, Zones};
pub use flow::Flow;
pub use job::{Ends, Job, JobError, Pace, Urgent};
pub use latency::{Latencies, PackedLatencies, jain_index};
pub use order::Order;
pub use report::{ProcessReport, Sample};
pub use run::start_jobs;
pub use sizes::Sizes;
pub use steady::{Measure, SteadyState};
pub use written::Verify;
