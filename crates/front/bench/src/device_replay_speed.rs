//! How fast a trace goes through a scheduler to a device in simulated time, against the same trace without time.

use crate::processor_time::Stopwatch;
use device_replay::{Pace, Preconditioning, ReplayOptions, Stacks, replay_all};
use ftl::FTLS;
use nand::random::Stream;
use serde::Serialize;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use study::DeviceOptions;
use trace::{AddressRule, Operation, Record, TraceWriter};

/// The card whose speed with the layer `page` is the figure.
const CARD: &str = "emmc-5.1-64gb";
/// Its size, rounded down to whole GiB.
const CARD_GIB: u64 = 58;
/// Requests of the figure, and of the comparison of layers, some of which merge blocks for each write.
const REQUESTS: [u64; 2] = [1_000_000, 100_000];
/// Requests outstanding: the queue of that card.
const QUEUE_DEPTH: u32 = 32;
const READ_PERCENT: u32 = 70;
const ROUNDS: usize = 3;

/// A device of 1 GiB whose chip is the same as that without time: one die, one plane, a page at a time.
const SMALL: &str = r#"
name = "one-die"
summary = "one die of 1 GiB"
[host]
bytes_per_second = 400000000
command_overhead_ns = 1000
queue_depth = 32
executes = 4
[flash]
part = "k9f1g08u0a"
blocks = 18432
channels = 1
dies_per_channel = 1
capacity_bytes = 1073741824
copy_back = true
[sources]
"host" = "of this benchmark"
"flash" = "of this benchmark"
"#;
const SMALL_BLOCKS: u32 = 18_432;
const SMALL_GIB: u64 = 1;

/// Speed of one layer.
#[derive(Serialize)]
pub(crate) struct LayerSpeed {
    /// Requests a second of processor time, with scheduler, device and time.
    pub(crate) timed_requests_per_s: f64,
    /// The same requests on the same layer and chip without time, both from a device that is filled.
    pub(crate) untimed_requests_per_s: f64,
}

impl LayerSpeed {
    pub(crate) fn ratio(&self) -> f64 {
        self.timed_requests_per_s / self.untimed_requests_per_s
    }
}

pub(crate) struct DeviceReplaySpeed {
    /// Requests a second on the card, preconditioning left out.
    pub(crate) card_requests_per_s: f64,
    pub(crate) layers: BTreeMap<&'static str, LayerSpeed>,
}

/// Requests of 4 KiB, uniform over so many GiB.
fn write_trace(path: &Path, requests: u64, gib: u64) -> Result<(), Box<dyn Error>> {
    const BYTES: u32 = 4096;
    let mut writer = TraceWriter::create(path)?;
    let mut stream = Stream::new(1, "trace");
    let places = (gib << 30) / u64::from(BYTES);
    let record = |number: u64| {
        let is_read = stream.below(100) < READ_PERCENT;
        let operation = if is_read { Operation::Read } else { Operation::Write };
        let offset_bytes = u64::from(stream.below(places as u32)) * u64::from(BYTES);
        Record::new(number * 1000, operation, offset_bytes, BYTES)
    };
    writer.write(&(0..requests).map(record).collect::<Vec<_>>())?;
    Ok(writer.finish(&BTreeMap::new())?)
}

fn options(trace: PathBuf) -> ReplayOptions {
    ReplayOptions {
        trace,
        reading: trace::Options::default(),
        pace: Pace::ClosedLoop { queue_depth: QUEUE_DEPTH },
        address: AddressRule::Error,
        nr_requests: 128,
        timeline: None,
        seed: 1,
    }
}

/// Seconds of the requests alone: the same call with an empty trace takes what is left.
fn timed_s(device: &str, ftl: Option<&str>, traces: [&Path; 2]) -> Result<f64, Box<dyn Error>> {
    let stacks = Stacks {
        device: device.to_owned(),
        changes: BTreeMap::new(),
        ftls: ftl.iter().map(|name| (*name).to_owned()).collect(),
        schedulers: vec!["noop".to_owned()],
        preconditioning: Preconditioning::Fill,
    };
    // The best of all rounds: other work on the machine only ever adds time.
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let mut seconds = [0.0; 2];
        for (seconds, trace) in seconds.iter_mut().zip(traces) {
            let options = options(trace.to_owned());
            let start = Stopwatch::start();
            replay_all(&options, &stacks)?;
            *seconds = start.seconds();
        }
        best = best.min(seconds[1] - seconds[0]);
    }
    Ok(best)
}

fn untimed_s(ftl: &str, traces: [&Path; 2]) -> Result<f64, Box<dyn Error>> {
    let device = DeviceOptions {
        ftl: ftl.to_owned(),
        part: Some("k9f1g08u0a".to_owned()),
        blocks: Some(SMALL_BLOCKS),
        logical_bytes: Some(SMALL_GIB << 30),
        ..DeviceOptions::default()
    };
    let options = study::ReplayOptions {
        device,
        address: AddressRule::Error,
        fills_first: true,
        ..study::ReplayOptions::default()
    };
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let mut seconds = [0.0; 2];
        for (seconds, trace) in seconds.iter_mut().zip(traces) {
            let start = Stopwatch::start();
            study::replay_trace(trace, &options)?;
            *seconds = start.seconds();
        }
        best = best.min(seconds[1] - seconds[0]);
    }
    Ok(best)
}

/// Measures all layers, or one.
pub(crate) fn measure(layer: Option<&str>) -> Result<DeviceReplaySpeed, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("nandlab-device-replay-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let found = in_folder(&folder, layer);
    std::fs::remove_dir_all(&folder)?;
    found
}

fn in_folder(folder: &Path, layer: Option<&str>) -> Result<DeviceReplaySpeed, Box<dyn Error>> {
    let path = |name: &str| folder.join(name);
    // One layer alone, to be profiled: without the card, and for longer.
    let [all, some] = if layer.is_some() { [2, REQUESTS[0]] } else { REQUESTS };
    write_trace(&path("one.parquet"), 1, CARD_GIB)?;
    write_trace(&path("card.parquet"), all, CARD_GIB)?;
    let card = [&*path("one.parquet"), &*path("card.parquet")];
    let card_s = if layer.is_some() { f64::INFINITY } else { timed_s(CARD, None, card)? };
    let card_requests_per_s = (all - 1) as f64 / card_s;
    let device = path("one-die.toml");
    std::fs::write(&device, SMALL)?;
    let device = device.to_string_lossy();
    write_trace(&path("few.parquet"), 1, SMALL_GIB)?;
    write_trace(&path("small.parquet"), some, SMALL_GIB)?;
    let traces = [&*path("few.parquet"), &*path("small.parquet")];
    let mut layers = BTreeMap::new();
    for entry in FTLS.iter().filter(|entry| layer.is_none_or(|layer| layer == entry.name)) {
        let requests = (some - 1) as f64;
        let timed_requests_per_s = requests / timed_s(&device, Some(entry.name), traces)?;
        let untimed_requests_per_s = requests / untimed_s(entry.name, traces)?;
        layers.insert(entry.name, LayerSpeed { timed_requests_per_s, untimed_requests_per_s });
    }
    Ok(DeviceReplaySpeed { card_requests_per_s, layers })
}

/// Prints the figures.
pub(crate) fn print(speed: &DeviceReplaySpeed) {
    println!(
        "traces through noop to a device in simulated time, 4 KiB, 70 % reads, depth {QUEUE_DEPTH}"
    );
    println!("  {CARD}  {:>8.2} M requests/s, layer `page`", speed.card_requests_per_s / 1e6);
    println!(
        "  {:<18} {:>14} {:>14} {:>10}",
        "layer, one die", "timed M/s", "untimed M/s", "ratio"
    );
    for (name, layer) in &speed.layers {
        println!(
            "  {:<18} {:>14.3} {:>14.3} {:>10.3}",
            name,
            layer.timed_requests_per_s / 1e6,
            layer.untimed_requests_per_s / 1e6,
            layer.ratio()
        );
    }
}
