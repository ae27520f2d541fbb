//! Groups of logical pages, each mapped page by page within blocks of its own.
//!
//! What layers with such groups have in common: appending, cleaning within a group, and the rebuild. A group
//! has room for its own pages and for some blocks more. When these are used up the block with the fewest valid
//! pages is cleaned: its valid pages are copied and it is erased.

use crate::recovery::Scan;
use crate::{BlockScan, Flash, FtlError, Locations, VirtualPage};
use nand::Role;
use std::ops::Range;

/// Role of the pages of a combination before its last; see [`PageGroups::combine`]. All other pages are data.
const UNFINISHED: Role = Role::Log;

/// Blocks that the groups need beside their own: one takes the copies of a cleaning before its victim is erased.
/// Another one lets a rebuild combine what a cut left of a cleaning.
pub(crate) const SPARE_BLOCKS: u32 = 2;

/// A group of logical pages and its blocks.
#[derive(Clone)]
struct Group {
    lpns: Range<u32>,
    /// Blocks that it may have.
    blocks_max: usize,
    /// In the order in which they were opened.
    blocks: Vec<u32>,
    /// The one that takes the host's pages, if it has room.
    update: Option<u32>,
    /// The one that takes the copies of cleaning, if it has room.
    copies: Option<u32>,
}

/// Groups of logical pages, and the blocks of the chip that they lie in.
#[derive(Clone)]
pub(crate) struct PageGroups {
    pub(crate) flash: Flash,
    pub(crate) locations: Locations,
    groups: Vec<Group>,
    /// Valid pages by block.
    valid: Vec<u32>,
    separates: bool,
}

impl PageGroups {
    /// Groups with these logical pages, in order, each with so many blocks beyond those that its pages fill.
    ///
    /// With `separates`, copies of cleaning are kept apart from new pages where there is room for both.
    pub(crate) fn new(
        flash: Flash,
        logical_pages: u32,
        groups: impl Iterator<Item = Range<u32>>,
        update_blocks: u32,
        separates: bool,
    ) -> Self {
        debug_assert!(
            update_blocks > 0,
            "without a block beyond its own, cleaning a full group wins nothing"
        );
        let pages = flash.pages_per_block() as usize;
        let group = |lpns: Range<u32>| Group {
            blocks_max: lpns.len().div_ceil(pages) + update_blocks as usize,
            lpns,
            blocks: Vec::new(),
            update: None,
            copies: None,
        };
        Self {
            locations: Locations::new(logical_pages),
            groups: groups.map(group).collect(),
            valid: vec![0; flash.geometry().blocks as usize],
            separates,
            flash,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The group of a logical page; none if it is in no group.
    pub(crate) fn group_of(&self, lpn: u32) -> Option<usize> {
        let index = self.groups.partition_point(|group| group.lpns.end <= lpn);
        self.groups.get(index).filter(|group| group.lpns.contains(&lpn)).map(|_| index)
    }

    /// The logical pages of a group.
    pub(crate) fn lpns(&self, index: usize) -> Range<u32> {
        self.groups[index].lpns.clone()
    }

    /// Blocks that a group may have.
    pub(crate) fn blocks_max(&self, index: usize) -> usize {
        self.groups[index].blocks_max
    }

    fn has_all_blocks(&self, index: usize) -> bool {
        self.groups[index].blocks.len() >= self.groups[index].blocks_max
    }

    /// Appends a page to its group, after cleaning if need be; `before_copy` is called with every page that
    /// cleaning copies.
    pub(crate) fn write(
        &mut self,
        index: usize,
        lpn: u32,
        data: Option<&[u8]>,
        before_copy: &mut impl FnMut(&mut Self, u32) -> Result<(), FtlError>,
    ) -> Result<(), FtlError> {
        debug_assert!(self.groups[index].lpns.contains(&lpn), "a page is written in its group");
        let at = self.place(index, before_copy)?;
        self.flash.program(at, lpn, Role::Data, data)?;
        self.note(lpn, Some(at));
        Ok(())
    }

    /// Forgets a page; gives the blocks of its group back with the last one.
    pub(crate) fn trim(&mut self, index: usize, lpn: u32) -> Result<(), FtlError> {
        self.note(lpn, None);
        let blocks = self.groups[index].blocks.clone();
        if blocks.iter().any(|block| self.valid[*block as usize] > 0) {
            return Ok(());
        }
        // The block opened first goes first: copies in the others are newer, so a cut brings back the newest.
        blocks.into_iter().try_for_each(|block| self.release(index, block))
    }

    /// The newest copy of a page is at `at` from now on, or nowhere.
    fn note(&mut self, lpn: u32, at: Option<VirtualPage>) {
        if let Some(old) = self.locations.get(lpn) {
            debug_assert!(self.valid[old.block as usize] > 0, "a page becomes stale once");
            self.valid[old.block as usize] -= 1;
        }
        match at {
            Some(at) => {
                self.locations.set(lpn, at);
                self.valid[at.block as usize] += 1;
            }
            None => self.locations.clear(lpn),
        }
    }

    /// The next page of a block, if it has room.
    fn room_in(&self, block: Option<u32>) -> Option<VirtualPage> {
        let at = block.map(|block| VirtualPage::new(block, self.flash.next_page(block)));
        at.filter(|at| at.page < self.flash.pages_per_block())
    }

    /// Takes a fresh block for a group.
    fn open(&mut self, index: usize) -> Result<u32, FtlError> {
        let block = self.flash.allocate()?;
        debug_assert_eq!(self.valid[block as usize], 0, "no page of a free block is valid");
        self.groups[index].blocks.push(block);
        Ok(block)
    }

    /// Where the group's next page of the host goes, after cleaning if need be.
    fn place(
        &mut self,
        index: usize,
        before_copy: &mut impl FnMut(&mut Self, u32) -> Result<(), FtlError>,
    ) -> Result<VirtualPage, FtlError> {
        if let Some(at) = self.room_in(self.groups[index].update) {
            return Ok(at);
        }
        self.groups[index].update = None;
        // Cleaning changes neither the number of valid pages nor, in the end, that of blocks. So it wins a
        // block for the host's pages alone if so many pages are not valid; with twice as many it
        // does so long before every block is cleaned.
        let pages = self.flash.pages_per_block();
        let separates = self.separates && self.not_valid(index) >= 2 * pages as usize;
        while self.has_all_blocks(index) {
            self.clean(index, before_copy)?;
            if !separates && self.has_all_blocks(index) {
                self.groups[index].update = self.groups[index].copies.take();
                let at = self.room_in(self.groups[index].update);
                debug_assert!(at.is_some(), "a victim has fewer valid pages than a block");
                return at.ok_or(FtlError::NoFreeBlock);
            }
        }
        let block = self.open(index)?;
        self.groups[index].update = Some(block);
        Ok(VirtualPage::new(block, 0))
    }

    /// Pages of a group's blocks that are stale or erased.
    fn not_valid(&self, index: usize) -> usize {
        let blocks = &self.groups[index].blocks;
        let valid: u32 = blocks.iter().map(|block| self.valid[*block as usize]).sum();
        blocks.len() * self.flash.pages_per_block() as usize - valid as usize
    }

    /// The block with the fewest valid pages, the one opened first of equals.
    fn victim(&self, index: usize) -> Option<u32> {
        let group = &self.groups[index];
        let copies = self.room_in(group.copies).map(|at| at.block);
        // The block that takes the copies cannot be copied into itself, but may be erased.
        let may_be = |block: &u32| Some(*block) != copies || self.valid[*block as usize] == 0;
        let blocks = group.blocks.iter().copied().filter(may_be);
        blocks.min_by_key(|block| self.valid[*block as usize])
    }

    /// Copies the valid pages of one block and erases it.
    fn clean(
        &mut self,
        index: usize,
        before_copy: &mut impl FnMut(&mut Self, u32) -> Result<(), FtlError>,
    ) -> Result<(), FtlError> {
        let Some(victim) = self.victim(index) else { return Err(FtlError::NoFreeBlock) };
        // S + M blocks, M of them at least one, cannot be full of the valid pages of S logical blocks; and if
        // one of them takes copies it has a valid page. So every cleaning turns a stale page at least
        // into one that can be programmed, and nothing turns it back: cleaning ends.
        debug_assert!(
            self.valid[victim as usize] < self.flash.pages_per_block(),
            "cleaning frees a page at least"
        );
        for (lpn, from) in self.valid_pages(victim) {
            before_copy(self, lpn)?;
            let to = if let Some(to) = self.room_in(self.groups[index].copies) {
                to
            } else {
                let block = self.open(index)?;
                self.groups[index].copies = Some(block);
                VirtualPage::new(block, 0)
            };
            self.flash.copy(from, to, lpn, Role::Data)?;
            // After each page: a cut in the middle leaves a map that agrees with the chip.
            self.note(lpn, Some(to));
        }
        self.flash.merges.cleaned += 1;
        self.release(index, victim)
    }

    /// Erases a block without a valid page.
    fn release(&mut self, index: usize, block: u32) -> Result<(), FtlError> {
        debug_assert_eq!(self.valid[block as usize], 0, "a block is erased after its pages moved");
        let group = &mut self.groups[index];
        group.blocks.retain(|other| *other != block);
        group.update = group.update.filter(|other| *other != block);
        group.copies = group.copies.filter(|other| *other != block);
        self.flash.release(block)
    }

    /// Logical pages whose newest copy is in a block, with its place, in the order of the block.
    fn valid_pages(&self, block: u32) -> Vec<(u32, VirtualPage)> {
        let places = (0..).map(|page| VirtualPage::new(block, page));
        let pages = self.flash.peek_lpns(block).zip(places);
        pages.filter(|(lpn, at)| self.locations.is_newest(*lpn, *at)).collect()
    }

    /// Copies the valid pages of two blocks into one, after a cut has left a group a block too many.
    ///
    /// That happens while a block is cleaned: it and the block that was opened for its copies hold no more
    /// valid pages than it has room for, whatever trims the cut undid. So do the two with the fewest.
    /// All pages but the last have another role, by which a rebuild knows a combination that was cut; its
    /// originals are all in place then.
    fn combine(&mut self, index: usize) -> Result<(), FtlError> {
        let mut fewest = self.groups[index].blocks.clone();
        fewest.sort_by_key(|block| self.valid[*block as usize]);
        fewest.truncate(2);
        let pages: Vec<_> = fewest.iter().flat_map(|block| self.valid_pages(*block)).collect();
        debug_assert!(
            pages.len() <= self.flash.pages_per_block() as usize,
            "the victim of a cleaning and its copies fit into a block"
        );
        let target = self.flash.allocate()?;
        for (number, (lpn, from)) in (0..).zip(&pages) {
            let role = if number + 1 == pages.len() { Role::Data } else { UNFINISHED };
            let to = VirtualPage::new(target, number as u32);
            if let Err(error) = self.flash.copy(*from, to, *lpn, role) {
                self.flash.release(target)?;
                return Err(error);
            }
        }
        // The map changes at once, after the last page: a target without it does not exist.
        for (page, (lpn, _)) in (0..).zip(&pages) {
            self.note(*lpn, Some(VirtualPage::new(target, page)));
        }
        self.groups[index].blocks.push(target);
        self.groups[index].update = Some(target);
        fewest.into_iter().try_for_each(|block| self.release(index, block))
    }

    /// Erases what a cut left of a combination; before the locations are built, or its copies would count as the newest.
    pub(crate) fn drop_unfinished(&mut self, scan: &mut Scan) -> Result<(), FtlError> {
        for (found, block) in scan.blocks.iter_mut().zip(0..) {
            let is_of_group = found.tags().any(|(_, tag)| self.group_of(tag.lpn()).is_some());
            if is_of_group && found.tags().all(|(_, tag)| tag.role() == UNFINISHED) {
                self.flash.release(block)?;
                *found = BlockScan::default();
            }
        }
        Ok(())
    }

    /// Takes the blocks of all groups from a scan, whose newest pages the locations have.
    pub(crate) fn rebuild(&mut self, scan: &Scan) -> Result<(), FtlError> {
        self.valid.fill(0);
        for group in &mut self.groups {
            (group.update, group.copies) = (None, None);
            group.blocks.clear();
        }
        for (found, block) in scan.blocks.iter().zip(0..) {
            let Some((_, tag)) = found.tags().next() else {
                // Pages that cannot be read are of nobody, and the block is free for the price of an erase.
                if !found.is_empty() {
                    self.flash.release(block)?;
                }
                continue;
            };
            let Some(index) = self.group_of(tag.lpn()) else { continue };
            let valid = self.valid_pages(block).len() as u32;
            if valid == 0 {
                self.flash.release(block)?;
                continue;
            }
            self.groups[index].blocks.push(block);
            self.valid[block as usize] = valid;
        }
        for index in 0..self.groups.len() {
            let age = |block: &u32| scan.blocks[*block as usize].oldest_sequence();
            self.groups[index].blocks.sort_by_key(age);
            while self.groups[index].blocks.len() > self.groups[index].blocks_max {
                self.combine(index)?;
            }
        }
        Ok(())
    }

    /// Group, block, valid pages and what it is open for, as rows of a table.
    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let row = |(index, block): (usize, &u32)| {
            let group = &self.groups[index];
            let is_open =
                |open: Option<u32>| self.room_in(open).is_some_and(|at| at.block == *block);
            let kind = match (is_open(group.update), is_open(group.copies)) {
                (true, _) => "update",
                (_, true) => "copies",
                _ => "",
            };
            let valid = self.valid[*block as usize].to_string();
            vec![index.to_string(), block.to_string(), valid, kind.to_owned()]
        };
        let groups = self.groups.iter().enumerate();
        let blocks =
            groups.flat_map(|(index, group)| group.blocks.iter().map(move |block| (index, block)));
        blocks.map(row).collect()
    }

    /// Checks the counts of valid pages and the lists of blocks, in debug builds.
    pub(crate) fn audit(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut owner = vec![None; self.valid.len()];
        for (index, group) in self.groups.iter().enumerate() {
            assert!(group.blocks.len() <= group.blocks_max, "group {index} has too many blocks");
            for block in &group.blocks {
                let other = owner[*block as usize].replace(index);
                assert_eq!(other, None, "block {block} has two owners");
            }
        }
        let mut valid = vec![0; self.valid.len()];
        for (index, group) in self.groups.iter().enumerate() {
            for lpn in group.lpns.clone() {
                let Some(at) = self.locations.get(lpn) else { continue };
                valid[at.block as usize] += 1;
                let found = owner[at.block as usize];
                assert_eq!(found, Some(index), "page {lpn} lies in a block of its group");
            }
        }
        assert_eq!(valid, self.valid, "valid pages are counted");
    }
}

/// The methods of [`crate::Ftl`] that every layer with a field `pages` of page groups writes alike.
macro_rules! grouped_accessors {
    () => {
        fn flash(&self) -> &Flash {
            &self.pages.flash
        }

        fn flash_mut(&mut self) -> &mut Flash {
            &mut self.pages.flash
        }

        fn into_chip(self: Box<Self>) -> Chip {
            self.pages.flash.into_chip()
        }

        fn clone_box(&self) -> Box<dyn Ftl> {
            Box::new(self.clone())
        }
    };
}
pub(crate) use grouped_accessors;

#[cfg(test)]
mod tests {
    use super::{PageGroups, SPARE_BLOCKS};
    use crate::tests::panics_with;
    use crate::{Flash, FtlError, Settings};
    use nand::{Chip, FaultSettings, Storage, find_part};
    use std::collections::BTreeMap;

    const PAGES: u32 = 4;
    const LOGICAL_PAGES: u32 = 7 * PAGES + 2;

    /// Two groups of three logical blocks and the half of a third one, all pages written.
    fn groups(update_blocks: u32) -> PageGroups {
        let settings = Settings::new(&[], &BTreeMap::new()).expect("defaults");
        let mut part = find_part("published-small-block").expect("in the catalogue");
        part.geometry.pages_per_block = PAGES;
        part.geometry.blocks = 8 + 3 * update_blocks + SPARE_BLOCKS;
        let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
        let flash = Flash::new(chip, &settings);
        let lpns = [0..3 * PAGES, 3 * PAGES..6 * PAGES, 6 * PAGES..LOGICAL_PAGES];
        let mut groups =
            PageGroups::new(flash, LOGICAL_PAGES, lpns.into_iter(), update_blocks, true);
        (0..LOGICAL_PAGES).for_each(|lpn| write(&mut groups, lpn));
        groups.audit();
        groups
    }

    fn write(groups: &mut PageGroups, lpn: u32) {
        let index = groups.group_of(lpn).expect("every page is in a group");
        let mut nothing = |_: &mut PageGroups, _| -> Result<(), FtlError> { Ok(()) };
        groups.write(index, lpn, None, &mut nothing).expect("a healthy chip");
    }

    #[test]
    fn pages_find_their_group() {
        let groups = groups(2);
        let found = [0, 11, 12, 23, 24, 29, 30].map(|lpn| groups.group_of(lpn));
        assert_eq!(found, [Some(0), Some(0), Some(1), Some(1), Some(2), Some(2), None]);
        assert_eq!([0, 1, 2].map(|index| groups.blocks_max(index)), [5, 5, 4]);
    }

    #[test]
    fn every_broken_rule_is_seen() {
        type Break = fn(&mut PageGroups);
        let broken: [(&str, Break); 9] = [
            ("group 2 has too many blocks", |groups| groups.groups[2].blocks.extend(16..19)),
            ("has two owners", |groups| {
                let block = groups.groups[0].blocks[0];
                groups.groups[1].blocks[0] = block;
            }),
            ("page 0 lies in a block of its group", |groups| {
                groups.groups[0].blocks.remove(0);
            }),
            ("valid pages are counted", |groups| groups.valid[0] += 1),
            ("a page becomes stale once", |groups| {
                let at = groups.locations.get(0).expect("written");
                groups.valid[at.block as usize] = 0;
                groups.note(0, None);
            }),
            ("no page of a free block is valid", |groups| {
                let free = groups.flash.free_list()[0];
                groups.valid[free as usize] = 1;
                write(groups, 0);
            }),
            ("cleaning frees a page at least", |groups| {
                groups.groups[0].blocks_max = 3;
                write(groups, 0);
            }),
            ("a block is erased after its pages moved", |groups| {
                let block = groups.groups[0].blocks[0];
                groups.release(0, block).expect("a healthy chip");
            }),
            ("a page is written in its group", |groups| {
                let mut nothing = |_: &mut PageGroups, _| -> Result<(), FtlError> { Ok(()) };
                groups.write(1, 0, None, &mut nothing).expect("a healthy chip");
            }),
        ];
        for (message, break_it) in broken {
            let mut groups = groups(2);
            panics_with(message, || {
                break_it(&mut groups);
                groups.audit();
            });
        }
        panics_with("without a block beyond its own", || drop(groups(0)));
    }

    #[test]
    fn only_what_a_cleaning_leaves_is_combined() {
        let mut groups = groups(2);
        panics_with("the victim of a cleaning and its copies fit into a block", || {
            groups.combine(0).expect("a healthy chip");
        });
    }
}
