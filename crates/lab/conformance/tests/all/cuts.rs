//! The power is cut at drawn operations of the medium: each row keeps its guarantee.

use crate::every_kind::{chip, driver, request};
use conformance::{Area, succeeding};
use crash::{Crash, CrashError, Cuts, Sabotage, Setup};
use file_systems::KINDS;
use mount::{Kind, run};
use mtd::find_layout;
use random::Stream;
use script::{Script, parse};

const BLOCKS: u32 = 96;
const LINES: usize = 120;
/// Cut points of a script, for each torn model.
const CUTS: u64 = 24;

/// Lines that succeed on an empty file system.
fn lines(kind: &Kind, seed: u64) -> Vec<String> {
    let lines = Area::whole(kind.has_owners_and_links).random_lines(seed, LINES);
    let outcome =
        run(chip(1), &driver(), 1, async move |machine| succeeding(&machine.sim, lines).await);
    outcome.value.expect("no cut").expect("lines of the language")
}

fn script(kind: &Kind, seed: u64) -> Script {
    parse(&lines(kind, seed).join("\n")).expect("a script")
}

fn setup(kind: &Kind, sabotage: Sabotage) -> Setup {
    Setup {
        kind: kind.name,
        request: request(kind, kind.profiles[0]),
        layout: find_layout("linux-large").expect("in the table"),
        seed: 1,
        sabotage,
    }
}

#[test]
fn a_row_with_a_guarantee_keeps_it_at_drawn_cuts() {
    for kind in KINDS.iter().filter(|kind| kind.guarantee.is_some()) {
        let crash = Crash::new(&chip(BLOCKS), &setup(kind, Sabotage::None), &script(kind, 5));
        let crash = crash.unwrap_or_else(|error| panic!("{}: {error}", kind.name));
        let mut stream = Stream::new(7, kind.name);
        for _ in 0..CUTS {
            let at = u64::from(stream.below(crash.operations() as u32));
            let cuts = Cuts { only: Some(at), ..Cuts::default() };
            let outcome = crash.run(&cuts, |_, _| true).expect("there is such a cut point");
            assert_eq!(outcome.cuts(), outcome.torn.len() as u64, "{} at {at}", kind.name);
            assert!(outcome.cuts() > 2, "all models of a chip, or of a card");
            assert_eq!(outcome.violations().next(), None, "{} at {at}", kind.name);
        }
    }
}

#[test]
fn a_row_that_forgets_syncs_breaks_its_guarantee() {
    for kind in KINDS.iter().filter(|kind| kind.guarantee.is_some()) {
        let setup = setup(kind, Sabotage::ForgetSyncs);
        // NILFS2 on mtdblock writes nothing behind its mount but for its timer: five seconds
        // (`SC_DEFAULT_TIMEOUT` of `fs/nilfs2/segment.h`).
        let mut lines = lines(kind, 5);
        lines.push("sleep 40000".to_owned());
        let script = parse(&lines.join("\n")).expect("a script");
        let crash = match Crash::new(&chip(BLOCKS), &setup, &script) {
            // Without its syncs it writes nothing at all, which is found before any cut.
            Err(CrashError::NoOperation) => continue,
            other => other.unwrap_or_else(|error| panic!("{}: {error}", kind.name)),
        };
        let every = (crash.operations() / (4 * CUTS)).max(1);
        let cuts = Cuts { every, ..Cuts::default() };
        let outcome = crash.run(&cuts, |_, _| true).expect("there are cut points");
        // YAFFS2 is durable without a sync: what it forgets is the data of open files alone.
        // JFFS2 over block2mtd promises nothing that could be broken.
        let promises_no_sync = kind.guarantee.is_some_and(|row| {
            row.durable == mount::Durable::AtReturn || row.order == mount::Order::Pages
        });
        assert!(
            promises_no_sync || outcome.violations().next().is_some(),
            "{}: no violation in {} cuts",
            kind.name,
            outcome.cuts()
        );
    }
}

#[test]
fn every_row_says_what_survives_a_cut() {
    let without: Vec<&str> =
        KINDS.iter().filter(|kind| kind.guarantee.is_none()).map(|kind| kind.name).collect();
    assert!(without.is_empty(), "{without:?}");
}
