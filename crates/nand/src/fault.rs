//! Ways in which a chip fails: bit errors, failed programs and erases, wear-out, factory bad blocks.
//!
//! Bit errors: the raw bit error rate (RBER) of a page is the sum of a wear, a retention and a
//! read-disturb term in their usual empirical forms (power laws of the cycle count; see the part
//! files for the constants and sources). Each ECC codeword draws its errors from the binomial
//! distribution; a codeword with more than the correctable number is uncorrectable. Left out:
//! dependence between neighbouring cells, read retries, temperature other than the rated one.

use crate::random::Stream;
use serde::{Deserialize, Serialize};

const YEAR_NS: f64 = 365.25 * 86_400.0 * 1e9;

/// Endurance, ECC and error constants of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorModel {
    /// Rated program/erase cycles of a block.
    pub erase_cycles_max: u32,
    /// Standard deviation of a block's true endurance, percent of the rating.
    pub erase_cycles_spread_percent: f64,
    /// Data bytes of one ECC codeword.
    pub ecc_codeword_bytes: u32,
    /// Bits the ECC corrects in one codeword.
    pub ecc_correctable_bits: u32,
    /// RBER of a fresh block.
    pub rber_fresh: f64,
    /// RBER added at the rated number of cycles.
    pub rber_worn: f64,
    /// Exponent of the wear term.
    pub wear_exponent: f64,
    /// RBER added by one year of retention at the rated number of cycles.
    pub retention_rber_per_year: f64,
    /// Exponent of time in the retention term.
    pub retention_exponent: f64,
    /// RBER added by one read of the block at the rated number of cycles.
    pub read_disturb_rber_per_read: f64,
    /// Probability that a program fails in a block at its rated number of cycles.
    pub program_failure_worn: f64,
    /// Probability that an erase fails in a block at its rated number of cycles.
    pub erase_failure_worn: f64,
    /// Probability that a block is bad when delivered.
    pub factory_bad_probability: f64,
}

impl ErrorModel {
    /// Raw bit error rate of a block erased `cycles` times, holding data for `age_ns`, read `reads` times.
    pub fn rber(&self, cycles: u32, age_ns: u64, reads: u32) -> f64 {
        let wear = f64::from(cycles) / f64::from(self.erase_cycles_max);
        let years = age_ns as f64 / YEAR_NS;
        self.rber_fresh
            + self.rber_worn * libm::pow(wear, self.wear_exponent)
            + self.retention_rber_per_year * wear * libm::pow(years, self.retention_exponent)
            + self.read_disturb_rber_per_read * wear * f64::from(reads)
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// The sentence names the key and the permitted values.
    pub fn check(&self) -> Result<(), String> {
        let probabilities = [
            ("rber_fresh", self.rber_fresh),
            ("rber_worn", self.rber_worn),
            ("retention_rber_per_year", self.retention_rber_per_year),
            ("read_disturb_rber_per_read", self.read_disturb_rber_per_read),
            ("program_failure_worn", self.program_failure_worn),
            ("erase_failure_worn", self.erase_failure_worn),
            ("factory_bad_probability", self.factory_bad_probability),
        ];
        if let Some((key, _)) = probabilities.iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
            return Err(format!("errors.{key} is a probability: 0 to 1"));
        }
        if self.erase_cycles_max == 0 || self.ecc_codeword_bytes == 0 {
            return Err("errors.erase_cycles_max and ecc_codeword_bytes must be above 0".into());
        }
        let ranges = [
            ("erase_cycles_spread_percent", self.erase_cycles_spread_percent, 50.0),
            ("wear_exponent", self.wear_exponent, 10.0),
            ("retention_exponent", self.retention_exponent, 10.0),
        ];
        match ranges.iter().find(|(_, value, limit)| !(0.0..=*limit).contains(value)) {
            Some((key, _, limit)) => Err(format!("errors.{key} must be 0 to {limit}")),
            None => Ok(()),
        }
    }
}

/// Which faults a chip shows. The default is a chip without faults, whose counts are exact.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultSettings {
    /// Seed of the fault streams.
    pub seed: u64,
    /// Draw bit errors on reads.
    pub bit_errors: bool,
    /// Mark factory bad blocks when the chip is made.
    pub factory_bad_blocks: bool,
    /// Fail programs and erases near the end of life, and wear blocks out for good.
    pub wear_out: bool,
    /// Probability of a failed program, independent of wear.
    pub program_failure_probability: f64,
    /// Probability of a failed erase, independent of wear.
    pub erase_failure_probability: f64,
}

impl FaultSettings {
    pub(crate) fn draws_failures(&self) -> bool {
        self.wear_out || self.program_failure_probability > 0.0 || self.erase_failure_probability > 0.0
    }
}

/// What the ECC saw so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EccCounters {
    /// Bits corrected.
    pub corrected_bits: u64,
    /// Page reads with at least one corrected bit.
    pub corrected_reads: u64,
    /// Page reads with an uncorrectable codeword.
    pub uncorrectable_reads: u64,
}

/// Fault state of one chip.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) settings: FaultSettings,
    pub(crate) ecc: EccCounters,
    failures: Stream,
    bits: Stream,
    endurance: Vec<u32>,
    block_reads: Vec<u32>,
    programmed_at_ns: Vec<u64>,
    pub(crate) now_ns: u64,
    pub(crate) program_failures: u64,
    pub(crate) erase_failures: u64,
}

impl Faults {
    pub(crate) fn new(settings: FaultSettings, model: &ErrorModel, blocks: u32) -> Self {
        let mut spread = Stream::new(settings.seed, "endurance");
        let endurance = if settings.wear_out {
            let sigma = model.erase_cycles_spread_percent / 100.0;
            let rated = f64::from(model.erase_cycles_max);
            (0..blocks).map(|_| (rated * (1.0 + sigma * spread.normal())).max(1.0) as u32).collect()
        } else {
            Vec::new()
        };
        let tracked = if settings.bit_errors { blocks as usize } else { 0 };
        Self {
            failures: Stream::new(settings.seed, "failures"),
            bits: Stream::new(settings.seed, "bit errors"),
            ecc: EccCounters::default(),
            endurance,
            block_reads: vec![0; tracked],
            programmed_at_ns: vec![0; tracked],
            now_ns: 0,
            program_failures: 0,
            erase_failures: 0,
            settings,
        }
    }

    pub(crate) fn program_fails(&mut self, model: &ErrorModel, block: usize, cycles: u32) -> bool {
        if self.settings.bit_errors {
            self.programmed_at_ns[block] = self.now_ns;
        }
        let worn = self.worn_probability(model.program_failure_worn, model, cycles);
        let fails = self.draw(self.settings.program_failure_probability + worn);
        self.program_failures += u64::from(fails);
        fails
    }

    pub(crate) fn erase_fails(&mut self, model: &ErrorModel, block: usize, cycles: u32) -> bool {
        if self.settings.bit_errors {
            self.block_reads[block] = 0;
        }
        let worn_out = self.endurance.get(block).is_some_and(|limit| cycles >= *limit);
        let worn = self.worn_probability(model.erase_failure_worn, model, cycles);
        let fails = worn_out || self.draw(self.settings.erase_failure_probability + worn);
        self.erase_failures += u64::from(fails);
        fails
    }

    /// Draws the bit errors of one page read; true if a codeword is uncorrectable.
    pub(crate) fn read_fails(&mut self, model: &ErrorModel, block: usize, cycles: u32, bytes: u32) -> bool {
        if !self.settings.bit_errors {
            return false;
        }
        self.block_reads[block] = self.block_reads[block].saturating_add(1);
        let age_ns = self.now_ns - self.programmed_at_ns[block];
        let rber = model.rber(cycles, age_ns, self.block_reads[block]);
        let mut corrected = 0;
        let mut uncorrectable = false;
        for _ in 0..bytes.div_ceil(model.ecc_codeword_bytes) {
            let errors = self.bits.binomial(model.ecc_codeword_bytes * 8, rber);
            if errors > model.ecc_correctable_bits {
                uncorrectable = true;
            } else {
                corrected += u64::from(errors);
            }
        }
        self.ecc.corrected_bits += corrected;
        self.ecc.corrected_reads += u64::from(corrected > 0);
        self.ecc.uncorrectable_reads += u64::from(uncorrectable);
        uncorrectable
    }

    fn worn_probability(&self, at_rating: f64, model: &ErrorModel, cycles: u32) -> f64 {
        if !self.settings.wear_out {
            return 0.0;
        }
        let wear = f64::from(cycles) / f64::from(model.erase_cycles_max);
        at_rating * libm::pow(wear, model.wear_exponent)
    }

    fn draw(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.failures.unit() < probability
    }
}
