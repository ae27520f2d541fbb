//! Latencies of many requests in little memory.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency that has a bucket of its own, an hour. Longer ones count as an hour, but the
/// maximum is exact.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Latencies in a histogram whose buckets are 0.1 % wide; sum, count and extremes are exact.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u32>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
    min_ns: u64,
}

/// [`Latencies`] as a list of filled buckets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PackedLatencies {
    buckets: Vec<(u64, u32)>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
    min_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            // Three significant digits: buckets are 0.1 % wide.
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("bounds in order"),
            count: 0,
            sum_ns: 0,
            max_ns: 0,
            min_ns: u64::MAX,
        }
    }
}

impl Latencies {
    /// Counts a latency in nanoseconds, in its bucket and exactly.
    pub fn record(&mut self, latency_ns: u64) {
        debug_assert!(self.count == 0 || self.min_ns <= self.max_ns);
        // The histogram begins at 1; a latency of zero counts there.
        self.histogram.saturating_record(latency_ns.max(1));
        self.count += 1;
        self.sum_ns += u128::from(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        self.min_ns = self.min_ns.min(latency_ns);
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("the same bounds");
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
    }

    /// The same in a small form, to keep many of them.
    pub fn pack(&self) -> PackedLatencies {
        let buckets = self.buckets().map(|(_, highest, count)| (highest, count as u32)).collect();
        let Self { count, sum_ns, max_ns, min_ns, .. } = *self;
        PackedLatencies { buckets, count, sum_ns, max_ns, min_ns }
    }

    /// Adds those of another run, in their small form.
    pub fn add_packed(&mut self, other: &PackedLatencies) {
        // By the upper end of each bucket, which falls into the same bucket again.
        for (highest, count) in &other.buckets {
            self.histogram.saturating_record_n(*highest, *count);
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.min_ns = self.min_ns.min(other.min_ns);
    }

    /// Number of latencies that were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, in nanoseconds; 0 if there is none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// The longest latency, in nanoseconds; 0 if there is none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The shortest; 0 if there is none.
    pub fn min_ns(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min_ns }
    }

    /// The latency that a share of `per_million` of all does not exceed, to 0.1 %.
    pub fn quantile_ns(&self, per_million: u32) -> u64 {
        let value = self.histogram.value_at_quantile(f64::from(per_million) / 1e6);
        // The end of a bucket may lie beyond the longest latency.
        if self.count == 0 { 0 } else { value.min(self.max_ns) }
    }

    /// Filled buckets: lowest latency, highest latency, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.histogram.iter_recorded().map(|value| {
            let highest = value.value_iterated_to();
            let lowest = self.histogram.lowest_equivalent(highest);
            (lowest, highest, u64::from(value.count_at_value()))
        })
    }
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has everything.
///
/// Source: Jain, Chiu, Hawe, DEC TR-301, 1984.
pub fn jain_index(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::{Latencies, jain_index};

    #[test]
    fn pooling_is_the_same_as_recording_together() {
        let (mut first, mut second, mut together) =
            (Latencies::default(), Latencies::default(), Latencies::default());
        for number in 1..10_000_u64 {
            let latency_ns = number * number;
            if number % 3 == 0 {
                first.record(latency_ns);
            } else {
                second.record(latency_ns);
            }
            together.record(latency_ns);
        }
        let mut unpacked = Latencies::default();
        unpacked.add_packed(&first.pack());
        assert!(unpacked.buckets().eq(first.buckets()));
        first.add(&second);
        for per_million in [500_000, 990_000, 999_900] {
            assert_eq!(first.quantile_ns(per_million), together.quantile_ns(per_million));
        }
        assert_eq!((first.max_ns(), first.count()), (9999 * 9999, 9999));
        assert_eq!(first.buckets().map(|(.., count)| count).sum::<u64>(), 9999);
        let median = together.quantile_ns(500_000) as f64;
        assert!((median / 25_000_000.0 - 1.0).abs() < 0.002, "{median}");
    }

    #[test]
    fn fairness_lies_between_one_and_one_of_n() {
        assert!((jain_index(&[5.0, 5.0, 5.0]) - 1.0).abs() < 1e-12);
        assert!((jain_index(&[0.0, 9.0, 0.0]) - 1.0 / 3.0).abs() < 1e-12);
    }
}
