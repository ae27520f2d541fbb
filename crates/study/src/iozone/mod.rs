//! Studies of file systems on raw NAND: IOzone over a board, in simulated time.

mod metrics;
mod plan;
mod run;

pub(crate) use metrics::test_row;
pub(crate) use plan::{IozoneRun, check_iozone_study, iozone_axes, options_of, plan_iozone};
pub(crate) use run::run_iozone;
