//! What the tests share: chips, simulations, golden images.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod model;

use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
use nand::{Chip, FaultSettings, ImageLayout, Part, Storage, find_part};
use sim::{Cpus, RunEnd, Sim, Simulation};
use std::path::Path;
use std::rc::Rc;
use ubi::{AttachError, AttachOptions, FormatOptions, Ubi, find_profile};

pub(crate) const BLOCK_BYTES: usize = 64 * 2048;

pub(crate) fn data(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::decode_all(&bytes[..]).expect("a sound archive")
}

pub(crate) fn part(blocks: u32) -> Part {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.blocks = blocks;
    part
}

/// A chip of small blocks: more of them are needed for the same data, so that more happens.
pub(crate) fn small(blocks: u32, faults: &FaultSettings) -> Chip {
    let mut part = part(blocks);
    part.geometry.pages_per_block = 8;
    Chip::new(&part, Storage::Bytes, faults)
}

pub(crate) fn blank(blocks: u32) -> Chip {
    Chip::new(&part(blocks), Storage::Bytes, &FaultSettings::default())
}

/// A chip with a dump of pages and spare areas.
pub(crate) fn load(dump: &[u8]) -> Chip {
    let blocks = dump.len() / (64 * 2112);
    Chip::load_image(&part(blocks as u32), &mut &dump[..], ImageLayout::WithOob).expect("it fits")
}

/// What a test has at hand inside the simulation.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) mtd: Rc<Mtd>,
}

impl Bench {
    pub(crate) async fn format(&self, options: &FormatOptions) {
        Ubi::format(&self.sim, self.cpus.clone(), self.mtd.clone(), options)
            .await
            .expect("it is formatted");
    }

    pub(crate) async fn try_attach(&self, options: AttachOptions) -> Result<Rc<Ubi>, AttachError> {
        Ubi::attach(&self.sim, self.cpus.clone(), self.mtd.clone(), options).await
    }

    pub(crate) async fn attach(&self, options: AttachOptions) -> Rc<Ubi> {
        self.try_attach(options).await.unwrap_or_else(|error| panic!("it attaches: {error}"))
    }
}

/// Options of an attach where nothing runs beside the test.
pub(crate) fn quiet() -> AttachOptions {
    AttachOptions { has_thread: false, ..threaded() }
}

pub(crate) fn threaded() -> AttachOptions {
    AttachOptions::new(find_profile("linux-6.12").expect("in the table"))
}

/// Runs a job over a chip; gives the chip back, and whether the job came to its end.
pub(crate) fn run<F: Future<Output = ()> + 'static>(
    chip: Chip,
    takes_time: bool,
    job: impl FnOnce(Bench) -> F,
) -> (Chip, bool) {
    run_with("linux-large", chip, takes_time, job)
}

/// [`run`] with an OOB layout.
pub(crate) fn run_with<F: Future<Output = ()> + 'static>(
    layout: &str,
    chip: Chip,
    takes_time: bool,
    job: impl FnOnce(Bench) -> F,
) -> (Chip, bool) {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let options = MtdOptions {
        layout: find_layout(layout).expect("in the table"),
        costs: DriverCosts::default(),
        bad_blocks: BadBlocks::Table,
        reads_sub_pages: true,
        takes_time,
    };
    let mtd = Mtd::new(&sim, cpus.clone(), chip, options);
    let task = sim.spawn(job(Bench { sim: sim.clone(), cpus, mtd: mtd.clone() }));
    let end = simulation.run();
    let is_done = task.is_finished();
    assert!(is_done || end == RunEnd::Stopped, "the job waits for ever");
    drop(task);
    drop(simulation);
    (mtd.with_chip(|chip| chip.clone()), is_done)
}
