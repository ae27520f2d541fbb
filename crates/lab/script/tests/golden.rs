//! Scripts that real kernels carried out, on a file system in memory: the tree must be the one that
//! the kernel showed before it was unmounted.

use fs_api::{Caller, Time};
use script::{Data, DataKind, Runner, parse};
use sim::Simulation;
use std::rc::Rc;
use vfs::{Manifest, MemoryFileSystem, Vfs};

/// A manifest without the times.
fn comparable(manifest: &str) -> Vec<Vec<&str>> {
    let rows = manifest.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| {
        let mut cells: Vec<&str> = line.split('\t').collect();
        cells[6] = "";
        cells
    })
    .collect()
}

fn run(text: &str) -> String {
    let script = parse(text).expect("a golden script");
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let root = Caller { uid: 0, gid: 0, now: Time::from_seconds(1_795_181_000) };
    let vfs = Rc::new(Vfs::new(&sim, Rc::new(MemoryFileSystem::new(&root))));
    let runner = Runner::new(&sim, vfs.clone(), 1_795_181_000);
    let done = sim.spawn(async move {
        for command in script.commands() {
            let step = runner.step(&command.step).await;
            step.unwrap_or_else(|error| panic!("line {}: {error}", command.place));
        }
        Manifest::of(&**vfs.file_system()).await.expect("a file system in memory").to_tsv()
    });
    simulation.run();
    done.try_take().expect("the script came to its end")
}

#[test]
fn the_tree_is_the_one_the_kernel_showed() {
    // JFFS2 gives the root directory a link more than it has.
    let triples = [
        (include_str!("data/clean.ops"), include_str!("data/clean.before-umount.tsv"), 1),
        (include_str!("data/gc.ops"), include_str!("data/gc.before-umount.tsv"), 1),
        (
            include_str!("data/ubifs-clean.ops"),
            include_str!("data/ubifs-clean.before-umount.tsv"),
            0,
        ),
    ];
    for (script, expected, root_links) in triples {
        let found = run(script);
        let (mut found, expected) = (comparable(&found), comparable(expected));
        let links = (found[0][2].parse::<u32>().expect("a number") + root_links).to_string();
        found[0][2] = &links;
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected);
        }
        assert_eq!(found.len(), expected.len());
    }
}

#[test]
fn every_workload_that_was_counted_can_be_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../workloads/raw-nand");
    let mut count = 0;
    for file in std::fs::read_dir(folder).expect("the folder of the scripts") {
        let path = file.expect("an entry").path();
        if path.extension().is_none_or(|extension| extension != "ops") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a script");
        let script = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(script.commands().count() > 5);
        count += 1;
    }
    assert_eq!(count, 21);
}

/// Linux 6.12 shows the same (`vfs_mkdir`).
#[test]
fn mkdir_takes_no_set_group_id() {
    let shown = run("mkdir a 2755\nmkdir b 1777\n");
    let modes: Vec<&str> =
        shown.lines().skip(2).filter_map(|line| line.split('\t').nth(1)).collect();
    assert_eq!(modes, ["0755", "1777"]);
}

#[test]
fn bytes_of_a_line_are_written_as_if_they_were_drawn() {
    let hex =
        |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let bytes = Data::new(DataKind::Incompressible, 3).take(9000);
    let (first, rest) = bytes.split_at(5000);
    let drawn = run("put a 644 9000 4096 x 3\n");
    let given = format!("put a 644 5000 512 h {}\n", hex(first));
    let appended = format!("{given}append a 4000 4000 h {}\nread a 100 8k 5000\n", hex(rest));
    assert_eq!(comparable(&run(&appended)), comparable(&drawn));
    assert_ne!(comparable(&run(&given)), comparable(&drawn));
    let written = format!("{given}write a 5000 4000 1 h {}\nread a 100 1m 5\n", hex(rest));
    assert_eq!(comparable(&run(&written)), comparable(&drawn));
}
