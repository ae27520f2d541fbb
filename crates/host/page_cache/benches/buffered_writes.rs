//! What a simulated buffered write costs the simulator: 4 KiB at random offsets, write-back included.

#![allow(clippy::print_stdout, reason = "a figure on the terminal is what this program is for")]
#![allow(clippy::disallowed_types, reason = "measuring time is what this program is for")]

#[path = "../tests/all/support/mod.rs"]
mod support;

use page_cache::{Mode, Process};
use random::Stream;
use std::time::Instant;

const WRITES: u64 = 1_000_000;

fn main() {
    for (name, span_pages, mode) in [
        ("buffered, cached", 10_000, Mode::Buffered),
        ("buffered, random over 1 GiB", 262_144, Mode::Buffered),
        ("direct", 262_144, Mode::Direct),
    ] {
        let best_ns = (0..3).map(|_| run(span_pages, mode)).min().unwrap_or(0);
        println!("{name:<30} {best_ns:>6} ns a write");
    }
}

fn run(span_pages: u32, mode: Mode) -> u128 {
    let mut rig = support::rig(support::board());
    let (file, cache) = (rig.file.clone(), rig.cache.clone());
    let mut stream = Stream::new(1, "offsets");
    let start = Instant::now();
    rig.run(async move {
        for _ in 0..WRITES {
            let offset = u64::from(stream.below(span_pages)) * 4096;
            file.write(Process::new(10), offset, 4096, mode).await.expect("inside the device");
        }
        cache.sync().await.expect("the device is sound");
    });
    start.elapsed().as_nanos() / u128::from(WRITES)
}
