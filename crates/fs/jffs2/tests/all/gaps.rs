//! Writes behind the end of a file: what they put on the medium, and what they read.

use crate::support;

use fs_api::FileSystem;
use jffs2::{MountOptions, PROFILES, Profile};
use std::cell::Cell;
use std::rc::Rc;
use support::{CALLER, blank, quiet, run};
use vfs::{OpenOptions, Vfs};

/// A write, and the reads that it costs when the gap reaches its position, and only its page.
const WRITES: [(u64, u64, u64); 4] = [
    // The page is in memory.
    (200, 0, 0),
    // The node of the hole is read with the page in which it ends.
    (10_000, 1, 0),
    // The hole ends where the page begins: the page holds nothing.
    (20_480, 0, 0),
    (20_481 + 4096, 1, 0),
];

/// Reads of each write on a file of 100 bytes, and the length in the end.
fn reads(profile: &'static Profile) -> Vec<u64> {
    let (done, found) = (Rc::new(Cell::new(false)), Rc::new(Cell::new([0; WRITES.len()])));
    let (is_done, reported) = (done.clone(), found.clone());
    run(blank(16), false, move |bench| async move {
        let options = MountOptions { profile, ..quiet(1) };
        let fs = Rc::new(bench.mount(options).await);
        let board = Rc::new(board::Board::without_costs());
        let vfs = Vfs::cached(&bench.sim, &bench.cpus, &board, fs.clone());
        let new = OpenOptions { create: Some(0o600), ..OpenOptions::default() };
        let file = vfs.open(&CALLER, b"file", new).await.expect("it opens");
        vfs.write(&CALLER, &file, 0, &[1; 100]).await.expect("it fits");
        let mut counts = [0; WRITES.len()];
        for (count, (offset, ..)) in counts.iter_mut().zip(WRITES) {
            let reads = || bench.mtd.with_chip(|chip| chip.counters().page_reads);
            let before = reads();
            vfs.write(&CALLER, &file, offset, &[2; 10]).await.expect("it fits");
            *count = reads() - before;
        }
        let inode = fs.lookup(1, b"file").await.expect("it is there");
        let size = fs.attributes(inode).await.expect("it is there").size_bytes;
        assert_eq!(size, WRITES[WRITES.len() - 1].0 + 10);
        let mut content = vec![0xff; size as usize];
        assert_eq!(vfs.read(&file, 0, &mut content).await, Ok(size as usize));
        for (at, byte) in content.iter().enumerate() {
            let is_written =
                |(offset, ..): &(u64, u64, u64)| (*offset..offset + 10).contains(&(at as u64));
            let expected = if at < 100 {
                1
            } else if WRITES.iter().any(is_written) {
                2
            } else {
                0
            };
            assert_eq!(*byte, expected, "byte {at}");
        }
        vfs.close(&CALLER, file).await.expect("it closes");
        reported.set(counts);
        is_done.set(true);
    });
    assert!(done.get());
    found.get().to_vec()
}

#[test]
fn a_write_behind_the_end_reads_the_hole_that_it_makes() {
    for profile in PROFILES {
        let expected: Vec<u64> = WRITES
            .iter()
            .map(|(_, new, old)| if profile.hole_reaches_position { *new } else { *old })
            .collect();
        assert_eq!(reads(profile), expected, "{}", profile.name);
    }
}
