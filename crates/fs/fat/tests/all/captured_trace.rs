//! The copies and deletions of a captured trace, made here: the same sectors reach the device.

use crate::support;

use block_medium::{Bio, MemoryMedium};
use fat::{FormatOptions, Volume};
use fs_api::{FileSystem, NewInode};
use std::collections::BTreeMap;
use std::path::Path;
use support::{CALLER, assert_clean, formatted, options, run};
use vfs::OpenOptions;

/// Most sectors of a request in the capture.
const REQUEST_SECTORS: u64 = 128;
const CHUNK_BYTES: u64 = 64 << 10;

/// Write requests, flushes, sectors of files, sectors of metadata.
type Sums = [u64; 4];

fn rows(name: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let text = std::fs::read_to_string(path).expect("it is there");
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// Sums as a queue makes them that sorts and merges what is plugged at the same time.
fn sums(bios: &[Bio], volume: &Volume) -> Sums {
    // The directory of the files has the first two clusters taken.
    let data = u64::from(volume.data_start) + 2 * u64::from(volume.cluster_sectors);
    let kind = |bio: &Bio| (bio.blocks == 0, bio.block >= data);
    let mut sums = [0; 4];
    for group in bios.chunk_by(|one, next| kind(one) == kind(next)) {
        if group[0].blocks == 0 {
            sums[1] += group.len() as u64;
            continue;
        }
        let mut ranges: Vec<_> =
            group.iter().map(|bio| (bio.block, bio.block + u64::from(bio.blocks))).collect();
        ranges.sort_unstable();
        for run in ranges.chunk_by(|one, next| one.1 == next.0) {
            let sectors = run[run.len() - 1].1 - run[0].0;
            sums[0] += sectors.div_ceil(REQUEST_SECTORS);
            sums[if run[0].0 >= data { 2 } else { 3 }] += sectors;
        }
    }
    sums
}

/// Carries the operations out; gives the sums of each.
fn replay() -> (BTreeMap<u64, Sums>, std::rc::Rc<MemoryMedium>) {
    let format = FormatOptions { label: Some("NANDLAB".into()), ..FormatOptions::default() };
    let medium = formatted(204_800 * 512, format);
    let found = std::rc::Rc::new(std::cell::RefCell::new(BTreeMap::new()));
    let reported = found.clone();
    let (medium, is_done) = run(medium, move |bench| async move {
        let vfs = bench.kernel(options()).await;
        bench.medium.take_bios();
        let volume = *vfs.file_system().volume();
        vfs.make(&CALLER, b"FILES", NewInode::Directory(0o755)).await.expect("it is made");
        vfs.sync().await.expect("it syncs");
        let note = |operation: u64| {
            let sums = sums(&bench.medium.take_bios(), &volume);
            let mut all = reported.borrow_mut();
            let of: &mut Sums = all.entry(operation).or_default();
            of.iter_mut().zip(sums).for_each(|(of, more)| *of += more);
        };
        let mut is_filled = false;
        for row in rows("fat-mp3-1.operations.tsv") {
            let (operation, kind, size) = (number(&row[0]), &row[2], number(&row[4]));
            if operation > 0 && !is_filled {
                is_filled = true;
                let directory = vfs.resolve(b"FILES").await.expect("it is there");
                vfs.file_system().fsync(&CALLER, directory).await.expect("it syncs");
                note(0);
            }
            let path = format!("FILES/FILE{:04}.MP3", number(&row[3]));
            if kind == "delete" {
                vfs.unlink(&CALLER, path.as_bytes()).await.expect("it is removed");
            } else {
                let creating =
                    OpenOptions { create: Some(0o644), truncate: true, ..OpenOptions::default() };
                let file = vfs.open(&CALLER, path.as_bytes(), creating).await.expect("it opens");
                let mut at = 0;
                while at < size {
                    let chunk = vec![5; CHUNK_BYTES.min(size - at) as usize];
                    vfs.write(&CALLER, &file, at, &chunk).await.expect("there is room");
                    at += chunk.len() as u64;
                }
                vfs.fsync(&CALLER, &file).await.expect("it syncs");
                vfs.close(&CALLER, file).await.expect("it closes");
            }
            note(operation);
        }
        vfs.sync().await.expect("it syncs");
        note(60);
        vfs.unmount().await.expect("it unmounts");
    });
    assert!(is_done);
    (found.take(), medium)
}

#[test]
fn copies_and_deletions_write_the_sectors_that_the_kernel_writes() {
    let (found, medium) = replay();
    assert_clean(&medium, "captured trace");
    let expected: BTreeMap<u64, Sums> = rows("fat-mp3-1.requests.tsv")
        .iter()
        .map(|row| (number(&row[0]), [1, 2, 3, 4].map(|column| number(&row[column]))))
        .collect();
    assert_eq!((found.len(), expected.len()), (61, 31));
    let total = |all: &BTreeMap<u64, Sums>| {
        all.values().fold([0; 4], |sum: Sums, of| std::array::from_fn(|at| sum[at] + of[at]))
    };
    let (ours, theirs) = (total(&found), total(&expected));
    // The queue of the capture does not always merge what could be merged.
    assert!(ours[0].abs_diff(theirs[0]) * 100 <= theirs[0], "requests: {ours:?}, {theirs:?}");
    for (operation, ours) in &found {
        // The trace has no row where nothing was written.
        let theirs = expected.get(operation).copied().unwrap_or_default();
        assert_eq!(ours[1..], theirs[1..], "operation {operation}: flushes, files, metadata");
        assert!(ours[0].abs_diff(theirs[0]) <= 3, "operation {operation}: {ours:?}, {theirs:?}");
    }
}
