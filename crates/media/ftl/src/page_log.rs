//! Log-structured placement: pages are appended to open blocks, full blocks are closed until
//! cleaning empties them. Shared by the page-mapped layers.

use crate::cleaning::{Policy, View};
use crate::recovery::{BlockScan, PageScan, Scan};
use crate::valid::{AgeList, ValidIndex};
use crate::{Flash, FtlError, Locations, VirtualPage};
use nand::{Role, Tag};
use std::collections::BTreeMap;

/// Open blocks, closed blocks and the choice of the next one to clean.
pub(crate) struct PageLog {
    pub(crate) flash: Flash,
    pub(crate) valid: ValidIndex,
    ages: AgeList,
    policy: Box<dyn Policy>,
    /// Open block and its next page, by stream.
    // Three streams at most: host data, second stream or translation pages, copies.
    open: [Option<VirtualPage>; 3],
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
    pub(crate) fn new(
        flash: Flash,
        policy: Box<dyn Policy>,
        indexed: bool,
        low_water_blocks: u32,
    ) -> Self {
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
    pub(crate) fn next(&self, stream: usize) -> Option<VirtualPage> {
        self.open[stream]
    }

    /// The next page of the stream, in a fresh block if need be.
    #[inline]
    pub(crate) fn next_or_open(&mut self, stream: usize) -> Result<VirtualPage, FtlError> {
        if let Some(at) = self.open[stream] {
            return Ok(at);
        }
        let at = VirtualPage::new(self.flash.allocate()?, 0);
        self.open[stream] = Some(at);
        Ok(at)
    }

    /// The stream's next page was programmed and holds a newest copy.
    #[inline]
    pub(crate) fn wrote(&mut self, stream: usize, at: VirtualPage) {
        debug_assert_eq!(self.open[stream], Some(at), "a stream is written in order");
        // Valid from the program on; the old copy is made stale by the caller.
        self.valid.add(at.block);
        self.advance(stream, at, 1);
    }

    /// An array page of the stream was programmed; so many of its pages hold newest copies, the rest is padding.
    #[inline]
    pub(crate) fn wrote_together(&mut self, stream: usize, at: VirtualPage, newest: u32) {
        debug_assert_eq!(self.open[stream], Some(at), "a stream is written in order");
        (0..newest).for_each(|_| self.valid.add(at.block));
        self.advance(stream, at, self.flash.pages_per_program());
    }

    /// So many valid pages of a block being cleaned were moved to the stream's next array page.
    #[inline]
    pub(crate) fn moved_together(&mut self, stream: usize, from: u32, to: VirtualPage, pages: u32) {
        debug_assert_eq!(self.open[stream], Some(to), "a stream is written in order");
        self.valid.move_pages(from, to.block, pages);
        self.advance(stream, to, self.flash.pages_per_program());
    }

    /// So many valid pages of a block being cleaned were moved to the stream's next pages.
    #[inline]
    pub(crate) fn moved(&mut self, stream: usize, from: u32, to: VirtualPage, pages: u32) {
        debug_assert_eq!(self.open[stream], Some(to), "a stream is written in order");
        self.valid.move_pages(from, to.block, pages);
        self.advance(stream, to, pages);
    }

    /// The stream goes on so many pages after `at`; a full block is closed.
    #[inline]
    fn advance(&mut self, stream: usize, at: VirtualPage, pages: u32) {
        if at.page + pages < self.flash.pages_per_block() {
            self.open[stream] = Some(VirtualPage::new(at.block, at.page + pages));
        } else {
            self.open[stream] = None;
            self.close(at.block);
        }
    }

    /// True if blocks must be cleaned before a host write may open one.
    #[inline]
    pub(crate) fn must_clean(&self) -> bool {
        // At most as many as the limit, not fewer: with a limit of 1 the last block is for
        // cleaning.
        self.flash.free_blocks() <= self.low_water_blocks
    }

    /// The block to clean next, taken off the closed ones.
    pub(crate) fn take_victim(&mut self) -> Result<u32, FtlError> {
        let view = View { flash: &self.flash, valid: &self.valid, ages: &self.ages };
        let victim = self.policy.choose(&view).ok_or(FtlError::NoFreeBlock)?;
        self.take(victim);
        Ok(victim)
    }

    /// As [`PageLog::take_victim`], unless cleaning the block would win nothing.
    pub(crate) fn take_worthwhile_victim(&mut self) -> Option<u32> {
        let view = View { flash: &self.flash, valid: &self.valid, ages: &self.ages };
        let victim = self.policy.choose(&view)?;
        // Every page valid: cleaning would write a block to win a block. Copies fill whole array pages, so a few
        // stale parts of one win nothing either.
        let copies = self.valid.count(victim).next_multiple_of(self.flash.pages_per_program());
        if copies >= self.flash.pages_per_block() {
            return None;
        }
        self.take(victim);
        Some(victim)
    }

    fn take(&mut self, victim: u32) {
        self.ages.remove(victim);
        self.valid.take(victim);
        // Counted when it is taken, so that cleaning between requests counts once.
        self.flash.merges.cleaned += 1;
    }

    /// Erases a victim whose valid pages were all moved.
    pub(crate) fn release(&mut self, victim: u32) -> Result<(), FtlError> {
        debug_assert_eq!(self.valid.count(victim), 0, "valid pages are never erased");
        self.flash.release(victim)
    }

    /// Reads all spare areas; if no block is free, takes back the cleaning that was interrupted.
    ///
    /// Cleaning alone opens the last free block, fills it from one victim and erases that victim
    /// before it opens another. So if no block is free, the one opened last holds copies whose
    /// originals are all in place: without it there is a free block again, whatever number of pages
    /// power cuts have wasted.
    pub(crate) fn scan(&mut self) -> Result<Scan, FtlError> {
        let mut scan = self.flash.scan()?;
        // Blocks that hold no newest page were not released yet, hence `copies_to_take_back` looks
        // for them.
        if self.flash.free_blocks() == 0
            && let Some(block) = copies_to_take_back(&scan)
        {
            self.flash.release(block)?;
            // The scan must agree with the chip, since the rebuild goes by it.
            scan.blocks[block as usize].pages.fill(PageScan::Erased);
        }
        Ok(scan)
    }

    /// Takes the state of all blocks from a scan; `is_newest` recognises newest copies.
    ///
    /// Returns a block to clean at once, into `copy_stream`, if no block is free even so: then the
    /// erase of the victim was interrupted, and pages trimmed long ago have come back in it. They
    /// have room in the block opened last, for it holds nothing but the other pages of the victim.
    pub(crate) fn rebuild(
        &mut self,
        scan: &Scan,
        copy_stream: usize,
        is_newest: impl Fn(Tag, VirtualPage) -> bool,
    ) -> Result<Option<u32>, FtlError> {
        let blocks = self.flash.geometry().blocks;
        let indexed = self.valid.is_indexed();
        self.valid = ValidIndex::new(blocks, self.flash.pages_per_block(), indexed);
        self.ages = AgeList::new(blocks);
        self.open = [None; 3];
        let mut used: Vec<(u64, u32)> = Vec::new();
        for (found, block) in scan.blocks.iter().zip(0..) {
            let newest = found
                .tags()
                .filter(|(page, tag)| is_newest(*tag, VirtualPage::new(block, *page)))
                .count();
            if newest > 0 {
                (0..newest).for_each(|_| self.valid.add(block));
                used.push((found.oldest_sequence().unwrap_or(0), block));
            } else if !found.is_empty() {
                // Pages but none the newest: the block is free for the price of an erase.
                self.flash.release(block)?;
            }
        }
        // By the oldest page, which is the order in which the blocks were opened.
        used.sort_unstable();
        let last = if self.flash.free_blocks() == 0 { used.pop() } else { None };
        for (_, block) in used {
            self.close(block);
        }
        let Some((_, last)) = last else { return Ok(None) };
        let victim = self
            .ages
            .iter()
            .min_by_key(|block| self.valid.count(*block))
            // Fewest valid pages: they must have room in the block opened last.
            .ok_or(FtlError::NoFreeBlock)?;
        self.reopen(last, copy_stream, self.valid.count(victim));
        self.take(victim);
        Ok(Some(victim))
    }

    /// Goes on in a block that a power cut left partly filled. If there is room, one page is passed
    /// over: its program may have begun without leaving a trace.
    fn reopen(&mut self, block: u32, stream: usize, pages_needed: u32) {
        // Its pages are known to be copies of the victim; the sealed rest may be used again.
        self.flash.unseal(block);
        let pages = self.flash.pages_per_block();
        let next = self.flash.next_page(block);
        // Whole array pages are passed over and needed: parts of one are programmed together.
        let together = self.flash.pages_per_program();
        let pages_needed = pages_needed.next_multiple_of(together);
        let page = if next + together + pages_needed <= pages { next + together } else { next };
        if page < pages {
            self.open[stream] = Some(VirtualPage::new(block, page));
        } else {
            self.close(block);
        }
    }

    /// Valid pages, ages and open blocks, to be compared.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> impl std::fmt::Debug {
        (self.valid.clone(), self.ages.clone(), self.open)
    }

    /// Moves the next page of a stream behind the log's back.
    #[cfg(test)]
    pub(crate) fn break_open(&mut self, stream: usize, at: VirtualPage) {
        self.open[stream] = Some(at);
    }

    /// Checks valid pages, open blocks and closed ones, in debug builds: of all pages of the chip
    /// `mapped` are valid, and the rest is stale or erased.
    pub(crate) fn audit(&self, mapped: usize) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.valid.audit();
        let blocks = 0..self.flash.geometry().blocks;
        let valid: usize = blocks.clone().map(|block| self.valid.count(block) as usize).sum();
        assert_eq!(valid, mapped, "as many pages are valid as the map has");
        let free = self.flash.free_list();
        assert!(
            free.iter().all(|block| self.valid.count(*block) == 0),
            "no page of a free block is valid"
        );
        for block in blocks.clone() {
            let page = |page| VirtualPage::new(block, page);
            let written = (0..self.flash.pages_per_block())
                .filter(|number| self.flash.is_programmed(page(*number)))
                .count();
            assert!(
                self.valid.count(block) as usize <= written,
                "block {block} has more valid pages than written ones"
            );
        }
        for at in self.open.iter().flatten() {
            assert!(!self.valid.is_closed(at.block), "open block {} is closed", at.block);
            assert!(!free.contains(&at.block), "open block {} is free", at.block);
            assert!(!self.flash.is_programmed(*at), "the next page {at:?} is written");
        }
        assert!(
            self.ages.iter().all(|block| self.valid.is_closed(block)),
            "the list of ages holds closed blocks alone"
        );
        let closed = blocks.filter(|block| self.valid.is_closed(*block)).count();
        assert_eq!(closed, self.ages.iter().count(), "every closed block has an age");
    }

    fn close(&mut self, block: u32) {
        self.ages.push(block, self.flash.sequence());
        self.valid.close(block);
    }
}

/// Sequence number and block of a copy.
type PageCopy = (u64, u32);

/// The block opened last, if every page in it has its original in one other block, and no block is
/// stale as a whole.
fn copies_to_take_back(scan: &Scan) -> Option<u32> {
    // By kind and number of page: the newest copy and the one before it.
    let mut newest: BTreeMap<(bool, u32), [Option<PageCopy>; 2]> = BTreeMap::new();
    let key = |tag: Tag| (tag.role() == Role::Translation, tag.lpn());
    for (found, block) in scan.blocks.iter().zip(0..) {
        for (_, tag) in found.tags() {
            let [first, second] = newest.entry(key(tag)).or_default();
            let copy = Some((tag.sequence(), block));
            if copy > *first {
                *second = std::mem::replace(first, copy);
            } else {
                *second = copy.max(*second);
            }
        }
    }
    let is_stale = |found: &BlockScan, block: u32| {
        !found.is_empty()
            && !found.tags().any(|(_, tag)| newest[&key(tag)][0] == Some((tag.sequence(), block)))
    };
    // A stale block would be free after an erase, and then nothing needs to be taken back.
    if scan.blocks.iter().zip(0..).any(|(found, block)| is_stale(found, block)) {
        return None;
    }
    let last = (0_u32..).zip(&scan.blocks).max_by_key(|(_, found)| found.oldest_sequence())?;
    let mut originals = last.1.tags().map(|(_, tag)| newest[&key(tag)][1].map(|(_, block)| block));
    let first = originals.next().flatten()?;
    // All originals in one block: the mark of a cleaning that was cut short.
    originals.all(|original| original == Some(first)).then_some(last.0)
}

/// Newest copies of data pages after a scan.
pub(crate) fn newest_pages(scan: &Scan, logical_pages: u32) -> Locations {
    let mut locations = Locations::new(logical_pages);
    locations.rebuild(scan);
    locations
}
