//! Checkpoints, snapshots, and the cleaner.

use crate::support;

use block_medium::MemoryMedium;
use fs_api::{Errno, FileSystem};
use nilfs2::records::SEGMENT_ACTIVE;
use nilfs2::{CleanerSettings, FormatOptions, MountOptions, Nilfs2, find_profile, format};
use std::cell::Cell;
use std::rc::Rc;
use support::{Bench, Work, assert_same, load, manifest, profile, quiet, read_only, run};

const SEGMENT_BLOCKS: u32 = 64;

async fn fresh(bench: &Bench, options: MountOptions) -> Rc<Nilfs2> {
    let fresh = FormatOptions { blocks_per_segment: SEGMENT_BLOCKS, ..FormatOptions::default() };
    format(&*bench.medium, &fresh).await.expect("it is made");
    Rc::new(bench.mount(options).await)
}

fn unprotected() -> CleanerSettings {
    CleanerSettings { protection_period_s: 0, ..CleanerSettings::default() }
}

async fn assert_sound(fs: &Nilfs2, label: &str) {
    assert_eq!(fs.check().await.expect("it is read"), [], "{label}");
    assert_eq!(fs.findings(), [], "{label}");
}

#[test]
fn cleaning_makes_room_without_end_and_keeps_snapshots() {
    let (medium, is_done) = run(MemoryMedium::new(4096, 16 << 20), |bench| async move {
        let fs = fresh(&bench, quiet()).await;
        let mut work = Work::new(&bench, &fs, 5, 24).await;
        let (mut cleaned, mut moved, mut deleted) = (0, 0, 0);
        let mut snapshots: Vec<(u64, Vec<String>)> = Vec::new();
        for round in 0..220 {
            assert_eq!(work.play(40).await, 0, "there is room");
            if round % 80 == 10 {
                let number = fs.make_checkpoint().await.expect("it is made");
                fs.change_checkpoint(number, true).await.expect("it is there");
                snapshots.push((number, manifest(&fs).await));
            }
            let clean = fs.segments().await.expect("listed");
            let clean = clean.iter().filter(|usage| usage.is_clean()).count();
            if clean < 25 {
                fs.sync().await.expect("it syncs");
                for _ in 0..4 {
                    let done = fs.clean(&unprotected(), 4, 0).await.expect("it cleans");
                    cleaned += done.segments;
                    moved += done.moved_blocks;
                    deleted += done.deleted_checkpoints;
                }
                work.assert_same(&format!("round {round}")).await;
                assert_sound(&fs, &format!("round {round}")).await;
            }
        }
        assert!(cleaned > 60 && moved > 500 && deleted > 50, "{cleaned} {moved} {deleted}");
        fs.drop_caches();
        work.assert_same("the end").await;
        fs.unmount().await.expect("it unmounts");
        assert_eq!(snapshots.len(), 3);
        for (number, expected) in snapshots {
            let options = MountOptions { checkpoint: Some(number), ..read_only() };
            let old = bench.mount(options).await;
            assert_same(&format!("snapshot {number}"), &manifest(&old).await, &expected);
        }
        let fs = bench.mount(quiet()).await;
        assert_eq!(work.model().compare(&fs).await, Ok(()), "mounted again");
        assert_sound(&fs, "mounted again").await;
    });
    assert!(is_done);
    assert!(medium.written_blocks() > 2 * (16 << 20) / 4096, "{}", medium.written_blocks());
}

#[test]
fn the_daemon_keeps_a_file_system_writable() {
    let is_sound = Rc::new(Cell::new(false));
    let reported = is_sound.clone();
    run(MemoryMedium::new(4096, 16 << 20), |bench| async move {
        let fs = fresh(&bench, MountOptions::new(profile())).await;
        let settings = CleanerSettings {
            protection_period_s: 20,
            min_clean_percent: 50,
            max_clean_percent: 70,
            ..CleanerSettings::default()
        };
        fs.start_cleaner(settings);
        let mut work = Work::new(&bench, &fs, 6, 16).await;
        for _ in 0..600 {
            assert_eq!(work.play(6).await, 0, "there is room");
            bench.sim.sleep(1_500_000_000).await;
        }
        work.assert_same("the end").await;
        assert_sound(&fs, "the end").await;
        fs.unmount().await.expect("it unmounts");
        reported.set(true);
    });
    assert!(is_sound.get());
}

#[test]
fn the_protection_period_keeps_checkpoints() {
    let (_, is_done) = run(MemoryMedium::new(4096, 16 << 20), |bench| async move {
        let fs = fresh(&bench, quiet()).await;
        let mut work = Work::new(&bench, &fs, 7, 6).await;
        for _ in 0..30 {
            assert_eq!(work.play(30).await, 0, "there is room");
            fs.sync().await.expect("it syncs");
            bench.sim.sleep(10_000_000_000).await;
        }
        let before = fs.checkpoints().await.expect("listed");
        let settings = CleanerSettings { protection_period_s: 100, ..CleanerSettings::default() };
        for _ in 0..20 {
            fs.clean(&settings, 4, 0).await.expect("it cleans");
        }
        let newest = before.last().expect("there are some").created;
        let kept = fs.checkpoints().await.expect("listed");
        for checkpoint in &before {
            let is_kept = kept.iter().any(|other| other.number == checkpoint.number);
            assert!(is_kept || checkpoint.created + 90 < newest, "{}", checkpoint.number);
        }
        assert!(kept.len() < before.len() + 5, "{} of {}", kept.len(), before.len());
        assert_sound(&fs, "after").await;
    });
    assert!(is_done);
}

#[test]
fn checkpoints_of_a_kernels_image_are_changed() {
    let (_, is_done) = run(load("clean"), |bench| async move {
        let fs = bench.mount(quiet()).await;
        let expected = manifest(&fs).await;
        assert_sound(&fs, "as the kernel left it").await;
        fs.change_checkpoint(30, true).await.expect("it is there");
        fs.change_checkpoint(4, false).await.expect("it is there");
        assert_eq!(fs.change_checkpoint(4000, true).await, Err(Errno::Enoent));
        fs.delete_checkpoint(40).await.expect("it is there");
        assert_eq!(fs.delete_checkpoint(40).await, Err(Errno::Enoent), "it is gone");
        assert_eq!(fs.delete_checkpoint(30).await, Err(Errno::Ebusy), "it is a snapshot");
        fs.sync().await.expect("it syncs");
        while fs.clean(&unprotected(), 4, 0).await.expect("it cleans").segments > 0 {
            if fs.checkpoints().await.expect("listed").len() < 20 {
                break;
            }
        }
        assert_same("cleaned", &manifest(&fs).await, &expected);
        assert_sound(&fs, "cleaned").await;
        fs.unmount().await.expect("it unmounts");
        let fs = bench.mount(read_only()).await;
        assert_same("mounted again", &manifest(&fs).await, &expected);
        let all = fs.checkpoints().await.expect("listed");
        let snapshots: Vec<u64> =
            all.iter().filter(|it| it.is_snapshot()).map(|it| it.number).collect();
        assert_eq!(snapshots, [9, 30]);
        let old = MountOptions { checkpoint: Some(30), ..read_only() };
        let old = manifest(&bench.mount(old).await).await;
        let (_, expected) = support::checkpoints("clean").swap_remove(29);
        assert_same("snapshot 30", &old, &expected);
    });
    assert!(is_done);
}

#[test]
fn the_first_daemons_cleaned_all_the_time() {
    let cleaned = Rc::new(Cell::new((0, 0)));
    let reported = cleaned.clone();
    run(MemoryMedium::new(4096, 32 << 20), |bench| async move {
        let old = find_profile("linux-2.6.29").expect("in the table");
        let fs = fresh(&bench, MountOptions::new(old)).await;
        let mut work = Work::new(&bench, &fs, 8, 12).await;
        assert_eq!(work.play(1500).await, 0, "there is room");
        fs.sync().await.expect("it syncs");
        let clean = |segments: Vec<nilfs2::records::SegmentUsage>| {
            segments.iter().filter(|usage| usage.is_clean()).count()
        };
        let before = clean(fs.segments().await.expect("listed"));
        let settings = CleanerSettings { protection_period_s: 0, ..CleanerSettings::of(old) };
        fs.start_cleaner(settings);
        // What is newer than the second superblock is protected, and that is written once a minute.
        for _ in 0..14 {
            bench.sim.sleep(11_000_000_000).await;
            assert_eq!(work.play(1).await, 0, "there is room");
            fs.sync().await.expect("it syncs");
        }
        reported.set((before, clean(fs.segments().await.expect("listed"))));
        assert_sound(&fs, "cleaned").await;
        fs.unmount().await.expect("it unmounts");
    });
    let (before, after) = cleaned.get();
    assert!(after > before, "{before} segments were clean, {after} are");
}

/// So many that the checkpoint file has a B-tree, which shrinks again.
#[test]
fn many_checkpoints_are_listed_and_deleted() {
    let (_, is_done) = run(MemoryMedium::new(4096, 24 << 20), |bench| async move {
        let fs = fresh(&bench, quiet()).await;
        for number in 0..200 {
            let name = format!("n{number}");
            let new = fs_api::NewInode::Directory(0o755);
            fs.make(&support::CALLER, fs.root(), name.as_bytes(), new).await.expect("made");
            fs.make_checkpoint().await.expect("it is made");
        }
        let numbers = |all: Vec<nilfs2::records::Checkpoint>| -> Vec<u64> {
            all.iter().map(|checkpoint| checkpoint.number).collect()
        };
        let all = numbers(fs.checkpoints().await.expect("listed"));
        assert_eq!(all, (1..=201).collect::<Vec<_>>());
        for number in 40..180 {
            fs.delete_checkpoint(number).await.expect("it is there");
        }
        assert_sound(&fs, "deleted").await;
        fs.unmount().await.expect("it unmounts");
        let fs = bench.mount(read_only()).await;
        let left = numbers(fs.checkpoints().await.expect("listed"));
        assert_eq!(left, (1..40).chain(180..=left[left.len() - 1]).collect::<Vec<_>>());
        assert_sound(&fs, "mounted again").await;
    });
    assert!(is_done);
}

/// Segments that a checkpoint gives back hold what the checkpoint before needs: until it is complete,
/// no log of its own may go there, even if it needs more segments than one
/// (`nilfs_sufile_cancel_freev` in `nilfs_segctor_collect`).
#[test]
fn no_log_overwrites_a_segment_that_its_own_checkpoint_gives_back() {
    const BLOCKS: u64 = 16;
    let (medium, is_done) = run(MemoryMedium::new(4096, 8 << 20), |bench| async move {
        let fresh = FormatOptions { blocks_per_segment: BLOCKS as u32, ..FormatOptions::default() };
        format(&*bench.medium, &fresh).await.expect("it is made");
        let fs = Rc::new(bench.mount(quiet()).await);
        let mut work = Work::new(&bench, &fs, 3, 30).await;
        let mut cleaned = 0;
        for round in 0..400 {
            // No space is an answer here; the cleaner makes some.
            work.play(10).await;
            let clean = fs.segments().await.expect("listed");
            if clean.iter().filter(|usage| usage.is_clean()).count() > 12 {
                continue;
            }
            fs.sync().await.expect("it syncs");
            let before = fs.segments().await.expect("listed");
            bench.medium.take_bios();
            cleaned += fs.clean(&unprotected(), 4, 0).await.expect("it cleans").segments;
            for bio in bench.medium.take_bios() {
                let segment = (bio.block / BLOCKS) as usize;
                // The superblocks lie before the first segment's logs and behind the last segment.
                if bio.block == 0 || segment >= before.len() {
                    continue;
                }
                let usage = &before[segment];
                let is_done = usage.is_dirty() && usage.flags & SEGMENT_ACTIVE == 0;
                let is_in_use = is_done && u64::from(usage.blocks) >= BLOCKS - 1;
                assert!(!is_in_use, "round {round}: segment {segment} was in use");
            }
        }
        assert!(cleaned > 100, "{cleaned}");
        work.assert_same("the end").await;
        assert_sound(&fs, "the end").await;
    });
    assert!(is_done);
    assert!(medium.written_blocks() > 4096);
}
