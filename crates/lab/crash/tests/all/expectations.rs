//! What applications expect of their files, on real file systems: the shipped patterns, planted faults, logs,
//! trees and files that come and go.

use crate::support::bench::{chip, setup_of};
use crash::{Crash, CrashError, Cuts, Forgotten, Outcome, Sabotage, Symptom, find_torn_model};
use nand::ImageLayout;
use script::parse;
use std::collections::BTreeMap;

const KINDS: [&str; 3] = ["jffs2", "ubifs", "yaffs2"];
const TRUNCATE: &str = include_str!("../../../../../workloads/config-truncate.ops");
const RENAME: &str = include_str!("../../../../../workloads/config-rename.ops");
const SAFE: &str = include_str!("../../../../../workloads/config-safe.ops");

fn crash_of(kind: &'static str, text: &str, sabotage: Sabotage) -> Result<Crash, CrashError> {
    Crash::new(&chip(64), &setup_of(kind, None, sabotage), &parse(text).expect("a script"))
}

fn cut(kind: &'static str, text: &str, sabotage: Sabotage) -> Outcome {
    let crash = crash_of(kind, text, sabotage).expect("the script runs");
    let mut outcome = crash.run(&Cuts::default(), |_, _| true).expect("there are cut points");
    outcome.tell(text);
    for line in &outcome.expectations {
        let failed = (line.failed, line.cuts, outcome.violations().count());
        eprintln!("{kind}: expect {}: {failed:?} failed, cuts, violations", line.expectation);
        line.groups.iter().for_each(|group| eprintln!("    {}", group.sentence));
    }
    outcome
}

/// Failed cuts of all lines, by symptom.
fn symptoms(outcome: &Outcome) -> BTreeMap<Symptom, usize> {
    let mut found = BTreeMap::new();
    for failure in outcome.expectations.iter().flat_map(|line| &line.failures) {
        *found.entry(failure.symptom).or_default() += 1;
    }
    found
}

#[test]
fn settings_that_are_rewritten_in_place_are_lost_on_every_file_system() {
    for kind in KINDS {
        let outcome = cut(kind, TRUNCATE, Sabotage::None);
        assert_eq!(outcome.violations().count(), 0, "{kind} keeps its guarantee");
        assert!(outcome.broken_expectations() > 0, "{kind}");
    }
}

#[test]
fn settings_that_are_renamed_without_a_sync_are_lost_where_bytes_come_later() {
    let [jffs2, ubifs, yaffs2] = KINDS.map(|kind| cut(kind, RENAME, Sabotage::None));
    // A file of UBIFS has its name before its bytes; YAFFS2 writes all of a file as it is closed.
    assert!(symptoms(&ubifs).keys().any(|one| [Symptom::Empty, Symptom::Zeros].contains(one)));
    assert_eq!(symptoms(&yaffs2), BTreeMap::new());
    // JFFS2 keeps the order of calls, but a torn page may damage nodes that were whole (see its guarantee).
    let failures = &jffs2.expectations[0].failures;
    assert!(!failures.is_empty() && failures.iter().all(|one| one.torn != "nothing"));
}

#[test]
fn settings_that_are_saved_safely_are_never_lost() {
    for kind in KINDS {
        let outcome = cut(kind, SAFE, Sabotage::None);
        assert_eq!(outcome.violations().count(), 0, "{kind}");
        assert_eq!(symptoms(&outcome), BTreeMap::new(), "{kind}");
        assert!(outcome.expectations[0].cuts > 50, "{kind}");
    }
}

/// Who sees a fault in the safe pattern: the check of the guarantee, and the expectation.
fn seen_by(kind: &'static str, sabotage: Sabotage) -> [bool; 2] {
    let outcome = cut(kind, SAFE, sabotage);
    [outcome.violations().next().is_some(), outcome.broken_expectations() > 0]
}

/// Two faults, each in two places. `fsync` of a file that does nothing makes a rename durable before the bytes of
/// its file; `fsync` of a directory that does nothing leaves the rename behind the answer to the user. A fault below
/// the watcher breaks a guarantee that speaks of it; one above it breaks none.
#[test]
fn planted_faults_are_seen_by_the_expectation_where_the_guarantee_does_not_speak_of_them() {
    let page = include_str!("../../../../../docs/power-cuts.md");
    let mut counts = [0; 2];
    for (whose, name) in [(Forgotten::Files, "a file"), (Forgotten::Directories, "a directory")] {
        for kind in KINDS {
            let below = seen_by(kind, Sabotage::ForgetFsyncs(whose));
            let above = seen_by(kind, Sabotage::SwallowFsyncs(whose));
            let words = [below, above].concat().into_iter().map(|is| if is { "yes" } else { "no" });
            let words: Vec<&str> = words.collect();
            let row = format!("| {name} | {kind} | {} |\n", words.join(" | "));
            assert!(page.contains(&row), "docs/power-cuts.md should hold:\n{row}");
            assert!(!above[0], "{kind}: no guarantee speaks of a call that was never made");
            counts[usize::from(whose == Forgotten::Directories)] += u32::from(above[1]);
        }
    }
    // Each fault is seen by the expectation alone on a file system at least.
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

fn broken(kind: &'static str, text: &str) -> (BTreeMap<Symptom, usize>, Outcome) {
    let outcome = cut(kind, text, Sabotage::None);
    (symptoms(&outcome), outcome)
}

#[test]
fn a_log_keeps_what_was_acknowledged_if_it_was_synced() {
    for kind in KINDS {
        let log = |sync: &str| {
            format!(
                "put log 644 0 1 z 1\nsync\nexpect log prefix\n\
                 for i in 1..6 {{\nappend log 700 700 x $i{sync}\nack $i\n}}\nsync\n"
            )
        };
        let (synced, outcome) = broken(kind, &log(" fsync"));
        // UBIFS writes the size before the bytes, so a log has zeros at its end there.
        let symptoms: Vec<&Symptom> = synced.keys().collect();
        let zeros: &[&Symptom] = if kind == "ubifs" { &[&Symptom::Zeros] } else { &[] };
        assert_eq!(symptoms, zeros, "{kind}");
        assert!(outcome.expectations[0].cuts > 5, "{kind}");
        let (unsynced, _) = broken(kind, &log(""));
        // YAFFS2 writes all of a file as it is closed.
        let is_cut = unsynced.keys().any(|one| *one != Symptom::Zeros);
        assert_eq!(is_cut, kind != "yaffs2", "{kind}: {unsynced:?}");
    }
}

#[test]
fn a_file_is_in_one_of_two_places_if_it_is_renamed_and_not_if_it_is_copied() {
    for kind in KINDS {
        let moved = |calls: &str| {
            format!(
                "put inbox 644 5000 4096 x 1 fsync\nsync\nexpect one-of inbox done\n{calls}\nsync\nack 1\n"
            )
        };
        let (renamed, _) = broken(kind, &moved("rename inbox done"));
        let (copied, outcome) =
            broken(kind, &moved("put done 644 5000 4096 x 1 fsync\nunlink inbox"));
        assert!(copied.contains_key(&Symptom::Both), "{kind}: {copied:?}");
        assert_eq!(outcome.violations().count(), 0, "{kind}");
        // `jffs2_rename` adds the new name before it removes the old one.
        let both = BTreeMap::from([(Symptom::Both, renamed.values().sum())]);
        assert!(renamed.is_empty() || (kind == "jffs2" && renamed == both), "{kind}: {renamed:?}");
    }
}

#[test]
fn a_tree_is_as_it_was_kept_if_its_change_is_one_call() {
    for kind in KINDS {
        let changed = |calls: &str| {
            format!(
                "mkdir a 755\nput a/f 644 3000 4096 x 1\nsync\ntree t\nexpect-tree t\n{calls}\ntree t\nsync\n"
            )
        };
        let (one, _) = broken(kind, &changed("rename a/f a/g"));
        assert!(one.is_empty() || kind == "jffs2", "{kind}: {one:?}");
        let (two, _) = broken(kind, &changed("rename a/f a/g\nput a/h 644 3000 4096 x 2 fsync"));
        assert!(two.contains_key(&Symptom::OtherTree), "{kind}: {two:?}");
    }
}

fn refused(text: &str) -> String {
    crash_of("jffs2", text, Sabotage::None).err().expect("refused").to_string()
}

#[test]
fn a_script_that_breaks_its_own_expectation_is_refused_with_its_line() {
    let wrong = refused("expect cfg whole\nput cfg 644 1 1 x 1\n");
    assert_eq!(
        wrong,
        "line 1: expect cfg whole: the file is not there at this rest point, without any cut"
    );
    let wrong = refused("put l 644 9 9 x 1\nexpect l prefix\ntruncate l 3\nack 1\n");
    assert!(wrong.starts_with("line 4: expect l prefix: the file did more than grow"), "{wrong}");
    let wrong = refused("put a 644 9 9 x 1\nexpect one-of a b\nlink a b\nack 1\n");
    assert!(wrong.starts_with("line 4: expect one-of a b: both files are there"), "{wrong}");
    assert!(refused("sync\nexpect-tree t\ntree t\n").contains("no tree was kept as `t`"));
    let full = refused("expect a old-or-new\nput a 644 9m 4096 x 1\nack 1\n");
    assert!(full.starts_with("line 3: the call of line 2 failed halfway"), "{full}");
}

/// Processes side by side: what each of them wrote is in the application's view.
#[test]
fn rest_points_stand_behind_processes() {
    let text = "concurrent {\nopen f a rw,creat\nwrite f 3000 x 1\n} {\nopen f b rw,creat\nwrite f 3000 x 2\n}\n\
                sync\nexpect a whole\nexpect b whole\nput a 644 10 10 x 3 fsync\nack 1\n";
    let crash = crash_of("jffs2", text, Sabotage::None).expect("the script runs");
    let outcome = crash.run(&Cuts::default(), |_, _| true).expect("there are cut points");
    let failed: Vec<u64> = outcome.expectations.iter().map(|line| line.failed).collect();
    assert!(failed[0] > 0 && failed[1] == 0, "{failed:?}");
}

#[test]
fn the_outcome_does_not_depend_on_the_number_of_workers() {
    let crash = crash_of("jffs2", TRUNCATE, Sabotage::None).expect("the script runs");
    let run = |workers| {
        let cuts = Cuts { workers: Some(workers), ..Cuts::default() };
        crash.run(&cuts, |_, _| true).expect("there are cut points")
    };
    assert_eq!(run(1), run(2));
}

#[test]
fn a_cut_is_shown_between_the_trees_before_and_after_it() {
    let crash = crash_of("jffs2", TRUNCATE, Sabotage::None).expect("the script runs");
    let outcome = crash.run(&Cuts::default(), |_, _| true).expect("there are cut points");
    let failure = &outcome.expectations[0].failures[0];
    let model = find_torn_model(failure.torn).expect("in the table");
    let shown = crash.show(failure.cut_point, model).expect("there is such a cut");
    let [row] = shown.rows.as_slice() else { panic!("one file: {shown:?}") };
    assert_eq!(row.path, "cfg");
    assert!(row.before.starts_with("6000 bytes, "), "{row:?}");
    assert!(row.is == "neither" || row.is == "after", "{row:?}");
    assert!(shown.before.is_some() && shown.after.is_some() && shown.failure.is_none());
    // A cut before the first call, and the chip that it leaves.
    let first = crash.show(0, find_torn_model("nothing").expect("in the table")).expect("a cut");
    assert_eq!(first.rows[0].before, "nothing");
    let operations = crash.operations();
    let error = crash.chip_after(operations, model).expect_err("no such cut").to_string();
    assert!(error.starts_with(&format!("there is no cut point {operations}")), "{error}");
    let mut image = Vec::new();
    let chip = crash.chip_after(failure.cut_point, model).expect("there is such a cut");
    chip.save_image(&mut image, ImageLayout::WithOob).expect("written to memory");
    assert_eq!(image.len(), 64 * 16 * (2048 + 64));
    let erased = chip.geometry().blocks as usize * 16 * (2048 + 64);
    assert!(image.iter().filter(|byte| **byte != 0xff).count() > 1000 && erased == image.len());
}
