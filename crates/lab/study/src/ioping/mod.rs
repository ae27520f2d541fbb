//! Studies of ioping: processes of the tool over a scheduler and a block device, or on a file system, in
//! simulated time.

mod mounted;
mod plan;
mod run;

pub(crate) use plan::KIND;
