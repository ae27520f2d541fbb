//! Log-structured placement: pages are appended to open blocks, full blocks are closed until
//! cleaning empties them. Shared by the page-mapped layers.

use crate::cleaning::{Policy, View};
use crate::recovery::Scan;
use crate::valid::{AgeList, ValidIndex};
use crate::{Flash, FtlError, Locations};
use nand::PageAddress;

/// Open blocks, closed blocks and the choice of the next one to clean.
pub(crate) struct PageLog {
    pub(crate) flash: Flash,
    pub(crate) valid: ValidIndex,
    ages: AgeList,
    policy: Box<dyn Policy>,
    /// Open block and its next page, by stream.
    open: [Option<PageAddress>; 3],
    low_water_blocks: usize,
}

impl Clone for PageLog {
    fn clone(&self) -> Self {
        Self {
            flash: self.flash.clone(),
            valid: self.valid.clone(),
            ages: self.ages.clone(),
            policy: self.policy.clone_box(),
            open: self.open,
            low_water_blocks: self.low_water_blocks,
        }
    }
}

impl PageLog {
    pub(crate) fn new(flash: Flash, policy: Box<dyn Policy>, indexed: bool, low_water_blocks: u32) -> Self {
        let blocks = flash.geometry().blocks;
        Self {
            valid: ValidIndex::new(blocks, flash.pages_per_block(), indexed),
            ages: AgeList::new(blocks),
            policy,
            open: [None; 3],
            low_water_blocks: low_water_blocks as usize,
            flash,
        }
    }

    /// The next page of the stream's open block, if it has one.
    #[inline]
    pub(crate) fn next(&self, stream: usize) -> Option<PageAddress> {
        self.open[stream]
    }

    /// The next page of the stream, in a fresh block if need be.
    #[inline]
    pub(crate) fn next_or_open(&mut self, stream: usize) -> Result<PageAddress, FtlError> {
        if let Some(at) = self.open[stream] {
            return Ok(at);
        }
        let at = PageAddress::new(self.flash.allocate()?, 0);
        self.open[stream] = Some(at);
        Ok(at)
    }

    /// The stream's next page was programmed and holds a newest copy.
    #[inline]
    pub(crate) fn wrote(&mut self, stream: usize, at: PageAddress) {
        self.valid.add(at.block);
        if at.page + 1 < self.flash.pages_per_block() {
            self.open[stream] = Some(PageAddress::new(at.block, at.page + 1));
        } else {
            self.open[stream] = None;
            self.close(at.block);
        }
    }

    /// True if blocks must be cleaned before a host write may open one.
    #[inline]
    pub(crate) fn must_clean(&self) -> bool {
        self.flash.free_blocks() <= self.low_water_blocks
    }

    /// The block to clean next, taken off the closed ones.
    pub(crate) fn take_victim(&mut self) -> Result<u32, FtlError> {
        let view = View { flash: &self.flash, valid: &self.valid, ages: &self.ages };
        let victim = self.policy.choose(&view).ok_or(FtlError::NoFreeBlock)?;
        self.ages.remove(victim);
        self.valid.take(victim);
        self.flash.merges.cleaned += 1;
        Ok(victim)
    }

    /// Erases a victim whose valid pages were all moved.
    pub(crate) fn release(&mut self, victim: u32) -> Result<(), FtlError> {
        debug_assert_eq!(self.valid.count(victim), 0, "valid pages are never erased");
        self.flash.release(victim)
    }

    /// Takes the state of all blocks from a scan; `is_newest` tells newest copies.
    pub(crate) fn rebuild(
        &mut self,
        scan: &Scan,
        is_newest: impl Fn(nand::Tag, PageAddress) -> bool,
    ) -> Result<(), FtlError> {
        let blocks = self.flash.geometry().blocks;
        let indexed = self.valid.is_indexed();
        self.valid = ValidIndex::new(blocks, self.flash.pages_per_block(), indexed);
        self.ages = AgeList::new(blocks);
        self.open = [None; 3];
        let mut used: Vec<(u64, u32)> = Vec::new();
        for (found, block) in scan.blocks.iter().zip(0..) {
            let newest = found.tags().filter(|(page, tag)| is_newest(*tag, PageAddress::new(block, *page))).count();
            if newest > 0 {
                (0..newest).for_each(|_| self.valid.add(block));
                used.push((found.oldest_sequence().unwrap_or(0), block));
            } else if !found.is_empty() {
                self.flash.release(block)?;
            }
        }
        used.sort_unstable();
        if self.flash.free_blocks() == 0 {
            if let Some((_, block)) = used.pop() {
                self.reopen(block);
            }
        }
        used.into_iter().for_each(|(_, block)| self.close(block));
        Ok(())
    }

    /// Goes on in the block that was opened last, because no block is free; the layer cleans at once,
    /// for host writes would fill the room that cleaning needs.
    ///
    /// Cleaning alone opens the last free block, and erases its victim before it opens another; so
    /// this block was not being erased when the power failed. One page is passed over: its program
    /// may have begun without leaving a trace.
    fn reopen(&mut self, block: u32) {
        self.flash.unseal(block);
        let page = self.flash.next_page(block) + 1;
        if page < self.flash.pages_per_block() {
            self.open[0] = Some(PageAddress::new(block, page));
        } else {
            self.close(block);
        }
    }

    fn close(&mut self, block: u32) {
        self.ages.push(block, self.flash.sequence());
        self.valid.close(block);
    }
}

/// Newest copies of data pages after a scan.
pub(crate) fn newest_pages(scan: &Scan, logical_pages: u32) -> Locations {
    let mut locations = Locations::new(logical_pages);
    locations.rebuild(scan);
    locations
}
