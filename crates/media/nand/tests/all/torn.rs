//! What torn operations leave of the bytes of a page and of a block.

use nand::{Chip, CutPoint, FaultSettings, NandError, PageAddress, Part, Storage, Torn, find_part};

const FIRST: PageAddress = PageAddress::new(1, 0);
const SECOND: PageAddress = PageAddress::new(1, 1);

fn part() -> Part {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 4;
    part
}

fn chip(torn: Torn) -> Chip {
    let mut chip = Chip::new(&part(), Storage::Bytes, &FaultSettings::default());
    chip.set_torn(torn);
    chip.program_raw(FIRST, &[0; 2048], &[0xf0; 64]).expect("a healthy chip");
    chip.cut_power_after(0, CutPoint::Inside);
    chip
}

/// Bytes set to zero in data and spare area.
fn zeros(chip: &mut Chip, at: PageAddress) -> (usize, usize) {
    let (mut data, mut oob) = (vec![0; 2048], vec![0; 64]);
    chip.read_raw(at, &mut data, &mut oob).expect("readable");
    let count = |bytes: &[u8]| bytes.iter().filter(|byte| **byte != 0xff).count();
    (count(&data), count(&oob))
}

#[test]
fn a_torn_program_leaves_what_was_chosen() {
    for (torn, left) in [(Torn::Nothing, 0), (Torn::Prefix, 1024), (Torn::DataOnly, 2048)] {
        let mut chip = chip(torn);
        let cut = chip.program_raw(SECOND, &[0; 2048], &[0; 64]);
        assert_eq!(cut, Err(NandError::PowerLost));
        chip.power_on();
        assert_eq!(zeros(&mut chip, SECOND), (left, 0), "{torn:?}");
        assert_eq!(zeros(&mut chip, FIRST), (2048, 64), "{torn:?}");
        let again = chip.program_raw(SECOND, &[0; 2048], &[0; 64]);
        assert_eq!(again, Ok(()), "{torn:?}: a second program is within the part's NOP");
    }
}

#[test]
fn a_torn_erase_leaves_what_was_chosen() {
    let expected = [(Torn::Nothing, (2048, 64)), (Torn::Prefix, (0, 0)), (Torn::DataOnly, (0, 64))];
    for (torn, left) in expected {
        let mut chip = chip(torn);
        assert_eq!(chip.erase(1), Err(NandError::PowerLost));
        chip.power_on();
        assert_eq!(zeros(&mut chip, FIRST), left, "{torn:?}");
        chip.erase(1).expect("erased at last");
        assert_eq!(zeros(&mut chip, FIRST), (0, 0), "{torn:?}");
    }
}

#[test]
fn a_page_that_the_parts_ecc_gives_up_shows_its_bytes() {
    let mut chip = chip(Torn::Unreadable);
    assert_eq!(chip.program_raw(SECOND, &[0; 2048], &[0; 64]), Err(NandError::PowerLost));
    chip.power_on();
    let mut data = vec![0xff; 2048];
    let read = chip.read_raw(SECOND, &mut data, &mut []);
    assert!(matches!(read, Err(NandError::Uncorrectable { .. })));
    assert!(data.iter().any(|byte| *byte != 0xff));
}
