//! What a test of IOzone measured, and where its time went.

use super::plan::IozoneRun;
use crate::results::Metric;
use iozone::Measurement;

/// The rows of a test.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestRow {
    /// Name of the test in the table of IOzone.
    pub(crate) test: &'static str,
    /// Its metrics.
    pub(crate) metrics: Vec<Metric>,
}

/// Sums the passes of a test and explains its time by what the chip and its driver did.
///
/// The processor waits for the chip and moves the bytes itself, so the parts add up to the elapsed
/// time: what is left is the processor time of file system, page cache and compression.
pub(crate) fn test_row(plan: &IozoneRun, passes: &[&Measurement]) -> TestRow {
    let first = passes[0];
    let sum = |of: fn(&Measurement) -> u64| passes.iter().map(|one| of(one)).sum::<u64>();
    let elapsed_ns = sum(|one| one.elapsed_ns);
    let (bytes, records) = (sum(|one| one.bytes), sum(|one| one.records));
    let (page_reads, spare_reads) =
        (sum(|one| one.chip.page_reads), sum(|one| one.chip.spare_reads));
    let page_programs = sum(|one| one.chip.page_programs);
    let spare_programs = sum(|one| one.chip.spare_programs);
    let erases = sum(|one| one.chip.erases);
    let (timing, geometry, driver) = (&plan.part.timing, &plan.part.geometry, &plan.board.raw_nand);
    let spare_bytes = u64::from(geometry.page_oob_bytes);
    let page_bytes = u64::from(geometry.page_data_bytes) + spare_bytes;
    let programs = page_programs + spare_programs;
    let array_read_ns = (page_reads + spare_reads) * timing.read_ns;
    let array_program_ns = programs * timing.program_ns[0];
    let array_erase_ns = erases * timing.erase_ns;
    let moved =
        (page_reads + page_programs) * page_bytes + (spare_reads + spare_programs) * spare_bytes;
    let transfer_ns = moved * driver.transfer_ps_per_byte / 1000;
    let driver_ns = (page_reads + spare_reads + erases) * driver.command_ns
        + page_reads * driver.read_page_ns
        + page_programs * driver.program_page_ns;
    let named = array_read_ns + array_program_ns + array_erase_ns + transfer_ns + driver_ns;
    let metrics = vec![
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
        Metric::count("page_reads", page_reads, "operations"),
        Metric::count("spare_reads", spare_reads, "operations"),
        Metric::count("page_programs", page_programs, "operations"),
        Metric::count("spare_programs", spare_programs, "operations"),
        Metric::count("erases", erases, "operations"),
        Metric::count("array_read_ns", array_read_ns, "ns"),
        Metric::count("array_program_ns", array_program_ns, "ns"),
        Metric::count("array_erase_ns", array_erase_ns, "ns"),
        Metric::count("transfer_ns", transfer_ns, "ns"),
        Metric::count("driver_ns", driver_ns, "ns"),
        Metric::count("software_ns", elapsed_ns.saturating_sub(named), "ns"),
        Metric::count("processor_ns", sum(|one| one.processor_ns), "ns"),
        Metric::count(
            "memory_bytes",
            passes.iter().map(|one| one.memory_bytes).max().unwrap_or(0),
            "bytes",
        ),
    ];
    TestRow { test: first.test, metrics }
}
