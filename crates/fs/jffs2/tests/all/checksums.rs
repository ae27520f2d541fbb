//! What is read agrees with its CRC: data and names whose bytes changed are never shown.

use crate::support;

use fs_api::{Errno, FileSystem, NewInode};
use nand::{Chip, ImageLayout};
use random::Stream;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use support::{CALLER, blank, load, quiet, read_file, run, write};

const BLOCKS: u32 = 8;
const PAGE: usize = 2048;
const PAGE_WITH_SPARE: usize = 2112;
const FILE_BYTES: usize = 4096;
/// Number of the compressor that Linux 6.12 tries first.
const LZO: u8 = 7;

/// Bytes that no compressor makes shorter.
fn noise(seed: u64) -> Vec<u8> {
    let mut stream = Stream::new(seed, "noise");
    (0..FILE_BYTES).map(|_| stream.next_u64() as u8).collect()
}

/// A dump of a chip with two versions of the file `some-name`.
fn dump(versions: [Vec<u8>; 2]) -> Vec<u8> {
    let (chip, _) = run(blank(BLOCKS), false, |bench| async move {
        let fs = bench.mount(quiet(1)).await;
        let file = fs.make(&CALLER, 1, b"some-name", NewInode::Regular(0o600)).await;
        let file = file.expect("it is made");
        for content in versions {
            write(&fs, &CALLER, file, 0, &content).await.expect("there is room");
        }
        fs.unmount().await.expect("it unmounts");
    });
    let mut image = Vec::new();
    chip.save_image(&mut image, ImageLayout::WithOob).expect("it saves");
    image
}

/// Where bytes stand in the data of a dump, spare areas left out.
fn find(image: &[u8], wanted: &[u8]) -> usize {
    let data: Vec<u8> =
        image.chunks_exact(PAGE_WITH_SPARE).flat_map(|page| &page[..PAGE]).copied().collect();
    data.windows(wanted.len()).position(|bytes| bytes == wanted).expect("it was written")
}

/// Changes a byte of the data, and the ECC with it.
fn change(image: &mut [u8], at: usize) {
    let page = &mut image[at / PAGE * PAGE_WITH_SPARE..][..PAGE_WITH_SPARE];
    page[at % PAGE] ^= 0x10;
    let (data, oob) = page.split_at_mut(PAGE);
    mtd::find_layout("linux-large").expect("in the table").protect(data, oob);
}

fn chip(image: &[u8]) -> Chip {
    load(image, ImageLayout::WithOob, BLOCKS)
}

#[test]
fn changed_data_gives_way_to_what_is_older() {
    let contents = [noise(1), noise(2)];
    let image = dump(contents.clone());
    for at in [0, 1, 2047, 4095] {
        let mut damaged = image.clone();
        let start = find(&image, &contents[1][..64]);
        change(&mut damaged, start + at);
        let (older, done) = (contents[0].clone(), Rc::new(Cell::new(false)));
        let is_done = done.clone();
        run(chip(&damaged), false, move |bench| async move {
            let fs = bench.mount(quiet(1)).await;
            let file = fs.lookup(1, b"some-name").await.expect("it is there");
            assert_eq!(read_file(&fs, file, FILE_BYTES as u64).await, Ok(older), "byte {at}");
            let findings = fs.findings();
            assert!(findings.iter().any(|it| it.code == "jffs2-damaged-node"), "{findings:?}");
            is_done.set(true);
        });
        assert!(done.get());
    }
}

/// A node that was checked once is compared with its CRC again whenever it is read, as
/// `jffs2_read_dnode` does.
#[test]
fn data_that_changes_while_it_is_mounted_is_an_error() {
    for content in [noise(3), b"flash block page ".repeat(300)[..FILE_BYTES].to_vec()] {
        let image = dump([noise(4), content.clone()]);
        // Of the compressed node only the end of its header is known: the data follows it.
        let is_plain = content == noise(3);
        let header =
            [&(FILE_BYTES as u32).to_le_bytes()[..], &[if is_plain { 0 } else { LZO }]].concat();
        let data = if is_plain { find(&image, &content[..64]) } else { find(&image, &header) + 16 };
        let mut damaged = image.clone();
        change(&mut damaged, data + 40);
        let outcome = Rc::new(RefCell::new(None));
        let reported = outcome.clone();
        run(chip(&image), false, move |bench| async move {
            let fs = bench.mount(quiet(1)).await;
            let file = fs.lookup(1, b"some-name").await.expect("it is there");
            assert_eq!(read_file(&fs, file, FILE_BYTES as u64).await, Ok(content));
            bench.mtd.with_chip(|there| *there = chip(&damaged));
            *reported.borrow_mut() = Some(read_file(&fs, file, FILE_BYTES as u64).await);
        });
        assert_eq!(outcome.take(), Some(Err(Errno::Eio)), "stored as it is: {is_plain}");
    }
}

/// A summary names the entries of its block, so it is left alone: what counts is the node.
#[test]
fn names_that_disagree_with_their_sum_are_left_out() {
    let image = dump([noise(5), noise(6)]);
    let start = find(&image, b"some-name");
    // The CRC of the name stands before it.
    for at in (start - 4..start).chain(start..start + 9) {
        let mut damaged = image.clone();
        change(&mut damaged, at);
        let done = Rc::new(Cell::new(false));
        let is_done = done.clone();
        run(chip(&damaged), false, move |bench| async move {
            let fs = bench.mount(quiet(1)).await;
            let names = fs.read_directory(1).await.expect("it is read");
            assert_eq!(names.len(), 0, "byte {at}: {names:?}");
            assert!(!fs.findings().is_empty(), "byte {at}");
            is_done.set(true);
        });
        assert!(done.get());
    }
}

#[test]
fn targets_are_as_long_as_a_kernel_reads_them() {
    let done = Rc::new(Cell::new(false));
    let is_done = done.clone();
    run(blank(BLOCKS), false, move |bench| async move {
        let fs = bench.mount(quiet(1)).await;
        let target = vec![b't'; 255];
        let longest = fs.make(&CALLER, 1, b"longest", NewInode::Symlink(&target[..254])).await;
        let longest = longest.expect("254 bytes are taken");
        let longer = fs.make(&CALLER, 1, b"longer", NewInode::Symlink(&target)).await;
        assert_eq!(longer, Err(Errno::Enametoolong));
        fs.unmount().await.expect("it unmounts");
        let fs = bench.mount(quiet(1)).await;
        assert_eq!(fs.read_link(longest).await.as_deref(), Ok(&target[..254]));
        assert_eq!(fs.read_directory(1).await.expect("it is read").len(), 1);
        is_done.set(true);
    });
    assert!(done.get());
}
