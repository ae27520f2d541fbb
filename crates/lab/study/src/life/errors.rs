//! Cycles after which the ECC no longer keeps data: wear, retention and read disturb of the part's model.
//!
//! The limit is the most cycles at which a read of the whole device is expected to lose less than one
//! codeword ([`nand::ErrorModel::rber`], binomial errors in a codeword). Left out, as the model leaves them
//! out: temperatures other than the rated one, read retries, refresh of old data by a controller.

use nand::ErrorModel;

/// What data goes through between two writes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strain {
    /// How long it stays.
    pub(super) age_ns: u64,
    /// Reads of its block in that time.
    pub(super) reads: u32,
}

/// Probability that a codeword of so many bits has more errors than are corrected.
fn failure(bits: u32, correctable: u32, rber: f64) -> f64 {
    if rber <= 0.0 || correctable >= bits {
        return 0.0;
    }
    if rber >= 0.5 {
        return 1.0;
    }
    let (bits, correctable) = (f64::from(bits), f64::from(correctable));
    // Past the mean, the tail is not small and its terms are many: this is a worn-out page.
    if bits * rber > correctable {
        return 1.0;
    }
    // The first term of the tail by logarithms, the others by their ratio.
    let first = correctable + 1.0;
    let ways =
        // Of `libm`, not of the system: the last bit of a result must not depend on the machine.
        libm::lgamma(bits + 1.0) - libm::lgamma(first + 1.0) - libm::lgamma(bits - first + 1.0);
    let log = ways + first * libm::log(rber) + (bits - first) * libm::log1p(-rber);
    let (mut term, mut sum, mut errors) = (1.0, 0.0, first);
    // Terms fall at least geometrically here; what is left out is far below the accuracy of an
    // error model.
    while term > 1e-12 && errors <= bits {
        sum += term;
        term *= (bits - errors) / (errors + 1.0) * rber / (1.0 - rber);
        errors += 1.0;
    }
    (libm::exp(log) * sum).min(1.0)
}

/// The most cycles, at most the rated ones, at which `data_bytes` under this strain keep.
pub(super) fn cycles_within_ecc(model: &ErrorModel, data_bytes: u64, strain: Strain) -> u32 {
    let bits = model.ecc_codeword_bytes * 8;
    let codewords = data_bytes as f64 / f64::from(model.ecc_codeword_bytes);
    let keeps = |cycles: u32| {
        let rber = model.rber(cycles, strain.age_ns, strain.reads);
        // Expected losses are the sum over codewords, whether or not their errors depend on each
        // other.
        failure(bits, model.ecc_correctable_bits, rber) * codewords < 1.0
    };
    if keeps(model.erase_cycles_max) {
        return model.erase_cycles_max;
    }
    // Errors grow with cycles, so the search may halve.
    let (mut low, mut high) = (0, model.erase_cycles_max);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if keeps(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::{Strain, cycles_within_ecc, failure};
    use nand::find_part;

    const YEAR_NS: u64 = 31_557_600_000_000_000;

    #[test]
    fn a_tail_is_that_of_the_binomial_distribution() {
        // One bit of two is corrected: both fail with the square.
        assert!((failure(2, 1, 0.1) - 0.01).abs() < 1e-12);
        // Sum of 2 and 3 of three bits.
        assert!((failure(3, 1, 0.1) - 0.028).abs() < 1e-12);
        // By exact fractions.
        assert!((failure(8192, 40, 2e-3) / 2.220_093_649e-7 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn older_data_and_more_reads_allow_fewer_cycles() {
        let model = find_part("generic-tlc-3d").expect("in the catalogue").errors;
        let within = |years: u64, reads| {
            let strain = Strain { age_ns: years * YEAR_NS, reads };
            cycles_within_ecc(&model, 1 << 34, strain)
        };
        let limits =
            [(0, 0), (1, 0), (10, 0), (10, 1_000_000)].map(|(age, reads)| within(age, reads));
        assert_eq!(limits[0], model.erase_cycles_max);
        assert!(limits.windows(2).all(|pair| pair[0] > pair[1]), "{limits:?}");
        assert!(limits[3] > 0);
    }
}
