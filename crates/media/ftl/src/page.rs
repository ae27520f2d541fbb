//! Page mapping: every logical page has its own entry, writes are appended to open blocks, and a
//! cleaning policy chooses the blocks to empty.
//!
//! Cleaning starts when a host write needs a fresh block and at most `low_water` are free. With one
//! `frontier` host writes and copies share the open block; apart, they do not; `hot-cold` gives
//! pages rewritten within `hot_window` programs an open block of their own.
//!
//! When to expect what: the fewest copies for random writes, for 4 bytes of RAM a page. The write
//! amplification under uniform writes is known in closed form and asserted.
//!
//! Source: the common design; analysed by Bux and Iliadis (2010), Desnoyers (2014), Van Houdt (2013).

use crate::cleaning;
use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::page_log::{PageLog, newest_pages};
use crate::predicted_waf::Occupancy;
use crate::settings::{Kind, Parameter};
use crate::work::program_array_ns;
use crate::{CleanStep, Flash, FtlError, PageWork, Settings, VirtualPage, Work};
use nand::{Chip, Counters, PAGES_PER_PROGRAM_MAX, Role};
use std::ops::Range;

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "page",
    summary: "page mapping with a choice of cleaning policies",
    source: "Bux, Iliadis, Performance Evaluation 67, 2010; Desnoyers, ACM TOS 10(2), 2014",
    features: Features {
        mapping: "page",
        first_write: "out of place",
        overwrite: "out of place",
        block_kinds: "data",
    },
    parameters: &[
        Parameter {
            name: "cleaning",
            kind: cleaning::KIND,
            default: "greedy",
            summary: "which block to clean",
        },
        Parameter {
            name: "low_water",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "1",
            summary: "clean while at most this many blocks are free",
        },
        Parameter {
            name: "frontier",
            kind: Kind::Choice(&["shared", "separate", "hot-cold"]),
            default: "shared",
            summary: "open blocks: one for all; one for host writes and one for copies; one for hot pages and one for the rest",
        },
        Parameter {
            name: "hot_window",
            kind: Kind::Integer { min: 0, max: 4_000_000_000 },
            default: "0",
            summary: "hot-cold: a page rewritten within so many programs is hot; 0 = the number of logical pages",
        },
        Parameter {
            name: "window_blocks",
            kind: Kind::Integer { min: 1, max: 1_000_000_000 },
            default: "64",
            summary: "windowed cleaning: blocks in the window (w)",
        },
        Parameter {
            name: "choices",
            kind: Kind::Integer { min: 1, max: 1_000_000 },
            default: "10",
            summary: "d-choices cleaning: blocks drawn (d)",
        },
        Parameter {
            name: "cleaning_seed",
            kind: Kind::Integer { min: 0, max: 4_000_000_000 },
            default: "0",
            summary: "seed of policies that draw at random",
        },
    ],
    blocks_required: &|geometry, logical_pages, settings| {
        // With separate frontiers both open blocks may be nearly empty at the same time.
        let open = if settings.word("frontier") == "shared" { 1 } else { 2 };
        // A block whose valid pages fill its last array page but for a part wins nothing by cleaning, so one more
        // part than fits must be stale on average.
        let pages = geometry.pages_per_block - (geometry.pages_per_program - 1);
        logical_pages.div_ceil(pages) + settings.integer("low_water") + open
    },
    maps_parts: true,
    check: |_, _| Ok(()),
    predicted_waf: Some(|geometry, logical_pages, settings| {
        let predict = cleaning::find_policy(settings.word("cleaning"))?.predicted_waf?;
        // With open blocks apart, pages of one block are alike; static wear levelling moves valid pages.
        if settings.word("frontier") != "shared" || settings.word("wear_leveling") == "static" {
            return None;
        }
        // Blocks that are free when cleaning ends hold no data, and neither does half of the open block, on average.
        let kept_free = settings.integer("reserve_blocks") + settings.integer("low_water");
        let empty_blocks = f64::from(kept_free) + 0.5;
        Occupancy::of(geometry, logical_pages, empty_blocks).map(|at| predict(&at, settings))
    }),
    build: &|flash, logical_pages, settings| Box::new(PageMap::new(flash, logical_pages, settings)),
};

// Zero, so that the system gives memory of the map only where it is written.
/// Entry of a page that is nowhere.
const UNMAPPED: u32 = 0;
const HOST: usize = 0;
const SECOND: usize = 1;

#[derive(Clone, Copy, PartialEq)]
enum Frontier {
    Shared,
    Separate,
    HotCold,
}

#[derive(Clone)]
struct PageMap {
    log: PageLog,
    /// Block and page of the newest copy, packed and inverted: four bytes a page.
    map: Vec<u32>,
    page_bits: u32,
    frontier: Frontier,
    hot_window: u64,
    /// Logical pages of the valid pages of the block being cleaned, in the order of the block.
    survivors: Vec<u32>,
    /// Block that cleaning between requests has begun to empty, and its next page to look at.
    half_cleaned: Option<VirtualPage>,
}

impl PageMap {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let policy = cleaning::find_policy(settings.word("cleaning")).expect("a listed choice");
        // As many programs as there are logical pages: once around the device under uniform writes.
        let hot_window = match settings.integer("hot_window") {
            0 => logical_pages,
            window => window,
        };
        Self {
            map: vec![UNMAPPED; logical_pages as usize],
            // Block and page packed by shifts, so that the map costs four bytes a page.
            page_bits: flash.pages_per_block().next_power_of_two().trailing_zeros(),
            frontier: match settings.word("frontier") {
                "shared" => Frontier::Shared,
                "separate" => Frontier::Separate,
                _ => Frontier::HotCold,
            },
            hot_window: u64::from(hot_window),
            survivors: vec![0; flash.pages_per_block() as usize],
            half_cleaned: None,
            log: PageLog::new(
                flash,
                (policy.build)(settings),
                policy.needs_valid_index,
                settings.integer("low_water"),
            ),
        }
    }

    #[inline]
    fn entry(&self, at: VirtualPage) -> u32 {
        !((at.block << self.page_bits) | at.page)
    }

    #[inline]
    fn place(&self, entry: u32) -> VirtualPage {
        VirtualPage::new(self.block(entry), !entry & ((1 << self.page_bits) - 1))
    }

    #[inline]
    fn block(&self, entry: u32) -> u32 {
        !entry >> self.page_bits
    }

    fn check(&self, lpn: u32) -> Result<(), FtlError> {
        if (lpn as usize) < self.map.len() {
            return Ok(());
        }
        Err(FtlError::OutOfRange { lpn, logical_pages: self.map.len() as u32 })
    }

    /// Open block for a host write of the page.
    #[inline]
    fn host_stream(&self, lpn: u32) -> usize {
        if self.frontier != Frontier::HotCold {
            return HOST;
        }
        let entry = self.map[lpn as usize];
        let rewritten_after =
            |entry| self.log.flash.sequence() - self.log.flash.peek(self.place(entry)).sequence();
        // Rewritten within the window: the page is likely to be rewritten again.
        if entry != UNMAPPED && rewritten_after(entry) <= self.hot_window { SECOND } else { HOST }
    }

    /// Open block for copies: with hot and cold streams, what survives cleaning is cold.
    #[inline]
    fn copy_stream(&self) -> usize {
        // Survivors of cleaning are cold, so they share the block of cold writes unless frontiers
        // are separate.
        if self.frontier == Frontier::Separate { SECOND } else { HOST }
    }

    /// The newest copy of a logical page is at `at` now; the old copy becomes stale.
    #[inline]
    fn map_page(&mut self, lpn: u32, at: VirtualPage, stream: usize) {
        let entry = self.entry(at);
        debug_assert_eq!(self.log.flash.peek(at).lpn(), lpn, "{at:?} holds the page");
        let old = std::mem::replace(&mut self.map[lpn as usize], entry);
        if old != UNMAPPED {
            self.log.valid.remove(self.block(old));
        }
        self.log.wrote(stream, at);
    }

    /// Finds the valid pages of a block and says how many there are.
    ///
    /// All are looked up before the first is moved: the entries come from memory side by side, where
    /// between copies each would be waited for. Moving a page changes no other entry of the block.
    fn find_survivors(&mut self, block: u32) -> usize {
        let last = self.map.len() - 1;
        let first = self.entry(VirtualPage::new(block, 0));
        let mut found = 0;
        for (lpn, page) in self.log.flash.peek_lpns(block).zip(0..) {
            // Written in any case and counted if valid: which pages are is hard to predict. A page
            // without a logical number looks up the last entry, which lies elsewhere.
            self.survivors[found] = lpn;
            // Entries are inverted: those of later pages are smaller.
            found += usize::from(self.map[(lpn as usize).min(last)] == first - page);
        }
        found
    }

    #[cold]
    fn clean(&mut self) -> Result<(), FtlError> {
        while self.log.must_clean() {
            // A block half emptied between requests is finished first, or two victims would hold
            // valid pages.
            let victim = match self.half_cleaned.take() {
                Some(at) => at.block,
                None => self.log.take_victim()?,
            };
            self.empty(victim)?;
        }
        Ok(())
    }

    /// The next valid page of a block from `from` on.
    fn next_valid(&self, from: VirtualPage) -> Option<VirtualPage> {
        let lpns = self.log.flash.peek_lpns(from.block);
        let pages = lpns.zip(0..).skip(from.page as usize);
        let mut places = pages.map(|(lpn, page)| (lpn, VirtualPage::new(from.block, page)));
        places
            .find(|(lpn, at)| self.map.get(*lpn as usize) == Some(&self.entry(*at)))
            .map(|(_, at)| at)
    }

    /// Moves the valid pages of a block and erases it.
    fn empty(&mut self, victim: u32) -> Result<(), FtlError> {
        let stream = self.copy_stream();
        if self.log.flash.pages_per_program() > 1 {
            self.empty_together(victim, stream)?;
            return self.log.release(victim);
        }
        let valid = self.find_survivors(victim);
        let mut moved = 0;
        while moved < valid {
            moved += self.move_survivors(victim, moved..valid, stream)?;
        }
        self.log.release(victim)
    }

    /// Numbers of the valid pages of a block, in order, into `survivors`; says how many there are.
    // As `find_survivors`, with the pages themselves: those of one array page are read together.
    fn find_survivor_pages(&mut self, block: u32) -> usize {
        let last = self.map.len() - 1;
        let first = self.entry(VirtualPage::new(block, 0));
        let mut found = 0;
        for (lpn, page) in self.log.flash.peek_lpns(block).zip(0..) {
            self.survivors[found] = page;
            found += usize::from(self.map[(lpn as usize).min(last)] == first - page);
        }
        found
    }

    /// Moves the valid pages of a block, an array page at a time.
    ///
    /// The last ones may be fewer: the rest of their array page is padding, because the block they come from is
    /// erased next, and they must be on the medium before.
    fn empty_together(&mut self, victim: u32, stream: usize) -> Result<(), FtlError> {
        let valid = self.find_survivor_pages(victim);
        let most = self.log.flash.pages_per_program() as usize;
        let mut pages = [0; PAGES_PER_PROGRAM_MAX as usize];
        for moved in (0..valid).step_by(most) {
            let count = most.min(valid - moved);
            pages[..count].copy_from_slice(&self.survivors[moved..moved + count]);
            self.move_together(victim, &pages[..count], stream)?;
        }
        Ok(())
    }

    /// Moves valid pages of a block by one program.
    fn move_together(&mut self, victim: u32, pages: &[u32], stream: usize) -> Result<(), FtlError> {
        let to = self.log.next_or_open(stream)?;
        self.log.flash.copy_together(victim, pages, to, Role::Data)?;
        // From the tags and not from the victim: a page that was lost keeps its number, too.
        for page in to.page..to.page + pages.len() as u32 {
            let at = VirtualPage::new(to.block, page);
            let lpn = self.log.flash.peek(at).lpn();
            self.map[lpn as usize] = self.entry(at);
        }
        self.log.moved_together(stream, victim, to, pages.len() as u32);
        Ok(())
    }

    /// One step of cleaning between requests: the valid pages from `from` on that one program writes.
    fn step_together(&mut self, from: VirtualPage, stream: usize) -> Result<(), FtlError> {
        let most = self.log.flash.pages_per_program() as usize;
        let mut pages = [0; PAGES_PER_PROGRAM_MAX as usize];
        let (mut count, mut next) = (0, Some(from));
        while let Some(at) = next.filter(|_| count < most) {
            pages[count] = at.page;
            count += 1;
            next = self.next_valid(VirtualPage::new(at.block, at.page + 1));
        }
        // Set before the copy: if that fails the power is gone, and the rebuild forgets it.
        self.half_cleaned = Some(VirtualPage::new(from.block, pages[count - 1] + 1));
        self.move_together(from.block, &pages[..count], stream)
    }

    /// Programs up to an array page of logical pages, which are newest then; a page given twice counts once.
    fn program_together(&mut self, lpns: &[u32]) -> Result<(), FtlError> {
        lpns.iter().try_for_each(|lpn| self.check(*lpn))?;
        let Some(first) = lpns.first() else { return Ok(()) };
        // One stream for all: they share a program, so they cannot be told apart into hot and cold.
        let stream = self.host_stream(*first);
        let at = if let Some(at) = self.log.next(stream) {
            at
        } else {
            self.clean()?;
            self.log.next_or_open(stream)?
        };
        // The map changes only when the program has returned: a cut leaves the old copies the newest.
        self.log.flash.program_together(at, lpns, Role::Data)?;
        let mut newest = lpns.len() as u32;
        for (lpn, page) in lpns.iter().zip(at.page..) {
            let entry = self.entry(VirtualPage::new(at.block, page));
            let old = std::mem::replace(&mut self.map[*lpn as usize], entry);
            if old != UNMAPPED {
                // An earlier page of the same program is not counted as valid yet.
                let place = self.place(old);
                if place.block == at.block && place.page >= at.page {
                    newest -= 1;
                } else {
                    self.log.valid.remove(place.block);
                }
            }
        }
        self.log.wrote_together(stream, at, newest);
        Ok(())
    }

    /// Checks all tables now and then, in debug builds.
    #[inline]
    fn audit_if_due(&mut self) {
        if self.log.flash.audit_is_due() {
            self.audit();
            self.log.audit(self.map.iter().filter(|entry| **entry != UNMAPPED).count());
        }
    }

    /// Moves the first of the valid pages of a block that are left: as many as have room in the open
    /// block, or one where the chip asks for single copies. Returns their number.
    fn move_survivors(
        &mut self,
        victim: u32,
        left: Range<usize>,
        stream: usize,
    ) -> Result<usize, FtlError> {
        let to = self.log.next_or_open(stream)?;
        let room = (self.log.flash.pages_per_block() - to.page) as usize;
        let lpns = &self.survivors[left.start..left.end.min(left.start + room)];
        if self.log.flash.copy_run(victim, lpns, to, Role::Data) {
            let first = !((to.block << self.page_bits) | to.page);
            for (lpn, page) in lpns.iter().zip(0..) {
                self.map[*lpn as usize] = first - page;
            }
            self.log.moved(stream, victim, to, lpns.len() as u32);
            return Ok(lpns.len());
        }
        let lpn = lpns[0];
        // Not moved yet, so the map leads to its place in the victim.
        let from = self.place(self.map[lpn as usize]);
        self.log.flash.copy(from, to, lpn, Role::Data)?;
        self.map_page(lpn, to, stream);
        Ok(1)
    }
}

impl Ftl for PageMap {
    fn logical_pages(&self) -> u32 {
        self.map.len() as u32
    }

    #[inline]
    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        self.check(lpn)?;
        match (self.map[lpn as usize], data) {
            (UNMAPPED, None) => Ok(()),
            (UNMAPPED, Some(data)) => {
                data.fill(0);
                Ok(())
            }
            (entry, data) => {
                let at = self.place(entry);
                self.log.flash.read(at, lpn, data)
            }
        }
    }

    #[inline]
    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        self.audit_if_due();
        if self.log.flash.pages_per_program() > 1 {
            debug_assert!(data.is_none(), "pages that are programmed together have no bytes");
            return self.program_together(&[lpn]);
        }
        self.check(lpn)?;
        let stream = self.host_stream(lpn);
        let at = if let Some(at) = self.log.next(stream) {
            at
        } else {
            // Cleaning is looked at only where the stream needs a new block.
            self.clean()?;
            self.log.next_or_open(stream)?
        };
        self.log.flash.program(at, lpn, Role::Data, data)?;
        self.map_page(lpn, at, stream);
        Ok(())
    }

    fn write_pages(&mut self, pages: Range<u32>) -> Result<(), FtlError> {
        let together = self.log.flash.pages_per_program();
        if together == 1 {
            let mut pages = pages;
            return pages.try_for_each(|lpn| self.write(lpn, None));
        }
        let mut lpns = [0; PAGES_PER_PROGRAM_MAX as usize];
        for first in pages.clone().step_by(together as usize) {
            self.audit_if_due();
            let count = together.min(pages.end - first);
            for (place, lpn) in lpns.iter_mut().zip(first..first + count) {
                *place = lpn;
            }
            self.program_together(&lpns[..count as usize])?;
        }
        Ok(())
    }

    fn write_together(&mut self, lpns: &[u32]) -> Result<PageWork, FtlError> {
        self.audit_if_due();
        let before = Work::of(self.log.flash.chip());
        self.program_together(lpns)?;
        let total = Work::of(self.log.flash.chip()) - before;
        let own_program_ns = if total.counters.page_programs == 1 {
            total.program_ns
        } else {
            let last = lpns.last().and_then(|lpn| self.locate(*lpn));
            last.map_or(0, |at| program_array_ns(self.log.flash.chip(), at.page))
        };
        Ok(PageWork { total, own_program_ns, own_extra_read_ns: 0 })
    }

    /// A page read for each page that was written, and none for the others: so the chip need not be asked what it did.
    ///
    /// A page in the array page of the page before it is in the register, and costs none.
    fn read_measured(&mut self, first: u32, pages: &mut [PageWork]) -> Result<(), FtlError> {
        let together = self.log.flash.pages_per_program();
        // Only within this call: the die may do something else before the next one.
        let mut in_register = None;
        for (page, lpn) in pages.iter_mut().zip(first..) {
            let before = self.log.flash.chip().counters();
            let entry = self.map.get(lpn as usize).copied().unwrap_or(UNMAPPED);
            let array_page = (together > 1 && entry != UNMAPPED).then(|| {
                let at = self.place(entry);
                (at.block, at.page / together)
            });
            let page_reads = if array_page.is_some() && array_page == in_register {
                self.log.flash.read_register(self.place(entry), lpn)?;
                0
            } else {
                self.read(lpn, None)?;
                in_register = array_page;
                u64::from(entry != UNMAPPED)
            };
            let counters = Counters { page_reads, ..Counters::default() };
            let own_extra_read_ns = match page_reads {
                0 => 0,
                _ => self.log.flash.chip().extra_read_of_page_ns(self.place(entry).page),
            };
            debug_assert_eq!(
                self.log.flash.chip().counters() - before,
                counters,
                "a read of a written page is one of the chip"
            );
            let total = Work { counters, extra_read_ns: own_extra_read_ns, ..Work::default() };
            *page = PageWork { total, own_program_ns: 0, own_extra_read_ns };
        }
        Ok(())
    }

    /// A step never takes the last block that cleaning may: where it would, the whole block is
    /// emptied at once, as within a write, so that a rebuild finds nothing it does not know.
    fn clean_step(&mut self, free_target: u32) -> Result<CleanStep, FtlError> {
        let from = match self.half_cleaned {
            Some(at) => at,
            None if self.log.flash.free_blocks() >= free_target as usize => {
                return Ok(CleanStep::Idle);
            }
            None => match self.log.take_worthwhile_victim() {
                Some(victim) => VirtualPage::new(victim, 0),
                None => return Ok(CleanStep::Idle),
            },
        };
        let Some(from) = self.next_valid(from) else {
            self.half_cleaned = None;
            self.log.release(from.block)?;
            return Ok(CleanStep::Freed);
        };
        let stream = self.copy_stream();
        // The last block must be filled from one victim alone (`PageLog::scan` takes it back as a
        // whole).
        if self.log.next(stream).is_none() && self.log.must_clean() {
            self.half_cleaned = None;
            self.empty(from.block)?;
            return Ok(CleanStep::Freed);
        }
        if self.log.flash.pages_per_program() > 1 {
            self.step_together(from, stream)?;
            return Ok(CleanStep::Moved);
        }
        // Set before the copy: if that fails the power is gone, and the rebuild forgets it.
        self.half_cleaned = Some(VirtualPage::new(from.block, from.page + 1));
        let lpn = self.log.flash.peek(from).lpn();
        let to = self.log.next_or_open(stream)?;
        self.log.flash.copy(from, to, lpn, Role::Data)?;
        self.map_page(lpn, to, stream);
        Ok(CleanStep::Moved)
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.check(lpn)?;
        let old = std::mem::replace(&mut self.map[lpn as usize], UNMAPPED);
        if old != UNMAPPED {
            self.log.valid.remove(self.block(old));
        }
        Ok(())
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        // The scan erases or reopens blocks; a half-emptied one is closed like any other.
        self.half_cleaned = None;
        let scan = self.log.scan()?;
        let newest = newest_pages(&scan, self.map.len() as u32);
        for lpn in 0..self.map.len() as u32 {
            self.map[lpn as usize] = newest.get(lpn).map_or(UNMAPPED, |at| self.entry(at));
        }
        let stream = self.copy_stream();
        match self.log.rebuild(&scan, stream, |tag, at| newest.is_newest(tag.lpn(), at))? {
            Some(victim) => self.empty(victim),
            None => Ok(()),
        }
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        let entry = *self.map.get(lpn as usize)?;
        (entry != UNMAPPED).then(|| self.place(entry))
    }

    /// Four bytes a logical page.
    fn ram_bytes(&self) -> u64 {
        4 * self.map.len() as u64
    }

    fn tables(&self) -> Vec<Table> {
        let rows = (0..self.map.len() as u32).filter_map(|lpn| {
            self.locate(lpn)
                .map(|at| vec![lpn.to_string(), at.block.to_string(), at.page.to_string()])
        });
        vec![Table {
            title: "page map",
            columns: vec!["logical page", "block", "page"],
            rows: rows.collect(),
        }]
    }

    fn flash(&self) -> &Flash {
        &self.log.flash
    }

    fn flash_mut(&mut self) -> &mut Flash {
        &mut self.log.flash
    }

    fn into_chip(self: Box<Self>) -> Chip {
        self.log.flash.into_chip()
    }

    fn clone_box(&self) -> Box<dyn Ftl> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, HOST, PageMap};
    use crate::cleaning::POLICIES;
    use crate::tests::panics_with;
    use crate::{Flash, Ftl, Settings, Value, VirtualPage};
    use nand::random::Stream;
    use nand::{Cell, Chip, CutPoint, FaultSettings, PageOrder, Storage};
    use std::collections::BTreeMap;

    /// What breaks a rule.
    type Break = fn(&mut PageMap);

    /// Twelve pages written on blocks of eight: block 0 is closed, block 1 is open.
    fn layer() -> PageMap {
        let mut part = nand::find_part("published-small-block").expect("in the catalogue");
        (part.geometry.blocks, part.geometry.pages_per_block) = (8, 8);
        let settings = Settings::new(ENTRY.parameters, &BTreeMap::new()).expect("defaults");
        let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
        let mut layer = PageMap::new(Flash::new(chip, &settings), 32, &settings);
        (0..12).for_each(|lpn| layer.write(lpn, None).expect("written"));
        layer.audit();
        layer.log.audit(12);
        layer
    }

    #[test]
    fn every_broken_entry_of_the_map_is_seen() {
        let broken: [(&str, Break); 5] = [
            ("which is erased", |layer| {
                layer.map[20] = layer.entry(VirtualPage::new(3, 0));
                layer.audit();
            }),
            ("leads back to another logical page", |layer| {
                layer.map.swap(0, 1);
                layer.audit();
            }),
            ("holds the page", |layer| layer.map_page(5, VirtualPage::new(0, 0), HOST)),
            ("a stream is written in order", |layer| {
                let at = VirtualPage::new(0, 0);
                layer.map_page(0, at, HOST);
            }),
            ("as many pages are valid as the map has", |layer| layer.log.audit(11)),
        ];
        for (message, break_it) in broken {
            panics_with(message, || break_it(&mut layer()));
        }
    }

    #[test]
    fn every_broken_rule_of_the_log_is_seen() {
        let broken: [(&str, Break); 7] = [
            ("no page of a free block is valid", |layer| {
                layer.log.valid.remove(1);
                layer.log.valid.add(5);
            }),
            ("has more valid pages than written ones", |layer| {
                layer.log.flash.chip_mut().erase(1).expect("erased");
            }),
            ("open block 1 is closed", |layer| layer.log.valid.close(1)),
            ("open block 6 is free", |layer| {
                layer.log.break_open(HOST, VirtualPage::new(6, 0));
            }),
            ("is written", |layer| layer.log.break_open(HOST, VirtualPage::new(1, 2))),
            ("the list of ages holds closed blocks alone", |layer| layer.log.valid.take(0)),
            ("every closed block has an age", |layer| {
                layer.log.break_open(HOST, VirtualPage::new(2, 0));
                layer.log.valid.close(1);
                layer.log.flash.allocate().map(|_| ()).expect("free");
                layer.log.flash.allocate().map(|_| ()).expect("free");
            }),
        ];
        for (message, break_it) in broken {
            panics_with(message, || {
                let mut layer = layer();
                break_it(&mut layer);
                let blocks = 0..layer.log.valid.blocks();
                let valid = blocks.map(|block| layer.log.valid.count(block) as usize).sum();
                layer.log.audit(valid);
            });
        }
    }

    /// Layers over the same chip with the same settings: one copies in runs, the other singly.
    fn twins(draw: &mut Stream) -> [PageMap; 2] {
        let mut part = nand::find_part("published-small-block").expect("in the catalogue");
        let geometry = &mut part.geometry;
        (geometry.blocks, geometry.pages_per_block) = (24, 8);
        geometry.page_order =
            [PageOrder::Any, PageOrder::Ascending, PageOrder::Sequential][draw.below(3) as usize];
        if draw.below(2) == 0 {
            (geometry.cell, part.timing.program_ns) = (Cell::Mlc, vec![1, 10]);
        }
        part.errors.factory_bad_probability = 0.05;
        let word = |words: &[&str], draw: &mut Stream| {
            Value::Word(words[draw.below(words.len() as u32) as usize].into())
        };
        let policies: Vec<&str> = POLICIES.iter().map(|entry| entry.name).collect();
        let given = BTreeMap::from([
            ("cleaning".to_owned(), word(&policies, draw)),
            ("frontier".to_owned(), word(&["shared", "separate", "hot-cold"], draw)),
            ("wear_leveling".to_owned(), word(&["none", "dynamic", "static"], draw)),
            ("wear_threshold".to_owned(), Value::Integer(4)),
            ("reserve_blocks".to_owned(), Value::Integer(2)),
        ]);
        let settings = Settings::new(ENTRY.parameters, &given).expect("settings of the layer");
        let faults =
            FaultSettings { seed: 5, factory_bad_blocks: true, ..FaultSettings::default() };
        let chip = Chip::new(&part, Storage::Tags, &faults);
        let layer = PageMap::new(Flash::new(chip, &settings), 112, &settings);
        let mut single = layer.clone();
        single.log.flash.copies_singly = true;
        [layer, single]
    }

    fn state(layer: &PageMap) -> String {
        let flash = layer.log.flash.state();
        format!("{:?} {:?} {:?} {flash}", layer.map, layer.half_cleaned, layer.log.tables())
    }

    /// The same step of both, on a chip that may be about to fail or to lose power.
    fn step(layer: &mut PageMap, draw: &mut Stream) -> String {
        let lpn = draw.below(112);
        let outcome = match draw.below(64) {
            0 => layer.trim(lpn),
            1..8 => layer.clean_step(4).map(drop),
            8 => {
                let point = [CutPoint::Before, CutPoint::Inside, CutPoint::After];
                let point = point[draw.below(3) as usize];
                layer.flash_mut().chip_mut().cut_power_after(u64::from(draw.below(60)), point);
                Ok(())
            }
            9 => {
                let faults = FaultSettings {
                    seed: u64::from(lpn),
                    program_failure_probability: [0.0, 0.01][draw.below(2) as usize],
                    ..FaultSettings::default()
                };
                layer.flash_mut().chip_mut().set_faults(&faults);
                Ok(())
            }
            10..16 => layer.write_pages(lpn / 2..lpn),
            _ => layer.write(lpn, None),
        };
        if !layer.flash().chip().is_powered() {
            layer.flash_mut().chip_mut().power_on();
            return format!("{outcome:?} {:?}", layer.rebuild());
        }
        format!("{outcome:?}")
    }

    #[test]
    fn cleaning_in_runs_leaves_what_single_copies_leave() {
        let (mut runs, mut rebuilds, mut retired) = (0, 0, 0);
        for case in 0..60 {
            let mut draw = Stream::new(case, "twins");
            let mut twins = twins(&mut draw);
            for number in 0..600 {
                let [in_runs, singly] = twins
                    .each_mut()
                    .map(|layer| step(layer, &mut Stream::new(case << 32 | number, "step")));
                assert_eq!(in_runs, singly, "case {case}, step {number}");
                let [in_runs_state, singly_state] = twins.each_ref().map(state);
                assert_eq!(in_runs_state, singly_state, "case {case}, step {number}");
                rebuilds += u64::from(in_runs.contains("PowerLost"));
                // A chip that is worn down to its last blocks shows nothing more.
                if in_runs.contains("NoFreeBlock") {
                    break;
                }
            }
            assert_eq!(twins[1].log.flash.runs, 0, "case {case}");
            runs += twins[0].log.flash.runs;
            retired += twins[0].log.flash.retired_blocks;
        }
        // Otherwise nothing was compared.
        assert!(runs > 1000 && rebuilds > 50 && retired > 10, "{runs} {rebuilds} {retired}");
    }
}
