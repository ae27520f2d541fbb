//! What the tests share: chips, volumes, simulations, trees and manifests.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod host;
pub(crate) mod nodes;

use fs_api::FileSystem;
use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, find_layout};
use nand::{Chip, FaultSettings, ImageLayout, Part, Storage, find_part};
use sim::{Cpus, RunEnd, Sim, Simulation};
use std::path::Path;
use std::rc::Rc;
use ubi::{AttachOptions, Ubi};
use ubifs::{MountError, MountOptions, Ubifs, Volume, find_profile};
use vfs::Manifest;

/// A file of this crate's test data, of that of `ubi`, or a workload.
pub(crate) fn data(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = ["tests/data", "../ubi/tests/data", "../../../workloads/raw-nand"];
    let found = places.iter().map(|place| root.join(place).join(name)).find(|path| path.exists());
    let path = found.unwrap_or_else(|| panic!("no test data {name}"));
    let bytes = std::fs::read(&path).expect("it reads");
    if path.extension().is_some_and(|extension| extension == "zst") {
        zstd::decode_all(&bytes[..]).expect("a sound archive")
    } else {
        bytes
    }
}

pub(crate) fn text(name: &str) -> String {
    String::from_utf8(data(name)).expect("text")
}

pub(crate) fn part(blocks: u32) -> Part {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.blocks = blocks;
    part
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
    pub(crate) mtd: Option<Rc<Mtd>>,
}

impl Bench {
    pub(crate) fn mtd(&self) -> &Rc<Mtd> {
        self.mtd.as_ref().expect("a chip")
    }

    pub(crate) async fn attach(&self, header_offset: Option<u32>) -> Rc<Ubi> {
        let profile = ubi::find_profile("linux-6.12").expect("in the table");
        // Where the device is a part of a chip, blocks are kept for bad ones of the whole chip.
        let chip_blocks = Some(512);
        let options = AttachOptions { header_offset, chip_blocks, ..AttachOptions::new(profile) };
        Ubi::attach(&self.sim, self.cpus.clone(), self.mtd().clone(), options)
            .await
            .unwrap_or_else(|error| panic!("it attaches: {error}"))
    }

    pub(crate) async fn try_mount(
        &self,
        volume: Volume,
        options: MountOptions,
    ) -> Result<Ubifs, MountError> {
        Ubifs::mount(&self.sim, self.cpus.clone(), volume, options).await
    }

    pub(crate) async fn mount(&self, volume: Volume, options: MountOptions) -> Ubifs {
        let mounted = self.try_mount(volume, options).await;
        mounted.unwrap_or_else(|error| panic!("it mounts: {error}"))
    }
}

/// Options of a mount where nothing runs beside the test.
pub(crate) fn quiet() -> MountOptions {
    MountOptions {
        has_thread: false,
        write_buffer_interval_ns: None,
        made_at: 1_600_000_000,
        ..MountOptions::new(find_profile("linux-6.12").expect("in the table"))
    }
}

pub(crate) fn read_only() -> MountOptions {
    MountOptions { is_read_only: true, ..quiet() }
}

/// Runs a job; tells whether it came to its end.
pub(crate) fn run<F: Future<Output = ()> + 'static>(job: impl FnOnce(Bench) -> F) -> bool {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    let task = sim.spawn(job(Bench { sim: sim.clone(), cpus, mtd: None }));
    let end = simulation.run();
    assert!(task.is_finished() || end == RunEnd::Stopped, "the job waits for ever");
    task.is_finished()
}

/// Runs a job over a chip; gives the chip back, and whether the job came to its end.
pub(crate) fn run_chip<F: Future<Output = ()> + 'static>(
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
    let task = sim.spawn(job(Bench { sim: sim.clone(), cpus, mtd: Some(mtd.clone()) }));
    let end = simulation.run();
    let is_done = task.is_finished();
    assert!(is_done || end == RunEnd::Stopped, "the job waits for ever");
    drop(task);
    drop(simulation);
    (mtd.with_chip(|chip| chip.clone()), is_done)
}

pub(crate) async fn manifest<F: FileSystem>(fs: &F) -> Vec<String> {
    let manifest = Manifest::of(fs).await.expect("it reads");
    manifest.to_tsv().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Lines of a manifest file without its comment.
pub(crate) fn expected(name: &str) -> Vec<String> {
    text(name).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

pub(crate) fn assert_same(name: &str, found: &[String], expected: &[String]) {
    let difference: Vec<_> = found
        .iter()
        .filter(|line| !expected.contains(line))
        .map(|line| format!("+ {line}"))
        .chain(expected.iter().filter(|line| !found.contains(line)).map(|line| format!("- {line}")))
        .take(20)
        .collect();
    assert!(difference.is_empty(), "{name}: lines differ:\n{}", difference.join("\n"));
    assert_eq!(found.len(), expected.len(), "{name}");
}
