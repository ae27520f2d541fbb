//! Tidy rows: one column an axis, then repeat, metric, value, unit.

use crate::columns::AxisKind;
use crate::life::Wear;
use crate::replay::Replay;
use crate::windows::WEIGHTS;
use nand::{Counters, Geometry};
use serde::Serialize;
use std::fmt::Write as _;

/// A measured value: counts stay integers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// A count, printed as an integer.
    Count(u64),
    /// A mean, share or ratio.
    Real(f64),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            // The shortest decimal that reads back as the same number.
            Self::Real(real) => write!(f, "{real}"),
        }
    }
}

/// One measurement of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Name, unit last where it has one.
    pub name: String,
    /// Value in the unit.
    pub value: Number,
    /// Unit of the value, in words.
    pub unit: &'static str,
}

impl Metric {
    pub(crate) fn count(name: impl Into<String>, value: u64, unit: &'static str) -> Self {
        Self { name: name.into(), value: Number::Count(value), unit }
    }

    pub(crate) fn number(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value: Number::Real(value), unit }
    }
}

/// What one test, or one phase of a test, measured within a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestRow {
    /// Value of the last axis column.
    pub(crate) test: &'static str,
    /// Metrics of the test.
    pub(crate) metrics: Vec<Metric>,
    /// What a reader has to know of them, such as why there are few.
    pub(crate) note: Option<String>,
}

impl TestRow {
    pub(crate) fn new(test: &'static str, metrics: Vec<Metric>) -> Self {
        Self { test, metrics, note: None }
    }
}

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Values of the axes, in the order of the columns.
    pub axes: Vec<String>,
    /// Repeat number, from 0.
    pub repeat: u32,
    /// Name, value and unit of what was measured.
    #[serde(flatten)]
    pub metric: Metric,
}

/// A table beside the rows: pooled values, distributions, time lines.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Name of its file.
    pub name: &'static str,
    /// Column heads: the axes, then its own.
    pub columns: Vec<String>,
    /// Cells, in the order of the plan.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text.push('\n');
        for row in &self.rows {
            text.push_str(&row.join(","));
            text.push('\n');
        }
        text
    }
}

/// Everything a study yields.
#[derive(Clone, Debug, Serialize)]
pub struct StudyResults {
    /// Names of the axis columns.
    pub columns: Vec<String>,
    /// What the values of those columns are.
    pub axis_kinds: Vec<AxisKind>,
    /// Rows in the order of the plan.
    pub rows: Vec<Row>,
    /// What follows from the rows under another way of counting; no part of the CSV and its digest.
    pub derived: Vec<Row>,
    /// Cumulative counts over the run: axis values, then `io, reads, writes, erases, weighted_time`.
    pub curves: Vec<(Vec<String>, Vec<[u64; 5]>)>,
    /// Tables made of several runs; none for studies of translation layers alone.
    pub tables: Vec<Table>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// True if the study was stopped before all runs were done.
    pub interrupted: bool,
}

impl StudyResults {
    /// The rows as CSV, which is also what the digest is taken over.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text.push_str(",repeat,metric,value,unit\n");
        for row in &self.rows {
            for axis in &row.axes {
                text.push_str(axis);
                text.push(',');
            }
            let Metric { name, value, unit } = &row.metric;
            let _ = writeln!(text, "{},{name},{value},{unit}", row.repeat);
        }
        text
    }

    /// BLAKE3 of the CSV and of all tables, in hexadecimal.
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.to_csv().as_bytes());
        for table in &self.tables {
            hasher.update(table.to_csv().as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

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
        // All that the host did not ask for, pages of the map included.
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

/// Spread of erase counts, and the life that the work allows ([`Wear`]).
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
