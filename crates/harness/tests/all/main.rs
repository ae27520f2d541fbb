//! Every test of `harness` in one program, which is built in a fraction of the time of many.

mod kernel_counts;
mod lines;
