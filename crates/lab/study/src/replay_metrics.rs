//! Metrics of a replay on a translation layer: host, chip, layer, wear, time, lifetime.

use crate::lifetime::Wear;
use crate::metric::Metric;
use crate::replay::Replay;
use crate::windows::WEIGHTS;
use nand::{Counters, Geometry};

/// What every replay reports: host, chip, layer, wear, time, lifetime.
pub fn device_metrics(replay: &Replay) -> Vec<Metric> {
    let (host, counters, merges) = (replay.host(), replay.counters(), replay.merges());
    let mut metrics = vec![
        Metric::count("host_requests", host.requests, "requests"),
        Metric::count("host_read_pages", host.read_pages, "pages"),
        Metric::count("host_write_pages", host.write_pages, "pages"),
        Metric::count("host_trim_pages", host.trim_pages, "pages"),
        Metric::count("host_read_bytes", host.read_bytes, "bytes"),
        Metric::count("host_write_bytes", host.write_bytes, "bytes"),
        Metric::count("unwritten_read_pages", host.unwritten_read_pages, "pages"),
        Metric::count("partial_writes", host.partial_writes, "pages"),
        Metric::count("clipped_requests", host.clipped, "requests"),
        Metric::count("page_reads", counters.page_reads, "operations"),
        Metric::count("spare_reads", counters.spare_reads, "operations"),
        Metric::count("page_programs", counters.page_programs, "operations"),
        Metric::count("spare_programs", counters.spare_programs, "operations"),
        Metric::count("erases", counters.erases, "operations"),
        Metric::count("weighted_time", counters.weighted(WEIGHTS), "reads"),
        Metric::number("waf", ratio(counters.programs(), host.write_pages), "ratio"),
        Metric::count("merges_switch", merges.switch, "merges"),
        Metric::count("merges_partial", merges.partial, "merges"),
        Metric::count("merges_full", merges.full, "merges"),
        Metric::count("blocks_cleaned", merges.cleaned, "blocks"),
        // Every program beside those of host pages: copies, and pages of the map.
        Metric::count(
            "pages_copied",
            counters.page_programs.saturating_sub(host.write_pages),
            "pages",
        ),
        Metric::count("ram_bytes", replay.ftl().ram_bytes(), "bytes"),
    ];
    metrics.extend(wear_metrics(replay));
    let busy_ns = replay.busy_ns();
    for (kind, busy_ns) in ["read", "program", "erase"].iter().zip(busy_ns) {
        metrics.push(Metric::count(format!("busy_{kind}_ns"), busy_ns, "ns"));
    }
    // One chip does one operation at a time, so its times may be added.
    metrics.push(Metric::count("busy_ns", busy_ns.iter().sum(), "ns"));
    metrics
}

/// Spread of erase counts, and the lifetime that the work allows ([`Wear`]).
fn wear_metrics(replay: &Replay) -> Vec<Metric> {
    let flash = replay.ftl().flash();
    let chip = flash.chip();
    let counted = (0..).zip(replay.erase_counts());
    let good: Vec<u32> =
        counted.filter(|(block, _)| !chip.is_bad(*block)).map(|(_, erases)| erases).collect();
    // In integers, so that no rounding depends on the order.
    let squares: u128 = good.iter().map(|count| u128::from(*count) * u128::from(*count)).sum();
    let wear = Wear {
        host_write_bytes: replay.host().write_bytes,
        page_programs: replay.counters().page_programs,
        pages_per_block: flash.geometry().pages_per_block.into(),
        erase_counts: &good,
        erase_cycles_max: chip.errors().erase_cycles_max,
        // A layer takes free blocks in turn, which spreads wear even where no setting levels it.
        is_unlevelled: false,
    };
    let (sum, blocks) = (wear.erases(), good.len() as u64);
    // In integers, so that nothing depends on the order of additions.
    debug_assert!(u128::from(blocks) * squares >= u128::from(sum) * u128::from(sum));
    let spread = u128::from(blocks) * squares - u128::from(sum) * u128::from(sum);
    let [min, max] =
        [good.iter().min(), good.iter().max()].map(|count| count.copied().unwrap_or(0));
    let mut metrics = vec![
        Metric::count("erase_count_min", min.into(), "erases"),
        Metric::number("erase_count_mean", ratio(sum, blocks), "erases"),
        Metric::count("erase_count_max", max.into(), "erases"),
        Metric::number(
            "erase_count_stddev",
            (spread as f64).sqrt() / blocks.max(1) as f64,
            "erases",
        ),
    ];
    if let Some(lifetime_bytes) = wear.lifetime_host_bytes() {
        // Drive writes per day, over five years of 365 days.
        let five_years_of_capacity = replay.capacity_bytes() as f64 * 5.0 * 365.0;
        metrics.push(Metric::count("lifetime_host_bytes", lifetime_bytes, "bytes"));
        metrics.push(Metric::number(
            "dwpd_5_years",
            lifetime_bytes as f64 / five_years_of_capacity,
            "writes/day",
        ));
    }
    metrics
}

/// Pages, blocks and sizes of the device, for the head of a report.
pub(crate) fn shape(geometry: &Geometry) -> String {
    format!(
        "{} blocks × {} pages × {} + {} bytes",
        geometry.blocks,
        geometry.pages_per_block,
        geometry.page_data_bytes,
        geometry.page_oob_bytes
    )
}

/// Cumulative reads, writes, erases and weighted time.
pub(crate) fn cumulative(io: u64, counters: Counters) -> [u64; 5] {
    [io, counters.reads(), counters.programs(), counters.erases, counters.weighted(WEIGHTS)]
}

fn ratio(numerator: u64, denominator: u64) -> f64 {
    if denominator == 0 { 0.0 } else { numerator as f64 / denominator as f64 }
}
