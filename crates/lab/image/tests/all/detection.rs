//! What is not certain is refused with a reason: a wrong form shows an empty or a garbled file system.
//!
//! Golden dumps are rearranged as tools and buses do it. Each must then either show the very names that
//! the dump shows, or be refused.

use crate::samples::{self, BLOCK_BYTES};
use crate::support::{bytes, chip, jffs2_data, ubi_data, yaffs2_data};
use image::{AnyImage, ImageError, OpenOptions};
use std::path::{Path, PathBuf};

const DATA_BYTES: usize = 2048;
const SPARE_BYTES: usize = 64;
const PAGE_BYTES: usize = DATA_BYTES + SPARE_BYTES;

/// A name, and what it does to a dump with spare areas.
type Rearrangement = (&'static str, fn(&[u8]) -> Vec<u8>);

const REARRANGEMENTS: &[Rearrangement] = &[
    ("pairs of bytes swapped", |dump| reversed(dump, 2)),
    ("words of four reversed", |dump| reversed(dump, 4)),
    ("bits inverted", |dump| dump.iter().map(|byte| !byte).collect()),
    ("spare areas behind each block", |dump| apart(dump, 64)),
    ("spare areas behind two pages", |dump| apart(dump, 2)),
    ("spare areas behind the chip", |dump| apart(dump, dump.len() / PAGE_BYTES)),
    ("spare areas first", |dump| {
        let pages = dump.chunks_exact(PAGE_BYTES);
        pages.flat_map(|page| [&page[DATA_BYTES..], &page[..DATA_BYTES]].concat()).collect()
    }),
    ("128 spare bytes", |dump| {
        let pages = dump.chunks_exact(PAGE_BYTES);
        pages.flat_map(|page| [page, &[0xff; SPARE_BYTES]].concat()).collect()
    }),
    ("a header of 512 bytes", |dump| [&[0x5a; 512], dump].concat()),
    ("100 bytes before it", |dump| [&[0xff; 100], dump].concat()),
    ("data swapped in pairs, no spare areas", |dump| reversed(&data_of(dump), 2)),
    ("data alone", data_of),
];

fn reversed(dump: &[u8], word_bytes: usize) -> Vec<u8> {
    dump.chunks_exact(word_bytes).flat_map(|word| word.iter().rev()).copied().collect()
}

fn data_of(dump: &[u8]) -> Vec<u8> {
    dump.chunks_exact(PAGE_BYTES).flat_map(|page| &page[..DATA_BYTES]).copied().collect()
}

fn apart(dump: &[u8], pages: usize) -> Vec<u8> {
    let groups = dump.chunks(pages * PAGE_BYTES);
    let parts = groups.flat_map(|group| {
        let pages = group.chunks_exact(PAGE_BYTES);
        let data = pages.clone().map(|page| &page[..DATA_BYTES]);
        data.chain(pages.map(|page| &page[DATA_BYTES..])).collect::<Vec<_>>().concat()
    });
    parts.collect()
}

fn load(bytes: Vec<u8>, options: &OpenOptions) -> Result<AnyImage, ImageError> {
    AnyImage::from_bytes(Path::new("dump"), bytes, options)
}

/// Paths and kinds of all that an image shows.
fn names(image: &AnyImage) -> Result<Vec<(String, char)>, ImageError> {
    let rows = image.list(false)?.manifest.rows;
    Ok(rows.into_iter().map(|row| (row.path, row.kind)).collect())
}

fn dumps() -> Vec<(String, Vec<u8>)> {
    let all: [(PathBuf, &[&str]); 3] = [
        (jffs2_data(), &["clean", "unclean"]),
        (yaffs2_data(), &["direct-unclean", "linux61-clean"]),
        (ubi_data(), &["ubifs-cut1"]),
    ];
    let all = all.iter().flat_map(|(data, names)| names.iter().map(move |name| (data, name)));
    all.map(|(data, name)| ((*name).to_owned(), without_blank_end(bytes(data, name)))).collect()
}

/// A dump without the blank blocks at its end, which take as long to list as others.
fn without_blank_end(mut dump: Vec<u8>) -> Vec<u8> {
    let used = dump.iter().rposition(|byte| *byte != 0xff).map_or(0, |last| last + 1);
    dump.truncate(used.next_multiple_of(64 * PAGE_BYTES));
    dump
}

/// Each dump in a third of the forms, and each form of a third of the dumps. `make test-long` sets
/// `NANDLAB_LONG_TESTS=1` for every form of every dump, which takes two minutes.
#[test]
fn rearranged_dumps_show_what_the_dump_shows_or_are_refused() {
    let step = if std::env::var_os("NANDLAB_LONG_TESTS").is_some() { 1 } else { 3 };
    for (number, (name, dump)) in dumps().into_iter().enumerate() {
        let expected = names(&load(dump.clone(), &OpenOptions::default()).expect("certain"));
        let expected = expected.expect("it mounts");
        for (rearrangement, apply) in REARRANGEMENTS.iter().skip(number % step).step_by(step) {
            let case = format!("{name}: {rearrangement}");
            let shown = load(apply(&dump), &OpenOptions::default()).and_then(|image| names(&image));
            match shown {
                Ok(shown) => assert!(shown == expected, "{case}: shows {} names", shown.len()),
                Err(error) => assert!(!error.to_string().is_empty(), "{case}"),
            }
        }
    }
}

#[test]
fn what_was_done_to_a_dump_is_told_with_what_undoes_it() {
    for (name, rearrangement, wanted) in [
        ("direct-unclean", "pairs of bytes swapped", "dd conv=swab"),
        ("direct-unclean", "words of four reversed", "--reverse-bytes=4"),
        ("direct-unclean", "bits inverted", "XORed with 0xFF"),
        ("direct-unclean", "spare areas behind each block", "behind the data of each block"),
        ("direct-unclean", "spare areas behind two pages", "pages of 4 KiB"),
        ("direct-unclean", "spare areas behind the chip", "behind the data of the whole chip"),
        ("direct-unclean", "spare areas first", "before its data"),
        ("direct-unclean", "128 spare bytes", "128 spare bytes a page"),
    ] {
        let dump = bytes(&yaffs2_data(), name);
        let row = REARRANGEMENTS.iter().find(|row| row.0 == rearrangement).expect("in the table");
        match load((row.1)(&dump), &OpenOptions::default()) {
            Err(ImageError::Uncertain { reason, .. }) => {
                assert!(reason.contains("yaffs2") && reason.contains(wanted), "{reason}");
            }
            Err(other) => panic!("{rearrangement}: {other}"),
            Ok(image) => panic!("{rearrangement}: taken for {}", image.file_system()),
        }
    }
}

#[test]
fn the_users_word_is_taken_for_a_form_that_explains_little() {
    // Three pages of four hold noise, which no form explains.
    let mut dump = samples::sample("yaffs2", true);
    for (number, page) in dump.chunks_exact_mut(PAGE_BYTES).enumerate() {
        if page.iter().any(|byte| *byte != 0xff) && !number.is_multiple_of(4) {
            page.fill(0x11);
        }
    }
    let block_bytes = Some(BLOCK_BYTES);
    let unasked = OpenOptions { block_bytes, ..OpenOptions::default() };
    match load(dump.clone(), &unasked) {
        Err(ImageError::Uncertain { reason, .. }) => {
            assert!(reason.contains("--fs yaffs2 --oob"), "{reason}");
        }
        other => panic!("{:?}", other.map(|image| chip(&image).form)),
    }
    let file_system = Some("yaffs2".to_owned());
    let asked = OpenOptions { file_system, block_bytes, ..OpenOptions::default() };
    assert!(load(dump, &asked).is_ok());
}

#[test]
fn a_padded_image_with_little_in_it_has_no_spare_areas() {
    // As `mkfs.jffs2 -p` fills a block up: all nodes are in the first page.
    let dump = bytes(&jffs2_data(), "mkfs-rtime");
    let first = &dump[..dump.len().min(1024)];
    let node_end = first.windows(4).position(|bytes| bytes == [0xff; 4]).unwrap_or(first.len());
    for blocks in [1, 33] {
        let mut padded = nodes_up_to(first, node_end);
        padded.resize(blocks * (128 << 10), 0xff);
        let image = load(padded.clone(), &OpenOptions::default()).expect("certain");
        assert!(!chip(&image).form.has_oob, "{blocks} blocks");
        let has_oob = Some(true);
        let asked = load(padded, &OpenOptions { has_oob, ..OpenOptions::default() });
        assert!(
            asked.is_ok_and(|image| chip(&image).form.has_oob),
            "{blocks} blocks: --oob is honoured"
        );
    }
}

/// Whole nodes at the beginning of a block.
fn nodes_up_to(block: &[u8], end: usize) -> Vec<u8> {
    let mut at = 0;
    while at + 12 <= end {
        let total = u32::from_le_bytes(block[at + 4..at + 8].try_into().expect("four bytes"));
        let next = at + (total as usize).next_multiple_of(4);
        if next > end || total == 0 {
            break;
        }
        at = next;
    }
    block[..at].to_vec()
}

#[test]
fn a_single_torn_page_does_not_hide_that_pages_have_ecc() {
    // A freshly erased chip with marks of clean blocks, and one page whose program was cut: half its
    // data, and no code.
    let mut dump = bytes(&jffs2_data(), "clean");
    let mut has_data = false;
    for page in dump.chunks_exact_mut(PAGE_BYTES) {
        let (data, oob) = page.split_at_mut(DATA_BYTES);
        if data.iter().all(|byte| *byte == 0xff) {
            continue;
        }
        if !has_data && data[..4] == [0x85, 0x19, 0x01, 0xe0] {
            data[DATA_BYTES / 2..].fill(0xff);
            oob[40..].fill(0xff);
            has_data = true;
        } else {
            data.fill(0xff);
            oob[40..].fill(0xff);
        }
    }
    assert!(has_data);
    let image = load(dump, &OpenOptions::default()).expect("certain");
    assert_eq!(chip(&image).layout.name, "linux-large");
}

/// A chip whose first clean marker was torn: nothing else is written. As bytes without spare areas its size fits, too,
/// and JFFS2 would be empty. The kernel refuses to mount it (`jffs2_scan_medium` of `fs/jffs2/scan.c`).
#[test]
fn a_code_means_that_there_are_spare_areas() {
    let mut dump = vec![0xff; 40 * 64 * PAGE_BYTES];
    assert!(dump.len().is_multiple_of(DATA_BYTES), "the size of a dump without spare areas");
    let torn = (39 * 64) * PAGE_BYTES + DATA_BYTES + 2;
    // Half of the bits of a marker that were to become zeros did.
    dump[torn..torn + 4].copy_from_slice(&[0xa5, 0x19, 0xbb, 0xf4]);
    let options = OpenOptions {
        file_system: Some("jffs2".into()),
        ecc: Some("hamming".into()),
        ..OpenOptions::default()
    };
    let refused = load(dump, &options).and_then(|image| names(&image)).expect_err("no node");
    assert!(refused.to_string().contains("no valid node"), "{refused}");
}
