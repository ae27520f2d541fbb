//! The chip under its driver, call by call.

use crate::contract::{OobLayout, SPARE_BYTES_MAX};
use crate::hamming::{CODE_BYTES, STEP_BYTES};
use crate::operations::{ChipObserver, Operations};
use crate::table::LAYOUTS;
use crate::{DriverCosts, MtdError, Operation, OperationCounts};
use nand::{Chip, Geometry, NandError, PageAddress};
use sim::{Cpus, Lock, Sim};
use std::cell::{Cell, RefCell};
use std::num::NonZeroU8;
use std::rc::Rc;

/// How bytes of the spare area are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OobMode {
    /// The free bytes in a row (`MTD_OPS_AUTO_OOB`), with ECC.
    Auto,
    /// As they stand (`MTD_OPS_PLACE_OOB`), with ECC.
    Place,
    /// As they stand, without ECC (`MTD_OPS_RAW`).
    Raw,
}

/// Where the driver looks up whether a block is bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadBlocks {
    /// From a table in memory, made when the device was found.
    Table,
    /// By reading the mark again at every question: drivers without a table.
    Mark,
}

/// How a driver reads, counts and charges: what a board's chip is attached with.
#[derive(Clone, Debug)]
pub struct MtdOptions {
    /// Layout of the spare area.
    pub layout: &'static OobLayout,
    /// Costs beside the chip's own.
    pub costs: DriverCosts,
    /// Where the driver looks up whether a block is bad.
    pub bad_blocks: BadBlocks,
    /// A part of a page is read as the ECC steps that hold it (`NAND_SUBPAGE_READ`), not as the whole
    /// page into the page buffer.
    pub reads_sub_pages: bool,
    /// False for tools: nothing takes time, not even the chip.
    pub takes_time: bool,
}

/// How a read went; the bytes are there in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStatus {
    /// Bits that the ECC corrected (`EUCLEAN` if any).
    pub corrected_bits: u32,
    /// ECC steps with more errors than it corrects (`EBADMSG` if any).
    pub lost_steps: u32,
}

impl ReadStatus {
    /// True if no step was lost: the bytes are the right ones.
    pub const fn is_readable(self) -> bool {
        self.lost_steps == 0
    }

    fn add(&mut self, other: Self) {
        self.corrected_bits += other.corrected_bits;
        self.lost_steps += other.lost_steps;
    }
}

/// What an array read brought beside bytes.
#[derive(Clone, Copy, Debug, Default)]
struct ArrayRead {
    /// The chip gave the page up.
    is_lost: bool,
    /// The page has its codes: it is erased, or they were compared before.
    is_sound: bool,
}

/// A raw NAND device.
///
/// All calls take the chip's lock for their whole duration, first come, first served. A power cut
/// never returns: the simulation is stopped, and the future of the call is not finished.
pub struct Mtd {
    sim: Sim,
    cpus: Rc<Cpus>,
    options: MtdOptions,
    geometry: Geometry,
    lock: Lock<()>,
    /// What the chip notes of pages that have their codes in this layout; none for a layout that is not in
    /// the table, as another one might have the same number.
    note: Option<NonZeroU8>,
    chip: RefCell<Chip>,
    /// The page whose bytes stand in the page buffer (`chip->pagebuf`).
    buffered_page: Cell<Option<u32>>,
    buffer: RefCell<Vec<u8>>,
    operations: RefCell<Operations>,
}

impl Mtd {
    /// A device over a chip that stores bytes.
    ///
    /// # Panics
    /// If the layout is not made for the chip's pages: a mistake of the caller, who checks input.
    pub fn new(sim: &Sim, cpus: Rc<Cpus>, chip: Chip, options: MtdOptions) -> Rc<Self> {
        let geometry = chip.geometry().clone();
        assert!(chip.stores_bytes(), "raw NAND needs a chip that stores bytes");
        // A tool may hand in an image of any part, so its shape is compared here and not assumed.
        assert_eq!(
            (geometry.page_data_bytes, geometry.page_oob_bytes),
            (options.layout.page_bytes, options.layout.oob_bytes),
            "layout {} is made for other pages",
            options.layout.name
        );
        options.layout.check();
        let buffer = vec![0xff; geometry.page_data_bytes as usize];
        let number = LAYOUTS.iter().position(|layout| layout == options.layout);
        let note = number.and_then(|number| NonZeroU8::new(number as u8 + 1));
        Rc::new(Self {
            sim: sim.clone(),
            cpus,
            options,
            geometry,
            lock: Lock::new(sim, ()),
            note,
            chip: RefCell::new(chip),
            buffered_page: Cell::new(None),
            buffer: RefCell::new(buffer),
            operations: RefCell::default(),
        })
    }

    /// Shape of the chip.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Layout of the spare area.
    pub fn layout(&self) -> &'static OobLayout {
        self.options.layout
    }

    /// False for tools, where nothing takes time.
    pub fn takes_time(&self) -> bool {
        self.options.takes_time
    }

    /// Bytes of the device.
    pub fn size_bytes(&self) -> u64 {
        self.geometry.capacity_bytes()
    }

    /// Bytes of an erase block.
    pub fn block_bytes(&self) -> u32 {
        self.geometry.page_data_bytes * self.geometry.pages_per_block
    }

    /// Smallest part of a page that can be programmed.
    pub fn sub_page_bytes(&self) -> u32 {
        self.geometry.page_data_bytes / self.options.layout.sub_pages
    }

    /// Looks at the chip, or changes it behind the driver's back: counters, logs, snapshots, cuts.
    pub fn with_chip<T>(&self, look: impl FnOnce(&mut Chip) -> T) -> T {
        look(&mut self.chip.borrow_mut())
    }

    /// The chip, taken out of the device; a copy of it where something still holds the device.
    pub fn take_chip(self: Rc<Self>) -> Chip {
        match Rc::try_unwrap(self) {
            Ok(device) => device.chip.into_inner(),
            Err(held) => held.with_chip(|chip| chip.clone()),
        }
    }

    /// Another chip of the same shape takes the place of this one; counts and log go on.
    ///
    /// # Panics
    /// If its shape differs: a mistake of the caller, who checks input.
    pub fn replace_chip(&self, chip: Chip) {
        assert_eq!(*chip.geometry(), self.geometry, "a chip of another shape");
        assert!(chip.stores_bytes(), "raw NAND needs a chip that stores bytes");
        // Only what the page buffer holds of the old chip must go; the counts are the driver's.
        self.buffered_page.set(None);
        self.chip.replace(chip);
    }

    /// Operations carried out since the device was made, by kind.
    pub fn operation_counts(&self) -> OperationCounts {
        self.operations.borrow().counts
    }

    /// When the last operation ended, nanoseconds of simulated time; 0 before the first.
    pub fn last_operation_ns(&self) -> u64 {
        self.operations.borrow().last_ns
    }

    /// Tells `observer` of each operation from now on, when it ends.
    pub fn observe(&self, observer: ChipObserver) {
        self.operations.borrow_mut().observer = Some(observer);
    }

    /// The task that runs begins a piece of work; see [`Sim::work`].
    pub fn work(&self, what: &'static str) -> sim::Work {
        self.sim.work(what)
    }

    /// Starts a log of operations, or ends it.
    pub fn log_operations(&self, is_on: bool) {
        self.operations.borrow_mut().log = is_on.then(Vec::new);
    }

    /// Takes the operations logged since the log was started or this was last called.
    pub fn take_operations(&self) -> Vec<Operation> {
        self.operations.borrow_mut().log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Reads bytes (`mtd_read`).
    ///
    /// A page that is wanted in part comes into the page buffer, from which the next reads of it are
    /// served, whole or in part; with sub-page reads only the ECC steps wanted are read, every time.
    ///
    /// # Errors
    /// [`MtdError::Invalid`].
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<ReadStatus, MtdError> {
        self.check(offset, into.len() as u64)?;
        // One call holds the chip from its first page to its last (`nand_get_device`), so calls do
        // not mix on the bus.
        let _held = self.lock.lock().await;
        let page_bytes = u64::from(self.geometry.page_data_bytes);
        let mut status = ReadStatus::default();
        let mut at = offset;
        let mut rest = into;
        while !rest.is_empty() {
            let (page, column) = ((at / page_bytes) as u32, (at % page_bytes) as usize);
            let count = rest.len().min(page_bytes as usize - column);
            let (part, later) = rest.split_at_mut(count);
            status.add(self.read_part(page, column, part).await?);
            at += count as u64;
            rest = later;
        }
        Ok(status)
    }

    async fn read_part(
        &self,
        page: u32,
        column: usize,
        into: &mut [u8],
    ) -> Result<ReadStatus, MtdError> {
        // `nand_do_read_ops` looks into its page buffer before it asks how much of the page is
        // wanted, so a whole page may come from there as well. The buffer holds corrected bytes, and
        // nothing is counted a second time (`ecc_stats`, to 3.4; later kernels keep the bit flips).
        debug_assert!(
            column + into.len() <= self.geometry.page_data_bytes as usize,
            "a part of a page ends with the page"
        );
        if self.buffered_page.get() == Some(page) {
            into.copy_from_slice(&self.buffer.borrow()[column..column + into.len()]);
            return Ok(ReadStatus::default());
        }
        // A whole page goes straight into the caller's buffer (`aligned`), so the page buffer keeps
        // what it has.
        if into.len() == self.geometry.page_data_bytes as usize {
            return self.read_page(page, into, None).await;
        }
        let mut whole = self.buffer.take();
        debug_assert_eq!(
            whole.len(),
            self.geometry.page_data_bytes as usize,
            "one call at a time has the page buffer"
        );
        let status = if self.options.reads_sub_pages {
            // Sub-page reads use the buffer for their steps alone, so it holds no whole page
            // (`pagebuf = -1`).
            self.buffered_page.set(None);
            self.read_steps(page, column, into.len(), &mut whole).await
        } else {
            let status = self.read_page(page, &mut whole, None).await;
            // Only a page without lost steps is kept: the next read must see the failure again.
            let is_clean = status.is_ok_and(ReadStatus::is_readable);
            self.buffered_page.set(is_clean.then_some(page));
            status
        };
        into.copy_from_slice(&whole[column..column + into.len()]);
        self.buffer.replace(whole);
        status
    }

    /// Reads a whole page with its spare area, corrected.
    async fn read_page(
        &self,
        page: u32,
        data: &mut [u8],
        oob: Option<&mut [u8]>,
    ) -> Result<ReadStatus, MtdError> {
        let (mut room, oob_bytes) = self.spare_room();
        let spare = &mut room[..oob_bytes];
        // Data and spare area in one array read: the code stands in the spare area.
        let read = self.array_read(Operation::Read { page }, page, data, spare).await?;
        self.cpu_bytes(data.len() + spare.len(), self.options.costs.read_page_ns, data.len()).await;
        let status = self.corrected(page, data, spare, read);
        if let Some(oob) = oob {
            oob.copy_from_slice(spare);
        }
        Ok(status)
    }

    /// Reads the ECC steps that hold some bytes of a page.
    async fn read_steps(
        &self,
        page: u32,
        column: usize,
        count: usize,
        whole: &mut [u8],
    ) -> Result<ReadStatus, MtdError> {
        // Codes cover 256 bytes, so the read begins and ends at their borders
        // (`nand_read_subpage`).
        let first = column / STEP_BYTES * STEP_BYTES;
        let end = (column + count).next_multiple_of(STEP_BYTES);
        debug_assert!(
            first <= column && column + count <= end,
            "the steps hold the bytes asked for"
        );
        debug_assert!(end <= whole.len(), "the last step ends with the page");
        let (mut room, oob_bytes) = self.spare_room();
        let spare = &mut room[..oob_bytes];
        let operation = Operation::SubPageRead { page, column: first as u32 };
        // No byte behind the last step is looked at.
        let read = self.array_read(operation, page, &mut whole[..end], spare).await?;
        // Three bytes of code for each step follow by a change of column, without a second array
        // read.
        let code_bytes = (end - first) / STEP_BYTES * CODE_BYTES;
        self.cpu_bytes(end - first + code_bytes, self.options.costs.read_page_ns, end - first)
            .await;
        // Only the steps that were read count; errors of the others are not seen.
        let mut status = ReadStatus::default();
        if read.is_lost {
            status.lost_steps = 1;
        }
        if read.is_sound || self.has_codes(page) {
            return Ok(status);
        }
        // Corrected one by one. No caller sees the others: the buffer holds no whole page now.
        let steps = whole[first..end].chunks_mut(STEP_BYTES).zip(first / STEP_BYTES..);
        for (step, number) in steps {
            let (corrected, lost) = self.options.layout.correct_step(step, number, spare);
            status.add(ReadStatus { corrected_bits: corrected, lost_steps: lost });
        }
        Ok(status)
    }

    /// Room for the spare area of a page, erased, and how much of it the chip has.
    // Not on the heap: every read of a page takes one.
    fn spare_room(&self) -> ([u8; SPARE_BYTES_MAX], usize) {
        ([0xff; SPARE_BYTES_MAX], self.geometry.page_oob_bytes as usize)
    }

    /// Compares all of a page with its codes, and notes that it has them: parts of a page are mostly read
    /// one after the other.
    fn has_codes(&self, page: u32) -> bool {
        let (chip, at) = (self.chip.borrow(), self.address(page));
        let Some((note, bytes)) = self.note.zip(chip.page_bytes(at)) else { return false };
        let (data, spare) = bytes.split_at(self.geometry.page_data_bytes as usize);
        // A bad block shows its mark, which may stand where a layout keeps codes.
        let has_codes = self.options.layout.has_codes(data, spare) && !chip.is_bad(at.block);
        if has_codes {
            chip.note_page(at, note);
        }
        has_codes
    }

    /// Corrects a whole page by its codes, unless it is known to have them.
    fn corrected(&self, page: u32, data: &mut [u8], spare: &[u8], read: ArrayRead) -> ReadStatus {
        debug_assert!(
            !read.is_sound || self.options.layout.correct(data, spare) == (0, 0),
            "page {page} has its codes"
        );
        let (corrected_bits, lost_steps) =
            if read.is_sound { (0, 0) } else { self.options.layout.correct(data, spare) };
        if let Some(note) = self.note
            && !read.is_sound
            && (corrected_bits, lost_steps) == (0, 0)
            && self.chip.borrow().flipped_bits().is_empty()
        {
            self.chip.borrow().note_page(self.address(page), note);
        }
        ReadStatus { corrected_bits, lost_steps: lost_steps.max(read.is_lost.into()) }
    }

    /// Reads a page with its spare area, or the spare area alone if `data` is none (`mtd_read_oob`).
    ///
    /// `oob` receives the spare bytes from `oob_offset` on, as the mode addresses them. A page read
    /// raw is not corrected.
    ///
    /// # Errors
    /// [`MtdError::Invalid`].
    pub async fn read_oob(
        &self,
        page: u32,
        data: Option<&mut [u8]>,
        oob: &mut [u8],
        oob_offset: usize,
        mode: OobMode,
    ) -> Result<ReadStatus, MtdError> {
        self.check_oob(page, data.as_deref().map(<[u8]>::len), oob.len(), oob_offset, mode)?;
        let _held = self.lock.lock().await;
        let (mut room, oob_bytes) = self.spare_room();
        let spare = &mut room[..oob_bytes];
        let status = match (data, mode) {
            // Raw reads pay for no ECC and report no errors.
            (Some(data), OobMode::Raw) => {
                self.array_read(Operation::Read { page }, page, data, spare).await?;
                let costs = self.options.costs;
                self.cpu_bytes(data.len() + spare.len(), costs.read_page_ns, 0).await;
                ReadStatus::default()
            }
            (Some(data), _) => self.read_page(page, data, Some(&mut *spare)).await?,
            // The spare area alone costs an array read of its own: the page register holds one
            // page. What the driver does once a read (set-up, waiting, its locks) does not depend
            // on how many bytes follow.
            (None, _) => {
                self.array_read(Operation::OobRead { page }, page, &mut [], spare).await?;
                self.cpu_bytes(spare.len(), self.options.costs.read_page_ns, 0).await;
                ReadStatus::default()
            }
        };
        match mode {
            OobMode::Auto => self.options.layout.gather(spare, oob_offset, oob),
            OobMode::Place | OobMode::Raw => {
                oob.copy_from_slice(&spare[oob_offset..oob_offset + oob.len()]);
            }
        }
        Ok(status)
    }

    /// Writes pages and sub-pages (`mtd_write`).
    ///
    /// # Errors
    /// [`MtdError::Invalid`] unless offset and length are whole sub-pages;
    /// [`MtdError::Failed`] if a program failed, with the pages before it written.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), MtdError> {
        self.check(offset, data.len() as u64)?;
        // The part programs sub-pages; smaller writes would need a second program of the same cells
        // (`NOTALIGNED` in `nand_do_write_ops`).
        let unit = u64::from(self.sub_page_bytes());
        if !offset.is_multiple_of(unit) || !(data.len() as u64).is_multiple_of(unit) {
            return Err(MtdError::Invalid { offset, length: data.len() as u64 });
        }
        let _held = self.lock.lock().await;
        let page_bytes = u64::from(self.geometry.page_data_bytes);
        let mut at = offset;
        let mut rest = data;
        while !rest.is_empty() {
            let (page, column) = ((at / page_bytes) as u32, (at % page_bytes) as usize);
            let (part, later) = rest.split_at(rest.len().min(page_bytes as usize - column));
            if part.len() == page_bytes as usize {
                self.program_page(page, part, None, true).await?;
            } else {
                // The rest of the page is programmed as 0xff, which changes no cell; the Hamming
                // code of erased bytes is 0xff as well.
                let mut whole = vec![0xff; page_bytes as usize];
                whole[column..column + part.len()].copy_from_slice(part);
                // The padded page is made in the page buffer, whichever page that held
                // (`chip->pagebuf = -1` in `nand_do_write_ops`).
                self.buffered_page.set(None);
                self.program_page(page, &whole, None, true).await?;
            }
            at += part.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Writes a page with its spare area, or the spare area alone if `data` is none
    /// (`mtd_write_oob`).
    ///
    /// # Errors
    /// As [`Mtd::write`].
    pub async fn write_oob(
        &self,
        page: u32,
        data: Option<&[u8]>,
        oob: &[u8],
        oob_offset: usize,
        mode: OobMode,
    ) -> Result<(), MtdError> {
        self.check_oob(page, data.map(<[u8]>::len), oob.len(), oob_offset, mode)?;
        let _held = self.lock.lock().await;
        let mut spare = vec![0xff; self.geometry.page_oob_bytes as usize];
        match mode {
            OobMode::Auto => {
                self.options.layout.scatter(oob, oob_offset, &mut spare);
                debug_assert!(
                    self.options.layout.codes().all(|place| spare[place] == 0xff),
                    "the free bytes leave the places of the codes alone"
                );
            }
            OobMode::Place | OobMode::Raw => {
                spare[oob_offset..oob_offset + oob.len()].copy_from_slice(oob);
            }
        }
        match data {
            Some(data) => self.program_page(page, data, Some(spare), mode != OobMode::Raw).await,
            None => self.program_spare(page, &spare).await,
        }
    }

    async fn program_page(
        &self,
        page: u32,
        data: &[u8],
        oob: Option<Vec<u8>>,
        has_ecc: bool,
    ) -> Result<(), MtdError> {
        cancellation::check();
        let mut spare = oob.unwrap_or_else(|| vec![0xff; self.geometry.page_oob_bytes as usize]);
        // Codes go into the caller's spare bytes, which leave their places free in the automatic
        // mode.
        if has_ecc {
            self.options.layout.protect(data, &mut spare);
        }
        // The page buffer must not show what the chip had before (`chip->pagebuf = -1`).
        self.forget(page);
        debug_assert_ne!(self.buffered_page.get(), Some(page), "the page buffer lost the page");
        debug_assert_eq!(data.len(), self.geometry.page_data_bytes as usize, "a whole page");
        let costs = self.options.costs;
        let ecc_bytes = if has_ecc { data.len() } else { 0 };
        // First the bytes go over the bus into the page register, then the array programs them.
        self.cpu_bytes(data.len() + spare.len(), costs.program_page_ns, ecc_bytes).await;
        self.wait_for_chip(self.program_ns()).await;
        // The chip changes when the array time is over: a cut within it finds the operation not
        // done, and tears it.
        let done = self.chip.borrow_mut().program_raw(self.address(page), data, &spare);
        self.record(Operation::Program { page });
        self.answer(done).await
    }

    async fn program_spare(&self, page: u32, spare: &[u8]) -> Result<(), MtdError> {
        self.forget(page);
        self.cpu_bytes(spare.len(), self.options.costs.program_page_ns, 0).await;
        self.wait_for_chip(self.program_ns()).await;
        let done = self.chip.borrow_mut().program_raw(self.address(page), &[], spare);
        self.record(Operation::OobProgram { page });
        self.answer(done).await
    }

    /// Erases a block (`mtd_erase`).
    ///
    /// # Errors
    /// [`MtdError::BadBlock`]; [`MtdError::Failed`].
    pub async fn erase(&self, block: u32) -> Result<(), MtdError> {
        self.check_block(block)?;
        let _held = self.lock.lock().await;
        let first = block * self.geometry.pages_per_block;
        // Any page of the block may be in the buffer (`nand_erase_nand`).
        if self
            .buffered_page
            .get()
            .is_some_and(|page| page / self.geometry.pages_per_block == block)
        {
            self.forget(first);
            self.buffered_page.set(None);
        }
        self.cpu_bytes(0, self.options.costs.command_ns, 0).await;
        let erase_ns = self.chip.borrow().timing().erase_ns;
        self.wait_for_chip(erase_ns).await;
        let done = self.chip.borrow_mut().erase(block);
        self.record(Operation::Erase { block });
        self.answer(done).await
    }

    /// Whether a block is bad (`mtd_block_isbad`).
    ///
    /// # Errors
    /// [`MtdError::Invalid`].
    pub async fn is_bad(&self, block: u32) -> Result<bool, MtdError> {
        self.check_block(block)?;
        // `nand_block_checkbad` reads the mark where there is no table (`chip->bbt`).
        if self.options.bad_blocks == BadBlocks::Mark {
            let _held = self.lock.lock().await;
            let (mut room, oob_bytes) = self.spare_room();
            let page = block * self.geometry.pages_per_block;
            let spare = &mut room[..oob_bytes];
            self.array_read(Operation::OobRead { page }, page, &mut [], spare).await?;
            self.cpu_bytes(1, self.options.costs.read_page_ns, 0).await;
        }
        Ok(self.chip.borrow().is_bad(block))
    }

    /// Marks a block bad for good (`mtd_block_markbad`).
    ///
    /// # Errors
    /// [`MtdError::Invalid`].
    pub async fn mark_bad(&self, block: u32) -> Result<(), MtdError> {
        self.check_block(block)?;
        let _held = self.lock.lock().await;
        // The mark is a program of the first page's spare area (`nand_do_write_oob`).
        self.forget(block * self.geometry.pages_per_block);
        self.cpu_bytes(1, self.options.costs.program_page_ns, 0).await;
        self.wait_for_chip(self.program_ns()).await;
        let done = self.chip.borrow_mut().mark_bad(block);
        // Counted as a program of the first page's spare area, where the mark stands.
        self.record(Operation::OobProgram { page: block * self.geometry.pages_per_block });
        self.answer(done).await
    }

    /// The chip brings a page, or its spare area, into its register.
    async fn array_read(
        &self,
        operation: Operation,
        page: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ArrayRead, MtdError> {
        // A host without costs never yields to the executor, so that a scan is one poll.
        cancellation::check();
        self.cpu_bytes(0, self.options.costs.command_ns, 0).await;
        // As with programs, the time of a lower page whatever page is read.
        let read_ns = self.chip.borrow().timing().lower_read_ns();
        self.wait_for_chip(read_ns).await;
        let (read, is_sound) = {
            let chip = &mut *self.chip.borrow_mut();
            let at = self.address(page);
            let read = chip.read_raw(at, data, spare);
            let is_known = match chip.page_bytes(at) {
                // The code of erased bytes is that of an erased spare area.
                None => true,
                Some(_) => self.note.is_some() && chip.noted(at) == self.note,
            };
            // A bad block shows its mark, which may stand where a layout keeps codes. Wrong bits of this read are
            // not those that the codes were made of.
            (read, is_known && !chip.is_bad(at.block) && chip.flipped_bits().is_empty())
        };
        self.record(operation);
        match read {
            // The bytes are handed out as they are; the caller's ECC has the last word on what is
            // lost.
            Err(NandError::Uncorrectable { .. }) => Ok(ArrayRead { is_lost: true, is_sound }),
            other => self.answer(other).await.map(|()| ArrayRead { is_lost: false, is_sound }),
        }
    }

    fn record(&self, operation: Operation) {
        self.operations.borrow_mut().record(operation, self.sim.now());
    }

    fn program_ns(&self) -> u64 {
        // The first time of the part: the driver of a chip whose pages take several times is not
        // modelled.
        self.chip.borrow().timing().program_ns[0]
    }

    /// The time of the array: the processor asks again and again, or sleeps.
    async fn wait_for_chip(&self, array_ns: u64) {
        self.operations.borrow_mut().array_since_ns = self.sim.now();
        match (self.options.takes_time, self.options.costs.polls) {
            (false, _) => {}
            // A driver that polls keeps its processor; other tasks wait for it as for a
            // computation.
            (true, true) => self.cpus.run(array_ns).await,
            (true, false) => self.sim.sleep(array_ns).await,
        }
    }

    /// Processor time of bytes between chip and memory, and of their code.
    async fn cpu_bytes(&self, bytes: usize, fixed_ns: u64, ecc_bytes: usize) {
        if !self.options.takes_time {
            return;
        }
        let costs = self.options.costs;
        let transfer_ns = bytes as u64 * costs.transfer_ps_per_byte / 1000;
        let ecc_ns = ecc_bytes as u64 * costs.ecc_ps_per_byte / 1000;
        self.cpus.run(fixed_ns + transfer_ns + ecc_ns).await;
    }

    /// What the chip said; after a power cut nothing is said any more.
    async fn answer(&self, said: Result<(), NandError>) -> Result<(), MtdError> {
        // The simulation stops, and the future stays pending: no task of a machine without power runs on.
        if said == Err(NandError::PowerLost) {
            self.sim.stop();
            return std::future::pending().await;
        }
        Ok(said?)
    }

    fn forget(&self, page: u32) {
        if self.buffered_page.get() == Some(page) {
            self.buffered_page.set(None);
        }
    }

    fn address(&self, page: u32) -> PageAddress {
        let pages_per_block = self.geometry.pages_per_block;
        debug_assert!(page < self.geometry.pages(), "page {page} is on the chip");
        PageAddress::new(page / pages_per_block, page % pages_per_block)
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), MtdError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size_bytes() => Ok(()),
            _ => Err(MtdError::Invalid { offset, length }),
        }
    }

    fn check_block(&self, block: u32) -> Result<(), MtdError> {
        self.check(u64::from(block) * u64::from(self.block_bytes()), self.block_bytes().into())
    }

    fn check_oob(
        &self,
        page: u32,
        data_bytes: Option<usize>,
        oob_bytes: usize,
        oob_offset: usize,
        mode: OobMode,
    ) -> Result<(), MtdError> {
        let page_bytes = u64::from(self.geometry.page_data_bytes);
        let offset = u64::from(page) * page_bytes;
        self.check(offset, page_bytes)?;
        let room = match mode {
            OobMode::Auto => self.options.layout.free_bytes(),
            OobMode::Place | OobMode::Raw => self.geometry.page_oob_bytes as usize,
        };
        let is_whole = data_bytes.is_none_or(|bytes| bytes as u64 == page_bytes);
        if is_whole && oob_offset.checked_add(oob_bytes).is_some_and(|end| end <= room) {
            Ok(())
        } else {
            Err(MtdError::Invalid { offset, length: data_bytes.unwrap_or(oob_bytes) as u64 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BadBlocks, Mtd, MtdOptions, OobMode, ReadStatus};
    use crate::{DriverCosts, MtdError, find_layout};
    use nand::{Chip, CutPoint, FaultSettings, PageAddress, Part, Storage, find_part};
    use sim::{Cpus, RunEnd, Simulation};
    use std::cell::{Cell, RefCell};
    use std::future::Future;
    use std::rc::Rc;

    const COSTS: DriverCosts = DriverCosts {
        command_ns: 1000,
        transfer_ps_per_byte: 100_000,
        ecc_ps_per_byte: 0,
        read_page_ns: 0,
        program_page_ns: 0,
        polls: true,
    };

    fn part() -> Part {
        let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
        part.geometry.blocks = 8;
        part
    }

    fn run<F: Future<Output = ()> + 'static>(
        costs: DriverCosts,
        reads_sub_pages: bool,
        job: impl FnOnce(Rc<Mtd>) -> F,
    ) -> (u64, Rc<Mtd>, RunEnd) {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
        let chip = Chip::new(&part(), Storage::Bytes, &FaultSettings::default());
        let options = MtdOptions {
            layout: find_layout("linux-large").expect("in the table"),
            costs,
            bad_blocks: BadBlocks::Table,
            reads_sub_pages,
            takes_time: true,
        };
        let mtd = Mtd::new(&sim, cpus, chip, options);
        sim.spawn(job(mtd.clone()));
        let end = simulation.run();
        (sim.now(), mtd, end)
    }

    #[test]
    fn pages_come_back_with_their_spare_bytes() {
        let (_, mtd, _) = run(DriverCosts::default(), false, |mtd| async move {
            let data: Vec<u8> = (0..2048_u32).map(|at| (at * at / 7) as u8).collect();
            mtd.write_oob(3, Some(&data), &[1, 2, 3], 5, OobMode::Auto).await.expect("written");
            let (mut back, mut oob) = (vec![0; 2048], [0; 4]);
            let status = mtd.read_oob(3, Some(&mut back), &mut oob, 4, OobMode::Auto).await;
            assert_eq!(status, Ok(ReadStatus::default()));
            assert_eq!((back, oob), (data, [0xff, 1, 2, 3]));
            let mut raw = [0; 64];
            mtd.read_oob(3, None, &mut raw, 0, OobMode::Raw).await.expect("read");
            assert_eq!(raw[7..10], [1, 2, 3]);
            assert_ne!(raw[40..], [0xff; 24]);
            assert_eq!(
                mtd.write(100, &[0; 512]).await,
                Err(MtdError::Invalid { offset: 100, length: 512 })
            );
        });
        let counters = mtd.with_chip(|chip| chip.counters());
        assert_eq!((counters.page_programs, counters.page_reads, counters.spare_reads), (1, 1, 1));
    }

    /// A driver's work around a read or a program is done for the spare area alone, too.
    #[test]
    fn costs_of_a_page_are_charged_to_spare_areas_as_well() {
        let (read_page_ns, program_page_ns) = (7_000_000, 90_000_000);
        let of = |costs: DriverCosts| {
            let (elapsed_ns, _, _) = run(costs, false, |mtd| async move {
                let mut spare = [0; 64];
                mtd.read_oob(3, None, &mut spare, 0, OobMode::Raw).await.expect("read");
                mtd.write_oob(3, None, &[0x55; 64], 0, OobMode::Raw).await.expect("written");
                // The mark of a bad block is a program of a spare area.
                mtd.mark_bad(5).await.expect("marked");
            });
            elapsed_ns
        };
        let with = of(DriverCosts { read_page_ns, program_page_ns, ..COSTS });
        assert_eq!(with - of(COSTS), read_page_ns + 2 * program_page_ns);
    }

    #[test]
    fn sub_pages_are_programmed_one_by_one_and_each_has_its_code() {
        run(DriverCosts::default(), false, |mtd| async move {
            for part in 0..4_u64 {
                mtd.write(part * 512, &[part as u8 + 1; 512]).await.expect("four are allowed");
            }
            let mut back = vec![0; 2048];
            assert_eq!(mtd.read(0, &mut back).await, Ok(ReadStatus::default()));
            assert!(back.iter().enumerate().all(|(at, byte)| *byte == (at / 512) as u8 + 1));
        });
    }

    #[test]
    fn a_page_read_in_parts_is_read_once_unless_sub_pages_are() {
        for (reads_sub_pages, array_reads) in [(false, 1), (true, 4)] {
            let (_, mtd, _) = run(DriverCosts::default(), reads_sub_pages, |mtd| async move {
                mtd.write(0, &[7; 2048]).await.expect("written");
                for part in 0..4 {
                    let mut back = [0; 512];
                    assert_eq!(mtd.read(part * 512, &mut back).await, Ok(ReadStatus::default()));
                    assert_eq!(back, [7; 512]);
                }
            });
            assert_eq!(mtd.with_chip(|chip| chip.counters().page_reads), array_reads);
        }
    }

    /// `nand_do_read_ops`: the page buffer is looked at before the length of the read. It is filled by
    /// reads of parts, and used for the padding of writes of parts.
    #[test]
    fn a_whole_page_comes_from_the_page_buffer_too() {
        // Array reads after each step: part, whole, whole of another page, whole.
        for (reads_sub_pages, expected) in [(false, [1, 1, 2, 2]), (true, [1, 2, 3, 4])] {
            run(DriverCosts::default(), reads_sub_pages, |mtd| async move {
                let reads = || mtd.with_chip(|chip| chip.counters().page_reads);
                let (mut part, mut whole) = ([0; 512], [0; 2048]);
                mtd.write(0, &[7; 4096]).await.expect("written");
                mtd.read(512, &mut part).await.expect("read");
                let mut seen = vec![reads()];
                for page in [0, 1, 0] {
                    assert_eq!(mtd.read(page * 2048, &mut whole).await, Ok(ReadStatus::default()));
                    assert_eq!(whole, [7; 2048]);
                    seen.push(reads());
                }
                assert_eq!(seen, expected);
            });
        }
    }

    #[test]
    fn the_page_buffer_forgets_what_the_chip_no_longer_holds() {
        run(DriverCosts::default(), false, |mtd| async move {
            let reads = || mtd.with_chip(|chip| chip.counters().page_reads);
            let (mut part, mut whole) = ([0; 512], [0; 2048]);
            mtd.write(0, &[7; 2048]).await.expect("written");
            mtd.read(0, &mut part).await.expect("read");
            // Another page is written whole: it passes by the buffer.
            mtd.write(2048, &[8; 2048]).await.expect("written");
            mtd.read(0, &mut part).await.expect("read");
            assert_eq!(reads(), 1);
            // In part: it is padded in the buffer.
            mtd.write(4096, &[9; 512]).await.expect("written");
            mtd.read(0, &mut part).await.expect("read");
            assert_eq!(reads(), 2, "another page was padded");
            mtd.write_oob(0, None, &[0], 0, OobMode::Auto).await.expect("written");
            mtd.read(0, &mut whole).await.expect("read");
            assert_eq!(reads(), 3, "its spare area was programmed");
            mtd.read(0, &mut part).await.expect("read");
            mtd.erase(0).await.expect("erased");
            mtd.read(0, &mut whole).await.expect("read");
            assert_eq!((reads(), whole), (5, [0xff; 2048]), "it was erased");
            mtd.read(0, &mut part).await.expect("read");
            mtd.mark_bad(0).await.expect("marked");
            mtd.read(0, &mut part).await.expect("read");
            assert_eq!(reads(), 7, "its first page was marked");
        });
    }

    #[test]
    fn single_bits_are_corrected_and_counted() {
        let (_, _, _) = run(DriverCosts::default(), true, |mtd| async move {
            let mut data = vec![0xff; 2048];
            data[300] = 0xf0;
            mtd.write(0, &data).await.expect("written");
            // The bit falls after the code was made.
            let mut hole = vec![0xff; 2048];
            hole[300] = 0xdf;
            mtd.write_oob(0, Some(&hole), &[], 0, OobMode::Raw).await.expect("a second program");
            let mut back = vec![0; 2048];
            let status = mtd.read(0, &mut back).await.expect("read");
            assert_eq!((status.corrected_bits, status.lost_steps), (1, 0));
            assert_eq!(back, data);
            let mut part = [0; 100];
            assert_eq!(mtd.read(260, &mut part).await.expect("read").corrected_bits, 1);
            assert_eq!(part[40], 0xf0);
            assert_eq!(mtd.read(0, &mut part).await.expect("read").corrected_bits, 0);
        });
    }

    /// A page that had its codes is not compared again: until it changes, and in another layout.
    #[test]
    fn a_bit_that_falls_later_is_seen_though_the_page_had_its_codes() {
        for reads_sub_pages in [false, true] {
            let (_, mtd, _) = run(DriverCosts::default(), reads_sub_pages, |mtd| async move {
                let mut data = vec![0xff; 2048];
                data[300] = 0xf0;
                mtd.write(0, &data).await.expect("written");
                for bytes in [2048, 100] {
                    let read = mtd.read(256, &mut vec![0; bytes]).await;
                    assert_eq!(read, Ok(ReadStatus::default()), "{bytes}");
                }
                let noted = |mtd: &Mtd| mtd.with_chip(|chip| chip.noted(PageAddress::new(0, 0)));
                assert_ne!(noted(&mtd), None);
                let mut hole = vec![0xff; 2048];
                hole[300] = 0xdf;
                mtd.write_oob(0, Some(&hole), &[], 0, OobMode::Raw)
                    .await
                    .expect("a second program");
                for _ in 0..2 {
                    let mut part = [0; 100];
                    mtd.read(5000, &mut [0; 10]).await.expect("another page in the buffer");
                    let status = mtd.read(260, &mut part).await.expect("read");
                    assert_eq!((status.corrected_bits, part[40]), (1, 0xf0));
                    assert_eq!(noted(&mtd), None, "it has not its codes");
                }
            });
            drop(mtd);
        }
    }

    #[test]
    fn time_is_the_arrays_and_the_processors() {
        let (end_ns, ..) = run(COSTS, false, |mtd| async move {
            mtd.write(0, &[1; 2048]).await.expect("written");
            mtd.read(0, &mut [0; 2048]).await.expect("read");
            mtd.erase(0).await.expect("erased");
        });
        let bytes_ns = 2112 * 100;
        assert_eq!(end_ns, (bytes_ns + 250_000) + (1000 + 40_000 + bytes_ns) + (1000 + 2_000_000));
    }

    #[test]
    fn a_bad_block_is_reported_and_not_erased() {
        run(DriverCosts::default(), false, |mtd| async move {
            mtd.mark_bad(2).await.expect("marked");
            assert_eq!(mtd.is_bad(2).await, Ok(true));
            assert_eq!(mtd.is_bad(1).await, Ok(false));
            assert_eq!(mtd.erase(2).await, Err(MtdError::BadBlock { block: 2 }));
            assert!(mtd.is_bad(8).await.is_err());
        });
    }

    #[test]
    fn nothing_happens_after_a_power_cut() {
        let reached = Rc::new(Cell::new(0));
        let seen = reached.clone();
        let pages = Rc::new(RefCell::new(Vec::new()));
        let written = pages.clone();
        let (_, mtd, end) = run(COSTS, false, |mtd| async move {
            mtd.with_chip(|chip| chip.cut_power_after(2, CutPoint::After));
            for page in 0..5 {
                mtd.write(page * 2048, &[page as u8; 2048]).await.expect("never an error");
                seen.set(page + 1);
                written.borrow_mut().push(page);
            }
        });
        assert_eq!((reached.get(), pages.borrow().len()), (2, 2));
        assert_ne!(end, RunEnd::Idle);
        mtd.with_chip(|chip| {
            chip.power_on();
            assert!(chip.is_programmed(PageAddress::new(0, 2)));
            assert!(!chip.is_programmed(PageAddress::new(0, 3)));
        });
    }
}
