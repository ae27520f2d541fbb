//! Checks of JFFS2: what kernels leave is consistent, and what is missing or changed is reported.

use crate::samples;
use crate::support;

use file_systems::find_kind;
use fs_api::{Caller, NewInode, Time};
use image::{AnyImage, ExtractOptions, OpenOptions, Report};
use jffs2::nodes::{
    ACCURATE, DIRENT, DirentNode, HEADER_BYTES, Header, INODE, InodeNode, PADDING, SUMMARY, XATTR,
    XATTR_BYTES, XREF, padded,
};
use mount::{Driver, MountRequest};
use nand::{Chip, FaultSettings, ImageLayout, Storage, find_part};
use random::Stream;
use samples::{BLOCK_BYTES, sample};
use std::path::Path;
use support::{jffs2_data, scratch};
use vfs::{Manifest, OpenOptions as Opening};

const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_600_000_000) };
pub(crate) const PAGE: usize = 2048;
const PAGE_WITH_SPARE: usize = 2112;
pub(crate) const PAGES_PER_BLOCK: usize = BLOCK_BYTES as usize / PAGE;
/// Blocks of images that are put together here.
const BLOCKS: usize = 6;
const FILE_MODE: u32 = 0o100_644;
const DT_DIR: u8 = 4;
const DT_REG: u8 = 8;
/// How a block with a summary ends.
pub(crate) const SUMMARY_MARK: [u8; 4] = [0x85, 0x18, 0x85, 0x02];

fn open(bytes: &[u8]) -> AnyImage {
    let options = OpenOptions {
        file_system: Some("jffs2".into()),
        block_bytes: Some(BLOCK_BYTES),
        oob_layout: Some("linux-large".into()),
        ..OpenOptions::default()
    };
    AnyImage::from_bytes(Path::new("made"), bytes.to_vec(), &options).expect("it opens")
}

pub(crate) fn check(bytes: &[u8]) -> Report {
    open(bytes).check().expect("it mounts")
}

fn tree(bytes: &[u8]) -> Manifest {
    open(bytes).list(true).expect("it mounts").manifest
}

/// Bytes of a chip, page by page, with spare areas.
pub(crate) struct Dump {
    pub(crate) bytes: Vec<u8>,
}

impl Dump {
    pub(crate) fn page(&mut self, number: usize) -> &mut [u8] {
        &mut self.bytes[number * PAGE_WITH_SPARE..][..PAGE_WITH_SPARE]
    }

    /// The data alone.
    pub(crate) fn data(&self) -> Vec<u8> {
        self.bytes.chunks_exact(PAGE_WITH_SPARE).flat_map(|page| &page[..PAGE]).copied().collect()
    }

    /// Changes a byte of the data, and the ECC with it.
    fn flip(&mut self, at: usize, bits: u8) {
        let page = self.page(at / PAGE);
        page[at % PAGE] ^= bits;
        let (data, oob) = page.split_at_mut(PAGE);
        mtd::find_layout("linux-large").expect("in the table").protect(data, oob);
    }

    fn erase(&mut self, block: usize, pages: std::ops::Range<usize>) {
        for page in pages {
            self.page(block * PAGES_PER_BLOCK + page).fill(0xff);
        }
    }
}

/// A log of nodes that is written as the kernel's write-buffer does.
pub(crate) struct Log {
    data: Vec<u8>,
    pub(crate) at: usize,
}

impl Log {
    pub(crate) fn new() -> Self {
        let mut log = Self { data: vec![0xff; BLOCKS * BLOCK_BYTES as usize], at: 0 };
        log.file(2, b"first", b"");
        log
    }

    fn put(&mut self, node: &[u8]) {
        self.data[self.at..self.at + node.len()].copy_from_slice(node);
        self.at += padded(node.len() as u32) as usize;
    }

    pub(crate) fn inode(&mut self, inode: u32, version: u32, data: &[u8]) {
        let bytes = data.len() as u32;
        let node = InodeNode {
            inode,
            version,
            mode: FILE_MODE,
            file_bytes: bytes,
            data_bytes: bytes,
            ..InodeNode::default()
        };
        self.put(&node.to_bytes(data));
    }

    pub(crate) fn name(&mut self, version: u32, inode: u32, name: &[u8]) {
        let node =
            DirentNode { parent: 1, version, inode, changed: 0, kind: DT_REG, name: name.to_vec() };
        self.put(&node.to_bytes());
    }

    /// A file with its name, whose number is the version of the name, too.
    fn file(&mut self, inode: u32, name: &[u8], data: &[u8]) {
        self.inode(inode, 1, data);
        self.name(inode - 1, inode, name);
    }

    fn page_end(&self) -> usize {
        (self.at + 1).next_multiple_of(PAGE)
    }

    /// Leaves so many bytes of the page blank; they are `room` bytes behind a node.
    pub(crate) fn fill_but(&mut self, room: usize, inode: u32) {
        let data = self.page_end() - self.at - room - 68;
        self.inode(inode, 2, &vec![b'f'; data]);
        assert_eq!(self.page_end() - self.at, room);
    }

    /// Fills the page as a flush does.
    pub(crate) fn flush(&mut self) {
        let end = self.page_end();
        let room = end - self.at;
        self.data[self.at..end].fill(0);
        if room > HEADER_BYTES {
            let header = Header::new(PADDING, room as u32).to_bytes();
            self.data[self.at..self.at + HEADER_BYTES].copy_from_slice(&header);
        }
        self.at = end;
    }

    /// The chip; pages that were programmed in part have no ECC.
    pub(crate) fn dump(&self, torn: &[usize]) -> Dump {
        let layout = mtd::find_layout("linux-large").expect("in the table");
        let mut bytes = Vec::new();
        for (number, data) in self.data.chunks_exact(PAGE).enumerate() {
            let mut spare = [0xff; PAGE_WITH_SPARE - PAGE];
            if number % PAGES_PER_BLOCK == 0 {
                let marker = [0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0];
                layout.scatter(&marker, 0, &mut spare);
            }
            if data.iter().any(|byte| *byte != 0xff) && !torn.contains(&number) {
                layout.protect(data, &mut spare);
            }
            bytes.extend_from_slice(data);
            bytes.extend_from_slice(&spare);
        }
        Dump { bytes }
    }
}

#[test]
fn padding_of_any_length_is_consistent() {
    for room in [4, 8, 12, 16, 20] {
        let mut log = Log::new();
        log.fill_but(room, 2);
        log.flush();
        log.file(3, b"second", b"");
        let report = check(&log.dump(&[]).bytes);
        assert_eq!((report.findings, report.notes.len()), (Vec::new(), 0), "{room} bytes");
    }
    // As many bytes that are no zeros are no padding.
    let mut log = Log::new();
    log.fill_but(12, 2);
    log.put(&[7; 12]);
    log.file(3, b"second", b"");
    assert_eq!(check(&log.dump(&[]).bytes).findings.len(), 1);
}

/// The page in which a header goes on was never written, torn, or written anew after the next mount.
#[test]
fn a_header_that_was_cut_at_the_end_of_a_page_is_no_finding() {
    for room in [4, 8] {
        let header = Header::new(INODE, 500).to_bytes();
        let cut = || {
            let mut log = Log::new();
            log.fill_but(room, 2);
            log.put(&header[..room]);
            log
        };
        let blank = cut();
        let mut torn = cut();
        torn.put(&header[room..]);
        torn.put(&[b't'; PAGE / 2 - 20]);
        let mut anew = cut();
        anew.file(3, b"second", b"");
        for (log, torn_pages) in [(blank, &[][..]), (torn, &[1]), (anew, &[])] {
            let report = check(&log.dump(torn_pages).bytes);
            assert_eq!(report.findings, [], "{room} bytes, torn {torn_pages:?}");
            let is_told = |note: &image::Remark| note.what.contains("cut short");
            assert!(report.notes.iter().any(is_told), "{:?}", report.notes);
        }
    }
}

#[test]
fn holes_beyond_the_end_of_their_file_are_consistent() {
    let mut log = Log::new();
    let hole = InodeNode {
        inode: 2,
        version: 2,
        mode: FILE_MODE,
        file_bytes: 5000,
        data_bytes: 8192,
        compressor: 1,
        ..InodeNode::default()
    };
    log.put(&hole.to_bytes(&[]));
    assert_eq!(check(&log.dump(&[]).bytes).findings, []);
}

#[test]
fn a_summary_over_a_block_that_was_half_erased_is_no_finding() {
    let mut dump = Dump { bytes: sample("jffs2", true) };
    let data = dump.data();
    let blocks = data.chunks_exact(BLOCK_BYTES as usize);
    let with_summary = blocks.enumerate().filter(|(_, block)| block.ends_with(&SUMMARY_MARK));
    let numbers: Vec<usize> = with_summary.map(|(number, _)| number).collect();
    assert!(!numbers.is_empty());
    for block in numbers {
        dump.erase(block, 0..PAGES_PER_BLOCK / 2);
        let report = check(&dump.bytes);
        let told = report.findings.iter().filter(|found| found.what.contains("summary"));
        assert_eq!(told.count(), 0, "{:?}", report.findings);
        dump = Dump { bytes: sample("jffs2", true) };
    }
}

/// The first node of each type, with its place.
fn nodes_of_all_types(data: &[u8]) -> Vec<(u16, usize, usize)> {
    let mut found: Vec<(u16, usize, usize)> = Vec::new();
    for at in (0..data.len() - HEADER_BYTES).step_by(4) {
        let header = Header::parse(&data[at..]);
        let is_new = found.iter().all(|(kind, ..)| *kind != header.node_type);
        if header.is_valid() && is_new {
            found.push((header.node_type, at, header.total_bytes as usize));
        }
    }
    found
}

/// Every byte of a node is under a CRC, and those of a summary's entries, too.
#[test]
fn every_byte_of_every_node_that_changes_is_told() {
    let mut dump = Dump { bytes: sample("jffs2", true) };
    assert_eq!(check(&dump.bytes).findings, []);
    let nodes = nodes_of_all_types(&dump.data());
    let kinds: Vec<u16> = nodes.iter().map(|(kind, ..)| *kind).collect();
    for kind in [DIRENT, INODE, PADDING, SUMMARY, XATTR, XREF] {
        assert!(kinds.contains(&kind), "{kind:#x} is in no sample: {kinds:x?}");
    }
    let mut missed = Vec::new();
    for (kind, start, length) in nodes {
        let covered = match kind {
            // Of padding the header alone counts.
            PADDING => HEADER_BYTES,
            // An attribute is filled up to four bytes.
            XATTR => {
                let data = dump.data();
                let value_bytes = u16::from_le_bytes([data[start + 22], data[start + 23]]);
                XATTR_BYTES + usize::from(data[start + 21]) + 1 + usize::from(value_bytes)
            }
            _ => length,
        };
        for at in start..start + covered {
            for bits in [1 << (at % 8), ACCURATE.to_le_bytes()[1]] {
                dump.flip(at, bits);
                let report = check(&dump.bytes);
                if report.findings.is_empty() {
                    missed.push((kind, at - start, bits, report.notes));
                }
                dump.flip(at, bits);
            }
        }
    }
    assert!(missed.is_empty(), "type, byte, bits: {missed:x?}");
}

/// A chip on which files were made and nothing was deleted. The last of them is `zz`.
fn growing(seed: u64) -> Vec<u8> {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.pages_per_block = PAGES_PER_BLOCK as u32;
    part.geometry.blocks = 48;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let driver = Driver::of_tool(mtd::find_layout("linux-large").expect("in the table"));
    let outcome = mount::run(chip, &driver, 1, move |machine| async move {
        let request = MountRequest { has_background: false, ..MountRequest::default() };
        let kind = find_kind("jffs2").expect("in the table");
        let mounted = machine.mount(kind, &request).await.expect("it mounts");
        let mut stream = Stream::new(seed, "files");
        for number in 0..60 {
            let directory = format!("d{}", number % 3);
            if number < 3 {
                let new = NewInode::Directory(0o755);
                mounted.vfs.make(&CALLER, directory.as_bytes(), new).await.expect("made");
            }
            let path = if number == 59 { "zz".into() } else { format!("{directory}/f{number}") };
            let options = Opening { create: Some(0o640), ..Opening::default() };
            let file = mounted.vfs.open(&CALLER, path.as_bytes(), options).await.expect("opened");
            let bytes = 1 + stream.below(if number % 7 == 0 { 20_000 } else { 3000 });
            let noise: Vec<u8> = (0..bytes).map(|_| stream.next_u64() as u8).collect();
            mounted.vfs.write(&CALLER, &file, 0, &noise).await.expect("written");
            mounted.vfs.close(&CALLER, file).await.expect("closed");
        }
        mounted.unmount().await.expect("it unmounts");
    });
    let mut image = Vec::new();
    outcome.chip.save_image(&mut image, ImageLayout::WithOob).expect("it saves");
    image
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xff)
}

/// Without its newest block a log is one that was cut earlier: nothing tells the two apart. Of every other
/// block something is missed.
#[test]
fn a_lost_block_of_a_growing_file_system_is_told() {
    for seed in 0..3 {
        let bytes = growing(seed);
        let expected = tree(&bytes);
        assert_eq!(check(&bytes).findings, []);
        let mut lost = 0;
        for block in 0..48 {
            let mut dump = Dump { bytes: bytes.clone() };
            let data = dump.data();
            let data = &data[block * BLOCK_BYTES as usize..][..BLOCK_BYTES as usize];
            let is_newest = data.windows(2).any(|name| name == b"zz");
            dump.erase(block, 0..PAGES_PER_BLOCK);
            if is_blank(data) || is_newest || tree(&dump.bytes) == expected {
                continue;
            }
            let report = check(&dump.bytes);
            assert!(!report.findings.is_empty(), "seed {seed}, block {block}: {:?}", report.notes);
            lost += 1;
        }
        assert!(lost > 8, "seed {seed}: {lost} blocks");
    }
}

/// Lost blocks of images of mkfs.jffs2 are all reported. Of a chip that a kernel wrote on, and on which its
/// collector worked, most are: what newer nodes replaced is gone from it as well.
#[test]
fn lost_blocks_of_golden_images_are_told() {
    const GOLDEN_BLOCK_BYTES: usize = 131_072;
    let data = jffs2_data();
    // Image, whether it has spare areas, blocks whose loss may stay unreported.
    let images = [("mkfs-zlib", false, 0), ("mkfs-rtime", false, 0), ("gc", true, 3)];
    for (name, has_spare, untold_max) in images {
        let bytes = support::bytes(&data, name);
        let stride = GOLDEN_BLOCK_BYTES / PAGE * if has_spare { PAGE_WITH_SPARE } else { PAGE };
        let open = |bytes: &[u8]| {
            let options =
                OpenOptions { file_system: Some("jffs2".into()), ..OpenOptions::default() };
            AnyImage::from_bytes(Path::new(name), bytes.to_vec(), &options).expect("it opens")
        };
        let list = |image: &AnyImage| image.list(true).expect("it mounts").manifest;
        let expected = list(&open(&bytes));
        let (mut told, mut untold) = (0, Vec::new());
        for block in 0..bytes.len().div_ceil(stride) {
            let place = block * stride..bytes.len().min((block + 1) * stride);
            if is_blank(&bytes[place.clone()]) {
                continue;
            }
            let mut damaged = bytes.clone();
            damaged[place].fill(0xff);
            let image = open(&damaged);
            let is_changed = list(&image) != expected;
            if is_changed && image.check().expect("it mounts").findings.is_empty() {
                untold.push(block);
            } else {
                told += u32::from(is_changed);
            }
        }
        assert!(told > 0 && untold.len() <= untold_max, "{name}: {told} told, not {untold:?}");
    }
}

#[test]
fn names_that_no_call_makes_are_told_and_not_extracted() {
    let bad: [&[u8]; 7] = [b"..", b".", b"", b"../../x", b"a/b", b"/etc", b"a\0b"];
    for (number, name) in bad.into_iter().enumerate() {
        let mut log = Log::new();
        log.file(3, name, b"outside");
        log.file(4, b"second", b"inside");
        let image = open(&log.dump(&[]).bytes);
        let report = image.check().expect("it mounts");
        let is_told = |found: &image::Remark| found.what.contains("no file can have this name");
        assert_eq!(report.findings.iter().filter(|it| is_told(it)).count(), 1, "{name:?}");
        let to = scratch(&format!("name-{number}"));
        let options = ExtractOptions { has_devices: false, has_owners: false };
        let extracted = image.extract(&to, options).expect("it extracts");
        assert_eq!((extracted.names, extracted.left_out.len()), (2, 1), "{name:?}");
        assert_eq!(std::fs::read_dir(&to).expect("made").count(), 2, "{name:?}");
        std::fs::remove_dir_all(to).expect("removed");
    }
}

#[test]
fn a_name_that_disagrees_with_its_sum_is_told_and_not_extracted() {
    let mut log = Log::new();
    log.inode(3, 1, b"");
    let place = log.at;
    log.name(2, 3, b"second");
    log.file(4, b"third", b"");
    let mut dump = log.dump(&[]);
    // The CRC of the name, then its first letter.
    for at in [place + 36, place + 40] {
        dump.flip(at, 2);
        let image = open(&dump.bytes);
        let report = image.check().expect("it mounts");
        let is_told = |found: &image::Remark| found.what.contains("directory entry");
        assert!(report.findings.iter().any(is_told), "{:?}", report.findings);
        let to = scratch(&format!("sum-{at}"));
        let options = ExtractOptions { has_devices: false, has_owners: false };
        assert_eq!(image.extract(&to, options).expect("it extracts").names, 2);
        std::fs::remove_dir_all(to).expect("removed");
        dump.flip(at, 2);
    }
}

/// The collector writes a name again with the next version of its directory, and erases the old one
/// (`jffs2_garbage_collect_dirent` of `fs/jffs2/gc.c`): a version is missing, and no name.
#[test]
fn names_that_the_collector_wrote_again_are_not_lost() {
    let log = |rewritten: bool| {
        let mut log = Log::new();
        // The name of inode 3 had the version 2.
        log.inode(3, 1, b"");
        log.name(3, 4, b"third");
        log.inode(4, 1, b"");
        if rewritten {
            log.name(4, 3, b"second");
        } else {
            log.file(5, b"fourth", b"");
        }
        check(&log.dump(&[]).bytes)
    };
    let rewritten = log(true);
    assert_eq!(rewritten.findings, []);
    assert!(
        rewritten
            .notes
            .iter()
            .any(|note| note.what.contains("1 older entry of a directory is gone"))
    );
    // Nodes of inodes are written again, too: the first version is missing, and the inode has a name.
    let mut anew = Log::new();
    let directory = InodeNode { inode: 3, version: 1, mode: 0o040_755, ..InodeNode::default() };
    anew.put(&directory.to_bytes(b""));
    let entry = |parent, version, inode, kind, name: &[u8]| {
        let name = name.to_vec();
        DirentNode { parent, version, inode, changed: 0, kind, name }.to_bytes()
    };
    anew.put(&entry(1, 2, 3, DT_DIR, b"directory"));
    for inode in 4..7 {
        anew.inode(inode, 2, b"");
        anew.name(inode - 1, inode, &[b'a' + inode as u8]);
    }
    // A removal of a name that has no older entry.
    anew.name(6, 0, b"gone");
    for inode in 7..9 {
        anew.inode(inode, 1, b"");
        anew.put(&entry(3, inode - 2, inode, DT_REG, &[b'a' + inode as u8]));
    }
    assert_eq!(check(&anew.dump(&[]).bytes).findings, []);
    // A name that is nowhere is one that was lost.
    let lost = log(false).findings;
    assert!(lost.iter().any(|found| found.what.contains("lost")), "{lost:?}");
}
