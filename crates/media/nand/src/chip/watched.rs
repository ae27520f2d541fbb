//! Everything that makes an operation other than plain: power cuts, torn pages and blocks, injected
//! faults, the log. A chip without any of these never comes here.
//!
//! An operation that began is counted and logged, whatever became of it: torn, failed or complete.
//! One that is refused, or cut before it began, is neither.

use super::{
    Chip, ChipOperation, CutPoint, DATA_PROGRAMS, LowerPages, SPARE_PROGRAM, Torn, UNSTABLE,
};
use crate::fault::Faults;
use crate::random::Stream;
use crate::{FaultSettings, NandError, PageAddress, RawOperation, Tag};

/// A power cut to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    operations_left: u64,
    point: CutPoint,
}

impl Chip {
    /// Cuts the power at the operation after `operations` more ones, at `point` of it.
    pub fn cut_power_after(&mut self, operations: u64, point: CutPoint) {
        self.cut = Some(Cut { operations_left: operations, point });
        self.watch();
    }

    /// Chooses what torn operations leave, from the next cut on.
    pub fn set_torn(&mut self, torn: Torn) {
        self.torn = torn;
    }

    /// Chooses what becomes of lower pages when a program of their word line is torn.
    pub fn set_lower_pages(&mut self, lower_pages: LowerPages) {
        self.lower_pages = lower_pages;
    }

    /// Restores the supply and forgets a pending cut.
    pub fn power_on(&mut self) {
        self.powered = true;
        self.cut = None;
        self.watch();
    }

    /// False after a power cut, until `power_on`.
    pub fn is_powered(&self) -> bool {
        self.powered
    }

    /// Changes the faults the chip shows from now on; wear and contents stay.
    ///
    /// Reads and ages of pages are recorded while bit errors are on. When they are switched on,
    /// all pages count as programmed at that moment and never read.
    pub fn set_faults(&mut self, faults: &FaultSettings) {
        let old = self.faults.take();
        self.faults = faults.needs_state().then(|| {
            let mut new = Faults::new(faults.clone(), &self.errors, &self.geometry);
            // Reads and ages belong to the chip and outlive a change of settings.
            if let Some(old) = old {
                new.keep_history(*old);
            }
            Box::new(new)
        });
        self.watch();
    }

    /// Shows bit errors from now on that stay from read to read, until their block is erased; other faults of
    /// the chip stay as they are.
    ///
    /// Retention and wear change cells, so that a second read meets the same errors, and a later one those and
    /// more. Errors of single reads (noise of sensing) are left out.
    pub fn keep_bit_errors(&mut self, seed: u64) {
        let known = self.faults.as_ref().map(|faults| faults.settings().clone());
        let settings = FaultSettings { bit_errors: true, ..known.unwrap_or_default() };
        self.set_faults(&settings);
        if let Some(faults) = &mut self.faults {
            faults.keep_errors(seed);
        }
    }

    /// Lets `duration_ns` of simulated time pass for retention; without bit errors it has no effect.
    pub fn age(&mut self, duration_ns: u64) {
        if let Some(faults) = &mut self.faults {
            faults.pass_time(duration_ns);
        }
    }

    /// Starts a log of operations.
    pub fn start_log(&mut self) {
        self.log = Some(Vec::new());
        self.watch();
    }

    /// Takes the operations logged since the start or the last call.
    pub fn take_log(&mut self) -> Vec<ChipOperation> {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Starts a journal of the operations of a raw NAND driver that change the medium.
    pub fn start_journal(&mut self) {
        self.journal = Some(Vec::new());
        self.watch();
    }

    /// Operations journaled since the start; a number for the moment.
    pub fn journaled(&self) -> u64 {
        self.journal.as_ref().map_or(0, |journal| journal.len() as u64)
    }

    /// Takes the journal and ends it.
    pub fn take_journal(&mut self) -> Vec<RawOperation> {
        let journal = self.journal.take().unwrap_or_default();
        self.watch();
        journal
    }

    /// Journals an operation that is about to be carried out.
    pub(super) fn note(&mut self, operation: impl FnOnce() -> RawOperation) {
        // A chip without power journals nothing: nothing reaches its cells.
        if self.powered
            && let Some(journal) = &mut self.journal
        {
            journal.push(operation());
        }
    }

    #[cold]
    pub(super) fn note_program(&mut self, at: PageAddress, data: &[u8], oob: &[u8]) {
        self.note(|| {
            if data.is_empty() {
                RawOperation::SpareProgram { at, oob: oob.into() }
            } else {
                RawOperation::PageProgram { at, data: data.into(), oob: oob.into() }
            }
        });
    }

    pub(super) fn watch(&mut self) {
        // One flag in front of all of these keeps the plain operation short.
        self.watched = self.faults.is_some()
            || self.cut.is_some()
            || self.log.is_some()
            || self.journal.is_some()
            || self.changes.is_some()
            || !self.powered
            || !self.unreadable.is_empty();
    }

    /// The answer to an operation that breaks a rule: a chip without power does not even say that.
    #[cold]
    pub(super) fn refuse(&self, error: NandError) -> NandError {
        if self.powered { error } else { NandError::PowerLost }
    }

    /// Start of any operation: power, the countdown to a cut, the log.
    #[cold]
    pub(super) fn enter(&mut self, operation: ChipOperation) -> Result<(), NandError> {
        if !self.powered {
            return Err(NandError::PowerLost);
        }
        // A cut before the operation: it is neither counted nor logged.
        if self.cut.is_some_and(|cut| cut.operations_left == 0 && cut.point == CutPoint::Before) {
            self.powered = false;
            return Err(NandError::PowerLost);
        }
        if let Some(log) = &mut self.log {
            log.push(operation);
        }
        Ok(())
    }

    /// Counts an operation towards a pending cut; the cut's point if this is the operation it hits.
    fn take_cut(&mut self) -> Option<CutPoint> {
        let cut = self.cut.as_mut()?;
        // The operation that finds none left is the one the cut hits.
        if cut.operations_left > 0 {
            cut.operations_left -= 1;
            return None;
        }
        self.powered = false;
        Some(cut.point)
    }

    /// End of a read of `data_bytes` of data, besides the spare area.
    #[cold]
    pub(super) fn leave_read(
        &mut self,
        at: PageAddress,
        index: usize,
        data_bytes: u32,
    ) -> Result<(), NandError> {
        // A read changes nothing, so it does not matter where in it the power fails.
        if self.take_cut().is_some() {
            return Err(NandError::PowerLost);
        }
        self.correct_read(at, index, data_bytes)
    }

    /// What the ECC makes of `data_bytes` of a page that is in the register.
    #[cold]
    pub(super) fn correct_read(
        &mut self,
        at: PageAddress,
        index: usize,
        data_bytes: u32,
    ) -> Result<(), NandError> {
        let mut uncorrectable = self.unreadable.contains(&(index as u32));
        let cycles = self.erase_cycles(at.block);
        let is_programmed = self.is_programmed(at);
        if let Some(faults) = &mut self.faults {
            // Erased bytes need no ECC, and the spare area has none here.
            let checked_bytes = if is_programmed { data_bytes } else { 0 };
            let errors = faults.read_errors(&self.errors, at.block, index, cycles, checked_bytes);
            self.ecc.corrected_bits += errors.corrected_bits;
            self.ecc.corrected_reads += u64::from(errors.corrected_bits > 0);
            uncorrectable |= errors.is_uncorrectable;
        }
        if uncorrectable {
            self.ecc.uncorrectable_reads += 1;
            return Err(NandError::Uncorrectable { block: at.block, page: at.page });
        }
        Ok(())
    }

    /// Start of a program; `Ok(false)` if it completes and the power fails after it.
    #[cold]
    pub(super) fn enter_program(
        &mut self,
        at: PageAddress,
        index: usize,
        tag: Tag,
    ) -> Result<bool, NandError> {
        self.enter(ChipOperation::PageProgram(at, tag))?;
        let cut = self.take_cut();
        if cut == Some(CutPoint::Inside) {
            // It was begun, so its time and its wear count.
            self.count_program(at.page);
            // Raw bytes are torn by `tear_program`, which gets them from its caller.
            if self.torn != Torn::Unreadable {
                self.is_tearing = true;
                return Err(NandError::PowerLost);
            }
            self.tear_array_page(at);
            // Lower pages of the word line share its cells and are lost with it, unless the
            // controller keeps a copy of them until the upper page is programmed.
            for lower in self.geometry.paired_pages(at.page) {
                let lower = PageAddress::new(at.block, lower);
                if self.is_programmed(lower) && self.lower_pages == LowerPages::Lost {
                    self.lose_page(lower);
                }
            }
            return Err(NandError::PowerLost);
        }
        let cycles = self.erase_cycles(at.block);
        let fails = self
            .faults
            .as_mut()
            .is_some_and(|faults| faults.program_fails(&self.errors, index, cycles));
        if fails {
            self.program_failures += 1;
            self.count_program(at.page);
            // A failed program leaves the page used up.
            self.tear_array_page(at);
            let failed = NandError::ProgramFailed { block: at.block, page: at.page };
            return Err(self.refuse(failed));
        }
        Ok(cut.is_none())
    }

    /// Start of a spare-only program; `Ok(false)` if it completes and the power fails after it.
    ///
    /// A mark is a few bits of one byte: torn, it is not there.
    #[cold]
    pub(super) fn enter_spare_program(&mut self, at: PageAddress) -> Result<bool, NandError> {
        self.enter(ChipOperation::SpareProgram(at))?;
        let cut = self.take_cut();
        if cut == Some(CutPoint::Inside) {
            self.counters.spare_programs += 1;
            return Err(NandError::PowerLost);
        }
        Ok(cut.is_none())
    }

    /// Start of an erase; `Ok(false)` if it completes and the power fails after it.
    #[cold]
    pub(super) fn enter_erase(&mut self, block: u32) -> Result<bool, NandError> {
        // In the journal before the cut is looked at: a torn erase is the last entry.
        self.note(|| RawOperation::Erase { block });
        self.enter(ChipOperation::Erase(block))?;
        let cut = self.take_cut();
        if cut == Some(CutPoint::Inside) {
            self.tear_erase(block);
            self.count_erase(block);
            return Err(NandError::PowerLost);
        }
        let cycles = self.erase_cycles(block);
        let fails = self
            .faults
            .as_mut()
            .is_some_and(|faults| faults.erase_fails(&self.errors, block, cycles));
        if fails {
            self.erase_failures += 1;
            // Half erased, as after a cut: data sheets guarantee nothing for such a block.
            self.tear_block(block);
            self.count_erase(block);
            return Err(self.refuse(NandError::EraseFailed { block }));
        }
        Ok(cut.is_none())
    }

    /// What a torn program of raw bytes leaves.
    #[cold]
    pub(super) fn tear_program(&mut self, at: PageAddress, data: &[u8]) {
        self.is_tearing = false;
        let left = match self.torn {
            Torn::Unreadable | Torn::Nothing => return,
            Torn::Prefix => &data[..data.len() / 2],
            Torn::DataOnly => data,
        };
        if left.is_empty() {
            return;
        }
        self.pages.set(at, self.pages.programs(at) + 1, self.pages.tag(at));
        self.raise_next_page(at);
        if let Some(bytes) = &mut self.bytes {
            bytes.program(at, left, &[]);
        }
    }

    /// What a torn erase leaves.
    fn tear_erase(&mut self, block: u32) {
        let pages = self.geometry.pages_per_block;
        match self.torn {
            Torn::Unreadable => self.tear_block(block),
            Torn::Nothing => {}
            Torn::Prefix => {
                (0..pages / 2).for_each(|page| self.wipe_page(PageAddress::new(block, page)));
            }
            Torn::DataOnly => {
                if let Some(bytes) = &mut self.bytes {
                    for page in 0..pages {
                        bytes.erase_data(PageAddress::new(block, page));
                    }
                }
            }
        }
    }

    /// Leaves all pages of one program used up and unreadable.
    fn tear_array_page(&mut self, at: PageAddress) {
        for page in self.pages_with(at.page) {
            self.tear_page(PageAddress::new(at.block, page));
        }
    }

    /// Leaves a page used up and unreadable; its spare area may still take marks, which no read
    /// returns.
    fn tear_page(&mut self, at: PageAddress) {
        // The torn program used up one of those that the part allows. A page that had them all keeps
        // its count, or `check_raw` would compare with a number that no part states.
        let spare_programs = self.pages.programs(at) / SPARE_PROGRAM;
        let spare_programs = (spare_programs + 1).min(self.geometry.oob_programs_max);
        let programs = DATA_PROGRAMS | (spare_programs * SPARE_PROGRAM);
        self.pages.set(at, programs, self.pages.tag(at));
        self.raise_next_page(at);
        self.lose_page(at);
    }

    /// Makes a page unreadable. In an image its data is noise, as on a real chip read without ECC.
    fn lose_page(&mut self, at: PageAddress) {
        let index = self.index(at) as u32;
        self.unreadable.insert(index);
        if let Some(bytes) = &mut self.bytes {
            // Noise by the page's number: every run leaves the same image.
            let mut noise = Stream::new(u64::from(index), "torn page");
            for word in bytes.page_mut(at).0.chunks_mut(8) {
                for (byte, bits) in word.iter_mut().zip(noise.next_u64().to_le_bytes()) {
                    *byte &= bits;
                }
            }
        }
        self.watch();
    }

    /// Leaves a block half erased: by its contents, each page kept, blank or unreadable.
    ///
    /// Which of the three is drawn from block, erase count and page, so that one run over all cut
    /// points meets blocks that look untouched, empty and mixed.
    fn tear_block(&mut self, block: u32) {
        // By block and wear: the next torn erase of the same block looks different.
        let seed = u64::from(block) << 32 | u64::from(self.erase_cycles(block));
        let mut draw = Stream::new(seed, "torn erase");
        let look = draw.below(3);
        for page in 0..self.geometry.pages_per_block {
            let at = PageAddress::new(block, page);
            match if look == 2 { draw.below(3) } else { look } {
                0 => {}
                1 => self.wipe_page(at),
                _ if self.is_programmed(at) => self.lose_page(at),
                _ => {}
            }
        }
        // Its cells are in an unknown state, so nothing may be programmed before the next erase.
        self.blocks[block as usize] |= UNSTABLE;
        self.watch();
    }

    fn wipe_page(&mut self, at: PageAddress) {
        let index = self.index(at);
        self.pages.set(at, 0, Tag::ERASED);
        self.unreadable.remove(&(index as u32));
        if let Some(bytes) = &mut self.bytes {
            bytes.erase_page(at);
        }
    }
}
