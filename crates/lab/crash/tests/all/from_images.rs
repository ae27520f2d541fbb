//! Cuts that begin with an image: what it shows is safe from the first cut point on, and nothing is made.

use crate::support::bench::{chip, setup};
use crash::{Crash, CrashError, Cuts, Sabotage, Setup};
use file_systems::find_kind;
use mount::{CardContents, Driver, MountRequest, run};
use mtd::find_layout;
use nand::Chip;
use script::{Runner, parse};
use std::rc::Rc;

const BLOCKS: u32 = 256;

/// A chip with a file of 9,000 bytes, unmounted.
fn image_of(name: &'static str) -> Chip {
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    let outcome = run(chip(BLOCKS), &driver, 1, async move |machine| {
        let kind = find_kind(name).expect("in the table");
        let mounted = machine.mount(kind, &MountRequest::default()).await.expect("a blank chip");
        let runner = Rc::new(Runner::new(&machine.sim, mounted.vfs.clone(), 0));
        for command in parse("put old 755 9000 4096 x 7 fsync\n").expect("a script").commands() {
            assert!(runner.carry_out(&command).await.is_ok(), "there is room");
        }
        mounted.unmount().await.expect("it unmounts");
    });
    outcome.chip
}

#[test]
fn what_an_image_shows_is_safe_at_the_first_cut() {
    let script = parse("put new 755 5000 4096 x 1 fsync\nsync\n").expect("a script");
    for kind in ["fat", "jffs2", "nilfs2", "ubifs", "yaffs2"] {
        let image = image_of(kind);
        let card = CardContents::default();
        let crash = Crash::from_image(&image, &card, &setup(kind), &script).expect("it mounts");
        let window = crash.history().window(0);
        let safe = &crash.history().states()[*window.states.start()].tree;
        let old = safe.rows.get(&b"old"[..]).unwrap_or_else(|| panic!("{kind}: it was there"));
        assert_eq!(old.content.len(), 9000, "{kind}");
        let outcome = crash.run(&Cuts { every: 3, ..Cuts::default() }, |_, _| true);
        let outcome = outcome.expect("there are cut points");
        assert_eq!(outcome.violations().next(), None, "{kind}");
    }
}

/// A file that the image held and a lost page took away is missed at every later cut.
#[test]
fn a_file_of_the_image_that_goes_is_missed() {
    let script = parse("put new 755 5000 4096 x 1 fsync\nunlink old\nfsync new\nsync\n");
    let script = script.expect("a script");
    let image = image_of("yaffs2");
    let sabotaged = Setup { sabotage: Sabotage::LoseProgram(0), ..setup("yaffs2") };
    let crash = Crash::from_image(&image, &CardContents::default(), &sabotaged, &script);
    let outcome = crash.expect("it mounts").run(&Cuts::default(), |_, _| true).expect("cuts");
    assert!(outcome.violations().next().is_some(), "{outcome:?}");
}

#[test]
fn a_device_that_holds_nothing_is_not_made_into_a_file_system() {
    let script = parse("put new 755 10 10 x 1\n").expect("a script");
    for kind in ["fat", "nilfs2"] {
        let begun =
            Crash::from_image(&chip(BLOCKS), &CardContents::default(), &setup(kind), &script);
        assert!(matches!(begun.err(), Some(CrashError::Mount(_))), "{kind}");
    }
}
