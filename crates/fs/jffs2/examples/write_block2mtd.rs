//! Carries a script of system calls out on JFFS2 over `block2mtd`, and writes the block device as an image.
//!
//!     write_block2mtd SCRIPT IMAGE MEBIBYTES marks|summaries
//!
//! Erase blocks have 64 KiB. The calls come a tenth of a second apart, so that flusher and collector run. The
//! kernel keeps summaries, or marks obsolete nodes where they stand. The file system is unmounted at the end.
//! The results are printed as `NAME VALUE`, a line each.

use block_medium::MemoryMedium;
use block2mtd::{Block2Mtd, Options};
use board::Board;
use fs_api::FileSystem;
use jffs2::{Flash, Jffs2, MountOptions, PROFILES, clean_block};
use page_cache::{CacheOptions, PageCache};
use script::{Runner, Script, parse};
use sim::{Cpus, Sim, Simulation};
use std::cell::Cell;
use std::error::Error;
use std::io::Write;
use std::rc::Rc;
use vfs::Vfs;

const PAGE_BYTES: usize = 4096;
const BLOCK_BYTES: u32 = 64 << 10;
const EPOCH_S: i64 = 1_600_000_000;
const BETWEEN_CALLS_NS: u64 = 100_000_000;

/// Calls that were made, and those that failed.
#[derive(Default)]
struct Counts {
    is_finished: Cell<bool>,
    jffs2: Cell<jffs2::Statistics>,
    driver: Cell<block2mtd::Statistics>,
}

async fn write(
    sim: Sim,
    medium: Rc<MemoryMedium>,
    script: Script,
    has_summary: bool,
    counts: Rc<Counts>,
) {
    let (board, cpus) = (Rc::new(Board::without_costs()), Rc::new(Cpus::new(&sim, 1, 10_000_000)));
    let cache_options = CacheOptions { stores_bytes: true };
    let cache = PageCache::new(&sim, &cpus, &board, cache_options);
    let driver = Options {
        block_bytes: BLOCK_BYTES,
        size_bytes: u64::MAX,
        takes_time: true,
        holds_writers: true,
    };
    let device = Block2Mtd::attach(&sim, &cache, medium, driver).expect("it can be an MTD");
    let profile = PROFILES.last().expect("there are profiles");
    let options = MountOptions { has_summary: Some(has_summary), ..MountOptions::new(profile) };
    let flash = Flash::Ram(device.clone());
    let fs = Rc::new(Jffs2::mount(&sim, cpus, flash, options).await.expect("it mounts"));
    let vfs = Rc::new(Vfs::new(&sim, fs.clone()));
    let runner = Runner::new(&sim, vfs, EPOCH_S);
    for command in script.commands() {
        runner.step(&command.step).await.expect("scripts of this sort succeed");
        sim.sleep(BETWEEN_CALLS_NS).await;
    }
    fs.unmount().await.expect("it unmounts");
    counts.jffs2.set(fs.statistics());
    counts.driver.set(device.statistics());
    counts.is_finished.set(true);
    sim.stop();
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [script, image, mebibytes, form] = &arguments[..] else {
        return Err("SCRIPT IMAGE MEBIBYTES marks|summaries".into());
    };
    let medium = Rc::new(MemoryMedium::new(PAGE_BYTES, mebibytes.parse::<u64>()? << 20));
    let clean = clean_block(BLOCK_BYTES);
    let pages = (mebibytes.parse::<u64>()? << 20) / PAGE_BYTES as u64;
    for (page, bytes) in (0..pages).zip(clean.chunks_exact(PAGE_BYTES).cycle()) {
        medium.set_block(page, bytes);
    }
    let mut simulation = Simulation::new(1);
    let (sim, counts) = (simulation.handle(), Rc::new(Counts::default()));
    let script = parse(&std::fs::read_to_string(script)?)?;
    let has_summary = form == "summaries";
    sim.spawn(write(sim.clone(), medium.clone(), script, has_summary, counts.clone()));
    simulation.run();
    if !counts.is_finished.get() {
        return Err("the script did not come to its end".into());
    }
    medium.save(&mut std::io::BufWriter::new(std::fs::File::create(image)?))?;
    let (jffs2, driver) = (counts.jffs2.get(), counts.driver.get());
    let mut out = std::io::stdout();
    writeln!(out, "blocks_erased {}", jffs2.blocks_erased)?;
    writeln!(out, "nodes_collected {}", jffs2.nodes_collected)?;
    writeln!(out, "nodes_marked {}", jffs2.nodes_marked)?;
    writeln!(out, "summaries_written {}", jffs2.summaries_written)?;
    writeln!(out, "changed_pages {}", driver.changed_pages)?;
    writeln!(out, "written_blocks {}", medium.written_blocks())?;
    Ok(())
}
