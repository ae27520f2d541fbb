//! Studies of file systems on raw NAND: IOzone over a board, in simulated time.

mod metrics;
mod plan;
mod run;

pub(crate) use metrics::test_row;
pub(crate) use plan::{KIND, options_of};
