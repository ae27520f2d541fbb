//! Every test of `nilfs2` in one program, which is built in a fraction of the time of many.

mod accounts;
mod bios;
mod cleaning;
mod concurrency;
mod damage;
mod format;
mod golden_images;
mod kernel_bios;
mod power_cuts;
#[path = "support/recorder.rs"]
mod recorder;
mod script;
mod shared_pages;
mod support;
mod torn_logs;
