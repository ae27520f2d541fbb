//! Memory of an empty UBI device, which has a header in the first page of every block.
//!
//! A program of its own: all that it allocates is counted.

#[path = "all/support/mod.rs"]
mod support;

use peak_alloc::PeakAlloc;
use support::{blank, quiet, run};
use ubi::FormatOptions;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Blocks of 128 KiB in 4 GiB.
const BLOCKS_OF_4_GIB: usize = 32_768;
/// What formatting and attaching 4 GiB may take.
const BYTES_OF_4_GIB_MAX: usize = 300_000_000;

/// The most memory in use while a chip is formatted and attached, and the memory of the chip after it.
fn bytes(blocks: u32) -> [usize; 2] {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let (chip, is_done) = run(blank(blocks), false, async |bench| {
        bench.format(&FormatOptions::default()).await;
        drop(bench.attach(quiet()).await);
    });
    assert!(is_done);
    let bytes = [ALLOCATOR.peak_usage(), ALLOCATOR.current_usage()].map(|usage| usage - before);
    drop(chip);
    bytes
}

#[test]
fn an_empty_chip_takes_a_page_of_every_block() {
    const SMALL: u32 = 256;
    const LARGE: u32 = 2048;
    // The first call makes tables that stay.
    bytes(64);
    let (small, large) = (bytes(SMALL), bytes(LARGE));
    let of_a_block = |place: usize| (large[place] - small[place]) / (LARGE - SMALL) as usize;
    let [most, after] = [of_a_block(0), of_a_block(1)];
    assert!(
        most * BLOCKS_OF_4_GIB <= BYTES_OF_4_GIB_MAX,
        "4 GiB take {} MB",
        most * BLOCKS_OF_4_GIB / 1_000_000
    );
    // A page of data and spare bytes, and 4 bytes of state for each of 64 pages: UBI appends to a block.
    assert!((2112 + 4 * 64..4000).contains(&after), "{after} bytes a block stay");
}
