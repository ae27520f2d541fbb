//! What a power cut leaves, for every kind of operation and every point of it.

use crate::support;

use nand::{Cell, Chip, CutPoint, NandError, PageAddress, PageOrder, Tag};
use support::{BLOCKS, PAGES, byte_chip, cell_part, ruled_part, small_part, tag};

const AT: PageAddress = PageAddress::new(1, 3);
const FRESH: PageAddress = PageAddress::new(1, 5);
const LOST: Result<(), NandError> = Err(NandError::PowerLost);

/// A chip with one page programmed, whose power will fail at the next operation.
fn about_to_fail(point: CutPoint) -> Chip {
    let mut chip = byte_chip(&small_part());
    chip.program(AT, tag(42), Some(&[0x5a; 256])).expect("program");
    chip.cut_power_after(0, point);
    chip
}

/// Checks that nothing works, and switches the power on again.
fn power_cycle(chip: &mut Chip) {
    assert!(!chip.is_powered());
    let counters = chip.counters();
    assert_eq!(chip.read(AT), Err(NandError::PowerLost));
    assert_eq!(chip.read_spare(AT), Err(NandError::PowerLost));
    assert_eq!(chip.read_data(AT, &mut [0; 4]), Err(NandError::PowerLost));
    assert_eq!(chip.read(PageAddress::new(BLOCKS, 0)), Err(NandError::PowerLost));
    // Not even a refusal: the page is programmed, the block may be bad.
    assert_eq!(chip.program(AT, tag(1), None), LOST);
    assert_eq!(chip.program_raw(AT, &[0], &[]), LOST);
    assert_eq!(chip.program_spare(AT, Tag::link()), LOST);
    assert_eq!(chip.copy(AT, FRESH, tag(1)), LOST);
    assert_eq!(chip.erase(AT.block), LOST);
    assert_eq!(chip.mark_bad(AT.block), LOST);
    assert_eq!(chip.counters(), counters);
    chip.power_on();
}

fn still_holds(chip: &mut Chip) {
    let mut data = [0; 256];
    assert_eq!(chip.read_data(AT, &mut data), Ok(tag(42)));
    assert_eq!(data, [0x5a; 256]);
}

#[test]
fn a_cut_read_returns_no_data_and_changes_nothing() {
    for point in [CutPoint::Before, CutPoint::Inside, CutPoint::After] {
        let mut chip = about_to_fail(point);
        assert_eq!(chip.read(AT), Err(NandError::PowerLost));
        power_cycle(&mut chip);
        still_holds(&mut chip);
        let mut chip = about_to_fail(point);
        assert_eq!(chip.read_spare(AT), Err(NandError::PowerLost));
        power_cycle(&mut chip);
        still_holds(&mut chip);
    }
}

#[test]
fn a_program_cut_before_left_the_page_blank() {
    let mut chip = about_to_fail(CutPoint::Before);
    assert_eq!(chip.program(FRESH, tag(7), Some(&[1; 256])), LOST);
    power_cycle(&mut chip);
    assert!(!chip.is_programmed(FRESH));
    assert_eq!(chip.read(FRESH), Ok(Tag::ERASED));
    assert_eq!(chip.program(FRESH, tag(7), Some(&[1; 256])), Ok(()));
    still_holds(&mut chip);
}

#[test]
fn a_torn_page_is_used_up_and_unreadable_until_its_block_is_erased() {
    let mut chip = about_to_fail(CutPoint::Inside);
    assert_eq!(chip.program(FRESH, tag(7), Some(&[1; 256])), LOST);
    power_cycle(&mut chip);
    let PageAddress { block, page } = FRESH;
    let unreadable = NandError::Uncorrectable { block, page };
    assert!(chip.is_programmed(FRESH));
    assert_eq!(chip.next_page(block), page + 1);
    assert_eq!(chip.read(FRESH), Err(unreadable));
    assert_eq!(chip.read_spare(FRESH), Err(unreadable));
    assert_eq!(chip.ecc_counters().uncorrectable_reads, 2);
    assert_eq!(chip.program(FRESH, tag(7), None), Err(NandError::NotErased { block, page }));
    assert_eq!(chip.program_raw(FRESH, &[0], &[]), Err(NandError::ProgramLimit { block, page }));
    still_holds(&mut chip);
    chip.erase(block).expect("erase");
    assert_eq!(chip.read(FRESH), Ok(Tag::ERASED));
    assert_eq!(chip.program(FRESH, tag(7), None), Ok(()));
    assert_eq!(chip.read(FRESH), Ok(tag(7)));
}

#[test]
fn a_program_cut_after_its_end_is_complete_and_answers_with_the_power_loss() {
    let mut chip = about_to_fail(CutPoint::After);
    assert_eq!(chip.program(FRESH, tag(7), Some(&[1; 256])), LOST);
    power_cycle(&mut chip);
    let mut data = [0; 256];
    assert_eq!(chip.read_data(FRESH, &mut data), Ok(tag(7)));
    assert_eq!(data, [1; 256]);
}

#[test]
fn a_mark_is_there_only_if_its_program_ended_before_the_cut() {
    for point in [CutPoint::Before, CutPoint::Inside, CutPoint::After] {
        let is_set = point == CutPoint::After;
        let mut chip = about_to_fail(point);
        assert_eq!(chip.program_spare(AT, Tag::link()), LOST);
        power_cycle(&mut chip);
        assert_eq!(chip.read(AT).expect("read").is_linked(), is_set);
        let mut chip = about_to_fail(point);
        assert_eq!(chip.program_raw(AT, &[], &[0]), LOST);
        power_cycle(&mut chip);
        let mut oob = [0xaa];
        chip.read_raw(AT, &mut [], &mut oob).expect("read");
        assert_eq!(oob[0] == 0, is_set);
        let mut chip = about_to_fail(point);
        assert_eq!(chip.mark_bad(AT.block), LOST);
        power_cycle(&mut chip);
        assert_eq!(chip.is_bad(AT.block), is_set);
    }
}

#[test]
fn an_erase_cut_before_changed_nothing_and_one_cut_after_is_complete() {
    let mut chip = about_to_fail(CutPoint::Before);
    assert_eq!(chip.erase(AT.block), LOST);
    power_cycle(&mut chip);
    still_holds(&mut chip);
    let mut chip = about_to_fail(CutPoint::After);
    assert_eq!(chip.erase(AT.block), LOST);
    power_cycle(&mut chip);
    assert_eq!(chip.read(AT), Ok(Tag::ERASED));
    assert_eq!(chip.program(AT, tag(1), None), Ok(()));
}

#[test]
fn a_torn_erase_leaves_the_block_unusable_until_it_is_erased() {
    let (mut kept, mut blank, mut torn) = (0, 0, 0);
    let (mut untouched, mut empty) = (0, 0);
    for erases in 0..40 {
        let before = (kept, blank);
        let mut chip = byte_chip(&small_part());
        chip.set_erase_counts(erases);
        for page in 0..PAGES {
            chip.program(PageAddress::new(2, page), tag(page), Some(&[page as u8; 256]))
                .expect("program");
        }
        chip.cut_power_after(0, CutPoint::Inside);
        assert_eq!(chip.erase(2), LOST);
        power_cycle(&mut chip);
        for page in 0..PAGES {
            let at = PageAddress::new(2, page);
            let mut data = [0; 256];
            match chip.read_data(at, &mut data) {
                Ok(Tag::ERASED) => {
                    assert_eq!(data, [0xff; 256]);
                    blank += 1;
                }
                Ok(found) => {
                    assert_eq!((found, data), (tag(page), [page as u8; 256]));
                    kept += 1;
                }
                Err(error) => {
                    assert_eq!(error, NandError::Uncorrectable { block: 2, page });
                    torn += 1;
                }
            }
            let unstable = NandError::Unstable { block: 2 };
            assert_eq!(chip.program(at, tag(1), None), Err(unstable));
            assert_eq!(chip.program_raw(at, &[1], &[]), Err(unstable));
            assert_eq!(chip.program_spare(at, Tag::link()), Err(unstable));
        }
        untouched += u32::from(kept == before.0 + PAGES);
        empty += u32::from(blank == before.1 + PAGES);
        chip.erase(2).expect("erase");
        assert_eq!(chip.program(PageAddress::new(2, 0), tag(1), None), Ok(()));
        assert_eq!(chip.read(PageAddress::new(2, 0)), Ok(tag(1)));
    }
    assert!(kept > 40 && blank > 40 && torn > 10, "{kept} kept, {blank} blank, {torn} torn");
    // The look is drawn anew for each erase: a recovery meets whole blocks of both kinds.
    assert!(untouched > 4 && empty > 4, "{untouched} blocks look untouched, {empty} empty");
}

#[test]
fn the_cut_comes_at_the_operation_it_was_set_for() {
    for wanted in 0..10 {
        let mut chip = byte_chip(&small_part());
        chip.cut_power_after(wanted, CutPoint::Before);
        let done = (0..PAGES * 2)
            .take_while(|number| {
                let at = PageAddress::new(0, number / 2);
                // Refused operations do not count.
                assert!(chip.read(PageAddress::new(BLOCKS, 0)).is_err());
                if number % 2 == 0 {
                    chip.program(at, tag(1), None)
                } else {
                    chip.read(at).map(|_| ())
                }
                .is_ok()
            })
            .count();
        assert_eq!(done as u64, wanted);
    }
    let mut chip = about_to_fail(CutPoint::Inside);
    chip.power_on();
    still_holds(&mut chip);
}

#[test]
fn every_lower_page_of_a_two_bit_block_has_one_upper_partner() {
    for pages in [8, 12, 128, 256] {
        let geometry = cell_part(Cell::Mlc, pages).geometry;
        let mut partners = vec![Vec::new(); pages as usize];
        for page in 0..pages {
            let pairs = geometry.paired_pages(page);
            assert_eq!(pairs.len() as u32, geometry.word_line_position(page));
            for lower in pairs {
                assert_eq!(geometry.word_line_position(lower), 0, "{lower} of {page}");
                assert!(lower < page);
                partners[lower as usize].push(page);
            }
        }
        for page in 0..pages {
            let expected = 1 - geometry.word_line_position(page);
            assert_eq!(partners[page as usize].len() as u32, expected, "page {page} of {pages}");
        }
    }
    // As the paired-page table of a 128-page part prints it.
    let geometry = cell_part(Cell::Mlc, 128).geometry;
    let table = [
        (4, 0),
        (5, 1),
        (8, 2),
        (9, 3),
        (12, 6),
        (13, 7),
        (16, 10),
        (120, 114),
        (124, 118),
        (125, 119),
    ];
    for (upper, lower) in table.into_iter().chain([(126, 122), (127, 123)]) {
        assert_eq!(geometry.paired_pages(upper), lower..lower + 1);
    }
}

#[test]
fn a_torn_upper_page_takes_its_lower_page_with_it() {
    for (cell, torn, lost) in [
        (Cell::Mlc, 8, vec![2]),
        (Cell::Mlc, 6, vec![]),
        (Cell::Tlc, 8, vec![6, 7]),
        (Cell::Qlc, 9, vec![8]),
    ] {
        let mut chip = byte_chip(&cell_part(cell, 12));
        for page in 0..torn {
            chip.program(PageAddress::new(0, page), tag(page), None).expect("program");
        }
        chip.cut_power_after(0, CutPoint::Inside);
        assert_eq!(chip.program(PageAddress::new(0, torn), tag(torn), None), LOST);
        chip.power_on();
        for page in 0..torn {
            let is_lost = chip.read(PageAddress::new(0, page))
                == Err(NandError::Uncorrectable { block: 0, page });
            assert_eq!(is_lost, lost.contains(&page), "{cell:?} page {page}");
        }
        assert!(chip.read(PageAddress::new(0, torn)).is_err());
    }
}

#[test]
fn a_copy_of_an_unreadable_page_is_marked_lost() {
    let mut chip = about_to_fail(CutPoint::Inside);
    assert_eq!(chip.program(FRESH, tag(7), None), LOST);
    chip.power_on();
    let to = PageAddress::new(2, 0);
    chip.copy(FRESH, to, tag(7)).expect("copy");
    let found = chip.read(to).expect("read");
    assert!(found.is_lost());
    assert_eq!((found.lpn(), found.sequence()), (tag(7).lpn(), tag(7).sequence()));
    chip.copy(to, PageAddress::new(2, 1), tag(7)).expect("copy");
    assert!(chip.read(PageAddress::new(2, 1)).expect("read").is_lost(), "lost once, lost for good");
}

#[test]
fn clones_do_not_disturb_each_other() {
    let mut original = byte_chip(&ruled_part(PageOrder::Ascending, 2, 2));
    original.program(AT, tag(42), Some(&[0x5a; 256])).expect("program");
    let mut copy = original.clone();
    copy.program(FRESH, tag(1), Some(&[0; 256])).expect("program");
    let mut erased = original.clone();
    erased.erase(AT.block).expect("erase");
    let mut torn = original.clone();
    torn.cut_power_after(0, CutPoint::Inside);
    assert_eq!(torn.program(FRESH, tag(2), Some(&[0; 256])), LOST);
    still_holds(&mut original);
    still_holds(&mut copy);
    let mut data = [0; 256];
    assert_eq!(original.read_data(FRESH, &mut data), Ok(Tag::ERASED));
    assert_eq!(data, [0xff; 256]);
    assert_eq!(erased.read(AT), Ok(Tag::ERASED));
    assert_eq!(original.read(FRESH), Ok(Tag::ERASED), "only the clone lost its power");
}
