//! A journal done again on a copy of the chip gives the same medium.

use nand::{
    Chip, CutPoint, FaultSettings, NandError, PageAddress, RawOperation, Storage, find_part,
};

#[test]
fn a_journal_can_be_done_again() {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 4;
    let faults =
        FaultSettings { seed: 5, program_failure_probability: 0.3, ..FaultSettings::default() };
    let mut chip = Chip::new(&part, Storage::Bytes, &faults);
    let mut copy = chip.clone();
    chip.start_journal();
    for page in 0..8 {
        // Some programs fail: the copy draws the same failures.
        let _ = chip.program_raw(PageAddress::new(1, page), &[page as u8; 2048], &[1; 64]);
    }
    chip.program_raw(PageAddress::new(2, 3), &[], &[0x0f; 64]).expect("a spare area alone");
    chip.read_raw(PageAddress::new(2, 3), &mut [], &mut [0; 64]).expect("readable");
    chip.mark_bad(3).expect("marked");
    chip.erase(2).expect("erased");
    assert_eq!(chip.journaled(), 11);
    let journal = chip.take_journal();
    assert_eq!(journal[10], RawOperation::Erase { block: 2 });
    for operation in &journal {
        let _ = copy.apply(operation);
    }
    assert!(chip.failures().0 > 0);
    assert_eq!(copy.failures(), chip.failures());
    for page in 0..8 {
        let bytes = |chip: &mut Chip| {
            let (mut data, mut oob) = (vec![0; 2048], vec![0; 64]);
            let _ = chip.read_raw(PageAddress::new(1, page), &mut data, &mut oob);
            (data, oob)
        };
        assert_eq!(bytes(&mut copy), bytes(&mut chip), "page {page}");
    }
    assert!(copy.is_bad(3) && !copy.is_programmed(PageAddress::new(2, 3)));
}

/// A journal is kept whatever else the chip watches, and not by a chip that has no power.
#[test]
fn a_chip_without_faults_keeps_a_journal_while_it_has_power() {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 4;
    let mut chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    chip.start_journal();
    chip.erase(1).expect("erased");
    let at = PageAddress::new(1, 0);
    chip.program_raw(at, &[5; 2048], &[6; 64]).expect("programmed");
    let expected = [
        RawOperation::Erase { block: 1 },
        RawOperation::PageProgram { at, data: vec![5; 2048].into(), oob: vec![6; 64].into() },
    ];
    assert_eq!(chip.take_journal(), expected);
    chip.cut_power_after(0, CutPoint::Before);
    assert_eq!(chip.erase(1), Err(NandError::PowerLost));
    chip.start_journal();
    assert_eq!(chip.erase(2), Err(NandError::PowerLost));
    assert_eq!(chip.journaled(), 0, "nothing is asked of a chip without power");
    assert_eq!(chip.take_journal(), []);
}
