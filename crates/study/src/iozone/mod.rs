//! Studies of file systems on raw NAND: IOzone over a board, in simulated time.

mod flash;
mod metrics;
mod plan;
mod run;
mod spec;

pub(crate) use flash::PreparedFlash;
pub(crate) use metrics::TestRow;
pub(crate) use plan::{IozoneRun, check_iozone_study, iozone_axes, plan_iozone};
pub(crate) use run::run_iozone;
pub use spec::FlashState;
