//! Damaged media: headers, volume tables and data that cannot be right. An attach ends with a message or
//! with a device that works; it never panics, and what it does ends.

use crate::support;

use mtd::find_layout;
use nand::{Chip, FaultSettings, ImageLayout};
use random::Stream;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::{blank, part, quiet, run, small, threaded};
use ubi::headers::{FASTMAP_VOLUMES, VolumeHeader, crc32};
use ubi::{
    AttachError, AttachOptions, FormatOptions, LebAddress, LebNumber, VolumeNumber, VolumeOptions,
    VolumeSize,
};

const PAGE_BYTES: usize = 2112;
const BLOCKS: u32 = 20;
const LEB_BYTES: u32 = 14_336;

/// A chip with a volume and data, as bytes.
fn image() -> Vec<u8> {
    let (chip, is_done) =
        run(small(BLOCKS, &FaultSettings::default()), false, |bench| async move {
            bench.format(&FormatOptions { image_sequence: 9, ..Default::default() }).await;
            let ubi = bench.attach(threaded()).await;
            let size = VolumeSize::Bytes(u64::from(10 * LEB_BYTES));
            let options = VolumeOptions { size, ..VolumeOptions::new("data") };
            let id = ubi.make_volume(&options).await.expect("made");
            let volume = ubi.open_volume(id).await.expect("opened");
            for lnum in 0..8 {
                volume.change(LebNumber::new(lnum), &[lnum as u8; 8192]).await.expect("changed");
            }
            volume.unmap(LebNumber::new(3)).await.expect("unmapped");
            ubi.detach();
        });
    assert!(is_done);
    let mut image = Vec::new();
    chip.save_image(&mut image, ImageLayout::WithOob).expect("saved");
    image
}

fn load(image: &[u8]) -> Chip {
    let mut part = part(BLOCKS);
    part.geometry.pages_per_block = 8;
    Chip::load_image(&part, &mut &image[..], ImageLayout::WithOob).expect("loaded")
}

/// Changes the data of a page and makes its ECC right again.
fn change(image: &mut [u8], page: usize, how: impl FnOnce(&mut [u8])) {
    let (data, oob) = image[page * PAGE_BYTES..][..PAGE_BYTES].split_at_mut(2048);
    how(data);
    if data.iter().all(|byte| *byte == 0xff) {
        oob.fill(0xff);
    } else {
        find_layout("linux-large").expect("in the table").protect(data, oob);
    }
}

/// Makes the CRC right that stands in the last four of some bytes.
fn seal(bytes: &mut [u8]) {
    let covered = bytes.len() - 4;
    let crc = crc32(&bytes[..covered]);
    bytes[covered..].copy_from_slice(&crc.to_be_bytes());
}

/// One random way of damage.
fn damage(image: &mut [u8], stream: &mut Stream) {
    let block = stream.below(BLOCKS) as usize;
    let header = if stream.below(2) == 0 { 0 } else { 512 };
    let byte = stream.next_u64() as u8;
    let extreme = [0, 1, 0x7f, 0x80, 0xff, byte][stream.below(6) as usize];
    match stream.below(8) {
        0 => change(image, block * 8, |page| page[header + (byte as usize % 64)] ^= 1 | byte),
        1..4 => {
            // A header that has a right CRC and says something odd.
            let at = stream.below(56) as usize + 4;
            let count = 1 + stream.below(4) as usize;
            change(image, block * 8, |page| {
                let header = &mut page[header..header + 64];
                header[at..(at + count).min(60)].fill(extreme);
                seal(header);
            });
        }
        4 | 5 => {
            // A record of the volume table, in one copy or in both.
            let (record, at) = (stream.below(4) as usize, stream.below(168) as usize);
            let tables: Vec<usize> =
                (0..BLOCKS as usize).filter(|block| is_table(image, *block)).collect();
            let both = stream.below(2) == 0;
            for block in tables.into_iter().take(if both { 2 } else { 1 }) {
                change(image, block * 8 + 1, |page| {
                    let record = &mut page[record * 172..][..172];
                    record[at] = extreme;
                    seal(record);
                });
            }
        }
        6 => {
            let page = block * 8 + stream.below(8) as usize;
            let noise = stream.next_u64() as u8;
            change(image, page, |data| {
                data.iter_mut().zip(0_u32..).for_each(|(byte, at)| *byte = noise ^ (at * 7) as u8);
            });
        }
        _ => {
            let block_bytes = 8 * PAGE_BYTES;
            let other = stream.below(BLOCKS) as usize;
            image.copy_within(block * block_bytes..(block + 1) * block_bytes, other * block_bytes);
        }
    }
}

fn is_table(image: &[u8], block: usize) -> bool {
    image[block * 8 * PAGE_BYTES + 512 + 8..][..4] == 0x7fff_efff_u32.to_be_bytes()
}

#[test]
fn random_damage_is_survived_or_reported() {
    let sound = image();
    let (mut refused, mut attached) = (0, 0);
    for seed in 0..700 {
        let mut stream = Stream::new(seed, "damage");
        let mut damaged = sound.clone();
        for _ in 0..=stream.below(3) {
            damage(&mut damaged, &mut stream);
        }
        let result = Rc::new(RefCell::new(None));
        let place = result.clone();
        let (_, is_done) = run(load(&damaged), false, move |bench| async move {
            match bench.try_attach(threaded()).await {
                Err(error) => {
                    place.replace(Some(error.to_string()));
                }
                Ok(ubi) => {
                    let _ = ubi.info();
                    for (id, _) in ubi.volumes() {
                        let Ok(volume) = ubi.open_volume(id).await else { continue };
                        for lnum in 0..volume.leb_count().min(20) {
                            let mut leb = vec![0; volume.leb_bytes() as usize];
                            let _ = volume.read(LebNumber::new(lnum), 0, &mut leb, true).await;
                            let _ = volume.change(LebNumber::new(lnum), &[1; 2048]).await;
                            let _ = volume.unmap(LebNumber::new(lnum)).await;
                        }
                    }
                    let _ = ubi.finish_works().await;
                    ubi.detach();
                }
            }
        });
        assert!(is_done, "seed {seed}");
        match result.take() {
            Some(message) => {
                assert!(message.len() > 20 && !message.contains("panic"), "seed {seed}: {message}");
                refused += 1;
            }
            None => attached += 1,
        }
    }
    assert!(refused > 30 && attached > 200, "{refused} refused, {attached} attached");
}

#[test]
fn one_damaged_copy_of_the_table_is_written_anew() {
    for copy in 0..2 {
        let mut damaged = image();
        let tables: Vec<usize> =
            (0..BLOCKS as usize).filter(|block| is_table(&damaged, *block)).collect();
        assert_eq!(tables.len(), 2);
        change(&mut damaged, tables[copy] * 8 + 1, |page| page[100] ^= 1);
        let findings = Rc::new(Cell::new(0));
        let count = findings.clone();
        let (chip, _) = run(load(&damaged), false, move |bench| async move {
            let ubi = bench.attach(quiet()).await;
            assert_eq!(ubi.volumes(), [(0, "data".into())]);
            assert!(ubi.findings()[0].text.contains("written anew"), "{:?}", ubi.findings());
            count.set(ubi.findings().len());
            ubi.finish_works().await.expect("works end");
        });
        assert_eq!(findings.get(), 1);
        run(chip, false, |bench| async move {
            let ubi = bench.attach(quiet()).await;
            assert_eq!((ubi.volumes(), ubi.findings()), (vec![(0, "data".into())], Vec::new()));
        });
    }
    let mut damaged = image();
    for block in 0..BLOCKS as usize {
        if is_table(&damaged, block) {
            change(&mut damaged, block * 8 + 1, |page| page[100] ^= 1);
        }
    }
    run(load(&damaged), false, |bench| async move {
        let error = bench.try_attach(quiet()).await.err().expect("it is refused");
        assert!(error.to_string().contains("both copies of the volume table"), "{error}");
    });
}

#[test]
fn devices_that_are_not_ubi_are_distinguished_from_blank_ones() {
    run(blank(32), false, |bench| async move {
        let options = AttachOptions { is_read_only: true, ..quiet() };
        let error = bench.try_attach(options).await.err();
        assert_eq!(error, Some(AttachError::NotUbi));
        // A blank device becomes an empty one.
        let ubi = bench.attach(quiet()).await;
        assert_eq!(ubi.volumes(), []);
        ubi.make_volume(&VolumeOptions::new("data")).await.expect("made");
        ubi.finish_works().await.expect("works end");
        let ubi = bench.attach(quiet()).await;
        assert_eq!(ubi.volumes().len(), 1);
        assert_eq!(ubi.info().pending_erases, 0);
    });
    run(blank(32), false, |bench| async move {
        for block in 0..32_u64 {
            bench.mtd.write(block * 131_072, &[0x20; 4096]).await.expect("written");
        }
        assert_eq!(bench.try_attach(quiet()).await.err(), Some(AttachError::NotUbi));
    });
}

#[test]
fn numbers_out_of_all_bounds_are_errors() {
    let mut large = image();
    for block in 0..BLOCKS as usize {
        if is_table(&large, block) {
            change(&mut large, block * 8 + 1, |page| {
                page[..4].fill(0xff);
                seal(&mut page[..172]);
            });
        }
    }
    run(load(&large), false, |bench| async move {
        let error = bench.try_attach(quiet()).await.err().expect("it is refused");
        assert_eq!(error, AttachError::TooFewBlocks { available: BLOCKS, wanted: u32::MAX });
    });
    let mut late = image();
    let block = (0..BLOCKS as usize).find(|block| is_table(&late, *block)).expect("a table");
    change(&mut late, block * 8, |page| {
        page[512 + 40..512 + 48].fill(0xff);
        seal(&mut page[512..576]);
    });
    run(load(&late), false, |bench| async move {
        let error = bench.try_attach(quiet()).await.err().expect("it is refused");
        assert!(error.to_string().contains("sequence number"), "{error}");
    });
    let mut worn = image();
    for (block, counter) in [(4, [0xff; 8]), (5, 0x7fff_ffff_u64.to_be_bytes())] {
        change(&mut worn, block * 8, |page| {
            page[8..16].copy_from_slice(&counter);
            seal(&mut page[..64]);
        });
    }
    run(load(&worn), false, |bench| async move {
        let error = bench.try_attach(quiet()).await.err().expect("it is refused");
        assert!(error.to_string().contains("erase counter"), "{error}");
        bench.format(&FormatOptions::default()).await;
        let ubi = bench.attach(quiet()).await;
        let (least, _, most) = ubi.info().erase_counter_range().expect("counters");
        assert_eq!((least, most), (1, 0x7fff_ffff));
    });
}

#[test]
fn a_fastmap_is_left_aside_and_reported() {
    let mut image = image();
    let free = (0..BLOCKS as usize)
        .find(|block| image[block * 8 * PAGE_BYTES + 512..][..64] == [0xff; 64])
        .expect("a free block");
    let header = VolumeHeader {
        compatibility: 1,
        sequence_number: 500,
        ..VolumeHeader::dynamic(
            LebAddress { volume: VolumeNumber::new(FASTMAP_VOLUMES[0]), leb: LebNumber::new(0) },
            0,
        )
    };
    change(&mut image, free * 8, |page| page[512..576].copy_from_slice(&header.encode()));
    run(load(&image), false, |bench| async move {
        let ubi = bench.attach(quiet()).await;
        assert!(ubi.info().has_fastmap);
        assert!(ubi.findings()[0].text.contains("all blocks were scanned"), "{:?}", ubi.findings());
        ubi.finish_works().await.expect("the fastmap's block is erased");
        ubi.detach();
        let ubi = bench.attach(quiet()).await;
        assert!(!ubi.info().has_fastmap && ubi.findings().is_empty());
    });
    // An internal volume that forbids it.
    let header = VolumeHeader { compatibility: 5, volume: FASTMAP_VOLUMES[1] + 1, ..header };
    change(&mut image, free * 8, |page| page[512..576].copy_from_slice(&header.encode()));
    run(load(&image), false, |bench| async move {
        let error = bench.try_attach(quiet()).await.err().expect("it is refused");
        assert!(error.to_string().contains("forbids"), "{error}");
    });
}

#[test]
fn a_block_that_cannot_be_read_stays_where_it_is() {
    let mut image = image();
    let block = (0..BLOCKS as usize)
        .find(|block| image[(block * 8 + 1) * PAGE_BYTES..][..64] == [5; 64])
        .expect("data of LEB 5");
    // One bit of a header has the block moved, two bits of its data cannot be corrected.
    image[block * 8 * PAGE_BYTES + 10] ^= 1;
    image[(block * 8 + 2) * PAGE_BYTES + 10] ^= 3;
    run(load(&image), false, |bench| async move {
        let ubi = bench.attach(threaded()).await;
        ubi.finish_works().await.expect("works end");
        assert_eq!((ubi.statistics().moves_cancelled, ubi.info().pending_erases), (1, 0));
        let volume = ubi.open_volume(0).await.expect("opened");
        let mut page = [0; 2048];
        assert!(
            volume.read(LebNumber::new(5), 0, &mut page, false).await.expect("read").is_readable()
        );
        assert_eq!(page, [5; 2048]);
        // `UBI_IO_RETRIES` is 3: a page that the ECC gives up is read four times.
        let reads = || bench.mtd.with_chip(|chip| chip.counters().page_reads);
        let before = (reads(), ubi.statistics().unreadable_reads);
        assert!(
            !volume
                .read(LebNumber::new(5), 2048, &mut page, false)
                .await
                .expect("read")
                .is_readable()
        );
        assert_eq!((reads() - before.0, ubi.statistics().unreadable_reads - before.1), (4, 1));
        // Once it is not needed any more it is tortured, and used again if it stands that.
        volume.unmap(LebNumber::new(5)).await.expect("unmapped");
        ubi.finish_works().await.expect("works end");
        assert_eq!((ubi.statistics().blocks_tortured, ubi.info().bad_pebs), (1, 0));
        assert!(!ubi.is_read_only());
    });
}

#[test]
fn a_block_of_another_image_is_an_error() {
    let mut mixed = image();
    change(&mut mixed, 5 * 8, |page| {
        page[27] = 77;
        seal(&mut page[..64]);
    });
    run(load(&mixed), false, |bench| async move {
        let error = bench.try_attach(quiet()).await.err().expect("it is refused");
        assert!(error.to_string().contains("belongs to image 77"), "{error}");
    });
}

/// Damages the chip below a device that is attached.
fn damage_below(bench: &support::Bench, how: impl FnOnce(&mut [u8])) {
    let mut image = Vec::new();
    bench.mtd.with_chip(|chip| chip.save_image(&mut image, ImageLayout::WithOob)).expect("saved");
    how(&mut image);
    bench.mtd.replace_chip(load(&image));
}

/// The block that holds a LEB of a volume.
fn block_of(image: &[u8], volume: u32, lnum: u32) -> usize {
    let is_it = |block: &usize| {
        let header = &image[block * 8 * PAGE_BYTES + 512..][..64];
        header[8..12] == volume.to_be_bytes() && header[12..16] == lnum.to_be_bytes()
    };
    (0..image.len() / (8 * PAGE_BYTES)).find(is_it).expect("it is mapped")
}

/// Bytes of the static volume of [`with_static_volume`]: one LEB, and 5000 of another.
const STATIC_BYTES: usize = LEB_BYTES as usize + 5000;

/// Runs a job over a device with a dynamic volume 0 and a static volume 1, which is opened and whole.
fn with_static_volume<F: Future<Output = ()> + 'static>(
    job: impl FnOnce(support::Bench, Rc<ubi::Ubi>, ubi::Volume) -> F + 'static,
) {
    let (_, is_done) = run(load(&image()), false, |bench| async move {
        let ubi = bench.attach(threaded()).await;
        let size = VolumeSize::Bytes(u64::from(2 * LEB_BYTES));
        let kind = ubi::VolumeKind::Static;
        let options = VolumeOptions { size, kind, ..VolumeOptions::new("boot") };
        let id = ubi.make_volume(&options).await.expect("made");
        let data: Vec<u8> = (0..STATIC_BYTES).map(|at| (at * 31 / 7) as u8).collect();
        ubi.update_volume(id, &data).await.expect("updated");
        ubi.finish_works().await.expect("works end");
        let volume = ubi.open_volume(id).await.expect("opened");
        assert!(!volume.is_corrupted());
        job(bench, ubi, volume).await;
    });
    assert!(is_done);
}

#[test]
fn a_lost_header_of_a_static_block_costs_that_block_only() {
    with_static_volume(|bench, ubi, volume| async move {
        damage_below(&bench, |image| {
            let block = block_of(image, 1, 0);
            // Two bits of a step: more than its ECC corrects.
            image[block * 8 * PAGE_BYTES + 512 + 20] ^= 3;
        });
        let mut data = vec![0; LEB_BYTES as usize];
        let status =
            volume.read(LebNumber::new(0), 0, &mut data, true).await.expect("a loss, no failure");
        assert!(!status.is_readable());
        assert!(!ubi.is_read_only(), "{:?}", ubi.findings());
        let status =
            volume.read(LebNumber::new(1), 0, &mut data[..5000], true).await.expect("read");
        assert!(status.is_readable());
        let other = ubi.open_volume(0).await.expect("opened");
        other.change(LebNumber::new(0), &[7; 2048]).await.expect("the other volume is written on");
    });
    // A blank header cannot be where data were mapped: nothing is written any more.
    with_static_volume(|bench, ubi, volume| async move {
        damage_below(&bench, |image| {
            let block = block_of(image, 1, 0);
            change(image, block * 8, |page| page[512..1024].fill(0xff));
        });
        let mut data = vec![0; LEB_BYTES as usize];
        assert!(volume.read(LebNumber::new(0), 0, &mut data, true).await.is_err());
        assert!(ubi.is_read_only());
    });
}

#[test]
fn data_that_the_ecc_gives_up_are_good_if_the_crc_of_a_static_block_says_so() {
    with_static_volume(|bench, ubi, volume| async move {
        // The last page holds 904 bytes of data and padding behind them. The step that is lost
        // holds both, and the padding alone is damaged.
        damage_below(&bench, |image| {
            let block = block_of(image, 1, 1);
            image[(block * 8 + 1 + 2) * PAGE_BYTES + 1000] ^= 3;
        });
        let expected: Vec<u8> =
            (LEB_BYTES as usize..STATIC_BYTES).map(|at| (at * 31 / 7) as u8).collect();
        let scrubbed = ubi.statistics().blocks_scrubbed;
        let mut data = vec![0; 5000];
        let status = volume.read(LebNumber::new(1), 0, &mut data, false).await.expect("read");
        assert!(status.is_readable() && data == expected, "{:?}", ubi.findings());
        ubi.finish_works().await.expect("works end");
        // It was to be scrubbed, but a block whose data the ECC gives up is not moved.
        assert_eq!(ubi.statistics().blocks_scrubbed, scrubbed);
        assert_eq!(ubi.statistics().moves_cancelled, 1);
        let status = volume.read(LebNumber::new(1), 0, &mut data, true).await.expect("read");
        assert!(status.is_readable() && !volume.is_corrupted());
        // The CRC cannot vouch for a part: `ubi_eba_read_leb` compares it with what was read.
        let status =
            volume.read(LebNumber::new(1), 4096, &mut data[..904], false).await.expect("read");
        assert!(!status.is_readable());
    });
}

#[test]
fn a_dynamic_block_with_lost_data_is_not_scrubbed() {
    run(load(&image()), false, |bench| async move {
        let ubi = bench.attach(threaded()).await;
        ubi.finish_works().await.expect("works end");
        let volume = ubi.open_volume(0).await.expect("opened");
        damage_below(&bench, |image| {
            let block = block_of(image, 0, 5);
            // One step is corrected, another one is lost.
            image[(block * 8 + 1) * PAGE_BYTES + 10] ^= 1;
            image[(block * 8 + 1) * PAGE_BYTES + 610] ^= 3;
        });
        let mut page = [0; 2048];
        assert!(
            !volume.read(LebNumber::new(5), 0, &mut page, false).await.expect("read").is_readable()
        );
        ubi.finish_works().await.expect("works end");
        let counts = ubi.statistics();
        assert_eq!((counts.moves_cancelled, counts.blocks_scrubbed), (0, 0));
    });
}

#[test]
fn the_target_of_a_block_that_cannot_be_read_stays_clean_in_newer_kernels() {
    for (profile, erases) in [("linux-6.12", 0), ("linux-2.6.35", 1)] {
        let mut image = image();
        let block = block_of(&image, 0, 5);
        image[block * 8 * PAGE_BYTES + 10] ^= 1;
        image[(block * 8 + 2) * PAGE_BYTES + 10] ^= 3;
        run(load(&image), false, move |bench| async move {
            let profile = ubi::find_profile(profile).expect("in the table");
            let before = bench.mtd.with_chip(|chip| chip.counters().erases);
            let ubi = bench.attach(AttachOptions { profile, ..threaded() }).await;
            ubi.finish_works().await.expect("works end");
            assert_eq!(ubi.statistics().moves_cancelled, 1);
            let after = bench.mtd.with_chip(|chip| chip.counters().erases);
            assert_eq!(after - before, erases, "{}", profile.name);
        });
    }
}

#[test]
fn a_twentieth_of_the_blocks_may_be_corrupted_and_eight_of_a_few() {
    // 64 blocks, of which one is damaged too many: `64 / 20` is three.
    for (blocks, damaged, is_refused) in
        [(64_u32, 2_usize, false), (64, 3, true), (19, 7, false), (19, 8, true)]
    {
        let (chip, _) = run(small(blocks, &FaultSettings::default()), false, |bench| async move {
            bench.format(&FormatOptions { image_sequence: 9, ..Default::default() }).await;
            let ubi = bench.attach(quiet()).await;
            let size = VolumeSize::Bytes(u64::from(8 * LEB_BYTES));
            let options = VolumeOptions { size, ..VolumeOptions::new("data") };
            let id = ubi.make_volume(&options).await.expect("made");
            let volume = ubi.open_volume(id).await.expect("opened");
            for lnum in 0..8 {
                volume.change(LebNumber::new(lnum), &[lnum as u8; 8192]).await.expect("changed");
            }
            ubi.detach();
        });
        let mut image = Vec::new();
        chip.save_image(&mut image, ImageLayout::WithOob).expect("saved");
        for lnum in 0..damaged {
            let block = block_of(&image, 0, lnum as u32);
            change(&mut image, block * 8, |page| page[512 + 40] ^= 1);
        }
        let mut part = part(blocks);
        part.geometry.pages_per_block = 8;
        let chip = Chip::load_image(&part, &mut &image[..], ImageLayout::WithOob).expect("loaded");
        run(chip, false, move |bench| async move {
            let error = bench.try_attach(quiet()).await.err();
            assert_eq!(error.is_some(), is_refused, "{damaged} of {blocks}: {error:?}");
        });
    }
}

#[test]
fn one_block_more_than_the_limit_may_be_erroneous() {
    // The limit is sixteen: a tenth of forty blocks is less. The kernel compares before it adds.
    for (damaged, is_read_only) in [(17_u32, false), (18, true)] {
        let (chip, _) = run(small(40, &FaultSettings::default()), false, |bench| async move {
            bench.format(&FormatOptions { image_sequence: 9, ..Default::default() }).await;
            let ubi = bench.attach(quiet()).await;
            let size = VolumeSize::Bytes(u64::from(20 * LEB_BYTES));
            let options = VolumeOptions { size, ..VolumeOptions::new("data") };
            let id = ubi.make_volume(&options).await.expect("made");
            let volume = ubi.open_volume(id).await.expect("opened");
            for lnum in 0..20 {
                volume.write(LebNumber::new(lnum), 0, &[lnum as u8; 8192]).await.expect("written");
            }
            ubi.detach();
        });
        let mut image = Vec::new();
        chip.save_image(&mut image, ImageLayout::WithOob).expect("saved");
        for lnum in 0..damaged {
            let block = block_of(&image, 0, lnum);
            image[block * 8 * PAGE_BYTES + 10] ^= 1;
            image[(block * 8 + 2) * PAGE_BYTES + 10] ^= 3;
        }
        let mut part = part(40);
        part.geometry.pages_per_block = 8;
        let chip = Chip::load_image(&part, &mut &image[..], ImageLayout::WithOob).expect("loaded");
        run(chip, false, move |bench| async move {
            let ubi = bench.attach(quiet()).await;
            let _ = ubi.finish_works().await;
            assert_eq!(ubi.is_read_only(), is_read_only, "{damaged}: {:?}", ubi.findings());
        });
    }
}
