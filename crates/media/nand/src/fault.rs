//! Ways in which a chip fails: bit errors, failed programs and erases, wear-out, factory bad blocks.
//!
//! Bit errors: the raw bit error rate (RBER) of a page is the sum of a wear, a retention and a
//! read-disturb term in their usual empirical forms (power laws of the cycle count; see the part
//! files for the constants and sources). Each ECC codeword draws its errors from the binomial
//! distribution, anew at each read or once for all reads; a codeword with more than the correctable
//! number is uncorrectable, and raw reads show its wrong bits. Formulae and sources: docs/chips.md. Left out: dependence between neighbouring cells, bits of
//! the ECC itself and of the spare area, read retries. Temperature: `temperature.rs`.

use crate::Geometry;
use crate::random::Stream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

// A Julian year.
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
        // In years, because the constant is stated for one.
        let years = age_ns as f64 / YEAR_NS;
        // Independent terms: all but the first grow with wear.
        self.rber_fresh
            + self.rber_worn * libm::pow(wear, self.wear_exponent)
            + self.retention_rber_per_year * wear * libm::pow(years, self.retention_exponent)
            + self.read_disturb_rber_per_read * wear * f64::from(reads)
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence that names the key of `errors` outside its range, and the permitted values.
    pub fn check(&self) -> Result<(), String> {
        let ranges = [
            ("erase_cycles_max", f64::from(self.erase_cycles_max), 1.0, 1e9),
            ("erase_cycles_spread_percent", self.erase_cycles_spread_percent, 0.0, 50.0),
            ("ecc_codeword_bytes", f64::from(self.ecc_codeword_bytes), 1.0, 65_536.0),
            ("ecc_correctable_bits", f64::from(self.ecc_correctable_bits), 0.0, 65_536.0),
            ("rber_fresh", self.rber_fresh, 0.0, 1.0),
            ("rber_worn", self.rber_worn, 0.0, 1.0),
            ("wear_exponent", self.wear_exponent, 0.0, 10.0),
            ("retention_rber_per_year", self.retention_rber_per_year, 0.0, 1.0),
            ("retention_exponent", self.retention_exponent, 0.0, 10.0),
            ("read_disturb_rber_per_read", self.read_disturb_rber_per_read, 0.0, 1.0),
            ("program_failure_worn", self.program_failure_worn, 0.0, 1.0),
            ("erase_failure_worn", self.erase_failure_worn, 0.0, 1.0),
            ("factory_bad_probability", self.factory_bad_probability, 0.0, 1.0),
        ];
        match ranges.iter().find(|(_, value, low, high)| !(*low..=*high).contains(value)) {
            Some((key, value, low, high)) => {
                Err(format!("errors.{key} is {value} and must be {low} to {high}"))
            }
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
    /// True if the chip has to remember anything for these faults.
    pub(crate) fn needs_state(&self) -> bool {
        self.bit_errors
            || self.wear_out
            || self.program_failure_probability > 0.0
            || self.erase_failure_probability > 0.0
    }
}

/// What the ECC saw so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EccCounters {
    /// Bits that the ECC corrected.
    pub corrected_bits: u64,
    /// Page reads with at least one corrected bit.
    pub corrected_reads: u64,
    /// Reads with an uncorrectable codeword; those of torn pages are among them.
    pub uncorrectable_reads: u64,
}

/// Bit errors of one page read.
pub(crate) struct ReadErrors {
    pub(crate) corrected_bits: u64,
    pub(crate) is_uncorrectable: bool,
}

/// Fault state of one chip.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    settings: FaultSettings,
    failures: Stream,
    bits: Stream,
    flips: Stream,
    /// What the errors of a codeword are drawn from if they stay from read to read; none if each read draws
    /// them anew.
    cells: Option<u64>,
    /// Erases each block endures; empty without wear-out.
    endurance: Vec<u32>,
    /// Reads of each block since its erase; empty without bit errors.
    block_reads: Vec<u32>,
    /// Time of the last program of each page; empty without bit errors.
    programmed_at_ns: Vec<u64>,
    now_ns: u64,
    /// Bits of the page under way that read wrongly, in codewords that the ECC gave up.
    flipped_bits: Vec<u32>,
}

impl Faults {
    #[expect(clippy::cast_sign_loss, reason = "an endurance is at least one cycle")]
    pub(crate) fn new(settings: FaultSettings, model: &ErrorModel, geometry: &Geometry) -> Self {
        // A stream for each kind of fault: switching one on does not change the draws of another.
        let mut spread = Stream::new(settings.seed, "endurance");
        let endurance = if settings.wear_out {
            let sigma = model.erase_cycles_spread_percent / 100.0;
            let rated = f64::from(model.erase_cycles_max);
            // One cycle at least, however far below the draw lies.
            let mut draw = || (rated * (1.0 + sigma * spread.normal())).max(1.0) as u32;
            (0..geometry.blocks).map(|_| draw()).collect()
        } else {
            Vec::new()
        };
        // Without bit errors no page needs a time and no block a count of reads.
        let tracked = |count: u32| if settings.bit_errors { count as usize } else { 0 };
        Self {
            failures: Stream::new(settings.seed, "failures"),
            bits: Stream::new(settings.seed, "bit errors"),
            flips: Stream::new(settings.seed, "flipped bits"),
            cells: None,
            endurance,
            block_reads: vec![0; tracked(geometry.blocks)],
            programmed_at_ns: vec![0; tracked(geometry.pages())],
            now_ns: 0,
            flipped_bits: Vec::new(),
            settings,
        }
    }

    pub(crate) fn settings(&self) -> &FaultSettings {
        &self.settings
    }

    /// Bit errors stay from read to read: retention and wear change cells, not single reads.
    pub(crate) fn keep_errors(&mut self, seed: u64) {
        self.cells = Some(Stream::new(seed, "cells").next_u64());
    }

    /// Takes over reads and ages from the state before these settings.
    pub(crate) fn keep_history(&mut self, old: Self) {
        if self.settings.bit_errors && old.settings.bit_errors {
            self.block_reads = old.block_reads;
            self.programmed_at_ns = old.programmed_at_ns;
            self.now_ns = old.now_ns;
        }
    }

    pub(crate) fn pass_time(&mut self, duration_ns: u64) {
        self.now_ns = self.now_ns.saturating_add(duration_ns);
    }

    pub(crate) fn program_fails(
        &mut self,
        model: &ErrorModel,
        page_index: usize,
        cycles: u32,
    ) -> bool {
        // Noted even if the program fails: the page holds something new.
        if let Some(programmed_at_ns) = self.programmed_at_ns.get_mut(page_index) {
            *programmed_at_ns = self.now_ns;
        }
        let worn = self.worn_probability(model.program_failure_worn, model, cycles);
        self.draw(self.settings.program_failure_probability + worn)
    }

    pub(crate) fn erase_fails(&mut self, model: &ErrorModel, block: u32, cycles: u32) -> bool {
        // Worn out for good: such a block fails every erase.
        let worn_out = self.endurance.get(block as usize).is_some_and(|limit| cycles >= *limit);
        let worn = self.worn_probability(model.erase_failure_worn, model, cycles);
        let fails = worn_out || self.draw(self.settings.erase_failure_probability + worn);
        // A good erase ends the disturbance by reads.
        if !fails && self.settings.bit_errors {
            self.block_reads[block as usize] = 0;
        }
        fails
    }

    /// Draws the bit errors in `bytes` of a page read. Every read of a block disturbs it.
    pub(crate) fn read_errors(
        &mut self,
        model: &ErrorModel,
        block: u32,
        page_index: usize,
        cycles: u32,
        bytes: u32,
    ) -> ReadErrors {
        let mut errors = ReadErrors { corrected_bits: 0, is_uncorrectable: false };
        self.flipped_bits.clear();
        if !self.settings.bit_errors {
            return errors;
        }
        let reads = self.block_reads[block as usize];
        // The read disturbs the block even if its own bytes are not checked.
        self.block_reads[block as usize] = reads.saturating_add(1);
        if bytes == 0 {
            return errors;
        }
        let age_ns = self.now_ns - self.programmed_at_ns[page_index];
        let rber = model.rber(cycles, age_ns, reads);
        // Each codeword is corrected by itself; the last may be shorter.
        let mut left = bytes;
        while left > 0 {
            let codeword_bytes = left.min(model.ecc_codeword_bytes);
            let first = (bytes - left) * 8;
            let codeword_bits = codeword_bytes * 8;
            left -= codeword_bytes;
            let mut own = self.cells.map(|cells| {
                let codeword = u64::from(first / (model.ecc_codeword_bytes * 8));
                cells_of(cells, page_index, cycles, codeword)
            });
            let bits = own.as_mut().unwrap_or(&mut self.bits).binomial(codeword_bits, rber);
            if bits > model.ecc_correctable_bits {
                errors.is_uncorrectable = true;
                let flips = own.as_mut().unwrap_or(&mut self.flips);
                let flipped = draw_flips(flips, codeword_bits, bits);
                self.flipped_bits.extend(flipped.into_iter().map(|bit| first + bit));
            } else {
                errors.corrected_bits += u64::from(bits);
            }
        }
        errors
    }

    /// Bits of the page read last that its ECC gave up, counted from the first bit of the data.
    pub(crate) fn flipped_bits(&self) -> &[u32] {
        &self.flipped_bits
    }

    fn worn_probability(&self, at_rating: f64, model: &ErrorModel, cycles: u32) -> f64 {
        if !self.settings.wear_out {
            return 0.0;
        }
        let wear = f64::from(cycles) / f64::from(model.erase_cycles_max);
        at_rating * libm::pow(wear, model.wear_exponent)
    }

    fn draw(&mut self, probability: f64) -> bool {
        // No draw without a chance, so that streams do not depend on settings that ask for no
        // failures.
        probability > 0.0 && self.failures.unit() < probability
    }
}

/// The stream of one codeword between two erases of its block.
///
/// Each codeword has its own, and the errors of a binomial draw are gaps between successes: the same stream
/// gives no fewer errors at a higher rate. So time and reads only add errors.
fn cells_of(cells: u64, page_index: usize, cycles: u32, codeword: u64) -> Stream {
    // No two places share a number: 2^28 pages, 2^28 cycles and 2^8 codewords of a page.
    debug_assert!(page_index < 1 << 28 && cycles < 1 << 28 && codeword < 1 << 8, "{page_index}");
    let place = (page_index as u64) << 36 | u64::from(cycles) << 8 | codeword;
    Stream::new(cells ^ place, "codeword")
}

/// Draws which bits of a codeword are wrong, by Floyd's method: each once, whatever their number.
fn draw_flips(stream: &mut Stream, codeword_bits: u32, bits: u32) -> BTreeSet<u32> {
    debug_assert!(bits <= codeword_bits, "a bit is wrong once");
    let mut drawn = BTreeSet::new();
    for last in codeword_bits - bits..codeword_bits {
        let bit = stream.below(last + 1);
        if !drawn.insert(bit) {
            drawn.insert(last);
        }
    }
    drawn
}
