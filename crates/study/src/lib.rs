//! Studies: a file names a workload, a stack and the axes to vary; this crate runs every
//! combination and answers with tidy rows.
//!
//! A run is a pure function of the resolved study: no clock, no thread inside it, named random
//! streams. Runs of one study go side by side, and their results are put in the order of the plan,
//! so that the digest does not depend on the number of workers.

mod device;
mod error;
mod explain;
mod listing;
mod plan;
mod replay;
mod requests;
mod results;
mod run;
mod windows;
mod workload;

pub use device::{DeviceOptions, build_device, find_part_or_file};
pub use error::StudyError;
pub use explain::{ExplainOptions, Explanation, Step, explain};
pub use listing::listing;
pub use plan::{Axis, Run, Study, load};
pub use replay::{AddressRule, HostCounters, Replay};
pub use requests::{Request, Requests};
pub use results::{Metric, Row, StudyResults, device_metrics};
pub use run::{ReplayOptions, ReplayResults, replay_trace, run_study};
pub use workload::{WORKLOADS, WorkloadEntry};
