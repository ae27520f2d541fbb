//! Formatting, the first attach and the first volume: the chip's operations one by one, in the order of
//! Linux 6.12 and mtd-utils 2.1.5 on a simulated chip, which takes no time.

use crate::support;

use nand::{ChipOperation, Geometry};
use std::cell::RefCell;
use std::rc::Rc;
use support::{Bench, blank, data, run, threaded};
use ubi::{AttachOptions, FormatOptions, VolumeOptions};

/// An operation as a line: what, and the page (the block of an erase).
fn line(geometry: &Geometry, operation: ChipOperation) -> String {
    let page = |at: nand::PageAddress| at.block * geometry.pages_per_block + at.page;
    match operation {
        ChipOperation::PageRead(at) => format!("R {}", page(at)),
        ChipOperation::SpareRead(at) => format!("O {}", page(at)),
        ChipOperation::PageProgram(at, _) => format!("P {}", page(at)),
        ChipOperation::SpareProgram(at) => format!("Q {}", page(at)),
        ChipOperation::Erase(block) => format!("E {block}"),
    }
}

/// The recorded phases; reads of a part of a page are reads of a page.
fn recorded(name: &str) -> Vec<(String, Vec<String>)> {
    let text = String::from_utf8(data(name)).expect("text");
    let mut phases: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[0] {
            "#" => phases.push((words[2].to_owned(), Vec::new())),
            "S" => phases.last_mut().expect("a phase").1.push(format!("R {}", words[1])),
            _ => phases.last_mut().expect("a phase").1.push(line.to_owned()),
        }
    }
    phases
}

fn take(bench: &Bench) -> Vec<String> {
    let geometry = bench.mtd.geometry().clone();
    let log = bench.mtd.with_chip(nand::Chip::take_log);
    log.into_iter().map(|operation| line(&geometry, operation)).collect()
}

fn replay(name: &'static str, header_offset: Option<u32>, image_sequence: u32) {
    let found = Rc::new(RefCell::new(Vec::new()));
    let phases = found.clone();
    let (_, is_done) = run(blank(512), false, move |bench| async move {
        bench.mtd.with_chip(nand::Chip::start_log);
        let format = FormatOptions { image_sequence, header_offset, keeps_counters: true };
        bench.format(&format).await;
        phases.borrow_mut().push(take(&bench));
        let ubi = bench.attach(AttachOptions { header_offset, ..threaded() }).await;
        bench.sim.sleep(1_200_000_000).await;
        phases.borrow_mut().push(take(&bench));
        ubi.make_volume(&VolumeOptions::new("gold")).await.expect("made");
        bench.sim.sleep(1_200_000_000).await;
        phases.borrow_mut().push(take(&bench));
        assert_eq!(ubi.info().volumes[0].leb_count, 498);
        ubi.detach();
    });
    assert!(is_done);
    let recorded = recorded(name);
    assert_eq!(recorded.iter().map(|phase| phase.1.len()).collect::<Vec<_>>(), [1662, 1046, 28]);
    for ((phase, wanted), found) in recorded.iter().zip(found.take()) {
        let first = wanted.iter().zip(&found).position(|(wanted, found)| wanted != found);
        if let Some(at) = first {
            panic!("{name} {phase}, operation {at}: {} instead of {}", found[at], wanted[at]);
        }
        assert_eq!(found.len(), wanted.len(), "{name} {phase}");
    }
}

#[test]
fn headers_in_sub_pages() {
    replay("ubifs-before-mount.seq.zst", None, 42);
}

#[test]
fn headers_in_pages() {
    replay("ubifs2048-before-mount.seq.zst", Some(2048), 42);
}
