//! Wear levelling, scrubbing and torture: counters stay close, data moves away from bits that flip.

use crate::support;

use nand::{Chip, FaultSettings, ImageLayout};
use random::Stream;
use std::cell::Cell;
use std::rc::Rc;
use support::{part, run, small, threaded};
use ubi::{AttachOptions, FormatOptions, LebNumber, VolumeOptions, VolumeSize, find_profile};

/// Erases of blocks under one hot logical block while all others are cold.
fn hot_and_cold(threshold: u64, profile: &'static str, changes: u32) -> (u64, f64, u64) {
    let range = Rc::new(Cell::new(None));
    let found = range.clone();
    let (_, is_done) = run(small(40, &FaultSettings::default()), false, move |bench| async move {
        bench.format(&FormatOptions::default()).await;
        let profile = find_profile(profile).expect("in the table");
        let options = AttachOptions { wear_threshold: threshold, profile, ..threaded() };
        let ubi = bench.attach(options).await;
        let id = ubi.make_volume(&VolumeOptions::new("data")).await.expect("made");
        let volume = ubi.open_volume(id).await.expect("opened");
        for lnum in 0..volume.leb_count() {
            volume.write(LebNumber::new(lnum), 0, &[lnum as u8; 2048]).await.expect("written");
        }
        // The kernel of 6.1 changes the two copies of the table in the same way.
        let of_table = ubi.statistics().changes;
        for change in 0..changes {
            volume.change(LebNumber::new(0), &[change as u8; 2048]).await.expect("changed");
        }
        ubi.finish_works().await.expect("works end");
        for lnum in 1..volume.leb_count() {
            let mut page = [0; 2048];
            volume.read(LebNumber::new(lnum), 0, &mut page, false).await.expect("read");
            assert_eq!(page, [lnum as u8; 2048]);
        }
        assert!(ubi.findings().is_empty(), "{:?}", ubi.findings());
        assert_eq!(ubi.statistics().changes - of_table, u64::from(changes));
        found.set(ubi.info().erase_counter_range());
    });
    assert!(is_done);
    range.get().expect("blocks have counters")
}

#[test]
fn counters_stay_within_the_threshold() {
    for profile in ["linux-2.6.35", "linux-6.12"] {
        for threshold in [4, 16, 64] {
            let (least, mean, most) = hot_and_cold(threshold, profile, 6000);
            // Data moves to free blocks less than twice the threshold above the least worn free one,
            // and the hot block goes on wearing what is left.
            let spread = most - least;
            assert!(spread <= 3 * threshold + 4, "{profile} {threshold}: {least} {mean} {most}");
            assert!(mean > 140.0, "{profile} {threshold}: {mean}");
        }
        let (least, _, most) = hot_and_cold(4096, profile, 2000);
        assert!(least <= 2 && most > 200, "{profile}: nothing moves below the threshold");
    }
}

/// Turns a bit of a page, as charge that leaks away does.
fn flip(chip: &Chip, page: usize, byte: usize) -> Chip {
    let mut image = Vec::new();
    chip.save_image(&mut image, ImageLayout::WithOob).expect("saved");
    image[page * 2112 + byte] ^= 4;
    let mut part = part(chip.geometry().blocks);
    part.geometry.pages_per_block = 8;
    Chip::load_image(&part, &mut &image[..], ImageLayout::WithOob).expect("loaded")
}

/// The physical block whose first page of data is of this byte.
fn find(chip: &mut Chip, byte: u8) -> usize {
    let blocks = chip.geometry().blocks;
    let found = (0..blocks).find(|block| {
        let mut page = [0; 64];
        let at = nand::PageAddress::new(*block, 1);
        chip.read_raw(at, &mut page, &mut []).is_ok() && page == [byte; 64]
    });
    found.expect("it was written") as usize
}

/// Attaches, reads two pages of a block, waits until it was scrubbed, reads again.
fn scrub(chip: Chip, corrected_bits: u32) -> Chip {
    let (chip, is_done) = run(chip, false, move |bench| async move {
        let ubi = bench.attach(threaded()).await;
        let volume = ubi.open_volume(0).await.expect("opened");
        let mut back = [0; 4096];
        let status = volume.read(LebNumber::new(2), 0, &mut back, false).await.expect("read");
        assert_eq!((status.corrected_bits, back), (corrected_bits, [0x5a; 4096]));
        ubi.finish_works().await.expect("works end");
        assert_eq!(ubi.statistics().blocks_scrubbed, 1);
        let status = volume.read(LebNumber::new(2), 0, &mut back, false).await.expect("read");
        assert_eq!((status.corrected_bits, back), (0, [0x5a; 4096]));
        // The copy leaves blank pages blank, so that the file system can go on.
        volume
            .write(LebNumber::new(2), 4096, &[0xa5; 2048])
            .await
            .expect("written behind the copy");
        ubi.detach();
    });
    assert!(is_done);
    chip
}

#[test]
fn a_corrected_bit_has_the_block_moved() {
    let (mut chip, _) = run(small(20, &FaultSettings::default()), false, |bench| async move {
        bench.format(&FormatOptions::default()).await;
        let ubi = bench.attach(threaded()).await;
        let size = VolumeSize::Bytes(5 * 14_336);
        let options = VolumeOptions { size, ..VolumeOptions::new("data") };
        let id = ubi.make_volume(&options).await.expect("made");
        let volume = ubi.open_volume(id).await.expect("opened");
        volume.write(LebNumber::new(2), 0, &[0x5a; 4096]).await.expect("written");
    });
    let before = find(&mut chip, 0x5a);
    // In the data, in each header: the attach sees these.
    for (page, byte, corrected_bits) in [(1, 300, 1), (0, 12, 0), (0, 512 + 12, 0)] {
        let mut scrubbed = scrub(flip(&chip, before * 8 + page, byte), corrected_bits);
        assert_ne!(find(&mut scrubbed, 0x5a), before);
    }
}

#[test]
fn failing_blocks_are_tortured_and_the_failing_ones_marked() {
    let faults =
        FaultSettings { seed: 3, program_failure_probability: 0.01, ..FaultSettings::default() };
    run(small(60, &faults), false, |bench| async move {
        bench.format(&FormatOptions::default()).await;
        let options = AttachOptions { bad_blocks_per_1024: Some(400), ..threaded() };
        let ubi = bench.attach(options).await;
        let size = VolumeSize::Bytes(20 * 14_336);
        let options = VolumeOptions { size, ..VolumeOptions::new("data") };
        let id = ubi.make_volume(&options).await.expect("made");
        let volume = ubi.open_volume(id).await.expect("opened");
        let mut stream = Stream::new(1, "writes");
        for _ in 0..200 {
            let lnum = stream.below(20);
            volume.unmap(LebNumber::new(lnum)).await.expect("unmapped");
            for page in 0..4_u32 {
                volume
                    .write(LebNumber::new(lnum), page * 2048, &[page as u8 + 1; 2048])
                    .await
                    .expect("written");
            }
            let mut back = vec![0; 4 * 2048];
            volume.read(LebNumber::new(lnum), 0, &mut back, false).await.expect("read");
            assert!(back.chunks(2048).zip(1..).all(|(page, byte)| page == [byte; 2048]));
        }
        ubi.finish_works().await.expect("works end");
        let counts = ubi.statistics();
        assert!(counts.programs_recovered > 3 && counts.blocks_tortured > 3, "{counts:?}");
        assert!(!ubi.is_read_only());
    });
}

#[test]
fn a_block_that_cannot_be_erased_is_marked_bad() {
    let faults =
        FaultSettings { seed: 5, erase_failure_probability: 0.3, ..FaultSettings::default() };
    let (chip, is_done) = run(small(60, &faults), false, |bench| async move {
        bench.format(&FormatOptions::default()).await;
        let options = AttachOptions { bad_blocks_per_1024: Some(700), ..threaded() };
        let ubi = bench.attach(options).await;
        let before = ubi.info().bad_pebs;
        let size = VolumeSize::Bytes(4 * 14_336);
        let options = VolumeOptions { size, ..VolumeOptions::new("data") };
        let id = ubi.make_volume(&options).await.expect("made");
        let volume = ubi.open_volume(id).await.expect("opened");
        for change in 0..1500_u32 {
            volume
                .change(LebNumber::new(change % 4), &[change as u8; 2048])
                .await
                .expect("changed");
        }
        ubi.finish_works().await.expect("works end");
        let (counts, info) = (ubi.statistics(), ubi.info());
        assert!(counts.blocks_bad > 0, "{counts:?}");
        assert_eq!(u64::from(info.bad_pebs - before), counts.blocks_bad);
        let memory = ubi.memory_use();
        let entries = memory.kinds.iter().find(|(kind, ..)| *kind == "ubi_wl_entry");
        assert_eq!(entries.map(|(_, count, _)| *count), Some(60 - u64::from(info.bad_pebs)));
        let marked = bench.mtd.with_chip(|chip| (0..60).filter(|peb| chip.is_bad(*peb)).count());
        assert_eq!(marked as u32, info.bad_pebs);
    });
    assert!(is_done);
    assert!((0..60).any(|peb| chip.is_bad(peb)));
}
