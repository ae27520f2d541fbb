//! Every test of `nand` in one program, which is built in a fraction of the time of many.

mod bit_errors;
mod counters_and_time;
mod factory_bad_blocks;
mod image_round_trip;
mod journal;
mod part_files;
mod power_cut;
mod rules;
mod support;
mod temperature;
mod torn;
mod wear_out;
