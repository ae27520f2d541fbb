//! A script of 300 calls is cut at every operation of the chip, in all torn models, on every file
//! system: no guarantee is broken. And the check can fail.

use crate::support::bench::{chip, setup, setup_of};
use crash::{Crash, Cuts, Outcome, Sabotage, Setup, ViolationKind, guarantees};
use file_systems::KINDS;
use mount::Kind;
use script::{Script, parse};

fn commands() -> Script {
    parse(include_str!("../../../../../workloads/power-cuts.ops")).expect("a script")
}

fn cut(setup: &Setup, cuts: &Cuts) -> Outcome {
    let crash = Crash::new(&chip(64), setup, &commands()).expect("the script runs");
    crash.run(cuts, |_, _| true).expect("there are cut points")
}

fn assert_kept(setup: &Setup, outcome: &Outcome) {
    let all: Vec<_> = outcome.violations().collect();
    let name = format!("{} {:?}", setup.kind, setup.request.profile);
    for torn in &outcome.torn {
        eprintln!(
            "{name} {}: {} cuts, {} in part, {} full, {:?}, {} violations",
            torn.torn,
            torn.cuts,
            torn.partial_writes,
            torn.full,
            torn.hazards,
            torn.violations.len()
        );
    }
    let mut seen = std::collections::BTreeSet::new();
    for violation in &all {
        if seen.insert((violation.torn, violation.kind, &violation.path, &violation.found)) {
            eprintln!("{violation:?}");
        }
    }
    assert!(all.is_empty(), "{name}: {} violations", all.len());
}

/// Cuts everywhere; of a script that changes the medium and erases more often than so.
fn exhaustive(kind: &'static str, operations_min: u64, erases_min: u64) {
    assert_eq!(commands().commands().count(), 300);
    let setup = setup(kind);
    let outcome = cut(&setup, &Cuts::default());
    assert!(
        outcome.operations > operations_min && outcome.erases > erases_min,
        "{} {}",
        outcome.operations,
        outcome.erases
    );
    assert_eq!(outcome.refused_lines, 0);
    assert_eq!(outcome.cuts(), 3 * outcome.operations);
    assert_kept(&setup, &outcome);
}

#[test]
fn jffs2_keeps_its_guarantee_wherever_it_is_cut() {
    exhaustive("jffs2", 900, 30);
}

#[test]
fn ubifs_keeps_its_guarantee_wherever_it_is_cut() {
    // Less is written, because files are written back later.
    exhaustive("ubifs", 700, 15);
}

#[test]
fn yaffs2_keeps_its_guarantee_wherever_it_is_cut() {
    exhaustive("yaffs2", 900, 30);
}

/// File systems that do their own cleaning on raw NAND.
fn raw_kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.is_shown && !kind.is_on_block_device)
}

#[test]
fn jffs2_over_block2mtd_is_refused_on_mtdblock() {
    let setup = setup("jffs2-block2mtd");
    let error = Crash::new(&chip(64), &setup, &commands()).err().expect("refused");
    assert!(error.to_string().starts_with("block device `mtdblock`"), "{error}");
}

#[test]
fn every_profile_keeps_the_guarantee() {
    for kind in raw_kinds() {
        for profile in &kind.profiles[1..] {
            let setup = setup_of(kind.name, Some(profile), Sabotage::None);
            let cuts = Cuts { every: 7, ..Cuts::default() };
            assert_kept(&setup, &cut(&setup, &cuts));
        }
    }
}

#[test]
fn every_file_system_on_raw_nand_has_a_guarantee() {
    let kinds: Vec<&str> = raw_kinds().map(|kind| kind.name).collect();
    let guarantees: Vec<&str> = guarantees().map(|guarantee| guarantee.kind).collect();
    assert!(kinds.iter().all(|kind| guarantees.contains(kind)), "{guarantees:?}");
}

#[test]
fn a_sync_that_does_nothing_is_found_out() {
    for kind in ["jffs2", "ubifs"] {
        let setup = setup_of(kind, None, Sabotage::ForgetSyncs);
        let outcome = cut(&setup, &Cuts { every: 5, ..Cuts::default() });
        assert!(outcome.violations().any(|violation| violation.kind == ViolationKind::Lost));
    }
}

#[test]
fn a_record_that_is_missing_is_found_out() {
    // A record that is soon replaced is missed at few cut points: the worst of some counts.
    for kind in raw_kinds() {
        let found = [10, 30, 60, 100].map(|number| {
            let setup = setup_of(kind.name, None, Sabotage::LoseProgram(number));
            let outcome = cut(&setup, &Cuts { every: 29, ..Cuts::default() });
            (outcome.violations().count(), outcome.cuts())
        });
        eprintln!("{}: violations and cuts {found:?}", kind.name);
        assert!(found.iter().any(|(violations, _)| *violations > 10), "{}: {found:?}", kind.name);
    }
}
