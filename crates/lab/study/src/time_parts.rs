//! Where the time of work on raw NAND goes.

use crate::metric::Metric;
use crate::raw_host::RawHost;
use nand::Counters;

/// Operations of the chip, and the time that they explain.
///
/// The processor waits for the chip and moves the bytes itself, so the parts add up to the elapsed
/// time: what is left is the processor time of file system, page cache and compression.
pub(crate) fn time_parts(host: &RawHost, chip: Counters, elapsed_ns: u64) -> Vec<Metric> {
    let (timing, geometry, driver) = (&host.part.timing, &host.part.geometry, &host.board.raw_nand);
    let Counters { page_reads, spare_reads, page_programs, spare_programs, erases } = chip;
    let spare_bytes = u64::from(geometry.page_oob_bytes);
    let page_bytes = u64::from(geometry.page_data_bytes) + spare_bytes;
    let array_read_ns = (page_reads + spare_reads) * timing.lower_read_ns();
    // As the driver waits (`mtd::Mtd::program_ns`): for the first time of the part, whatever page of a word
    // line is programmed. With the times of `nand` the parts would not add up to the elapsed time.
    let array_program_ns = (page_programs + spare_programs) * timing.program_ns[0];
    let array_erase_ns = erases * timing.erase_ns;
    let moved =
        (page_reads + page_programs) * page_bytes + (spare_reads + spare_programs) * spare_bytes;
    let transfer_ns = moved * driver.transfer_ps_per_byte / 1000;
    let driver_ns = (page_reads + spare_reads + erases) * driver.command_ns
        + (page_reads + spare_reads) * driver.read_page_ns
        + (page_programs + spare_programs) * driver.program_page_ns;
    // The driver rounds every transfer down, this sum is rounded once: less than a nanosecond an operation
    // is missing from the software's time.
    let named = array_read_ns + array_program_ns + array_erase_ns + transfer_ns + driver_ns;
    vec![
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
    ]
}
