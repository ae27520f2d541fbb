//! What a test of IOzone measured, and where its time went.

use crate::metric::{Metric, TestRow};
use crate::raw_host::RawHost;
use crate::time_parts::time_parts;
use iozone::{DeviceWork, Measurement};
use nand::Counters;

/// Sums the passes of a test and explains its time by what the chip and its driver did.
pub(crate) fn test_row(host: &RawHost, passes: &[&Measurement]) -> TestRow {
    let first = passes[0];
    let sum = |of: fn(&Measurement) -> u64| passes.iter().map(|one| of(one)).sum::<u64>();
    let elapsed_ns = sum(|one| one.elapsed_ns);
    let (bytes, records) = (sum(|one| one.bytes), sum(|one| one.records));
    let chip = passes.iter().fold(Counters::default(), |mut sum, one| {
        sum += one.chip;
        sum
    });
    let mut metrics = vec![
        Metric::count("elapsed_ns", elapsed_ns, "ns"),
        Metric::number(
            "throughput_kib_per_s",
            bytes as f64 / 1024.0 / (elapsed_ns.max(1) as f64 / 1e9),
            "KiB/s",
        ),
        Metric::number("record_mean_ns", elapsed_ns as f64 / records.max(1) as f64, "ns"),
        Metric::count(
            "record_max_ns",
            passes.iter().map(|one| one.record_max_ns).max().unwrap_or(0),
            "ns",
        ),
        Metric::count("records", records, "records"),
    ];
    metrics.extend(time_parts(host, chip, elapsed_ns));
    metrics.extend([
        Metric::count("processor_ns", sum(|one| one.processor_ns), "ns"),
        Metric::count(
            "memory_bytes",
            passes.iter().map(|one| one.memory_bytes).max().unwrap_or(0),
            "bytes",
        ),
    ]);
    metrics.extend(device_metrics(passes));
    TestRow::new(first.test, metrics)
}

/// What went through the scheduler to a device with chips of its own; nothing on raw NAND and mtdblock.
fn device_metrics(passes: &[&Measurement]) -> Vec<Metric> {
    let all: Option<Vec<DeviceWork>> = passes.iter().map(|one| one.device).collect();
    let Some(all) = all else { return Vec::new() };
    let sum = |of: fn(&DeviceWork) -> u64| all.iter().map(of).sum::<u64>();
    vec![
        Metric::count("device_reads", sum(|one| one.reads), "requests"),
        Metric::count("device_writes", sum(|one| one.writes), "requests"),
        Metric::count("device_read_sectors", sum(|one| one.read_sectors), "sectors"),
        Metric::count("device_written_sectors", sum(|one| one.written_sectors), "sectors"),
        Metric::count("device_flushes", sum(|one| one.flushes), "requests"),
        Metric::count("device_reads_before", sum(|one| one.reads_before), "requests"),
        Metric::count("device_writes_before", sum(|one| one.writes_before), "requests"),
        // What the last pass leaves dirty.
        Metric::count("dirty_bytes_at_end", all.last().map_or(0, |one| one.dirty_bytes), "bytes"),
    ]
}
