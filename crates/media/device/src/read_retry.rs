//! Read retries: what a read costs whose bit errors the first decode does not correct.
//!
//! A controller reads a page with the thresholds of a fresh one, and decodes it with the decoder that is quick. Where
//! a codeword has more errors than that corrects, it reads the page again with other thresholds, which leave fewer
//! errors, and so on. Each retry is an array read, a transfer and a decode (Park et al., ASPLOS 2021). The raw bit
//! errors are those of the part's own model ([`nand::ErrorModel::rber`]), by the wear of the block and by the
//! age of its data. What the last retry leaves is corrected by a slow decode whose time is not modelled.

use crate::rules::first_broken;
use nand::{ErrorModel, Part};
use random::Stream;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Most thresholds that a controller tries.
const STEPS_MAX: u32 = 32;
const DAY_NS: u64 = 86_400_000_000_000;

/// When reads are retried, and what a retry costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadRetrySpec {
    /// Most retries of a read; 0: no read is retried.
    pub steps: u32,
    /// Bits of a codeword that the quick decode corrects. The codeword is that of the part's ECC.
    pub decoded_bits: u32,
    /// Raw bit errors that a retry leaves, percent of those before it.
    pub step_percent: u32,
    /// Decode of a retried page, nanoseconds.
    pub decode_ns: u64,
    /// Erase cycles of every block before the run.
    pub erase_cycles: u32,
    /// Age of all data, days.
    pub retention_days: u32,
}

impl ReadRetrySpec {
    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence that begins with the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let rules = [
            (self.steps <= STEPS_MAX, "steps must be at most 32"),
            (self.decoded_bits <= 65_536, "decoded_bits must be at most 65536"),
            (self.step_percent <= 100, "step_percent must be at most 100"),
            (self.decode_ns <= 1_000_000_000, "decode_ns must be at most 1000000000 (1 s)"),
            (self.retention_days <= 36_525, "retention_days must be at most 36525 (100 years)"),
        ];
        first_broken("read_retry", &rules)
    }
}

/// Draws how often reads of a die are retried.
#[derive(Clone, Debug)]
pub(crate) struct ReadRetry {
    spec: ReadRetrySpec,
    errors: ErrorModel,
    codewords: u32,
    /// For each wear and number of parts that was met: the probability that a read needs more than 0, 1, … retries.
    tails: FxHashMap<(u32, u32), Vec<f64>>,
    stream: Stream,
}

impl ReadRetry {
    /// Retries of a die of `part`; none of a device whose reads are never retried.
    pub(crate) fn new(spec: &ReadRetrySpec, part: &Part, seed: u64, die: u32) -> Option<Self> {
        (spec.steps > 0).then(|| Self {
            spec: *spec,
            errors: part.errors.clone(),
            codewords: part.geometry.page_data_bytes.div_ceil(part.errors.ecc_codeword_bytes),
            tails: FxHashMap::default(),
            // A stream for each die, so that another die's reads do not change what this one draws.
            stream: Stream::new(seed, &format!("read retries of die {die}")),
        })
    }

    /// Time of a decode after a retry.
    pub(crate) fn decode_ns(&self) -> u64 {
        self.spec.decode_ns
    }

    /// How often the next read of `parts` pages of a block is retried that was erased `erase_cycles` times, the
    /// preconditioning included.
    pub(crate) fn retries(&mut self, erase_cycles: u32, parts: u32) -> u32 {
        let cycles = self.spec.erase_cycles.saturating_add(erase_cycles);
        let Self { spec, errors, codewords, .. } = self;
        let codewords = *codewords * parts;
        let tails = self.tails.entry((cycles, parts));
        let tails = tails.or_insert_with(|| tails_of(spec, errors, codewords, cycles));
        // One draw a read: a page that is hard to read fails with all thresholds before the one that fits.
        let draw = self.stream.unit();
        tails.iter().take_while(|tail| draw < **tail).count() as u32
    }
}

/// The probability that a read needs more than 0, 1, … retries, at most `steps` of them.
fn tails_of(spec: &ReadRetrySpec, errors: &ErrorModel, codewords: u32, cycles: u32) -> Vec<f64> {
    let bits = f64::from(errors.ecc_codeword_bytes) * 8.0;
    let mut rber = errors.rber(cycles, u64::from(spec.retention_days) * DAY_NS, 0).min(0.5);
    let mut tails = Vec::new();
    for _ in 0..spec.steps {
        let decoded = poisson_at_most(spec.decoded_bits, bits * rber);
        // Every codeword of the page has to be decoded.
        let mut all = 1.0;
        (0..codewords).for_each(|_| all *= decoded);
        tails.push(1.0 - all);
        rber *= f64::from(spec.step_percent) / 100.0;
    }
    tails
}

/// The probability of at most `most` events where `mean` are expected: bit errors are rare and independent.
fn poisson_at_most(most: u32, mean: f64) -> f64 {
    // Beyond that the first term is no longer a number above zero; so many errors are never decoded.
    if mean > 700.0 {
        return 0.0;
    }
    let mut term = libm::exp(-mean);
    let mut sum = term;
    for count in 1..=most {
        term *= mean / f64::from(count);
        sum += term;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::{ReadRetry, ReadRetrySpec, poisson_at_most, tails_of};

    const SPEC: ReadRetrySpec = ReadRetrySpec {
        steps: 4,
        decoded_bits: 20,
        step_percent: 50,
        decode_ns: 10_000,
        erase_cycles: 0,
        retention_days: 365,
    };

    #[test]
    fn the_sum_of_the_distribution_is_that_of_tables() {
        // Poisson tables: P(X <= 2) at mean 1, P(X <= 5) at mean 5, P(X <= 10) at mean 20.
        for (most, mean, expected) in
            [(2, 1.0, 0.919_699), (5, 5.0, 0.615_961), (10, 20.0, 0.010_812)]
        {
            let found = poisson_at_most(most, mean);
            assert!((found - expected).abs() < 1e-6, "{most} of {mean}: {found}");
        }
        assert!((poisson_at_most(3, 0.0) - 1.0).abs() < 1e-12);
        assert!(poisson_at_most(3, 1e6) < 1e-12);
    }

    #[test]
    fn wear_and_age_make_retries_and_thresholds_take_them_away() {
        let part = nand::find_part("generic-tlc-3d").expect("in the catalogue");
        let mean = |spec: ReadRetrySpec, cycles| {
            let mut retry = ReadRetry::new(&spec, &part, 1, 0).expect("it has steps");
            (0..4_000).map(|_| retry.retries(cycles, 1)).sum::<u32>()
        };
        assert_eq!(mean(SPEC, 0), 0, "a fresh block is decoded at once");
        let (worn, old) =
            (mean(SPEC, 3_000), mean(ReadRetrySpec { retention_days: 3_650, ..SPEC }, 3_000));
        assert!(4_000 < worn && worn < old && old <= 16_000, "{worn} {old}");
        let strong = mean(ReadRetrySpec { decoded_bits: 60, ..SPEC }, 3_000);
        assert!(strong < worn / 2, "{strong} {worn}");
        // As many draws as the probabilities say: the sum of the tails is the mean.
        let expected: f64 = tails_of(&SPEC, &part.errors, 16, 3_000).iter().sum();
        assert!((f64::from(worn) / 4_000.0 - expected).abs() < 0.03, "{worn} {expected}");
    }
}
