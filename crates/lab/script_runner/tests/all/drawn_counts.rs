//! Workloads drawn at random that YAFFS2's library carried out: every phase has the same operations of
//! the chip here, collection included.

use file_systems::find_kind;
use mount::{Driver, MountRequest};
use mtd::{OperationCounts, find_layout};
use nand::{Chip, FaultSettings, Storage, find_part};
use script_runner::{Setup, run};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// Reads, programs, erases; reads of whole pages and of spare areas alone.
type Counts = [u64; 5];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../workloads/raw-nand/drawn")
}

fn text(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Phases of every workload, in order, with what the library did.
fn recorded() -> BTreeMap<String, Vec<(String, Counts)>> {
    let mut all: BTreeMap<String, Vec<(String, Counts)>> = BTreeMap::new();
    for line in text("counts.csv").lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let counts = [2, 3, 4, 5, 6].map(|at| cells[at].parse().expect("a number"));
        all.entry(cells[0].to_owned()).or_default().push((cells[1].to_owned(), counts));
    }
    all
}

fn shown(workload: &str) -> Vec<(String, Counts)> {
    let commands = script::parse(&text(&format!("{workload}.ops"))).expect("a script");
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.blocks = script::blocks_wanted(&commands).expect("it says how many blocks");
    let layout = find_layout("linux-large").expect("in the table");
    let setup = Setup {
        kind: Some(find_kind("yaffs2").expect("in the table")),
        driver: Driver::of_board(layout, Rc::new(board::Board::without_costs())),
        request: MountRequest {
            profile: Some("yaffs-direct".into()),
            has_write_back: false,
            seed: 1,
            ..MountRequest::default()
        },
        part,
        // The library ran out of space in some of them, too.
        keeps_going: true,
        logs_operations: false,
    };
    let chip = Chip::new(&setup.part, Storage::Bytes, &FaultSettings::default());
    let (_, record) = run(&commands, chip, &setup, Box::new(|_, _| true)).expect(workload);
    let counts = |counts: OperationCounts| {
        let reads = [counts.full_reads, counts.oob_reads];
        [counts.reads(), counts.programs(), counts.erases, reads[0], reads[1]]
    };
    record.phases.into_iter().map(|phase| (phase.name, counts(phase.counts))).collect()
}

fn assert_equal(prefix: &str, workloads_min: usize) {
    let mut wrong = Vec::new();
    let recorded = recorded();
    let chosen = recorded.iter().filter(|(workload, _)| workload.starts_with(prefix));
    let mut count = 0;
    for (workload, phases) in chosen {
        count += 1;
        let shown = shown(workload);
        assert_eq!(shown.len(), phases.len(), "{workload}");
        for ((phase, here), (name, there)) in shown.iter().zip(phases) {
            assert_eq!(phase, name, "{workload}");
            if here != there {
                wrong.push(format!("{workload} {phase}: {here:?}, the library {there:?}"));
            }
        }
    }
    assert!(count >= workloads_min, "{count} workloads");
    assert!(wrong.is_empty(), "{} phases differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn overwrites_under_collection_cost_what_they_cost_the_library() {
    assert_equal("drawn-", 10);
}

#[test]
fn calls_of_every_kind_cost_what_they_cost_the_library() {
    assert_equal("mixed-", 10);
}
