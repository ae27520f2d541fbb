//! A search repeats itself, reaches into recoveries, and finds planted faults.

use crash::{Bench, Forgotten, Sabotage, SearchOutcome, SearchPlan, SearchState, Setup, search};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};

const RUNS: u64 = 20;

fn bench(kind: &'static str, sabotage: Sabotage, workers: usize) -> Bench {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 48;
    part.geometry.pages_per_block = 16;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let layout = find_layout("linux-large").expect("in the table");
    let setup = Setup { kind, request: MountRequest::default(), layout, seed: 1, sabotage };
    Bench { chip, setup, workers: Some(workers) }
}

fn plan(seed: u64, runs: Option<u64>) -> SearchPlan {
    SearchPlan { seed, runs, depth: 2, has_owners_and_links: true }
}

/// The outcome, and the scripts that were kept.
fn searched(bench: &Bench, plan: &SearchPlan, corpus: &[String]) -> (SearchOutcome, Vec<String>) {
    let mut kept = Vec::new();
    let mut progress = |state: &SearchState<'_>| {
        kept.extend(state.kept.iter().cloned());
        true
    };
    let outcome = search(bench, plan, corpus, &mut progress).expect("threads");
    (outcome, kept)
}

#[test]
fn a_seed_and_a_number_of_runs_repeat_a_search_whatever_the_number_of_workers() {
    let one = searched(&bench("ubifs", Sabotage::None, 1), &plan(1, Some(RUNS)), &[]);
    let two = searched(&bench("ubifs", Sabotage::None, 2), &plan(1, Some(RUNS)), &[]);
    assert_eq!(one, two);
    let (outcome, kept) = one;
    let other = searched(&bench("ubifs", Sabotage::None, 2), &plan(2, Some(RUNS)), &[]).0;
    assert_ne!(outcome.digest, other.digest);
    let counts = &outcome.counts;
    eprintln!("{counts:?} {:?} {:?}", outcome.classes, outcome.refusals);
    assert_eq!((counts.runs, outcome.interrupted), (RUNS, false));
    assert!(counts.refused_runs <= RUNS / 4, "{:?}", outcome.refusals);
    assert!(counts.calls > 10 * RUNS && counts.cuts > 30 * RUNS, "{counts:?}");
    // A mount of UBIFS after a cut writes, so it can be cut, and so can the next one.
    assert!(counts.recovery_cuts > 0 && counts.second_recovery_cuts > 0, "{counts:?}");
    assert_eq!(kept.len() as u64, counts.kept);
    let classes: Vec<&str> = outcome.classes.keys().map(String::as_str).collect();
    assert!(["calls", "count", "end", "medium", "wrote"].iter().all(|one| classes.contains(one)));
    // What is kept can be given back: it shows nothing new, and later runs change it.
    let (again, _) = searched(&bench("ubifs", Sabotage::None, 2), &plan(3, Some(4)), &kept);
    assert!(again.counts.signals >= counts.signals, "{again:?}");
}

#[test]
fn a_planted_fault_is_found_and_made_small() {
    let sound = searched(&bench("jffs2", Sabotage::None, 2), &plan(1, Some(RUNS)), &[]).0;
    assert_eq!(sound.found, [], "the engine as it is");
    let planted = bench("jffs2", Sabotage::ForgetFsyncs(Forgotten::Files), 2);
    let outcome = searched(&planted, &plan(1, Some(RUNS)), &[]).0;
    let lost = outcome.found.iter().find(|found| found.name == "lost").expect("a lost file");
    eprintln!("{}\n{}", lost.text, lost.failure.shown);
    assert!(lost.text.lines().count() <= 6, "{}", lost.text);
    assert!(!lost.is_unfinished && outcome.counts.failed_cuts > 0);
}

#[test]
fn a_search_without_a_number_of_runs_ends_when_it_is_told_to_and_can_be_repeated() {
    let bench = bench("yaffs2", Sabotage::None, 2);
    let outcome = search(&bench, &plan(4, None), &[], &mut |_| false).expect("threads");
    assert!(outcome.interrupted && outcome.counts.runs > 0);
    let again = searched(&bench, &plan(4, Some(outcome.counts.runs)), &[]).0;
    assert_eq!((again.digest, again.counts), (outcome.digest, outcome.counts));
}
