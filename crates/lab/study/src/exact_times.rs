//! Quantiles of the chip's time for each request, exact to the nanosecond.
//!
//! A request takes what the chip works for it, cleaning included: one chip, one request at a time, no bus or processor of
//! a controller. These times are sums of few constants, so that a long trace has few different ones: each is counted.
//!
//! Measuring costs some 4 ns of processor time a request: of a replay of random single-page writes by page mapping 2 % on a
//! chip of 65,536 blocks and 4 % on one of 4,096. A replay without `service_times` has none of this cost.

use crate::replay::Replay;
use nand::{Chip, Counters};
use serde::Serialize;
use std::collections::BTreeMap;
use trace::Operation;

/// Different times that are counted in place; others take the place of an earlier one, which goes to the map.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 8;

/// Multiplier of Fibonacci hashing, 2^64 / golden ratio: spreads sums of round numbers over the slots.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Quantiles of some requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceTimeQuantiles {
    /// Requests that were measured.
    pub requests: u64,
    /// The least time that at least half of the requests do not exceed, and so on.
    pub p50_ns: u64,
    /// Time that 90 % of the requests do not exceed.
    pub p90_ns: u64,
    /// Time that 99 % of the requests do not exceed.
    pub p99_ns: u64,
    /// Time that 99.9 % of the requests do not exceed.
    pub p999_ns: u64,
    /// Time that 99.99 % of the requests do not exceed.
    pub p9999_ns: u64,
    /// Time of the slowest request.
    pub max_ns: u64,
}

/// Quantiles of a replay, by kind of request; none of a kind that the trace has not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServiceTimeSummary {
    /// Quantiles of the reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<ServiceTimeQuantiles>,
    /// Writes, those of zeroes included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<ServiceTimeQuantiles>,
    /// Requests of all kinds, trims and flushes included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<ServiceTimeQuantiles>,
}

/// The time of a chip at work, from what it counted: the sum of `Chip::busy_ns`, without its divisions.
struct ChipClock {
    page_read_ns: u64,
    spare_read_ns: u64,
    /// By position in the word line.
    page_program_ns: [u64; 4],
    spare_program_ns: u64,
    erase_ns: u64,
    has_one_program_time: bool,
}

impl ChipClock {
    fn of(chip: &Chip) -> Self {
        let (timing, geometry) = (chip.timing(), chip.geometry());
        // A counter of one: the time of each operation, without the part's formula in the hot loop.
        let one = |counters: Counters| timing.busy_ns(geometry, &counters).iter().sum();
        let none = Counters::default();
        Self {
            page_read_ns: one(Counters { page_reads: 1, ..none }),
            spare_read_ns: one(Counters { spare_reads: 1, ..none }),
            page_program_ns: std::array::from_fn(|place| timing.page_program_ns(geometry, place)),
            spare_program_ns: one(Counters { spare_programs: 1, ..none }),
            erase_ns: one(Counters { erases: 1, ..none }),
            has_one_program_time: timing.program_ns.len() == 1,
        }
    }

    #[inline]
    fn now_ns(&self, chip: &Chip) -> u64 {
        let counters = chip.counters();
        // Parts whose pages of a word line differ in time keep a counter for each position.
        let programs_ns = if self.has_one_program_time {
            counters.page_programs * self.page_program_ns[0]
        } else {
            let by_place = chip.programs_by_position().into_iter().zip(self.page_program_ns);
            by_place.map(|(count, program_ns)| count * program_ns).sum()
        };
        chip.extra_read_ns()
            + counters.page_reads * self.page_read_ns
            + counters.spare_reads * self.spare_read_ns
            + programs_ns
            + counters.spare_programs * self.spare_program_ns
            + counters.erases * self.erase_ns
    }
}

/// Times of one kind of request, each with how often it came.
struct Counts {
    slots: Vec<(u64, u64)>,
    others: BTreeMap<u64, u64>,
}

impl Counts {
    fn new() -> Self {
        Self { slots: vec![(0, 0); SLOTS], others: BTreeMap::new() }
    }

    #[inline]
    fn record(&mut self, took_ns: u64) {
        // Most requests take one of few times: a slot that a hash names holds them without a search.
        let slot = &mut self.slots[(took_ns.wrapping_mul(SPREAD) >> (64 - SLOT_BITS)) as usize];
        if slot.0 == took_ns {
            slot.1 += 1;
            return;
        }
        // Two times of one slot take turns; the one that leaves is counted in the map.
        let (evicted_ns, count) = std::mem::replace(slot, (took_ns, 1));
        if count > 0 {
            *self.others.entry(evicted_ns).or_default() += count;
        }
    }

    /// Every time and how often it came, the shortest first.
    fn sorted(&self) -> BTreeMap<u64, u64> {
        let mut all = self.others.clone();
        for (took_ns, count) in self.slots.iter().filter(|(_, count)| *count > 0) {
            *all.entry(*took_ns).or_default() += count;
        }
        all
    }
}

/// Times of the requests of a replay.
pub(crate) struct ExactTimes {
    clock: ChipClock,
    before_ns: u64,
    /// Times of reads, writes and other requests.
    kinds: [Counts; 3],
}

impl ExactTimes {
    /// Times that begin now.
    pub(crate) fn start(replay: &Replay) -> Self {
        let chip = replay.ftl().flash().chip();
        let clock = ChipClock::of(chip);
        let before_ns = clock.now_ns(chip);
        Self { clock, before_ns, kinds: std::array::from_fn(|_| Counts::new()) }
    }

    /// A request was served.
    #[inline]
    pub(crate) fn served(&mut self, operation: Operation, replay: &Replay) {
        let now_ns = self.clock.now_ns(replay.ftl().flash().chip());
        let kind = match operation {
            Operation::Read => 0,
            Operation::Write | Operation::WriteZeroes => 1,
            Operation::Trim | Operation::Flush => 2,
        };
        self.kinds[kind].record(now_ns - self.before_ns);
        self.before_ns = now_ns;
    }

    /// The quantiles of everything that was measured.
    pub(crate) fn summary(&self) -> ServiceTimeSummary {
        let [reads, writes, others] = self.kinds.each_ref().map(Counts::sorted);
        let mut all = others;
        for (took_ns, count) in reads.iter().chain(&writes) {
            *all.entry(*took_ns).or_default() += count;
        }
        let [read, write, all] = [&reads, &writes, &all].map(quantiles);
        ServiceTimeSummary { read, write, all }
    }
}

fn quantiles(times: &BTreeMap<u64, u64>) -> Option<ServiceTimeQuantiles> {
    let requests: u64 = times.values().sum();
    let (max_ns, _) = times.last_key_value()?;
    let quantile = |per_10_000: u64| {
        let rank = (u128::from(requests) * u128::from(per_10_000)).div_ceil(10_000);
        let mut counted = 0;
        let mut sums = times.iter().map(|(took_ns, count)| {
            counted += u128::from(*count);
            (*took_ns, counted)
        });
        sums.find(|(_, counted)| *counted >= rank).map_or(*max_ns, |(took_ns, _)| took_ns)
    };
    Some(ServiceTimeQuantiles {
        requests,
        p50_ns: quantile(5_000),
        p90_ns: quantile(9_000),
        p99_ns: quantile(9_900),
        p999_ns: quantile(9_990),
        p9999_ns: quantile(9_999),
        max_ns: *max_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::{ChipClock, Counts, quantiles};
    use nand::random::Stream;
    use nand::{Chip, FaultSettings, PageAddress, Role, Storage, Tag, find_part};

    /// Against a sorted list of all times, with more different ones than there are slots.
    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        for (length, different) in [(1, 1), (2, 2), (99, 7), (20_000, 2_000), (100_000, 90_000)] {
            let mut stream = Stream::new(length, "times");
            let mut counts = Counts::new();
            let mut list: Vec<u64> =
                (0..length).map(|_| 1_000 * u64::from(stream.below(different))).collect();
            for took_ns in &list {
                counts.record(*took_ns);
            }
            list.sort_unstable();
            let found = quantiles(&counts.sorted()).unwrap();
            let nth = |per_10_000: usize| list[(list.len() * per_10_000).div_ceil(10_000) - 1];
            let expected = [5_000, 9_000, 9_900, 9_990, 9_999].map(nth);
            let own = [found.p50_ns, found.p90_ns, found.p99_ns, found.p999_ns, found.p9999_ns];
            assert_eq!(own, expected, "{length} of {different}");
            assert_eq!((found.requests, found.max_ns), (length, list[list.len() - 1]));
        }
        assert_eq!(quantiles(&Counts::new().sorted()), None);
    }

    #[test]
    fn the_clock_is_that_of_the_chip() {
        for name in ["k9f2g08u0c", "k9gag08u0m", "generic-tlc-3d"] {
            let part = find_part(name).unwrap();
            let mut chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
            let clock = ChipClock::of(&chip);
            for page in 0..part.geometry.pages_per_block.min(24) {
                let at = PageAddress::new(1, page);
                chip.program(at, Tag::new(page, 1, Role::Data), None).unwrap();
                chip.read(at).unwrap();
            }
            chip.erase(1).unwrap();
            assert!(chip.counters().page_programs > 0);
            assert_eq!(clock.now_ns(&chip), chip.busy_ns().iter().sum::<u64>(), "{name}");
        }
    }
}
