//! Images that Linux and mtd-utils wrote: volumes, erase counters, mapping and contents.
//!
//! What is expected is worked out from the bytes of the dump by a few lines here: of the blocks that
//! claim a logical one, that with the highest sequence number.

use crate::support;

use std::collections::BTreeMap;
use support::{BLOCK_BYTES, blank, data, load, quiet, run};
use ubi::headers::{Decoded, EraseCounterHeader, LAYOUT_VOLUME, VolumeHeader, crc32};
use ubi::{AttachOptions, FormatOptions, Info, LebNumber, Ubi, VolumeKind, find_header_offset};

struct Expected {
    /// Data of the mapped blocks of volume 0.
    lebs: BTreeMap<u32, Vec<u8>>,
    counters: BTreeMap<u64, u32>,
}

/// `pages`: data of all pages in a row.
fn expect(pages: &[u8], header_offset: usize, data_offset: usize) -> Expected {
    let mut newest: BTreeMap<u32, (u64, Vec<u8>)> = BTreeMap::new();
    let mut counters = BTreeMap::new();
    for block in pages.chunks_exact(BLOCK_BYTES) {
        let counter = EraseCounterHeader::decode(block[..64].try_into().expect("64 bytes"));
        if let Decoded::Sound(header) = counter {
            *counters.entry(header.erase_counter).or_insert(0) += 1;
        }
        let header = &block[header_offset..header_offset + 64];
        let header = VolumeHeader::decode(header.try_into().expect("64 bytes"));
        let Decoded::Sound(header) = header else { continue };
        let content = &block[data_offset..];
        if header.copy_flag == 1 {
            let covered = &content[..header.data_bytes as usize];
            assert_eq!(crc32(covered), header.data_crc, "no copy in these images is torn");
        }
        if header.volume == LAYOUT_VOLUME {
            continue;
        }
        assert_eq!(header.volume, 0);
        let is_newer =
            newest.get(&header.lnum).is_none_or(|(sequence, _)| header.sequence_number > *sequence);
        if is_newer {
            newest.insert(header.lnum, (header.sequence_number, content.to_vec()));
        }
    }
    let lebs = newest.into_iter().map(|(lnum, (_, content))| (lnum, content)).collect();
    Expected { lebs, counters }
}

fn pages_of_dump(dump: &[u8]) -> Vec<u8> {
    dump.chunks_exact(2112).flat_map(|page| &page[..2048]).copied().collect()
}

async fn compare(ubi: &std::rc::Rc<Ubi>, expected: &Expected, label: &str) -> Info {
    let info = ubi.info();
    let volume = ubi.open_volume(0).await.expect("volume 0");
    for lnum in 0..volume.leb_count() {
        let mut content = vec![0; volume.leb_bytes() as usize];
        let status =
            volume.read(LebNumber::new(lnum), 0, &mut content, true).await.expect("it reads");
        assert!(status.is_readable(), "{label}: LEB {lnum}");
        match expected.lebs.get(&lnum) {
            Some(wanted) => assert!(content == *wanted, "{label}: LEB {lnum} differs"),
            None => assert!(content.iter().all(|byte| *byte == 0xff), "{label}: LEB {lnum}"),
        }
        assert_eq!(
            volume.is_mapped(LebNumber::new(lnum)),
            expected.lebs.contains_key(&lnum),
            "{label}: {lnum}"
        );
    }
    assert!(expected.lebs.keys().all(|lnum| *lnum < volume.leb_count()));
    info
}

/// Name, logical blocks. The reserve of a partition is that of the whole chip.
const DUMPS: &[(&str, u32)] = &[
    ("ubifs-clean.oob.zst", 498),
    ("ubifs-gc.oob.zst", 50),
    ("ubifs-unclean.oob.zst", 498),
    ("ubifs-cut1.oob.zst", 498),
    ("ubifs-cut3.oob.zst", 498),
];

#[test]
fn dumps_of_linux_are_attached() {
    for (name, leb_count) in DUMPS {
        let dump = data(name);
        let expected = expect(&pages_of_dump(&dump), 512, 2048);
        assert!(expected.lebs.len() >= 10, "{name}: {} blocks", expected.lebs.len());
        let options = AttachOptions { is_read_only: true, chip_blocks: Some(512), ..quiet() };
        let chip = load(&dump);
        let (_, is_done) = run(chip, false, move |bench| async move {
            let ubi = bench.attach(options).await;
            // Two headers of each block and both copies of the volume table, as Linux counts them.
            let reads = bench.mtd.with_chip(|chip| chip.counters().page_reads);
            assert_eq!(reads, 2 * u64::from(bench.mtd.geometry().blocks) + 22, "{name}");
            let info = compare(&ubi, &expected, name).await;
            assert_eq!(info.volumes.len(), 1);
            let volume = &info.volumes[0];
            assert_eq!((volume.name.as_str(), volume.kind), ("gold", VolumeKind::Dynamic));
            assert_eq!((volume.leb_count, volume.leb_bytes), (*leb_count, 129_024));
            assert_eq!(volume.mapped_lebs as usize, expected.lebs.len());
            assert_eq!(info.erase_counters, expected.counters, "{name}");
            assert_eq!(info.image_sequence, 11);
            assert_eq!(info.bad_reserve_pebs, (10, 10));
            assert_eq!((info.available_pebs, info.corrupted_pebs), (0, 0));
            assert!(ubi.findings().is_empty(), "{:?}", ubi.findings());
        });
        assert!(is_done);
    }
}

#[test]
fn images_of_ubinize_are_flashed_attached_and_resized() {
    let images = [
        ("ubi-lzo-s2048.ubi.zst", 2048),
        ("ubi-zlib-s2048.ubi.zst", 2048),
        ("ubi-none-s512.ubi.zst", 512),
        ("ubi-zstd-s512.ubi.zst", 512),
    ];
    for (name, header_offset) in images {
        let image = data(name);
        let data_offset = if header_offset == 512 { 2048 } else { 4096 };
        let expected = expect(&image, header_offset, data_offset);
        let (_, is_done) = run(blank(512), false, move |bench| async move {
            let header_offset = Some(header_offset as u32);
            assert_eq!(find_header_offset(&bench.mtd).await, Ok(None));
            let options = FormatOptions { header_offset, ..FormatOptions::default() };
            let (sim, cpus, mtd) = (&bench.sim, bench.cpus.clone(), bench.mtd.clone());
            Ubi::flash(sim, cpus, mtd, &image, &options).await.expect("flashed");
            assert_eq!(find_header_offset(&bench.mtd).await, Ok(header_offset));
            let read_only = AttachOptions { header_offset, is_read_only: true, ..quiet() };
            let ubi = bench.attach(read_only.clone()).await;
            let info = compare(&ubi, &expected, name).await;
            assert!(info.volumes[0].is_auto_resized && info.volumes[0].name == "vol");
            let ubi = bench.attach(AttachOptions { is_read_only: false, ..read_only }).await;
            let info = compare(&ubi, &expected, name).await;
            let leb_bytes = (BLOCK_BYTES - data_offset) as u32;
            let volume = &info.volumes[0];
            assert!(!volume.is_auto_resized);
            assert_eq!((volume.leb_count, volume.leb_bytes), (498, leb_bytes));
            assert_eq!((info.available_pebs, info.bad_reserve_pebs), (0, (10, 10)));
        });
        assert!(is_done);
    }
}

#[test]
fn a_wrong_header_offset_is_an_error() {
    let dump = data("ubifs-clean.oob.zst");
    run(load(&dump), false, |bench| async move {
        let options = AttachOptions { header_offset: Some(2048), ..quiet() };
        let error = bench.try_attach(options).await.err().expect("it is refused");
        assert!(error.to_string().contains("attach with header offset 512"), "{error}");
    });
}
