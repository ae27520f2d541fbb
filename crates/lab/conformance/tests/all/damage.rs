//! Damage to the chip: wrong bits beyond the ECC, and blocks that were erased. A mount that follows fails, or
//! finds something, or shows what was there; nothing panics.

use crate::every_kind::{chip, driver, lies_on_the_chip, request};
use conformance::{Area, play_lines, succeeding};
use file_systems::KINDS;
use fs_api::Errno;
use mount::{Kind, MountRequest, run};
use nand::{Chip, ImageLayout, find_part};
use random::Stream;
use vfs::{Manifest, ManifestRow, ReadLimits};

const BLOCKS: u32 = 96;
const LINES: usize = 60;
const CASES: u64 = 24;
/// Data and spare bytes of a page, and pages of a block, of the chip of the tests.
const DATA_BYTES: usize = 2048;
const PAGE_BYTES: usize = DATA_BYTES + 64;
const BLOCK_BYTES: usize = 64 * PAGE_BYTES;
/// Bytes that one code of the ECC covers.
const STEP_BYTES: usize = 256;

/// What a mount showed.
#[derive(Debug)]
struct Seen {
    rows: Vec<ManifestRow>,
    /// An error or a finding.
    is_reported: bool,
}

/// The dump of a chip that worked and was unmounted.
fn worked(kind: &'static Kind) -> Vec<u8> {
    let outcome = run(chip(BLOCKS), &driver(), 1, async move |machine| {
        let asked = request(kind, kind.profiles[0]);
        let mounted = machine.mount(kind, &asked).await.expect("it mounts");
        let lines = Area::whole(kind.has_owners_and_links).random_lines(3, LINES);
        let lines = succeeding(&machine.sim, lines).await.expect("lines of the language");
        let ends = play_lines(&machine.sim, &mounted.vfs, &lines).await.expect("played");
        let is_done = |end: &Result<(), Errno>| matches!(end, Ok(()) | Err(Errno::Eopnotsupp));
        assert!(ends.iter().all(is_done), "{}: {ends:?}", kind.name);
        mounted.unmount().await.expect("it unmounts");
    });
    assert!(outcome.value.is_some());
    let mut bytes = Vec::new();
    outcome.chip.save_image(&mut bytes, ImageLayout::WithOob).expect("it saves");
    bytes
}

/// Mounts a dump, reads everything, and checks it.
fn look(kind: &'static Kind, bytes: &[u8]) -> Seen {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = BLOCKS;
    let chip = Chip::load_image(&part, &mut &bytes[..], ImageLayout::WithOob).expect("whole");
    let outcome = run(chip, &driver(), 1, async move |machine| {
        let asked = MountRequest {
            has_background: false,
            formats_blank: false,
            ..request(kind, kind.profiles[0])
        };
        let Ok(mounted) = machine.mount(kind, &asked).await else {
            return Seen { rows: Vec::new(), is_reported: true };
        };
        let fs = &mounted.file_system;
        let limits = ReadLimits { has_hashes: true, file_bytes_max: 1 << 30 };
        let (manifest, damage) = Manifest::of_damaged(&**fs, &limits).await;
        let complaints = fs.check().await;
        let findings = fs.findings().await;
        let unmounted = mounted.unmount().await;
        let is_reported = !damage.is_empty()
            || !complaints.is_ok_and(|found| found.is_empty())
            || !findings.is_empty()
            || unmounted.is_err();
        let rows = manifest.rows.into_iter();
        // The root of a mount that makes it again has other times.
        let rows = rows.filter(|row| row.path != ".").map(|row| ManifestRow { modified: 0, ..row });
        Seen { rows: rows.collect(), is_reported }
    });
    outcome.value.expect("the power is not cut")
}

/// Pages that hold something, and their number.
fn written_pages(bytes: &[u8]) -> Vec<usize> {
    let pages = bytes.chunks_exact(PAGE_BYTES).enumerate();
    pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0xff)).map(|(at, _)| at).collect()
}

#[test]
fn bits_beyond_the_ecc_are_reported_or_do_no_harm() {
    for kind in KINDS.iter().filter(|kind| lies_on_the_chip(kind)) {
        let sound = worked(kind);
        let known = look(kind, &sound);
        assert!(!known.is_reported && known.rows.len() > 3, "{}: {known:?}", kind.name);
        let pages = written_pages(&sound);
        let mut reported = 0;
        for case in 0..CASES {
            let mut stream = Stream::new(case, "damage");
            let page = pages[stream.below(pages.len() as u32) as usize];
            let step = page * PAGE_BYTES + stream.below(8) as usize * STEP_BYTES;
            let mut damaged = sound.clone();
            // Two wrong bits under one code: it finds them, and cannot correct them.
            damaged[step + stream.below(128) as usize] ^= 1 << stream.below(8);
            damaged[step + 128 + stream.below(128) as usize] ^= 1 << stream.below(8);
            let seen = look(kind, &damaged);
            reported += u32::from(seen.is_reported);
            let is_told = seen.is_reported || seen.rows == known.rows;
            assert!(is_told, "{} case {case}, page {page}: {:?}", kind.name, seen.rows);
        }
        eprintln!("{}: {reported} of {CASES} reported", kind.name);
        assert!(reported > 0, "{}", kind.name);
    }
}

#[test]
fn erased_blocks_and_noise_make_nothing_panic() {
    for kind in KINDS.iter().filter(|kind| lies_on_the_chip(kind)) {
        let sound = worked(kind);
        let pages = written_pages(&sound);
        let mut reported = 0;
        for case in 0..CASES {
            let mut stream = Stream::new(case, "more damage");
            let page = pages[stream.below(pages.len() as u32) as usize];
            let mut damaged = sound.clone();
            let block = page * PAGE_BYTES / BLOCK_BYTES * BLOCK_BYTES;
            if case % 2 == 0 {
                damaged[block..block + BLOCK_BYTES].fill(0xff);
            } else {
                for byte in &mut damaged[page * PAGE_BYTES..(page + 1) * PAGE_BYTES] {
                    *byte = stream.next_u64() as u8;
                }
            }
            reported += u32::from(look(kind, &damaged).is_reported);
        }
        eprintln!("{}: {reported} of {CASES} reported", kind.name);
        assert!(reported > 0, "{}", kind.name);
    }
}
