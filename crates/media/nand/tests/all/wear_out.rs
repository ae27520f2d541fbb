//! Programs and erases fail as configured, and blocks wear out around their rating.

use crate::support;

use nand::{Chip, FaultSettings, NandError, PageAddress, Part, Storage, Tag};
use support::{PAGES, small_part, tag};

fn part_of_blocks(blocks: u32) -> Part {
    let mut part = small_part();
    part.geometry.blocks = blocks;
    part.errors.erase_cycles_max = 200;
    part.errors.erase_cycles_spread_percent = 10.0;
    part.errors.program_failure_worn = 0.0;
    part.errors.erase_failure_worn = 0.0;
    part
}

fn wearing(seed: u64) -> FaultSettings {
    FaultSettings { seed, wear_out: true, ..FaultSettings::default() }
}

/// Erases that each block endures.
fn endurances(part: &Part, seed: u64) -> Vec<u32> {
    let mut chip = Chip::new(part, Storage::Tags, &wearing(seed));
    (0..part.geometry.blocks)
        .map(|block| (0..1000).find(|_| chip.erase(block).is_err()).expect("wears out"))
        .collect()
}

#[test]
fn blocks_wear_out_around_their_rating_with_its_spread() {
    let part = part_of_blocks(2000);
    let endured = endurances(&part, 1);
    let mean = f64::from(endured.iter().sum::<u32>()) / 2000.0;
    let variance =
        endured.iter().map(|erases| (f64::from(*erases) - mean).powi(2)).sum::<f64>() / 2000.0;
    assert!((mean - 200.0).abs() < 2.5, "mean {mean}");
    assert!((variance.sqrt() - 20.0).abs() < 2.0, "deviation {}", variance.sqrt());
    assert_eq!(endured, endurances(&part, 1));
    assert_ne!(endured, endurances(&part, 2));
}

#[test]
fn bit_errors_that_stay_leave_the_endurance_of_blocks_as_it_was() {
    let part = part_of_blocks(20);
    let mut chip = Chip::new(&part, Storage::Tags, &wearing(1));
    chip.keep_bit_errors(2);
    let mut endured = |block| (0..1000).find(|_| chip.erase(block).is_err()).expect("wears out");
    assert_eq!((0..20).map(&mut endured).collect::<Vec<u32>>(), endurances(&part, 1));
}

#[test]
fn a_worn_out_block_stays_so_and_its_counters_do_not_heal_it() {
    let mut chip = Chip::new(&part_of_blocks(4), Storage::Tags, &wearing(1));
    while chip.erase(0).is_ok() {}
    assert_eq!(chip.failures(), (0, 1));
    chip.reset_counters();
    assert_eq!(chip.failures(), (0, 0));
    for _ in 0..20 {
        assert_eq!(chip.erase(0), Err(NandError::EraseFailed { block: 0 }));
    }
    assert_eq!(chip.failures(), (0, 20));
    assert_eq!(
        chip.program(PageAddress::new(0, 0), tag(1), None),
        Err(NandError::Unstable { block: 0 })
    );
    assert_eq!(chip.erase(1), Ok(()), "other blocks go on");
}

#[test]
fn without_wear_out_blocks_last_for_ever() {
    let mut chip = Chip::new(&part_of_blocks(4), Storage::Tags, &FaultSettings::default());
    for _ in 0..1000 {
        assert_eq!(chip.erase(0), Ok(()));
    }
}

#[test]
fn a_failed_program_uses_up_the_page_and_leaves_it_unreadable() {
    let fails = FaultSettings { program_failure_probability: 1.0, ..FaultSettings::default() };
    let mut chip = Chip::new(&small_part(), Storage::Bytes, &fails);
    let at = PageAddress::new(1, 2);
    assert_eq!(
        chip.program(at, tag(1), Some(&[3; 256])),
        Err(NandError::ProgramFailed { block: 1, page: 2 })
    );
    chip.set_faults(&FaultSettings::default());
    assert_eq!(chip.failures(), (1, 0), "the count outlives the settings");
    assert_eq!(chip.read(at), Err(NandError::Uncorrectable { block: 1, page: 2 }));
    assert_eq!(chip.program(at, tag(1), None), Err(NandError::NotErased { block: 1, page: 2 }));
    assert_eq!(chip.next_page(1), 3);
    assert_eq!(chip.program(PageAddress::new(1, 3), tag(1), None), Ok(()), "the block goes on");
}

#[test]
fn a_failed_erase_leaves_the_block_as_an_interrupted_one_does() {
    let fails = FaultSettings { erase_failure_probability: 1.0, ..FaultSettings::default() };
    let mut chip = Chip::new(&small_part(), Storage::Tags, &fails);
    assert_eq!(chip.erase(1), Err(NandError::EraseFailed { block: 1 }));
    assert_eq!((chip.counters().erases, chip.erase_counts()[1]), (1, 1));
    assert_eq!(
        chip.program(PageAddress::new(1, 0), tag(1), None),
        Err(NandError::Unstable { block: 1 })
    );
    assert_eq!(chip.mark_bad(1), Ok(()));
    chip.set_faults(&FaultSettings::default());
    assert_eq!(chip.erase(1), Err(NandError::BadBlock { block: 1 }));
    assert_eq!(chip.read(PageAddress::new(1, 0)), Ok(Tag::ERASED));
}

#[test]
fn failures_come_as_often_as_configured_and_as_wear_adds() {
    // At twice the rating, an exponent of 2 makes four times the worn probability.
    for (cycles, worn, given, expected) in
        [(0, 0.02, 0.05, 0.05), (400, 0.02, 0.0, 0.08), (400, 0.01, 0.06, 0.10)]
    {
        let mut part = part_of_blocks(1000);
        part.errors.program_failure_worn = worn;
        let faults = FaultSettings { program_failure_probability: given, ..wearing(5) };
        let mut chip = Chip::new(&part, Storage::Tags, &faults);
        chip.set_erase_counts(cycles);
        for page in 0..1000 * PAGES {
            let _ = chip.program(PageAddress::new(page / PAGES, page % PAGES), tag(page), None);
        }
        let (failed, trials) = (chip.failures().0 as f64, f64::from(1000 * PAGES));
        let deviation = (trials * expected * (1.0 - expected)).sqrt();
        assert!(
            (failed - trials * expected).abs() < 5.0 * deviation,
            "{failed} of {trials}, not {expected}"
        );
    }
}
