//! What is kept of a run that is left before its end. The request to leave is one for the process: this test
//! has one of its own, for it would end all others.

use file_systems::find_kind;
use mount::{Driver, MountRequest};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use script_runner::{Observed, Setup, run, run_observed};
use std::rc::Rc;

fn setup() -> Setup {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.blocks = 32;
    let layout = find_layout("linux-large").expect("in the table");
    Setup {
        kind: Some(find_kind("jffs2").expect("in the table")),
        driver: Driver::of_board(layout, Rc::new(board::Board::without_costs())),
        request: MountRequest { has_write_back: false, seed: 1, ..MountRequest::default() },
        part,
        keeps_going: false,
        logs_operations: false,
    }
}

#[test]
fn a_run_that_is_left_keeps_what_whole_lines_have_counted() {
    let script = "mount -\nphase one\nput a 644 5000 1000 x 1 fsync\nend\nphase two\n\
                  put b 644 5000 1000 x 2 fsync\nput c 644 5000 1000 x 3 fsync\n";
    let commands = script::parse(script).expect("a script");
    let setup = setup();
    let chip = Chip::new(&setup.part, Storage::Bytes, &FaultSettings::default());
    let whole = run(&commands, chip.clone(), &setup, Box::new(|_, _| true)).expect("right").1;
    let observed = Observed::default();
    // The request comes before the last line, and is heeded within it, as one from outside would be.
    let watch = |done: u64, _: u64| {
        if done == 6 {
            cancellation::request();
        }
        true
    };
    let left = || run_observed(&commands, chip, &setup, Box::new(watch), &observed).map(drop);
    let left = cancellation::catch(left);
    cancellation::withdraw();
    assert_eq!(left, Err(cancellation::Interrupted));
    let so_far = observed.so_far.borrow();
    assert_eq!(so_far.phases, whole.phases[..1]);
    assert_eq!((so_far.place.line, so_far.file_system), (6, Some("jffs2")));
    let (unfinished, ended) = (so_far.unfinished.as_ref().expect("open"), &whole.phases[1]);
    assert_eq!(unfinished.name, "two");
    assert!(unfinished.counts.programs() > 0);
    assert!(unfinished.counts.programs() < ended.counts.programs());
    assert!(unfinished.duration_ns < ended.duration_ns);
}
