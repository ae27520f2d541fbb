//! Workloads that real code carried out, replayed: operations of the chip by phase.

use harness::{Record, Setup, run};
use mount::{Driver, MountRequest, find_kind};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// Reads, programs and erases.
type Counts = [u64; 3];

fn file(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads/raw-nand");
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The setup under which `implementation` ran the workload.
fn setup(implementation: &str, blocks: u32, seed: u64) -> Setup {
    let (kind, profile) = match implementation {
        "jffs2" => ("jffs2", "linux-6.12"),
        "yaffs2" => ("yaffs2", "linux-6.1"),
        "yaffsdirect" => ("yaffs2", "yaffs-direct"),
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

#[test]
fn show() {
    for workload in [
        "jffs2/base-x",
        "jffs2/base-t",
        "jffs2/cut-x",
        "jffs2/fill-x",
        "jffs2/gc-x",
        "yaffs2/base-x",
        "yaffs2/base-t",
        "yaffs2/cut-x",
        "yaffs2/fill-x",
        "yaffs2/gc-x",
        "yaffsdirect/base-x",
        "yaffsdirect/cut-x",
        "yaffsdirect/fill-x",
        "yaffsdirect/gc-x",
    ] {
        let record = replay(workload, 1);
        let recorded = recorded(workload);
        for phase in record.phases {
            let c = [phase.counts.reads(), phase.counts.programs(), phase.counts.erases];
            let r = &recorded[&phase.name];
            if !r.contains(&c) {
                println!("{workload} {} {c:?} {r:?}", phase.name);
            }
        }
    }
}
