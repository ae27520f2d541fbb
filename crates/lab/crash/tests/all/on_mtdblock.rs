//! File systems on `mtdblock` are cut at every operation of the chip: what a rewritten block takes along is told
//! apart from what the file system loses. And the check can fail.

use crate::support::bench::{chip, setup_of};
use crash::{Crash, Cuts, Outcome, Sabotage, ViolationKind};
use script::parse;
use std::collections::BTreeMap;

fn crash_of(
    kind: &'static str,
    blocks: u32,
    text: &str,
    profile: Option<&str>,
    sabotage: Sabotage,
) -> Crash {
    let setup = setup_of(kind, profile, sabotage);
    Crash::new(&chip(blocks), &setup, &parse(text).expect("a script")).expect("the script runs")
}

fn run(crash: &Crash, every: u64) -> Outcome {
    let outcome = crash.run(&Cuts { every, ..Cuts::default() }, |_, _| true);
    outcome.expect("there are cut points")
}

/// Nothing is broken; how many cuts hit each hazard.
fn kept(name: &str, outcome: &Outcome) -> BTreeMap<&'static str, u64> {
    let mut hazards = BTreeMap::new();
    for torn in &outcome.torn {
        eprintln!("{name} {}: {} cuts, {:?}", torn.torn, torn.cuts, torn.hazards);
        for (hazard, count) in &torn.hazards {
            *hazards.entry(*hazard).or_default() += count;
        }
    }
    for violation in outcome.violations().take(20) {
        eprintln!("{violation:?}");
    }
    assert_eq!(outcome.violations().count(), 0, "{name}");
    hazards
}

const EVERY_CALL: &str = include_str!("../../../../../workloads/power-cuts.ops");
const CALLS_OF_FAT: &str = include_str!("../../../../../workloads/power-cuts-fat.ops");

#[test]
fn nilfs2_shows_a_checkpoint_wherever_it_is_cut() {
    let crash = crash_of("nilfs2", 512, EVERY_CALL, None, Sabotage::None);
    let outcome = run(&crash, 29);
    // Extended attributes are refused, as in the kernel.
    assert_eq!((outcome.refused_lines, outcome.operations > 5000), (12, true));
    let hazards = kept("nilfs2", &outcome);
    assert!(hazards["erased-block"] > 100, "most cuts are within the rewrite of a block");
}

#[test]
fn fat_keeps_what_was_flushed_and_not_touched_wherever_it_is_cut() {
    let crash = crash_of("fat", 128, CALLS_OF_FAT, None, Sabotage::None);
    let outcome = run(&crash, 17);
    assert_eq!((outcome.refused_lines, outcome.operations > 4000), (0, true));
    let hazards = kept("fat", &outcome);
    for hazard in ["erased-block", "lost-clusters", "cross-links", "bad-chain", "read-only"] {
        assert!(hazards.contains_key(hazard), "{hazard} was never met");
    }
}

#[test]
fn every_profile_keeps_its_guarantee_on_mtdblock() {
    for (kind, blocks, text) in [("fat", 128, CALLS_OF_FAT), ("nilfs2", 512, EVERY_CALL)] {
        for profile in ["linux-6.1", "linux-2.6.35", "linux-2.6.29"] {
            let crash = crash_of(kind, blocks, text, Some(profile), Sabotage::None);
            kept(&format!("{kind} {profile}"), &run(&crash, 211));
        }
    }
}

/// Bytes that `fdatasync` wrote without a checkpoint, beside names that no checkpoint has yet.
const DATA_LOGS: &str = "\
put a 644 40000 4096 x 1
sync
open f a rw
repeat 4 {
sleep 11s
pwrite f 16384 4096 x 6
sync
pwrite f 8192 4096 x 2
fdatasync f
mkdir d 755
pwrite f 20480 4096 x 3
fdatasync f
fsync d
pwrite f 8192 4096 x 4
fdatasync f
rmdir d
pwrite f 12288 4096 x 5
fdatasync f
sync
}
close f
";

#[test]
fn bytes_of_fdatasync_are_rolled_forward_over_an_older_checkpoint() {
    let crash = crash_of("nilfs2", 256, DATA_LOGS, None, Sabotage::None);
    let outcome = run(&crash, 1);
    kept("nilfs2", &outcome);
    assert!(outcome.torn[0].partial_writes > 10, "{outcome:?}");
    // The timer writes what nobody synced, so there is something to cut.
    let forgetful = crash_of("nilfs2", 256, DATA_LOGS, None, Sabotage::ForgetSyncs);
    let lost = run(&forgetful, 1);
    let is_lost = |found: &&crash::Violation| found.kind == ViolationKind::Lost;
    assert!(lost.violations().filter(is_lost).count() > 3, "{:?}", lost.torn);
}

/// An empty file, or a changed mode, has no block that `fsync` would find (`nilfs_inode_dirty`).
#[test]
fn what_fsync_has_nothing_to_write_of_is_not_safe() {
    let text =
        "put a 644 100 100 x 1\nsync\nput b 644 0 1 x 2\nfsync b\nchmod a 600\nfsync a\nsync\n";
    let crash = crash_of("nilfs2", 256, text, None, Sabotage::None);
    kept("nilfs2", &run(&crash, 1));
    let history = crash.history();
    let last = history.calls().len();
    // Until the last sync returns, the medium is as the first one left it.
    let before_last = history.calls()[last - 3].returned_at;
    assert_eq!(before_last, history.calls()[1].returned_at, "{:?}", history.calls());
}

/// `sync` writes all that is dirty and flushes nothing; the `fsync` of any file does.
#[test]
fn sync_of_fat_is_safe_once_the_device_is_flushed() {
    let text = "put a 755 5000 4096 x 1\nput b 755 100 100 x 2\nsync\nfsync b\nput c 755 9000 4096 x 3\nsync\n";
    let crash = crash_of("fat", 64, text, None, Sabotage::None);
    kept("fat", &run(&crash, 1));
    let history = crash.history();
    let end = crash.operations();
    let window = history.window(end - 1);
    let safe = &history.states()[*window.states.start()].tree;
    let names: Vec<&[u8]> = safe.rows.keys().map(Vec::as_slice).collect();
    assert_eq!(names, [&b""[..], b"a", b"b"], "`c` was synced and is in the cache of mtdblock");
}

#[test]
fn syncs_that_do_nothing_are_found_out_on_mtdblock() {
    let nilfs2 = format!("{EVERY_CALL}put z 644 9000 4096 x 1 fsync\nsleep 10s\n");
    for (kind, blocks, text, every) in [("fat", 128, CALLS_OF_FAT, 61), ("nilfs2", 512, &nilfs2, 7)]
    {
        let crash = crash_of(kind, blocks, text, None, Sabotage::ForgetSyncs);
        let outcome = run(&crash, every);
        let is_lost = |found: &&crash::Violation| found.kind == ViolationKind::Lost;
        assert!(outcome.violations().filter(is_lost).count() > 0, "{kind}: {:?}", outcome.torn);
    }
}

/// A block that lost a page before the cut is no rewrite that the cut tore.
#[test]
fn a_page_that_is_missing_is_found_out_on_mtdblock() {
    for (kind, blocks, text) in [("fat", 128, CALLS_OF_FAT), ("nilfs2", 512, EVERY_CALL)] {
        let found = [157, 607, 1057, 1507, 1957, 2407, 2857, 3307].map(|number| {
            let crash = crash_of(kind, blocks, text, None, Sabotage::LoseProgram(number));
            run(&crash, 401).violations().count()
        });
        eprintln!("{kind}: {found:?}");
        assert!(found.iter().any(|violations| *violations > 5), "{kind}: {found:?}");
    }
}

#[test]
fn names_in_directories_are_followed_behind_a_second_mount() {
    // A mount numbers the inodes of FAT anew: that of `d0` has the number then that `d1` had before.
    let text = "mkdir d0 755\nmkdir d1 755\numount\nmount -\nrmdir d1\nput d0/a 644 1 1 x 0 fsync\n\
                put d0/b 644 1 1 z 0 fsync\n";
    let crash = crash_of("fat", 64, text, None, Sabotage::None);
    let newest = &crash.history().states().last().expect("states").tree;
    let names: Vec<&[u8]> = newest.rows.keys().map(Vec::as_slice).collect();
    assert_eq!(names, [&b""[..], b"d0", b"d0/a", b"d0/b"]);
    kept("fat, mounted twice", &run(&crash, 1));
}
