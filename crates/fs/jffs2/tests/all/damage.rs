//! Media that are damaged: an error or a report, never a panic and never a loop.

use crate::support;

use fs_api::{FileSystem, NewInode};
use jffs2::{Jffs2, MountOptions};
use nand::{Chip, ImageLayout};
use random::Stream;
use std::cell::Cell;
use std::rc::Rc;
use support::{CALLER, data, load, manifest, quiet, run, write};

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut stream = Stream::new(seed, "noise");
    (0..bytes).map(|_| stream.next_u64() as u8).collect()
}

/// Mounts a medium and does a bit of everything; true if it mounted.
fn try_all(chip: Chip, options: MountOptions) -> bool {
    let outcome = Rc::new(Cell::new(None));
    let out = outcome.clone();
    run(chip, false, move |bench| async move {
        let (cpus, mtd) = (bench.cpus.clone(), bench.mtd.clone());
        let Ok(fs) = Jffs2::mount(&bench.sim, cpus, mtd, options).await else {
            out.set(Some(false));
            return;
        };
        let _ = manifest(&fs).await;
        fs.check_invariants();
        for _ in 0..300 {
            fs.collect().await;
        }
        if let Ok(inode) = fs.make(&CALLER, 1, b"new", NewInode::Regular(0o600)).await {
            let _ = write(&fs, &CALLER, inode, 0, &noise(1, 30_000)).await;
        }
        let _ = fs.unmount().await;
        fs.check_invariants();
        out.set(Some(true));
    });
    outcome.get().expect("it came to an end")
}

#[test]
fn flipped_bytes_never_panic() {
    let image = data("gc.oob.zst");
    let mut mounted = 0;
    for seed in 0..24 {
        let mut stream = Stream::new(seed, "damage");
        let mut damaged = image.clone();
        let count = 1 << stream.below(13);
        for _ in 0..count {
            let at = stream.below(damaged.len() as u32) as usize;
            damaged[at] = match stream.below(3) {
                0 => 0,
                1 => 0xff,
                _ => stream.next_u64() as u8,
            };
        }
        mounted += u32::from(try_all(load(&damaged, ImageLayout::WithOob, 24), quiet(seed)));
    }
    assert!(mounted > 12, "only {mounted} mounted");
}

#[test]
fn nodes_with_sound_sums_and_senseless_fields_never_panic() {
    // The CRCs are made anew, so that the senseless fields get past them.
    let image = data("gc.oob.zst");
    for seed in 0..24 {
        let mut stream = Stream::new(seed, "forgery");
        let mut damaged = image.clone();
        for _ in 0..400 {
            let page = stream.below(24 * 64) as usize * 2112;
            let words = 2048 / 4;
            let start = stream.below(words) as usize;
            let node = (start..words as usize - 20).map(|word| page + word * 4).find(|at| {
                damaged[*at..*at + 4] == [0x85, 0x19, 0x02, 0xe0]
                    || damaged[*at..*at + 4] == [0x85, 0x19, 0x01, 0xe0]
            });
            let Some(at) = node else { continue };
            let is_inode = damaged[at + 2] == 2;
            let field = 4 * (1 + stream.below(if is_inode { 14 } else { 6 }) as usize);
            let value = match stream.below(4) {
                0 => 0,
                1 => u32::MAX,
                2 => stream.below(1 << 20),
                _ => stream.next_u64() as u32,
            };
            damaged[at + field..at + field + 4].copy_from_slice(&value.to_le_bytes());
            let header = jffs2::nodes::crc(&damaged[at..at + 8]);
            damaged[at + 8..at + 12].copy_from_slice(&header.to_le_bytes());
            let (length, place) = if is_inode { (60, 64) } else { (32, 32) };
            let sum = jffs2::nodes::crc(&damaged[at..at + length]);
            damaged[at + place..at + place + 4].copy_from_slice(&sum.to_le_bytes());
        }
        // Without the ECC, which would correct some of it.
        for page in damaged.chunks_exact_mut(2112) {
            let (data, oob) = page.split_at_mut(2048);
            if data.iter().any(|byte| *byte != 0xff) {
                mtd::find_layout("linux-large").expect("in the table").protect(data, oob);
            }
        }
        let mut options = quiet(seed);
        options.has_summary = Some(seed % 2 == 0);
        try_all(load(&damaged, ImageLayout::WithOob, 24), options);
    }
}

#[test]
fn noise_is_refused() {
    for seed in 0..4 {
        let mut image = noise(seed, 8 * 135_168);
        // Else every block would be bad.
        image.chunks_exact_mut(2112).for_each(|page| page[2048] = 0xff);
        assert!(!try_all(load(&image, ImageLayout::WithOob, 8), quiet(seed)));
    }
}
