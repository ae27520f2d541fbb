//! The power is cut at drawn operations of the chip: a row with a guarantee keeps it, any other mounts again
//! or says why it does not.

use crate::every_kind::{chip, driver, lies_on_the_chip, request};
use conformance::{Area, play_lines, succeeding};
use crash::{Crash, CrashError, Cuts, Sabotage, Setup, TORN_MODELS};
use file_systems::KINDS;
use mount::{Kind, MountRequest, run};
use mtd::find_layout;
use nand::CutPoint;
use random::Stream;
use script::{Script, parse};
use vfs::{Manifest, ReadLimits};

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
        request: MountRequest::default(),
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
            let cuts =
                Cuts { only: Some(at), torn: TORN_MODELS.iter().collect(), ..Cuts::default() };
            let outcome = crash.run(&cuts, |_, _| true).expect("there is such a cut point");
            assert_eq!(outcome.cuts(), TORN_MODELS.len() as u64, "{} at {at}", kind.name);
            assert_eq!(outcome.violations().next(), None, "{} at {at}", kind.name);
        }
    }
}

#[test]
fn a_row_that_forgets_syncs_breaks_its_guarantee() {
    for kind in KINDS.iter().filter(|kind| kind.guarantee.is_some()) {
        let setup = setup(kind, Sabotage::ForgetSyncs);
        let crash = match Crash::new(&chip(BLOCKS), &setup, &script(kind, 5)) {
            // Without its syncs it writes nothing at all, which is found before any cut.
            Err(CrashError::NoOperation) => continue,
            other => other.unwrap_or_else(|error| panic!("{}: {error}", kind.name)),
        };
        let every = (crash.operations() / (4 * CUTS)).max(1);
        let cuts = Cuts { every, torn: vec![&TORN_MODELS[0]], ..Cuts::default() };
        let outcome = crash.run(&cuts, |_, _| true).expect("there are cut points");
        // YAFFS2 is durable without a sync: what it forgets is the data of open files alone.
        let is_durable_at_return =
            kind.guarantee.is_some_and(|row| row.durable == mount::Durable::AtReturn);
        assert!(
            is_durable_at_return || outcome.violations().next().is_some(),
            "{}: no violation in {} cuts",
            kind.name,
            outcome.cuts()
        );
    }
}

/// Works until the power is cut at an operation; whether it was cut, and whether it mounts again.
fn cut_without_a_guarantee(kind: &'static Kind, operation: u64, point: CutPoint) -> (bool, bool) {
    let lines = lines(kind, 5);
    let mut blank = chip(BLOCKS);
    blank.cut_power_after(operation, point);
    let outcome = run(blank, &driver(), 1, async move |machine| {
        let asked = request(kind, kind.profiles[0]);
        let mounted = machine.mount(kind, &asked).await.expect("a blank chip");
        play_lines(&machine.sim, &mounted.vfs, &lines).await.expect("played");
        mounted.unmount().await.expect("it unmounts");
    });
    let is_cut = outcome.value.is_none();
    let mut left = outcome.chip;
    left.power_on();
    let again = run(left, &driver(), 1, async move |machine| {
        let asked = request(kind, kind.profiles[0]);
        let Ok(mounted) = machine.mount(kind, &asked).await else { return false };
        let limits = ReadLimits { has_hashes: true, file_bytes_max: 1 << 30 };
        // Nothing is promised but that it reads or says what it cannot read.
        let _ = Manifest::of_damaged(&*mounted.file_system, &limits).await;
        let _ = mounted.unmount().await;
        true
    });
    (is_cut, again.value.expect("the power is not cut again"))
}

#[test]
fn a_row_without_a_guarantee_mounts_again_or_refuses() {
    let without = |kind: &&Kind| kind.guarantee.is_none() && lies_on_the_chip(kind);
    for kind in KINDS.iter().filter(without) {
        let points = [CutPoint::Before, CutPoint::Inside, CutPoint::After];
        let (mut cuts, mut mounts) = (0, 0);
        for number in 0..CUTS {
            let mut stream = Stream::new(number, kind.name);
            let operation = u64::from(1 + stream.below(4000));
            let point = points[number as usize % points.len()];
            let (is_cut, mounts_again) = cut_without_a_guarantee(kind, operation, point);
            cuts += u32::from(is_cut);
            mounts += u32::from(mounts_again);
        }
        eprintln!("{}: {mounts} of {CUTS} mount again after {cuts} cuts", kind.name);
        assert!(cuts > 0 && mounts > 0, "{}: {cuts} cuts, {mounts} mounts", kind.name);
    }
}
