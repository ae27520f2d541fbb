//! Damaged images: a message or a degraded mount with a report, never a panic and never a loop.
//!
//! Failures can be repeated: every case has a seed, and the message names it. `NANDLAB_FUZZ_SECONDS`
//! adds cases for so much processor time.
#![allow(clippy::disallowed_methods, reason = "the time to spend is the user's choice")]

use crate::processor_time::Stopwatch;
use crate::samples;

use crate::support::chip;
use image::{AnyImage, OpenOptions, PageState};
use random::Stream;
use samples::{BLOCK_BYTES, block_bytes, sample};
use std::path::Path;
use std::time::Duration;
use vfs::{Manifest, ReadLimits};

const PAGE_BYTES: usize = 2112;
/// No damage makes a file longer than this be read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Flips for each file system.
const FLIPS: u64 = 100_000;
/// No case may take longer, in processor time.
const LONGEST: Duration = Duration::from_secs(20);

fn options(file_system: Option<&str>, ecc: Option<&str>) -> OpenOptions {
    OpenOptions {
        file_system: file_system.map(str::to_owned),
        ecc: ecc.map(str::to_owned),
        block_bytes: Some(file_system.map_or(BLOCK_BYTES, block_bytes)),
        ..OpenOptions::default()
    }
}

fn load(bytes: &[u8], options: &OpenOptions) -> Result<AnyImage, image::ImageError> {
    AnyImage::from_bytes(Path::new("damaged"), bytes.to_vec(), options)
}

fn tree(image: &AnyImage) -> Manifest {
    let limits = ReadLimits { has_hashes: true, file_bytes_max: FILE_BYTES_MAX };
    image.list_within(limits).expect("it mounts").manifest
}

/// All that reads an image; only how it ends matters.
fn try_all(bytes: &[u8], options: &OpenOptions, case: &str) {
    let start = Stopwatch::of_thread();
    if let Ok(image) = load(bytes, options) {
        // A message is as good as a report.
        let _ = image.check_within(FILE_BYTES_MAX);
    }
    if start.elapsed() > Duration::from_secs(1) {
        eprintln!("{case} took {:?}", start.elapsed());
    }
    assert!(start.elapsed() < LONGEST, "{case} took {:?}", start.elapsed());
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// Every single wrong bit of a page is made good, and bits of the data are counted. The block of the
/// page alone is an image whose checks take no time; every 61st bit the whole image is mounted.
fn flip_all_of(bytes: &[u8], page: usize, name: &str) {
    let file_system = match name.split(' ').next() {
        Some("YAFFS2") => "yaffs2",
        Some("UBI") => "ubifs",
        _ => "jffs2",
    };
    let options = options(Some(file_system), None);
    let stride = block_bytes(file_system) as usize / 2048 * PAGE_BYTES;
    let expected = tree(&load(bytes, &options).expect("sound"));
    let report = load(bytes, &options).expect("sound").check_within(FILE_BYTES_MAX);
    let report = report.expect("it mounts");
    assert_eq!((report.findings, report.corrected_bits), (Vec::new(), 0), "{name}");
    let block = page * PAGE_BYTES / stride * stride..(page * PAGE_BYTES / stride + 1) * stride;
    // A block whose first header is damaged is recognised as UBI's by another.
    let other = if file_system == "ubifs" { &bytes[..stride] } else { &[] };
    let layout = OpenOptions { oob_layout: Some("linux-large".into()), ..options.clone() };
    let alone = |bytes: &[u8]| {
        let bytes = [other, bytes].concat();
        chip(&load(&bytes, &layout).expect("one bit is no reason")).check_medium().0
    };
    let clean = alone(&bytes[block.clone()]);
    let mut damaged = bytes.to_vec();
    for bit in 0..8 * PAGE_BYTES {
        let at = 8 * PAGE_BYTES * page + bit;
        flip(&mut damaged, at);
        if bit < 8 * 2048 {
            let report = alone(&damaged[block.clone()]);
            assert_eq!(report.corrected_bits, 1, "{name}: bit {bit}");
            assert!(report.findings == clean.findings, "{name}: bit {bit}");
        }
        // What the checks of the medium see corrected, the mount sees so, too.
        if bit % 61 == 0 || bit >= 8 * 2048 && bit % 7 == 0 {
            let image = load(&damaged, &options).expect("one bit is no reason");
            assert!(tree(&image) == expected, "{name}: bit {bit} changes what is listed");
        }
        flip(&mut damaged, at);
    }
}

/// The first page of an image for which `is_wanted` holds.
fn find_page(bytes: &[u8], is_wanted: impl Fn(&[u8], &[u8]) -> bool) -> usize {
    let mut pages = bytes.chunks_exact(PAGE_BYTES);
    let found = pages.position(|page| is_wanted(&page[..2048], &page[2048..]));
    found.expect("the sample has such a page")
}

fn has_node(data: &[u8], node_type: u16) -> bool {
    let [low, high] = node_type.to_le_bytes();
    data.chunks_exact(4).any(|word| word == [0x85, 0x19, low, high])
}

#[test]
fn every_bit_of_jffs2s_pages_is_corrected() {
    let bytes = sample("jffs2", true);
    for (name, types) in [
        ("dirent and inode", &[0xe001, 0xe002][..]),
        ("attribute and reference", &[0xe008, 0xe009]),
        ("summary", &[0x2006]),
    ] {
        let page = find_page(&bytes, |data, _| types.iter().all(|kind| has_node(data, *kind)));
        flip_all_of(&bytes, page, name);
    }
    let page = find_page(&bytes, |data, oob| {
        oob[2..6] == [0x85, 0x19, 0x03, 0x20] && data.iter().any(|byte| *byte != 0xff)
    });
    flip_all_of(&bytes, page, "clean marker");
}

#[test]
fn every_bit_of_yaffs2s_pages_is_corrected() {
    let bytes = sample("yaffs2", true);
    let word = |oob: &[u8], at: usize| {
        u32::from_le_bytes([oob[at], oob[at + 1], oob[at + 2], oob[at + 3]])
    };
    let is_data = |oob: &[u8]| (0x1000..0xefff_ff00).contains(&word(oob, 2));
    for (name, page) in [
        ("YAFFS2 header", find_page(&bytes, |_, oob| is_data(oob) && word(oob, 10) >> 31 == 1)),
        (
            "YAFFS2 data",
            find_page(&bytes, |_, oob| is_data(oob) && word(oob, 10) == 1 && word(oob, 6) > 0x100),
        ),
        ("YAFFS2 checkpoint", find_page(&bytes, |_, oob| word(oob, 2) == 0x21)),
        ("YAFFS2 summary", find_page(&bytes, |_, oob| is_data(oob) && word(oob, 6) == 0x10)),
    ] {
        flip_all_of(&bytes, page, name);
    }
}

#[test]
fn every_bit_of_ubis_pages_is_corrected() {
    let bytes = sample("ubifs", true);
    let begins =
        |kind: u8| move |data: &[u8]| data[..4] == [0x31, 0x18, 0x10, 0x06] && data[20] == kind;
    // The name stands in the first record of the volume table.
    let is_table = |data: &[u8]| data[16..].starts_with(b"nandlab\0");
    for (name, page) in [
        (
            "UBI headers",
            find_page(&bytes, |data, _| data.starts_with(b"UBI#") && data[512] == b'U'),
        ),
        ("UBI volume table", find_page(&bytes, |data, _| is_table(data))),
        ("UBI master", find_page(&bytes, |data, _| begins(7)(data))),
        ("UBI index", find_page(&bytes, |data, _| begins(9)(data))),
        ("UBI inode", find_page(&bytes, |data, _| begins(0)(data))),
    ] {
        flip_all_of(&bytes, page, name);
    }
}

/// Flips bits of the pages that hold something, all over an image.
fn flip_some(bytes: &mut [u8], count: u64, stream: &mut Stream) {
    let pages: Vec<usize> = (0..bytes.len() / PAGE_BYTES)
        .filter(|page| bytes[page * PAGE_BYTES..][..PAGE_BYTES].iter().any(|byte| *byte != 0xff))
        .collect();
    for _ in 0..count {
        let page = pages[stream.below(pages.len() as u32) as usize];
        flip(bytes, 8 * PAGE_BYTES * page + stream.below(8 * PAGE_BYTES as u32) as usize);
    }
}

fn flip_many(file_system: &'static str) {
    let samples = [sample(file_system, true), sample(file_system, false)];
    let mut flips = 0;
    for seed in 0.. {
        if flips >= FLIPS {
            break;
        }
        let mut stream = Stream::new(seed, "flips");
        let mut damaged = samples[seed as usize % 2].clone();
        let count = 16 << stream.below(6);
        flip_some(&mut damaged, count, &mut stream);
        flips += count;
        let ecc = if seed % 3 == 0 { Some("none") } else { None };
        try_all(&damaged, &options(Some(file_system), ecc), &format!("{file_system} {seed}"));
    }
}

#[test]
fn jffs2_survives_100_000_flips() {
    flip_many("jffs2");
}

#[test]
fn ubifs_survives_100_000_flips() {
    flip_many("ubifs");
}

#[test]
fn yaffs2_survives_100_000_flips() {
    flip_many("yaffs2");
}

/// Damage that the ECC does not see, as if the file system itself had written it.
fn forge(bytes: &mut [u8], stream: &mut Stream) {
    let layout = mtd::find_layout("linux-large").expect("in the table");
    for page in bytes.chunks_exact_mut(PAGE_BYTES) {
        let (data, oob) = page.split_at_mut(2048);
        if data.iter().all(|byte| *byte == 0xff) || stream.below(4) > 0 {
            continue;
        }
        for _ in 0..=stream.below(4) {
            let word = match stream.below(5) {
                0 => 0,
                1 => u32::MAX,
                2 => stream.below(0x200),
                3 => 1 << stream.below(32),
                _ => stream.next_u64() as u32,
            };
            // Most of what matters stands at the beginning.
            let words = if stream.below(2) == 0 { 128 } else { 512 };
            let at = 4 * stream.below(words) as usize;
            if stream.below(4) == 0 {
                let mut tags = [0; 16];
                layout.gather(oob, 0, &mut tags);
                let at = 4 * stream.below(4) as usize;
                tags[at..at + 4].copy_from_slice(&word.to_le_bytes());
                layout.scatter(&yaffs2::Tags::from_bytes(&tags).to_bytes_with_ecc(), 0, oob);
            } else {
                data[at..at + 4].copy_from_slice(&word.to_le_bytes());
                seal_nodes(data);
            }
        }
        layout.protect(data, oob);
    }
}

/// Makes the CRCs of JFFS2's nodes good again.
fn seal_nodes(data: &mut [u8]) {
    use jffs2::nodes::crc;
    for at in (0..data.len() - 68).step_by(4) {
        let node = &mut data[at..at + 68];
        let (covered, place) = match node[..4] {
            [0x85, 0x19, 1, 0xe0] => (32, 32),
            [0x85, 0x19, 2, 0xe0] => (60, 64),
            [0x85, 0x19, 8, 0xe0] => (28, 28),
            [0x85, 0x19, 9, 0xe0] => (24, 24),
            [0x85, 0x19, 6, 0x20] => (24, 28),
            _ => continue,
        };
        let header = crc(&node[..8]);
        node[8..12].copy_from_slice(&header.to_le_bytes());
        let sum = crc(&node[..covered]);
        node[place..place + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

fn try_forged(file_system: &'static str, bytes: &[u8], seed: u64) {
    let mut stream = Stream::new(seed, "forgery");
    let mut damaged = bytes.to_vec();
    if file_system == "ubifs" {
        forge_ubi(&mut damaged, &mut stream);
    } else {
        forge(&mut damaged, &mut stream);
    }
    try_all(&damaged, &options(Some(file_system), None), &format!("{file_system} forged {seed}"));
}

#[test]
fn senseless_fields_with_sound_codes_never_panic() {
    for file_system in ["jffs2", "yaffs2"] {
        for unmounts in [true, false] {
            let bytes = sample(file_system, unmounts);
            for seed in 0..100 {
                try_forged(file_system, &bytes, seed);
            }
        }
    }
}

/// The places of what has a CRC in the data of a block of UBI, with their lengths: both headers, records of
/// the volume table, nodes.
fn places_of(data: &[u8]) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for (at, magic) in [(0, b"UBI#"), (512, b"UBI!")] {
        if data[at..].starts_with(magic) {
            places.push((at, 64));
        }
    }
    if data[512 + 8..512 + 12] == ubi::headers::LAYOUT_VOLUME.to_be_bytes() {
        places.extend((0..8).map(|record| (2048 + 172 * record, 172)));
    }
    let mut at = 2048;
    while at + 24 <= data.len() {
        let length = u32::from_le_bytes(data[at + 16..at + 20].try_into().expect("four bytes"));
        let length = length as usize;
        if data[at..].starts_with(&[0x31, 0x18, 0x10, 0x06])
            && (24..=data.len() - at).contains(&length)
        {
            places.push((at, length));
            at += length.next_multiple_of(8);
        } else {
            at += 8;
        }
    }
    places
}

/// Makes the CRC right of what stands at a place.
fn seal_place(bytes: &mut [u8]) {
    use ubi::headers::crc32;
    if bytes.starts_with(&[0x31, 0x18, 0x10, 0x06]) {
        // The length is what it was, so that the CRC covers what it should.
        let length = bytes.len() as u32;
        bytes[16..20].copy_from_slice(&length.to_le_bytes());
        let sum = crc32(&bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    } else {
        let covered = bytes.len() - 4;
        let sum = crc32(&bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Senseless fields in headers, records and nodes of any kind, with sound CRCs and sound codes.
fn forge_ubi(bytes: &mut [u8], stream: &mut Stream) {
    let layout = mtd::find_layout("linux-large").expect("in the table");
    let pages = block_bytes("ubifs") as usize / 2048;
    let changes = 1 + stream.below(6);
    for _ in 0..changes {
        let blocks = bytes.len() / (pages * PAGE_BYTES);
        let block = stream.below(blocks as u32) as usize * pages * PAGE_BYTES;
        let block = &mut bytes[block..block + pages * PAGE_BYTES];
        let mut data: Vec<u8> =
            block.chunks(PAGE_BYTES).flat_map(|page| &page[..2048]).copied().collect();
        let places = places_of(&data);
        if places.is_empty() {
            continue;
        }
        let (at, length) = places[stream.below(places.len() as u32) as usize];
        let place = &mut data[at..at + length];
        for _ in 0..=stream.below(3) {
            // Most of what matters stands at the beginning.
            let room = if stream.below(3) == 0 { length } else { length.min(176) };
            let from = stream.below(room as u32) as usize;
            let count = [1, 2, 4, 8][stream.below(4) as usize].min(length - from);
            let value = match stream.below(6) {
                0 => 0,
                1 => u64::MAX,
                2 => stream.below(0x200).into(),
                3 => 1 << stream.below(64),
                4 => 0x8000_0000,
                _ => stream.next_u64(),
            };
            place[from..from + count].copy_from_slice(&value.to_le_bytes()[..count]);
        }
        seal_place(place);
        for (page, data) in block.chunks_mut(PAGE_BYTES).zip(data.chunks(2048)) {
            if data != &page[..2048] {
                page[..2048].copy_from_slice(data);
                layout.protect(data, &mut page[2048..]);
            }
        }
    }
}

#[test]
fn senseless_fields_of_ubi_and_ubifs_never_panic() {
    let forgeries =
        std::env::var("NANDLAB_FORGERIES").map_or(250, |text| text.parse().expect("a number"));
    for unmounts in [true, false] {
        let bytes = sample("ubifs", unmounts);
        for seed in 0..forgeries {
            try_forged("ubifs", &bytes, seed);
        }
    }
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut stream = Stream::new(seed, "noise");
    (0..bytes).map(|_| stream.next_u64() as u8).collect()
}

#[test]
fn random_bytes_are_refused_or_found_empty() {
    for (seed, bytes) in (0..).zip([1, 11, 2047, 2112, 40_000, 128 * 2112]) {
        let noise = noise(seed, bytes);
        let error = load(&noise, &options(None, None)).err().expect("refused").to_string();
        assert!(error.contains("damaged: ") && error.contains("--fs"), "{error}");
        for file_system in ["jffs2", "ubifs", "yaffs2"] {
            for ecc in [None, Some("none")] {
                try_all(&noise, &options(Some(file_system), ecc), &format!("noise {seed}"));
            }
        }
    }
    let blank = vec![0xff; 16 * 2112];
    let error = load(&blank, &options(None, None)).err().expect("refused").to_string();
    assert!(error.contains("erased"), "{error}");
    assert!(tree(&load(&blank, &options(Some("jffs2"), None)).expect("empty")).rows.len() == 1);
    assert!(load(&[], &options(Some("jffs2"), None)).is_err());
}

#[test]
fn truncated_dumps_say_so() {
    for file_system in ["jffs2", "ubifs", "yaffs2"] {
        let bytes = sample(file_system, true);
        let mut stream = Stream::new(3, "lengths");
        let options =
            OpenOptions { block_bytes: Some(block_bytes(file_system)), ..options(None, None) };
        for _ in 0..60 {
            let length = 1 + stream.below(bytes.len() as u32 - 1) as usize;
            let case = format!("{file_system} cut to {length}");
            try_all(&bytes[..length], &options, &case);
            if !length.is_multiple_of(PAGE_BYTES)
                && let Ok(image) = load(&bytes[..length], &options)
            {
                assert!(
                    !chip(&image).form.has_oob || chip(&image).notes[0].contains("cut short"),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn damage_beyond_the_ecc_is_named() {
    for file_system in ["jffs2", "yaffs2"] {
        let mut bytes = sample(file_system, true);
        let page =
            find_page(&bytes, |data, _| data.iter().filter(|byte| **byte != 0xff).count() > 500);
        bytes[page * PAGE_BYTES + 300] ^= 1;
        bytes[page * PAGE_BYTES + 310] ^= 1;
        let image = load(&bytes, &options(None, None)).expect("it loads");
        let report = image.check_within(FILE_BYTES_MAX).expect("it mounts");
        let place = format!("block {} page {}", page / 8, page % 8);
        assert!(
            report.findings.iter().any(|found| found.place.contains(&place)),
            "{file_system} {place}: {:?}",
            report.findings
        );
        let medium = chip(&image).medium();
        let read = medium.block(page as u32 / 8).expect("written");
        assert!(matches!(read.pages[page % 8], PageState::Lost(1)));
    }
}

#[test]
fn fuzz() {
    let seconds = std::env::var("NANDLAB_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let Some(seconds) = seconds.map(Duration::from_secs) else { return };
    let start = Stopwatch::of_thread();
    let samples =
        ["jffs2", "ubifs", "yaffs2"].map(|name| (name, sample(name, true), sample(name, false)));
    let mut cases = 0;
    while start.elapsed() < seconds {
        let seed = 1_000_000 + cases;
        let (name, clean, unclean) = &samples[seed as usize % 3];
        let bytes = if seed % 4 < 2 { clean } else { unclean };
        try_forged(name, bytes, seed);
        let mut stream = Stream::new(seed, "fuzz");
        let mut damaged = bytes.clone();
        let count = 1 << stream.below(14);
        flip_some(&mut damaged, count, &mut stream);
        damaged.truncate(1 + stream.below(damaged.len() as u32 - 1) as usize);
        let known = if stream.below(2) == 0 { Some(*name) } else { None };
        try_all(&damaged, &options(known, None), &format!("fuzz {seed}"));
        cases += 1;
    }
    eprintln!("{cases} cases");
}
