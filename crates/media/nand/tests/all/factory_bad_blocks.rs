//! Blocks that are bad when the chip is delivered.

use crate::support;

use nand::{Chip, FaultSettings, NandError, PageAddress, Part, Storage, catalogue};
use support::{small_part, tag};

fn delivered(part: &Part, seed: u64) -> Vec<u32> {
    let faults = FaultSettings { seed, factory_bad_blocks: true, ..FaultSettings::default() };
    let chip = Chip::new(part, Storage::Tags, &faults);
    (0..part.geometry.blocks).filter(|block| chip.is_bad(*block)).collect()
}

#[test]
fn no_catalogue_part_has_more_than_data_sheets_allow() {
    for mut part in catalogue() {
        // The number of blocks decides, not their size.
        part.geometry.pages_per_block = 12;
        for seed in 0..100 {
            let bad = delivered(&part, seed).len() as u32;
            assert!(bad * 50 <= part.geometry.blocks, "{} seed {seed}: {bad}", part.name);
        }
    }
}

#[test]
fn they_are_as_many_as_the_part_says_and_never_block_0() {
    let mut part = small_part();
    part.geometry.blocks = 20_001;
    part.errors.factory_bad_probability = 0.25;
    let bad = delivered(&part, 1);
    let expected: f64 = 20_000.0 * 0.25;
    assert!((bad.len() as f64 - expected).abs() < 5.0 * (expected * 0.75).sqrt(), "{}", bad.len());
    assert_eq!(bad, delivered(&part, 1));
    assert_ne!(bad, delivered(&part, 2));
    part.errors.factory_bad_probability = 1.0;
    assert_eq!(delivered(&part, 1), (1..20_001).collect::<Vec<_>>());
}

#[test]
fn without_the_fault_there_are_none() {
    let mut part = small_part();
    part.errors.factory_bad_probability = 1.0;
    let chip =
        Chip::new(&part, Storage::Tags, &FaultSettings { seed: 1, ..FaultSettings::default() });
    assert!(!(0..part.geometry.blocks).any(|block| chip.is_bad(block)));
}

#[test]
fn a_bad_block_refuses_programs_and_erases_and_shows_its_mark() {
    let mut part = small_part();
    part.errors.factory_bad_probability = 1.0;
    let faults = FaultSettings { factory_bad_blocks: true, ..FaultSettings::default() };
    let mut chip = Chip::new(&part, Storage::Bytes, &faults);
    let at = PageAddress::new(2, 0);
    let bad = NandError::BadBlock { block: 2 };
    assert_eq!(chip.program(at, tag(1), None), Err(bad));
    assert_eq!(chip.program_raw(at, &[0], &[]), Err(bad));
    assert_eq!(chip.program_spare(at, tag(1)), Err(bad));
    assert_eq!(chip.erase(2), Err(bad));
    let mut oob = [0xaa; 16];
    chip.read_raw(at, &mut [], &mut oob).expect("read");
    assert_eq!(oob, [255, 255, 255, 255, 255, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
}
