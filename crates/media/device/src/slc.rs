//! The SLC cache of a die: blocks that keep one bit a cell, and take writes before the translation layer does.
//!
//! Pages of the host are programmed to it one behind the other, block by block. A page that is written again leaves a
//! stale copy behind. Folding takes the oldest block: its valid pages are read and written to the layer, then
//! the block is erased. A part of the blocks is static. Others are dynamic: they are taken from the blocks that the
//! layer has free, as long as it has more of them than it keeps for itself.
//!
//! After a power cut the newest copy that the blocks of the cache still hold is taken for the newest of all. So a page
//! with any copy left here, even a folded or a stale one, must be written here again. A full cache folds a
//! block for it. Numbers of the layer's tags could not tell which copy is newer: some layers copy pages that they have
//! forgotten.

use crate::rules::first_broken;
use ftl::{Ftl, FtlError};
use nand::{
    Chip, FaultSettings, Geometry, NandError, PageAddress, PageOrder, Part, Role, Storage, Tag,
};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What a write does that finds the SLC cache full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// It goes to the layer: throughput falls once, to that of the layer.
    #[default]
    Bypass,
    /// It waits until a block is folded: throughput is that of folding, in a saw-tooth.
    Fold,
}

/// The SLC cache of a flash device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SlcSpec {
    /// Blocks of each die, planes counted, that always keep one bit a cell; 0: no static cache. They hold no other
    /// data.
    pub blocks_per_die: u32,
    /// Blocks of each die, planes counted, that may do so while the layer has them free; 0: no dynamic cache.
    pub dynamic_blocks_per_die: u32,
    /// What a write does that finds it full.
    pub when_full: WhenFull,
    /// A die folds when nothing was asked of it for so long, nanoseconds; 0: never by itself.
    pub fold_idle_ns: u64,
    /// Array to page register.
    pub read_ns: u64,
    /// Page register to array.
    pub program_ns: u64,
    /// Erase of a block.
    pub erase_ns: u64,
}

impl SlcSpec {
    /// True if the device has such a cache.
    pub fn exists(&self) -> bool {
        self.blocks_per_die > 0 || self.dynamic_blocks_per_die > 0
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence that begins with the key.
    pub(crate) fn check(&self) -> Result<(), String> {
        let second_ns = 1_000_000_000;
        let rules = [
            (self.read_ns <= second_ns, "read_ns must be at most 1000000000 (1 s)"),
            (self.program_ns <= second_ns, "program_ns must be at most 1000000000 (1 s)"),
            (self.erase_ns <= 10 * second_ns, "erase_ns must be at most 10000000000 (10 s)"),
            (
                self.fold_idle_ns <= 3_600 * second_ns,
                "fold_idle_ns must be at most 3600000000000 (1 h)",
            ),
            (
                self.blocks_per_die <= 1 << 20 && self.dynamic_blocks_per_die <= 1 << 20,
                "blocks_per_die and dynamic_blocks_per_die must be at most 1048576",
            ),
        ];
        first_broken("slc", &rules)
    }

    /// Checks that a cache has its times, once all keys are set.
    ///
    /// # Errors
    /// A sentence that begins with the key.
    pub(crate) fn check_times(&self) -> Result<(), String> {
        let has_times = self.read_ns > 0 && self.program_ns > 0 && self.erase_ns > 0;
        let told = "read_ns, program_ns and erase_ns must be given: the part states none of one bit a cell";
        first_broken("slc", &[(!self.exists() || has_times, told)])
    }
}

/// What became of the pages that an SLC cache took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlcStatistics {
    /// Pages of the host that it took.
    pub written_pages: u64,
    /// Pages that were folded to the layer.
    pub folded_pages: u64,
    /// Pages that were written again or discarded before they were folded.
    pub stale_pages: u64,
}

/// Pages that are folded by one program of the layer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) lpns: Vec<u32>,
    /// Array reads that bring them to the controller.
    pub(crate) reads: u64,
}

/// The SLC cache of one die.
#[derive(Clone, Debug)]
pub(crate) struct Slc {
    pub(crate) chip: Chip,
    /// Where the newest copy of a page lies, of those that lie here.
    map: FxHashMap<u32, PageAddress>,
    /// Blocks with pages, the oldest first; the last one is written.
    used: VecDeque<u32>,
    free: Vec<u32>,
    /// The block with the newest copy of a page, of those that are not erased yet.
    remains: FxHashMap<u32, u32>,
    /// Number of the next program.
    sequence: u64,
    /// Free blocks whose last erase may have been interrupted.
    needs_erase: Vec<bool>,
    /// Valid pages of each block.
    valid: Vec<u32>,
    static_blocks: usize,
    /// Page of the oldest block from which on folding goes on.
    fold_from: u32,
    /// The block that was written is not written further, as after a power cut.
    is_sealed: bool,
    pub(crate) statistics: SlcStatistics,
}

/// The part that keeps one bit a cell in the blocks of `part`, all planes together.
fn slc_part(part: &Part, spec: &SlcSpec, blocks: u32) -> Part {
    let mut slc = part.clone();
    // Whole array pages: a block of three bits a cell has a third of them.
    let together = part.geometry.pages_per_program;
    let array_pages = part.geometry.pages_per_block / together / part.geometry.cell.bits();
    slc.geometry = Geometry {
        pages_per_block: array_pages.max(1) * together,
        blocks,
        cell: nand::Cell::Slc,
        page_order: PageOrder::Sequential,
        ..part.geometry.clone()
    };
    slc.timing.read_ns = vec![spec.read_ns];
    slc.timing.program_ns = vec![spec.program_ns];
    slc.timing.erase_ns = spec.erase_ns;
    slc
}

impl Slc {
    /// The cache of a die of `part`, whose planes are joined; none of a device without.
    pub(crate) fn new(spec: &SlcSpec, part: &Part, planes: u32) -> Option<Self> {
        let [fixed, dynamic] =
            [spec.blocks_per_die, spec.dynamic_blocks_per_die].map(|blocks| blocks / planes);
        let blocks = fixed + dynamic;
        if blocks == 0 {
            return None;
        }
        let part = slc_part(part, spec, blocks);
        Some(Self {
            chip: Chip::new(&part, Storage::Tags, &FaultSettings::default()),
            map: FxHashMap::default(),
            used: VecDeque::new(),
            remains: FxHashMap::default(),
            sequence: 0,
            // The lowest first.
            free: (0..blocks).rev().collect(),
            needs_erase: vec![false; blocks as usize],
            valid: vec![0; blocks as usize],
            static_blocks: fixed as usize,
            fold_from: 0,
            is_sealed: false,
            statistics: SlcStatistics::default(),
        })
    }

    /// Where a page lies, if it does here.
    #[inline]
    pub(crate) fn place(&self, lpn: u32) -> Option<PageAddress> {
        self.map.get(&lpn).copied()
    }

    /// True if pages are left to fold.
    #[inline]
    pub(crate) fn holds_pages(&self) -> bool {
        !self.used.is_empty()
    }

    /// Blocks that are taken from the layer's free ones.
    pub(crate) fn dynamic_blocks(&self) -> usize {
        self.used.len().saturating_sub(self.static_blocks)
    }

    /// True if a program of these pages fits, where the layer lends `lent` blocks.
    pub(crate) fn has_room(&self, lpns: &[u32], lent: usize) -> bool {
        self.has_open_page(lpns)
            || (self.used.len() < self.static_blocks + lent && !self.free.is_empty())
    }

    /// True if the block that is written takes these pages. It never holds two copies of a page: an erase that is cut
    /// short could leave the older one alone.
    fn has_open_page(&self, lpns: &[u32]) -> bool {
        let pages = self.chip.geometry().pages_per_block;
        let is_twice = |block: &u32| lpns.iter().any(|lpn| self.remains.get(lpn) == Some(block));
        let takes = |block: &u32| self.chip.next_page(*block) < pages && !is_twice(block);
        !self.is_sealed && self.used.back().is_some_and(takes)
    }

    /// True if a copy of the page would be found after a power cut: a newer one must be written here, too.
    pub(crate) fn remains(&self, lpn: u32) -> bool {
        self.remains.contains_key(&lpn)
    }

    /// Programs pages of the host by one program; there must be room.
    ///
    /// # Errors
    /// As [`Chip::program`]: at a power loss.
    pub(crate) fn write(&mut self, lpns: &[u32]) -> Result<(), NandError> {
        if !self.has_open_page(lpns) {
            let block = self.free.pop().expect("there is room");
            if std::mem::take(&mut self.needs_erase[block as usize]) {
                self.chip.erase(block)?;
            }
            self.used.push_back(block);
            self.is_sealed = false;
        }
        let block = *self.used.back().expect("a block is open");
        let to = PageAddress::new(block, self.chip.next_page(block));
        let sequence = self.sequence;
        self.sequence += u64::from(self.chip.geometry().pages_per_program);
        if self.chip.geometry().pages_per_program > 1 {
            self.chip.program_together(to, lpns, sequence, Role::Log)?;
        } else {
            self.chip.program(to, Tag::new(lpns[0], sequence, Role::Log), None)?;
        }
        for (lpn, page) in lpns.iter().zip(to.page..) {
            self.forget(*lpn);
            self.map.insert(*lpn, PageAddress::new(block, page));
            self.remains.insert(*lpn, block);
            self.valid[block as usize] += 1;
        }
        self.statistics.written_pages += lpns.len() as u64;
        self.check();
        Ok(())
    }

    /// The copy of a page that lies here, if any, is stale.
    pub(crate) fn forget(&mut self, lpn: u32) {
        if self.take(lpn) {
            self.statistics.stale_pages += 1;
        }
    }

    fn take(&mut self, lpn: u32) -> bool {
        let Some(at) = self.map.remove(&lpn) else { return false };
        self.valid[at.block as usize] -= 1;
        true
    }

    /// The next pages of the oldest block to fold, at most `most`; none if no valid page is left in it.
    pub(crate) fn batch(&mut self, most: usize) -> Batch {
        let mut batch = Batch::default();
        let Some(block) = self.used.front().copied() else { return batch };
        let mut read = None;
        while batch.lpns.len() < most && self.fold_from < self.chip.next_page(block) {
            let at = PageAddress::new(block, self.fold_from);
            self.fold_from += 1;
            let lpn = self.chip.peek(at).lpn();
            if self.place(lpn) != Some(at) {
                continue;
            }
            let array_page = self.chip.geometry().array_page(at.page);
            if read != Some(array_page) {
                read = Some(array_page);
                batch.reads += 1;
                // Counted by the chip; it has no errors.
                let read = self.chip.read(at);
                debug_assert!(read.is_ok(), "{at:?} can be read");
            }
            batch.lpns.push(lpn);
        }
        batch
    }

    /// The layer has the pages of a batch now.
    pub(crate) fn folded(&mut self, batch: &Batch) {
        for lpn in &batch.lpns {
            let was_here = self.take(*lpn);
            debug_assert!(was_here, "page {lpn} was folded from here");
        }
        self.statistics.folded_pages += batch.lpns.len() as u64;
    }

    /// Erases the oldest block, of which no page is valid any more.
    ///
    /// # Errors
    /// As [`Chip::erase`]: at a power loss.
    pub(crate) fn erase_oldest(&mut self) -> Result<(), NandError> {
        let Some(block) = self.used.pop_front() else { return Ok(()) };
        debug_assert_eq!(self.valid[block as usize], 0, "no valid page is erased");
        self.fold_from = 0;
        for lpn in self.chip.peek_lpns(block) {
            // A newer copy in another block remains.
            if self.remains.get(&lpn) == Some(&block) {
                self.remains.remove(&lpn);
            }
        }
        self.chip.erase(block)?;
        self.free.push(block);
        self.check();
        Ok(())
    }

    /// Erases all of it, and begins to count at zero: what it held is of no use any more.
    ///
    /// # Errors
    /// As [`Chip::erase`].
    pub(crate) fn clear(&mut self) -> Result<(), NandError> {
        self.map.clear();
        self.valid.fill(0);
        while self.holds_pages() {
            self.erase_oldest()?;
        }
        self.chip.reset_counters();
        self.statistics = SlcStatistics::default();
        Ok(())
    }

    /// Builds all tables anew from the chip; the layer forgets what lies here.
    ///
    /// # Errors
    /// As [`Ftl::trim`].
    pub(crate) fn rebuild(&mut self, layer: &mut dyn Ftl) -> Result<(), FtlError> {
        self.map.clear();
        self.remains.clear();
        self.valid.fill(0);
        let blocks = self.chip.geometry().blocks;
        let mut newest: FxHashMap<u32, (u64, PageAddress)> = FxHashMap::default();
        let mut begins = Vec::new();
        let mut last = 0;
        for block in 0..blocks {
            for page in 0..self.chip.next_page(block) {
                let at = PageAddress::new(block, page);
                // A page that was torn, or half erased, holds nothing.
                let Ok(tag) = self.chip.read_spare(at) else { continue };
                if tag.role() != Role::Log || tag.lpn() == u32::MAX {
                    continue;
                }
                let found = (tag.sequence(), at);
                last = last.max(found.0);
                let known = newest.entry(tag.lpn()).or_insert(found);
                *known = (*known).max(found);
                if begins.last().is_none_or(|(_, other)| *other != block) {
                    begins.push((tag.sequence(), block));
                }
            }
        }
        self.sequence = last + 1;
        // In the order in which they were written; a block without a readable page is free.
        begins.sort_unstable();
        self.used = begins.iter().map(|(_, block)| *block).collect();
        self.free = (0..blocks).rev().filter(|block| !self.used.contains(block)).collect();
        // Its last erase may have been cut short.
        self.free.iter().for_each(|block| self.needs_erase[*block as usize] = true);
        (self.fold_from, self.is_sealed) = (0, true);
        let mut found: Vec<_> = newest.into_iter().collect();
        found.sort_unstable();
        for (lpn, (_, at)) in found {
            self.map.insert(lpn, at);
            self.remains.insert(lpn, at.block);
            self.valid[at.block as usize] += 1;
            layer.trim(lpn)?;
        }
        self.check();
        Ok(())
    }

    /// Erases of its blocks since the counters were last set to zero.
    pub(crate) fn erase_counts(&self) -> &[u32] {
        self.chip.erase_counts()
    }

    /// Checks the counts, in debug builds.
    fn check(&self) {
        debug_assert_eq!(
            self.valid.iter().sum::<u32>() as usize,
            self.map.len(),
            "every valid page is in the map"
        );
        debug_assert_eq!(
            self.used.len() + self.free.len(),
            self.valid.len(),
            "a block is used or free"
        );
    }
}
