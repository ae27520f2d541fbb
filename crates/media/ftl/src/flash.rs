//! Blocks as the layers use them: numbered virtually, taken from a free pool, replaced when they
//! go bad, exchanged to level wear. None of this changes a virtual block number a layer holds.
//!
//! The replacement of a failing block copies its pages with their tags to a fresh block and swaps
//! the two in the table, so that a layer never sees a program fail. Static wear levelling is the
//! same exchange, done to the least-worn block in use when counts drift apart. A rebuild meets the
//! two copies an interruption may leave, and keeps the complete one (see [`crate::recovery`]).

mod replacement;
mod wear_leveling;

use crate::free::FreePool;
use crate::recovery::{Scan, scan_chip};
use crate::wear::Leveler;
use crate::{FtlError, Settings};
use fixedbitset::FixedBitSet;
use nand::{Chip, Geometry, NandError, PageAddress, PageOrder, Role, Tag};

/// A page by its virtual block, and its number within the block.
///
/// The chip's [`PageAddress`] has the same shape and means another page as soon as two blocks were
/// exchanged. A type of its own keeps the two apart: only [`Flash`] turns one into the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualPage {
    /// Virtual number of the block.
    pub block: u32,
    /// Page within the block.
    pub page: u32,
}

impl VirtualPage {
    /// The page `page` of the virtual block `block`.
    #[inline]
    pub const fn new(block: u32, page: u32) -> Self {
        Self { block, page }
    }
}

/// Merges by kind, and victims that a page-mapped layer cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// A log block became the data block without a copy.
    pub switch: u64,
    /// A log block was completed by copies and became the data block.
    pub partial: u64,
    /// Pages were gathered in a fresh block.
    pub full: u64,
    /// Blocks cleaned by a page-mapped layer.
    pub cleaned: u64,
}

/// The blocks of a chip under a translation layer.
#[derive(Clone, Debug)]
pub struct Flash {
    chip: Chip,
    physical: Vec<u32>,
    free: FreePool,
    is_free: FixedBitSet,
    /// Blocks partly programmed before a power cut: a torn page may look erased, so none of their
    /// pages is programmed again.
    sealed: FixedBitSet,
    /// Free blocks whose last erase may have been interrupted.
    needs_erase: FixedBitSet,
    reserve: Vec<u32>,
    sequence: u64,
    least_worn_first: bool,
    wear_threshold: Option<u32>,
    /// Wear levelling of the user's own, in place of the built-in one.
    leveler: Option<Leveler>,
    /// Erases between two looks at the spread of erase counts; none where data never moves.
    wear_check_erases: Option<u64>,
    reserve_blocks: u32,
    erases_to_wear_check: u64,
    /// Operations since the last audit, in debug builds.
    unaudited: u32,
    /// Merges so far; the layers count them here.
    pub merges: MergeCounts,
    /// Blocks taken out of service since the layer was made.
    pub retired_blocks: u32,
    /// Blocks exchanged to level wear.
    pub leveled_blocks: u64,
    /// Refuses runs of copies, for comparisons with single ones.
    #[cfg(test)]
    pub(crate) copies_singly: bool,
    /// Runs of copies so far.
    #[cfg(test)]
    pub(crate) runs: u64,
}

impl Flash {
    /// All good blocks of a chip, free and erased, in ascending order.
    pub fn new(chip: Chip, settings: &Settings) -> Self {
        let blocks = chip.geometry().blocks;
        let leveling = settings.word("wear_leveling");
        let leveler = Leveler::of(settings);
        let is_static = leveling == "static";
        let least_worn_first = is_static || leveling == "dynamic";
        let wear_check_erases = match &leveler {
            Some(leveler) => leveler.0.interval_erases(),
            None => is_static.then_some(wear_leveling::WEAR_CHECK_ERASES),
        };
        // At first virtual and physical numbers agree; an exchange swaps two entries.
        let mut flash = Self {
            physical: (0..blocks).collect(),
            free: FreePool::new(least_worn_first),
            is_free: FixedBitSet::with_capacity(blocks as usize),
            sealed: FixedBitSet::with_capacity(blocks as usize),
            needs_erase: FixedBitSet::with_capacity(blocks as usize),
            reserve: Vec::new(),
            sequence: 0,
            least_worn_first,
            wear_threshold: wear_check_erases.map(|_| settings.integer("wear_threshold")),
            leveler,
            wear_check_erases,
            reserve_blocks: settings.integer("reserve_blocks"),
            erases_to_wear_check: wear_check_erases.unwrap_or_default(),
            unaudited: 0,
            merges: MergeCounts::default(),
            retired_blocks: 0,
            leveled_blocks: 0,
            #[cfg(test)]
            copies_singly: false,
            #[cfg(test)]
            runs: 0,
            chip,
        };
        for block in 0..blocks {
            if !flash.chip.is_bad(block) {
                flash.add_free(block);
            }
        }
        flash
    }

    /// The chip, for its counters and state.
    pub fn chip(&self) -> &Chip {
        &self.chip
    }

    /// The chip, for faults and power cuts.
    pub fn chip_mut(&mut self) -> &mut Chip {
        &mut self.chip
    }

    /// Gives the chip back.
    pub fn into_chip(self) -> Chip {
        self.chip
    }

    /// Wears every physical block by so many erases that are not carried out, as a stretch of life
    /// that is left out. What levels wear sees them at once.
    ///
    /// # Panics
    /// If there is not a number for each block of the chip.
    pub fn age(&mut self, erases: &[u32]) {
        assert_eq!(erases.len(), self.physical.len(), "a number for each block");
        for (block, erases) in (0..).zip(erases) {
            self.chip.add_erase_cycles(block, *erases);
        }
        let (chip, physical) = (&self.chip, &self.physical);
        // The pool sorts by the cycles a block had when it came; without this it would give the
        // wrong one as the least worn.
        self.free.age(|block| chip.erase_cycles(physical[block as usize]));
    }

    /// Physical blocks that are kept back to replace bad ones: nothing wears them.
    pub fn reserve_list(&self) -> Vec<u32> {
        self.reserve.iter().map(|block| self.physical[*block as usize]).collect()
    }

    /// The difference of erase counts at which cold data moves; none where none does.
    pub fn wear_threshold(&self) -> Option<u32> {
        self.wear_threshold
    }

    /// Shape and rules of the chip.
    pub fn geometry(&self) -> &Geometry {
        self.chip.geometry()
    }

    /// Pages per block, N.
    #[inline]
    pub fn pages_per_block(&self) -> u32 {
        self.chip.geometry().pages_per_block
    }

    /// Physical block behind a virtual one.
    pub fn physical_block(&self, block: u32) -> u32 {
        self.physical[block as usize]
    }

    /// Number of the next program.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Free blocks a layer may allocate.
    #[inline]
    pub fn free_blocks(&self) -> usize {
        self.free.len()
    }

    /// The free blocks, in the order in which they will be taken.
    pub fn free_list(&self) -> Vec<u32> {
        self.free.blocks()
    }

    /// Takes an erased block from the free pool.
    ///
    /// # Errors
    /// [`FtlError::NoFreeBlock`]; [`FtlError::Nand`] at a power loss.
    pub fn allocate(&mut self) -> Result<u32, FtlError> {
        loop {
            // Taken before it is erased: a block whose erase fails is retired and must not be in
            // the pool.
            let block = self.take_free().ok_or(FtlError::NoFreeBlock)?;
            self.is_free.remove(block as usize);
            // Free blocks of a scan are erased before their first use, since their last erase may
            // have been cut.
            if !self.needs_erase.contains(block as usize) || self.erase(block)? {
                debug_assert_eq!(self.next_page(block), 0, "a free block is erased");
                return Ok(block);
            }
            // The retired block came from the pool; a spare one takes its place there.
            self.free_spare();
        }
    }

    /// Erases a block and returns it to the free pool; a block whose erase fails is retired.
    ///
    /// # Errors
    /// [`FtlError::Nand`] at a power loss.
    pub fn release(&mut self, block: u32) -> Result<(), FtlError> {
        debug_assert!(!self.is_free.contains(block as usize), "a block is released once");
        debug_assert!(!self.reserve.contains(&block), "no layer holds a block of the reserve");
        self.erase_to_free(block)?;
        if let Some(interval_erases) = self.wear_check_erases {
            // Counted in erases and not in time: wear comes from erases alone.
            self.erases_to_wear_check -= 1;
            if self.erases_to_wear_check == 0 {
                self.erases_to_wear_check = interval_erases;
                self.level_wear()?;
            }
        }
        Ok(())
    }

    /// Programs logical page `lpn` at `at`, in a block that plays `role`.
    ///
    /// A block in which the program fails is replaced first, so this fails only at a power loss
    /// or without a free block.
    ///
    /// # Errors
    /// [`FtlError::NoFreeBlock`]; [`FtlError::Nand`] at a power loss.
    #[inline]
    pub fn program(
        &mut self,
        at: VirtualPage,
        lpn: u32,
        role: Role,
        data: Option<&[u8]>,
    ) -> Result<(), FtlError> {
        debug_assert!(self.may_program(at.block), "{at:?} is in a free or sealed block");
        // Before the tag is drawn, so that sequence numbers stay in the order of programs.
        self.pad(at)?;
        let tag = self.next_tag(lpn, role);
        // One tag for the first attempt and all retries: the page is the same.
        match self.chip.program(self.on_chip(at), tag, data) {
            Ok(()) => Ok(()),
            Err(NandError::ProgramFailed { .. }) => {
                self.retry(at, |chip, at| chip.program(at, tag, data))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Programs an array page from `at`, its first page, on: a page for each of `lpns`, then padding.
    ///
    /// # Errors
    /// As [`Flash::program`].
    pub fn program_together(
        &mut self,
        at: VirtualPage,
        lpns: &[u32],
        role: Role,
    ) -> Result<(), FtlError> {
        debug_assert!(self.may_program(at.block), "{at:?} is in a free or sealed block");
        self.pad(at)?;
        let sequence = self.next_sequences();
        match self.chip.program_together(self.on_chip(at), lpns, sequence, role) {
            Ok(()) => Ok(()),
            Err(NandError::ProgramFailed { .. }) => {
                self.retry(at, |chip, at| chip.program_together(at, lpns, sequence, role))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Copies `pages` of block `from` to the array page that begins at `to`: a read for each array page that
    /// holds some of them, and one program.
    ///
    /// # Errors
    /// As [`Flash::program`].
    pub(crate) fn copy_together(
        &mut self,
        from: u32,
        pages: &[u32],
        to: VirtualPage,
        role: Role,
    ) -> Result<(), FtlError> {
        debug_assert!(self.may_program(to.block), "{to:?} is in a free or sealed block");
        debug_assert!(from != to.block, "a copy leaves its block");
        self.pad(to)?;
        let sequence = self.next_sequences();
        let from = self.physical[from as usize];
        match self.chip.copy_together(from, pages, self.on_chip(to), sequence, role) {
            Ok(()) => Ok(()),
            Err(NandError::ProgramFailed { .. }) => {
                self.retry(to, |chip, to| chip.copy_together(from, pages, to, sequence, role))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a page of the array page that was read last: it only crosses the bus.
    ///
    /// # Errors
    /// As [`Flash::read`].
    #[inline]
    pub(crate) fn read_register(&mut self, at: VirtualPage, lpn: u32) -> Result<(), FtlError> {
        match self.chip.read_register(self.on_chip(at)) {
            Ok(false) => Ok(()),
            Ok(true) | Err(NandError::Uncorrectable { .. }) => Err(FtlError::Lost { lpn }),
            Err(error) => Err(error.into()),
        }
    }

    /// Pages that one program writes.
    #[inline]
    pub(crate) fn pages_per_program(&self) -> u32 {
        self.chip.geometry().pages_per_program
    }

    /// First of the numbers for the pages of one program.
    fn next_sequences(&mut self) -> u64 {
        let first = self.sequence;
        self.sequence += u64::from(self.pages_per_program());
        first
    }

    /// Copies logical page `lpn` from `from` to `to`: one page read, one page program.
    ///
    /// # Errors
    /// As [`Flash::program`].
    #[inline]
    pub fn copy(
        &mut self,
        from: VirtualPage,
        to: VirtualPage,
        lpn: u32,
        role: Role,
    ) -> Result<(), FtlError> {
        debug_assert!(self.may_program(to.block), "{to:?} is in a free or sealed block");
        debug_assert!(from.block != to.block, "a copy leaves its block");
        self.pad(to)?;
        let tag = self.next_tag(lpn, role);
        let from = self.on_chip(from);
        match self.chip.copy(from, self.on_chip(to), tag) {
            Ok(()) => Ok(()),
            Err(NandError::ProgramFailed { .. }) => {
                self.retry(to, |chip, to| chip.copy(from, to, tag))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Copies pages of block `from` to consecutive pages from `to` on, all of them or none.
    ///
    /// `lpns` are their logical pages, in the order in which they lie in their block. Returns false
    /// where single copies are needed (see [`Chip::copy_run`]).
    #[inline]
    pub(crate) fn copy_run(
        &mut self,
        from: u32,
        lpns: &[u32],
        to: VirtualPage,
        role: Role,
    ) -> bool {
        debug_assert!(self.may_program(to.block), "{to:?} is in a free or sealed block");
        debug_assert!(from != to.block, "a copy leaves its block");
        #[cfg(test)]
        if self.copies_singly {
            return false;
        }
        let from = self.physical[from as usize];
        let is_done = self.chip.copy_run(from, lpns, self.on_chip(to), self.sequence, role);
        if is_done {
            self.sequence += lpns.len() as u64;
            #[cfg(test)]
            {
                self.runs += 1;
            }
        }
        is_done
    }

    /// Reads logical page `lpn` at `at`; `data` receives its bytes on a chip that stores them.
    ///
    /// # Errors
    /// [`FtlError::Lost`] if it cannot be read; [`FtlError::Nand`] at a power loss.
    #[inline]
    pub fn read(
        &mut self,
        at: VirtualPage,
        lpn: u32,
        data: Option<&mut [u8]>,
    ) -> Result<(), FtlError> {
        let at = self.on_chip(at);
        let is_lost = match data {
            Some(data) if self.chip.stores_bytes() => {
                self.chip.read_data(at, data).map(Tag::is_lost)
            }
            _ => self.chip.read_lost(at),
        };
        match is_lost {
            // Moving a page that cannot be read leaves a marked substitute, which must not pass for
            // the data.
            Ok(false) => {
                debug_assert_eq!(self.chip.peek(at).lpn(), lpn, "{at:?} holds another page");
                Ok(())
            }
            Ok(_) | Err(NandError::Uncorrectable { .. }) => Err(FtlError::Lost { lpn }),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the spare area of a page, for layers that keep the state of pages there.
    ///
    /// # Errors
    /// [`FtlError::Nand`] at a power loss. An unreadable spare area is a used one.
    pub fn probe(&mut self, at: VirtualPage) -> Result<(), FtlError> {
        // What cannot be read was programmed, and that is all a probe asks.
        match self.chip.probe_spare(self.on_chip(at)) {
            Ok(()) | Err(NandError::Uncorrectable { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Marks a block as having a successor: one spare program of its first page.
    ///
    /// # Errors
    /// [`FtlError::Nand`] at a power loss, and where the part's NOP allows no further program.
    pub fn link(&mut self, block: u32) -> Result<(), FtlError> {
        Ok(self.chip.program_spare(self.on_chip(VirtualPage::new(block, 0)), Tag::link())?)
    }

    /// True if the page can be programmed now: erased, in the part's order, in a block not sealed.
    ///
    /// Costs nothing: it stands for state the layer holds in RAM. Layers that look in the spare
    /// area instead call [`Flash::probe`] as well.
    #[inline]
    pub fn is_programmable(&self, at: VirtualPage) -> bool {
        if self.sealed.contains(at.block as usize) {
            return false;
        }
        let on_chip = self.on_chip(at);
        match self.geometry().page_order {
            PageOrder::Any => !self.chip.is_programmed(on_chip),
            PageOrder::Ascending | PageOrder::Sequential => {
                // A part with ascending order takes no page below one that is programmed, even if
                // it is erased.
                at.page >= self.chip.next_page(on_chip.block)
            }
        }
    }

    /// Lowest page above all programmed ones; N for a sealed or full block.
    #[inline]
    pub fn next_page(&self, block: u32) -> u32 {
        if self.sealed.contains(block as usize) {
            return self.pages_per_block();
        }
        self.chip.next_page(self.physical[block as usize])
    }

    /// True if the page was programmed since the last erase, readable or not.
    #[inline]
    pub fn is_programmed(&self, at: VirtualPage) -> bool {
        self.chip.is_programmed(self.on_chip(at))
    }

    /// True of a block that a layer took and may use: not free, not kept in reserve, not bad.
    pub fn is_in_use(&self, block: u32) -> bool {
        !self.is_free.contains(block as usize)
            && !self.reserve.contains(&block)
            && !self.chip.is_bad(self.physical[block as usize])
    }

    /// True if the block was partly programmed before a power cut and must not be programmed on.
    pub fn is_sealed(&self, block: u32) -> bool {
        self.sealed.contains(block as usize)
    }

    /// Allows a partly filled block to be programmed on, for layers that know it is safe.
    pub(crate) fn unseal(&mut self, block: u32) {
        self.sealed.remove(block as usize);
    }

    /// Tag of a page without an operation: for tables that a layer holds in RAM, and for displays.
    #[inline]
    pub fn peek(&self, at: VirtualPage) -> Tag {
        self.chip.peek(self.on_chip(at))
    }

    /// Logical page numbers of a block's tags, page by page, without an operation.
    #[inline]
    pub fn peek_lpns(&self, block: u32) -> impl ExactSizeIterator<Item = u32> {
        self.chip.peek_lpns(self.physical[block as usize])
    }

    /// Reads every spare area, drops the incomplete half of interrupted exchanges and starts over:
    /// empty blocks are free (and will be erased before use), all others are in use and sealed
    /// unless full.
    ///
    /// # Errors
    /// [`FtlError::Nand`] at a power loss.
    pub fn scan(&mut self) -> Result<Scan, FtlError> {
        let mut scan = scan_chip(&mut self.chip)?;
        let dropped = scan.drop_incomplete_copies();
        let blocks = self.geometry().blocks;
        self.physical = (0..blocks).collect();
        // Drawn anew from the chip: all exchanges are forgotten, and tags alone say what lies
        // where.
        self.free = FreePool::new(self.least_worn_first);
        self.is_free.clear();
        self.sealed.clear();
        self.needs_erase.clear();
        self.reserve.clear();
        // Above all numbers found, so that pages written from now on are newer.
        self.sequence = scan.next_sequence();
        // At once: left for their next use, they would show their pages again at another cut.
        for block in dropped {
            self.erase(block)?;
        }
        for block in 0..blocks {
            if self.chip.is_bad(block) {
                continue;
            }
            if scan.blocks[block as usize].is_empty() {
                // It reads as erased, but its erase may have been cut short.
                self.needs_erase.insert(block as usize);
                self.add_free(block);
            } else if self.chip.next_page(block) < self.pages_per_block()
                // On a part without an order any page may have been begun, so even a block that
                // looks full is sealed.
                || self.geometry().page_order == PageOrder::Any
            {
                self.sealed.insert(block as usize);
            }
        }
        Ok(scan)
    }

    /// All state as text, to be compared.
    #[cfg(test)]
    pub(crate) fn state(&self) -> String {
        let bits = [&self.is_free, &self.sealed, &self.needs_erase];
        let bits = bits.map(|set| set.ones().collect::<Vec<_>>());
        let wear = (self.erases_to_wear_check, self.reserve_blocks, self.leveled_blocks);
        let counts = (self.sequence, self.merges, self.retired_blocks, wear);
        let blocks = (&self.physical, &self.free, &self.reserve, bits);
        format!("{blocks:?} {counts:?} {:?}", self.chip)
    }

    fn may_program(&self, block: u32) -> bool {
        !self.is_free.contains(block as usize) && !self.sealed.contains(block as usize)
    }

    /// True once in four times as many operations as the chip has pages, in debug builds: an audit looks
    /// at all of them, so that it costs an operation a fraction of a page. Not true without power, when
    /// an operation may be half done.
    pub(crate) fn audit_is_due(&mut self) -> bool {
        if !cfg!(debug_assertions) {
            return false;
        }
        self.unaudited += 1;
        let is_due = self.unaudited >= 4 * self.geometry().pages() && self.chip.is_powered();
        if is_due {
            self.unaudited = 0;
        }
        is_due
    }

    /// Checks the tables of blocks, in debug builds.
    pub(crate) fn audit(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let mut virtual_of = vec![None; self.physical.len()];
        for (block, physical) in (0_u32..).zip(&self.physical) {
            let other = virtual_of[*physical as usize].replace(block);
            assert!(other.is_none(), "{other:?} and {block} are both block {physical}");
        }
        let free = self.free.blocks();
        assert_eq!(free.len(), self.is_free.count_ones(..), "the pool has what is marked as free");
        for block in &free {
            let physical = self.physical[*block as usize];
            assert!(self.is_free.contains(*block as usize), "block {block} is marked as free");
            assert!(!self.chip.is_bad(physical), "free block {block} is bad");
            assert!(!self.sealed.contains(*block as usize), "free block {block} is sealed");
            assert!(
                self.chip.next_page(physical) == 0 || self.needs_erase.contains(*block as usize),
                "free block {block} is not erased"
            );
        }
        for block in &self.reserve {
            assert!(!self.is_free.contains(*block as usize), "spare block {block} is free");
            assert!(
                !self.chip.is_bad(self.physical[*block as usize]),
                "spare block {block} is bad"
            );
        }
    }

    /// Where a page of a virtual block lies on the chip.
    #[inline]
    fn on_chip(&self, at: VirtualPage) -> PageAddress {
        PageAddress { block: self.physical[at.block as usize], page: at.page }
    }

    #[inline]
    fn next_tag(&mut self, lpn: u32, role: Role) -> Tag {
        let tag = Tag::new(lpn, self.sequence, role);
        self.sequence += 1;
        tag
    }

    /// Fills the gap before `at` on parts that do not allow one.
    #[inline]
    fn pad(&mut self, at: VirtualPage) -> Result<(), FtlError> {
        // Gaps are programmed only where the part asks for it; elsewhere they stay erased.
        let next = self.chip.next_page(self.physical[at.block as usize]);
        if at.page <= next || self.geometry().page_order != PageOrder::Sequential {
            return Ok(());
        }
        self.fill_gap(at.block, next..at.page)
    }

    #[cold]
    fn fill_gap(&mut self, block: u32, pages: std::ops::Range<u32>) -> Result<(), FtlError> {
        if self.pages_per_program() > 1 {
            // An array page without a logical page is all padding.
            return pages.step_by(self.pages_per_program() as usize).try_for_each(|page| {
                self.program_together(VirtualPage::new(block, page), &[], Role::Padding)
            });
        }
        for page in pages {
            let gap = VirtualPage::new(block, page);
            let tag = self.next_tag(u32::MAX, Role::Padding);
            match self.chip.program(self.on_chip(gap), tag, None) {
                Ok(()) => {}
                Err(NandError::ProgramFailed { .. }) => {
                    self.retry(gap, |chip, at| chip.program(at, tag, None))?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Erases a block; false if that failed and the block was retired.
    fn erase(&mut self, block: u32) -> Result<bool, FtlError> {
        match self.chip.erase(self.physical[block as usize]) {
            Ok(()) => {
                self.sealed.remove(block as usize);
                self.needs_erase.remove(block as usize);
                Ok(true)
            }
            Err(NandError::EraseFailed { .. }) => {
                self.retire(block)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Erases a block into the free pool; if that fails, a spare one takes its place there.
    fn erase_to_free(&mut self, block: u32) -> Result<(), FtlError> {
        if self.erase(block)? {
            self.push_free(block);
        } else {
            // The pool must not shrink with each retired block, as long as there are spare ones.
            self.free_spare();
        }
        Ok(())
    }

    fn free_spare(&mut self) {
        if let Some(spare) = self.reserve.pop() {
            self.push_free(spare);
        }
    }

    /// Counts a block as a spare one while there are too few of them, else as free.
    fn add_free(&mut self, block: u32) {
        if self.reserve.len() < self.reserve_blocks as usize {
            self.reserve.push(block);
        } else {
            self.push_free(block);
        }
    }

    fn push_free(&mut self, block: u32) {
        debug_assert!(!self.is_free.contains(block as usize), "a block is free once");
        debug_assert!(!self.chip.is_bad(self.physical[block as usize]), "no bad block is free");
        self.is_free.insert(block as usize);
        // Cycles of the block's whole life: counts since the counters were last set to zero would
        // make a block that was released before that look more worn than it is.
        self.free.push(block, self.chip.erase_cycles(self.physical[block as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::{Flash, VirtualPage};
    use crate::tests::panics_with;
    use crate::{COMMON_PARAMETERS, Settings};
    use nand::{Chip, FaultSettings, Role, Storage};

    /// What breaks a rule.
    type Break = fn(&mut Flash);

    /// Eight blocks of which one is a spare one and two are in use: block 1 with a page, block 2 erased.
    fn flash() -> Flash {
        let mut part = nand::find_part("published-small-block").expect("in the catalogue");
        part.geometry.blocks = 8;
        let given = [("reserve_blocks".to_owned(), settings::Value::Integer(1))].into();
        let settings = Settings::new(COMMON_PARAMETERS, &given).expect("settings of all layers");
        let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
        let mut flash = Flash::new(chip, &settings);
        assert_eq!([(); 2].map(|()| flash.allocate().expect("free")), [1, 2]);
        program(&mut flash, 1, 0);
        flash.audit();
        flash
    }

    fn program(flash: &mut Flash, block: u32, page: u32) {
        flash.program(VirtualPage::new(block, page), 7, Role::Data, None).expect("programmed");
    }

    #[test]
    fn every_call_that_breaks_a_rule_of_blocks_is_seen() {
        let broken: [(&str, Break); 9] = [
            ("a free block is erased", |flash| {
                flash.physical.swap(1, 3);
                assert_ne!(flash.allocate().expect("seen before"), 0);
            }),
            ("a block is released once", |flash| flash.release(5).expect("seen before")),
            ("no layer holds a block of the reserve", |flash| {
                flash.release(0).expect("seen before");
            }),
            ("is in a free or sealed block", |flash| program(flash, 4, 0)),
            ("is in a free or sealed block", |flash| {
                flash.sealed.insert(1);
                let (from, to) = (VirtualPage::new(2, 0), VirtualPage::new(1, 1));
                flash.copy(from, to, 7, Role::Data).expect("seen before");
            }),
            ("a copy leaves its block", |flash| {
                let (from, to) = (VirtualPage::new(1, 0), VirtualPage::new(1, 1));
                flash.copy(from, to, 7, Role::Data).expect("seen before");
            }),
            ("a free block is taken first", |flash| flash.retire(4).expect("seen before")),
            ("a block is free once", |flash| flash.push_free(4)),
            ("no bad block is free", |flash| {
                flash.chip.mark_bad(2).expect("marked");
                flash.push_free(2);
            }),
        ];
        for (message, break_it) in broken {
            panics_with(message, || break_it(&mut flash()));
        }
    }

    #[test]
    fn every_table_of_blocks_that_contradicts_another_is_seen() {
        let broken: [(&str, Break); 8] = [
            ("are both block 1", |flash| flash.physical[2] = 1),
            ("the pool has what is marked as free", |flash| flash.is_free.insert(1)),
            ("block 3 is marked as free", |flash| {
                flash.is_free.remove(3);
                flash.is_free.insert(1);
            }),
            ("free block 6 is bad", |flash| flash.chip.mark_bad(6).expect("marked")),
            ("free block 5 is sealed", |flash| flash.sealed.insert(5)),
            ("free block 4 is not erased", |flash| flash.physical.swap(1, 4)),
            ("spare block 3 is free", |flash| flash.reserve.push(3)),
            ("spare block 0 is bad", |flash| flash.chip.mark_bad(0).expect("marked")),
        ];
        for (message, break_it) in broken {
            panics_with(message, || {
                let mut flash = flash();
                break_it(&mut flash);
                flash.audit();
            });
        }
    }
}
