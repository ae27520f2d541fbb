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

fn replay(workload: &str, seed: u64, costs: [u64; 3]) -> Record {
    let (implementation, name) = workload.split_once('/').expect("implementation/name");
    let blocks = if name.starts_with("gc-") { 64 } else { 512 };
    let mut setup = setup(implementation, blocks, seed);
    let mut b = board::Board::without_costs();
    b.hz = 250;
    b.raw_nand.read_page_ns = costs[0] * 1000;
    b.raw_nand.program_page_ns = costs[1] * 1000;
    b.work.zlib_compress_ps_per_byte = costs[2] * 700;
    b.work.rtime_compress_ps_per_byte = costs[2] * 200;
    b.work.lzo_compress_ps_per_byte = costs[2] * 100;
    setup.driver.board = Rc::new(b);
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

fn main() {
    let a: Vec<String> = std::env::args().collect();
    let n = |i: usize| a[i].parse::<u64>().unwrap();
    let costs = [n(3), n(4), n(5)];
    let seeds = n(2);
    let workload = &a[1];
    let rec = recorded(workload);
    let mut sums: Vec<(String, [f64; 3])> = Vec::new();
    for seed in 1..=seeds {
        let record = replay(workload, seed, costs);
        for (i, p) in record.phases.iter().enumerate() {
            let c = [p.counts.reads(), p.counts.programs(), p.counts.erases];
            if sums.len() <= i {
                sums.push((p.name.clone(), [0.0; 3]));
            }
            for k in 0..3 {
                sums[i].1[k] += c[k] as f64 / seeds as f64;
            }
        }
    }
    let mut i = 0;
    while i < sums.len() {
        let name = sums[i].0.clone();
        let mut ours = sums[i].1;
        let mean = |name: &str| {
            let r = &rec[name];
            [0, 1, 2].map(|k| r.iter().map(|c| c[k] as f64).sum::<f64>() / r.len() as f64)
        };
        let mut k = mean(&name);
        if name.ends_with("-mount") && i + 1 < sums.len() && sums[i + 1].0.ends_with("-bg") {
            for j in 0..3 {
                ours[j] += sums[i + 1].1[j];
                k[j] += mean(&sums[i + 1].0)[j];
            }
            i += 1;
        }
        let tol = [0.13, 0.07, 0.12];
        let bad = (0..3).any(|j| {
            let d = (ours[j] - k[j]).abs();
            d > 2.0 && d > tol[j] * k[j]
        });
        let pc: Vec<String> = (0..3)
            .map(|j| {
                if k[j] > 0.0 {
                    format!("{:+.1}%", 100.0 * (ours[j] - k[j]) / k[j])
                } else {
                    "-".into()
                }
            })
            .collect();
        println!(
            "{} {name:14} ours {:.0} {:.0} {:.1}  kernel {:.0} {:.0} {:.1}  {}",
            if bad { "BAD" } else { "ok " },
            ours[0],
            ours[1],
            ours[2],
            k[0],
            k[1],
            k[2],
            pc.join(" ")
        );
        i += 1;
    }
}
