//! Every test of `yaffs2` in one program, which is built in a fraction of the time of many.

mod checkpoints;
mod common;
mod golden_mount;
mod golden_replay;
mod power_cuts;
mod random_operations;
mod space_and_damage;
