//! Bit errors follow the error model of the part, within what chance allows.

use crate::support;

use nand::{Chip, EccCounters, FaultSettings, NandError, PageAddress, Part, Storage};
use support::{PAGES, small_part, tag};

const YEAR_NS: u64 = 31_557_600_000_000_000;
const AT: PageAddress = PageAddress::new(1, 0);

/// Pages of two codewords of 128 bytes, with no error term but those a test sets.
fn quiet_part() -> Part {
    let mut part = small_part();
    let errors = &mut part.errors;
    errors.ecc_codeword_bytes = 128;
    errors.ecc_correctable_bits = 4;
    errors.erase_cycles_max = 1000;
    errors.rber_fresh = 0.0;
    errors.rber_worn = 0.0;
    errors.retention_rber_per_year = 0.0;
    errors.read_disturb_rber_per_read = 0.0;
    part
}

fn bit_errors(seed: u64) -> FaultSettings {
    FaultSettings { seed, bit_errors: true, ..FaultSettings::default() }
}

fn programmed_chip(part: &Part, seed: u64) -> Chip {
    let mut chip = Chip::new(part, Storage::Tags, &bit_errors(seed));
    chip.program(AT, tag(1), None).expect("program");
    chip
}

fn read_often(chip: &mut Chip, reads: u32) -> EccCounters {
    let before = chip.ecc_counters();
    for _ in 0..reads {
        let _ = chip.read(AT);
    }
    let after = chip.ecc_counters();
    EccCounters {
        corrected_bits: after.corrected_bits - before.corrected_bits,
        corrected_reads: after.corrected_reads - before.corrected_reads,
        uncorrectable_reads: after.uncorrectable_reads - before.uncorrectable_reads,
    }
}

/// Asserts that a count lies within five standard deviations of its binomial expectation.
fn assert_near(count: u64, trials: f64, probability: f64) {
    let (mean, deviation) =
        (trials * probability, (trials * probability * (1.0 - probability)).sqrt());
    assert!(
        (count as f64 - mean).abs() < 5.0 * deviation,
        "{count}, expected {mean} ± {deviation}"
    );
}

/// Probability of at most `limit` successes in `trials`.
fn binomial_at_most(limit: u32, trials: u32, probability: f64) -> f64 {
    let odds = probability / (1.0 - probability);
    let mut term = libm::pow(1.0 - probability, f64::from(trials));
    let mut sum = term;
    for successes in 0..limit {
        term *= f64::from(trials - successes) / f64::from(successes + 1) * odds;
        sum += term;
    }
    sum
}

#[test]
fn corrected_bits_match_the_raw_error_rate() {
    let mut part = quiet_part();
    part.errors.rber_fresh = 1e-3;
    part.errors.ecc_correctable_bits = 200;
    let mut chip = programmed_chip(&part, 3);
    let ecc = read_often(&mut chip, 20_000);
    assert_near(ecc.corrected_bits, 20_000.0 * 2048.0, 1e-3);
    assert_near(ecc.corrected_reads, 20_000.0, 1.0 - libm::pow(1.0 - 1e-3, 2048.0));
    assert_eq!(ecc.uncorrectable_reads, 0);
}

#[test]
fn uncorrectable_reads_match_the_closed_form() {
    for rber in [1e-3, 3e-3] {
        let mut part = quiet_part();
        part.errors.rber_fresh = rber;
        let mut chip = programmed_chip(&part, 4);
        let ecc = read_often(&mut chip, 50_000);
        let codeword_holds = binomial_at_most(4, 1024, rber);
        assert_near(ecc.uncorrectable_reads, 50_000.0, 1.0 - codeword_holds * codeword_holds);
    }
}

#[test]
fn a_page_that_is_no_whole_number_of_codewords_has_a_short_last_one() {
    let mut part = quiet_part();
    part.errors.rber_fresh = 1e-3;
    part.errors.ecc_codeword_bytes = 200;
    part.errors.ecc_correctable_bits = 200;
    let ecc = read_often(&mut programmed_chip(&part, 5), 20_000);
    assert_near(ecc.corrected_bits, 20_000.0 * 2048.0, 1e-3);
}

#[test]
fn read_disturb_grows_with_the_reads_of_the_block_and_ends_with_its_erase() {
    let mut part = quiet_part();
    part.errors.read_disturb_rber_per_read = 1e-7;
    part.errors.ecc_correctable_bits = 2000;
    let mut chip = programmed_chip(&part, 6);
    chip.set_erase_counts(1000);
    // Read number i (from 0) has an error rate of i × 1e-7: on average, half the last.
    let reads = 10_000.0;
    let first = read_often(&mut chip, 10_000).corrected_bits;
    assert_near(first, reads * 2048.0, reads / 2.0 * 1e-7);
    // Spare reads, reads of other pages and of erased ones disturb alike.
    for number in 0..10_000 {
        let other = PageAddress::new(1, 1 + number % (PAGES - 1));
        let _ = if number % 2 == 0 { chip.read_spare(AT) } else { chip.read(other) };
    }
    let second = read_often(&mut chip, 10_000).corrected_bits;
    assert_near(second, reads * 2048.0, 2.5 * reads * 1e-7);
    chip.erase(1).expect("erase");
    chip.program(AT, tag(1), None).expect("program");
    let fresh = read_often(&mut chip, 10_000).corrected_bits;
    assert_near(fresh, reads * 2048.0, reads / 2.0 * 1e-7 * 1.001);
}

#[test]
fn retention_follows_the_age_of_each_page() {
    let mut part = quiet_part();
    part.errors.retention_rber_per_year = 1e-3;
    part.errors.retention_exponent = 0.5;
    part.errors.ecc_correctable_bits = 2000;
    let mut chip = programmed_chip(&part, 7);
    chip.set_erase_counts(500);
    assert_eq!(read_often(&mut chip, 1000).corrected_bits, 0, "fresh data keeps");
    chip.age(4 * YEAR_NS);
    // A younger page of the same block does not refresh this one.
    chip.program(PageAddress::new(1, 1), tag(2), None).expect("program");
    let aged = read_often(&mut chip, 10_000).corrected_bits;
    assert_near(aged, 10_000.0 * 2048.0, 1e-3 * 0.5 * 2.0);
    // Other settings keep the history, and erased pages have no errors.
    chip.set_faults(&FaultSettings { wear_out: true, ..bit_errors(8) });
    assert_near(read_often(&mut chip, 10_000).corrected_bits, 10_000.0 * 2048.0, 1e-3);
    chip.erase(1).expect("erase");
    assert_eq!(read_often(&mut chip, 1000).corrected_bits, 0);
    chip.program(AT, tag(1), None).expect("program");
    assert_eq!(read_often(&mut chip, 1000).corrected_bits, 0, "data programmed now is fresh");
}

#[test]
fn wear_raises_the_error_rate_by_its_power_law() {
    let mut errors = quiet_part().errors;
    errors.rber_fresh = 1e-6;
    errors.rber_worn = 1e-3;
    errors.wear_exponent = 2.0;
    let close = |value: f64, expected: f64| (value - expected).abs() < expected * 1e-12;
    assert!(close(errors.rber(0, 0, 0), 1e-6));
    assert!(close(errors.rber(500, 0, 0), 1e-6 + 0.25e-3));
    assert!(close(errors.rber(1000, 0, 0), 1e-6 + 1e-3));
    assert!(close(errors.rber(2000, 0, 0), 1e-6 + 4e-3));
}

#[test]
fn a_spare_area_has_no_bit_errors() {
    let mut part = quiet_part();
    part.errors.rber_fresh = 0.4;
    let mut chip = programmed_chip(&part, 9);
    assert_eq!(chip.read(AT), Err(NandError::Uncorrectable { block: 1, page: 0 }));
    assert_eq!(chip.read_spare(AT), Ok(tag(1)));
}

#[test]
fn a_seed_decides_everything() {
    let mut part = quiet_part();
    part.errors.rber_fresh = 2e-3;
    let run = |seed| {
        let mut chip = programmed_chip(&part, seed);
        let outcomes: Vec<bool> = (0..500).map(|_| chip.read(AT).is_ok()).collect();
        (outcomes, chip.ecc_counters())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    let mut chip = programmed_chip(&part, 1);
    let mut copy = chip.clone();
    assert_eq!(read_often(&mut chip, 500), read_often(&mut copy, 500), "a clone goes on alike");
}

/// Wrong bits of a raw read: where they stand, and how many.
fn wrong_bits(chip: &mut Chip, written: &[u8]) -> Vec<u32> {
    let mut found = vec![0; written.len()];
    let _ = chip.read_raw(AT, &mut found, &mut []);
    let is_wrong = |bit: &u32| {
        let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        (found[byte] ^ written[byte]) & mask != 0
    };
    (0..written.len() as u32 * 8).filter(is_wrong).collect()
}

#[test]
fn a_codeword_that_the_ecc_gives_up_shows_its_wrong_bits_and_keeps_what_is_stored() {
    let written: Vec<u8> = (0..=255).collect();
    let mut part = quiet_part();
    let chip_at = |part: &Part, rber: f64| {
        let mut part = part.clone();
        part.errors.rber_fresh = rber;
        let mut chip = Chip::new(&part, Storage::Bytes, &bit_errors(9));
        chip.program_raw(AT, &written, &[]).expect("program");
        chip
    };
    // Codewords of 1,024 bits: four errors on average, and four are corrected.
    let mut chip = chip_at(&part, 4e-3);
    let mut given_up = 0;
    for _ in 0..200 {
        let before = chip.ecc_counters().uncorrectable_reads;
        let wrong = wrong_bits(&mut chip, &written);
        assert_eq!(wrong, chip.flipped_bits());
        given_up += usize::from(!wrong.is_empty());
        let is_counted = chip.ecc_counters().uncorrectable_reads > before;
        assert_eq!(!wrong.is_empty(), is_counted, "a corrected codeword shows no error");
        // Each codeword by itself: one that is given up has more errors than are corrected.
        for codeword in 0..2 {
            let bits = wrong.iter().filter(|bit| *bit / 1024 == codeword).count();
            assert!(bits == 0 || bits > 4, "{wrong:?}");
        }
    }
    assert!((40..160).contains(&given_up), "{given_up} of 200 reads");
    // All bits are wrong, each once; the code and the stored bytes are what they were.
    let mut inverted = chip_at(&part, 1.0);
    assert_eq!(wrong_bits(&mut inverted, &written).len(), 2048);
    part.errors.ecc_correctable_bits = 1024;
    assert_eq!(wrong_bits(&mut chip_at(&part, 1.0), &written), []);
}

#[test]
fn errors_that_stay_are_in_the_same_bits_at_each_raw_read() {
    let written: Vec<u8> = (0..=255).collect();
    let mut part = quiet_part();
    part.errors.rber_fresh = 2e-2;
    let mut chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    chip.program_raw(AT, &written, &[]).expect("program");
    chip.keep_bit_errors(9);
    let wrong = wrong_bits(&mut chip, &written);
    assert!(wrong.len() > 4, "{wrong:?}");
    assert_eq!(wrong, wrong_bits(&mut chip, &written));
}
