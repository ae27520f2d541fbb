//! What a chip holds while it has no power, so that it can be kept in a file.
//!
//! Cells, bad marks and wear are kept. Counters of operations are not: they belong to a run. Bytes of
//! pages are kept by whoever stores them beside the chip.

use super::pages::PageStates;
use super::{BAD, Chip, NEXT_PAGE, UNSTABLE};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Cells, bad marks and wear of a chip that stores tags ([`crate::Storage::Tags`]).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChipState {
    pages: PageStates,
    blocks: Vec<u32>,
    erase_counts: Vec<u32>,
    cycles_before: Vec<u32>,
    /// Torn pages, by their number on the chip, in order: a set in memory has none.
    unreadable: Vec<u32>,
}

/// The state is not one of this chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the {what} do not fit a chip of {blocks} blocks with {pages_per_block} pages")]
pub struct StateError {
    /// What does not fit.
    what: &'static str,
    blocks: u32,
    pages_per_block: u32,
}

impl Chip {
    /// What the chip holds without power.
    ///
    /// # Panics
    /// In debug builds if the chip stores bytes or has faults: these have state that is not kept.
    pub fn state(&self) -> ChipState {
        debug_assert!(!self.stores_bytes(), "bytes are no part of the state");
        debug_assert!(self.faults.is_none(), "faults have streams of their own");
        let mut unreadable: Vec<u32> = self.unreadable.iter().copied().collect();
        unreadable.sort_unstable();
        ChipState {
            pages: self.pages.clone(),
            blocks: self.blocks.clone(),
            erase_counts: self.erase_counts.clone(),
            cycles_before: self.cycles_before.clone(),
            unreadable,
        }
    }

    /// Holds from now on what another chip of the same part held.
    ///
    /// # Errors
    /// [`StateError`] if the state is not one of such a chip, as after damage to a file; the chip is unchanged.
    pub fn set_state(&mut self, state: ChipState) -> Result<(), StateError> {
        let (blocks, pages_per_block) = (self.geometry.blocks, self.geometry.pages_per_block);
        let count = blocks as usize;
        let fits = |what, fits| {
            if fits { Ok(()) } else { Err(StateError { what, blocks, pages_per_block }) }
        };
        let is_block = |block: &u32| {
            block & NEXT_PAGE <= pages_per_block && block & !(NEXT_PAGE | BAD | UNSTABLE) == 0
        };
        fits("pages", state.pages.is_of(blocks, pages_per_block))?;
        fits("blocks", state.blocks.len() == count && state.blocks.iter().all(is_block))?;
        let wear = [&state.erase_counts, &state.cycles_before];
        fits("erase counts", wear.iter().all(|counts| counts.len() == count))?;
        let pages = self.geometry.pages();
        fits("torn pages", state.unreadable.iter().all(|page| *page < pages))?;
        (self.pages, self.blocks) = (state.pages, state.blocks);
        (self.erase_counts, self.cycles_before) = (state.erase_counts, state.cycles_before);
        self.unreadable = state.unreadable.into_iter().collect();
        self.watch();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Chip, ChipState};
    use crate::random::Stream;
    use crate::{CutPoint, FaultSettings, PageAddress, Role, Storage, Tag, find_part};

    fn chip() -> Chip {
        let mut part = find_part("published-small-block").expect("in the catalogue");
        (part.geometry.blocks, part.geometry.pages_per_block) = (8, 4);
        Chip::new(&part, Storage::Tags, &FaultSettings::default())
    }

    /// Programs, erases, marks and a torn page.
    fn used(seed: u64) -> Chip {
        let (mut chip, mut draw) = (chip(), Stream::new(seed, "states"));
        for number in 0..200 {
            let block = draw.below(8);
            let page = chip.next_page(block);
            let done = match draw.below(6) {
                0 => chip.erase(block),
                _ if page < 4 => {
                    let tag = Tag::new(draw.below(99), number, Role::Data);
                    chip.program(PageAddress::new(block, page), tag, None)
                }
                _ => Ok(()),
            };
            assert!(done.is_ok(), "{done:?}");
        }
        chip.mark_bad(7).expect("marked");
        chip.erase(3).expect("erased");
        chip.cut_power_after(0, CutPoint::Inside);
        chip.program(PageAddress::new(3, 0), Tag::new(1, 200, Role::Data), None).expect_err("torn");
        chip.power_on();
        chip
    }

    #[test]
    fn a_chip_with_the_state_of_another_is_the_same_medium() {
        for seed in 0..20 {
            let one = used(seed);
            let mut other = chip();
            assert!(!other.is_same_medium(&one));
            other.set_state(one.state()).expect("of the same part");
            assert!(other.is_same_medium(&one), "seed {seed}");
            for block in 0..8 {
                assert_eq!(other.erase_cycles(block), one.erase_cycles(block));
                assert_eq!(other.is_bad(block), one.is_bad(block));
            }
            // A torn page stays torn.
            assert!(other.read(PageAddress::new(3, 0)).is_err());
        }
    }

    #[test]
    fn a_state_of_another_part_is_refused_and_changes_nothing() {
        type Damage = fn(&mut ChipState);
        let state = used(1).state();
        let damages: [(&str, Damage); 5] = [
            ("pages", |state| state.pages = crate::chip::PageStates::new(8, 5)),
            ("blocks", |state| state.blocks[2] = 5),
            ("blocks", |state| state.blocks.truncate(7)),
            ("erase counts", |state| state.cycles_before.push(0)),
            ("torn pages", |state| state.unreadable.push(32)),
        ];
        for (what, damage) in damages {
            let (mut state, mut chip) = (state.clone(), chip());
            damage(&mut state);
            let told = chip.set_state(state).expect_err(what).to_string();
            assert!(
                told.starts_with(&format!("the {what} do not fit a chip of 8 blocks")),
                "{told}"
            );
            assert!(chip.is_same_medium(&self::chip()));
        }
    }
}
