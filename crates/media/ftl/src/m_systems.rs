//! M-Systems FMAX: a primary block and one replacement block, simple or compound.
//!
//! Pages are written at their home offset in the primary block first, then at the same offset in
//! the replacement block (*simple*). A page that finds both used makes the replacement *compound*:
//! from then on it is filled in order behind its highest used page. A simple replacement without
//! room is completed in place by the pages it lacks and becomes the primary block; a compound one
//! is folded with the primary block into a fresh block. With `fold_switch` off, simple ones are
//! folded into a fresh block as well. When free blocks run out, the fullest replacement is folded.
//!
//! Blocks and their states are in RAM, the state of pages is read from spare areas (`probe`): one
//! look for each slot that is tried; from the last page of a compound replacement down to the match
//! (read) or to the highest used page (write); every page of the replacement for a fold into a
//! fresh block. `scan = all` reads every page of a compound replacement on each read and write. A
//! forward scan has no meaning here: simple use leaves holes below the newest copy.
//!
//! When to expect what: sequential overwrites cost one erase a block; a hot page fills replacement
//! after replacement and folds its whole block each time.
//!
//! Parts that program in ascending order: a slot behind the last programmed page counts as used;
//! a simple replacement that lacks such a page is folded into a fresh block.
//!
//! Source: Ban, US patent 5,937,425. The charges for spare reads and the choice of the block to
//! fold are ours.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::merge::{Incoming, gather, rewrite};
use crate::recovery::{Found, Scan, discard, drop_unfinished, found_of, sort_blocks};
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Locations, Settings, VirtualPage};
use nand::{Chip, Role};

/// Free blocks that only folds may take.
pub(crate) const FREE_BLOCKS_KEPT: u32 = 1;

/// Role of the pages of a fold into a fresh block before its last; see [`rewrite`].
pub(crate) const UNFINISHED: Role = Role::SequentialLog;

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "m-systems",
    summary: "M-Systems FMAX: primary block and one replacement block, simple or compound",
    source: "Ban, US 5,937,425 (1999)",
    features: Features {
        mapping: "block",
        first_write: "in place",
        overwrite: "in place in the replacement, then out of place",
        block_kinds: "primary, replacement (simple or compound)",
    },
    parameters: &[
        Parameter {
            name: "fold_switch",
            kind: Kind::Switch,
            default: "true",
            summary: "complete a simple replacement in place instead of copying all to a fresh block",
        },
        Parameter {
            name: "probe",
            kind: Kind::Choice(&["flash", "ram"]),
            default: "flash",
            summary: "state of pages: read from spare areas (counted as RS), or known in RAM",
        },
        Parameter {
            name: "scan",
            kind: Kind::Choice(&["backward", "all"]),
            default: "backward",
            summary: "spares of a compound replacement read: from the last down to a match, or all",
        },
    ],
    blocks_required: &|geometry, logical_pages, _| {
        // One replacement block, and one free block for a fold into a fresh one.
        logical_pages.div_ceil(geometry.pages_per_block) + 1 + FREE_BLOCKS_KEPT
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Fmax::new(flash, logical_pages, settings)),
};

#[derive(Clone, Copy)]
struct Candidate {
    logical_block: LogicalBlock,
    weight: u32,
    age: u64,
}

/// Logical blocks that could be folded: the heaviest goes first, the oldest of equals.
#[derive(Clone)]
pub(crate) struct FoldCandidates {
    candidates: Vec<Candidate>,
    /// Logical block to its place among the candidates.
    places: Vec<Option<u32>>,
    next_age: u64,
}

impl FoldCandidates {
    pub(crate) fn new(logical_blocks: u32) -> Self {
        Self { candidates: Vec::new(), places: vec![None; logical_blocks as usize], next_age: 0 }
    }

    /// Weight of a logical block, 0 if it is no candidate.
    pub(crate) fn weight(&self, logical_block: LogicalBlock) -> u32 {
        self.places[logical_block.index()].map_or(0, |place| self.candidates[place as usize].weight)
    }

    /// Sets the weight of a logical block, which becomes the youngest candidate if it is none.
    pub(crate) fn set(&mut self, logical_block: LogicalBlock, weight: u32) {
        if let Some(place) = self.places[logical_block.index()] {
            self.candidates[place as usize].weight = weight;
            return;
        }
        self.places[logical_block.index()] = Some(self.candidates.len() as u32);
        self.candidates.push(Candidate { logical_block, weight, age: self.next_age });
        self.next_age += 1;
    }

    pub(crate) fn remove(&mut self, logical_block: LogicalBlock) {
        if let Some(place) = self.places[logical_block.index()].take() {
            self.candidates.swap_remove(place as usize);
            if let Some(moved) = self.candidates.get(place as usize) {
                self.places[moved.logical_block.index()] = Some(place);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.candidates.clear();
        self.places.fill(None);
    }

    /// The logical block to fold.
    pub(crate) fn heaviest(&self) -> Option<LogicalBlock> {
        let rank = |candidate: &&Candidate| (candidate.weight, std::cmp::Reverse(candidate.age));
        // Among equals the one that has been a candidate for longest, so that none waits for ever.
        self.candidates.iter().max_by_key(rank).map(|candidate| candidate.logical_block)
    }
}

#[derive(Clone, Copy)]
struct Replacement {
    block: u32,
    compound: bool,
}

#[derive(Clone)]
struct Fmax {
    flash: Flash,
    locations: Locations,
    /// Logical block to primary block.
    primary: Vec<Option<u32>>,
    /// Logical block to replacement block.
    replacement: Vec<Option<Replacement>>,
    /// Logical blocks with a replacement, by its number of used pages.
    candidates: FoldCandidates,
    fold_switch: bool,
    probes: bool,
    scans_all: bool,
}

impl Fmax {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let logical_blocks = logical_pages.div_ceil(flash.pages_per_block());
        Self {
            locations: Locations::new(logical_pages),
            primary: vec![None; logical_blocks as usize],
            replacement: vec![None; logical_blocks as usize],
            candidates: FoldCandidates::new(logical_blocks),
            fold_switch: settings.switch("fold_switch"),
            probes: settings.word("probe") == "flash",
            scans_all: settings.word("scan") == "all",
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

    fn program_replacement(
        &mut self,
        at: VirtualPage,
        lpn: u32,
        data: Option<&[u8]>,
    ) -> Result<(), FtlError> {
        let (logical_block, _) = LogicalBlock::of(lpn, self.flash.pages_per_block());
        self.program(at, lpn, Role::Log, data)?;
        // The weight is the number of used pages: the fullest replacement gains most by a fold.
        self.candidates.set(logical_block, self.candidates.weight(logical_block) + 1);
        Ok(())
    }

    fn probe(&mut self, at: VirtualPage) -> Result<(), FtlError> {
        if self.probes { self.flash.probe(at) } else { Ok(()) }
    }

    /// Reads spare areas of `block` from the last page down to `last`, or all of them.
    fn probe_down_to(&mut self, block: u32, last: u32) -> Result<(), FtlError> {
        let last = if self.scans_all { 0 } else { last };
        let mut pages = (last..self.flash.pages_per_block()).rev();
        pages.try_for_each(|page| self.probe(VirtualPage::new(block, page)))
    }

    /// Takes a free block, folding replacements if only those kept for folds are left.
    fn take_block(&mut self) -> Result<u32, FtlError> {
        // Folds need a free block of their own; with less the device could not go on.
        while self.flash.free_blocks() <= FREE_BLOCKS_KEPT as usize {
            let Some(logical_block) = self.candidates.heaviest() else { break };
            self.fold(logical_block)?;
        }
        // With nothing left to fold the last block is taken, and a later fold may find none.
        self.flash.allocate()
    }

    fn primary_block(&mut self, logical_block: LogicalBlock) -> Result<u32, FtlError> {
        if let Some(block) = self.primary[logical_block.index()] {
            return Ok(block);
        }
        let block = self.take_block()?;
        self.primary[logical_block.index()] = Some(block);
        Ok(block)
    }

    /// The page of the replacement that takes the page at `offset`, or `None` if it must be folded.
    fn room_in_replacement(
        &mut self,
        logical_block: LogicalBlock,
        offset: u32,
    ) -> Result<Option<VirtualPage>, FtlError> {
        let Some(Replacement { block, compound }) = self.replacement[logical_block.index()] else {
            return Ok(None);
        };
        let pages = self.flash.pages_per_block();
        let next = self.flash.next_page(block);
        if !compound {
            let in_place = VirtualPage::new(block, offset);
            // The slot's spare area shows whether it is used; the RAM holds no such bit.
            self.probe(in_place)?;
            if self.flash.is_programmable(in_place) {
                return Ok(Some(in_place));
            }
            if next == pages {
                return Ok(None);
            }
            // From here on the replacement is filled in order, and no page has a home in it.
            self.replacement[logical_block.index()] = Some(Replacement { block, compound: true });
        }
        // To the highest used page, where the next free one begins.
        self.probe_down_to(block, next - 1)?;
        Ok((next < pages).then(|| VirtualPage::new(block, next)))
    }

    /// True if every page that the replacement lacks can be programmed there at its home offset.
    fn can_be_completed(&self, logical_block: LogicalBlock, block: u32) -> bool {
        let pages = self.flash.pages_per_block();
        (0..pages).all(|offset| match self.locations.get(logical_block.first_lpn(pages) + offset) {
            Some(at) => {
                at.block == block || self.flash.is_programmable(VirtualPage::new(block, offset))
            }
            None => true,
        })
    }

    /// Folds a replacement in the cheapest way that the settings allow.
    fn fold(&mut self, logical_block: LogicalBlock) -> Result<(), FtlError> {
        match self.replacement[logical_block.index()] {
            Some(Replacement { block, compound: false })
                if self.fold_switch && self.can_be_completed(logical_block, block) =>
            {
                self.complete(logical_block, block)
            }
            _ => self.fold_fully(logical_block, None),
        }
    }

    /// Completes a simple replacement in place; it becomes the primary block.
    fn complete(&mut self, logical_block: LogicalBlock, block: u32) -> Result<(), FtlError> {
        let pages = self.flash.pages_per_block();
        // Whether it was a switch or a partial merge is known only afterwards: copies show in the
        // counter.
        let programs = self.flash.chip().counters().page_programs;
        gather(
            &mut self.flash,
            &mut self.locations,
            logical_block.lpns(pages),
            VirtualPage::new(block, 0),
            None,
        )?;
        if self.flash.chip().counters().page_programs == programs {
            self.flash.merges.switch += 1;
        } else {
            self.flash.merges.partial += 1;
        }
        self.replacement[logical_block.index()] = None;
        self.candidates.remove(logical_block);
        let old = self.primary[logical_block.index()].replace(block);
        old.map_or(Ok(()), |old| self.flash.release(old))
    }

    /// Gathers the newest pages in a fresh block and erases primary and replacement.
    fn fold_fully(
        &mut self,
        logical_block: LogicalBlock,
        incoming: Option<Incoming>,
    ) -> Result<(), FtlError> {
        // A fold reads the state of every page, since compound use leaves them in any order.
        if let Some(Replacement { block, .. }) = self.replacement[logical_block.index()] {
            let mut pages = 0..self.flash.pages_per_block();
            pages.try_for_each(|page| self.probe(VirtualPage::new(block, page)))?;
        }
        let old = self.rewrite(logical_block, incoming)?;
        // After the target is whole: until then a cut finds primary and replacement.
        let replacement = self.replacement[logical_block.index()].take();
        self.candidates.remove(logical_block);
        let blocks = old.into_iter().chain(replacement.map(|replacement| replacement.block));
        blocks.into_iter().try_for_each(|block| self.flash.release(block))
    }

    /// Gathers the newest pages in a fresh primary block; returns the old one.
    fn rewrite(
        &mut self,
        logical_block: LogicalBlock,
        incoming: Option<Incoming>,
    ) -> Result<Option<u32>, FtlError> {
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
        Ok(self.primary[logical_block.index()].replace(target))
    }

    /// Takes over the blocks that a scan found of a logical block, oldest first.
    fn adopt(
        &mut self,
        logical_block: LogicalBlock,
        blocks: &[u32],
        scan: &Scan,
    ) -> Result<(), FtlError> {
        let pages = self.flash.pages_per_block();
        let primary = &mut self.primary[logical_block.index()];
        match found_of(blocks, scan, pages) {
            Found::Home(block) => *primary = Some(block),
            Found::HomeAndLog(first, block) => {
                // A page out of place proves compound use.
                let compound = !scan.blocks[block as usize].is_in_place(pages);
                *primary = Some(first);
                self.replacement[logical_block.index()] = Some(Replacement { block, compound });
            }
            Found::Merged { older, target } => {
                *primary = Some(target);
                discard(&mut self.flash, scan, &mut self.locations, older)?;
            }
            Found::Unfinished => {
                // A compound replacement has all pages that are left.
                self.rewrite(logical_block, None)?;
                blocks.iter().try_for_each(|block| self.flash.release(*block))?;
            }
        }
        Ok(())
    }

    /// Enters the replacements found as candidates, in the order of their age.
    fn find_candidates(&mut self, scan: &Scan) {
        self.candidates.clear();
        let mut found = Vec::new();
        for (replacement, logical_block) in
            self.replacement.iter().zip((0..).map(LogicalBlock::new))
        {
            let scan = replacement.map(|replacement| &scan.blocks[replacement.block as usize]);
            found.extend(
                scan.map(|scan| {
                    (scan.oldest_sequence(), logical_block, scan.tags().count() as u32)
                }),
            );
        }
        // By the oldest page: replacements opened earlier stay older after a rebuild.
        found.sort_unstable();
        for (_, logical_block, used) in found {
            self.candidates.set(logical_block, used);
        }
    }

    /// Writes a page whose slot in the primary block is used.
    fn overwrite(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        let pages = self.flash.pages_per_block();
        let (logical_block, offset) = LogicalBlock::of(lpn, pages);
        if let Some(at) = self.room_in_replacement(logical_block, offset)? {
            return self.program_replacement(at, lpn, data);
        }
        if let Some(Replacement { block, compound }) = self.replacement[logical_block.index()] {
            // A fold into a fresh block takes the page with it, which saves a write.
            if compound || (self.fold_switch && !self.can_be_completed(logical_block, block)) {
                return self.fold_fully(logical_block, Some(Incoming { lpn, data }));
            }
            self.fold(logical_block)?;
            // Parts with ascending order: a page that the fold had nothing to copy of.
            let in_primary =
                self.primary[logical_block.index()].map(|block| VirtualPage::new(block, offset));
            if let Some(at) = in_primary.filter(|at| self.flash.is_programmable(*at)) {
                return self.program(at, lpn, Role::Data, data);
            }
        }
        let block = self.take_block()?;
        self.replacement[logical_block.index()] = Some(Replacement { block, compound: false });
        self.candidates.set(logical_block, 0);
        let at = VirtualPage::new(block, offset);
        self.probe(at)?;
        self.program_replacement(at, lpn, data)
    }
}

impl Ftl for Fmax {
    fn logical_pages(&self) -> u32 {
        self.locations.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        if let Some(at) = self.locations.get(lpn) {
            let pages = self.flash.pages_per_block();
            match self.replacement[(lpn / pages) as usize] {
                Some(Replacement { block, compound: true }) => {
                    // A page that is not in the replacement costs a look at all of them.
                    self.probe_down_to(block, if at.block == block { at.page } else { 0 })?;
                }
                Some(Replacement { block, compound: false }) => {
                    self.probe(VirtualPage::new(block, lpn % pages))?;
                }
                None => {}
            }
        }
        self.locations.read(&mut self.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.flash.audit_is_due() {
            self.audit();
        }
        self.locations.check(lpn)?;
        let pages = self.flash.pages_per_block();
        let (logical_block, offset) = LogicalBlock::of(lpn, pages);
        let in_primary = VirtualPage::new(self.primary_block(logical_block)?, offset);
        self.probe(in_primary)?;
        if self.flash.is_programmable(in_primary) {
            return self.program(in_primary, lpn, Role::Data, data);
        }
        self.overwrite(lpn, data)
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.locations.check(lpn)?;
        let pages = self.flash.pages_per_block();
        let (logical_block, _) = LogicalBlock::of(lpn, pages);
        self.locations.clear(lpn);
        if !self.locations.all_clear(logical_block.lpns(pages)) {
            return Ok(());
        }
        self.candidates.remove(logical_block);
        // Primary before replacement: the older copies must not outlive the newer.
        let primary = self.primary[logical_block.index()].take();
        let replacement = self.replacement[logical_block.index()].take();
        primary.map_or(Ok(()), |block| self.flash.release(block))?;
        replacement.map_or(Ok(()), |replacement| self.flash.release(replacement.block))
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.flash.scan()?;
        let pages = self.flash.pages_per_block();
        drop_unfinished(&mut self.flash, &mut scan, UNFINISHED, pages)?;
        self.locations.rebuild(&scan);
        self.primary.fill(None);
        self.replacement.fill(None);
        for (logical_block, blocks) in sort_blocks(&mut self.flash, &scan, &self.locations, pages)?
        {
            self.adopt(logical_block, &blocks, &scan)?;
        }
        self.find_candidates(&scan);
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.locations.get(lpn)
    }

    /// Two bytes each for the primary and the replacement block of a logical block.
    fn ram_bytes(&self) -> u64 {
        2 * 2 * self.primary.len() as u64
    }

    fn tables(&self) -> Vec<Table> {
        let rows = self.primary.iter().zip(&self.replacement).zip(0..).filter_map(
            |((primary, replacement), logical_block): (_, u32)| {
                let (block, state) = match replacement {
                    Some(Replacement { block, compound: true }) => (block.to_string(), "compound"),
                    Some(Replacement { block, compound: false }) => (block.to_string(), "simple"),
                    None => (String::new(), ""),
                };
                primary.map(|primary| {
                    vec![logical_block.to_string(), primary.to_string(), block, state.to_owned()]
                })
            },
        );
        let columns = vec!["logical block", "primary block", "replacement block", "state"];
        vec![Table { title: "block map", columns, rows: rows.collect() }]
    }

    crate::contract::flash_accessors!();
}
