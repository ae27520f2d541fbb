//! Figures of the presets against what makers and reviewers publish of such devices.
//!
//! The ranges are wide: a preset stands for a class, not for a product. `cargo test -- --nocapture`
//! prints the figures.

#![allow(clippy::print_stdout, reason = "the figures are of interest beyond their ranges")]

use crate::support;

use device::{BlockDevice, Command, Fill, Precondition, build, find_device};
use random::Stream;
use support::keep_busy;

const MIB_SECTORS: u32 = 2048;

/// What is measured of a device filled by half.
#[derive(Debug)]
#[allow(clippy::struct_field_names, reason = "units stand last in every name")]
struct Figures {
    sequential_read_mb_per_s: f64,
    sequential_write_mb_per_s: f64,
    /// One at a time and at the host's depth, 4 KiB each, over 1 GB.
    random_reads_per_s: [f64; 2],
    random_writes_per_s: [f64; 2],
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

fn measure(name: &str) -> Figures {
    let spec = find_device(name).expect("a preset");
    let mut device = build(&spec, 1).expect("a preset fits together");
    let half = Precondition { fill: Fill::Permille(500), ..Precondition::default() };
    device.precondition(&half).expect("a fresh device");
    let device = device.as_ref();
    let depth = spec.host.queue_depth as usize;
    let sequential = |length: u32| (0..512).map(move |number| (u64::from(number * length), length));
    let random = |count: usize| {
        let mut stream = Stream::new(1, "presets");
        (0..count).map(move |_| (u64::from(stream.below(244_140)) * 8, 8))
    };
    let read = |(sector, length)| Command::read(sector, length);
    let write = |(sector, length)| Command::write(sector, length);
    let mb_per_s = |rate: f64| rate * f64::from(MIB_SECTORS / 2) * 512.0 / 1e6;
    let figures = Figures {
        sequential_read_mb_per_s: mb_per_s(rate(
            device,
            depth.min(2),
            sequential(MIB_SECTORS / 2).map(read),
        )),
        sequential_write_mb_per_s: mb_per_s(rate(
            device,
            depth.min(2),
            sequential(MIB_SECTORS / 2).map(write),
        )),
        random_reads_per_s: [1, depth.min(32)]
            .map(|depth| rate(device, depth, random(4_000).map(read))),
        random_writes_per_s: [1, depth.min(32)]
            .map(|depth| rate(device, depth, random(20_000).map(write))),
    };
    println!("{name}: {figures:?}");
    figures
}

#[track_caller]
fn within(what: &str, value: f64, low: f64, high: f64) {
    assert!((low..=high).contains(&value), "{what}: {value} is not within {low} to {high}");
}

/// Random 4 KiB writes a second, one at a time, over 1 GB of a full device that cleans all the time.
fn steady_random_writes_per_s(name: &str) -> f64 {
    let mut device = build(&find_device(name).expect("a preset"), 1).expect("it fits together");
    let steady = Precondition { until_all_clean: true, ..Precondition::default() };
    device.precondition(&steady).expect("a fresh device");
    let mut stream = Stream::new(1, "presets");
    let writes = (0..40_000).map(|_| Command::write(u64::from(stream.below(244_140)) * 8, 8));
    let rate = rate(device.as_ref(), 1, writes);
    println!("{name}, full and cleaning: {rate:.0} random writes a second");
    rate
}

/// Samsung eMMC Pro Class 1500 (2012): 140/50 MB/s, 3,500/1,500 IOPS. `SanDisk` iNAND Extreme 4.51
/// (2013): 150/45 MB/s, 4,000/800 IOPS. Random writes depend on the state of the card most of all:
/// what is published lies between a card that never cleaned and one that cleans all the time.
#[test]
fn emmc_4_5() {
    let figures = measure("emmc-4.5-64gb");
    within("sequential read", figures.sequential_read_mb_per_s, 120.0, 160.0);
    within("sequential write", figures.sequential_write_mb_per_s, 40.0, 60.0);
    within("random read", figures.random_reads_per_s[0], 3_000.0, 6_000.0);
    within("random write, fresh", figures.random_writes_per_s[0], 1_500.0, 3_000.0);
    let steady = steady_random_writes_per_s("emmc-4.5-64gb");
    within("random write, steady", steady, 300.0, 1_500.0);
}

/// Samsung eMMC 5.1, 64 GB (2015): 250/125 MB/s, 11,000 random reads a second. Its 13,000 random
/// writes a second are out of reach for a layer that maps whole pages of 16 KiB.
#[test]
fn emmc_5_1() {
    let figures = measure("emmc-5.1-64gb");
    within("sequential read", figures.sequential_read_mb_per_s, 230.0, 330.0);
    within("sequential write", figures.sequential_write_mb_per_s, 90.0, 140.0);
    within("random read, queued", figures.random_reads_per_s[1], 9_000.0, 14_000.0);
    within("random write", figures.random_writes_per_s[1], 3_000.0, 13_000.0);
}

/// Samsung 850 EVO (2014): 540/520 MB/s, 10,000 random reads a second one at a time, 94,000 queued.
/// Its 88,000 random writes a second need a map of 4 KiB pages and a fast cache on flash.
#[test]
fn sata_ssd() {
    let figures = measure("sata-ssd");
    within("sequential read", figures.sequential_read_mb_per_s, 500.0, 560.0);
    within("sequential write", figures.sequential_write_mb_per_s, 400.0, 560.0);
    within("random read", figures.random_reads_per_s[0], 6_000.0, 11_000.0);
    within("random read, queued", figures.random_reads_per_s[1], 50_000.0, 100_000.0);
    within("random write", figures.random_writes_per_s[1], 8_000.0, 90_000.0);
}

/// Samsung 960 EVO, 250 GB (2016): 3,200 MB/s read, 1,500 MB/s written to its fast cache, 14,000
/// random reads a second one at a time, 330,000 queued by several threads.
#[test]
fn nvme_ssd() {
    let figures = measure("nvme-ssd");
    within("sequential read", figures.sequential_read_mb_per_s, 2_800.0, 3_300.0);
    within("sequential write", figures.sequential_write_mb_per_s, 700.0, 1_600.0);
    within("random read", figures.random_reads_per_s[0], 7_000.0, 15_000.0);
    within("random read, queued", figures.random_reads_per_s[1], 80_000.0, 350_000.0);
    within("random write", figures.random_writes_per_s[1], 15_000.0, 350_000.0);
}

/// Sequential reads stream; random ones lie within 1 GB, so that seeks are short.
#[test]
fn disk() {
    let figures = measure("disk-7200");
    within("sequential read", figures.sequential_read_mb_per_s, 90.0, 123.0);
    within("random read", figures.random_reads_per_s[0], 150.0, 240.0);
    within("random write", figures.random_writes_per_s[0], 150.0, 240.0);
}
