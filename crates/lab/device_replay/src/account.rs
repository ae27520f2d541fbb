//! Where the time of requests goes: latencies by kind and size, and the parts of each band of percentiles.

use block::BioTimes;
use jobs::Latencies;

/// Parts of a latency, in the order in which a request meets them.
pub const PARTS: [&str; 8] = [
    // Before the block layer took it, and until it had a request of the pool (Q to G).
    "request_limit",
    // Merged into a request, or in a plug (G to I).
    "plug",
    // I to the beginning: other commands were carried out.
    "behind_reads",
    "behind_writes",
    // Its own cleaning, or that of a command in front.
    "cleaning",
    // The device had nothing to do, and the scheduler sent nothing.
    "held_by_scheduler",
    // With the device, but behind none of the above: another of its places, a channel or a die was in use.
    "device_queue",
    // The command itself: interface, cache and chip.
    "service",
];

/// Number of [`PARTS`].
pub(crate) const PART_COUNT: usize = PARTS.len();

/// Bands of the latencies of a direction, by the percentiles between which they lie.
pub const BAND_NAMES: [&str; 6] =
    ["p0-p50", "p50-p90", "p90-p99", "p99-p99.9", "p99.9-p99.99", "p99.99-max"];

/// Upper ends of all bands but the last, in millionths.
const BAND_ENDS: [u32; 5] = [500_000, 900_000, 990_000, 999_000, 999_900];

/// Bits of a step: each power of two of nanoseconds has 64 steps, so that a step is at most 1.6 % wide.
const STEP_BITS: u32 = 6;

/// Requests of a step of latencies, and the sum of each part of theirs.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    requests: u64,
    parts_ns: [u64; PART_COUNT],
}

/// Classes of sizes: the powers of two of 32 bits.
const SIZE_CLASSES: usize = u32::BITS as usize;

/// Latencies of one kind of request, in steps that know where the time went. Memory does not grow with the requests.
#[derive(Debug)]
pub(crate) struct Account {
    /// By the logarithm of the power of two that holds the request's sectors. A request is recorded here alone: all
    /// together are the latencies of the kind, so that no second histogram is kept with each request.
    sizes: [Option<Box<Latencies>>; SIZE_CLASSES],
    steps: Vec<Step>,
}

/// What a band of latencies waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BandSums {
    pub(crate) requests: u64,
    pub(crate) parts_ns: [u64; PART_COUNT],
}

impl Default for Account {
    fn default() -> Self {
        // As many as 64 bits have: a backlog may last for days of simulated time.
        let steps = vec![Step::default(); ((64 - STEP_BITS as usize) + 1) << STEP_BITS];
        Self { sizes: Default::default(), steps }
    }
}

/// The step of a latency.
#[inline]
fn step_of(latency_ns: u64) -> usize {
    let shift = (u64::BITS - latency_ns.leading_zeros()).saturating_sub(STEP_BITS + 1);
    ((shift as usize) << STEP_BITS) + (latency_ns >> shift) as usize
}

/// The parts of a bio's time; their sum is its latency.
fn parts_of(times: &BioTimes) -> [u64; PART_COUNT] {
    let wait = &times.wait;
    // What the device did while the bio waited for it; the account of the oldest command stands for all of a
    // device that works on several at once, so that it may say more than the time there was.
    let (mut left_ns, before_ns) = (
        times.complete_ns - times.insert_ns,
        times.start_ns.max(times.insert_ns) - times.insert_ns,
    );
    // Each part takes what is left at most, so that the sum is exact whatever the device says.
    let mut take = |ns: u64| {
        let taken = ns.min(left_ns);
        left_ns -= taken;
        taken
    };
    // Cleaning first: it explains more than the command that happened to cause it.
    let cleaning = take(wait.cleaning_ns);
    let reads = take(wait.reads_ns);
    let writes = take(wait.writes_ns);
    let idling = take(wait.idling_ns);
    // Of the time before the beginning, what none of the kinds explains.
    let queue = take(before_ns.saturating_sub(cleaning + reads + writes + idling));
    [times.q2g_ns(), times.g2i_ns(), reads, writes, cleaning, idling, queue, left_ns]
}

impl Account {
    /// Counts a request that is complete.
    #[inline]
    pub(crate) fn record(&mut self, times: &BioTimes) {
        let latency_ns = times.q2c_ns();
        let class = times.bio.sectors.next_power_of_two().trailing_zeros();
        self.sizes[class as usize].get_or_insert_default().record(latency_ns);
        let parts = parts_of(times);
        debug_assert_eq!(parts.iter().sum::<u64>(), latency_ns, "the parts are the whole");
        let step = &mut self.steps[step_of(latency_ns)];
        step.requests += 1;
        for (sum, part) in step.parts_ns.iter_mut().zip(parts) {
            *sum += part;
        }
    }

    /// Latencies by size: the sectors of the longest request of the class, and the class.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (u32, &Latencies)> {
        let classes = self.sizes.iter().zip(0..);
        classes.filter_map(|(latencies, class)| Some((1 << class, latencies.as_deref()?)))
    }

    /// Latencies of all sizes.
    pub(crate) fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        self.sizes().for_each(|(_, latencies)| all.add(latencies));
        all
    }

    /// What each band of [`BAND_NAMES`] waited for. A step belongs to the band that holds its first request.
    pub(crate) fn bands(&self) -> [BandSums; BAND_NAMES.len()] {
        let mut bands = [BandSums::default(); BAND_NAMES.len()];
        let all = self.sizes().map(|(_, latencies)| latencies.count()).sum();
        let ends: Vec<u64> = BAND_ENDS
            .iter()
            .map(|end| (u128::from(all) * u128::from(*end)).div_ceil(1_000_000) as u64)
            .collect();
        let mut seen = 0;
        for step in &self.steps {
            // Steps are not divided between bands: the place in a step is not known.
            let band = ends.iter().take_while(|end| seen >= **end).count();
            bands[band].requests += step.requests;
            for (sum, part) in bands[band].parts_ns.iter_mut().zip(step.parts_ns) {
                *sum += part;
            }
            seen += step.requests;
        }
        debug_assert_eq!(seen, all, "every request lies in a step");
        bands
    }
}

#[cfg(test)]
mod tests {
    use super::{STEP_BITS, step_of};

    #[test]
    fn steps_follow_each_other_without_a_gap() {
        let mut last = 0;
        for latency_ns in 0..1 << 20 {
            let step = step_of(latency_ns);
            assert!(step == last || step == last + 1, "{latency_ns} ns: step {last}, then {step}");
            last = step;
        }
        assert_eq!(
            step_of(u64::MAX),
            ((64 - STEP_BITS as usize) << STEP_BITS) + (1 << STEP_BITS) - 1
        );
    }
}
