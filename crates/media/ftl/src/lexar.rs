//! Lexar: moved blocks.
//!
//! A logical block has an original block and, once a page of it is overwritten, a moved block. Both
//! hold pages at their home offsets; one status bit a page says that it has moved. When a moved page
//! is to be written again, the two blocks are consolidated: into a *fresh* block together with the
//! new page (two erases), or by *filling* the moved block with the pages that have not moved, which
//! makes it the original (one erase). A moved block that holds all pages becomes the original at
//! once (*switch*).
//!
//! When to expect what: sequential overwrites cost one erase a block; a page written twice while its
//! neighbours rest costs a consolidation every other time (fresh) or every time (fill).
//!
//! Source: Estakhri, US patent 5,930,815 (1999), "Moving sequential sectors within a block". The
//! order of steps in a consolidation is our reading, hence both variants. The patent does not say
//! how many blocks may have moved at a time; `moved_blocks` bounds them, and the oldest is evicted.
//! The tables are in RAM and rebuilt from spare areas.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::merge::{Incoming, gather, rewrite};
use crate::recovery::{Found, Scan, discard, drop_unfinished, found_of, sort_blocks};
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Locations, Settings, VirtualPage};
use nand::{Chip, Role};
use std::collections::BTreeMap;

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "lexar",
    summary: "Lexar: original and moved block, pages always at their home offsets",
    source: "Estakhri, US patent 5,930,815, 1999",
    features: Features {
        mapping: "block; one moved bit a page",
        first_write: "in place",
        overwrite: "in place, in the moved block",
        block_kinds: "original, moved",
    },
    parameters: &[
        Parameter {
            name: "consolidation",
            kind: Kind::Choice(&["fresh", "fill"]),
            default: "fresh",
            summary: "a page moves twice: gather all pages in a fresh block, or fill the moved block",
        },
        Parameter {
            name: "switch",
            kind: Kind::Switch,
            default: "true",
            summary: "a moved block that holds all pages becomes the original without a copy",
        },
        Parameter {
            name: "moved_blocks",
            kind: Kind::Integer { min: 0, max: 1_000_000 },
            default: "0",
            summary: "moved blocks at a time; 0: as many as free blocks allow",
        },
        Parameter {
            name: "moved_eviction",
            kind: Kind::Choice(&["fill", "full"]),
            default: "fill",
            summary: "to make room the oldest moved block is filled, or gathered in a fresh block",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        // One moved block at least, and one free block for a consolidation.
        logical_pages.div_ceil(geometry.pages_per_block)
            + settings.integer("moved_blocks").max(1)
            + 1
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Lexar::new(flash, logical_pages, settings)),
};

/// Role of the pages of a consolidation into a fresh block before its last; see [`rewrite`].
const UNFINISHED: Role = Role::SequentialLog;

#[derive(Clone, Copy)]
struct Moved {
    block: u32,
    /// Sequence number when it was opened.
    since: u64,
}

#[derive(Clone)]
struct Lexar {
    flash: Flash,
    locations: Locations,
    /// Logical block to original block.
    original: Vec<Option<u32>>,
    /// Logical block to moved block. A page has moved if its slot there is used.
    moved: Vec<Option<Moved>>,
    /// Logical blocks that have a moved block, oldest first.
    by_age: BTreeMap<u64, LogicalBlock>,
    moved_blocks_max: usize,
    consolidates_by_filling: bool,
    evicts_by_filling: bool,
    switch: bool,
}

impl Lexar {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let logical_blocks = logical_pages.div_ceil(flash.pages_per_block()) as usize;
        Self {
            locations: Locations::new(logical_pages),
            original: vec![None; logical_blocks],
            moved: vec![None; logical_blocks],
            by_age: BTreeMap::new(),
            moved_blocks_max: match settings.integer("moved_blocks") {
                0 => usize::MAX,
                blocks => blocks as usize,
            },
            consolidates_by_filling: settings.word("consolidation") == "fill",
            evicts_by_filling: settings.word("moved_eviction") == "fill",
            switch: settings.switch("switch"),
            flash,
        }
    }

    fn program(
        &mut self,
        at: VirtualPage,
        lpn: u32,
        role: Role,
        data: Option<&[u8]>,
    ) -> Result<(), FtlError> {
        self.locations.program(&mut self.flash, at, lpn, role, data)
    }

    /// Takes a free block other than the last, which a consolidation may need.
    fn allocate(&mut self) -> Result<u32, FtlError> {
        // The last free block is kept, or no consolidation could begin.
        while self.flash.free_blocks() < 2 && !self.by_age.is_empty() {
            self.evict_oldest()?;
        }
        self.flash.allocate()
    }

    fn evict_oldest(&mut self) -> Result<(), FtlError> {
        let Some(oldest) = self.by_age.values().next().copied() else { return Ok(()) };
        self.consolidate(oldest, self.evicts_by_filling, None).map(drop)
    }

    fn open_moved(&mut self, logical_block: LogicalBlock) -> Result<u32, FtlError> {
        while self.by_age.len() >= self.moved_blocks_max {
            self.evict_oldest()?;
        }
        let block = self.allocate()?;
        // The sequence number serves as the age and is unique, because every program takes one.
        self.set_moved(logical_block, block, self.flash.sequence());
        Ok(block)
    }

    fn set_moved(&mut self, logical_block: LogicalBlock, block: u32, since: u64) {
        self.moved[logical_block.index()] = Some(Moved { block, since });
        self.by_age.insert(since, logical_block);
    }

    fn take_moved(&mut self, logical_block: LogicalBlock) -> Option<u32> {
        let moved = self.moved[logical_block.index()].take()?;
        self.by_age.remove(&moved.since);
        Some(moved.block)
    }

    /// Leaves a logical block without a moved block. True if the incoming page was written with it.
    fn consolidate(
        &mut self,
        logical_block: LogicalBlock,
        fills: bool,
        incoming: Option<Incoming>,
    ) -> Result<bool, FtlError> {
        let Some(Moved { block, .. }) = self.moved[logical_block.index()] else {
            return Ok(false);
        };
        let pages = self.flash.pages_per_block();
        let first = logical_block.first_lpn(pages);
        let stays_behind = |lpn: &u32| self.locations.get(*lpn).is_some_and(|at| at.block != block);
        let has_room = |lpn: u32| self.flash.is_programmable(VirtualPage::new(block, lpn - first));
        let behind = || (first..first + pages).filter(stays_behind);
        // Nothing stays behind: the moved block holds every page and can become the original as it
        // is.
        let complete = behind().next().is_none();
        // Filling is impossible after a power cut, or against the page order of the part.
        if !(complete && self.switch || fills && behind().all(has_room)) {
            self.rewrite(logical_block, incoming)?;
            return Ok(incoming.is_some());
        }
        // Upwards from offset 0: pages that are in the block already are passed over.
        gather(
            &mut self.flash,
            &mut self.locations,
            first..first + pages,
            VirtualPage::new(block, 0),
            None,
        )?;
        if complete {
            self.flash.merges.switch += 1;
        } else {
            self.flash.merges.partial += 1;
        }
        self.take_moved(logical_block);
        // After the copies: up to here a cut leaves the original whole.
        let old = self.original[logical_block.index()].replace(block);
        old.map_or(Ok(()), |old| self.flash.release(old))?;
        Ok(false)
    }

    /// Gathers a logical block in a fresh block and releases those it had.
    fn rewrite(
        &mut self,
        logical_block: LogicalBlock,
        incoming: Option<Incoming>,
    ) -> Result<(), FtlError> {
        let pages = self.flash.pages_per_block();
        let first = logical_block.first_lpn(pages);
        let target = rewrite(
            &mut self.flash,
            &mut self.locations,
            first..first + pages,
            UNFINISHED,
            incoming,
        )?;
        self.flash.merges.full += 1;
        let old = self.original[logical_block.index()].replace(target);
        self.release(old, logical_block)
    }

    /// Releases a former original block, then the moved block of the same logical block.
    fn release(
        &mut self,
        original: Option<u32>,
        logical_block: LogicalBlock,
    ) -> Result<(), FtlError> {
        // The original first: it holds only older copies, while the moved block may still hold the
        // newest.
        let moved = self.take_moved(logical_block);
        original.into_iter().chain(moved).try_for_each(|block| self.flash.release(block))
    }

    /// Takes over the blocks that a scan found of a logical block, oldest first.
    fn adopt(
        &mut self,
        logical_block: LogicalBlock,
        blocks: &[u32],
        scan: &Scan,
    ) -> Result<(), FtlError> {
        let original = &mut self.original[logical_block.index()];
        match found_of(blocks, scan, self.flash.pages_per_block()) {
            Found::Home(block) => *original = Some(block),
            Found::HomeAndLog(block, moved) => {
                *original = Some(block);
                let oldest = scan.blocks[moved as usize].oldest_sequence();
                self.set_moved(logical_block, moved, oldest.unwrap_or(0));
            }
            Found::Merged { older, target } => {
                *original = Some(target);
                discard(&mut self.flash, scan, &mut self.locations, older)?;
            }
            Found::Unfinished => {
                self.rewrite(logical_block, None)?;
                blocks.iter().try_for_each(|block| self.flash.release(*block))?;
            }
        }
        Ok(())
    }
}

impl Ftl for Lexar {
    fn logical_pages(&self) -> u32 {
        self.locations.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        self.locations.read(&mut self.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.flash.audit_is_due() {
            self.audit();
        }
        self.locations.check(lpn)?;
        let pages = self.flash.pages_per_block();
        let (logical_block, offset) = LogicalBlock::of(lpn, pages);
        let original = if let Some(block) = self.original[logical_block.index()] {
            block
        } else {
            let block = self.allocate()?;
            *self.original[logical_block.index()].insert(block)
        };
        let moved = self.moved[logical_block.index()];
        let (home, role) = moved.map_or((original, Role::Data), |moved| (moved.block, Role::Log));
        let at = VirtualPage::new(home, offset);
        if self.flash.is_programmable(at) {
            return self.program(at, lpn, role, data);
        }
        let incoming = Some(Incoming { lpn, data });
        // The incoming page is written with the fresh block; filling cannot take it, since its slot
        // is used.
        if moved.is_some()
            && self.consolidate(logical_block, self.consolidates_by_filling, incoming)?
        {
            return Ok(());
        }
        let block = self.open_moved(logical_block)?;
        self.program(VirtualPage::new(block, offset), lpn, Role::Log, data)
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.locations.check(lpn)?;
        let pages = self.flash.pages_per_block();
        let (logical_block, _) = LogicalBlock::of(lpn, pages);
        self.locations.clear(lpn);
        if !self.locations.all_clear(logical_block.lpns(pages)) {
            return Ok(());
        }
        let original = self.original[logical_block.index()].take();
        self.release(original, logical_block)
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.flash.scan()?;
        let pages = self.flash.pages_per_block();
        drop_unfinished(&mut self.flash, &mut scan, UNFINISHED, pages)?;
        self.locations.rebuild(&scan);
        self.original.fill(None);
        self.moved.fill(None);
        self.by_age.clear();
        for (logical_block, blocks) in sort_blocks(&mut self.flash, &scan, &self.locations, pages)?
        {
            self.adopt(logical_block, &blocks, &scan)?;
        }
        while self.by_age.len() > self.moved_blocks_max {
            self.evict_oldest()?;
        }
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.locations.get(lpn)
    }

    /// Two block numbers of two bytes a logical block, and one bit a page.
    fn ram_bytes(&self) -> u64 {
        let bit_bytes = u64::from(self.flash.pages_per_block().div_ceil(8));
        self.original.len() as u64 * (2 + 2 + bit_bytes)
    }

    fn tables(&self) -> Vec<Table> {
        let pages = self.flash.pages_per_block();
        let bits = |block: u32| -> String {
            let is_used = |page| self.flash.is_programmed(VirtualPage::new(block, page));
            (0..pages).map(|page| if is_used(page) { 'T' } else { 'F' }).collect()
        };
        let rows = self.original.iter().zip(&self.moved).zip(0_u32..).filter_map(
            |((original, moved), logical_block)| {
                let (block, status) = moved.map_or_else(Default::default, |moved| {
                    (moved.block.to_string(), bits(moved.block))
                });
                original.map(|original| {
                    vec![logical_block.to_string(), original.to_string(), block, status]
                })
            },
        );
        let columns = vec!["logical block", "original block", "moved block", "moved pages"];
        vec![Table { title: "block map", columns, rows: rows.collect() }]
    }

    crate::contract::flash_accessors!();
}
