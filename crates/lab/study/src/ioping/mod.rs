//! Studies of ioping: processes of the tool over a scheduler and a block device, in simulated time.

mod plan;
mod run;

pub(crate) use plan::KIND;
