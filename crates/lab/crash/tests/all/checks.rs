//! A check of the user's own: what it is handed, in which order and how often, and what becomes of its verdicts.

use crash::{Check, Crash, Cuts, FilesOfCut, Outcome, Sabotage, Setup, Verdict};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use script::parse;
use std::collections::BTreeSet;

const SAFE: &str = include_str!("../../../../../workloads/config-safe.ops");

fn crash() -> Crash {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    (part.geometry.blocks, part.geometry.pages_per_block) = (64, 16);
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let (kind, request) = ("ubifs", MountRequest::default());
    let layout = find_layout("linux-large").expect("in the table");
    let setup = Setup { kind, request, layout, seed: 1, sabotage: Sabotage::None };
    Crash::new(&chip, &setup, &parse(SAFE).expect("a script")).expect("the script runs")
}

/// All that a check sees of files.
fn seen_of(cut: &FilesOfCut) -> Vec<(&[u8], u32, Vec<u8>)> {
    let rows = cut.tree.rows.iter();
    rows.map(|(path, row)| (&path[..], row.facts.permissions, row.content.to_vec())).collect()
}

/// Runs all cuts with so many workers, and notes what the check is handed.
fn handed(
    crash: &Crash,
    workers: usize,
    verdict: impl Fn(&FilesOfCut) -> Verdict,
) -> (Outcome, Vec<FilesOfCut>) {
    let mut seen = Vec::new();
    let mut check = |cuts: &[FilesOfCut]| {
        seen.extend_from_slice(cuts);
        Some(cuts.iter().map(&verdict).collect())
    };
    let cuts = Cuts { workers: Some(workers), ..Cuts::default() };
    let outcome = crash.run_checked(&cuts, Some(&mut check as &mut Check<'_>), |_, _| true);
    let mut outcome = outcome.expect("there are cut points");
    outcome.tell(SAFE);
    (outcome, seen)
}

fn place(cut: &FilesOfCut) -> (u64, &'static str, Option<u64>) {
    (cut.cut_point, cut.torn, cut.acknowledged)
}

#[test]
fn files_are_handed_out_in_order_whatever_the_number_of_workers() {
    let crash = crash();
    let verdict = |cut: &FilesOfCut| (cut.cut_point % 3 == 1).then(|| "one of three".to_owned());
    let (outcome, seen) = handed(&crash, 1, verdict);
    let places: Vec<_> = seen.iter().map(place).collect();
    assert!(places.is_sorted_by_key(|one| one.0));
    for workers in [2, 5] {
        let (other, seen) = handed(&crash, workers, verdict);
        assert_eq!(other, outcome, "{workers} workers");
        assert_eq!(seen.iter().map(place).collect::<Vec<_>>(), places, "{workers} workers");
    }
    let check = outcome.check.expect("there is a check");
    assert_eq!(check.asked, places.len() as u64);
    assert_eq!(check.cuts, outcome.torn.iter().map(|torn| torn.cuts).sum::<u64>());
    assert!(0 < check.failed && check.failed < check.cuts, "{check:?}");
}

#[test]
fn equal_files_with_an_equal_acknowledgement_are_handed_out_once() {
    let (outcome, seen) = handed(&crash(), 2, |_| None);
    let keys = seen.iter().map(|cut| (cut.acknowledged, seen_of(cut)));
    let keys: BTreeSet<_> = keys.collect();
    assert_eq!(keys.len(), seen.len());
    let check = outcome.check.expect("there is a check");
    assert!(check.asked < check.cuts / 2, "{} of {}", check.asked, check.cuts);
    assert_eq!((check.failed, check.groups.len()), (0, 0));
    // The script acknowledges 2 to 13, and the first cuts come before any of them.
    let acknowledged: BTreeSet<_> = seen.iter().map(|cut| cut.acknowledged).collect();
    assert!(acknowledged.contains(&None) && acknowledged.contains(&Some(12)), "{acknowledged:?}");
    assert!(seen.is_sorted_by_key(|cut| cut.acknowledged));
}

#[test]
fn what_a_check_says_is_grouped_by_its_words_and_told_with_the_lines() {
    let say = |cut: &FilesOfCut| {
        let settings = cut.tree.rows.get(b"cfg".as_slice());
        (cut.acknowledged.is_some() && settings.is_some()).then(|| "cfg is there".to_owned())
    };
    let (outcome, _) = handed(&crash(), 2, say);
    let check = outcome.check.expect("there is a check");
    let [group] = check.groups.as_slice() else { panic!("one reason: {:?}", check.groups) };
    assert_eq!((group.cuts, check.failures.len() as u64), (check.failed, check.failed));
    assert_eq!(group.first, check.failures[0]);
    let begin =
        format!("at {} of {} cuts cfg is there: the first between line ", group.cuts, check.cuts);
    assert!(group.sentence.starts_with(&begin), "{}", group.sentence);
    assert!(group.sentence.ends_with(", behind `ack 2` (line 12)"), "{}", group.sentence);
}

#[test]
fn a_check_that_ends_the_run_leaves_what_was_judged_before() {
    let crash = crash();
    let mut calls = 0;
    let mut check = |cuts: &[FilesOfCut]| {
        calls += 1;
        (calls < 2).then(|| vec![Some("broken".to_owned()); cuts.len()])
    };
    let cuts = Cuts { workers: Some(1), ..Cuts::default() };
    let outcome = crash.run_checked(&cuts, Some(&mut check as &mut Check<'_>), |_, _| true);
    let outcome = outcome.expect("there are cut points");
    let check = outcome.check.as_ref().expect("there is a check");
    assert!(outcome.interrupted);
    assert_eq!(check.cuts, outcome.cuts());
    assert!(0 < check.cuts && check.failed == check.cuts, "{check:?}");
    let whole = crash.run(&Cuts::default(), |_, _| true).expect("there are cut points");
    assert!(outcome.cuts() < whole.cuts());
    assert_eq!(whole.check, None);
}
