//! Studies: a file names a workload, a stack and the axes to vary; this crate runs every
//! combination and answers with tidy rows.
//!
//! A run is a pure function of the resolved study: no clock, no thread inside it, named random
//! streams. Runs of one study go side by side, and their results are put in the order of the plan,
//! so that the digest does not depend on the number of workers.

mod checks;
mod device;
mod error;
mod explain;
mod generated;
mod listing;
mod matrix;
mod overrides;
mod replay;
mod requests;
mod results;
mod run;
mod single;
mod study_file;
mod windows;
mod workload;

pub use device::{DeviceOptions, build_device, find_part_or_file};
pub use error::StudyError;
pub use explain::{ExplainOptions, Explanation, Step, explain};
pub use listing::listing;
pub use matrix::{Axis, Run};
pub use replay::{AddressRule, HostCounters, Replay};
pub use requests::{Request, Requests};
pub use results::{Metric, Row, StudyResults, device_metrics};
pub use run::run_study;
pub use single::{ReplayOptions, ReplayResults, replay_trace};
pub use study_file::{AxisValue, Preconditioning, SettingValue, Study, Workload, load};
pub use workload::{WORKLOADS, WorkloadEntry};
