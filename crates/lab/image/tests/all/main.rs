//! Every test of `image` in one program, which is built in a fraction of the time of many.

mod check;
mod check_yaffs2;
mod damage;
mod detection;
mod golden;
mod jffs2_check;
mod jffs2_torn;
mod nilfs2;
mod nilfs2_damage;
#[path = "../../../trace/tests/all/support/processor_time.rs"]
mod processor_time;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/mod.rs"]
mod support;
mod trees;
mod ubi;
mod ubifs_damage;
