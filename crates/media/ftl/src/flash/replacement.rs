//! Blocks that go bad: what they hold moves to a spare block, which takes their place in the table.
//!
//! The order of the steps is what a power cut depends on. The copy is whole before the two blocks are swapped, and the
//! bad block is marked only after that. A cut in between leaves two copies with the same tags, and a rebuild keeps the
//! complete one (see [`crate::recovery`]).

use super::{Flash, VirtualPage};
use crate::FtlError;
use nand::{Chip, NandError, PageAddress, PageOrder, Role};

impl Flash {
    /// Replaces the block of `at` until `program` succeeds there.
    #[cold]
    pub(super) fn retry(
        &mut self,
        at: VirtualPage,
        mut program: impl FnMut(&mut Chip, PageAddress) -> Result<(), NandError>,
    ) -> Result<(), FtlError> {
        loop {
            // A fresh block first: what the failing one holds must be copied before it is given up.
            let spare = self.spare_block()?;
            // Pages below the failing one; the exchange copies those above it, too, if there are
            // any.
            if self.exchange(at.block, spare, at.page)? {
                let on_chip = self.on_chip(at);
                match program(&mut self.chip, on_chip) {
                    Ok(()) => {
                        // Marked bad only after its data is safe in the other block.
                        self.retire(spare)?;
                        return Ok(());
                    }
                    Err(NandError::ProgramFailed { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.retire(spare)?;
        }
    }

    /// Copies the pages below `pages` of `block` into `spare` with their tags and swaps the two.
    ///
    /// Returns false if a program failed: then `spare` is the one to retire and nothing changed.
    pub(super) fn exchange(
        &mut self,
        block: u32,
        spare: u32,
        pages: u32,
    ) -> Result<bool, FtlError> {
        let (source, target) = (self.physical[block as usize], self.physical[spare as usize]);
        let holds_data = |chip: &Chip, page| {
            let at = PageAddress::new(source, page);
            chip.is_programmed(at) && !chip.peek(at).is_erased()
        };
        // An erase that was cut short may leave gaps that the part does not allow in the copy.
        let end = (pages..self.chip.next_page(source)).rfind(|page| holds_data(&self.chip, *page));
        let together = self.pages_per_program();
        for page in (0..end.map_or(pages, |last| last + 1)).step_by(together as usize) {
            let to = PageAddress::new(target, page);
            let outcome = if together > 1 {
                let from = PageAddress::new(source, page);
                // The first of them is programmed with the others, be it padding.
                if self.chip.is_programmed(from) {
                    self.chip.copy_array_page(from, to)
                } else {
                    Ok(())
                }
            } else if holds_data(&self.chip, page) {
                let from = PageAddress::new(source, page);
                // With its old tag, sequence number included: a rebuild recognises twins by that.
                self.chip.copy(from, to, self.chip.peek(from))
            } else if self.geometry().page_order == PageOrder::Sequential {
                // Padding gets a number of its own; it is passed over by every scan.
                let tag = self.next_tag(u32::MAX, Role::Padding);
                self.chip.program(to, tag, None)
            } else {
                Ok(())
            };
            match outcome {
                Ok(()) => {}
                Err(NandError::ProgramFailed { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        // The swap is the moment from which the layer sees the new block.
        self.physical.swap(block as usize, spare as usize);
        Ok(true)
    }

    /// Takes a block for a replacement: from the reserve, else from the free pool.
    fn spare_block(&mut self) -> Result<u32, FtlError> {
        match self.reserve.pop() {
            // A spare block found by a scan is erased before its use, as a free one is.
            Some(block) if self.needs_erase.contains(block as usize) && !self.erase(block)? => {
                self.spare_block()
            }
            Some(block) => Ok(block),
            None => self.allocate(),
        }
    }

    pub(super) fn retire(&mut self, block: u32) -> Result<(), FtlError> {
        debug_assert!(!self.is_free.contains(block as usize), "a free block is taken first");
        self.retired_blocks += 1;
        // Whatever replaces the block comes out of the reserve, which a rebuild must not refill.
        self.reserve_blocks = self.reserve_blocks.saturating_sub(1);
        Ok(self.chip.mark_bad(self.physical[block as usize])?)
    }
}
