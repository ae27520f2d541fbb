//! Figures of the presets against those that are published for named devices.
//!
//! Four cells a device: sequential and random, read and write. Each lies within a quarter of what is published. Cells that
//! a device file names as fitted are no predictions; the latency one at a time and a mix of 70 % reads are printed beside
//! (`cargo test cards -- --nocapture`).

#![allow(clippy::print_stdout, reason = "the figures are of interest beyond their ranges")]

use crate::support;

use device::{
    BlockDevice, Command, DeviceSpec, Fill, Precondition, Published, build, devices, find_device,
};
use random::Stream;
use support::keep_busy;

const SECTOR_BYTES: u32 = 512;

/// Farthest that a cell may lie from what is published.
const TOLERANCE: f64 = 0.25;

const GIB: u64 = 1 << 30;

/// What is measured of a device filled by half.
#[allow(clippy::struct_field_names, reason = "units stand last in every name")]
struct Cells {
    sequential_mb_per_s: [f64; 2],
    random_per_s: [f64; 2],
    one_at_a_time_us: [f64; 2],
    mixed_per_s: f64,
}

fn rate(
    prepared: &dyn BlockDevice,
    depth: usize,
    commands: impl IntoIterator<Item = Command>,
) -> f64 {
    let mut device = prepared.clone_box();
    let (served, end_ns) = keep_busy(device.as_mut(), 0, depth, commands);
    // What the cache still holds counts too.
    let flushed = device.submit(end_ns, &Command::flush()).expect("a healthy device");
    served.len() as f64 / (flushed.done_ns as f64 * 1e-9)
}

fn prepared(spec: &DeviceSpec) -> Box<dyn BlockDevice> {
    let mut device = build(spec, 1).expect("a preset fits together");
    let half = Precondition { fill: Fill::Permille(500), ..Precondition::default() };
    device.precondition(&half).expect("a fresh device");
    device
}

fn sequential(bytes: u32) -> impl Iterator<Item = (u64, u32)> {
    let sectors = bytes / SECTOR_BYTES;
    (0..256).map(move |number| (number * u64::from(sectors), sectors))
}

fn random(span_bytes: u64, count: usize) -> impl Iterator<Item = (u64, u32)> {
    let mut stream = Stream::new(1, "cards");
    (0..count).map(move |_| (u64::from(stream.below((span_bytes / 4096) as u32)) * 8, 8))
}

fn read((sector, sectors): (u64, u32)) -> Command {
    Command::read(sector, sectors)
}

fn write((sector, sectors): (u64, u32)) -> Command {
    Command::write(sector, sectors)
}

fn measure(spec: &DeviceSpec, published: &Published) -> Cells {
    let device = prepared(spec);
    let device = device.as_ref();
    let (bytes, span) = (published.sequential_bytes, published.random_span_bytes);
    let [sequential_depth, depth] =
        [published.sequential_depth, published.random_depth].map(|depth| depth as usize);
    let megabytes = f64::from(bytes) / 1e6;
    let mut draw = Stream::new(2, "mix");
    let mut mixed = |place| if draw.below(10) < 7 { read(place) } else { write(place) };
    // A second and more of writes, so that what the cache takes at once does not count.
    let writes = (2.0 * published.random_write_per_s) as usize;
    Cells {
        sequential_mb_per_s: [read, write]
            .map(|make| megabytes * rate(device, sequential_depth, sequential(bytes).map(make))),
        random_per_s: [
            rate(device, depth, random(span, 20_000).map(read)),
            rate(device, depth, random(span, writes.max(4_000)).map(write)),
        ],
        one_at_a_time_us: [read, write]
            .map(|make| 1e6 / rate(device, 1, random(span, 2_000).map(make))),
        mixed_per_s: rate(device, depth, random(span, 4_000).map(&mut mixed)),
    }
}

#[test]
fn four_cells_of_seven_devices_are_near_those_of_the_devices_they_are_named_for() {
    let (mut far, mut named) = (Vec::new(), 0);
    for spec in devices() {
        let Some(published) = &spec.published else { continue };
        named += 1;
        let cells = measure(&spec, published);
        println!("{}: {}", spec.name, published.device);
        let pairs = [
            (
                "sequential_read_mb_per_s",
                published.sequential_read_mb_per_s,
                cells.sequential_mb_per_s[0],
            ),
            (
                "sequential_write_mb_per_s",
                published.sequential_write_mb_per_s,
                cells.sequential_mb_per_s[1],
            ),
            ("random_read_per_s", published.random_read_per_s, cells.random_per_s[0]),
            ("random_write_per_s", published.random_write_per_s, cells.random_per_s[1]),
        ];
        for (cell, published, measured) in pairs {
            let off = measured / published - 1.0;
            println!("  {cell}: {measured:.1}, published {published}, {:+.1} %", 100.0 * off);
            if off.abs() > TOLERANCE {
                far.push(format!("{} {cell}: {measured:.1} for {published}", spec.name));
            }
        }
        let [read_us, write_us] = cells.one_at_a_time_us;
        println!("  one at a time: {read_us:.1} us a read, {write_us:.1} us a write");
        println!("  70 % reads: {:.0} requests a second", cells.mixed_per_s);
    }
    assert!(far.is_empty(), "{far:#?}");
    assert_eq!(named, 7, "three eMMC cards, an SD card, a SATA and two NVMe drives");
}

/// The commits that brought the queue to Linux: 25 to 50 % more random reads, sequential ones 2 % less to as many.
#[test]
fn a_command_queue_speeds_random_reads_and_leaves_sequential_ones() {
    let with_queue = find_device("emmc-5.1-64gb").expect("a preset");
    let mut without = with_queue.clone();
    without.set("host.prefetches", "false").expect("a key");
    let [queued, one_by_one] = [&with_queue, &without].map(|spec| {
        let device = prepared(spec);
        [
            rate(device.as_ref(), 32, random(GIB, 20_000).map(read)),
            rate(device.as_ref(), 32, sequential(1 << 20).map(read)),
        ]
    });
    let [random_gain, sequential_gain] = [0, 1].map(|cell| queued[cell] / one_by_one[cell] - 1.0);
    println!("random {:+.1} %, sequential {:+.1} %", 100.0 * random_gain, 100.0 * sequential_gain);
    assert!((0.25..=0.50).contains(&random_gain), "{random_gain}");
    assert!(sequential_gain.abs() <= 0.02, "{sequential_gain}");
}

/// Sequential and random requests of a rotating disk; random ones lie within 1 GB, so that seeks are short.
#[test]
fn a_disk_answers_as_its_class() {
    let device = prepared(&find_device("disk-7200").expect("a preset"));
    let within = |what: &str, value: f64, low: f64, high: f64| {
        println!("disk-7200: {what} {value:.0}");
        assert!((low..=high).contains(&value), "{what}: {value} is not within {low} to {high}");
    };
    let megabytes = rate(device.as_ref(), 1, sequential(512 << 10).map(read)) * 0.524_288;
    within("sequential read, MB/s", megabytes, 90.0, 123.0);
    let span = 1_000_000_000;
    within(
        "random reads a second",
        rate(device.as_ref(), 1, random(span, 4_000).map(read)),
        150.0,
        240.0,
    );
    within(
        "random writes a second",
        rate(device.as_ref(), 1, random(span, 4_000).map(write)),
        150.0,
        240.0,
    );
}
