//! Every test of `ubi` in one program, which is built in a fraction of the time of many.

mod damage;
mod golden_images;
mod images;
mod operation_counts;
mod power_cuts;
mod random_work;
mod support;
mod volume_cuts;
mod wear;
