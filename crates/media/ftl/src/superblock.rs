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
use crate::page_groups::{PageGroups, SPARE_BLOCKS};
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Settings, VirtualPage};
use nand::Chip;
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
    blocks_required: &|geometry, logical_pages, settings| {
        let blocks = logical_pages.div_ceil(geometry.pages_per_block);
        let superblocks = blocks.div_ceil(settings.integer("data_blocks"));
        blocks + superblocks * settings.integer("update_blocks") + SPARE_BLOCKS
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| {
        Box::new(Superblock::new(flash, logical_pages, settings))
    },
};

/// Which page tables are in RAM, and what it costs to find the others.
#[derive(Clone)]
struct PageTables {
    cache: EntryCache,
    superblock_pages: u32,
    table_entries: u32,
}

impl PageTables {
    /// Looks a page up for the cost of it: a table that is not cached is read from the spare area of the
    /// page of its range that was programmed last, and so is the directory that leads to it.
    fn look_up(&mut self, pages: &mut PageGroups, lpn: u32) -> Result<(), FtlError> {
        let (superblock, offset) = (lpn / self.superblock_pages, lpn % self.superblock_pages);
        let tables = self.superblock_pages.div_ceil(self.table_entries);
        let table = superblock * tables + offset / self.table_entries;
        if self.cache.touch(table) {
            return Ok(());
        }
        let lpns = pages.lpns(superblock as usize);
        for mapped in [self.table_entries * self.table_entries, self.table_entries] {
            let first = lpns.start + offset / mapped * mapped;
            // Nothing was written of what it maps: it does not exist yet.
            if let Some(at) = last_programmed(pages, first..lpns.end.min(first + mapped)) {
                pages.flash.probe(at)?;
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
}

/// The page programmed last among the newest copies of `lpns`.
fn last_programmed(pages: &PageGroups, lpns: Range<u32>) -> Option<VirtualPage> {
    lpns.filter_map(|lpn| pages.locations.get(lpn))
        .max_by_key(|at| pages.flash.peek(*at).sequence())
}

#[derive(Clone)]
struct Superblock {
    pages: PageGroups,
    tables: PageTables,
}

impl Superblock {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let pages_per_block = flash.pages_per_block();
        // A superblock larger than the device is the device; the product then fits.
        let data_blocks = logical_pages.div_ceil(pages_per_block);
        let data_blocks = data_blocks.min(settings.integer("data_blocks"));
        let superblock_pages = data_blocks * pages_per_block;
        let superblocks = logical_pages.div_ceil(superblock_pages);
        let table_entries = settings.integer("table_entries");
        let tables = superblocks * superblock_pages.div_ceil(table_entries);
        let cached_tables = settings.integer("cached_tables");
        // The last one may have fewer pages than the others.
        let lpns = (0..superblocks).map(|index| index * superblock_pages);
        let lpns = lpns.map(|first| first..logical_pages.min(first + superblock_pages));
        let update_blocks = settings.integer("update_blocks");
        let separates = settings.switch("separation");
        Self {
            pages: PageGroups::new(flash, logical_pages, lpns, update_blocks, separates),
            tables: PageTables {
                cache: EntryCache::new(tables, cached_tables, false),
                superblock_pages,
                table_entries,
            },
        }
    }

    fn superblock_of(&self, lpn: u32) -> usize {
        (lpn / self.tables.superblock_pages) as usize
    }
}

impl Ftl for Superblock {
    fn logical_pages(&self) -> u32 {
        self.pages.locations.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        if self.pages.locations.get(lpn).is_some() {
            self.tables.look_up(&mut self.pages, lpn)?;
        }
        self.pages.locations.read(&mut self.pages.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.pages.flash.audit_is_due() {
            self.audit();
            self.pages.audit();
        }
        self.pages.locations.check(lpn)?;
        let index = self.superblock_of(lpn);
        let tables = &mut self.tables;
        // The table is written anew beside the page, so the old one must be known. So it is with copies.
        tables.look_up(&mut self.pages, lpn)?;
        self.pages.write(index, lpn, data, &mut |pages, lpn| tables.look_up(pages, lpn))
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.pages.locations.check(lpn)?;
        self.pages.trim(self.superblock_of(lpn), lpn)
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.pages.flash.scan()?;
        self.tables.cache.clear();
        self.pages.drop_unfinished(&mut scan)?;
        self.pages.locations.rebuild(&scan);
        self.pages.rebuild(&scan)
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.pages.locations.get(lpn)
    }

    /// For every block of a superblock its number, its valid pages as a count and a bit each; four bytes for the
    /// place of each directory; two bytes an entry of the cached page tables, since a superblock is smaller than the device.
    fn ram_bytes(&self) -> u64 {
        let block_bytes = 2 + 2 + u64::from(self.pages.flash.pages_per_block().div_ceil(8));
        let indexes = 0..self.pages.len();
        let blocks: u64 = indexes.clone().map(|index| self.pages.blocks_max(index) as u64).sum();
        let entries = self.tables.table_entries;
        let mapped = (entries * entries) as usize;
        let directories = indexes.map(|index| self.pages.lpns(index).len().div_ceil(mapped) as u64);
        let cached = u64::from(self.tables.cache.capacity()) * u64::from(entries);
        block_bytes * blocks + 4 * directories.sum::<u64>() + 2 * cached
    }

    fn tables(&self) -> Vec<Table> {
        let cached = self.tables.cache.entries().map(|table| vec![table.to_string()]);
        vec![
            Table {
                title: "superblocks",
                columns: vec!["superblock", "block", "valid pages", "open for"],
                rows: self.pages.rows(),
            },
            Table { title: "cached page tables", columns: vec!["table"], rows: cached.collect() },
        ]
    }

    crate::page_groups::grouped_accessors!();
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, Superblock};
    use crate::{Flash, Ftl, Settings, Value};
    use nand::random::Stream;
    use nand::{Chip, FaultSettings, Storage, find_part};
    use std::collections::BTreeMap;

    const PAGES: u32 = 4;

    /// Two superblocks of three logical blocks, and half of a third one.
    fn layer(update_blocks: i64, separation: bool) -> Superblock {
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
        Superblock::new(Flash::new(chip, &settings), logical_pages, &settings)
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
            layer.pages.audit();
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
}
