//! Superblock: page mapping within groups of adjacent logical blocks.
//!
//! S adjacent logical blocks form a *superblock*. Its pages lie anywhere in the S + M blocks that it may
//! have: the M *update* blocks are what it has beyond its data. Writes are appended to the block opened
//! last. When all S + M blocks are used up, the block with the fewest valid pages is cleaned: its valid
//! pages are copied and it is erased. The tables that say where a page lies are in the spare areas of the
//! superblock's own pages: every program writes the page table that it changes, and the directory of such
//! tables, beside the data. RAM holds a directory of directories, and a cache of page tables. A table that
//! is not cached costs a spare read for its directory and one for itself.
//!
//! Cold pages are kept apart: what cleaning copies goes to a block of its own, as long as the superblock
//! has two blocks' worth of pages that are not valid. With less than that, new pages follow the copies.
//!
//! When to expect what: the cost of random writes depends on how full a superblock is, and not on how many
//! logical blocks are written at a time, so the layer does not thrash like BAST and merges nothing. A large
//! S shares few update blocks among many logical blocks; writes to one superblock never use the room of another.
//!
//! Source: Kang, Jo, Kim, Lee, "A superblock-based flash translation layer for NAND flash memory", EMSOFT
//! 2006; Jung, Kang, Jo, Kim, Lee, "Superblock FTL", ACM TECS 9(4), 2010. Where our sources leave room:
//! every superblock has its M update blocks to itself; of blocks with equally few valid pages the one opened
//! first is cleaned; which pages of a block are valid is a bit a page in RAM; a page that is being
//! overwritten is copied with the others if it lies in the block to clean.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::entry_cache::EntryCache;
use crate::recovery::Scan;
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Locations, Settings, VirtualPage};
use nand::{Chip, Role};
use std::ops::Range;

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "superblock",
    summary: "Superblock: page mapping within groups of logical blocks, with the tables in spare areas",
    source: "Kang et al., EMSOFT 2006; Jung et al., ACM TECS 9(4), 2010",
    features: Features {
        mapping: "groups of blocks; pages within a group",
        first_write: "appended to a block of the group",
        overwrite: "appended to a block of the group",
        block_kinds: "data or update",
    },
    parameters: &[
        Parameter {
            name: "data_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "16",
            summary: "logical blocks of a superblock (S)",
        },
        Parameter {
            name: "update_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "2",
            summary: "blocks that a superblock may have beyond those of its data (M)",
        },
        Parameter {
            name: "separation",
            kind: Kind::Switch,
            default: "true",
            summary: "pages that cleaning copies go to a block of their own while there is room for one",
        },
        Parameter {
            name: "table_entries",
            kind: Kind::Integer { min: 1, max: 64 },
            default: "8",
            summary: "pages that a page table in a spare area maps, and tables in a directory",
        },
        Parameter {
            name: "cached_tables",
            kind: Kind::Integer { min: 0, max: 1_000_000 },
            default: "64",
            summary: "page tables cached in RAM, least recently used ones replaced",
        },
    ],
    blocks_required: |geometry, logical_pages, settings| {
        let blocks = logical_pages.div_ceil(geometry.pages_per_block);
        let superblocks = blocks.div_ceil(settings.integer("data_blocks"));
        // One takes the copies of a cleaning before its victim is erased. Another one lets a rebuild combine what
        // a cut left of a cleaning.
        blocks + superblocks * settings.integer("update_blocks") + 2
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: |flash, logical_pages, settings| {
        Box::new(SuperblockFtl::new(flash, logical_pages, settings))
    },
};

/// Role of the pages of a combination before its last; see [`SuperblockFtl::combine`]. All other pages are data.
const UNFINISHED: Role = Role::Log;

/// The blocks of one group of logical blocks.
#[derive(Clone, Default)]
struct Superblock {
    /// In the order in which they were opened.
    blocks: Vec<u32>,
    /// The one that takes the host's pages, if it has room.
    update: Option<u32>,
    /// The one that takes the copies of cleaning, if it has room.
    copies: Option<u32>,
}

#[derive(Clone)]
struct SuperblockFtl {
    flash: Flash,
    locations: Locations,
    superblocks: Vec<Superblock>,
    /// Valid pages by block.
    valid: Vec<u32>,
    /// Page tables in RAM.
    cache: EntryCache,
    data_blocks: u32,
    update_blocks: u32,
    separates: bool,
    table_entries: u32,
}

impl SuperblockFtl {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let data_blocks = settings.integer("data_blocks");
        // A superblock larger than the device is the device; the product then fits.
        let data_blocks = data_blocks.min(logical_pages.div_ceil(flash.pages_per_block()));
        let table_entries = settings.integer("table_entries");
        let superblock_pages = data_blocks * flash.pages_per_block();
        let superblocks = logical_pages.div_ceil(superblock_pages);
        let tables = superblocks * superblock_pages.div_ceil(table_entries);
        Self {
            locations: Locations::new(logical_pages),
            superblocks: vec![Superblock::default(); superblocks as usize],
            valid: vec![0; flash.geometry().blocks as usize],
            cache: EntryCache::new(tables, settings.integer("cached_tables"), false),
            data_blocks,
            update_blocks: settings.integer("update_blocks"),
            separates: settings.switch("separation"),
            table_entries,
            flash,
        }
    }

    fn superblock_pages(&self) -> u32 {
        self.data_blocks * self.flash.pages_per_block()
    }

    fn superblock_of(&self, lpn: u32) -> usize {
        (lpn / self.superblock_pages()) as usize
    }

    /// The logical pages of a superblock; the last one may have fewer than the others.
    fn lpns(&self, index: usize) -> Range<u32> {
        let first = index as u32 * self.superblock_pages();
        first..self.locations.logical_pages().min(first + self.superblock_pages())
    }

    /// Blocks that a superblock may have.
    fn blocks_max(&self, index: usize) -> usize {
        let data_blocks = self.lpns(index).len().div_ceil(self.flash.pages_per_block() as usize);
        data_blocks + self.update_blocks as usize
    }

    fn has_all_blocks(&self, index: usize) -> bool {
        self.superblocks[index].blocks.len() >= self.blocks_max(index)
    }

    /// Looks a page up for the cost of it: a table that is not cached is read from the spare area of the
    /// page of its range that was programmed last, and so is the directory that leads to it.
    fn look_up(&mut self, lpn: u32) -> Result<(), FtlError> {
        let lpns = self.lpns(self.superblock_of(lpn));
        let offset = lpn - lpns.start;
        let tables = self.superblock_pages().div_ceil(self.table_entries);
        let table = lpn / self.superblock_pages() * tables + offset / self.table_entries;
        if self.cache.touch(table) {
            return Ok(());
        }
        for mapped in [self.table_entries * self.table_entries, self.table_entries] {
            let first = lpns.start + offset / mapped * mapped;
            // Nothing was written of what it maps: it does not exist yet.
            if let Some(at) = self.last_programmed(first..lpns.end.min(first + mapped)) {
                self.flash.probe(at)?;
            }
        }
        if self.cache.capacity() > 0 {
            // Never dirty: every program writes the tables that it changes.
            if let Some(victim) = self.cache.victim() {
                self.cache.remove(victim);
            }
            self.cache.insert(table);
        }
        Ok(())
    }

    /// The page programmed last among the newest copies of `lpns`.
    fn last_programmed(&self, lpns: Range<u32>) -> Option<VirtualPage> {
        lpns.filter_map(|lpn| self.locations.get(lpn))
            .max_by_key(|at| self.flash.peek(*at).sequence())
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

    /// Takes a fresh block for a superblock.
    fn open(&mut self, index: usize) -> Result<u32, FtlError> {
        let block = self.flash.allocate()?;
        debug_assert_eq!(self.valid[block as usize], 0, "no page of a free block is valid");
        self.superblocks[index].blocks.push(block);
        Ok(block)
    }

    /// Where the superblock's next page of the host goes, after cleaning if need be.
    fn place(&mut self, index: usize) -> Result<VirtualPage, FtlError> {
        if let Some(at) = self.room_in(self.superblocks[index].update) {
            return Ok(at);
        }
        self.superblocks[index].update = None;
        // Cleaning changes neither the number of valid pages nor, in the end, that of blocks. So it wins a
        // block for the host's pages alone if so many pages are not valid; with twice as many it
        // does so long before every block is cleaned.
        let pages = self.flash.pages_per_block();
        let separates = self.separates && self.not_valid(index) >= 2 * pages as usize;
        while self.has_all_blocks(index) {
            self.clean(index)?;
            if !separates && self.has_all_blocks(index) {
                self.superblocks[index].update = self.superblocks[index].copies.take();
                let at = self.room_in(self.superblocks[index].update);
                debug_assert!(at.is_some(), "a victim has fewer valid pages than a block");
                return at.ok_or(FtlError::NoFreeBlock);
            }
        }
        let block = self.open(index)?;
        self.superblocks[index].update = Some(block);
        Ok(VirtualPage::new(block, 0))
    }

    /// Pages of a superblock's blocks that are stale or erased.
    fn not_valid(&self, index: usize) -> usize {
        let blocks = &self.superblocks[index].blocks;
        let valid: u32 = blocks.iter().map(|block| self.valid[*block as usize]).sum();
        blocks.len() * self.flash.pages_per_block() as usize - valid as usize
    }

    /// The block with the fewest valid pages, the one opened first of equals.
    fn victim(&self, index: usize) -> Option<u32> {
        let superblock = &self.superblocks[index];
        let copies = self.room_in(superblock.copies).map(|at| at.block);
        let blocks = superblock.blocks.iter().copied();
        // The block that takes the copies cannot be copied into itself, but may be erased.
        let may_be = |block: &u32| Some(*block) != copies || self.valid[*block as usize] == 0;
        blocks.filter(may_be).min_by_key(|block| self.valid[*block as usize])
    }

    /// Copies the valid pages of one block and erases it.
    fn clean(&mut self, index: usize) -> Result<(), FtlError> {
        let Some(victim) = self.victim(index) else { return Err(FtlError::NoFreeBlock) };
        // S + M blocks, M of them at least one, cannot be full of the valid pages of S logical blocks; and if
        // one of them takes copies it has a valid page. So every cleaning turns a stale page at least
        // into one that can be programmed, and nothing turns it back: cleaning ends.
        debug_assert!(
            self.valid[victim as usize] < self.flash.pages_per_block(),
            "cleaning frees a page at least"
        );
        for (lpn, from) in self.valid_pages(victim) {
            self.look_up(lpn)?;
            let to = if let Some(to) = self.room_in(self.superblocks[index].copies) {
                to
            } else {
                let block = self.open(index)?;
                self.superblocks[index].copies = Some(block);
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
        let superblock = &mut self.superblocks[index];
        superblock.blocks.retain(|other| *other != block);
        superblock.update = superblock.update.filter(|other| *other != block);
        superblock.copies = superblock.copies.filter(|other| *other != block);
        self.flash.release(block)
    }

    /// Logical pages whose newest copy is in a block, with its place, in the order of the block.
    fn valid_pages(&self, block: u32) -> Vec<(u32, VirtualPage)> {
        let places = (0..).map(|page| VirtualPage::new(block, page));
        let pages = self.flash.peek_lpns(block).zip(places);
        pages.filter(|(lpn, at)| self.locations.is_newest(*lpn, *at)).collect()
    }

    /// Copies the valid pages of two blocks into one, after a cut has left a superblock a block too many.
    ///
    /// That happens while a block is cleaned: it and the block that was opened for its copies hold no more
    /// valid pages than it has room for, whatever trims the cut undid. So do the two with the fewest.
    /// All pages but the last have another role, by which a rebuild knows a combination that was cut; its
    /// originals are all in place then.
    fn combine(&mut self, index: usize) -> Result<(), FtlError> {
        let mut fewest = self.superblocks[index].blocks.clone();
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
        self.superblocks[index].blocks.push(target);
        self.superblocks[index].update = Some(target);
        fewest.into_iter().try_for_each(|block| self.release(index, block))
    }

    /// Erases what a cut left of a combination.
    fn drop_unfinished(&mut self, scan: &mut Scan) -> Result<(), FtlError> {
        for (found, block) in scan.blocks.iter_mut().zip(0..) {
            if found.has_role(UNFINISHED) && found.tags().all(|(_, tag)| tag.role() == UNFINISHED) {
                self.flash.release(block)?;
                *found = crate::BlockScan::default();
            }
        }
        Ok(())
    }

    /// Checks the counts of valid pages and the lists of blocks, in debug builds.
    fn audit_superblocks(&self) {
        let mut owner = vec![None; self.valid.len()];
        for (index, superblock) in self.superblocks.iter().enumerate() {
            assert!(
                superblock.blocks.len() <= self.blocks_max(index),
                "superblock {index} has too many blocks"
            );
            for block in &superblock.blocks {
                assert_eq!(
                    owner[*block as usize].replace(index),
                    None,
                    "block {block} has two owners"
                );
            }
        }
        let mut valid = vec![0; self.valid.len()];
        for lpn in 0..self.locations.logical_pages() {
            let Some(at) = self.locations.get(lpn) else { continue };
            valid[at.block as usize] += 1;
            assert_eq!(
                owner[at.block as usize],
                Some(self.superblock_of(lpn)),
                "page {lpn} lies in a block of its superblock"
            );
        }
        assert_eq!(valid, self.valid, "valid pages are counted");
    }
}

impl Ftl for SuperblockFtl {
    fn logical_pages(&self) -> u32 {
        self.locations.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        if self.locations.get(lpn).is_some() {
            self.look_up(lpn)?;
        }
        self.locations.read(&mut self.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.flash.audit_is_due() {
            self.audit();
            self.audit_superblocks();
        }
        self.locations.check(lpn)?;
        // The table is written anew beside the page, so the old one must be known.
        self.look_up(lpn)?;
        let at = self.place(self.superblock_of(lpn))?;
        self.flash.program(at, lpn, Role::Data, data)?;
        self.note(lpn, Some(at));
        Ok(())
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.locations.check(lpn)?;
        self.note(lpn, None);
        let index = self.superblock_of(lpn);
        let blocks = self.superblocks[index].blocks.clone();
        if blocks.iter().any(|block| self.valid[*block as usize] > 0) {
            return Ok(());
        }
        // The block opened first goes first: copies in the others are newer, so a cut brings back the newest.
        blocks.into_iter().try_for_each(|block| self.release(index, block))
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.flash.scan()?;
        self.cache.clear();
        self.superblocks.fill(Superblock::default());
        self.valid.fill(0);
        // Before the locations are built, or copies of an unfinished combination would count as the newest.
        self.drop_unfinished(&mut scan)?;
        self.locations.rebuild(&scan);
        let age = |block: &u32| scan.blocks[*block as usize].oldest_sequence();
        for block in 0..self.flash.geometry().blocks {
            let valid = self.valid_pages(block);
            match valid.first() {
                Some((lpn, _)) => {
                    let index = self.superblock_of(*lpn);
                    self.superblocks[index].blocks.push(block);
                    self.valid[block as usize] = valid.len() as u32;
                }
                None if scan.blocks[block as usize].is_empty() => {}
                None => self.flash.release(block)?,
            }
        }
        for superblock in &mut self.superblocks {
            superblock.blocks.sort_by_key(age);
        }
        for index in 0..self.superblocks.len() {
            while self.superblocks[index].blocks.len() > self.blocks_max(index) {
                self.combine(index)?;
            }
        }
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.locations.get(lpn)
    }

    /// For every block of a superblock its number, its valid pages as a count and a bit each; four bytes for the
    /// place of each directory; two bytes an entry of the cached page tables, since a superblock is smaller than the device.
    fn ram_bytes(&self) -> u64 {
        let block_bytes = 2 + 2 + u64::from(self.flash.pages_per_block().div_ceil(8));
        let indexes = 0..self.superblocks.len();
        let blocks: u64 = indexes.clone().map(|index| self.blocks_max(index) as u64).sum();
        let mapped = (self.table_entries * self.table_entries) as usize;
        let directories: usize = indexes.map(|index| self.lpns(index).len().div_ceil(mapped)).sum();
        let cached = u64::from(self.cache.capacity()) * u64::from(self.table_entries);
        block_bytes * blocks + 4 * directories as u64 + 2 * cached
    }

    fn tables(&self) -> Vec<Table> {
        let blocks = self.superblocks.iter().enumerate().flat_map(|(index, superblock)| {
            superblock.blocks.iter().map(move |block| {
                let kind = match Some(*block) {
                    block if self.room_in(superblock.update).map(|at| at.block) == block => {
                        "update"
                    }
                    block if self.room_in(superblock.copies).map(|at| at.block) == block => {
                        "copies"
                    }
                    _ => "",
                };
                let valid = self.valid[*block as usize].to_string();
                vec![index.to_string(), block.to_string(), valid, kind.to_owned()]
            })
        });
        let cached = self.cache.entries().map(|table| vec![table.to_string()]);
        vec![
            Table {
                title: "superblocks",
                columns: vec!["superblock", "block", "valid pages", "open for"],
                rows: blocks.collect(),
            },
            Table { title: "cached page tables", columns: vec!["table"], rows: cached.collect() },
        ]
    }

    crate::contract::flash_accessors!();
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, SuperblockFtl};
    use crate::tests::panics_with;
    use crate::{Flash, Ftl, Settings, Value};
    use nand::random::Stream;
    use nand::{Chip, FaultSettings, Storage, find_part};
    use std::collections::BTreeMap;

    const PAGES: u32 = 4;

    /// Two superblocks of three logical blocks, and half of a third one.
    fn layer(update_blocks: i64, separation: bool) -> SuperblockFtl {
        let given = BTreeMap::from([
            ("data_blocks".to_owned(), Value::Integer(3)),
            ("update_blocks".to_owned(), Value::Integer(update_blocks)),
            ("separation".to_owned(), Value::Switch(separation)),
        ]);
        let settings = Settings::new(ENTRY.parameters, &given).expect("known settings");
        let mut part = find_part("published-small-block").expect("in the catalogue");
        part.geometry.pages_per_block = PAGES;
        let logical_pages = 7 * PAGES + 2;
        part.geometry.blocks = (ENTRY.blocks_required)(&part.geometry, logical_pages, &settings);
        let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
        SuperblockFtl::new(Flash::new(chip, &settings), logical_pages, &settings)
    }

    /// All logical pages are written, and again at random: cleaning has no more room than M blocks give it.
    /// It copies at most all valid pages of a superblock for one page, and as many blocks are free as before.
    #[test]
    fn cleaning_ends_when_all_pages_are_written() {
        for (update_blocks, separation) in
            [(1, true), (1, false), (2, true), (2, false), (3, true), (5, true)]
        {
            let mut layer = layer(update_blocks, separation);
            layer.write_pages(0..layer.logical_pages()).expect("a healthy chip");
            let mut draw = Stream::new(1, "overwrites");
            let mut most = 0;
            for _ in 0..20_000 {
                let before = layer.flash().chip().counters().page_programs;
                layer.write(draw.below(layer.logical_pages()), None).expect("a healthy chip");
                most = most.max(layer.flash().chip().counters().page_programs - before);
                assert!(layer.flash().free_blocks() >= 2, "the blocks kept back are free");
            }
            layer.audit();
            layer.audit_superblocks();
            let valid = u64::from(3 * PAGES);
            // With one update block and one victim at a time there is one block less than full to copy.
            let bound = if separation { valid + 1 } else { u64::from(PAGES) };
            assert!(
                (3..=bound).contains(&most),
                "M = {update_blocks}, separation {separation}: {most} programs for one page"
            );
        }
    }

    /// A superblock uses no block of another: its cost does not depend on what else is written.
    #[test]
    fn superblocks_share_no_room() {
        let cost_of_first = |writes_others: bool| {
            let mut layer = layer(1, true);
            layer.write_pages(0..layer.logical_pages()).expect("a healthy chip");
            let (mut draw, mut others) = (Stream::new(2, "first"), Stream::new(2, "others"));
            let mut programs = 0;
            for _ in 0..500 {
                let before = layer.flash().chip().counters().page_programs;
                layer.write(draw.below(3 * PAGES), None).expect("a healthy chip");
                programs += layer.flash().chip().counters().page_programs - before;
                if writes_others {
                    let lpn = 3 * PAGES + others.below(layer.logical_pages() - 3 * PAGES);
                    layer.write(lpn, None).expect("a healthy chip");
                }
            }
            programs
        };
        assert_eq!(cost_of_first(false), cost_of_first(true));
        assert!(cost_of_first(false) > 500, "it is cleaned");
    }

    #[test]
    fn every_broken_table_is_seen() {
        type Break = fn(&mut SuperblockFtl);
        let broken: [(&str, Break); 8] = [
            ("superblock 2 has too many blocks", |layer| {
                layer.superblocks[2].blocks.extend(20..24);
            }),
            ("has two owners", |layer| {
                let block = layer.superblocks[0].blocks[0];
                layer.superblocks[1].blocks[0] = block;
            }),
            ("page 0 lies in a block of its superblock", |layer| {
                layer.superblocks[0].blocks.remove(0);
            }),
            ("valid pages are counted", |layer| layer.valid[0] += 1),
            ("a page becomes stale once", |layer| {
                let at = layer.locations.get(0).expect("written");
                layer.valid[at.block as usize] = 0;
                layer.note(0, None);
            }),
            ("no page of a free block is valid", |layer| {
                let free = layer.flash.free_list()[0];
                layer.valid[free as usize] = 1;
                (0..PAGES).for_each(|lpn| layer.write(lpn, None).expect("a healthy chip"));
            }),
            ("cleaning frees a page at least", |layer| {
                layer.update_blocks = 0;
                layer.write(0, None).expect("a healthy chip");
            }),
            ("a block is erased after its pages moved", |layer| {
                let block = layer.superblocks[0].blocks[0];
                layer.release(0, block).expect("a healthy chip");
            }),
        ];
        for (message, break_it) in broken {
            let mut layer = layer(2, true);
            layer.write_pages(0..layer.logical_pages()).expect("a healthy chip");
            layer.audit_superblocks();
            panics_with(message, || {
                break_it(&mut layer);
                layer.audit_superblocks();
            });
        }
    }

    #[test]
    fn only_what_a_cleaning_leaves_is_combined() {
        let mut layer = layer(2, true);
        layer.write_pages(0..layer.logical_pages()).expect("a healthy chip");
        panics_with("the victim of a cleaning and its copies fit into a block", || {
            layer.combine(0).expect("a healthy chip");
        });
    }
}
