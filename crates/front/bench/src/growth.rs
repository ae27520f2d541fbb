//! Memory and time of work that may grow: requests of processes, cells of a study, blocks of a chip.

use crate::ALLOCATOR;
use crate::processor_time::Stopwatch;
use mount::{Driver, MountRequest, UbiRequest, run};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use std::error::Error;
use std::fs;

/// Processes that read at random past the page cache, over a scheduler and an eMMC card.
const JOBS: &str = r#"
name = "bench"
title = "bench"
question = "How fast?"
seed = 1
[workload]
kind = "jobs"
[host]
board = "odroid-xu"
device = "emmc-4.5-64gb"
free_bytes = 1_073_741_824
[[job]]
name = "readers"
processes = 8
rw = "randread"
bs = "4k"
requests = REQUESTS
mode = "direct"
[axes]
scheduler = ["noop"]
"#;
const PROCESSES: u64 = 8;
// The difference of both runs leaves out what a run takes once: the device that is filled, and its maps.
/// Requests of each process: a short run, and one with ten times as many.
const REQUESTS: [u64; 2] = [20_000, 200_000];

/// Cells of a layer on a small chip, one for each seed of its cleaning.
const CELLS: &str = r#"
name = "bench"
title = "bench"
question = "How much memory?"
seed = 1
part = "k9f2g08u0c"
blocks = 32
[workload]
kind = "uniform"
warm_up_writes = 1
measured_writes = 1
[axes]
ftl = ["page"]
spare_percent = [20]
cleaning_seed = [SEEDS]
"#;
const CELL_COUNTS: [u64; 2] = [100, 1000];

/// Blocks of 128 KiB in 4 GiB.
const UBI_BLOCKS: u32 = 32_768;

/// Figures that should not depend on how much work there is.
pub(crate) struct Growth {
    /// Requests of processes, through page cache, scheduler and device.
    pub(crate) jobs_requests_per_s: f64,
    /// Memory that a further request of a job takes.
    pub(crate) jobs_bytes_per_request: f64,
    /// Memory that a further cell of a study takes.
    pub(crate) study_bytes_per_cell: f64,
    /// Memory of an empty UBI device of 4 GiB while it is formatted and attached.
    pub(crate) empty_ubi_4gib_bytes: usize,
    /// Processor time of formatting and attaching it.
    pub(crate) empty_ubi_4gib_s: f64,
}

pub(crate) fn measure() -> Result<Growth, Box<dyn Error>> {
    let jobs = |requests: u64| of_study(&JOBS.replace("REQUESTS", &requests.to_string()));
    let [(short_bytes, short_s), (long_bytes, long_s)] = [jobs(REQUESTS[0])?, jobs(REQUESTS[1])?];
    let more = (PROCESSES * (REQUESTS[1] - REQUESTS[0])) as f64;
    let cells = |count: u64| {
        let seeds: Vec<String> = (1..=count).map(|seed| seed.to_string()).collect();
        of_study(&CELLS.replace("SEEDS", &seeds.join(",")))
    };
    let [(few_bytes, _), (many_bytes, _)] = [cells(CELL_COUNTS[0])?, cells(CELL_COUNTS[1])?];
    let more_cells = (CELL_COUNTS[1] - CELL_COUNTS[0]) as f64;
    let (empty_ubi_4gib_bytes, empty_ubi_4gib_s) = empty_ubi();
    Ok(Growth {
        jobs_requests_per_s: more / (long_s - short_s),
        jobs_bytes_per_request: (long_bytes as f64 - short_bytes as f64) / more,
        study_bytes_per_cell: (many_bytes as f64 - few_bytes as f64) / more_cells,
        empty_ubi_4gib_bytes,
        empty_ubi_4gib_s,
    })
}

/// Runs a study on one worker: the most memory that it took, and its processor time.
fn of_study(text: &str) -> Result<(usize, f64), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("nandlab-growth-{}.toml", std::process::id()));
    fs::write(&path, text)?;
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let start = Stopwatch::start();
    let study = study::load(&path, &[], None, false);
    fs::remove_file(&path)?;
    let results = study::run_study(&study?, 1, &mut |_, _, _| true)?;
    let measured = (ALLOCATOR.peak_usage() - before, start.seconds());
    drop(results);
    Ok(measured)
}

/// Formats and attaches a blank chip of 4 GiB.
fn empty_ubi() -> (usize, f64) {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = UBI_BLOCKS;
    let layout = find_layout("linux-large").expect("in the table");
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let start = Stopwatch::start();
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let outcome = run(chip, &Driver::of_tool(layout), 1, async |machine| {
        machine.format_ubi(0, &UbiRequest::default()).await.expect("a blank chip");
        machine.attach_ubi(&MountRequest::default()).await.map(drop).expect("formatted");
        machine.detach_ubi();
    });
    outcome.value.expect("the power stays");
    let seconds = start.seconds();
    (ALLOCATOR.peak_usage() - before, seconds)
}
