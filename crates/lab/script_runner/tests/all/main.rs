//! Every test of `script_runner` in one program, which is built in a fraction of the time of many.

mod aging;
mod drawn_counts;
mod kernel_counts;
mod lines;
