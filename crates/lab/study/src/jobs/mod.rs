//! Studies of the block path: processes over a scheduler and a block device, in simulated time or
//! on a real kernel.

pub(crate) mod kernel;
mod metrics;
mod phases;
mod plan;
mod run;
pub(crate) mod spec;
mod words;

pub(crate) use plan::KIND;
pub use spec::{ExtraRuns, Host, JobSpec, Mechanism, QuickForm, SchedulerVariant, Timeline};
