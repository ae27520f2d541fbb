//! Studies of the block path: processes over a scheduler and a block device, in simulated time or
//! on a real kernel.

pub(crate) mod kernel;
mod metrics;
mod plan;
mod run;
mod spec;

pub(crate) use plan::KIND;
pub(crate) use run::PreparedDevices;
pub use spec::{ExtraRuns, Host, JobSpec, Mechanism, QuickForm, SchedulerVariant, Timeline};
