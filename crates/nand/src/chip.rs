//! The chip: state of every page and block, the part's rules, counters, faults and power cuts.
//!
//! Layout of the state is chosen for the counting loops: eleven bytes a page in four flat arrays,
//! no allocation in an operation, and one flag (`watched`) in front of everything unusual.

use crate::fault::Faults;
use crate::random::Stream;
use crate::{Counters, EccCounters, ErrorModel, FaultSettings, Geometry, NandError, PageOrder, Part, Tag, Timing};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A page by its block and its number within the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// Block number.
    pub block: u32,
    /// Page within the block.
    pub page: u32,
}

impl PageAddress {
    /// The page `page` of block `block`.
    pub const fn new(block: u32, page: u32) -> Self {
        Self { block, page }
    }
}

/// What a chip keeps beside counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Spare-area tags only: counting runs.
    Tags,
    /// Data and spare bytes as well.
    Bytes,
}

/// Where in an operation the supply fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutPoint {
    /// The operation never starts.
    Before,
    /// The operation is torn: a page is left unreadable, a block half erased.
    Inside,
    /// The operation completes, but nobody hears of it.
    After,
}

/// One operation as the log of a chip shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipOperation {
    /// Page read.
    PageRead(PageAddress),
    /// Spare-only read.
    SpareRead(PageAddress),
    /// Page program with the tag written.
    PageProgram(PageAddress, Tag),
    /// Spare-only program.
    SpareProgram(PageAddress),
    /// Block erase.
    Erase(u32),
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    operations_left: u64,
    point: CutPoint,
}

const DATA_PROGRAMS: u8 = 0x0f;
const SPARE_PROGRAM: u8 = 0x10;
const NEXT_PAGE: u32 = 0xffff;
const BAD: u32 = 1 << 16;
const UNSTABLE: u32 = 1 << 17;

/// A NAND chip.
#[derive(Clone, Debug)]
pub struct Chip {
    geometry: Geometry,
    timing: Timing,
    errors: ErrorModel,
    /// Low nibble: data programs since the erase; high nibble: spare programs.
    programs: Vec<u8>,
    lpn: Vec<u32>,
    sequence_low: Vec<u32>,
    meta: Vec<u16>,
    /// Low half: lowest page above all programmed ones; then the flags `BAD` and `UNSTABLE`.
    blocks: Vec<u32>,
    erase_counts: Vec<u32>,
    counters: Counters,
    programs_by_position: [u64; 4],
    /// Data and spare bytes by block, shared between clones until written.
    bytes: Option<Vec<Option<Arc<[u8]>>>>,
    /// True if any of the fields below needs a look on every operation.
    watched: bool,
    unreadable: FxHashSet<u32>,
    faults: Option<Box<Faults>>,
    cut: Option<Cut>,
    powered: bool,
    log: Option<Vec<ChipOperation>>,
}

impl Chip {
    /// An erased chip of the given part.
    pub fn new(part: &Part, storage: Storage, faults: &FaultSettings) -> Self {
        let pages = part.geometry.pages() as usize;
        let blocks = part.geometry.blocks;
        let mut chip = Self {
            geometry: part.geometry.clone(),
            timing: part.timing.clone(),
            errors: part.errors.clone(),
            programs: vec![0; pages],
            lpn: vec![Tag::ERASED.lpn; pages],
            sequence_low: vec![Tag::ERASED.sequence_low; pages],
            meta: vec![Tag::ERASED.meta; pages],
            blocks: vec![0; blocks as usize],
            erase_counts: vec![0; blocks as usize],
            counters: Counters::default(),
            programs_by_position: [0; 4],
            bytes: (storage == Storage::Bytes).then(|| vec![None; blocks as usize]),
            watched: false,
            unreadable: FxHashSet::default(),
            faults: None,
            cut: None,
            powered: true,
            log: None,
        };
        if faults.bit_errors || faults.draws_failures() {
            chip.faults = Some(Box::new(Faults::new(faults.clone(), &part.errors, blocks)));
        }
        if faults.factory_bad_blocks {
            let mut stream = Stream::new(faults.seed, "factory bad blocks");
            // Data sheets guarantee block 0.
            for block in 1..blocks as usize {
                if stream.unit() < part.errors.factory_bad_probability {
                    chip.blocks[block] |= BAD;
                }
            }
        }
        chip.watch();
        chip
    }

    /// Shape and rules.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Array and bus times.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Endurance and error constants.
    pub fn errors(&self) -> &ErrorModel {
        &self.errors
    }

    /// True if data bytes are kept.
    pub fn stores_bytes(&self) -> bool {
        self.bytes.is_some()
    }

    /// Operations carried out so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What the ECC saw so far.
    pub fn ecc_counters(&self) -> EccCounters {
        self.faults.as_ref().map_or_else(EccCounters::default, |faults| faults.ecc)
    }

    /// Failed programs and failed erases so far.
    pub fn failures(&self) -> (u64, u64) {
        self.faults.as_ref().map_or((0, 0), |faults| (faults.program_failures, faults.erase_failures))
    }

    /// Erases of every block so far.
    pub fn erase_counts(&self) -> &[u32] {
        &self.erase_counts
    }

    /// Sets all counters to zero, erase counts included; the contents stay.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
        self.programs_by_position = [0; 4];
        self.erase_counts.fill(0);
    }

    /// Time spent in reads, programs and erases, nanoseconds, one operation after the other.
    pub fn busy_ns(&self) -> [u64; 3] {
        let mut busy_ns = self.timing.busy_ns(&self.geometry, &Counters { page_programs: 0, ..self.counters });
        if self.timing.program_ns.len() == 1 {
            busy_ns[1] += self.counters.page_programs * self.timing.page_program_ns(&self.geometry, 0);
        } else {
            for (position, count) in self.programs_by_position.iter().enumerate() {
                busy_ns[1] += count * self.timing.page_program_ns(&self.geometry, position);
            }
        }
        busy_ns
    }

    /// True if the block is marked bad.
    #[inline]
    pub fn is_bad(&self, block: u32) -> bool {
        self.blocks[block as usize] & BAD != 0
    }

    /// True if the page is programmed, readable or not. Not an operation: the state a caller keeps in RAM.
    #[inline]
    pub fn is_programmed(&self, at: PageAddress) -> bool {
        self.programs[self.index(at)] & DATA_PROGRAMS != 0
    }

    /// Lowest page above all programmed pages of the block. Not an operation.
    #[inline]
    pub fn next_page(&self, block: u32) -> u32 {
        self.blocks[block as usize] & NEXT_PAGE
    }

    /// The tag of a page as the last full read would show it. Not an operation.
    #[inline]
    pub fn peek(&self, at: PageAddress) -> Tag {
        self.tag(self.index(at))
    }

    /// Reads a page, data and spare.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] for torn pages and too many bit errors; [`NandError::PowerLost`].
    #[inline]
    pub fn read(&mut self, at: PageAddress) -> Result<Tag, NandError> {
        let index = self.checked_index(at)?;
        if self.watched {
            self.enter(ChipOperation::PageRead(at))?;
        }
        self.counters.page_reads += 1;
        if self.watched {
            self.leave_read(at, index, self.geometry.page_data_bytes)?;
        }
        Ok(self.tag(index))
    }

    /// Reads a page and copies its data area to `data` (at most a page).
    ///
    /// # Errors
    /// As [`Chip::read`]; [`NandError::NoStorage`] on a chip without bytes.
    pub fn read_data(&mut self, at: PageAddress, data: &mut [u8]) -> Result<Tag, NandError> {
        let tag = self.read(at)?;
        let start = self.page_start(at.page);
        match self.bytes.as_ref().ok_or(NandError::NoStorage)?[at.block as usize].as_ref() {
            Some(block) => data.copy_from_slice(&block[start..start + data.len()]),
            None => data.fill(0xff),
        }
        Ok(tag)
    }

    /// Reads the spare area of a page alone.
    ///
    /// # Errors
    /// As [`Chip::read`].
    #[inline]
    pub fn read_spare(&mut self, at: PageAddress) -> Result<Tag, NandError> {
        let index = self.checked_index(at)?;
        if self.watched {
            self.enter(ChipOperation::SpareRead(at))?;
        }
        self.counters.spare_reads += 1;
        if self.watched {
            self.leave_read(at, index, 0)?;
        }
        Ok(self.tag(index))
    }

    /// Programs a page, data and spare. `data` (up to a page) is stored if the chip stores bytes.
    ///
    /// # Errors
    /// The rules of the part; [`NandError::ProgramFailed`], after which the page is used up and
    /// unreadable; [`NandError::PowerLost`].
    #[inline]
    pub fn program(&mut self, at: PageAddress, tag: Tag, data: Option<&[u8]>) -> Result<(), NandError> {
        let index = self.checked_index(at)?;
        self.check_program(at, index)?;
        let completes_before_cut = !self.watched || self.enter_program(at, index, tag)?;
        self.set_tag(index, self.tag(index).and(tag));
        self.programs[index] += 1 + SPARE_PROGRAM;
        let block = &mut self.blocks[at.block as usize];
        *block = (*block & !NEXT_PAGE) | (*block & NEXT_PAGE).max(at.page + 1);
        self.count_program(at.page);
        if self.bytes.is_some() {
            self.store(at, tag, data.unwrap_or(&[]), &[]);
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Programs data and spare bytes as a raw NAND driver does, without a tag.
    ///
    /// `oob` is the whole spare area or empty. Partial programs up to the part's NOP are allowed:
    /// the stored page is the bitwise AND of all programs.
    ///
    /// # Errors
    /// As [`Chip::program`], and [`NandError::NoStorage`].
    pub fn program_raw(&mut self, at: PageAddress, data: &[u8], oob: &[u8]) -> Result<(), NandError> {
        let index = self.checked_index(at)?;
        if self.bytes.is_none() {
            return Err(NandError::NoStorage);
        }
        let partial = !data.is_empty() && self.programs[index] & DATA_PROGRAMS > 0;
        if partial && self.programs[index] & DATA_PROGRAMS >= self.geometry.data_programs_max {
            return Err(NandError::ProgramLimit { block: at.block, page: at.page });
        }
        if !partial {
            self.check_program(at, index)?;
        }
        let completes_before_cut = !self.watched || self.enter_program(at, index, Tag::ERASED)?;
        self.programs[index] += u8::from(!data.is_empty()) + if oob.is_empty() { 0 } else { SPARE_PROGRAM };
        let block = &mut self.blocks[at.block as usize];
        *block = (*block & !NEXT_PAGE) | (*block & NEXT_PAGE).max(at.page + 1);
        if data.is_empty() {
            self.counters.spare_programs += 1;
        } else {
            self.count_program(at.page);
        }
        self.store(at, Tag::ERASED, data, oob);
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Programs marks into the spare area of a page without touching its data.
    ///
    /// # Errors
    /// [`NandError::ProgramLimit`] where the part's NOP does not allow it; as [`Chip::program`] otherwise.
    pub fn program_spare(&mut self, at: PageAddress, tag: Tag) -> Result<(), NandError> {
        let index = self.checked_index(at)?;
        self.check_block(at.block)?;
        if self.programs[index] / SPARE_PROGRAM >= self.geometry.oob_programs_max {
            return Err(NandError::ProgramLimit { block: at.block, page: at.page });
        }
        let mut completes_before_cut = true;
        if self.watched {
            self.enter(ChipOperation::SpareProgram(at))?;
            // A mark is a few bits of one byte: torn, it is either there or not.
            match self.take_cut() {
                Some(CutPoint::Inside) => return Err(NandError::PowerLost),
                Some(_) => completes_before_cut = false,
                None => {}
            }
        }
        self.set_tag(index, self.tag(index).and(tag));
        self.programs[index] += SPARE_PROGRAM;
        self.counters.spare_programs += 1;
        if self.bytes.is_some() {
            self.store(at, tag, &[], &[]);
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Moves a page: reads `from`, programs its data at `to` with `tag`.
    ///
    /// A source that cannot be read is moved as lost (see [`Tag::lost`]), so that a later read
    /// reports it instead of older data.
    ///
    /// # Errors
    /// Those of the read other than uncorrectable errors, and of the program.
    #[inline]
    pub fn copy(&mut self, from: PageAddress, to: PageAddress, tag: Tag) -> Result<(), NandError> {
        let tag = match self.read(from) {
            Ok(source) if !source.is_lost() => tag,
            Ok(_) | Err(NandError::Uncorrectable { .. }) => tag.lost(),
            Err(error) => return Err(error),
        };
        let Some(bytes) = &self.bytes else { return self.program(to, tag, None) };
        let source = bytes[from.block as usize].clone();
        let start = self.page_start(from.page);
        let data = source.as_ref().map(|block| &block[start..start + self.geometry.page_data_bytes as usize]);
        self.program(to, tag, data)
    }

    /// Erases a block.
    ///
    /// # Errors
    /// [`NandError::BadBlock`]; [`NandError::EraseFailed`], after which the block should be marked
    /// bad; [`NandError::PowerLost`].
    #[inline]
    pub fn erase(&mut self, block: u32) -> Result<(), NandError> {
        if block >= self.geometry.blocks {
            return Err(NandError::OutOfRange { block, page: 0 });
        }
        if self.is_bad(block) {
            return Err(NandError::BadBlock { block });
        }
        let completes_before_cut = !self.watched || self.enter_erase(block)?;
        self.wipe(block);
        self.blocks[block as usize] = 0;
        self.erase_counts[block as usize] += 1;
        self.counters.erases += 1;
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Marks a block bad for good, by one spare program.
    ///
    /// # Errors
    /// [`NandError::PowerLost`]; the mark is then not set.
    pub fn mark_bad(&mut self, block: u32) -> Result<(), NandError> {
        let mut completes_before_cut = true;
        if self.watched {
            self.enter(ChipOperation::SpareProgram(PageAddress::new(block, 0)))?;
            match self.take_cut() {
                Some(CutPoint::Inside) => return Err(NandError::PowerLost),
                Some(_) => completes_before_cut = false,
                None => {}
            }
        }
        self.counters.spare_programs += 1;
        self.blocks[block as usize] |= BAD;
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Cuts the power at the operation after `operations` more ones, at `point` of it.
    pub fn cut_power_after(&mut self, operations: u64, point: CutPoint) {
        self.cut = Some(Cut { operations_left: operations, point });
        self.watch();
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
    pub fn set_faults(&mut self, faults: &FaultSettings) {
        self.faults = (faults.bit_errors || faults.draws_failures())
            .then(|| Box::new(Faults::new(faults.clone(), &self.errors, self.geometry.blocks)));
        self.watch();
    }

    /// Lets `duration_ns` of simulated time pass for retention.
    pub fn age(&mut self, duration_ns: u64) {
        if let Some(faults) = &mut self.faults {
            faults.now_ns += duration_ns;
        }
    }

    /// Sets the erase count of every block, as after a life of use.
    pub fn set_erase_counts(&mut self, erases: u32) {
        self.erase_counts.fill(erases);
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

    /// Bytes of state held for each page in counting mode.
    pub fn state_bytes_per_page(&self) -> f64 {
        let block_bytes = size_of::<u32>() * 2;
        (size_of::<u8>() + 2 * size_of::<u32>() + size_of::<u16>()) as f64
            + block_bytes as f64 / f64::from(self.geometry.pages_per_block)
    }

    #[inline]
    fn index(&self, at: PageAddress) -> usize {
        at.block as usize * self.geometry.pages_per_block as usize + at.page as usize
    }

    #[inline]
    fn checked_index(&self, at: PageAddress) -> Result<usize, NandError> {
        if at.page >= self.geometry.pages_per_block || at.block >= self.geometry.blocks {
            return Err(NandError::OutOfRange { block: at.block, page: at.page });
        }
        Ok(self.index(at))
    }

    #[inline]
    fn check_block(&self, block: u32) -> Result<(), NandError> {
        let state = self.blocks[block as usize];
        if state & (BAD | UNSTABLE) == 0 {
            Ok(())
        } else if state & BAD != 0 {
            Err(NandError::BadBlock { block })
        } else {
            Err(NandError::Unstable { block })
        }
    }

    #[inline]
    fn check_program(&self, at: PageAddress, index: usize) -> Result<(), NandError> {
        let PageAddress { block, page } = at;
        self.check_block(block)?;
        if self.programs[index] & DATA_PROGRAMS != 0 {
            return Err(NandError::NotErased { block, page });
        }
        let next = self.next_page(block);
        match self.geometry.page_order {
            PageOrder::Any => {}
            PageOrder::Ascending if page >= next => {}
            PageOrder::Sequential if page == next => {}
            _ => return Err(NandError::OutOfOrder { block, page, next }),
        }
        if self.programs[index] / SPARE_PROGRAM >= self.geometry.oob_programs_max {
            return Err(NandError::ProgramLimit { block, page });
        }
        Ok(())
    }

    #[inline]
    fn count_program(&mut self, page: u32) {
        self.counters.page_programs += 1;
        if self.timing.program_ns.len() > 1 {
            self.programs_by_position[self.word_line_position(page) as usize] += 1;
        }
    }

    #[inline]
    fn tag(&self, index: usize) -> Tag {
        Tag { lpn: self.lpn[index], sequence_low: self.sequence_low[index], meta: self.meta[index] }
    }

    #[inline]
    fn set_tag(&mut self, index: usize, tag: Tag) {
        self.lpn[index] = tag.lpn;
        self.sequence_low[index] = tag.sequence_low;
        self.meta[index] = tag.meta;
    }

    fn watch(&mut self) {
        self.watched = self.faults.is_some()
            || self.cut.is_some()
            || self.log.is_some()
            || !self.powered
            || !self.unreadable.is_empty();
    }

    /// Start of any operation: power, the countdown to a cut, the log.
    #[cold]
    fn enter(&mut self, operation: ChipOperation) -> Result<(), NandError> {
        if !self.powered {
            return Err(NandError::PowerLost);
        }
        if let Some(cut) = &mut self.cut {
            if cut.operations_left == 0 && cut.point == CutPoint::Before {
                self.powered = false;
                return Err(NandError::PowerLost);
            }
        }
        if let Some(log) = &mut self.log {
            log.push(operation);
        }
        Ok(())
    }

    /// Counts an operation towards a pending cut; the cut's point if this is the operation it hits.
    fn take_cut(&mut self) -> Option<CutPoint> {
        let cut = self.cut.as_mut()?;
        if cut.operations_left > 0 {
            cut.operations_left -= 1;
            return None;
        }
        self.powered = false;
        Some(cut.point)
    }

    #[cold]
    fn leave_read(&mut self, at: PageAddress, index: usize, bytes: u32) -> Result<(), NandError> {
        if self.take_cut().is_some() {
            return Err(NandError::PowerLost);
        }
        let mut fails = self.unreadable.contains(&(index as u32));
        if let Some(faults) = &mut self.faults {
            if bytes > 0 && self.programs[index] & DATA_PROGRAMS != 0 {
                let cycles = self.erase_counts[at.block as usize];
                fails |= faults.read_fails(&self.errors, at.block as usize, cycles, bytes);
            }
        }
        if fails { Err(NandError::Uncorrectable { block: at.block, page: at.page }) } else { Ok(()) }
    }

    /// Start of a program; `Ok(false)` if it completes and the power fails after it.
    #[cold]
    fn enter_program(&mut self, at: PageAddress, index: usize, tag: Tag) -> Result<bool, NandError> {
        self.enter(ChipOperation::PageProgram(at, tag))?;
        let cut = self.take_cut();
        if cut == Some(CutPoint::Inside) {
            self.tear_page(at, index);
            for lower in self.paired_pages(at.page) {
                let lower = PageAddress::new(at.block, lower);
                if self.is_programmed(lower) {
                    self.unreadable.insert(self.index(lower) as u32);
                }
            }
            return Err(NandError::PowerLost);
        }
        let cycles = self.erase_counts[at.block as usize];
        let fails = self
            .faults
            .as_mut()
            .is_some_and(|faults| faults.program_fails(&self.errors, at.block as usize, cycles));
        if fails {
            self.tear_page(at, index);
            self.count_program(at.page);
            let powered = cut.is_none();
            return Err(if powered { NandError::ProgramFailed { block: at.block, page: at.page } } else { NandError::PowerLost });
        }
        Ok(cut.is_none())
    }

    /// Start of an erase; `Ok(false)` if it completes and the power fails after it.
    #[cold]
    fn enter_erase(&mut self, block: u32) -> Result<bool, NandError> {
        self.enter(ChipOperation::Erase(block))?;
        let cut = self.take_cut();
        if cut == Some(CutPoint::Inside) {
            self.tear_block(block);
            return Err(NandError::PowerLost);
        }
        let cycles = self.erase_counts[block as usize];
        let fails =
            self.faults.as_mut().is_some_and(|faults| faults.erase_fails(&self.errors, block as usize, cycles));
        if fails {
            self.counters.erases += 1;
            return Err(if cut.is_none() { NandError::EraseFailed { block } } else { NandError::PowerLost });
        }
        Ok(cut.is_none())
    }

    /// Leaves a page used up and unreadable.
    fn tear_page(&mut self, at: PageAddress, index: usize) {
        self.programs[index] |= 1 + SPARE_PROGRAM;
        let block = &mut self.blocks[at.block as usize];
        *block = (*block & !NEXT_PAGE) | (*block & NEXT_PAGE).max(at.page + 1);
        self.unreadable.insert(index as u32);
        self.watch();
    }

    /// Leaves a block half erased: by its contents, each page kept, blank or unreadable.
    ///
    /// Which of the three is drawn from the erase count and the page number, so that one run over
    /// all cut points meets blocks that look untouched, empty and mixed.
    fn tear_block(&mut self, block: u32) {
        let pages = self.geometry.pages_per_block;
        let mut draw = Stream::new(u64::from(self.erase_counts[block as usize]), "torn erase");
        let look = draw.below(3);
        for page in 0..pages {
            let index = self.index(PageAddress::new(block, page));
            match if look == 2 { draw.below(3) } else { look } {
                0 => {}
                1 => self.wipe_page(block, page),
                _ if self.programs[index] & DATA_PROGRAMS == 0 => {}
                _ => {
                    self.unreadable.insert(index as u32);
                }
            }
        }
        self.blocks[block as usize] |= UNSTABLE;
        self.watch();
    }

    fn wipe(&mut self, block: u32) {
        let pages = self.geometry.pages_per_block as usize;
        let range = block as usize * pages..(block as usize + 1) * pages;
        self.programs[range.clone()].fill(0);
        self.lpn[range.clone()].fill(Tag::ERASED.lpn);
        self.sequence_low[range.clone()].fill(Tag::ERASED.sequence_low);
        self.meta[range.clone()].fill(Tag::ERASED.meta);
        if !self.unreadable.is_empty() {
            for index in range {
                self.unreadable.remove(&(index as u32));
            }
            self.watch();
        }
        if let Some(bytes) = &mut self.bytes {
            bytes[block as usize] = None;
        }
    }

    fn wipe_page(&mut self, block: u32, page: u32) {
        let index = self.index(PageAddress::new(block, page));
        self.programs[index] = 0;
        self.set_tag(index, Tag::ERASED);
        self.unreadable.remove(&(index as u32));
        let range = self.page_start(page)..self.page_start(page + 1);
        if let Some(Some(bytes)) = self.bytes.as_mut().map(|bytes| &mut bytes[block as usize]) {
            Arc::make_mut(bytes)[range].fill(0xff);
        }
    }

    fn page_start(&self, page: u32) -> usize {
        page as usize * (self.geometry.page_data_bytes + self.geometry.page_oob_bytes) as usize
    }

    fn store(&mut self, at: PageAddress, tag: Tag, data: &[u8], oob: &[u8]) {
        let (start, end) = (self.page_start(at.page), self.page_start(at.page + 1));
        let block_bytes = self.page_start(self.geometry.pages_per_block);
        let data_bytes = self.geometry.page_data_bytes as usize;
        let mark = self.geometry.bad_mark_oob_offset;
        let Some(bytes) = &mut self.bytes else { return };
        let block = bytes[at.block as usize].get_or_insert_with(|| vec![0xff; block_bytes].into());
        let (page_data, page_oob) = Arc::make_mut(block)[start..end].split_at_mut(data_bytes);
        for (stored, new) in page_data.iter_mut().zip(data) {
            *stored &= new;
        }
        for (stored, new) in page_oob.iter_mut().zip(oob) {
            *stored &= new;
        }
        if tag != Tag::ERASED {
            tag.to_oob(page_oob, mark);
        }
    }

    /// Position of a page in its word line: 0 is the lower page.
    ///
    /// Two-bit parts interleave word lines (lower pages 0 1 2 3 6 7 10 11 …, upper pages 4 5 8 9 …);
    /// parts with more bits program a word line in one go.
    pub fn word_line_position(&self, page: u32) -> u32 {
        match self.geometry.cell.bits() {
            1 => 0,
            2 => u32::from((page >= 4 && page % 4 < 2) || page + 2 >= self.geometry.pages_per_block),
            bits => page % bits,
        }
    }

    /// Lower pages that a torn program of `page` destroys with it.
    pub fn paired_pages(&self, page: u32) -> std::ops::Range<u32> {
        let position = self.word_line_position(page);
        match self.geometry.cell.bits() {
            _ if position == 0 => page..page,
            2 => {
                let distance = if page < 6 || page + 2 >= self.geometry.pages_per_block { 4 } else { 6 };
                let lower = page.saturating_sub(distance);
                lower..lower + 1
            }
            _ => page - position..page,
        }
    }

    pub(crate) fn block_bytes(&self, block: u32) -> Option<&[u8]> {
        self.bytes.as_ref()?[block as usize].as_deref()
    }

    pub(crate) fn load_page(&mut self, at: PageAddress, data: &[u8], oob: &[u8]) {
        let index = self.index(at);
        let tag = Tag::from_oob(oob, self.geometry.bad_mark_oob_offset);
        self.set_tag(index, tag);
        self.programs[index] = 1 + SPARE_PROGRAM;
        let block = &mut self.blocks[at.block as usize];
        *block = (*block & !NEXT_PAGE) | (*block & NEXT_PAGE).max(at.page + 1);
        self.store(at, Tag::ERASED, data, oob);
    }

    pub(crate) fn load_bad(&mut self, block: u32) {
        self.blocks[block as usize] |= BAD;
    }
}
