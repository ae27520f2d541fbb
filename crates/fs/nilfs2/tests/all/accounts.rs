//! Space and memory as they are reported.

use crate::support;

use block_medium::MemoryMedium;
use fs_api::{FileSystem, NewInode, PAGE_BYTES, SpaceUse};
use nilfs2::{FormatOptions, format};
use support::{CALLER, load, quiet, read_only, run};

#[test]
fn space_is_counted_in_clean_segments() {
    let done = run(load("mkfs"), |bench| async move {
        let fs = bench.mount(read_only()).await;
        // 63 segments of 512 blocks, 61 of them clean, 8 kept for the cleaner.
        let expected = SpaceUse {
            block_bytes: 4096,
            blocks: 63 * 512 - 1,
            free_blocks: 61 * 512,
            available_blocks: 53 * 512,
        };
        assert_eq!(fs.space(), expected);
    });
    assert!(done.1);
}

#[test]
fn memory_grows_with_what_waits_and_shrinks_with_the_cache() {
    let done = run(MemoryMedium::new(4096, 64 << 20), |bench| async move {
        let options = FormatOptions { blocks_per_segment: 512, ..FormatOptions::default() };
        format(&*bench.medium, &options).await.expect("it is made");
        let fs = bench.mount(quiet()).await;
        let count = |name: &str| {
            let memory = fs.memory();
            let found = memory.kinds.iter().find(|(kind, ..)| *kind == name);
            found.map_or((0, 0), |(_, count, bytes)| (*count, *bytes))
        };
        let (empty, idle) = (fs.memory().total_bytes(), count("dirty_blocks").0);
        assert!(empty < 64 << 10, "{empty} bytes");
        let new = NewInode::Regular(0o644);
        let file = fs.make(&CALLER, fs.root(), b"file", new).await.expect("it is made");
        for page in 0..300 {
            let bytes = [1; PAGE_BYTES];
            let part = 0..PAGE_BYTES;
            fs.write_page(&CALLER, file, page, &bytes, part).await.expect("it is written");
        }
        let waiting = count("dirty_blocks");
        assert!(waiting.0 > idle + 300 && waiting.1 == waiting.0 * 4096, "{waiting:?}");
        assert_eq!(count("inode_info").0, 5 + 2);
        fs.sync().await.expect("it syncs");
        assert_eq!(count("dirty_blocks").0, 0);
        let cached = count("clean_blocks").0;
        fs.drop_caches();
        // Of the DAT and of the file of inodes the last blocks of counts, bits and entries stay.
        let kept = count("clean_blocks").0;
        assert!((1..=6).contains(&kept) && cached > kept, "{kept} of {cached}");
        let kinds = fs.memory().kinds;
        assert!(kinds.is_sorted());
        let sum: u64 = kinds.iter().map(|(_, _, bytes)| bytes).sum();
        assert_eq!(sum, fs.memory().total_bytes());
    });
    assert!(done.1);
}
