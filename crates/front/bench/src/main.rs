//! Speed as ratios against a bare loop in the same process, and write rates of every layer.
//!
//! A ratio compares work done in one run on one machine, so it may be compared between machines;
//! the rates beside it may not. All times are processor time, that of all threads together. Each
//! figure is the best of several alternating rounds, which is what a busy machine disturbs least.
//!
//! `--out FILE` writes the figures, `--nandlab PATH` measures that command as well, and
//! `--against FILE` puts the figures beside those of an earlier file. `--growth` prints the table of
//! growth instead.

#![allow(clippy::print_stdout, reason = "a table on the terminal is what this program is for")]

mod against;
mod bare_loop;
mod commands;
mod crash_speed;
mod device_replay_speed;
mod growing;
mod growth;
mod hamming_speed;
mod iozone_matrix;
mod nilfs2_memory;
mod processor_time;
mod scheduler_cost;
mod timed_device;
mod ubifs_speed;

use bare_loop::BareLoop;
use commands::Commands;
use crash_speed::CrashSpeed;
use ftl::{FTLS, Ftl, Settings};
use growth::Growth;
use hamming_speed::HammingSpeed;
use iozone_matrix::IozoneMatrix;
use nand::random::Stream;
use nand::{Chip, FaultSettings, Part, Storage, find_part};
use nilfs2_memory::Nilfs2Memory;
use peak_alloc::PeakAlloc;
use processor_time::Stopwatch;
use scheduler_cost::SchedulerCost;
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use study::Replay;
use timed_device::TimedDevice;
use trace::{AddressRule, Operation, Record, TraceWriter};
use ubifs_speed::UbifsSpeed;

/// Counts the bytes in use.
#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// 4 GiB of 4 KiB pages, 64 to a block; an eighth is spare.
const BLOCKS: u32 = 16_384;
const PAGES_PER_BLOCK: u32 = 64;
const SPARE_FACTOR: f64 = 0.125;
const ROUNDS: usize = 5;
const WRITES: u64 = 4_000_000;

/// Measures everything, then prints it.
fn main() -> Result<(), Box<dyn Error>> {
    let argument =
        |name: &str| std::env::args().skip_while(|given| given != name).nth(1).map(PathBuf::from);
    if std::env::args().any(|given| given == "--growth") {
        return growing::print();
    }
    if std::env::args().any(|given| given == "--device-replay") {
        let layer = argument("--device-replay");
        let layer = layer.as_deref().and_then(|layer| layer.to_str());
        device_replay_speed::print(&device_replay_speed::measure(layer)?);
        return Ok(());
    }
    // Looked at before minutes of work.
    let earlier = argument("--against");
    if let Some(earlier) = earlier.iter().find(|earlier| !earlier.is_file()) {
        return Err(format!("--against {}: there is no such file", earlier.display()).into());
    }
    // First, as its bare loop is what the replay is compared with.
    let page = page_mapping();
    let replay = replay(page.bare_writes_per_s)?;
    let layers = layers();
    let timed = timed_device::measure();
    let schedulers = scheduler_cost::measure();
    let hamming = hamming_speed::measure();
    let matrix = iozone_matrix::measure()?;
    let crashes = crash_speed::measure();
    let ubifs = ubifs_speed::measure();
    let growth = growth::measure()?;
    let device_replay = device_replay_speed::measure(None)?;
    let nilfs2 = nilfs2_memory::measure();
    let commands = argument("--nandlab").map(|path| commands::measure(&path)).transpose()?;
    print_layers(&page, &replay, &timed, &layers);
    print_systems(&schedulers, &hamming, &matrix, &crashes, &ubifs);
    device_replay_speed::print(&device_replay);
    print_growth(&growth, commands.as_ref());
    print_nilfs2(&nilfs2);
    let measured = (&page, &replay, &timed, &ubifs, &hamming);
    let mut report = report(measured, &schedulers, &matrix, &crashes, &layers);
    add_growth(&mut report, &growth, commands.as_ref());
    report["device_replay_requests_per_s"] = json!(device_replay.card_requests_per_s);
    report["device_replay"] = json!(device_replay.layers);
    add_nilfs2(&mut report, &nilfs2);
    if let Some(earlier) = earlier {
        against::print(&earlier, &report)?;
    }
    match argument("--out") {
        Some(out) => write_report(&out, &report),
        None => Ok(()),
    }
}

/// Prints the speed of translation layers, with and without simulated time.
fn print_layers(page: &PageMapping, replay: &ReplaySpeed, timed: &TimedDevice, layers: &[Layer]) {
    println!(
        "page mapping, greedy, 4 GiB of 4 KiB pages, N = 64, Sf = 0.125, uniform random writes"
    );
    println!("  bare loop      {:>8.2} M writes/s", page.bare_writes_per_s / 1e6);
    println!("  layer `page`   {:>8.2} M writes/s", page.layer_writes_per_s / 1e6);
    println!(
        "  page_mapping_ratio  {:.3}   (programs: layer {:.4} of bare)",
        page.ratio(),
        page.programs_ratio
    );
    println!("  memory         {:>8.2} bytes a physical page", page.bytes_per_page);
    println!("replay of a Parquet trace of single-page writes, decoding included");
    println!("  replay         {:>8.2} M requests/s", replay.requests_per_s / 1e6);
    println!("  replay_ratio        {:.3}", replay.ratio);
    println!(
        "devices in simulated time, 4 GiB of 4 KiB pages, N = 64, Sf = 0.07, uniform random writes"
    );
    println!("  bare loop      {:>8.2} M writes/s", timed.bare_writes_per_s / 1e6);
    println!(
        "  1 die          {:>8.2} M writes/s, p99 {:.1} ms simulated",
        timed.one_die_writes_per_s / 1e6,
        timed.one_die_p99_ms
    );
    println!(
        "  32 dies        {:>8.2} M writes/s, p99 {:.1} ms simulated",
        timed.many_dies_writes_per_s / 1e6,
        timed.many_dies_p99_ms
    );
    println!("  timed_1_die_ratio   {:.3}", timed.one_die_ratio());
    println!("  timed_32_die_ratio  {:.3}", timed.many_dies_ratio());
    println!("  filled in      {:>8.3} s", timed.precondition_s);
    println!("  random reads   {:>8.2} M/s of 32 dies", timed.raw_requests_per_s / 1e6);
    println!(
        "writes of one page each, 100 MiB of 512-byte pages in 16 KiB blocks, default settings"
    );
    println!("  {:<18} {:>14} {:>14} {:>10}", "layer", "sequential M/s", "random M/s", "random WA");
    for layer in layers {
        println!(
            "  {:<18} {:>14.2} {:>14.3} {:>10.2}",
            layer.name,
            layer.sequential / 1e6,
            layer.random / 1e6,
            layer.random_write_amplification
        );
    }
}

/// Prints the speed of schedulers and of file systems on raw NAND.
fn print_systems(
    schedulers: &[SchedulerCost],
    hamming: &HammingSpeed,
    matrix: &IozoneMatrix,
    crashes: &[CrashSpeed],
    ubifs: &UbifsSpeed,
) {
    println!("schedulers: 16 processes with 8 random 4 KiB requests each, constant device");
    println!(
        "  {:<18} {:>14} {:>14} {:>14}",
        "scheduler", "ns a request", "against noop", "bytes queued"
    );
    for cost in schedulers {
        println!(
            "  {:<18} {:>14.0} {:>14.2} {:>14.0}",
            cost.name, cost.ns_per_request, cost.ratio_to_noop, cost.bytes_per_request
        );
    }
    println!("Hamming code of 256 bytes, as every page of raw NAND takes eight of them");
    println!("  bare sum       {:>8.1} ns", hamming.bare_ns_per_256b);
    println!("  code           {:>8.1} ns", hamming.ns_per_256b);
    println!("  hamming_ratio       {:.3}", hamming.ratio());
    println!("IOzone on JFFS2 and YAFFS2, 1 to 16 MiB, write and read, ten repeats");
    println!("  bare loop      {:>8.2} s", matrix.bare_seconds);
    println!("  matrix         {:>8.2} s", matrix.seconds);
    println!("  iozone_matrix_ratio  {:.4}", matrix.ratio());
    println!("power cuts: 4 MiB chip of 32 blocks, mount, check, write and mount again");
    for speed in crashes {
        println!(
            "  {:<18} {:>14.0} cuts a processor second {:>8.3} of copies with all pages read",
            speed.name, speed.cuts_per_s, speed.ratio_to_copy_and_scan
        );
    }
    println!("UBIFS over UBI, a chip of 256 MiB that stores bytes, without compression");
    println!("  attach and mount  {:>8.3} s, 75 % full and clean", ubifs.attach_and_mount_s);
    println!("  sequential write  {:>8.0} MiB/s of user data", ubifs.write_mib_per_s);
    println!("  ubifs_write_ratio  {:.4} of copying and computing the CRC", ubifs.write_ratio);
}

fn print_growth(growth: &Growth, commands: Option<&Commands>) {
    println!("eight processes that read at random past the page cache, noop, eMMC card");
    println!("  requests       {:>8.2} M/s", growth.jobs_requests_per_s / 1e6);
    println!("  memory         {:>8.2} bytes a further request", growth.jobs_bytes_per_request);
    println!("study of one layer on a small chip");
    println!("  memory         {:>8.0} bytes a further cell", growth.study_bytes_per_cell);
    println!("empty UBI device of 4 GiB, formatted and attached");
    println!("  memory         {:>8.1} MB", growth.empty_ubi_4gib_bytes as f64 / 1e6);
    println!("  time           {:>8.3} s", growth.empty_ubi_4gib_s);
    match commands {
        Some(commands) => {
            println!("commands");
            println!("  list ftls      {:>8.1} ms", commands.startup_list_ms);
            println!("  report         {:>8.2} s", commands.report_seconds);
        }
        None => println!("left out: commands, for want of --nandlab"),
    }
}

fn add_growth(report: &mut serde_json::Value, growth: &Growth, commands: Option<&Commands>) {
    report["jobs_requests_per_s"] = json!(growth.jobs_requests_per_s);
    report["jobs_bytes_per_request"] = json!(growth.jobs_bytes_per_request);
    report["study_bytes_per_cell"] = json!(growth.study_bytes_per_cell);
    report["empty_ubi_4gib_bytes"] = json!(growth.empty_ubi_4gib_bytes);
    report["empty_ubi_4gib_seconds"] = json!(growth.empty_ubi_4gib_s);
    if let Some(commands) = commands {
        report["startup_list_ms"] = json!(commands.startup_list_ms);
        report["report_seconds"] = json!(commands.report_seconds);
    }
}

/// Prints how much memory a run takes that writes to NILFS2.
fn print_nilfs2(nilfs2: &[Nilfs2Memory]) {
    println!("NILFS2, a file of 64 and of 256 MiB, peak heap over bytes written");
    println!("  {:<18} {:>10} {:>10} {:>10}", "device", "64 MiB", "256 MiB", "slope");
    for memory in nilfs2 {
        let [small, large] = memory.bytes_per_byte;
        println!("  {:<18} {small:>10.3} {large:>10.3} {:>10.3}", memory.device, memory.slope);
    }
}

fn add_nilfs2(report: &mut serde_json::Value, nilfs2: &[Nilfs2Memory]) {
    let slopes: BTreeMap<&str, f64> =
        nilfs2.iter().map(|memory| (memory.device, memory.slope)).collect();
    report["nilfs2_bytes_per_byte_written"] = json!(slopes);
}

struct PageMapping {
    bare_writes_per_s: f64,
    layer_writes_per_s: f64,
    programs_ratio: f64,
    bytes_per_page: f64,
}

impl PageMapping {
    fn ratio(&self) -> f64 {
        self.layer_writes_per_s / self.bare_writes_per_s
    }
}

fn large_part() -> Part {
    let mut part = find_part("generic-mlc-2x").expect("in the catalogue");
    part.geometry.page_data_bytes = 4096;
    part.geometry.pages_per_block = PAGES_PER_BLOCK;
    part.geometry.blocks = BLOCKS;
    part.timing.program_ns.truncate(1);
    part
}

fn logical_pages() -> u32 {
    (f64::from(BLOCKS * PAGES_PER_BLOCK) * (1.0 - SPARE_FACTOR)) as u32
}

fn build(name: &str, part: &Part, logical_pages: u32) -> Box<dyn Ftl> {
    let entry = ftl::find_ftl(name).expect("in the table");
    let settings = Settings::new(entry.parameters, &BTreeMap::new()).expect("defaults");
    let chip = Chip::new(part, Storage::Tags, &FaultSettings::default());
    ftl::build(entry, chip, logical_pages, &settings).expect("a large enough chip")
}

/// Alternates rounds of the bare loop and of the layer, both in steady state, on the same numbers.
fn page_mapping() -> PageMapping {
    let pages = logical_pages();
    let mut bare = BareLoop::new(BLOCKS, PAGES_PER_BLOCK, pages);
    let mut layer = build("page", &large_part(), pages);
    let bytes_per_page = resident_bytes(&layer.flash().chip().clone(), pages);
    (0..pages).for_each(|lpn| bare.write(lpn));
    layer.write_pages(0..pages).expect("a healthy chip");
    let (mut bare_stream, mut layer_stream) = (Stream::new(1, "bench"), Stream::new(1, "bench"));
    bare_loop::run(&mut bare, &mut bare_stream, WRITES);
    write_random(layer.as_mut(), &mut layer_stream, pages, WRITES);
    let (mut bare_best, mut layer_best) = (f64::MAX, f64::MAX);
    let (bare_before, layer_before) =
        (bare.programs, layer.flash().chip().counters().page_programs);
    for _ in 0..ROUNDS {
        let start = Stopwatch::start();
        bare_loop::run(&mut bare, &mut bare_stream, WRITES);
        bare_best = bare_best.min(start.seconds());
        let start = Stopwatch::start();
        write_random(layer.as_mut(), &mut layer_stream, pages, WRITES);
        layer_best = layer_best.min(start.seconds());
    }
    let layer_programs = layer.flash().chip().counters().page_programs - layer_before;
    PageMapping {
        bare_writes_per_s: WRITES as f64 / bare_best,
        layer_writes_per_s: WRITES as f64 / layer_best,
        programs_ratio: layer_programs as f64 / (bare.programs - bare_before) as f64,
        bytes_per_page,
    }
}

/// Bytes of the chip's state, the map, and the index of valid pages, for each physical page.
fn resident_bytes(chip: &Chip, logical_pages: u32) -> f64 {
    let physical = f64::from(chip.geometry().pages());
    let map_bytes = 4.0 * f64::from(logical_pages) / physical;
    let index_bits = f64::from(PAGES_PER_BLOCK + 1) * f64::from(BLOCKS) * (1.0 + 1.0 / 64.0);
    // Virtual block table, valid count, flags, age list, erase count of the free pool.
    let block_bytes = 4.0 + 2.0 + 2.0 + 16.0 + 4.0;
    chip.state_bytes_per_page()
        + map_bytes
        + index_bits / 8.0 / physical
        + block_bytes / f64::from(PAGES_PER_BLOCK)
}

fn write_random(layer: &mut dyn Ftl, stream: &mut Stream, pages: u32, count: u64) {
    for _ in 0..count {
        let lpn = stream.below(pages);
        layer.write_pages(lpn..lpn + 1).expect("a healthy chip");
    }
}

struct ReplaySpeed {
    requests_per_s: f64,
    ratio: f64,
}

fn replay(bare_writes_per_s: f64) -> Result<ReplaySpeed, Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("nandlab-bench-{}.parquet", std::process::id()));
    write_trace(&path)?;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Stopwatch::start();
        replay_on_large_part(&path)?;
        best = best.min(start.seconds());
    }
    std::fs::remove_file(&path)?;
    let requests_per_s = WRITES as f64 / best;
    Ok(ReplaySpeed { requests_per_s, ratio: requests_per_s / bare_writes_per_s })
}

/// Decodes and serves the whole trace on a device in steady state.
fn replay_on_large_part(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut replay = Replay::new(build("page", &large_part(), logical_pages()), AddressRule::Error);
    let mut reader = trace::open(path, &trace::Options::default())?.into_columns()?;
    let mut columns = trace::Columns::default();
    while reader.next_columns(&mut columns)? {
        for index in 0..columns.len() {
            replay.serve(
                columns.operation[index],
                columns.offset_bytes[index],
                columns.length_bytes[index],
            )?;
        }
    }
    Ok(())
}

fn write_trace(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut writer = TraceWriter::create(path)?;
    let mut stream = Stream::new(1, "trace");
    let mut batch = Vec::with_capacity(65_536);
    for number in 0..WRITES {
        let offset_bytes = u64::from(stream.below(logical_pages())) * 4096;
        batch.push(Record::new(number * 1000, Operation::Write, offset_bytes, 4096));
        if batch.len() == batch.capacity() {
            writer.write(&batch)?;
            batch.clear();
        }
    }
    writer.write(&batch)?;
    Ok(writer.finish(&BTreeMap::new())?)
}

struct Layer {
    name: &'static str,
    sequential: f64,
    random: f64,
    random_write_amplification: f64,
}

/// Sequential and random single-page writes on the small-block part, by every layer.
fn layers() -> Vec<Layer> {
    const LOGICAL_PAGES: u32 = 204_800;
    FTLS.iter()
        .map(|entry| {
            let mut part = find_part("published-small-block").expect("in the catalogue");
            part.geometry.blocks = 13_000;
            let mut layer = build(entry.name, &part, LOGICAL_PAGES);
            layer.write_pages(0..LOGICAL_PAGES).expect("a healthy chip");
            let start = Stopwatch::start();
            for _ in 0..4 {
                layer.write_pages(0..LOGICAL_PAGES).expect("a healthy chip");
            }
            let sequential = f64::from(4 * LOGICAL_PAGES) / start.seconds();
            let mut stream = Stream::new(1, "layers");
            let count = 100_000;
            let before = layer.flash().chip().counters().programs();
            let start = Stopwatch::start();
            write_random(layer.as_mut(), &mut stream, LOGICAL_PAGES, count);
            let random = count as f64 / start.seconds();
            let programs = layer.flash().chip().counters().programs() - before;
            let random_write_amplification = programs as f64 / count as f64;
            Layer { name: entry.name, sequential, random, random_write_amplification }
        })
        .collect()
}

/// What the program measured once, rather than for each row of a table.
type Measured<'a> =
    (&'a PageMapping, &'a ReplaySpeed, &'a TimedDevice, &'a UbifsSpeed, &'a HammingSpeed);

fn report(
    (page, replay, timed, ubifs, hamming): Measured<'_>,
    schedulers: &[SchedulerCost],
    matrix: &IozoneMatrix,
    crashes: &[CrashSpeed],
    layers: &[Layer],
) -> serde_json::Value {
    let cuts_per_s: BTreeMap<&str, f64> =
        crashes.iter().map(|speed| (speed.name, speed.cuts_per_s)).collect();
    json!({
        "page_mapping_ratio": page.ratio(),
        "page_mapping_bytes_per_page": page.bytes_per_page,
        "page_mapping_writes_per_s": page.layer_writes_per_s,
        "bare_loop_writes_per_s": page.bare_writes_per_s,
        "replay_ratio": replay.ratio,
        "replay_requests_per_s": replay.requests_per_s,
        "timed_1_die_ratio": timed.one_die_ratio(),
        "timed_1_die_writes_per_s": timed.one_die_writes_per_s,
        "timed_32_die_ratio": timed.many_dies_ratio(),
        "timed_32_die_writes_per_s": timed.many_dies_writes_per_s,
        "raw_device_requests_per_s": timed.raw_requests_per_s,
        "precondition_4gib_seconds": timed.precondition_s,
        "hamming_ns_per_256b": hamming.ns_per_256b,
        "hamming_ratio": hamming.ratio(),
        "iozone_matrix_ratio": matrix.ratio(),
        "iozone_matrix_seconds": matrix.seconds,
        "schedulers": schedulers.iter().map(|cost| json!({
            "scheduler": cost.name,
            "processor_ns_per_request": cost.ns_per_request,
            "ratio_to_noop": cost.ratio_to_noop,
            "bytes_per_queued_request": cost.bytes_per_request,
        })).collect::<Vec<_>>(),
        "power_cuts": crashes,
        "crash_cuts_per_s": cuts_per_s,
        "ubifs": ubifs,
        "layers": layers.iter().map(|layer| json!({
            "ftl": layer.name,
            "sequential_writes_per_s": layer.sequential,
            "random_writes_per_s": layer.random,
            "random_write_amplification": layer.random_write_amplification,
        })).collect::<Vec<_>>(),
    })
}

fn write_report(out: &Path, report: &serde_json::Value) -> Result<(), Box<dyn Error>> {
    let partial = out.with_extension("partial");
    std::fs::write(&partial, format!("{report:#}\n"))?;
    Ok(std::fs::rename(partial, out)?)
}
