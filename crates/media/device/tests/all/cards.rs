//! Figures of the presets against those that are published for named devices.
//!
//! Four cells a device: sequential and random, read and write. Each lies within a quarter of what is published. What the
//! device files state as fitted is no prediction; the latency one at a time and a mix of 70 % reads are printed beside
//! (`cargo test cards -- --nocapture`).

#![allow(clippy::print_stdout, reason = "the figures are of interest beyond their ranges")]

use crate::support;

use device::{BlockDevice, Command, DeviceSpec, Fill, Precondition, build, find_device};
use random::Stream;
use support::keep_busy;

const SECTOR_BYTES: u32 = 512;

/// Farthest that a cell may lie from what is published.
const TOLERANCE: f64 = 0.25;

/// What is published of a named device, and how it is measured here.
struct Card {
    preset: &'static str,
    named: &'static str,
    /// Bytes of a sequential request, and requests outstanding.
    sequential: (u32, usize),
    /// Bytes that random requests lie in, and requests outstanding.
    random: (u64, usize),
    random_writes: usize,
    /// MB/s of 10^6 bytes, read and written.
    sequential_mb_per_s: [f64; 2],
    /// Requests of 4 KiB a second, read and written.
    random_per_s: [f64; 2],
}

const GIB: u64 = 1 << 30;

/// Makers' figures are "up to"; depth and span are stated where they are known, and otherwise the queue's depth and 1 GiB.
const CARDS: [Card; 6] = [
    Card {
        preset: "emmc-4.51-64gb",
        named: "SanDisk iNAND Extreme 4.51 (2013; random writes sustained, over 1 GB)",
        sequential: (512 << 10, 2),
        random: (GIB, 1),
        random_writes: 20_000,
        sequential_mb_per_s: [150.0, 45.0],
        random_per_s: [4_000.0, 800.0],
    },
    Card {
        preset: "emmc-5.0-64gb",
        named: "Samsung eMMC 5.0, 64 GB (2013)",
        sequential: (512 << 10, 2),
        random: (GIB, 1),
        random_writes: 20_000,
        sequential_mb_per_s: [250.0, 90.0],
        random_per_s: [7_000.0, 7_000.0],
    },
    Card {
        preset: "emmc-5.1-64gb",
        named: "Samsung eMMC 5.1, 64 GB (2015)",
        sequential: (512 << 10, 2),
        random: (GIB, 32),
        random_writes: 40_000,
        sequential_mb_per_s: [250.0, 125.0],
        random_per_s: [11_000.0, 13_000.0],
    },
    Card {
        preset: "nvme-ssd",
        named: "Samsung 970 PRO, 512 GB (2018; random at four queues of 32)",
        sequential: (128 << 10, 32),
        random: (GIB, 128),
        random_writes: 400_000,
        sequential_mb_per_s: [3_500.0, 2_300.0],
        random_per_s: [370_000.0, 500_000.0],
    },
    Card {
        preset: "sata-ssd",
        named: "Samsung 850 EVO, 250 GB (2014; random at depth 32)",
        sequential: (128 << 10, 32),
        random: (GIB, 32),
        random_writes: 100_000,
        sequential_mb_per_s: [540.0, 520.0],
        random_per_s: [97_000.0, 88_000.0],
    },
    Card {
        preset: "sd-c10-16gb",
        named: "Toshiba C10 U1, 16 GB (Raspberry Pi 4; one request at a time, over 100 MB)",
        sequential: (512 << 10, 1),
        random: (100_000_000, 1),
        random_writes: 4_000,
        sequential_mb_per_s: [41.6, 12.0],
        random_per_s: [1_695.0, 56.0],
    },
];

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

fn measure(card: &Card) -> Cells {
    let device = prepared(&find_device(card.preset).expect("a preset"));
    let device = device.as_ref();
    let ((bytes, sequential_depth), (span_bytes, depth)) = (card.sequential, card.random);
    let megabytes = f64::from(bytes) / 1e6;
    let mut draw = Stream::new(2, "mix");
    let mut mixed = |place| if draw.below(10) < 7 { read(place) } else { write(place) };
    Cells {
        sequential_mb_per_s: [read, write]
            .map(|make| megabytes * rate(device, sequential_depth, sequential(bytes).map(make))),
        random_per_s: [
            rate(device, depth, random(span_bytes, 20_000).map(read)),
            rate(device, depth, random(span_bytes, card.random_writes).map(write)),
        ],
        one_at_a_time_us: [read, write]
            .map(|make| 1e6 / rate(device, 1, random(span_bytes, 2_000).map(make))),
        mixed_per_s: rate(device, depth, random(span_bytes, 4_000).map(&mut mixed)),
    }
}

#[test]
fn four_cells_of_six_devices_are_near_those_of_the_devices_they_are_named_for() {
    let mut far = Vec::new();
    for card in &CARDS {
        let cells = measure(card);
        println!("{}: {}", card.preset, card.named);
        let published = card.sequential_mb_per_s.iter().chain(&card.random_per_s);
        let measured = cells.sequential_mb_per_s.iter().chain(&cells.random_per_s);
        let names = ["sequential read", "sequential write", "random read", "random write"];
        for ((name, published), measured) in names.iter().zip(published).zip(measured) {
            let off = measured / published - 1.0;
            println!("  {name}: {measured:.1}, published {published}, {:+.1} %", 100.0 * off);
            if off.abs() > TOLERANCE {
                far.push(format!("{} {name}: {measured:.1} for {published}", card.preset));
            }
        }
        let [read_us, write_us] = cells.one_at_a_time_us;
        println!("  one at a time: {read_us:.1} us a read, {write_us:.1} us a write");
        println!("  70 % reads: {:.0} requests a second", cells.mixed_per_s);
    }
    assert!(far.is_empty(), "{far:#?}");
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
