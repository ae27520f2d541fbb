//! What a piece of work cost: rows from what was seen of it.

use super::contract::RawNandRun;
use super::flash_use::FlashUse;
use crate::lifetime::Wear;
use crate::metric::{Metric, TestRow};
use ::jobs::Latencies;
use device::DeviceFlash;
use vfs::{Call, CallKind};

/// Kinds of calls, and their names in metrics.
const KINDS: [(CallKind, &str); 4] = [
    (CallKind::Read, "read"),
    (CallKind::Write, "write"),
    (CallKind::Sync, "sync"),
    (CallKind::Other, "other"),
];
/// Name of all kinds together.
const ANY: &str = "call";
/// Nanoseconds of a year of 365.25 days.
const YEAR_NS: f64 = 31_557_600e9;

/// The calls of the work, as they returned.
#[derive(Default)]
pub(super) struct Calls {
    latencies: [Latencies; 4],
    /// Syncs in which the chip was programmed.
    working_syncs: Latencies,
    /// When the last call returned, and pages that the chip had programmed by then.
    last_return: Option<(u64, u64)>,
    /// Time of all calls; those of processes side by side overlap.
    busy_ns: u64,
    read_bytes: u64,
    write_bytes: u64,
}

impl Calls {
    /// Counts a call that returns at `now_ns`, when the chip has programmed `page_programs`.
    ///
    /// A sync that had something to write differs from one that had not by the pages that were
    /// programmed while it ran. That is known only if it began when the call before it returned: in
    /// a pause between the two, threads of the file system may write as well.
    pub(super) fn add(&mut self, call: Call, now_ns: u64, page_programs: u64) {
        debug_assert!(call.duration_ns <= now_ns, "a call begins after the machine");
        debug_assert!(self.last_return.is_none_or(|(returned_ns, _)| returned_ns <= now_ns));
        let last = self.last_return.replace((now_ns, page_programs));
        let has_worked = last.is_some_and(|(returned_ns, programmed)| {
            returned_ns + call.duration_ns == now_ns && programmed < page_programs
        });
        if call.kind == CallKind::Sync && has_worked {
            self.working_syncs.record(call.duration_ns);
        }
        self.latencies[call.kind as usize].record(call.duration_ns);
        self.busy_ns += call.duration_ns;
        match call.kind {
            CallKind::Read => self.read_bytes += call.bytes,
            CallKind::Write => self.write_bytes += call.bytes,
            CallKind::Sync | CallKind::Other => {}
        }
    }
}

/// Everything that was seen of the work.
pub(super) struct Work {
    pub(super) calls: Calls,
    /// The sync after the last call.
    pub(super) final_sync_ns: u64,
    /// From the first call to the end of that sync, pauses included.
    pub(super) elapsed_ns: u64,
    /// What was done to the flash in that time.
    pub(super) flash: FlashUse,
    /// Most memory that the structures of the mount took, and its dirty pages.
    pub(super) memory_bytes: u64,
    pub(super) dirty_bytes: u64,
    /// Dirty pages when the last call had returned.
    pub(super) dirty_bytes_at_end: u64,
}

impl Work {
    /// Mean latency of `fsync`, `fdatasync` and `sync` of the work; none if it has no such call.
    pub(super) fn sync_mean(&self) -> Option<Metric> {
        let syncs = &self.calls.latencies[CallKind::Sync as usize];
        (syncs.count() > 0).then(|| Metric::number("sync_mean_ns", syncs.mean_ns(), "ns"))
    }
}

/// All that is said of work for which the flash is too small.
pub(super) fn full(test: &'static str) -> TestRow {
    TestRow::new(test, vec![Metric::count("is_full", 1, "yes or no")])
}

/// The rows of a piece of work.
pub(super) fn metrics(plan: &RawNandRun, work: &Work) -> Vec<Metric> {
    let Calls { busy_ns, read_bytes, write_bytes, .. } = work.calls;
    // Pauses between calls are the user's, not the file system's.
    // Calls of processes side by side overlap: together they cannot take longer than the work.
    let served_ns = (busy_ns + work.final_sync_ns).min(work.elapsed_ns);
    let moved = (read_bytes + write_bytes) as f64;
    let mut rows = vec![
        Metric::count("is_full", 0, "yes or no"),
        Metric::number(
            "throughput_kib_per_s",
            moved / 1024.0 / (served_ns.max(1) as f64 / 1e9),
            "KiB/s",
        ),
        Metric::count("call_ns", busy_ns, "ns"),
        Metric::count("final_sync_ns", work.final_sync_ns, "ns"),
        Metric::count("elapsed_ns", work.elapsed_ns, "ns"),
        Metric::count("host_read_bytes", read_bytes, "bytes"),
        Metric::count("host_write_bytes", write_bytes, "bytes"),
    ];
    let mut all = Latencies::default();
    for (kind, name) in KINDS {
        let latencies = &work.calls.latencies[kind as usize];
        all.add(latencies);
        rows.extend(latency_metrics(name, latencies));
    }
    rows.extend(latency_metrics(ANY, &all));
    rows.extend(latency_metrics("working_sync", &work.calls.working_syncs));
    rows.extend(work.flash.times(plan, served_ns));
    // mtdblock keeps one erase block in memory; no file system counts it. A card's memory is its own.
    let of_mtdblock = !work.flash.is_of_device() && plan.host.kind.is_on_block_device;
    let flash = work.flash.state.as_ref();
    let cache_bytes = flash.filter(|_| of_mtdblock).map_or(0, |flash| flash.block_bytes);
    rows.extend([
        Metric::count("memory_bytes_max", work.memory_bytes + cache_bytes, "bytes"),
        Metric::count("dirty_bytes_max", work.dirty_bytes, "bytes"),
        Metric::count("dirty_bytes_at_end", work.dirty_bytes_at_end, "bytes"),
    ]);
    if let Some(flash) = flash {
        if work.flash.is_of_device() {
            rows.push(Metric::count("device_ram_bytes", flash.ram_bytes, "bytes"));
        }
        rows.extend(wear_metrics(flash, work, !of_mtdblock));
    }
    rows
}

fn latency_metrics(name: &str, latencies: &Latencies) -> Vec<Metric> {
    let mut rows = vec![Metric::count(format!("{name}_calls"), latencies.count(), "calls")];
    if latencies.count() > 0 {
        rows.extend([
            Metric::count(format!("{name}_p50_ns"), latencies.quantile_ns(500_000), "ns"),
            Metric::count(format!("{name}_p99_ns"), latencies.quantile_ns(990_000), "ns"),
            Metric::count(format!("{name}_max_ns"), latencies.max_ns(), "ns"),
        ]);
    }
    rows
}

/// Write amplification, and the lifetime that the work allows ([`Wear`]).
fn wear_metrics(flash: &DeviceFlash, work: &Work, levels_wear: bool) -> Vec<Metric> {
    let wear = Wear {
        host_write_bytes: work.calls.write_bytes,
        page_programs: work.flash.counters.page_programs,
        pages_per_block: flash.block_bytes / flash.page_bytes,
        erase_counts: &flash.erase_counts,
        erase_cycles_max: flash.erase_cycles_max,
        is_unlevelled: !levels_wear,
    };
    let blocks = flash.erase_counts.len().max(1) as f64;
    let hottest = flash.erase_counts.iter().copied().max().unwrap_or(0);
    let mut rows = vec![
        Metric::number("erase_count_mean", wear.erases() as f64 / blocks, "erases"),
        Metric::count("erase_count_max", hottest.into(), "erases"),
    ];
    // Without writes nothing wears, and no lifetime follows.
    let Some(lifetime) = wear.lifetime_host_bytes() else { return rows };
    let written = wear.host_write_bytes as f64;
    let programmed = (wear.page_programs * flash.page_bytes) as f64;
    if programmed > 0.0 {
        rows.push(Metric::number("waf", programmed / written, "ratio"));
    }
    // At the pace of the work, pauses included.
    let years = lifetime as f64 / written * work.elapsed_ns as f64 / YEAR_NS;
    rows.extend([
        Metric::count("lifetime_host_bytes", lifetime, "bytes"),
        Metric::number("lifetime_years", years, "years"),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::{Calls, KINDS};
    use vfs::{Call, CallKind};

    #[test]
    fn only_a_sync_in_which_pages_were_programmed_has_worked() {
        let sync = |duration_ns| Call { kind: CallKind::Sync, bytes: 0, duration_ns };
        let write = Call { kind: CallKind::Write, bytes: 10, duration_ns: 5 };
        let mut calls = Calls::default();
        calls.add(write, 5, 0);
        calls.add(sync(100), 105, 2);
        // Nothing was programmed; then something was, but perhaps by a thread in the pause before the sync.
        calls.add(sync(1), 106, 2);
        calls.add(sync(1), 500, 3);
        assert_eq!((calls.working_syncs.count(), calls.working_syncs.max_ns()), (1, 100));
        assert_eq!(calls.latencies[CallKind::Sync as usize].count(), 3);
    }

    #[test]
    fn the_kinds_stand_at_their_numbers() {
        assert!(KINDS.iter().enumerate().all(|(number, (kind, _))| *kind as usize == number));
    }
}
