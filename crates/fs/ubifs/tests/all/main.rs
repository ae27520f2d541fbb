//! Every test of `ubifs` in one program, which is built in a fraction of the time of many.

mod concurrent_work;
mod damage;
mod dirty_space;
mod failed_calls;
mod golden_images;
mod journal;
mod operation_counts;
mod power_cuts;
mod power_cuts_on_chip;
mod random_work;
mod support;
