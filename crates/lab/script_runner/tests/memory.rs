//! Memory of a script does not grow with the passes of its blocks. This program measures itself, so it has one test.

use file_systems::find_kind;
use mount::{Driver, MountRequest};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use script_runner::{Setup, run};
use std::rc::Rc;

/// The most memory that this process has had, KiB (`VmHWM` in `/proc/self/status`).
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a high-water mark");
    line.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

/// Carries out so many calls, a third of which fail.
fn play(passes: u64) -> u64 {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.blocks = 32;
    let layout = find_layout("linux-large").expect("in the table");
    let setup = Setup {
        kind: Some(find_kind("jffs2").expect("in the table")),
        driver: Driver::of_board(layout, Rc::new(board::Board::without_costs())),
        request: MountRequest { has_write_back: false, seed: 1, ..MountRequest::default() },
        part,
        keeps_going: false,
        logs_operations: false,
    };
    let text = format!(
        "put a 644 4096 4096 x 1\nfor i in 1..{passes} {{\nread a 4096\ntry unlink b\n\
         fails EEXIST mkdir a 755\n}}\n"
    );
    let script = script::parse(&text).expect("a script");
    let chip = Chip::new(&setup.part, Storage::Bytes, &FaultSettings::default());
    let (_, record) = run(&script, chip, &setup, Box::new(|_, _| true)).expect("carried out");
    assert_eq!(record.failures.iter().map(|failure| failure.times).sum::<u64>(), passes);
    record.failures.len() as u64
}

#[test]
fn a_million_calls_take_the_memory_of_a_thousand() {
    assert_eq!(play(333), 1);
    let few_kib = peak_kib();
    assert_eq!(play(333_333), 1);
    let grown_kib = peak_kib() - few_kib;
    // A list of so many commands alone would take over 100 MiB. What is left is the allocator's.
    assert!(grown_kib < 2048, "{grown_kib} KiB more than {few_kib} KiB");
}
