//! Workloads that real code carried out, replayed: operations of the chip by phase.

use file_systems::find_kind;
use mount::{Driver, MountRequest, UbiRequest};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use script_runner::{Record, Setup, run};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// Reads, programs and erases.
type Counts = [u64; 3];

fn file(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../workloads/raw-nand");
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The setup under which `implementation` ran the workload.
fn setup(implementation: &str, blocks: u32, seed: u64) -> Setup {
    let (kind, profile) = match implementation {
        "jffs2" => ("jffs2", "linux-6.12"),
        "yaffs2" => ("yaffs2", "linux-6.1"),
        "yaffsdirect" => ("yaffs2", "yaffs-direct"),
        "ubifs" | "ubifs2048" => ("ubifs", "linux-6.12"),
        other => panic!("{other}"),
    };
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.blocks = blocks;
    let layout = find_layout("linux-large").expect("in the table");
    Setup {
        kind: Some(find_kind(kind).expect("in the table")),
        driver: Driver::of_board(layout, Rc::new(board::Board::without_costs())),
        request: MountRequest {
            profile: Some(profile.into()),
            has_write_back: false,
            seed,
            // The device of the workloads called gc is a partition of the same chip.
            ubi: UbiRequest { chip_blocks: Some(512), ..UbiRequest::default() },
            ..MountRequest::default()
        },
        part,
        keeps_going: false,
        logs_operations: false,
    }
}

fn replay(workload: &str, seed: u64) -> Record {
    let (implementation, name) = workload.split_once('/').expect("implementation/name");
    let blocks = if name.starts_with("gc-") { 64 } else { 512 };
    let setup = setup(implementation, blocks, seed);
    let text = file(&format!("{}.ops", workload.replace('/', "-")));
    let commands = script::parse(&text).expect("a script");
    let chip = Chip::new(&setup.part, Storage::Bytes, &FaultSettings::default());
    let (_, record) = run(&commands, chip, &setup, Box::new(|_, _| true)).expect(workload);
    record
}

/// Counts by phase of every run that was recorded.
fn recorded(workload: &str) -> BTreeMap<String, Vec<Counts>> {
    let mut phases: BTreeMap<String, Vec<Counts>> = BTreeMap::new();
    for line in file("counts.csv").lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        if cells[0] == workload {
            let counts = [2, 3, 4].map(|at| cells[at].parse().expect("a number"));
            phases.entry(cells[1].to_owned()).or_default().push(counts);
        }
    }
    phases
}

/// Phases with what threads do after a mount added to the mount: the border is a matter of timing.
fn joined<T>(
    phases: impl IntoIterator<Item = (String, T)>,
    add: impl Fn(&mut T, T),
) -> Vec<(String, T)> {
    let mut joined: Vec<(String, T)> = Vec::new();
    for (name, counts) in phases {
        match joined.last_mut() {
            Some((mount, sum)) if name == format!("{mount}-bg") => add(sum, counts),
            _ => joined.push((name, counts)),
        }
    }
    joined
}

fn shown(workload: &str, seed: u64) -> Vec<(String, Counts)> {
    let counts = |phase: script_runner::PhaseCounts| {
        let counts = phase.counts;
        (phase.name, [counts.reads(), counts.programs(), counts.erases])
    };
    joined(replay(workload, seed).phases.into_iter().map(counts), |sum, more| {
        (0..3).for_each(|at| sum[at] += more[at]);
    })
}

/// Figures of a workload that `is_near` refuses, beside those that were recorded.
fn wrong(
    workload: &str,
    seed: u64,
    is_near: impl Fn(&str, usize, u64, u64) -> bool,
) -> Vec<String> {
    let recorded = recorded(workload);
    let mut wrong = Vec::new();
    for (phase, counts) in shown(workload, seed) {
        let background = recorded.get(&format!("{phase}-bg"));
        let runs = recorded[&phase].iter().enumerate().map(|(run, counts)| {
            let more = background.map_or([0; 3], |runs| runs[run]);
            [0, 1, 2].map(|at| counts[at] + more[at])
        });
        let runs: Vec<Counts> = runs.collect();
        let differs = |at: usize| runs.iter().all(|run| !is_near(&phase, at, counts[at], run[at]));
        if (0..3).any(differs) {
            wrong.push(format!("{workload} {phase}: {counts:?}, recorded {runs:?}"));
        }
    }
    wrong
}

fn assert_none(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_library_makes_the_same_operations() {
    for workload in ["base-x", "cut-x", "fill-x", "gc-x"] {
        let workload = format!("yaffsdirect/{workload}");
        assert_none(&wrong(&workload, 1, |_, _, shown, recorded| shown == recorded));
    }
}

#[test]
fn the_module_makes_the_same_operations_but_for_a_header_now_and_then() {
    for workload in ["base-x", "base-t", "cut-x", "fill-x", "gc-x"] {
        let workload = format!("yaffs2/{workload}");
        assert_none(&wrong(&workload, 1, |_, _, shown, recorded| shown.abs_diff(recorded) <= 2));
    }
}

/// Phases of JFFS2 in which nothing is left to chance.
fn is_plain(workload: &str, phase: &str) -> bool {
    let phases: &[&str] = match workload {
        "jffs2/base-x" => &["first-mount", "create", "seq-s4k", "seq-s32k", "rnd-end", "read"],
        "jffs2/cut-x" => &["first-mount", "fill", "write-fsynced", "write-unsynced"],
        "jffs2/fill-x" => &["first-mount", "fill1", "fill1-umount", "fill2"],
        _ => &["first-mount"],
    };
    phases.contains(&phase)
}

/// Single seeds stray further than the mean of many, which `docs/validation.md` shows.
#[test]
fn jffs2_makes_the_same_operations_where_nothing_is_left_to_chance_and_similar_ones_elsewhere() {
    for workload in ["jffs2/base-x", "jffs2/base-t", "jffs2/cut-x", "jffs2/fill-x", "jffs2/gc-x"] {
        assert_none(&wrong(workload, 1, |phase, kind, shown, recorded| {
            let difference = shown.abs_diff(recorded);
            if is_plain(workload, phase) {
                // An fsync moves a node, which may lie on a page more or less.
                return difference == 0 || (kind == 0 && recorded > 0 && difference <= 2);
            }
            // A mount may find just enough dirt to collect one more block.
            difference * 3 <= recorded || difference <= if kind == 1 { 64 } else { 5 }
        }));
    }
}

const UBIFS: [&str; 7] = [
    "ubifs/base-t",
    "ubifs/base-x",
    "ubifs/cut-x",
    "ubifs/fill-x",
    "ubifs/gc-x",
    "ubifs2048/base-x",
    "ubifs2048/fill-x",
];

/// UBIFS writes an inode again when a second has ended since: a chip of 64 blocks
/// that is full of such nodes has others to collect then. `docs/validation.md` shows the median of many
/// seeds, which begin anywhere in a second.
fn depends_on_the_clock(workload: &str, phase: &str) -> bool {
    let phases: &[&str] = match workload {
        "ubifs/gc-x" => &["ow1", "ow2", "ow3", "ow4", "re-mount"],
        "ubifs/base-t" | "ubifs/base-x" | "ubifs2048/base-x" => {
            &["rnd-each", "re-mount", "re2-mount"]
        }
        _ => &[],
    };
    phases.contains(&phase)
}

#[test]
fn ubifs_makes_the_same_operations_but_for_inodes_written_at_the_end_of_a_second() {
    for workload in UBIFS {
        assert_none(&wrong(workload, 1, |phase, kind, shown, recorded| {
            let difference = shown.abs_diff(recorded);
            let is_late = workload == "ubifs2048/fill-x" && (phase, kind) == ("ow", 0);
            if !depends_on_the_clock(workload, phase) {
                return difference == 0 || is_late && difference == 1;
            }
            difference <= 1 || workload == "ubifs/gc-x" && difference * 10 <= recorded
        }));
    }
}
