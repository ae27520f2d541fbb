//! Retention at other temperatures: the factor of Arrhenius, and what it does to reads.

use crate::support::{small_part, tag};
use nand::{Chip, FaultSettings, PageAddress, Storage, rated_retention_ns, retention_acceleration};

const HOUR_MS: u64 = 3_600_000;

#[test]
fn the_factor_is_that_of_jesd218() {
    assert!((retention_acceleration(40.0) - 1.0).abs() < 1e-12);
    // Ea/k = 12,765.5 K; 1/313.15 K - 1/358.15 K = 4.0124e-4 per K; the product is 5.1220.
    let hot = retention_acceleration(85.0);
    assert!((165.0..170.0).contains(&hot), "{hot}");
    let cold = retention_acceleration(25.0);
    assert!((0.1..0.2).contains(&cold), "{cold}");
    // Both directions cancel: an hour at 85 C is as long as `hot` hours at 40 C.
    let rated_ns = rated_retention_ns(HOUR_MS, 85.0);
    assert_eq!(rated_ns, (3.6e12 * hot) as u64);
    assert_eq!(rated_retention_ns(u64::MAX, 85.0), u64::MAX);
}

/// A chip that shows errors of retention alone, at its rated cycles; all pages of two blocks are written.
fn written() -> (Chip, Vec<PageAddress>) {
    let mut part = small_part();
    part.errors.rber_fresh = 0.0;
    part.errors.rber_worn = 0.0;
    part.errors.read_disturb_rber_per_read = 0.0;
    part.errors.ecc_correctable_bits = 100;
    part.errors.retention_rber_per_year = 1e-3;
    part.errors.retention_exponent = 1.0;
    let mut chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
    chip.keep_bit_errors(5);
    chip.set_erase_counts(part.errors.erase_cycles_max);
    let pages: Vec<PageAddress> = (0..2)
        .flat_map(|block| {
            (0..part.geometry.pages_per_block).map(move |page| PageAddress::new(block, page))
        })
        .collect();
    for at in &pages {
        chip.program(*at, tag(1), None).expect("program");
    }
    (chip, pages)
}

/// Bits that the ECC corrects in each page.
fn bits_of_pages(chip: &mut Chip, pages: &[PageAddress]) -> Vec<u64> {
    let mut bits_of = |at: &PageAddress| {
        let before = chip.ecc_counters().corrected_bits;
        chip.read(*at).expect("within what the ECC corrects");
        chip.ecc_counters().corrected_bits - before
    };
    pages.iter().map(&mut bits_of).collect()
}

/// Bits corrected in pages that are `years` old at `celsius`.
fn corrected_bits(years: u64, celsius: f64) -> u64 {
    let (mut chip, pages) = written();
    chip.age(rated_retention_ns(years * 8766 * HOUR_MS, celsius));
    bits_of_pages(&mut chip, &pages).iter().sum()
}

#[test]
fn more_time_and_more_heat_leave_more_errors() {
    let by_years = [0, 1, 3, 9].map(|years| corrected_bits(years, 40.0));
    assert!(by_years[0] == 0 && by_years.is_sorted_by(|one, other| one < other), "{by_years:?}");
    let by_celsius = [25.0, 40.0, 55.0].map(|celsius| corrected_bits(1, celsius));
    assert!(by_celsius.is_sorted_by(|one, other| one < other), "{by_celsius:?}");
}

#[test]
fn errors_stay_in_the_cells_and_time_adds_others() {
    let (mut chip, pages) = written();
    let year = rated_retention_ns(8766 * HOUR_MS, 40.0);
    chip.age(year);
    let young = bits_of_pages(&mut chip, &pages);
    assert_eq!(young, bits_of_pages(&mut chip, &pages), "a second read meets the same");
    assert!(
        young.iter().any(|bits| *bits != young[0]),
        "each page has errors of its own: {young:?}"
    );
    chip.age(year);
    let old = bits_of_pages(&mut chip, &pages);
    assert!(young.iter().zip(&old).all(|(young, old)| young <= old), "{young:?} {old:?}");
    // What is written after an erase has no age, and draws anew when it has one.
    for block in 0..2 {
        chip.erase(block).expect("erase");
    }
    for at in &pages {
        chip.program(*at, tag(2), None).expect("program");
    }
    assert!(bits_of_pages(&mut chip, &pages).iter().all(|bits| *bits == 0));
    chip.age(year);
    assert_ne!(young, bits_of_pages(&mut chip, &pages));
}
