//! Damaged media: an error or a finding, never a panic or an endless loop; and a check that can fail.

use crate::support;

use block_medium::MemoryMedium;
use fs_api::{Changes, FileSystem, FileType, NewInode, PAGE_BYTES};
use nilfs2::summary::{LogHeader, seal};
use nilfs2::{
    FormatOptions, MountOptions, Nilfs2, SUPERBLOCK_OFFSET, Superblock, find_profile, format,
};
use random::Stream;
use std::cell::Cell;
use std::rc::Rc;
use support::{Bench, CALLER, expected, load, manifest, quiet, read_only, run};

const BLOCK: usize = 4096;

/// Looks at everything; gives the number of calls that failed.
async fn look_at_all(fs: &Nilfs2) -> u64 {
    let (mut failed, mut seen) = (0, 0);
    let mut rest = vec![fs.root()];
    while let Some(inode) = rest.pop() {
        seen += 1;
        let Ok(shown) = fs.attributes(inode).await else {
            failed += 1;
            continue;
        };
        match shown.kind {
            FileType::Directory if seen < 2000 => match fs.read_directory(inode).await {
                Ok(entries) => rest.extend(entries.into_iter().map(|entry| entry.inode)),
                Err(_) => failed += 1,
            },
            FileType::Regular => {
                for page in 0..(shown.size_bytes / PAGE_BYTES as u64 + 1).min(100) {
                    let mut bytes = [0; PAGE_BYTES];
                    failed += u64::from(fs.read_page(inode, page, &mut bytes).await.is_err());
                }
            }
            FileType::Symlink => failed += u64::from(fs.read_link(inode).await.is_err()),
            _ => {}
        }
    }
    fs.check_invariants();
    failed
}

/// Changes something everywhere it may.
async fn change_all(fs: &Nilfs2) {
    let root = fs.root();
    let Ok(entries) = fs.read_directory(root).await else { return };
    for entry in entries.iter().take(20) {
        let to = Changes { size_bytes: Some(5000), ..Changes::default() };
        let _ = fs.change(&CALLER, entry.inode, &to).await;
        let page = [1; PAGE_BYTES];
        let _ = fs.write_page(&CALLER, entry.inode, 9, &page, 0..PAGE_BYTES).await;
        let _ = fs.unlink(&CALLER, root, &entry.name).await;
        let _ = fs.forget(entry.inode).await;
    }
    let _ = fs.make(&CALLER, root, b"new", NewInode::Directory(0o700)).await;
    let _ = fs.sync().await;
    let _ = fs.clean(&nilfs2::CleanerSettings::default(), 2, 0).await;
    let _ = fs.check().await;
    fs.check_invariants();
    let _ = fs.unmount().await;
    fs.check_invariants();
}

#[test]
fn damage_is_an_error_or_a_finding() {
    let image = load("clean");
    let used: Vec<u64> = (1..32_767).filter(|block| image.block(*block) != [0; BLOCK]).collect();
    let (mut noticed, mut rolled_back) = (0, 0);
    for seed in 0..300 {
        let mut stream = Stream::new(seed, "damage");
        let medium = image.after_cut(None);
        for _ in 0..=stream.below(6) {
            // The newest logs hold what a mount reads; older ones hold data.
            let reach = if stream.below(2) == 0 { 60 } else { used.len() as u32 };
            let block = used[used.len() - 1 - stream.below(reach) as usize];
            let mut bytes = medium.block(block);
            for _ in 0..=stream.below(8) {
                bytes[stream.below(BLOCK as u32) as usize] = stream.next_u64() as u8;
                if stream.below(2) == 0 {
                    bytes[stream.below(64) as usize] = stream.next_u64() as u8;
                }
            }
            medium.set_block(block, &bytes);
        }
        let result = Rc::new(Cell::new((false, false)));
        let reported = result.clone();
        let (_, is_done) = run(medium, move |bench| async move {
            let Ok(fs) = bench.try_mount(quiet()).await else {
                reported.set((true, false));
                return;
            };
            let failed = look_at_all(&fs).await;
            let is_noticed = failed > 0 || !fs.findings().is_empty();
            reported.set((is_noticed, fs.rolled_back().is_some()));
            change_all(&fs).await;
        });
        assert!(is_done, "seed {seed}");
        noticed += u32::from(result.get().0);
        rolled_back += u32::from(result.get().1);
    }
    assert!(noticed > 10 && rolled_back > 10, "{noticed} noticed, {rolled_back} rolled back");
}

#[test]
fn one_good_superblock_is_enough() {
    let last = (128 << 20) / BLOCK as u64 - 1;
    for bad in [0, last] {
        let medium = load("clean");
        medium.set_block(bad, &[0xff; BLOCK]);
        let (medium, is_done) = run(medium, |bench| async move {
            let fs = bench.mount(quiet()).await;
            support::assert_same("tree", &manifest(&fs).await, &expected("clean"));
            fs.unmount().await.expect("it unmounts");
        });
        assert!(is_done);
        let at = if bad == 0 { SUPERBLOCK_OFFSET as usize } else { 0 };
        let written = medium.block(bad)[at..at + 280].to_vec();
        assert!(written.iter().any(|byte| *byte != 0xff), "it was written anew");
    }
    let medium = load("clean");
    medium.set_block(0, &[0; BLOCK]);
    medium.set_block(last, &[0; BLOCK]);
    let (_, is_done) = run(medium, |bench| async move {
        let error = bench.try_mount(read_only()).await.err().expect("it is refused");
        assert_eq!(error.to_string(), "no NILFS2 here: no NILFS2 magic number");
    });
    assert!(is_done);
}

async fn small(bench: &Bench) -> Nilfs2 {
    let options = FormatOptions { blocks_per_segment: 32, ..FormatOptions::default() };
    format(&*bench.medium, &options).await.expect("it is made");
    bench.mount(read_only()).await
}

/// Blocks of the log that mkfs makes: what a wrong number in each does to the check.
#[test]
fn the_check_finds_wrong_numbers() {
    // Block, byte, and what is found. The log's checksum covers them, so they are changed behind it.
    let wrong: [(u64, usize, &str); 5] = [
        (3, 0, "inode 6: group 0"),
        (7, 0, "clean"),
        (8, 0, "inode 3: group 0"),
        (10, 32 + 16, "virtual block 1"),
        // The root directory was read when it was mounted.
        (5, 11 * 128 + 50, "inode 11 has"),
    ];
    for (block, at, expected) in wrong {
        let (_, is_done) = run(MemoryMedium::new(4096, 8 << 20), move |bench| async move {
            let fs = small(&bench).await;
            assert_eq!(fs.check().await.expect("it is read"), []);
            // A kernel that keeps no block of entries when caches are dropped.
            let profile = find_profile("linux-2.6.35").expect("in the table");
            let fs = bench.mount(MountOptions { profile, ..read_only() }).await;
            let mut bytes = bench.medium.block(block);
            bytes[at] ^= 3;
            bench.medium.set_block(block, &bytes);
            fs.drop_caches();
            let found = fs.check().await.expect("it is read");
            assert!(found.iter().any(|it| it.text.contains(expected)), "block {block}: {found:?}");
        });
        assert!(is_done, "block {block}");
    }
}

/// `nilfs_get_root_dentry` fails for a root inode without links (`nilfs_read_inode_common` answers
/// ESTALE), and with it the mount.
#[test]
fn a_root_that_cannot_be_read_ends_the_mount() {
    /// Inode 2 in a block of the ifile, and its field `i_links_count`.
    const ROOT: usize = 2 * 128;
    const LINKS: usize = ROOT + 50;
    let (_, is_done) = run(MemoryMedium::new(BLOCK, 64 << 20), |bench| async move {
        let fresh = FormatOptions { blocks_per_segment: 64, ..FormatOptions::default() };
        format(&*bench.medium, &fresh).await.expect("it is made");
        // The newest log is checked whole. It must be one without the block of the root's inode: of a
        // change to a file whose inode is in another block of the ifile.
        let fs = bench.mount(quiet()).await;
        let mut last = fs.root();
        for number in 0..40 {
            let (name, file) = (format!("f{number}"), NewInode::Regular(0o644));
            last = fs.make(&CALLER, fs.root(), name.as_bytes(), file).await.expect("it is made");
        }
        fs.sync().await.expect("it syncs");
        let page = [1; PAGE_BYTES];
        fs.write_page(&CALLER, last, 0, &page, 0..PAGE_BYTES).await.expect("it is written");
        fs.unmount().await.expect("it unmounts");
        let blocks = bench.medium.stored_blocks().into_iter();
        let of_ifile = blocks.filter(|block| {
            let bytes = bench.medium.block(*block);
            bytes[ROOT + 48..ROOT + 52] == [0xed, 0x41, 2, 0]
        });
        let newest = of_ifile.max().expect("a block with a directory as inode 2");
        let mut bytes = bench.medium.block(newest);
        bytes[LINKS] = 0;
        bench.medium.set_block(newest, &bytes);
        let error = bench.try_mount(quiet()).await.err().expect("the mount fails");
        assert!(matches!(error, nilfs2::MountError::Damaged(_)), "{error:?}");
        bytes[LINKS] = 2;
        bench.medium.set_block(newest, &bytes);
        bench.mount(quiet()).await;
    });
    assert!(is_done);
}

/// Makes a checkpoint in a segment that has an error; gives what came of it, and the segment's flags.
async fn checkpoint_in_erroneous_segment(
    bench: &Bench,
    profile: &'static nilfs2::Profile,
) -> (Result<(), fs_api::Errno>, u32) {
    small(bench).await;
    let fs = bench.mount(MountOptions { profile, ..quiet() }).await;
    // Block 7 of the log of mkfs is the segment usage file: two slots of header, then the segments.
    let (segment_usages, flags) = (7, 2 * 16 + 12);
    let mut bytes = bench.medium.block(segment_usages);
    assert_eq!(bytes[flags] & 0b110, 0b010, "the first segment is dirty");
    bytes[flags] |= 4;
    bench.medium.set_block(segment_usages, &bytes);
    fs.drop_caches();
    let made = fs.make(&CALLER, fs.root(), b"file", NewInode::Regular(0o644)).await;
    made.expect("it is made");
    let synced = fs.sync().await;
    (synced, fs.segments().await.expect("it is read")[0].flags)
}

#[test]
fn a_segment_keeps_the_mark_of_an_error() {
    for profile in nilfs2::PROFILES {
        let (_, is_done) = run(MemoryMedium::new(4096, 8 << 20), move |bench| async move {
            let (synced, flags) = checkpoint_in_erroneous_segment(&bench, profile).await;
            assert_eq!(flags & 0b110, 0b110, "{}", profile.name);
            // Since Linux 6.7 and 6.1.68 nothing is written there.
            let is_refused = ["linux-6.1", "linux-6.12"].contains(&profile.name);
            let expected = if is_refused { Err(fs_api::Errno::Eio) } else { Ok(()) };
            assert_eq!(synced, expected, "{}", profile.name);
        });
        assert!(is_done, "{}", profile.name);
    }
}

/// Places in an inode, which takes 128 bytes: its kind and permissions, its size, the pointers of its map.
const MODE_AT: usize = 48;
const SIZE_AT: usize = 8;
const POINTERS_AT: usize = 56 + 8 + 3 * 8;

/// Two pointers of a B-tree lead to one node: its neighbour is the node itself, and entries would move from a
/// buffer to itself.
#[test]
fn a_node_that_is_its_own_neighbour_is_an_error() {
    // Two leaves: one is full after 255 blocks.
    const PAGES: u64 = 300;
    let (_, is_done) = run(MemoryMedium::new(BLOCK, 64 << 20), |bench| async move {
        let fresh = FormatOptions { blocks_per_segment: 512, ..FormatOptions::default() };
        format(&*bench.medium, &fresh).await.expect("it is made");
        let fs = bench.mount(quiet()).await;
        // The inode is in another block than that of the first files.
        let mut file = fs.root();
        for number in 0..40 {
            let (name, new) = (format!("f{number}"), NewInode::Regular(0o644));
            file = fs.make(&CALLER, fs.root(), name.as_bytes(), new).await.expect("it is made");
        }
        for page in 0..PAGES {
            let bytes = [page as u8; PAGE_BYTES];
            fs.write_page(&CALLER, file, page, &bytes, 0..PAGE_BYTES).await.expect("it is written");
        }
        fs.sync().await.expect("it syncs");
        // The newest log is checked whole. It must be one without the block of the inode.
        let first = fs.lookup(fs.root(), b"f0").await.expect("it is there");
        let page = [1; PAGE_BYTES];
        fs.write_page(&CALLER, first, 0, &page, 0..PAGE_BYTES).await.expect("it is written");
        fs.unmount().await.expect("it unmounts");
        let is_inode = |inode: &[u8]| {
            inode[MODE_AT..MODE_AT + 2] == [0xa4, 0x81]
                && inode[SIZE_AT..SIZE_AT + 8] == (PAGES * PAGE_BYTES as u64).to_le_bytes()
        };
        let blocks = bench.medium.stored_blocks().into_iter();
        let newest = blocks.filter(|block| {
            // A metadata file's block may be read as one of inodes by chance; the size is rare enough.
            bench.medium.block(*block).chunks_exact(128).any(is_inode)
        });
        let block = newest.max().expect("the block of the inode");
        let mut bytes = bench.medium.block(block);
        let inode = bytes.chunks_exact_mut(128).find(|inode| is_inode(inode)).expect("found");
        inode.copy_within(POINTERS_AT..POINTERS_AT + 8, POINTERS_AT + 8);
        bench.medium.set_block(block, &bytes);
        let fs = bench.mount(quiet()).await;
        let file = fs.lookup(fs.root(), b"f39").await.expect("its name is in the directory");
        let to = Changes { size_bytes: Some(PAGE_BYTES as u64), ..Changes::default() };
        let cut = fs.change(&CALLER, file, &to).await;
        assert_eq!(cut, Err(fs_api::Errno::Eio));
        let findings = fs.findings();
        assert!(findings.iter().any(|it| it.text.contains("neighbour")), "{findings:?}");
    });
    assert!(is_done);
}

/// The newest log of a medium that was written from its beginning to its end once: its first block, and its
/// header.
fn newest_log(medium: &MemoryMedium, seed: u32) -> (u64, LogHeader) {
    let logs = medium.stored_blocks().into_iter().filter_map(|block| {
        let header = LogHeader::decode(&medium.block(block))?;
        header.is_intact(&log_of(medium, block, &header), seed).then_some((block, header))
    });
    logs.max_by_key(|(block, _)| *block).expect("mkfs makes one")
}

fn log_of(medium: &MemoryMedium, block: u64, header: &LogHeader) -> Vec<u8> {
    (block..block + u64::from(header.blocks)).flat_map(|block| medium.block(block)).collect()
}

const SEGMENT_BLOCKS: u64 = 32;

/// A medium on which a file of so many blocks was written, and the seed of its checksums.
fn written(blocks: u64) -> (Rc<MemoryMedium>, u32) {
    let (medium, is_done) = run(MemoryMedium::new(BLOCK, 8 << 20), move |bench| async move {
        let fresh =
            FormatOptions { blocks_per_segment: SEGMENT_BLOCKS as u32, ..FormatOptions::default() };
        format(&*bench.medium, &fresh).await.expect("it is made");
        let fs = bench.mount(quiet()).await;
        let file = fs.make(&CALLER, fs.root(), b"file", NewInode::Regular(0o644)).await;
        let (file, bytes) = (file.expect("it is made"), [1; PAGE_BYTES]);
        for page in 0..blocks {
            fs.write_page(&CALLER, file, page, &bytes, 0..PAGE_BYTES).await.expect("it is written");
        }
        fs.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    let superblock = Superblock::decode(&medium.block(0)[SUPERBLOCK_OFFSET as usize..]);
    (medium, superblock.expect("a superblock").checksum_seed)
}

/// A full segment that names itself as the one that follows leaves no place for a log.
#[test]
fn a_segment_that_is_its_own_next_one_is_an_error() {
    // A log takes two blocks at least: one block or none is left of a full segment.
    let full = (0..SEGMENT_BLOCKS).find_map(|blocks| {
        let (medium, seed) = written(blocks);
        let (start, header) = newest_log(&medium, seed);
        let end = start + u64::from(header.blocks);
        let is_full = (end - 1) % SEGMENT_BLOCKS >= SEGMENT_BLOCKS - 2;
        is_full.then_some((medium, seed, start, header))
    });
    let (medium, seed, start, header) = full.expect("a log that ends with its segment");
    let segment = start / SEGMENT_BLOCKS;
    let mut log = log_of(&medium, start, &header);
    // Its first block; the first segment begins behind the superblock.
    let first = (segment * SEGMENT_BLOCKS).max(1);
    assert_ne!(header.next, first);
    log[32..40].copy_from_slice(&first.to_le_bytes());
    seal(&mut log, header.summary_bytes, seed);
    for (block, bytes) in (start..).zip(log.chunks_exact(BLOCK)) {
        medium.set_block(block, bytes);
    }
    let (_, is_done) = run(medium.after_cut(None), |bench| async move {
        let fs = bench.mount(quiet()).await;
        let new = NewInode::Regular(0o644);
        fs.make(&CALLER, fs.root(), b"new", new).await.expect("it is in memory");
        assert_eq!(fs.sync().await, Err(fs_api::Errno::Eio));
        let findings = fs.findings();
        assert!(findings.iter().any(|it| it.text.contains("no other follows it")), "{findings:?}");
    });
    assert!(is_done);
}
