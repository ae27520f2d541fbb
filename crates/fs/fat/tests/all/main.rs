//! Every test of `fat` in one program, which is built in a fraction of the time of many.

mod bios;
mod captured_trace;
mod concurrency;
mod damage;
mod format;
mod full;
mod power_cuts;
mod random_work;
mod support;
mod upper_bits;
