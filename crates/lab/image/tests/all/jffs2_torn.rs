//! What cuts leave on JFFS2, pages without ECC above all: none of it is a finding.

use crate::jffs2_check::{Dump, Log, PAGE, PAGES_PER_BLOCK, SUMMARY_MARK, check};
use crate::samples::{BLOCK_BYTES, sample};
use random::Stream;

/// A program that was cut before its ECC leaves steps with odd and with even numbers of set bits. The ECC
/// takes the former for data with one wrong bit, and the node that lies there gets one.
#[test]
fn a_page_without_ecc_whose_bits_are_odd_in_number_is_torn() {
    for odd_steps in [0x00, 0x01, 0x0f, 0x7f, 0xff] {
        let mut log = Log::new();
        let mut data = vec![b'f'; 2 * PAGE - log.at - 68];
        let first = data.len() - PAGE;
        for step in (0..8).filter(|step| odd_steps >> step & 1 == 1) {
            // One set bit more, in the second page.
            data[first + 256 * step + 5] |= 0x80;
        }
        log.inode(2, 2, &data);
        assert_eq!(log.at, 2 * PAGE);
        let report = check(&log.dump(&[1]).bytes);
        assert_eq!(report.findings, [], "odd steps {odd_steps:#04x}");
        assert_eq!(report.corrected_bits, 0, "odd steps {odd_steps:#04x}");
        let is_told = |note: &image::Remark| note.what.contains("the page has no ECC");
        assert!(odd_steps == 0 || report.notes.iter().any(is_told), "{:?}", report.notes);
    }
}

/// In a page without ECC a node may be damaged and those behind it be whole: names, inodes and attributes
/// that the others speak of are then missing.
#[test]
fn what_a_page_without_ecc_lost_is_no_finding() {
    let mut lost = 0;
    for seed in 0..150 {
        let mut random = Stream::new(seed, "torn names");
        let mut log = Log::new();
        log.fill_but(20, 2);
        log.flush();
        for (version, inode) in (2..).zip(3..13) {
            let length = 1 + random.below(40) as usize;
            log.inode(inode, 1, &vec![b'd'; length]);
            log.name(version, inode, format!("name-{inode}-{}", random.below(1000)).as_bytes());
            if log.at + 300 > 2 * PAGE {
                break;
            }
        }
        let report = check(&log.dump(&[1]).bytes);
        // A name whose inode has no intact node is shown, but not its inode: a kernel answers EIO, too
        // (`jffs2_do_read_inode_internal` in `fs/jffs2/readinode.c`).
        let is_expected = |found: &&image::Remark| found.what.contains("the inode cannot be read");
        let others: Vec<_> = report.findings.iter().filter(|it| !is_expected(it)).collect();
        assert!(others.is_empty(), "seed {seed}: {others:?}");
        let is_entry = |note: &image::Remark| note.what.contains("directory entry");
        lost += usize::from(report.notes.iter().any(is_entry));
    }
    assert!(lost > 10, "names were lost in {lost} of 150 pages");
}

#[test]
fn a_summary_without_ecc_is_no_finding() {
    let image = sample("jffs2", true);
    let data = Dump { bytes: image.clone() }.data();
    let blocks = data.chunks_exact(BLOCK_BYTES as usize);
    let with_summary = blocks.enumerate().filter(|(_, block)| block.ends_with(&SUMMARY_MARK));
    let (mut tried, mut damaged) = (0, 0);
    for (block, _) in with_summary {
        let mut dump = Dump { bytes: image.clone() };
        let page = dump.page((block + 1) * PAGES_PER_BLOCK - 1);
        // The codes of `linux-large`.
        page[PAGE + 40..].fill(0xff);
        let report = check(&dump.bytes);
        assert_eq!(report.findings, [], "block {block}");
        let is_summary = |note: &image::Remark| note.what.contains("summary that is damaged");
        damaged += usize::from(report.notes.iter().any(is_summary));
        tried += 1;
    }
    assert!(damaged > 0, "{damaged} of {tried} summaries were damaged");
}

#[test]
fn a_mark_of_a_clean_block_that_was_cut_short_is_no_finding() {
    for (cells, findings) in [([0xff, 0x9f, 0xff, 0x25], 0), ([0x84, 0x19, 0x03, 0x20], 1)] {
        let mut dump = Log::new().dump(&[]);
        let layout = mtd::find_layout("linux-large").expect("in the table");
        let page = dump.page(3 * PAGES_PER_BLOCK);
        layout.scatter(&cells, 0, &mut page[PAGE..]);
        assert_eq!(check(&dump.bytes).findings.len(), findings, "{cells:x?}");
    }
}

/// Bytes of zeros have the code of erased flash: a wrong bit among them is one that was corrected.
#[test]
fn a_wrong_bit_in_a_step_whose_code_is_blank_is_corrected() {
    let mut log = Log::new();
    log.inode(2, 2, &vec![0; 2 * PAGE - log.at - 68]);
    let mut dump = log.dump(&[]);
    dump.page(1)[700] ^= 0x10;
    let report = check(&dump.bytes);
    assert_eq!((report.findings, report.corrected_bits), (Vec::new(), 1));
}

/// The end of a node may stand in the page of the summary. A cut loses the node, and the summary still names it.
#[test]
fn a_node_that_a_sound_summary_names_may_be_lost_with_the_last_page() {
    let image = sample("jffs2", true);
    let data = Dump { bytes: image.clone() }.data();
    let blocks = data.chunks_exact(BLOCK_BYTES as usize);
    let with_summary = blocks.enumerate().filter(|(_, block)| block.ends_with(&SUMMARY_MARK));
    let mut named = 0;
    for (block, bytes) in with_summary {
        let end = &bytes[bytes.len() - 8..];
        let summary = jffs2::summary_offset(end, BLOCK_BYTES).expect("a summary") as usize;
        for at in (0..summary % PAGE).step_by(100) {
            let mut dump = Dump { bytes: image.clone() };
            let page = dump.page(block * PAGES_PER_BLOCK + summary / PAGE);
            page[at] ^= 1;
            // Three bytes of code for each 256 bytes: those of the summary are kept, or it would be damaged, too.
            page[PAGE + 40..][..3 * (summary % PAGE / 256)].fill(0xff);
            let report = check(&dump.bytes);
            assert_eq!(report.findings, [], "block {block}, byte {at}");
            let what = "names a node that is not there";
            named += usize::from(report.notes.iter().any(|note| note.what.contains(what)));
        }
    }
    assert!(named > 0, "no summary named the node that was lost");
}
