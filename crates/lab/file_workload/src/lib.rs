//! The file workload: a directory is filled, then files are copied into it and deleted at random.
//!
//! What is done follows from the seed alone. `nandlab-guest` carries it out on a kernel's file systems
//! while their block traces are captured, the test `copy-delete` of studies on simulated ones.

mod file_set;
mod random;
mod table;

pub use file_set::{FILE_SETS, FileSet};
pub use random::Random;
pub use table::{Kind, Table};

/// Bytes that a copy writes by one call.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// The files in the order in which the directory is filled.
pub fn fill_order(seed: u64, files: usize) -> Vec<usize> {
    // Stream 0 draws the sizes: a set of other sizes is filled in the same order.
    let mut random = Random::new(seed, 1);
    let mut order: Vec<usize> = (0..files).collect();
    for position in (1..order.len()).rev() {
        order.swap(position, random.below(position + 1));
    }
    order
}

/// The numbers from which a process draws its operations.
pub fn process_random(seed: u64, process: u64) -> Random {
    // Behind the streams of the sizes and of the order.
    Random::new(seed, 2 + process)
}

/// The bytes of every chunk: incompressible.
pub fn content() -> Vec<u8> {
    // One seed for all runs: what is written is the same in every capture, and compresses nowhere.
    let mut random = Random::new(0, 0);
    let mut data = Vec::with_capacity(CHUNK_BYTES);
    while data.len() < CHUNK_BYTES {
        data.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    data
}
