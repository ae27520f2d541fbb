//! Every operation is accepted or refused as the rules of the part say.

use crate::support;

use nand::{NandError, PageAddress, PageOrder, Tag};
use proptest::prelude::*;
use support::{BLOCKS, PAGES, byte_chip, ruled_part, tag};

/// What may be done, kept apart from the chip: counts of programs since the erase.
struct Model {
    order: PageOrder,
    data_max: u8,
    spare_max: u8,
    data: [[u8; PAGES as usize]; BLOCKS as usize],
    spare: [[u8; PAGES as usize]; BLOCKS as usize],
    bad: [bool; BLOCKS as usize],
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Program(PageAddress),
    Raw(PageAddress, bool),
    Spare(PageAddress),
    Erase(u32),
    MarkBad(u32),
}

impl Model {
    fn next(&self, block: u32) -> u32 {
        let last = self.data[block as usize].iter().rposition(|count| *count > 0);
        last.map_or(0, |page| page as u32 + 1)
    }

    fn in_order(&self, at: PageAddress, lowest: u32) -> bool {
        match self.order {
            PageOrder::Any => true,
            PageOrder::Ascending => at.page >= lowest,
            PageOrder::Sequential => at.page == lowest,
        }
    }

    /// The refusal the rules ask for, or the new state.
    fn step(&mut self, step: Step) -> Result<(), NandError> {
        let (at, writes_data, writes_spare) = match step {
            Step::Program(at) => (at, true, true),
            Step::Raw(at, spare) => (at, true, spare),
            Step::Spare(at) => (at, false, true),
            Step::Erase(block) | Step::MarkBad(block) => return self.block_step(step, block),
        };
        let PageAddress { block, page } = at;
        if block >= BLOCKS || page >= PAGES {
            return Err(NandError::OutOfRange { block, page });
        }
        if self.bad[block as usize] {
            return Err(NandError::BadBlock { block });
        }
        let next = self.next(block);
        let data = self.data[block as usize][page as usize];
        if writes_data {
            if data > 0 && matches!(step, Step::Program(_)) {
                return Err(NandError::NotErased { block, page });
            }
            if data >= self.data_max {
                return Err(NandError::ProgramLimit { block, page });
            }
            let lowest = if data > 0 { next - 1 } else { next };
            if !self.in_order(at, lowest) {
                return Err(NandError::OutOfOrder { block, page, next: lowest });
            }
        }
        let spare = &mut self.spare[block as usize][page as usize];
        if writes_spare && *spare >= self.spare_max {
            return Err(NandError::ProgramLimit { block, page });
        }
        *spare += u8::from(writes_spare);
        self.data[block as usize][page as usize] += u8::from(writes_data);
        Ok(())
    }

    fn block_step(&mut self, step: Step, block: u32) -> Result<(), NandError> {
        if block >= BLOCKS {
            return Err(NandError::OutOfRange { block, page: 0 });
        }
        if matches!(step, Step::MarkBad(_)) {
            self.bad[block as usize] = true;
        } else if self.bad[block as usize] {
            return Err(NandError::BadBlock { block });
        } else {
            self.data[block as usize] = [0; PAGES as usize];
            self.spare[block as usize] = [0; PAGES as usize];
        }
        Ok(())
    }
}

fn address() -> impl Strategy<Value = PageAddress> {
    // Rarely outside the chip, mostly in two blocks, so that rules meet.
    let block = prop_oneof![20 => 0..2_u32, 3 => 2..BLOCKS, 1 => BLOCKS..BLOCKS + 2];
    let page = prop_oneof![30 => 0..PAGES, 1 => PAGES..PAGES + 2];
    (block, page).prop_map(|(block, page)| PageAddress::new(block, page))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => address().prop_map(Step::Program),
        4 => (address(), any::<bool>()).prop_map(|(at, spare)| Step::Raw(at, spare)),
        4 => address().prop_map(Step::Spare),
        2 => (0..BLOCKS + 1).prop_map(Step::Erase),
        1 => (3..BLOCKS + 1).prop_map(Step::MarkBad),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn operations_are_refused_exactly_as_the_rules_say(
        order in prop_oneof![Just(PageOrder::Any), Just(PageOrder::Ascending), Just(PageOrder::Sequential)],
        data_max in 1..4_u8,
        spare_max in 1..4_u8,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut chip = byte_chip(&ruled_part(order, data_max, spare_max));
        let mut model = Model {
            order, data_max, spare_max,
            data: [[0; PAGES as usize]; BLOCKS as usize],
            spare: [[0; PAGES as usize]; BLOCKS as usize],
            bad: [false; BLOCKS as usize],
        };
        let mut accepted = 0;
        for (number, step) in steps.into_iter().enumerate() {
            let outcome = match step {
                Step::Program(at) => chip.program(at, tag(7), None),
                Step::Raw(at, true) => chip.program_raw(at, &[0; 64], &[0xff, 0xff, 0]),
                Step::Raw(at, false) => chip.program_raw(at, &[0; 64], &[]),
                Step::Spare(at) => chip.program_spare(at, Tag::link()),
                Step::Erase(block) => chip.erase(block),
                Step::MarkBad(block) => chip.mark_bad(block),
            };
            prop_assert_eq!(outcome, model.step(step), "step {}: {:?}", number, step);
            accepted += u64::from(outcome.is_ok());
            for block in 0..BLOCKS {
                prop_assert_eq!(chip.next_page(block), model.next(block));
                prop_assert_eq!(chip.is_bad(block), model.bad[block as usize]);
                for page in 0..PAGES {
                    let programmed = model.data[block as usize][page as usize] > 0;
                    prop_assert_eq!(chip.is_programmed(PageAddress::new(block, page)), programmed);
                }
            }
        }
        let counters = chip.counters();
        prop_assert_eq!(counters.programs() + counters.erases, accepted, "refused operations are not counted");
    }
}

#[test]
fn a_clean_marker_in_the_spare_area_leaves_the_page_programmable() {
    for order in [PageOrder::Any, PageOrder::Ascending, PageOrder::Sequential] {
        let mut chip = byte_chip(&ruled_part(order, 1, 2));
        let at = PageAddress::new(0, 0);
        chip.program_raw(at, &[], &[0xff, 0xff, 0x85, 0x19]).expect("marker");
        assert!(!chip.is_programmed(at));
        chip.program_raw(at, &[1; 256], &[0xff, 0xff, 0xff, 0xff, 0x03])
            .expect("data after the marker");
        let mut oob = [0; 5];
        chip.read_raw(at, &mut [], &mut oob).expect("read");
        assert_eq!(
            oob,
            [0xff, 0xff, 0x85, 0x19, 0x03],
            "the spare area is the AND of both programs"
        );
    }
}

#[test]
fn reading_is_allowed_everywhere_on_the_chip_and_nowhere_else() {
    let mut chip = byte_chip(&ruled_part(PageOrder::Any, 1, 1));
    chip.mark_bad(1).expect("marked");
    for block in 0..BLOCKS {
        assert_eq!(chip.read(PageAddress::new(block, 0)), Ok(Tag::ERASED));
    }
    let outside = NandError::OutOfRange { block: BLOCKS, page: 0 };
    assert_eq!(chip.read(PageAddress::new(BLOCKS, 0)), Err(outside));
    assert_eq!(chip.read_spare(PageAddress::new(BLOCKS, 0)), Err(outside));
    assert_eq!(chip.mark_bad(BLOCKS), Err(outside));
    assert_eq!(chip.erase(BLOCKS), Err(outside));
    assert_eq!(chip.counters().reads(), u64::from(BLOCKS));
}
