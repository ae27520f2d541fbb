//! M-Systems ANAND (NFTL): a chain of units for each virtual unit, every page at its home offset.
//!
//! A write walks the chain of its virtual unit (logical block) and takes the first unit whose slot
//! is free; if there is none, a free unit is appended and its predecessor marked as linked. So the
//! newest copy lies in the deepest unit whose slot is used. A chain is folded into its last unit in
//! place, where the missing pages are copied to; the other units are erased. It is folded when it
//! is as long as allowed, or as the longest one when free units run out.
//!
//! The tables of units are in RAM, the state of pages is read from spare areas (`probe`): one look
//! for each unit on the walk; none to read from a chain of one unit; none for a fold.
//!
//! When to expect what: sequential overwrites cost one erase a block, a hot page folds its whole
//! block on every second write (with chains of two).
//!
//! Parts that program in ascending order, and units found after a power cut: a slot that cannot be
//! programmed any more counts as used; a last unit that lacks such a page is not folded into, but
//! all go to a fresh unit. Parts with one program of a spare area (NOP 1) cannot store the link:
//! sequence numbers alone give the order of the chain there, as they do in every rebuild.
//!
//! Source: Ban, US patent 5,937,425; the two tables are those of the Linux driver `nftl`. Chains of
//! two, the default, make it comparable with FMAX.

use crate::contract::{Features, Ftl, FtlEntry, Table};
use crate::logical_block::LogicalBlock;
use crate::m_systems::{FREE_BLOCKS_KEPT, FoldCandidates, UNFINISHED};
use crate::merge::{gather, rewrite};
use crate::recovery::{Scan, discard, drop_unfinished, sort_blocks};
use crate::settings::{Kind, Parameter};
use crate::{Flash, FtlError, Locations, Settings, VirtualPage};
use nand::{Chip, NandError, PageOrder, Role};

pub(crate) const ENTRY: FtlEntry = FtlEntry {
    name: "m-systems-anand",
    summary: "M-Systems ANAND (NFTL): chains of units, every page in place",
    source: "Ban, US 5,937,425 (1999); Linux nftl",
    features: Features {
        mapping: "block, with a chain of blocks",
        first_write: "in place",
        overwrite: "in place, in the next unit of the chain",
        block_kinds: "units: head, replacement",
    },
    parameters: &[
        Parameter {
            name: "chain_length_max",
            kind: Kind::Integer { min: 2, max: 1_000_000 },
            default: "2",
            summary: "units in a chain before it is folded",
        },
        Parameter {
            name: "probe",
            kind: Kind::Choice(&["flash", "ram"]),
            default: "flash",
            summary: "state of pages: read from spare areas (counted as RS), or known in RAM",
        },
    ],
    blocks_required: &|geometry, logical_pages, _| {
        logical_pages.div_ceil(geometry.pages_per_block) + 1 + FREE_BLOCKS_KEPT
    },
    maps_parts: false,
    check: |_, _| Ok(()),
    predicted_waf: None,
    build: &|flash, logical_pages, settings| Box::new(Anand::new(flash, logical_pages, settings)),
};

#[derive(Clone)]
struct Anand {
    flash: Flash,
    locations: Locations,
    /// Virtual unit to the first unit of its chain.
    heads: Vec<Option<u32>>,
    /// Unit to the next one of its chain.
    next: Vec<Option<u32>>,
    /// Virtual units with a chain of at least two units, by its length.
    candidates: FoldCandidates,
    chain_length_max: u32,
    probes: bool,
}

impl Anand {
    fn new(flash: Flash, logical_pages: u32, settings: &Settings) -> Self {
        let virtual_units = logical_pages.div_ceil(flash.pages_per_block());
        Self {
            locations: Locations::new(logical_pages),
            heads: vec![None; virtual_units as usize],
            next: vec![None; flash.geometry().blocks as usize],
            candidates: FoldCandidates::new(virtual_units),
            chain_length_max: settings.integer("chain_length_max"),
            probes: settings.word("probe") == "flash",
            flash,
        }
    }

    fn chain_length(&self, virtual_unit: LogicalBlock) -> u32 {
        // A chain of one unit is no candidate for a fold.
        let shortest = u32::from(self.heads[virtual_unit.index()].is_some());
        self.candidates.weight(virtual_unit).max(shortest)
    }

    fn last_unit(&self, virtual_unit: LogicalBlock) -> Option<u32> {
        std::iter::successors(self.heads[virtual_unit.index()], |unit| self.next[*unit as usize])
            .last()
    }

    /// Walks the chain to the first free slot at `offset`.
    fn free_slot(
        &mut self,
        virtual_unit: LogicalBlock,
        offset: u32,
        probes: bool,
    ) -> Result<Option<VirtualPage>, FtlError> {
        let mut walk = self.heads[virtual_unit.index()];
        while let Some(unit) = walk {
            let at = VirtualPage::new(unit, offset);
            // One look in each unit on the walk; the newest copy lies before the first free slot.
            if probes {
                self.flash.probe(at)?;
            }
            if self.flash.is_programmable(at) {
                return Ok(Some(at));
            }
            walk = self.next[unit as usize];
        }
        Ok(None)
    }

    /// Appends a free unit to a chain, or starts one.
    fn append(&mut self, virtual_unit: LogicalBlock) -> Result<u32, FtlError> {
        let unit = self.flash.allocate()?;
        self.next[unit as usize] = None;
        let Some(last) = self.last_unit(virtual_unit) else {
            self.heads[virtual_unit.index()] = Some(unit);
            return Ok(unit);
        };
        // The mark before the unit is used: a reader of the medium follows it to the pages to come.
        self.link(last)?;
        self.next[last as usize] = Some(unit);
        self.candidates.set(virtual_unit, self.candidates.weight(virtual_unit).max(1) + 1);
        Ok(unit)
    }

    /// Marks a unit as having a successor where the part allows it.
    fn link(&mut self, unit: u32) -> Result<(), FtlError> {
        let first = VirtualPage::new(unit, 0);
        let geometry = self.flash.geometry();
        // A second program of a spare area is not allowed on parts with NOP 1.
        let takes_mark = geometry.oob_programs_max >= 2
            && (geometry.page_order == PageOrder::Any || self.flash.is_programmed(first))
            && !self.flash.is_sealed(unit)
            && !self.flash.peek(first).is_linked();
        if !takes_mark {
            return Ok(());
        }
        match self.flash.link(unit) {
            // The erase of a full unit was cut short without a trace; nothing is programmed there.
            Err(FtlError::Nand(NandError::Unstable { .. })) => Ok(()),
            result => result,
        }
    }

    /// Folds a chain into its last unit if that takes all missing pages, else into a fresh unit.
    fn fold(&mut self, virtual_unit: LogicalBlock) -> Result<(), FtlError> {
        let Some(last) = self.last_unit(virtual_unit) else { return Ok(()) };
        let pages = self.flash.pages_per_block();
        let first = virtual_unit.first_lpn(pages);
        let is_missing = |lpn: &u32| self.locations.get(*lpn).is_some_and(|at| at.block != last);
        let missing = (first..first + pages).filter(is_missing).count();
        let has_room = |lpn: u32| self.flash.is_programmable(VirtualPage::new(last, lpn - first));
        // In place: one erase less than a fresh unit.
        let target = if (first..first + pages).filter(is_missing).all(has_room) {
            gather(
                &mut self.flash,
                &mut self.locations,
                first..first + pages,
                VirtualPage::new(last, 0),
                None,
            )?;
            let merges = &mut self.flash.merges;
            *(if missing == 0 { &mut merges.switch } else { &mut merges.partial }) += 1;
            last
        } else {
            let target = rewrite(
                &mut self.flash,
                &mut self.locations,
                first..first + pages,
                UNFINISHED,
                None,
            )?;
            self.flash.merges.full += 1;
            target
        };
        let old = self.heads[virtual_unit.index()].replace(target);
        self.candidates.remove(virtual_unit);
        // Oldest first: a cut leaves the newer copies.
        self.release_chain(old, target)
    }

    /// Releases the units of a chain, oldest first, but not `kept`.
    fn release_chain(&mut self, head: Option<u32>, kept: u32) -> Result<(), FtlError> {
        let mut walk = head;
        while let Some(unit) = walk.filter(|unit| *unit != kept) {
            walk = self.next[unit as usize].take();
            self.flash.release(unit)?;
        }
        Ok(())
    }

    /// Takes over the units that a scan found of a virtual unit, oldest first.
    fn adopt(
        &mut self,
        virtual_unit: LogicalBlock,
        units: &[u32],
        scan: &Scan,
    ) -> Result<(), FtlError> {
        let head = &mut self.heads[virtual_unit.index()];
        match units {
            [older @ .., target] if !scan.blocks[*target as usize].has_role(Role::Log) => {
                // A finished fold into a fresh unit; the older ones hold at most trimmed pages.
                *head = Some(*target);
                discard(&mut self.flash, scan, &mut self.locations, older)
            }
            _ => {
                // Every unit holds its pages in place, so that whatever else a cut leaves is a chain.
                *head = units.first().copied();
                for pair in units.windows(2) {
                    self.next[pair[0] as usize] = Some(pair[1]);
                }
                Ok(())
            }
        }
    }

    /// Enters the chains found as candidates, in the order of their age.
    fn find_candidates(&mut self, scan: &Scan) {
        self.candidates.clear();
        let mut found = Vec::new();
        for (head, virtual_unit) in self.heads.iter().zip((0..).map(LogicalBlock::new)) {
            let second = head.and_then(|head| self.next[head as usize]);
            let units = std::iter::successors(*head, |unit| self.next[*unit as usize]);
            let since = second.map(|unit| scan.blocks[unit as usize].oldest_sequence());
            found.extend(since.map(|since| (since, virtual_unit, units.count() as u32)));
        }
        found.sort_unstable();
        for (_, virtual_unit, length) in found {
            self.candidates.set(virtual_unit, length);
        }
    }

    /// Finds or makes room for a page whose slot is used in every unit of the chain.
    fn make_slot(
        &mut self,
        virtual_unit: LogicalBlock,
        offset: u32,
    ) -> Result<VirtualPage, FtlError> {
        loop {
            if self.chain_length(virtual_unit) >= self.chain_length_max {
                self.fold(virtual_unit)?;
            } else if self.flash.free_blocks() > FREE_BLOCKS_KEPT as usize {
                // One unit stays free for folds.
                return Ok(VirtualPage::new(self.append(virtual_unit)?, offset));
            } else if let Some(longest) = self.candidates.heaviest() {
                self.fold(longest)?;
            } else {
                return Ok(VirtualPage::new(self.append(virtual_unit)?, offset));
            }
            // A fold to a fresh unit leaves the slot of a page free that was never written.
            if let Some(at) = self.free_slot(virtual_unit, offset, false)? {
                return Ok(at);
            }
        }
    }
}

impl Ftl for Anand {
    fn logical_pages(&self) -> u32 {
        self.locations.logical_pages()
    }

    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError> {
        let (virtual_unit, offset) = LogicalBlock::of(lpn, self.flash.pages_per_block());
        // A chain of one unit needs no walk: its slot is the only place.
        if self.probes && self.locations.get(lpn).is_some() && self.chain_length(virtual_unit) > 1 {
            self.free_slot(virtual_unit, offset, true)?;
        }
        self.locations.read(&mut self.flash, lpn, data)
    }

    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError> {
        if self.flash.audit_is_due() {
            self.audit();
        }
        self.locations.check(lpn)?;
        let pages = self.flash.pages_per_block();
        let (virtual_unit, offset) = LogicalBlock::of(lpn, pages);
        let at = match self.free_slot(virtual_unit, offset, self.probes)? {
            Some(at) => at,
            None => self.make_slot(virtual_unit, offset)?,
        };
        let is_head = self.heads[virtual_unit.index()] == Some(at.block);
        // The first unit's pages are data, later ones log, so that a rebuild recognises a finished fold.
        let role = if is_head { Role::Data } else { Role::Log };
        self.locations.program(&mut self.flash, at, lpn, role, data)
    }

    fn trim(&mut self, lpn: u32) -> Result<(), FtlError> {
        self.locations.check(lpn)?;
        let pages = self.flash.pages_per_block();
        let (virtual_unit, _) = LogicalBlock::of(lpn, pages);
        self.locations.clear(lpn);
        if !self.locations.all_clear(virtual_unit.lpns(pages)) {
            return Ok(());
        }
        self.candidates.remove(virtual_unit);
        let head = self.heads[virtual_unit.index()].take();
        self.release_chain(head, u32::MAX)
    }

    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mut scan = self.flash.scan()?;
        let pages = self.flash.pages_per_block();
        drop_unfinished(&mut self.flash, &mut scan, UNFINISHED, pages)?;
        self.locations.rebuild(&scan);
        self.heads.fill(None);
        self.next.fill(None);
        for (virtual_unit, units) in sort_blocks(&mut self.flash, &scan, &self.locations, pages)? {
            self.adopt(virtual_unit, &units, &scan)?;
        }
        self.find_candidates(&scan);
        Ok(())
    }

    fn locate(&self, lpn: u32) -> Option<VirtualPage> {
        self.locations.get(lpn)
    }

    /// Two bytes for each virtual unit and two for each unit.
    fn ram_bytes(&self) -> u64 {
        2 * (self.heads.len() + self.next.len()) as u64
    }

    fn tables(&self) -> Vec<Table> {
        let heads = self.heads.iter().zip(0_u32..);
        let chains = heads
            .filter_map(|(head, unit)| head.map(|head| vec![unit.to_string(), head.to_string()]));
        let next = self.next.iter().zip(0_u32..);
        let links = next
            .filter_map(|(next, unit)| next.map(|next| vec![unit.to_string(), next.to_string()]));
        vec![
            Table {
                title: "virtual units",
                columns: vec!["virtual unit", "first unit"],
                rows: chains.collect(),
            },
            Table {
                title: "replacement units",
                columns: vec!["unit", "next unit"],
                rows: links.collect(),
            },
        ]
    }

    crate::contract::flash_accessors!();
}
