//! Checkpoints that must not be believed, and summaries of several chunks.

use crate::common;

use common::ops::Shell;
use common::{Bench, part};
use nand::{Chip, FaultSettings, ImageLayout, Storage};
use std::cell::RefCell;
use std::rc::Rc;
use yaffs2::{Finding, MountOptions, PROFILES, Profile, TAGS_ECC_BYTES, Tags, find_profile};

const PAGE_BYTES: usize = 2048 + 64;
/// Where the tags stand in a page of a dump: behind the bad mark.
const TAGS_AT: usize = 2048 + 2;
/// In the tags of a checkpoint (`YAFFS_SEQUENCE_CHECKPOINT_DATA`).
const SEQUENCE: u32 = 0x21;
/// Pretended object whose chunks are summaries of blocks (`YAFFS_OBJECTID_SUMMARY`).
const SUMMARY: u32 = 0x10;

fn small_part() -> nand::Part {
    let mut part = part(64);
    part.geometry.pages_per_block = 16;
    part
}

fn tags_of(page: &[u8]) -> Tags {
    let mut stored = [0; TAGS_ECC_BYTES];
    stored.copy_from_slice(&page[TAGS_AT..TAGS_AT + TAGS_ECC_BYTES]);
    Tags::from_bytes_with_ecc(&stored).0
}

/// A dump with a checkpoint of several chunks.
fn image_of(profile: &'static Profile) -> Vec<u8> {
    let chip = Chip::new(&small_part(), Storage::Bytes, &FaultSettings::default());
    let mut bench = Bench::new(chip, "linux-large");
    let sim = bench.simulation.handle();
    let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
    sim.clone().spawn(async move {
        let mut shell = Shell::new(sim, mtd, cpus, MountOptions::new(profile));
        shell.has_background = false;
        shell.mount().await;
        for file in 0..40 {
            shell.line(&format!("put f{file} 644 3000 4096 x {file}")).await.expect("room");
        }
        shell.unmount().await;
    });
    bench.simulation.run();
    let mut image = Vec::new();
    bench.chip().save_image(&mut image, ImageLayout::WithOob).expect("it saves");
    image
}

/// Mounts a dump: whether its checkpoint was used, and what was found.
fn mount(image: &[u8], profile: &'static Profile) -> (bool, Vec<Finding>) {
    let chip = Chip::load_image(&small_part(), &mut &image[..], ImageLayout::WithOob);
    let mut bench = Bench::new(chip.expect("an image"), "linux-large");
    let seen = Rc::new(RefCell::new(None));
    let place = seen.clone();
    bench.run(MountOptions::new(profile), move |_, fs| async move {
        let is_used = fs.statistics().await.is_from_checkpoint;
        let findings = fs.findings().await;
        place.borrow_mut().replace((is_used, findings));
    });
    seen.take().expect("mounted")
}

/// A chunk of the stream in the place of another is recognised by its number in the tags alone where
/// chunks have no heads: the sum and the xor over all bytes do not tell their order.
#[test]
fn a_chunk_of_a_checkpoint_with_another_number_is_refused() {
    for profile in PROFILES {
        let mut image = image_of(profile);
        assert_eq!(mount(&image, profile), (true, Vec::new()), "{}", profile.name);
        let mut pages = image.chunks_exact_mut(PAGE_BYTES);
        let page = pages.find(|page| {
            let tags = tags_of(page);
            tags.sequence == SEQUENCE && tags.chunk == 2
        });
        let page = page.expect("a checkpoint of two chunks or more");
        let tags = Tags { chunk: 3, ..tags_of(page) };
        page[TAGS_AT..TAGS_AT + TAGS_ECC_BYTES].copy_from_slice(&tags.to_bytes_with_ecc());
        let (is_used, findings) = mount(&image, profile);
        assert!(!is_used, "{}: the checkpoint was used", profile.name);
        let is_told = findings.iter().any(|one| matches!(one, Finding::BadCheckpoint { .. }));
        assert!(is_told, "{}: {findings:?}", profile.name);
    }
}

/// A block of 256 pages has a summary of two chunks, and both begin with a head: 16 + 2,032 bytes, then
/// 16 + 1,016 of 254 entries (`yaffs_summary_write`).
#[test]
fn every_chunk_of_a_summary_begins_with_a_head() {
    let profile = find_profile("yaffs-direct").expect("in the table");
    let mut part = part(12);
    part.geometry.pages_per_block = 256;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let mut bench = Bench::new(chip, "linux-large");
    let sim = bench.simulation.handle();
    let (mtd, cpus) = (bench.mtd.clone(), bench.cpus.clone());
    let used = Rc::new(RefCell::new(0));
    let place = used.clone();
    sim.clone().spawn(async move {
        let mut shell = Shell::new(sim, mtd, cpus, MountOptions::new(profile));
        shell.has_background = false;
        shell.mount().await;
        shell.line("put f 644 700000 8192 x 1").await.expect("room");
        shell.unmount().await;
        // Too few blocks for checkpoints: the next mount scans.
        shell.mount().await;
        let fs = shell.fs.clone().expect("mounted");
        let statistics = fs.statistics().await;
        *place.borrow_mut() = statistics.summary_used;
    });
    bench.simulation.run();
    assert_eq!(*used.borrow(), 254, "entries of a full block");
    let mut image = Vec::new();
    bench.chip().save_image(&mut image, ImageLayout::WithOob).expect("it saves");
    let pages = image.chunks_exact(PAGE_BYTES).map(|page| (tags_of(page), &page[..16]));
    let summary: Vec<(Tags, &[u8])> = pages.filter(|(tags, _)| tags.object == SUMMARY).collect();
    let sizes: Vec<(u32, u32)> = summary.iter().map(|(tags, _)| (tags.chunk, tags.bytes)).collect();
    assert_eq!(sizes, [(1, 2048), (2, 1032)]);
    assert_eq!(summary[0].1, summary[1].1, "the heads");
    assert_eq!(summary[0].1[..8], [1, 0, 0, 0, 1, 0, 0, 0], "version and block");
}
