//! Scripts that fail are made smaller, and fail in the same way: planted faults, and a broken expectation.

use crash::{
    Bench, Crash, Cuts, FailureKind, HEAD_LINES, Minimised, Recoveries, Sabotage, Setup, Symptom,
    ViolationKind, find_torn_model, minimise,
};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};

/// Lines of the smallest scripts here: UBIFS writes once a page of the medium is full, which takes seven.
const HANDFUL: usize = 7;
const CALLS: &str = include_str!("../../../../../workloads/power-cuts.ops");

fn bench(kind: &'static str, sabotage: Sabotage) -> Bench {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 64;
    part.geometry.pages_per_block = 16;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let layout = find_layout("linux-large").expect("in the table");
    let request = MountRequest::default();
    Bench { chip, setup: Setup { kind, request, layout, seed: 1, sabotage }, workers: None }
}

/// The first lines of the calls: the whole is for the long run.
fn some_calls() -> String {
    CALLS.split_inclusive('\n').take(60).collect()
}

fn smallest(bench: &Bench, text: &str, cuts: &Cuts) -> Option<Minimised> {
    minimise(bench, text, cuts, None, &mut |_| true).expect("the script runs")
}

/// The kinds of the violations that a cut of a script shows.
fn shown(bench: &Bench, found: &Minimised) -> Vec<ViolationKind> {
    let text = "#\n".repeat(HEAD_LINES) + &found.text;
    let script = script::parse(&text).expect("a script");
    let crash = Crash::new(&bench.chip, &bench.setup, &script).expect("it runs");
    let then = found.failure.then.split_whitespace();
    let then: Vec<_> = then.map(|one| one.parse().expect("a cut")).collect();
    let recoveries = if then.is_empty() { Recoveries::None } else { Recoveries::Only(then) };
    let torn = vec![find_torn_model(found.failure.torn).expect("in the table")];
    let cuts = Cuts { only: found.failure.cut_point, torn, recoveries, ..Cuts::default() };
    let outcome = crash.run(&cuts, |_, _| true).expect("there is such a cut");
    outcome.violations().map(|violation| violation.kind).collect()
}

#[test]
fn a_planted_fault_is_left_with_a_handful_of_lines() {
    for kind in ["jffs2", "ubifs"] {
        let text = some_calls();
        let every = Cuts { every: 7, ..Cuts::default() };
        // The same calls without the fault: nothing fails, and nothing is made smaller.
        assert_eq!(smallest(&bench(kind, Sabotage::None), &text, &every), None, "{kind}");
        let planted = bench(kind, Sabotage::ForgetSyncs);
        let found = smallest(&planted, &text, &every).expect("a planted fault");
        let lines: Vec<&str> = found.text.lines().collect();
        eprintln!("{kind}: {} tried, {lines:?}, {}", found.tried, found.failure.shown);
        assert!(lines.len() <= HANDFUL, "{kind}: {lines:?}");
        let FailureKind::Violation { rule, .. } = found.failure.kind else {
            panic!("{kind}: {:?}", found.failure)
        };
        assert!(shown(&planted, &found).contains(&rule), "{kind}: {lines:?}");
        // The sentence counts the lines of the head.
        let line = found.failure.shown.split("line ").nth(1).expect("a line").to_owned();
        let line: usize =
            line.split([':', ',']).next().expect("a number").parse().expect("a number");
        assert!(line > HEAD_LINES && line <= HEAD_LINES + lines.len(), "{}", found.failure.shown);
        // Once more, it is the same script.
        assert_eq!(smallest(&planted, &text, &every).as_ref(), Some(&found), "{kind}");
    }
}

#[test]
fn an_expectation_is_broken_by_the_same_symptom() {
    let text = include_str!("../../../../../workloads/config-truncate.ops");
    let bench = bench("ubifs", Sabotage::None);
    let found = smallest(&bench, text, &Cuts::default()).expect("it is broken");
    let FailureKind::Expectation { line, symptom } = &found.failure.kind else {
        panic!("{:?}", found.failure)
    };
    assert!(found.text.contains(line.as_str()), "{}", found.text);
    assert!(matches!(symptom, Symptom::Empty | Symptom::CutShort | Symptom::Zeros), "{symptom:?}");
    // The block stays: a few small writes wait in memory, where no cut takes them.
    let lines = found.text.lines().filter(|line| *line != "}").count();
    assert!(lines <= HANDFUL, "{}", found.text);
}

#[test]
fn a_search_that_is_stopped_hands_out_what_it_has() {
    let planted = bench("jffs2", Sabotage::ForgetSyncs);
    let mut told = 0;
    let mut progress = |_| {
        told += 1;
        told < 40
    };
    let every = Cuts { every: 7, ..Cuts::default() };
    let found = minimise(&planted, &some_calls(), &every, None, &mut progress);
    let found = found.expect("the script runs").expect("a planted fault");
    assert!(found.interrupted);
    assert!(!shown(&planted, &found).is_empty(), "{}", found.text);
    let whole = smallest(&planted, &some_calls(), &every).expect("a planted fault");
    assert!(!whole.interrupted && whole.text.len() < found.text.len());
}
