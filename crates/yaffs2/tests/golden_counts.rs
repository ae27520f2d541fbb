//! Operations of the chip, phase by phase, against those that the real code made for the same calls.

mod common;

use common::ops::Shell;
use common::{Bench, blank_chip, data};
use std::cell::RefCell;
use std::rc::Rc;
use yaffs2::{MountOptions, find_profile};

/// Reads, programs, erases of a phase.
type Counts = [u64; 3];

fn replay(
    profile: &'static str,
    script: &str,
    blocks: u32,
    takes_time: bool,
) -> Vec<(String, Counts)> {
    let mut bench = Bench::timed(blank_chip(blocks), "linux-large", takes_time);
    let options = MountOptions::new(find_profile(profile).expect("in the table"));
    let text = String::from_utf8(data(&format!("oplog/{script}.ops"))).expect("a script");
    let sim = bench.simulation.handle();
    let mut shell = Shell::new(sim.clone(), bench.mtd.clone(), bench.cpus.clone(), options);
    let phases = Rc::new(RefCell::new(Vec::new()));
    let place = phases.clone();
    sim.spawn(async move {
        shell.run(&text).await;
        shell.unmount().await;
        *place.borrow_mut() = std::mem::take(&mut shell.phases);
    });
    bench.simulation.run();
    let phases = phases.take();
    let counts =
        |counters: nand::Counters| [counters.reads(), counters.programs(), counters.erases];
    phases.into_iter().map(|(name, counters)| (name, counts(counters))).collect()
}

fn golden(workload: &str) -> Vec<(String, Counts)> {
    let table = String::from_utf8(data("oplog/counts.csv")).expect("a table");
    let rows = table.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse().expect("a number");
        (fields[0] == workload).then(|| (fields[1].to_owned(), [number(2), number(3), number(4)]))
    });
    rows.collect()
}

/// Replays a workload; phases that differ by more than `slack` operations of a kind are told, and
/// counted.
fn check(workload: &str, profile: &'static str, blocks: u32, slack: u64) -> usize {
    let script = workload.replace('/', "-");
    let shown = replay(profile, &script, blocks, profile == "linux-6.1");
    let mut wrong = 0;
    for (name, wanted) in golden(workload) {
        // What the background task does at the mount belongs to either phase.
        if name.ends_with("-mount-bg") {
            continue;
        }
        let sum = |table: &[(String, Counts)]| {
            let both = [name.clone(), format!("{name}-bg")];
            let rows = table.iter().filter(|(name, _)| both.contains(name));
            rows.fold([0; 3], |sum, (_, row)| std::array::from_fn(|at| sum[at] + row[at]))
        };
        if !shown.iter().any(|(shown, _)| *shown == name) {
            // The library's phases after a power cut were recorded by another run.
            continue;
        }
        let (shown, real) = (sum(&shown), sum(&golden(workload)));
        if (0..3).any(|at| shown[at].abs_diff(real[at]) > slack) {
            eprintln!("{workload} {name}: {shown:?}, real {wanted:?}");
            wrong += 1;
        }
    }
    wrong
}

/// The library is exactly repeatable. It keeps the place where it looks for the next object number
/// over an unmount, a kernel does not: that changes the order of a directory, and two reads.
#[test]
fn the_library_makes_the_same_operations() {
    assert_eq!(check("yaffsdirect/base-x", "yaffs-direct", 512, 0), 0);
    assert_eq!(check("yaffsdirect/cut-x", "yaffs-direct", 512, 0), 0);
    assert_eq!(check("yaffsdirect/gc-x", "yaffs-direct", 64, 0), 0);
    assert_eq!(check("yaffsdirect/fill-x", "yaffs-direct", 512, 2), 0);
}

/// In the module the background task may write a directory once more or less.
#[test]
fn the_module_makes_the_same_operations() {
    assert_eq!(check("yaffs2/base-x", "linux-6.1", 512, 0), 0);
    assert_eq!(check("yaffs2/cut-x", "linux-6.1", 512, 1), 0);
    assert_eq!(check("yaffs2/fill-x", "linux-6.1", 512, 2), 0);
}

/// How much is collected in the background depends on how fast the machine was.
#[test]
fn the_module_collects_about_as_much() {
    let total = |table: &[(String, Counts)]| {
        let phases = table.iter().filter(|(name, _)| name.starts_with("ow"));
        phases.fold([0; 3], |sum, (_, row)| std::array::from_fn(|at| sum[at] + row[at]))
    };
    let shown: Counts = total(&replay("linux-6.1", "yaffs2-gc-x", 64, true));
    let real: Counts = total(&golden("yaffs2/gc-x"));
    for (shown, real) in shown.into_iter().zip(real) {
        assert!(shown.abs_diff(real) * 4 <= real, "{shown} of {real}");
    }
}
