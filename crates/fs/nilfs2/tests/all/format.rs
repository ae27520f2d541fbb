//! An empty file system, byte by byte as mkfs.nilfs2 makes it.

use crate::support;

use block_medium::MemoryMedium;
use fs_api::{Errno, FileSystem};
use nilfs2::{FormatError, FormatOptions, format};
use support::{data, quiet, run};

#[test]
fn an_empty_file_system_is_that_of_mkfs() {
    let expected = data("mkfs.img.zst");
    let medium = MemoryMedium::new(4096, expected.len() as u64);
    let uuid = expected[1024 + 152..1024 + 168].try_into().expect("16 bytes");
    let seed = u32::from_le_bytes(expected[1024 + 12..1024 + 16].try_into().expect("4 bytes"));
    let (medium, is_done) = run(medium, move |bench| async move {
        let options = FormatOptions {
            blocks_per_segment: 512,
            checksum_seed: seed,
            uuid,
            label: b"goldA".to_vec(),
            now_s: 1_795_182_361,
            ..FormatOptions::default()
        };
        format(&*bench.medium, &options).await.expect("it is made");
    });
    assert!(is_done);
    let mut image = Vec::new();
    medium.save(&mut image).expect("memory");
    assert_eq!(image.len(), expected.len());
    for (block, (found, expected)) in image.chunks(4096).zip(expected.chunks(4096)).enumerate() {
        assert!(found == expected, "block {block} differs");
    }
}

/// `nilfs_lookup` refuses a long name before it looks for it.
#[test]
fn a_name_that_is_too_long_is_not_looked_for() {
    let (_, is_done) = run(MemoryMedium::new(4096, 32 << 20), |bench| async move {
        let options = FormatOptions { blocks_per_segment: 64, ..FormatOptions::default() };
        format(&*bench.medium, &options).await.expect("it is made");
        let fs = bench.mount(quiet()).await;
        for (length, error) in [(255, Errno::Enoent), (256, Errno::Enametoolong)] {
            let name = vec![b'y'; length];
            assert_eq!(fs.lookup(fs.root(), &name).await, Err(error), "{length} bytes");
        }
    });
    assert!(is_done);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let (medium, is_done) = run(MemoryMedium::new(4096, 1 << 20), |bench| async move {
        let small = format(&*bench.medium, &FormatOptions::default()).await;
        assert_eq!(small, Err(FormatError::TooSmall(0)));
        let odd = FormatOptions { blocks_per_segment: 100, ..FormatOptions::default() };
        assert_eq!(format(&*bench.medium, &odd).await, Err(FormatError::SegmentSize(100)));
    });
    assert!(is_done);
    assert_eq!(medium.written_blocks(), 0);
}
