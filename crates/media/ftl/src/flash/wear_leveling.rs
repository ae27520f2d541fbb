//! Wear levelling: which free block is taken next, and which data moves from a block that is hardly worn.
//!
//! The built-in ways are `none`, `dynamic` (the least worn free block is taken) and `static` (also, cold data moves). A
//! policy of the user's own answers the same two questions (see [`crate::wear`]).

use super::Flash;
use crate::FtlError;
use crate::wear::{Leveler, WearView};

/// Erases between two looks at the spread of erase counts.
// The search costs a look at every block; wear grows slowly against that.
pub(super) const WEAR_CHECK_ERASES: u64 = 16;

impl Flash {
    /// Takes a free block out of the pool: the first of its order, or the one that the policy names.
    pub(super) fn take_free(&mut self) -> Option<u32> {
        if self.leveler.is_none() {
            return self.free.pop();
        }
        let free = self.free.blocks();
        // A policy is asked only if it has a choice: `allocate` must name a block.
        if free.is_empty() {
            return None;
        }
        let block = self.ask(&free, &[], |leveler, view| leveler.0.allocate(view))?;
        debug_assert!(free.contains(&block), "a policy names one of the free blocks");
        self.free.take(block);
        Some(block)
    }

    /// Asks the policy of the user's own about these blocks; none where there is no policy.
    fn ask<T>(
        &mut self,
        free: &[u32],
        used: &[u32],
        question: impl FnOnce(&mut Leveler, &WearView) -> T,
    ) -> Option<T> {
        // Taken out for the call: it looks at the flash that it is a part of.
        let mut leveler = self.leveler.take()?;
        let threshold = self.wear_threshold.unwrap_or_default();
        let answer = question(&mut leveler, &WearView { flash: self, free, used, threshold });
        self.leveler = Some(leveler);
        Some(answer)
    }

    /// Moves data where the policy of the user's own says so.
    fn level_by_policy(&mut self) -> Result<(), FtlError> {
        let used: Vec<u32> =
            (0..self.geometry().blocks).filter(|block| self.holds_data(*block)).collect();
        // A block that still needs an erase takes no data, for its erase may fail.
        let mut free = self.free.blocks();
        free.retain(|block| !self.needs_erase.contains(*block as usize));
        if used.is_empty() || free.is_empty() {
            return Ok(());
        }
        let answer = self.ask(&free, &used, |leveler, view| leveler.0.level(view)).flatten();
        let Some((from, to)) = answer else { return Ok(()) };
        debug_assert!(used.contains(&from) && free.contains(&to), "a policy names such blocks");
        // Out of the pool before the move: if the program fails, the block is retired and must not be in it.
        self.free.take(to);
        self.is_free.remove(to as usize);
        self.move_data(from, to)
    }

    /// True of a block in use that is not erased.
    fn holds_data(&self, block: u32) -> bool {
        // An erased block in use holds nothing that could be cold.
        self.is_in_use(block) && self.chip.next_page(self.physical[block as usize]) > 0
    }

    /// Moves all data of a block to an erased one that was taken from the pool.
    fn move_data(&mut self, from: u32, to: u32) -> Result<(), FtlError> {
        self.leveled_blocks += 1;
        // From page 0: all of the block's pages.
        if self.exchange(from, to, 0)? {
            return self.erase_to_free(to);
        }
        self.retire(to)?;
        self.free_spare();
        Ok(())
    }

    /// Moves the data of the least-worn block in use to the most-worn free block if their erase
    /// counts lie further apart than the threshold.
    pub(super) fn level_wear(&mut self) -> Result<(), FtlError> {
        if self.leveler.is_some() {
            return self.level_by_policy();
        }
        let Some(threshold) = self.wear_threshold else { return Ok(()) };
        let in_use = |block: &u32| self.holds_data(*block);
        let cycles_of = |block: &u32| self.chip.erase_cycles(self.physical[*block as usize]);
        let Some(coldest) = (0..self.geometry().blocks).filter(in_use).min_by_key(cycles_of) else {
            return Ok(());
        };
        let coldest_cycles = cycles_of(&coldest);
        // The most worn block takes the data that is written least.
        let Some(worn) = self.free.pop_most_worn() else { return Ok(()) };
        self.is_free.remove(worn as usize);
        let apart =
            self.chip.erase_cycles(self.physical[worn as usize]).saturating_sub(coldest_cycles);
        // A block that still needs an erase is not used, for its erase may fail.
        if apart <= threshold || self.needs_erase.contains(worn as usize) {
            self.push_free(worn);
            return Ok(());
        }
        self.move_data(coldest, worn)
    }
}
