//! Which bios calls cause, in which order, with which flags and from whom, as blktrace shows them for
//! Linux 6.12: both superblocks at a mount, the first with a flush before and durable; logs from the
//! constructor's thread, the last bio of each waited for; a superblock in turn at the first and the
//! second place from the process that syncs, or from the thread if ten seconds have passed.

use crate::support;

use block_medium::{Bio, MemoryMedium};
use fs_api::{FileSystem, InodeNumber, NewInode, PAGE_BYTES};
use nilfs2::{FormatOptions, MountOptions, Nilfs2, find_profile, format};
use std::collections::BTreeSet;
use support::{Bench, CALLER, profile, quiet, run};

const DEVICE_BYTES: u64 = 32 << 20;
const LAST: u64 = DEVICE_BYTES / 4096 - 1;

async fn fresh(bench: &Bench, options: MountOptions) -> Nilfs2 {
    let fresh = FormatOptions { blocks_per_segment: 64, ..FormatOptions::default() };
    format(&*bench.medium, &fresh).await.expect("it is made");
    bench.medium.take_bios();
    bench.mount(options).await
}

/// Letters as blktrace writes them, the place, and who asked.
fn show(bios: &[Bio]) -> Vec<String> {
    let show = |bio: &Bio| {
        let flags = bio.flags;
        let letters = [
            (flags.flushes_before, "F"),
            (bio.blocks > 0, "W"),
            (flags.is_durable, "F"),
            (flags.is_sync, "S"),
        ];
        let letters: String =
            letters.into_iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
        let place = match bio.block {
            _ if bio.blocks == 0 => "all".to_owned(),
            0 => "first".to_owned(),
            LAST => "last".to_owned(),
            _ => format!("log of {}", bio.blocks),
        };
        let who = if bio.process.is_kernel_thread() { "thread" } else { "caller" };
        format!("{letters} {place} {who}")
    };
    bios.iter().map(show).collect()
}

async fn make(fs: &Nilfs2, name: &str) -> InodeNumber {
    fs.make(&CALLER, fs.root(), name.as_bytes(), NewInode::Regular(0o644)).await.expect("made")
}

async fn write(fs: &Nilfs2, file: InodeNumber, pages: std::ops::Range<u64>) {
    for page in pages {
        let bytes = [page as u8; PAGE_BYTES];
        fs.write_page(&CALLER, file, page, &bytes, 0..PAGE_BYTES).await.expect("written");
    }
}

#[test]
fn calls_cause_the_bios_of_the_kernel() {
    let (_, is_done) = run(MemoryMedium::new(4096, DEVICE_BYTES), |bench| async move {
        let took = |what: &str, expected: &[&str]| {
            assert_eq!(show(&bench.medium.take_bios()), expected, "{what}");
        };
        let fs = fresh(&bench, MountOptions::new(profile())).await;
        took("mount", &["FWFS first caller", "WS last caller"]);
        let file = make(&fs, "file").await;
        write(&fs, file, 0..3).await;
        took("writes", &[]);
        fs.fsync(&CALLER, file).await.expect("it syncs");
        took("fsync", &["WS log of 16 thread", "F all caller"]);
        fs.fsync(&CALLER, file).await.expect("it syncs");
        fs.sync().await.expect("it syncs");
        took("nothing to do", &[]);
        write(&fs, file, 1..2).await;
        fs.sync_data(file).await.expect("it syncs");
        took("fdatasync", &["WS log of 2 caller", "F all caller"]);
        write(&fs, file, 0..40).await;
        fs.sync().await.expect("it syncs");
        // The next segment: the superblock is out of date now.
        let crossing = ["WS log of 34 thread", "WS log of 18 thread", "FWFS last caller"];
        took("sync into the next segment", &crossing);
        write(&fs, file, 0..1).await;
        bench.sim.sleep(4_900_000_000).await;
        took("before the timer", &[]);
        bench.sim.sleep(200_000_000).await;
        took("the timer", &["WS log of 12 thread"]);
        write(&fs, file, 0..70).await;
        bench.sim.sleep(11_000_000_000).await;
        took("the timer, into the next segment", &["WS log of 34 thread", "WS log of 48 thread"]);
        write(&fs, file, 70..71).await;
        fs.sync().await.expect("it syncs");
        let late = ["WS log of 12 thread", "FWFS first thread"];
        took("a sync ten seconds after the last superblock", &late);
        fs.unmount().await.expect("it unmounts");
        took("unmount", &["FWFS first caller"]);
    });
    assert!(is_done);
}

/// Reads that reach the device: blocks that were read ahead of are in memory.
fn device_reads(bench: &Bench) -> Vec<(u64, u32)> {
    let mut seen = BTreeSet::new();
    let mut reads = bench.medium.take_reads();
    reads.retain(|(first, blocks)| {
        let before = seen.len();
        seen.extend(*first..first + u64::from(*blocks));
        seen.len() > before
    });
    reads
}

/// As blktrace shows for a fresh file system: the segment of the log, and the next one because the
/// log begins its segment.
#[test]
fn a_mount_reads_segments_ahead() {
    let (_, is_done) = run(MemoryMedium::new(4096, DEVICE_BYTES), |bench| async move {
        let fs = fresh(&bench, quiet()).await;
        let reads = device_reads(&bench);
        assert_eq!(reads[..4], [(0, 1), (LAST, 1), (1, 63), (64, 64)]);
        fs.unmount().await.expect("it unmounts");
        let fs = bench.mount(quiet()).await;
        make(&fs, "file").await;
        fs.unmount().await.expect("it unmounts");
        bench.medium.take_reads();
        bench.mount(quiet()).await;
        let reads = device_reads(&bench);
        assert_eq!(reads[..3], [(0, 1), (LAST, 1), (1, 63)]);
        assert!(reads[3..].iter().all(|(_, blocks)| *blocks == 1), "{reads:?}");
    });
    assert!(is_done);
}

#[test]
fn neighbours_are_read_together() {
    let (_, is_done) = run(MemoryMedium::new(4096, DEVICE_BYTES), |bench| async move {
        let fs = fresh(&bench, quiet()).await;
        let file = make(&fs, "file").await;
        write(&fs, file, 0..30).await;
        fs.sync().await.expect("it syncs");
        write(&fs, file, 12..13).await;
        fs.sync().await.expect("it syncs");
        write(&fs, file, 20..21).await;
        fs.lookup(fs.root(), b"file").await.expect("it is there");
        bench.medium.take_reads();
        let mut pages = vec![[0; PAGE_BYTES]; 32];
        fs.read_pages(file, 0, &mut pages).await.expect("it is read");
        for (number, page) in pages.iter().enumerate() {
            let byte = if number < 30 { number as u8 } else { 0 };
            assert_eq!(page, &[byte; PAGE_BYTES], "page {number}");
        }
        // Page 12 has moved to a later log, page 20 is in memory.
        let lengths: Vec<u32> = bench.medium.take_reads().iter().map(|(_, count)| *count).collect();
        assert_eq!(lengths, [12, 1, 7, 9]);
    });
    assert!(is_done);
}

#[test]
fn the_watermark_writes_data_without_a_checkpoint() {
    let (_, is_done) = run(MemoryMedium::new(4096, 64 << 20), |bench| async move {
        let fs = fresh(&bench, quiet()).await;
        let file = make(&fs, "file").await;
        write(&fs, file, 0..3500).await;
        bench.sim.sleep(1).await;
        bench.medium.take_bios();
        let before = fs.newest_checkpoint();
        write(&fs, file, 3500..3700).await;
        bench.sim.sleep(1_000_000).await;
        let written: u32 = bench.medium.take_bios().iter().map(|bio| bio.blocks).sum();
        assert!((3500..4000).contains(&written), "{written} blocks");
        assert_eq!(fs.newest_checkpoint(), before);
        assert!(fs.dirty_blocks() < 200, "{} blocks", fs.dirty_blocks());
        fs.sync().await.expect("it syncs");
        assert_eq!(fs.newest_checkpoint(), before + 1);
        assert_eq!(fs.check().await.expect("it is read"), []);
    });
    assert!(is_done);
}

#[test]
fn old_kernels_write_data_first_and_superblocks_in_one_place() {
    let (_, is_done) = run(MemoryMedium::new(4096, DEVICE_BYTES), |bench| async move {
        let old = find_profile("linux-2.6.29").expect("in the table");
        let fs = fresh(&bench, MountOptions { has_timer: false, ..MountOptions::new(old) }).await;
        let file = make(&fs, "file").await;
        write(&fs, file, 0..3).await;
        fs.fsync(&CALLER, file).await.expect("it syncs");
        bench.medium.take_bios();
        write(&fs, file, 0..2).await;
        fs.fsync(&CALLER, file).await.expect("it syncs");
        let found = show(&bench.medium.take_bios());
        assert_eq!(found, ["WS log of 3 caller", "WS log of 10 thread"]);
        for round in 0..6 {
            bench.sim.sleep(11_000_000_000).await;
            write(&fs, file, 0..60).await;
            fs.sync().await.expect("it syncs");
            let found = show(&bench.medium.take_bios());
            let is_late = round == 5;
            assert_eq!(found.iter().any(|bio| bio.contains("last")), is_late, "{found:?}");
            assert!(found.iter().any(|bio| bio.contains("first")), "{found:?}");
        }
    });
    assert!(is_done);
}
