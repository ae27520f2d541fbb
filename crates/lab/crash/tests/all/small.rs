//! Short scripts, cut everywhere: what the outcome counts and tells, and in which order.

use crash::{
    Crash, CrashError, Cuts, Outcome, Sabotage, Setup, TORN_MODELS, ViolationKind, find_torn_model,
};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, RawOperation, Storage, find_part};
use script::parse;
use std::fmt::Write as _;

fn chip(blocks: u32) -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = blocks;
    part.geometry.pages_per_block = 16;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

fn crash_on(blocks: u32, kind: &'static str, text: &str, sabotage: Sabotage) -> Crash {
    let setup = Setup {
        kind,
        request: MountRequest::default(),
        layout: find_layout("linux-large").expect("in the table"),
        seed: 1,
        sabotage,
    };
    Crash::new(&chip(blocks), &setup, &parse(text).expect("a script")).expect("the script runs")
}

/// More than one stretch of operations that share a copy of the chip; files synced and not.
const CALLS: &str = "\
put a 644 9000 4096 x 1 fsync
put b 644 70000 4096 x 2
sync
rename a c
write c 3000 4000 4000 x 3 fsync
put a 644 5000 5000 x 4
unlink b
sync
";

/// A line for each file of 30,000 bytes.
fn many_files(count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let _ = writeln!(text, "put f{number} 644 30000 4096 x {number}");
    }
    text
}

fn run(crash: &Crash, cuts: &Cuts) -> Outcome {
    crash.run(cuts, |_, _| true).expect("there are cut points")
}

#[test]
fn every_operation_is_cut_once_in_each_torn_model() {
    for kind in ["jffs2", "ubifs", "yaffs2"] {
        let crash = crash_on(32, kind, CALLS, Sabotage::None);
        let operations = crash.journal().len() as u64;
        assert!(operations > 40, "{kind}: {operations}, so that there are two stretches");
        assert_eq!(crash.operations(), operations);
        let outcome = run(&crash, &Cuts::default());
        assert_eq!(outcome.violations().next(), None, "{kind}");
        assert_eq!((outcome.operations, outcome.cuts()), (operations, 3 * operations), "{kind}");
        assert_eq!((outcome.refused_lines, outcome.interrupted), (0, false), "{kind}");
        let erases = crash.journal().iter();
        let erases = erases.filter(|one| matches!(one, RawOperation::Erase { .. })).count() as u64;
        assert_eq!(outcome.erases, erases, "{kind}");
        let names: Vec<&str> = outcome.torn.iter().map(|torn| torn.torn).collect();
        assert_eq!(names, ["nothing", "prefix", "data-only"]);
        for torn in &outcome.torn {
            assert_eq!(
                (torn.cuts, torn.recovered, torn.full),
                (operations, operations, 0),
                "{kind}"
            );
            // Nothing of this script is among what the real code loses.
            assert!(torn.hazards.is_empty(), "{kind}: {:?}", torn.hazards);
            // `b` is written page by page: some cuts leave a part of it.
            let parts = torn.partial_writes;
            assert!((1..operations).contains(&parts), "{kind}: {parts} of {operations}");
        }
    }
}

/// A cut that is made alone is recovered by itself. Among all cuts, those that leave the medium of the cut
/// before them are judged by its recovery: erases of blank blocks, and marks, of which JFFS2 makes two for
/// each block of a blank chip.
#[test]
fn cuts_that_leave_the_same_medium_are_judged_as_if_each_was_recovered() {
    let calls = "put a 644 9000 4096 x 1 fsync\nput b 644 9000 4096 x 2 fsync\nsync\n";
    for sabotage in [Sabotage::None, Sabotage::ForgetSyncs, Sabotage::LoseProgram(1)] {
        let crash = crash_on(12, "jffs2", calls, sabotage);
        let mut alone: Option<Outcome> = None;
        for at in 0..crash.operations() {
            for model in TORN_MODELS {
                let (only, torn) = (Some(at), vec![model]);
                let cut = Cuts { only, torn, workers: Some(1), ..Cuts::default() };
                let outcome = run(&crash, &cut);
                let sum =
                    alone.get_or_insert_with(|| Outcome { torn: Vec::new(), ..outcome.clone() });
                let [cut] = &outcome.torn[..] else { panic!("one model") };
                match sum.torn.iter_mut().find(|torn| torn.torn == model.name) {
                    Some(torn) => {
                        torn.cuts += cut.cuts;
                        torn.recovered += cut.recovered;
                        torn.partial_writes += cut.partial_writes;
                        torn.full += cut.full;
                        torn.violations.extend_from_slice(&cut.violations);
                        for (hazard, count) in &cut.hazards {
                            *torn.hazards.entry(hazard).or_default() += count;
                        }
                    }
                    None => sum.torn.push(cut.clone()),
                }
            }
        }
        let all = run(&crash, &Cuts::default());
        assert_eq!(Some(&all), alone.as_ref(), "{sabotage:?}");
        let has_violation = all.violations().next().is_some();
        assert_eq!(has_violation, sabotage != Sabotage::None, "{sabotage:?}");
        // Without a sync it erases few blocks before the first write.
        if sabotage != Sabotage::ForgetSyncs {
            let is_on_blank = |operation: &&RawOperation| {
                matches!(operation, RawOperation::Erase { .. } | RawOperation::SpareProgram { .. })
            };
            assert_eq!(
                crash.journal().iter().filter(is_on_blank).count(),
                24,
                "two for each block"
            );
        }
    }
}

#[test]
fn cuts_are_chosen_and_progress_is_told() {
    let crash = crash_on(32, "jffs2", CALLS, Sabotage::None);
    let operations = crash.operations();
    let prefix = vec![find_torn_model("prefix").expect("in the table")];
    let every = Cuts { every: 7, torn: prefix.clone(), ..Cuts::default() };
    let outcome = run(&crash, &every);
    assert_eq!((outcome.cuts(), outcome.torn.len()), (operations.div_ceil(7), 1));
    let only = Cuts { only: Some(operations - 1), workers: Some(1), ..Cuts::default() };
    let outcome = run(&crash, &only);
    assert_eq!((outcome.cuts(), outcome.torn.len(), outcome.interrupted), (3, 3, false));
    let beyond = Cuts { only: Some(operations), ..Cuts::default() };
    let error = crash.run(&beyond, |_, _| true).expect_err("there is none");
    assert!(matches!(error, CrashError::NoCutPoint { asked, operations: of } if asked == of));
    // All torn models of a cut point are done before the next one, whatever the number of workers.
    let mut told = Vec::new();
    let whole = crash.run(&Cuts { workers: Some(2), ..Cuts::default() }, |done, of| {
        told.push((done, of));
        true
    });
    assert_eq!(told.last(), Some(&(3 * operations, 3 * operations)));
    assert!(told.iter().all(|(done, _)| done % 3 == 0), "{told:?}");
    let alone = run(&crash, &Cuts { workers: Some(1), ..Cuts::default() });
    assert_eq!(whole.expect("there are cut points"), alone);
}

/// A script of more operations than are handed out between two calls of the progress.
#[test]
fn a_run_that_is_told_to_stop_keeps_what_it_has() {
    let text = many_files(40);
    let crash = crash_on(128, "yaffs2", &text, Sabotage::None);
    let every = Cuts { every: 16, ..Cuts::default() };
    let outcome = crash.run(&every, |_, _| false).expect("there are cut points");
    let total = 3 * crash.operations().div_ceil(16);
    assert!(outcome.interrupted && outcome.cuts() > 0 && outcome.cuts() < total);
    assert!(outcome.torn.iter().all(|torn| torn.cuts == outcome.cuts() / 3));
}

#[test]
fn a_violation_tells_where_and_what() {
    let crash = crash_on(32, "jffs2", CALLS, Sabotage::ForgetSyncs);
    let outcome = run(&crash, &Cuts::default());
    let lost: Vec<_> =
        outcome.violations().filter(|found| found.kind == ViolationKind::Lost).collect();
    assert!(lost.len() > 3, "{:?}", outcome.violations().collect::<Vec<_>>());
    for violation in &lost {
        let operation = &crash.journal()[violation.cut_point as usize];
        assert_eq!(violation.operation, operation.to_string());
        assert!((1..=8).contains(&violation.line), "{violation:?}");
        assert_ne!(violation.expected, violation.found);
        assert!(["a", "b", "c"].contains(&violation.path.as_str()), "{violation:?}");
    }
    let counts = |torn: &crash::TornOutcome| torn.recovered + torn.violations.len() as u64;
    assert!(outcome.torn.iter().all(|torn| counts(torn) == torn.cuts));
    let by_model: usize = outcome.torn.iter().map(|torn| torn.violations.len()).sum();
    assert_eq!(outcome.violations().count(), by_model);
}

/// After a cut on a medium without space the file that is written then may be refused; that is counted.
#[test]
fn a_full_medium_is_no_violation() {
    for kind in ["jffs2", "yaffs2"] {
        let text = many_files(30);
        let crash = crash_on(24, kind, &(text + "sync\n"), Sabotage::None);
        let outcome = run(&crash, &Cuts { every: 5, ..Cuts::default() });
        assert!(outcome.refused_lines > 3, "{kind}: {}", outcome.refused_lines);
        assert_eq!(outcome.violations().next(), None, "{kind}");
        for torn in &outcome.torn {
            assert!(
                torn.full > 0 && torn.full < torn.cuts,
                "{kind}: {} of {}",
                torn.full,
                torn.cuts
            );
            assert_eq!(torn.recovered, torn.cuts, "{kind}");
        }
    }
}

/// Files that are open while their names go or are replaced.
const OPEN_FILES: &str = "\
put a 644 9000 4096 x 1
put b 644 5000 4096 x 2
put c 644 3000 3000 x 3 fsync
sync
open one a rw
open two b rw
unlink a
rename c b
sync
pwrite one 9000 3000 x 4
fsync one
pwrite two 0 9000 x 5
fsync two
fsync b
fails ENOENT unlink a
close one
close two
put d 644 4000 4000 x 6 fsync
mkdir e 755
put e/f 644 3000 3000 x 7
fsync e
unlink e/f
fsync e
put g 644 10 10 x 8 fsync
";

#[test]
fn files_that_are_open_without_a_name_are_gone_after_a_cut() {
    let text = OPEN_FILES;
    for kind in ["jffs2", "ubifs", "yaffs2"] {
        let crash = crash_on(32, kind, text, Sabotage::None);
        let outcome = run(&crash, &Cuts::default());
        assert_eq!(outcome.violations().next(), None, "{kind}");
        assert!(outcome.operations > 20, "{kind}");
    }
}

#[test]
fn names_that_are_exchanged_or_leave_a_whiteout_change_in_one_step() {
    let text = "mkdir d 755\nput a 644 9000 4096 x 1\nput d/b 644 5000 4096 x 2\nsync\n\
                rename a d/b exchange\nrename a d exchange\nrename d/b c whiteout\nsync\n";
    // Of `a` and `d` the second is a directory now, with what was in it.
    let text = text.replace("rename d/b c whiteout", "rename a/b c whiteout");
    let crash = crash_on(32, "ubifs", &text, Sabotage::None);
    let outcome = run(&crash, &Cuts::default());
    assert_eq!(outcome.violations().next(), None);
    assert_eq!(outcome.refused_lines, 0);
}

#[test]
fn the_calls_around_a_cut_are_named_with_their_passes() {
    let text =
        "put a 644 100 100 x 1\nsync\nfor i in 5..7 {\nput f$i 644 9000 4096 x $i\nsync\n}\n";
    let crash = crash_on(32, "ubifs", text, Sabotage::None);
    let history = crash.history();
    let places: Vec<String> = history.calls().iter().map(|call| call.place.to_string()).collect();
    assert_eq!(places[..4], ["1", "2", "4, i=5", "5, i=5"]);
    assert_eq!(places.len(), 8);
    let last = crash.journal().len() as u64 - 1;
    let around = history.calls_around(last);
    assert_eq!(around.returned.map(|place| place.to_string()), Some("4, i=7".into()));
    assert_eq!(around.next.map(|place| place.to_string()), Some("5, i=7".into()));
    assert_eq!(history.calls_around(last + 1).next, None);
    let crash = crash_on(32, "ubifs", text, Sabotage::LoseProgram(2));
    let outcome = run(&crash, &Cuts::default());
    let violation = outcome.violations().next().expect("a page is missing");
    assert!(violation.line < 4 || violation.passes.starts_with("i="), "{violation:?}");
}

#[test]
fn processes_are_cut_call_by_call() {
    let text = "mkdir a 755\nmkdir b 755\nsync\nconcurrent {\nrepeat 3 {\nput a/f 644 3000 3000 x 1 fsync\n\
                sleep 10\nunlink a/f\n}\n} {\nfor i in 1..4 {\nput b/$i 644 2000 2000 x $i\nsleep 5\n\
                sync\n}\n}\n";
    for kind in ["jffs2", "ubifs", "yaffs2"] {
        let crash = crash_on(32, kind, text, Sabotage::None);
        let lines: Vec<usize> =
            crash.history().calls().iter().map(|call| call.place.line).collect();
        // The first calls of both, then as their sleeps end.
        assert_eq!(lines[3..9], [6, 12, 14, 12, 8, 14], "{kind}: {lines:?}");
        let outcome = run(&crash, &Cuts::default());
        assert_eq!(outcome.violations().next(), None, "{kind}");
    }
}

/// A directory and a file exchange their names; then each kind of fsync that may write that, and more calls.
#[test]
fn an_exchange_is_safe_at_the_fsync_of_its_directory_and_not_of_what_was_moved() {
    let calls = "mkdir d 755\nput a 644 0 1 t 0 fsync\nrename a d exchange\n";
    // Neither JFFS2 nor YAFFS2 exchanges names.
    for synced in ["fsync a", "fdatasync a", "fsync d", "fsync ."] {
        let text = format!("{calls}{synced}\nmkdir e 755\nfsync .\n");
        let outcome = run(&crash_on(32, "ubifs", &text, Sabotage::None), &Cuts::default());
        assert_eq!(outcome.violations().next(), None, "{synced}");
    }
    // It is promised: where that fsync is forgotten, the names are lost.
    let text = format!("{calls}fsync .\nput b 644 100 100 t 1 fsync\n");
    let forgetful = crash_on(32, "ubifs", &text, Sabotage::ForgetSyncs);
    assert!(run(&forgetful, &Cuts::default()).violations().next().is_some());
}
