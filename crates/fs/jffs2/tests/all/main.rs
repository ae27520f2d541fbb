//! Every test of `jffs2` in one program, which is built in a fraction of the time of many.

mod block2mtd;
mod checksums;
mod damage;
mod failed_programs;
mod gaps;
mod golden_images;
mod power_cuts;
mod random_work;
mod support;
