//! Every test of `file_systems` in one program, which is built in a fraction of the time of many.

mod block_devices;
mod findings;
mod kernels;
mod nilfs2_block_path;
mod process_identity;
mod round_trip;
mod tables;
