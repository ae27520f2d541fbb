//! The ECC of raw NAND: the Hamming code of 256 bytes against a plain sum of the same bytes.
//!
//! The sum reads every byte once and does nothing else, so the ratio says how far the code is from the
//! speed of memory. Every page that a raw NAND file system programs or reads takes eight codes.

use crate::ROUNDS;
use crate::processor_time::Stopwatch;
use mtd::hamming_code;
use nand::random::Stream;
use std::hint::black_box;

/// Data of one code.
const STEP_BYTES: usize = 256;
/// A page of a large-block chip.
const PAGE_BYTES: usize = 2048;
/// Pages of one timed run: some ten microseconds, so that most runs end without an interruption.
const PAGES: usize = 100;
const RUNS: usize = 200 * ROUNDS;

pub(crate) struct HammingSpeed {
    pub(crate) ns_per_256b: f64,
    pub(crate) bare_ns_per_256b: f64,
}

impl HammingSpeed {
    /// Speed of the code as a share of that of the sum.
    pub(crate) fn ratio(&self) -> f64 {
        self.bare_ns_per_256b / self.ns_per_256b
    }
}

/// Alternates runs of the sum and of the code over the same page; the best run of each counts.
pub(crate) fn measure() -> HammingSpeed {
    let mut stream = Stream::new(1, "hamming");
    let page: Vec<u8> = (0..PAGE_BYTES).map(|_| stream.next_u64() as u8).collect();
    let (mut bare, mut code) = (f64::MAX, f64::MAX);
    for _ in 0..RUNS {
        bare = bare.min(ns_of_a_run(&page, |step| [sum(step), 0, 0]));
        code = code.min(ns_of_a_run(&page, hamming_code));
    }
    HammingSpeed { ns_per_256b: code, bare_ns_per_256b: bare }
}

/// Nanoseconds of a step, in the mean of one run.
fn ns_of_a_run(page: &[u8], work: impl Fn(&[u8]) -> [u8; 3]) -> f64 {
    let start = Stopwatch::start();
    for _ in 0..PAGES {
        for step in black_box(page).chunks_exact(STEP_BYTES) {
            black_box(work(step));
        }
    }
    start.seconds() * 1e9 / (PAGES * PAGE_BYTES / STEP_BYTES) as f64
}

/// The exclusive or of all bytes.
fn sum(step: &[u8]) -> u8 {
    step.iter().fold(0, |sum, byte| sum ^ byte)
}
