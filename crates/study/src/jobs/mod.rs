//! Studies of the block path: processes over a scheduler and a block device, in simulated time or
//! on a real kernel.

mod kernel;
mod metrics;
mod plan;
mod run;
mod spec;

pub(crate) use kernel::{check_kernel_run, check_kernel_study, kernel_axes};
pub(crate) use metrics::{CellTables, JobsOutcome, pooled_tables};
pub(crate) use plan::{JobsRun, jobs_axes, plan_run};
pub(crate) use run::{PreparedDevices, run_jobs};
pub use spec::{Also, Host, JobSpec, Mechanism, QuickForm, SchedulerVariant, Timeline};
