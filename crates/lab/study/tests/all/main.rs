//! Every test of `study` in one program, which is built in a fraction of the time of many.

mod bad_input;
mod cells;
mod copy_delete;
mod determinism;
mod digests;
mod generated;
mod ioping;
mod iozone;
mod jobs;
mod lifecycle;
mod nvme_queues;
#[path = "../../../trace/tests/all/support/processor_time.rs"]
mod processor_time;
mod raw_nand;
mod replay;
mod schedule_fuzz;
mod script_once;
mod setting_axes;
mod support;
