//! The chip: state of every page and block, the part's rules, counters, faults and power cuts.
//!
//! Layout of the state is chosen for the counting loops: four bytes a page and a few a block where
//! pages are appended (see `chip/pages.rs`), no allocation in such an operation, and one flag
//! (`watched`) in front of everything unusual (see `chip/watched.rs`). Left out: multi-plane and
//! cache commands, bit errors in the bytes themselves (an ECC is taken to correct a read or to give
//! it up).

mod bytes;
mod changes;
mod pages;
mod reads;
mod runs;
mod state;
mod together;
mod watched;

use crate::fault::Faults;
use crate::random::Stream;
use crate::{
    Counters, EccCounters, ErrorModel, FaultSettings, Geometry, NandError, PageOrder, Part,
    RawOperation, Tag, Timing,
};
use bytes::PageBytes;
pub use changes::{MediumChange, Unit};
use pages::PageStates;
use rustc_hash::FxHashSet;
pub use state::{ChipState, StateError};
use std::num::NonZeroU8;
use std::ops::Range;
use watched::Cut;

/// A page by its block and its number within the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageAddress {
    /// Number of the block.
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
    /// The operation completes, but its answer does not reach the caller.
    After,
}

/// What a program or erase that the power cut tore leaves of its bytes.
///
/// A translation layer lives with [`Torn::Unreadable`], where the part's ECC gives the page up. Raw
/// NAND file systems see bytes, and their driver judges them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Torn {
    /// Noise that no ECC corrects; an erase leaves pages kept, blank or unreadable.
    #[default]
    Unreadable,
    /// Nothing is left: the operation did not begin.
    Nothing,
    /// The first half of the data is programmed, the spare area is not; of an erase, the first half
    /// of the pages is blank.
    Prefix,
    /// All data is programmed, the spare area is not; an erase leaves the spare areas.
    DataOnly,
}

/// Whether reads take one time or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadTimes {
    One,
    Several,
}

/// What becomes of the lower pages of a word line whose upper page is torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LowerPages {
    /// They share the cells, and are lost with it.
    #[default]
    Lost,
    /// The controller copied them elsewhere before it programmed the upper page, and puts them back after the cut.
    /// What the copies cost is not counted.
    BackedUp,
}

/// One operation as the log of a chip shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipOperation {
    /// A page was read, data and spare area.
    PageRead(PageAddress),
    /// A spare area alone was read.
    SpareRead(PageAddress),
    /// Page program with the tag written.
    PageProgram(PageAddress, Tag),
    /// A spare area alone was programmed.
    SpareProgram(PageAddress),
    /// A block was erased.
    Erase(u32),
}

// Two nibbles of one byte, so that a listed page takes eight bytes; `Geometry::check` admits
// 15 partial programs at most.
const DATA_PROGRAMS: u8 = 0x0f;
const SPARE_PROGRAM: u8 = 0x10;
// A block has at most 16384 pages, so sixteen bits hold the next one.
const NEXT_PAGE: u32 = 0xffff;
const BAD: u32 = 1 << 16;
const UNSTABLE: u32 = 1 << 17;

const _: () = assert!(DATA_PROGRAMS & SPARE_PROGRAM == 0, "the two counts lie side by side");
const _: () =
    assert!(NEXT_PAGE & (BAD | UNSTABLE) == 0 && BAD != UNSTABLE, "the flags lie above the page");

/// A NAND chip: what is programmed, the part's rules, counters and faults.
#[derive(Clone, Debug)]
pub struct Chip {
    geometry: Geometry,
    timing: Timing,
    errors: ErrorModel,
    /// Programs of each page (low nibble: of the data since the erase; high nibble: of the spare area) and its tag.
    pages: PageStates,
    /// Low half: lowest page above all programmed ones; then the flags `BAD` and `UNSTABLE`.
    blocks: Vec<u32>,
    erase_counts: Vec<u32>,
    /// Erases before the counters were last set to zero: wear that they no longer show.
    cycles_before: Vec<u32>,
    counters: Counters,
    programs_by_position: [u64; 4],
    /// What reads took longer in the array than as many reads of lower pages; zero where all are read alike.
    extra_read_ns: u64,
    /// Pages moved by [`Chip::copy_together`]: a read or program of it counts for several of them.
    moved_pages: u64,
    ecc: EccCounters,
    program_failures: u64,
    erase_failures: u64,
    bytes: Option<PageBytes>,
    /// All pages take the same time to read. Beside `watched`, which every operation looks at.
    reads_alike: ReadTimes,
    /// True if any of the fields below needs a look on every operation.
    watched: bool,
    unreadable: FxHashSet<u32>,
    faults: Option<Box<Faults>>,
    cut: Option<Cut>,
    torn: Torn,
    /// The operation under way was torn and left bytes.
    is_tearing: bool,
    powered: bool,
    log: Option<Vec<ChipOperation>>,
    journal: Option<Vec<RawOperation>>,
    changes: Option<Vec<MediumChange>>,
    lower_pages: LowerPages,
}

impl Chip {
    /// An erased chip of the given part.
    pub fn new(part: &Part, storage: Storage, faults: &FaultSettings) -> Self {
        let blocks = part.geometry.blocks;
        // `Geometry::check` refuses such parts; a part made in code may not have been checked.
        assert!(part.geometry.pages_per_block <= NEXT_PAGE, "the next page of a block has 16 bits");
        assert!(
            part.geometry.data_programs_max <= DATA_PROGRAMS
                && part.geometry.oob_programs_max <= u8::MAX / SPARE_PROGRAM,
            "the programs of a page are counted in four bits each"
        );
        let mut chip = Self {
            geometry: part.geometry.clone(),
            timing: part.timing.clone(),
            errors: part.errors.clone(),
            pages: PageStates::new(blocks, part.geometry.pages_per_block),
            blocks: vec![0; blocks as usize],
            erase_counts: vec![0; blocks as usize],
            cycles_before: vec![0; blocks as usize],
            counters: Counters::default(),
            programs_by_position: [0; 4],
            extra_read_ns: 0,
            moved_pages: 0,
            ecc: EccCounters::default(),
            program_failures: 0,
            erase_failures: 0,
            bytes: (storage == Storage::Bytes).then(|| PageBytes::new(&part.geometry)),
            reads_alike: if part.timing.read_ns.len() == 1 {
                ReadTimes::One
            } else {
                ReadTimes::Several
            },
            watched: false,
            unreadable: FxHashSet::default(),
            faults: None,
            cut: None,
            torn: Torn::Unreadable,
            is_tearing: false,
            powered: true,
            log: None,
            journal: None,
            changes: None,
            lower_pages: LowerPages::Lost,
        };
        if faults.needs_state() {
            chip.faults = Some(Box::new(Faults::new(faults.clone(), &part.errors, &part.geometry)));
        }
        if faults.factory_bad_blocks {
            chip.mark_factory_bad_blocks(faults.seed);
        }
        chip.watch();
        chip
    }

    fn mark_factory_bad_blocks(&mut self, seed: u64) {
        let mut stream = Stream::new(seed, "factory bad blocks");
        // Data sheets guarantee block 0.
        for block in 1..self.blocks.len() {
            if stream.unit() < self.errors.factory_bad_probability {
                self.blocks[block] |= BAD;
            }
        }
    }

    /// Shape and rules of the part.
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

    /// Operations begun so far: complete, failed and torn ones.
    #[inline]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Page programs so far by position in the word line; all zero on a part with one program time.
    #[inline]
    pub fn programs_by_position(&self) -> [u64; 4] {
        self.programs_by_position
    }

    /// Array time that the reads so far took beyond that of as many reads of lower pages; zero on a part with one
    /// read time.
    #[inline]
    pub fn extra_read_ns(&self) -> u64 {
        self.extra_read_ns
    }

    /// What the ECC saw so far.
    pub fn ecc_counters(&self) -> EccCounters {
        self.ecc
    }

    /// Failed programs and failed erases so far.
    pub fn failures(&self) -> (u64, u64) {
        (self.program_failures, self.erase_failures)
    }

    /// Erases of every block since the counters were last set to zero.
    pub fn erase_counts(&self) -> &[u32] {
        &self.erase_counts
    }

    /// Erases of a block in its whole life: what wears it out.
    pub fn erase_cycles(&self, block: u32) -> u32 {
        self.cycles_before[block as usize].saturating_add(self.erase_counts[block as usize])
    }

    /// Sets all counters to zero, erase counts included; contents and wear stay.
    pub fn reset_counters(&mut self) {
        for (before, count) in self.cycles_before.iter_mut().zip(&mut self.erase_counts) {
            *before = before.saturating_add(std::mem::take(count));
        }
        self.counters = Counters::default();
        self.programs_by_position = [0; 4];
        self.extra_read_ns = 0;
        self.moved_pages = 0;
        self.ecc = EccCounters::default();
        self.program_failures = 0;
        self.erase_failures = 0;
    }

    /// Sets the erase count of every block, as after a life of use.
    pub fn set_erase_counts(&mut self, erases: u32) {
        self.erase_counts.fill(erases);
        self.cycles_before.fill(0);
    }

    /// Wears a block by so many erases that are not carried out, as a stretch of life that is left out.
    ///
    /// Counters and contents stay. Whoever keeps cycles of blocks of its own has to be told as well.
    pub fn add_erase_cycles(&mut self, block: u32, erases: u32) {
        // Among the cycles of before the simulation: counters and busy times must not show erases
        // that were not carried out.
        let before = &mut self.cycles_before[block as usize];
        *before = before.saturating_add(erases);
    }

    /// Time spent in reads, programs and erases, nanoseconds, one operation after the other.
    pub fn busy_ns(&self) -> [u64; 3] {
        // Programs apart: on parts with several bits a cell their times differ by position.
        let mut busy_ns =
            self.timing.busy_ns(&self.geometry, &Counters { page_programs: 0, ..self.counters });
        busy_ns[0] += self.extra_read_ns;
        if self.timing.program_ns.len() == 1 {
            busy_ns[1] +=
                self.counters.page_programs * self.timing.page_program_ns(&self.geometry, 0);
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
        self.pages.programs(at) & DATA_PROGRAMS != 0
    }

    /// Lowest page above all programmed pages of the block. Not an operation.
    #[inline]
    pub fn next_page(&self, block: u32) -> u32 {
        self.blocks[block as usize] & NEXT_PAGE
    }

    /// The tag of a page as the last full read would show it. Not an operation.
    #[inline]
    pub fn peek(&self, at: PageAddress) -> Tag {
        self.pages.tag(at)
    }

    /// Logical page numbers that the tags of a block state, page by page. Not an operation.
    #[inline]
    pub fn peek_lpns(&self, block: u32) -> impl ExactSizeIterator<Item = u32> {
        self.pages.lpns(block)
    }

    /// Programs a page, data and spare. `data` (up to a page) is stored if the chip stores bytes.
    ///
    /// # Errors
    /// The rules of the part; [`NandError::ProgramFailed`], after which the page is used up and
    /// unreadable; [`NandError::PowerLost`].
    #[inline]
    pub fn program(
        &mut self,
        at: PageAddress,
        tag: Tag,
        data: Option<&[u8]>,
    ) -> Result<(), NandError> {
        debug_assert_eq!(
            self.geometry.pages_per_program, 1,
            "parts of a page go by `program_together`"
        );
        let index = self.checked_index(at)?;
        self.check_program(at).map_err(|error| self.refuse(error))?;
        let completes_before_cut = !self.watched || self.enter_program(at, index, tag)?;
        self.program_tag(at, tag);
        if self.bytes.is_some() {
            self.store(at, tag, data.unwrap_or(&[]));
        }
        if self.watched {
            self.record_program(at, &[tag]);
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Programs data and spare bytes as a raw NAND driver does; a spare-only program if `data` is
    /// empty.
    ///
    /// Either may be shorter than its area. Partial programs up to the part's NOP are allowed: the
    /// stored page is the bitwise AND of all programs. Where pages have an order, a page can be
    /// programmed again only while none after it is; the spare area of any page at any time. A
    /// partial program counts, and takes as long, as a whole one.
    ///
    /// # Errors
    /// As [`Chip::program`], and [`NandError::NoStorage`].
    pub fn program_raw(
        &mut self,
        at: PageAddress,
        data: &[u8],
        oob: &[u8],
    ) -> Result<(), NandError> {
        let index = self.checked_index(at)?;
        self.check_storage()?;
        let writes_spare = data.is_empty() || !oob.is_empty();
        self.check_raw(at, !data.is_empty(), writes_spare).map_err(|error| self.refuse(error))?;
        // The tag stands in the spare bytes, so translation layers and drivers see the same page.
        let tag = Tag::from_oob(oob, self.geometry.bad_mark_oob_offset);
        // Journaled before it is carried out, so that a torn operation is in the journal.
        if self.watched {
            self.note_program(at, data, oob);
        }
        let entered = match (self.watched, data.is_empty()) {
            (false, _) => Ok(true),
            (true, true) => self.enter_spare_program(at),
            (true, false) => self.enter_program(at, index, tag),
        };
        // What a torn program leaves depends on its bytes, which only this call has.
        if self.is_tearing {
            self.tear_program(at, data);
        }
        let completes_before_cut = entered?;
        // A program clears bits and sets none, hence `and`.
        let programs = self.pages.programs(at)
            + u8::from(!data.is_empty())
            + u8::from(writes_spare) * SPARE_PROGRAM;
        self.pages.set(at, programs, self.pages.tag(at).and(tag));
        debug_assert!(
            programs & DATA_PROGRAMS <= self.geometry.data_programs_max
                && programs / SPARE_PROGRAM <= self.geometry.oob_programs_max,
            "{at:?} is programmed as often as the part allows"
        );
        if data.is_empty() {
            self.counters.spare_programs += 1;
        } else {
            self.raise_next_page(at);
            self.count_program(at.page);
        }
        if let Some(bytes) = &mut self.bytes {
            bytes.program(at, data, oob);
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Programs marks into the spare area of a page without touching its data.
    ///
    /// The part's page order does not apply to it.
    ///
    /// # Errors
    /// [`NandError::ProgramLimit`] where the part's NOP does not allow it; as [`Chip::program`] otherwise.
    pub fn program_spare(&mut self, at: PageAddress, tag: Tag) -> Result<(), NandError> {
        self.checked_index(at)?;
        self.check_raw(at, false, true).map_err(|error| self.refuse(error))?;
        let completes_before_cut = !self.watched || self.enter_spare_program(at)?;
        let programs = self.pages.programs(at) + SPARE_PROGRAM;
        self.pages.set(at, programs, self.pages.tag(at).and(tag));
        self.counters.spare_programs += 1;
        if self.bytes.is_some() {
            self.store(at, tag, &[]);
        }
        if self.watched {
            self.record(MediumChange::Mark { at, tag });
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Moves a page: reads `from`, programs its data at `to` with `tag`.
    ///
    /// A source that cannot be read is moved as lost (see [`Tag::lost`]), so that a later read
    /// reports it instead of older data.
    ///
    /// # Errors
    /// As [`Chip::read`], but for [`NandError::Uncorrectable`], and as [`Chip::program`].
    #[inline]
    pub fn copy(&mut self, from: PageAddress, to: PageAddress, tag: Tag) -> Result<(), NandError> {
        // Without bytes and faults a copy is bookkeeping, and cleaning does millions of them.
        if self.watched || self.bytes.is_some() {
            return self.copy_with_data(from, to, tag);
        }
        self.checked_index(from)?;
        self.checked_index(to)?;
        self.check_program(to).map_err(|error| self.refuse(error))?;
        self.counters.page_reads += 1;
        self.count_read(from.page);
        let tag = if self.pages.is_lost(from) { tag.lost() } else { tag };
        self.program_tag(to, tag);
        Ok(())
    }

    #[cold]
    fn copy_with_data(
        &mut self,
        from: PageAddress,
        to: PageAddress,
        tag: Tag,
    ) -> Result<(), NandError> {
        let tag = match self.read(from) {
            Ok(source) if !source.is_lost() => tag,
            // Moved as lost: a page that read as older data without an error would be worse.
            Ok(_) | Err(NandError::Uncorrectable { .. }) => tag.lost(),
            Err(error) => return Err(error),
        };
        let source = self.bytes.as_ref().and_then(|bytes| bytes.shared_page(from).cloned());
        // What is not held is erased, and programming it would clear no bit.
        let data = source.as_ref().map(|page| &page[..self.geometry.page_data_bytes as usize]);
        self.program(to, tag, data)?;
        self.record_sources(&[from]);
        Ok(())
    }

    /// Erases a block.
    ///
    /// # Errors
    /// [`NandError::BadBlock`]; [`NandError::EraseFailed`], after which the block is as after an
    /// interrupted erase and should be marked bad; [`NandError::PowerLost`].
    #[inline]
    pub fn erase(&mut self, block: u32) -> Result<(), NandError> {
        self.checked_index(PageAddress::new(block, 0))?;
        // An erase would wipe the maker's mark.
        if self.is_bad(block) {
            return Err(self.refuse(NandError::BadBlock { block }));
        }
        let completes_before_cut = !self.watched || self.enter_erase(block)?;
        self.wipe(block);
        // Clears the next page and the unstable mark; a bad block does not get here.
        self.blocks[block as usize] = 0;
        self.count_erase(block);
        if self.watched {
            self.record(MediumChange::Erase { block });
        }
        debug_assert!(
            self.pages_of(block).all(|at| !self.is_programmed(at) && self.peek(at).is_erased()),
            "an erased block has no page"
        );
        debug_assert!(
            self.timing.program_ns.len() == 1
                || self.programs_by_position.iter().sum::<u64>() == self.counters.page_programs,
            "programs by position are all programs"
        );
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Marks a block bad for good, by one spare program.
    ///
    /// # Errors
    /// [`NandError::PowerLost`]; the mark is then not set, unless the cut came after the operation.
    pub fn mark_bad(&mut self, block: u32) -> Result<(), NandError> {
        let at = PageAddress::new(block, 0);
        self.checked_index(at)?;
        // Neither page order nor the number of programs is asked: a driver marks a block whatever
        // state a failed operation left it in (`nand_block_markbad_lowlevel` of Linux 6.1 ignores
        // the result of the erase before the mark).
        if self.watched {
            self.note(|| RawOperation::MarkBad { block });
        }
        let completes_before_cut = !self.watched || self.enter_spare_program(at)?;
        self.counters.spare_programs += 1;
        self.blocks[block as usize] |= BAD;
        if self.watched {
            self.record(MediumChange::Bad { block });
        }
        if completes_before_cut { Ok(()) } else { Err(NandError::PowerLost) }
    }

    /// Position of a page in its word line: 0 is the lower page.
    pub fn word_line_position(&self, page: u32) -> u32 {
        self.geometry.word_line_position(page)
    }

    /// Lower pages that a torn program of `page` destroys with it.
    pub fn paired_pages(&self, page: u32) -> Range<u32> {
        self.geometry.paired_pages(page)
    }

    /// Bytes of state held for each page in counting mode, as the chip is now.
    pub fn state_bytes_per_page(&self) -> f64 {
        let block_bytes = size_of::<u32>() * 3 * self.blocks.len();
        (self.pages.bytes() + block_bytes) as f64 / f64::from(self.geometry.pages())
    }

    #[inline]
    fn index(&self, at: PageAddress) -> usize {
        at.block as usize * self.geometry.pages_per_block as usize + at.page as usize
    }

    fn pages_of(&self, block: u32) -> impl Iterator<Item = PageAddress> + use<> {
        (0..self.geometry.pages_per_block).map(move |page| PageAddress::new(block, page))
    }

    #[inline]
    fn checked_index(&self, at: PageAddress) -> Result<usize, NandError> {
        if at.page >= self.geometry.pages_per_block || at.block >= self.geometry.blocks {
            return Err(self.refuse(NandError::OutOfRange { block: at.block, page: at.page }));
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
    fn check_program(&self, at: PageAddress) -> Result<(), NandError> {
        let PageAddress { block, page } = at;
        self.check_block(block)?;
        let programs = self.pages.programs(at);
        // A whole page is programmed once; parts of one go by `check_raw`.
        if programs & DATA_PROGRAMS != 0 {
            return Err(NandError::NotErased { block, page });
        }
        self.check_order(at, self.next_page(block))?;
        if programs / SPARE_PROGRAM >= self.geometry.oob_programs_max {
            return Err(NandError::ProgramLimit { block, page });
        }
        Ok(())
    }

    /// The rules for programming a page or its spare area in parts.
    fn check_raw(
        &self,
        at: PageAddress,
        writes_data: bool,
        writes_spare: bool,
    ) -> Result<(), NandError> {
        let PageAddress { block, page } = at;
        self.check_block(block)?;
        let programs = self.pages.programs(at);
        let data_programs = programs & DATA_PROGRAMS;
        if writes_data {
            if data_programs >= self.geometry.data_programs_max {
                return Err(NandError::ProgramLimit { block, page });
            }
            // A partial program goes on with the page programmed last.
            let next = self.next_page(block);
            let first = if data_programs > 0 { next - 1 } else { next };
            self.check_order(at, first)?;
        }
        if writes_spare && programs / SPARE_PROGRAM >= self.geometry.oob_programs_max {
            return Err(NandError::ProgramLimit { block, page });
        }
        Ok(())
    }

    /// The part's page order, if `next` is the lowest page that it allows now.
    #[inline]
    fn check_order(&self, at: PageAddress, next: u32) -> Result<(), NandError> {
        let PageAddress { block, page } = at;
        match self.geometry.page_order {
            PageOrder::Any => Ok(()),
            PageOrder::Ascending if page >= next => Ok(()),
            PageOrder::Sequential if page == next => Ok(()),
            _ => Err(NandError::OutOfOrder { block, page, next }),
        }
    }

    fn check_storage(&self) -> Result<(), NandError> {
        if self.bytes.is_some() { Ok(()) } else { Err(self.refuse(NandError::NoStorage)) }
    }

    #[inline]
    fn raise_next_page(&mut self, at: PageAddress) {
        let block = &mut self.blocks[at.block as usize];
        debug_assert!(at.page < self.geometry.pages_per_block, "{at:?} is in its block");
        // The highest page counts, since parts without an order may go back.
        *block = (*block & !NEXT_PAGE) | (*block & NEXT_PAGE).max(at.page + 1);
    }

    #[inline]
    fn count_erase(&mut self, block: u32) {
        self.erase_counts[block as usize] += 1;
        self.counters.erases += 1;
    }

    #[inline]
    fn count_program(&mut self, page: u32) {
        self.counters.page_programs += 1;
        // Parts with one program time need no count by position.
        if self.timing.program_ns.len() > 1 {
            self.programs_by_position[self.word_line_position(page) as usize] += 1;
        }
    }

    /// State and counters of a page program that takes place.
    #[allow(
        clippy::inline_always,
        reason = "measured: a call here costs the cleaning loop a tenth"
    )]
    #[inline(always)]
    fn program_tag(&mut self, at: PageAddress, tag: Tag) {
        debug_assert!(!self.is_bad(at.block), "no page of a bad block is programmed");
        debug_assert!(!self.is_programmed(at), "{at:?} is programmed once after an erase");
        debug_assert!(
            self.check_order(at, self.next_page(at.block)).is_ok(),
            "{at:?} is programmed in the part's order"
        );
        // A mark may have been programmed before the data; a blank spare area need not be read.
        let programs = self.pages.programs(at);
        let tag = if programs == 0 { tag } else { self.pages.tag(at).and(tag) };
        self.pages.set(at, programs + 1 + SPARE_PROGRAM, tag);
        self.raise_next_page(at);
        self.count_program(at.page);
    }

    fn wipe(&mut self, block: u32) {
        self.pages.erase(block);
        // Torn pages are few, and in counting runs there are none.
        if !self.unreadable.is_empty() {
            for at in self.pages_of(block) {
                self.unreadable.remove(&(self.index(at) as u32));
            }
            self.watch();
        }
        if let Some(bytes) = &mut self.bytes {
            bytes.erase_block(block);
        }
    }

    /// Stores data, and the tag at its places in the spare area.
    fn store(&mut self, at: PageAddress, tag: Tag, data: &[u8]) {
        let mark = self.geometry.bad_mark_oob_offset;
        let Some(bytes) = &mut self.bytes else { return };
        bytes.program(at, data, &[]);
        if tag != Tag::ERASED {
            tag.to_oob(bytes.page_mut(at).1, mark);
        }
    }

    /// Bytes of all pages of a block as they are stored, data then spare; none if all of them are
    /// erased, or the chip stores none. Not an operation; bad marks are not in it.
    pub fn block_pages(&self, block: u32) -> Option<impl Iterator<Item = &[u8]> + Clone> {
        self.bytes.as_ref()?.pages(block)
    }

    /// Bytes of a page as they are stored, data then spare. None only if all of them are erased, or
    /// the chip stores none. Not an operation; bad marks are not in it.
    pub fn page_bytes(&self, at: PageAddress) -> Option<&[u8]> {
        self.bytes.as_ref()?.page(at)
    }

    /// Notes something of the bytes of a page as they are stored, for [`Chip::noted`]; of an erased page
    /// nothing. Not an operation.
    ///
    /// A driver that has compared a page with its code need not do so again: of copies of a chip all that
    /// hold the same bytes have the note. What a number means is up to those who note; each needs its own.
    pub fn note_page(&self, at: PageAddress, note: NonZeroU8) {
        if let Some(bytes) = &self.bytes {
            bytes.note(at, note);
        }
    }

    /// What was noted of the bytes of a page since they last changed. Not an operation.
    pub fn noted(&self, at: PageAddress) -> Option<NonZeroU8> {
        self.bytes.as_ref()?.noted(at)
    }

    /// True if a driver finds the same on both chips, whatever it does with them: cells, bad blocks, what was
    /// programmed since the last erase. Wear and counters may differ, as no operation shows them on a chip
    /// without faults; chips with faults, without power or with a cut to come are never the same.
    pub fn is_same_medium(&self, other: &Self) -> bool {
        let is_plain = |chip: &Self| chip.faults.is_none() && chip.cut.is_none() && chip.powered;
        let has_same_bytes = match (&self.bytes, &other.bytes) {
            (Some(one), Some(other)) => one.is_same(other),
            (None, None) => true,
            _ => false,
        };
        is_plain(self)
            && is_plain(other)
            && self.geometry == other.geometry
            && self.timing == other.timing
            && self.blocks == other.blocks
            && self.pages == other.pages
            && self.unreadable == other.unreadable
            && has_same_bytes
    }

    /// Takes a page over from an image: its bytes, its tag, and what it must have been programmed.
    pub(crate) fn load_page(&mut self, at: PageAddress, data: &[u8], oob: &[u8]) {
        debug_assert_eq!(
            self.pages.programs(at),
            0,
            "{at:?} is taken over once, by an erased chip"
        );
        let tag = Tag::from_oob(oob, self.geometry.bad_mark_oob_offset);
        let is_programmed = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0xff);
        // A page of ones that has a tag was programmed; a spare area alone may hold marks.
        let has_data = is_programmed(data) || !tag.is_erased();
        if has_data {
            self.raise_next_page(at);
        }
        let programs = u8::from(has_data) + u8::from(is_programmed(oob)) * SPARE_PROGRAM;
        self.pages.set(at, programs, tag);
        if let Some(bytes) = &mut self.bytes {
            bytes.program(at, data, oob);
        }
    }

    pub(crate) fn load_bad(&mut self, block: u32) {
        self.blocks[block as usize] |= BAD;
    }
}

#[cfg(test)]
mod tests {
    use super::{BAD, Chip, PageAddress, Storage};
    use crate::{FaultSettings, PageOrder, Role, Tag, find_part};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// What breaks a rule.
    type Break = fn(&mut Chip);

    /// A part of four pages a block that must be programmed in order, with page 0 programmed.
    fn chip() -> Chip {
        let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
        (part.geometry.blocks, part.geometry.pages_per_block) = (2, 4);
        part.geometry.page_order = PageOrder::Sequential;
        let mut chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        chip.program(PageAddress::new(0, 0), tag(), None).expect("programmed");
        chip
    }

    fn tag() -> Tag {
        Tag::new(1, 1, Role::Data)
    }

    /// Behind the tests of `program`, as a mistake in them would do it.
    fn put(chip: &mut Chip, page: u32) {
        let at = PageAddress::new(0, page);
        chip.program_tag(at, tag());
    }

    #[test]
    fn every_broken_rule_of_the_part_is_seen() {
        let broken: [(&str, Break); 6] = [
            ("no page of a bad block is programmed", |chip| {
                chip.blocks[0] |= BAD;
                put(chip, 1);
            }),
            ("is programmed once after an erase", |chip| put(chip, 0)),
            ("is programmed in the part's order", |chip| put(chip, 2)),
            ("is in its block", |chip| chip.raise_next_page(PageAddress::new(0, 4))),
            ("is taken over once", |chip| {
                chip.load_page(PageAddress::new(0, 0), &[0; 2048], &[0xff; 64]);
            }),
            ("programs by position are all programs", |chip| {
                chip.timing.program_ns = vec![1, 2];
                chip.erase(0).expect("erased");
            }),
        ];
        for (message, break_it) in broken {
            let call = AssertUnwindSafe(|| break_it(&mut chip()));
            let said = catch_unwind(call).expect_err(message);
            let said = said.downcast_ref::<String>().cloned().unwrap_or_else(|| {
                said.downcast_ref::<&str>().copied().unwrap_or_default().to_owned()
            });
            assert!(said.contains(message), "{said:?} is not {message:?}");
        }
    }
}
