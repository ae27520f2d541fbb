//! What a replay answers.

use crate::account::{Account, BAND_NAMES, PARTS};
use crate::options::ReplayOptions;
use crate::player::{WRITES, Watch};
use crate::source::Read;
use device::{DeviceFlash, DeviceStatistics, SECTOR_BYTES};
use jobs::Latencies;
use serde::Serialize;
use std::collections::BTreeMap;
use trace::Reader;

/// What was counted on the way in.
pub(crate) struct Counted {
    pub(crate) read: Read,
    /// Reads, writes, flushes and discards.
    pub(crate) sent: [u64; 4],
    pub(crate) last_due_ns: u64,
    pub(crate) most_outstanding: u64,
}

/// Latencies of one kind of request, nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct LatencySummary {
    /// Requests.
    pub requests: u64,
    /// Mean.
    pub mean_ns: f64,
    /// The share of requests that does not exceed it is in the name, in percent; to 0.1 % of the value.
    pub p50_ns: u64,
    /// See `p50_ns`.
    pub p90_ns: u64,
    /// See `p50_ns`.
    pub p99_ns: u64,
    /// See `p50_ns`.
    pub p999_ns: u64,
    /// See `p50_ns`.
    pub p9999_ns: u64,
    /// The longest, exact.
    pub max_ns: u64,
}

impl LatencySummary {
    fn of(latencies: &Latencies) -> Self {
        Self {
            requests: latencies.count(),
            mean_ns: latencies.mean_ns(),
            p50_ns: latencies.quantile_ns(500_000),
            p90_ns: latencies.quantile_ns(900_000),
            p99_ns: latencies.quantile_ns(990_000),
            p999_ns: latencies.quantile_ns(999_000),
            p9999_ns: latencies.quantile_ns(999_900),
            max_ns: latencies.max_ns(),
        }
    }
}

/// Latencies of requests of one kind and size.
#[derive(Clone, Debug, Serialize)]
pub struct SizeClass {
    /// `read` or `write`.
    pub operation: &'static str,
    /// Bytes of the longest request in it; the shortest has more than half of them.
    pub up_to_bytes: u64,
    /// Their latencies.
    #[serde(flatten)]
    pub latencies: LatencySummary,
}

/// What requests between two percentiles of the latencies waited for.
#[derive(Clone, Debug, Serialize)]
pub struct Band {
    /// `read` or `write`.
    pub operation: &'static str,
    /// The percentiles, such as `p50-p90`.
    pub band: &'static str,
    /// Requests in it.
    pub requests: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Shares of their time by part; they add up to 1.
    pub shares: BTreeMap<&'static str, f64>,
}

/// Wear that the device has at the end, its preconditioning included.
#[derive(Clone, Debug, Serialize)]
pub struct Wear {
    /// Fewest erases of a block.
    pub erases_min: u32,
    /// Mean of all blocks.
    pub erases_mean: f64,
    /// Most.
    pub erases_max: u32,
    /// Erases that a block stands.
    pub erase_cycles_max: u32,
}

/// What became of a trace on a device.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Format of the trace.
    pub format: &'static str,
    /// Name of the scheduler.
    pub scheduler: &'static str,
    /// Records of the trace.
    pub records: u64,
    /// Requests sent to the block layer: reads, writes, flushes and discards.
    pub requests_in: u64,
    /// Requests that were answered.
    pub requests_out: u64,
    /// From the first request to the last answer.
    pub elapsed_ns: u64,
    /// Reads a second.
    pub read_iops: f64,
    /// Writes a second.
    pub write_iops: f64,
    /// Bytes read a second.
    pub read_bytes_per_s: f64,
    /// Bytes written a second.
    pub write_bytes_per_s: f64,
    /// When the last request was due, by the times of the trace in an open loop.
    pub last_due_ns: u64,
    /// Requests with the block layer and the device, in the mean over time.
    pub queue_depth_mean: f64,
    /// Most of them.
    pub queue_depth_max: u64,
    /// Latencies by operation.
    pub latencies: BTreeMap<&'static str, LatencySummary>,
    /// Latencies by operation and size.
    pub sizes: Vec<SizeClass>,
    /// What the bands of percentiles waited for.
    pub bands: Vec<Band>,
    /// Bytes programmed for each byte written by the host; none if nothing was written or there is no flash.
    pub write_amplification: Option<f64>,
    /// Wear of the blocks; none without flash.
    pub wear: Option<Wear>,
    /// Page reads, page programs and erases of the chips.
    pub chip_operations: [u64; 3],
    /// Pages of which a write replaced a part, so that the rest was read first.
    pub read_modify_writes: u64,
    /// Reads that the first decode did not correct, and the further reads for them.
    #[serde(skip_serializing_if = "is_nothing")]
    pub read_retries: [u64; 2],
    /// Programs and erases that stopped for a read.
    #[serde(skip_serializing_if = "is_none_of_it")]
    pub suspensions: u64,
    /// Times that the host started background operations, which it was told to be urgent.
    #[serde(skip_serializing_if = "is_none_of_it")]
    pub bkops: u64,
    /// What became of the pages that the SLC cache took; none of a device without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc: Option<SlcUse>,
    /// Cleaning within writes, and in idle time, all dies together.
    pub cleaning_ns: [u64; 2],
    /// What was left out, changed or assumed.
    pub notes: Vec<String>,
}

impl Outcome {
    pub(crate) fn new(
        (scheduler, options): (&'static str, &ReplayOptions),
        reader: &Reader,
        watch: &Watch,
        counted: &Counted,
        statistics: &DeviceStatistics,
        flash: Option<&DeviceFlash>,
    ) -> Self {
        // A trace without requests ends at once; its rates are 0, not undefined.
        let seconds = watch.end_ns.max(1) as f64 / 1e9;
        let [reads, writes] = watch.accounts.each_ref().map(Account::latencies);
        let requests_in = counted.sent.iter().sum();
        // Counted apart from what was sent: where the requests end, and where they begin.
        let requests_out =
            reads.count() + writes.count() + watch.flushes.count() + watch.discards.count();
        assert_eq!(requests_in, requests_out, "every request that went in comes out");
        let kinds = [
            ("read", &reads),
            ("write", &writes),
            ("flush", &watch.flushes),
            ("discard", &watch.discards),
        ];
        let some = kinds.into_iter().filter(|(_, latencies)| latencies.count() > 0);
        let chip = &statistics.chip;
        let page_bytes = flash.map(|flash| flash.page_bytes);
        let written_bytes = statistics.written_sectors * SECTOR_BYTES;
        let write_amplification = page_bytes
            .filter(|_| written_bytes > 0)
            .map(|page_bytes| (chip.page_programs * page_bytes) as f64 / written_bytes as f64);
        Self {
            format: reader.format().name,
            scheduler,
            records: counted.read.records,
            requests_in,
            requests_out,
            elapsed_ns: watch.end_ns,
            read_iops: reads.count() as f64 / seconds,
            write_iops: writes.count() as f64 / seconds,
            read_bytes_per_s: watch.bytes[0] as f64 / seconds,
            write_bytes_per_s: watch.bytes[1] as f64 / seconds,
            last_due_ns: counted.last_due_ns,
            // Little's law: the mean number is the sum of all times over the time.
            queue_depth_mean: watch.held_ns as f64 / watch.end_ns.max(1) as f64,
            queue_depth_max: counted.most_outstanding,
            latencies: some
                .map(|(name, latencies)| (name, LatencySummary::of(latencies)))
                .collect(),
            sizes: sizes(watch),
            bands: [("read", 0), ("write", 1)]
                .into_iter()
                .flat_map(|(name, kind)| bands(name, &watch.accounts[kind]))
                .collect(),
            write_amplification,
            wear: flash.and_then(wear),
            chip_operations: [chip.page_reads, chip.page_programs, chip.erases],
            read_modify_writes: statistics.read_modify_writes,
            read_retries: [statistics.retried_reads, statistics.read_retries],
            suspensions: statistics.suspensions,
            bkops: statistics.bkops,
            slc: flash.filter(|flash| !flash.slc_erase_counts.is_empty()).map(|flash| SlcUse {
                written_pages: statistics.slc.written_pages,
                folded_pages: statistics.slc.folded_pages,
                stale_pages: statistics.slc.stale_pages,
                page_programs: statistics.slc_chip.page_programs,
                erases: statistics.slc_chip.erases,
                erases_max: flash.slc_erase_counts.iter().copied().max().unwrap_or(0),
            }),
            cleaning_ns: [statistics.foreground_cleaning_ns, statistics.background_cleaning_ns],
            notes: notes(options, reader, counted),
        }
    }
}

/// The SLC caches of all dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SlcUse {
    /// Pages of the host that they took.
    pub written_pages: u64,
    /// Pages that were folded to the layer.
    pub folded_pages: u64,
    /// Pages that were written again or discarded before they were folded.
    pub stale_pages: u64,
    /// Programs in them. Write amplification has them, too.
    pub page_programs: u64,
    /// Erases in them.
    pub erases: u64,
    /// Most erases of one of their blocks, which wear by themselves.
    pub erases_max: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none_of_it(count: &u64) -> bool {
    *count == 0
}

fn is_nothing(counts: &[u64; 2]) -> bool {
    *counts == [0, 0]
}

fn sizes(watch: &Watch) -> Vec<SizeClass> {
    let kinds = ["read", "write"].into_iter().zip(&watch.accounts);
    let class = |operation, (sectors, latencies): (u32, &Latencies)| SizeClass {
        operation,
        up_to_bytes: u64::from(sectors) * SECTOR_BYTES,
        latencies: LatencySummary::of(latencies),
    };
    kinds
        .flat_map(|(operation, account)| account.sizes().map(move |size| class(operation, size)))
        .collect()
}

fn bands(operation: &'static str, account: &Account) -> Vec<Band> {
    let named = BAND_NAMES.iter().zip(account.bands());
    // A band of few requests may have none: its steps belong to the band before.
    let filled = named.filter(|(_, sums)| sums.requests > 0);
    let band = |(band, sums): (&&'static str, crate::account::BandSums)| {
        let all: u64 = sums.parts_ns.iter().sum();
        let share = |part: &u64| *part as f64 / all.max(1) as f64;
        Band {
            operation,
            band,
            requests: sums.requests,
            mean_ns: all as f64 / sums.requests as f64,
            shares: PARTS.iter().copied().zip(sums.parts_ns.iter().map(share)).collect(),
        }
    };
    filled.map(band).collect()
}

fn wear(flash: &DeviceFlash) -> Option<Wear> {
    let counts = &flash.erase_counts;
    let sum: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    Some(Wear {
        erases_min: *counts.iter().min()?,
        erases_mean: sum as f64 / counts.len() as f64,
        erases_max: *counts.iter().max()?,
        erase_cycles_max: flash.erase_cycles_max,
    })
}

/// What was left out, changed or assumed; nothing where there is nothing to say.
fn notes(_options: &ReplayOptions, reader: &Reader, counted: &Counted) -> Vec<String> {
    let Read { clipped, wrapped, widened, has_sync_flags, .. } = counted.read;
    let mut notes: Vec<String> = reader
        .notes()
        .counters()
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{what}: {count}"))
        .collect();
    notes.extend(reader.notes().first_skipped.iter().cloned());
    let mut note = |count: u64, text: &str| {
        if count > 0 {
            notes
                .push(format!("{count} {}{text}", if count == 1 { "request" } else { "requests" }));
        }
    };
    note(clipped, " past the end of the device: shortened or left out");
    note(wrapped, " past the end of the device: sent as two, the second from its beginning");
    note(widened, " within sectors: widened to whole ones");
    if counted.sent[WRITES] > 0 && !has_sync_flags {
        notes.push(
            "the trace does not say which writes a task waits for: all do, as with O_DIRECT".into(),
        );
    }
    notes
}
