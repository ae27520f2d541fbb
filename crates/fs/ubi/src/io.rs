//! Reads, writes and erases of physical blocks, with the retries and tests of `drivers/mtd/ubi/io.c`.
//!
//! Uses formats, costs and counts, and no state of a device.

use crate::error::UbiError;
use crate::finding::Code;
use crate::headers::{Decoded, EraseCounterHeader, HEADER_BYTES, VolumeHeader};
use crate::layout::Layout;
use crate::numbers::PebNumber;
use crate::profile::CpuCosts;
use crate::statistics::Statistics;
use fs_api::{Finding, Place};
use mtd::{Mtd, MtdError, ReadStatus};
use sim::{Cpus, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Times that a failed operation is tried again (`UBI_IO_RETRIES`).
pub(crate) const RETRIES: u32 = 3;
/// What a suspicious block is filled with to see whether it keeps it.
const TORTURE_PATTERNS: [u8; 3] = [0xa5, 0x5a, 0x00];
/// Findings kept: a medium full of noise must not fill the memory with complaints.
const FINDINGS_MAX: usize = 1000;

/// A header as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderRead<T> {
    /// A sound header; the ECC may have had work.
    Sound { header: T, had_errors: bool },
    /// Blank bytes; the ECC may have had work.
    Blank { had_errors: bool },
    /// Neither; the ECC may have given up.
    Bad { is_lost: bool },
}

/// The device below: bytes of physical blocks.
pub(crate) struct Io {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) mtd: Rc<Mtd>,
    pub(crate) layout: Layout,
    pub(crate) costs: CpuCosts,
    pub(crate) image_sequence: Cell<u32>,
    pub(crate) is_read_only: Cell<bool>,
    pub(crate) statistics: Cell<Statistics>,
    findings: RefCell<Vec<Finding>>,
}

impl Io {
    pub(crate) fn new(
        sim: &Sim,
        cpus: Rc<Cpus>,
        mtd: Rc<Mtd>,
        layout: Layout,
        costs: CpuCosts,
    ) -> Self {
        Self {
            sim: sim.clone(),
            cpus,
            mtd,
            layout,
            costs,
            image_sequence: Cell::new(0),
            is_read_only: Cell::new(false),
            statistics: Cell::new(Statistics::default()),
            findings: RefCell::new(Vec::new()),
        }
    }

    /// Adds to the list of what was found wrong with the medium.
    pub(crate) fn find(&self, code: Code, place: Place, text: impl Into<String>) {
        let mut findings = self.findings.borrow_mut();
        if findings.len() < FINDINGS_MAX {
            findings.push(code.at(place, text));
        }
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.findings.borrow().clone()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Statistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }

    /// Makes the device read-only for the reason given (`ubi_ro_mode`).
    pub(crate) fn become_read_only(&self, reason: &str) {
        self.stop_writing(Code::ReadOnly, reason);
    }

    /// [`Io::become_read_only`] with a code of its own.
    pub(crate) fn stop_writing(&self, code: Code, reason: &str) {
        if !self.is_read_only.replace(true) {
            self.find(code, Place::Whole, format!("read-only from now on: {reason}"));
        }
    }

    pub(crate) async fn charge_crc(&self, bytes: usize) {
        self.cpus.run(bytes as u64 * self.costs.crc_ps_per_byte / 1000).await;
    }

    pub(crate) async fn charge_copy(&self, bytes: usize) {
        self.cpus.run(bytes as u64 * self.costs.copy_ps_per_byte / 1000).await;
    }

    fn address(&self, peb: PebNumber, offset: u32) -> u64 {
        debug_assert!(peb.get() < self.layout.peb_count, "the device has no block {peb}");
        u64::from(peb) * u64::from(self.layout.peb_bytes) + u64::from(offset)
    }

    /// Reads bytes of a block; what the ECC gives up is tried again (`ubi_io_read`).
    pub(crate) async fn read(
        &self,
        peb: PebNumber,
        offset: u32,
        into: &mut [u8],
    ) -> Result<ReadStatus, UbiError> {
        let mut tries = 0;
        loop {
            // What the ECC gives up is read again: where bits flip at random the next attempt may
            // succeed.
            let status = self.mtd.read(self.address(peb, offset), into).await?;
            if status.is_readable() {
                self.count(|counts| counts.corrected_reads += u64::from(status.corrected_bits > 0));
                return Ok(status);
            }
            tries += 1;
            if tries > RETRIES {
                self.count(|counts| counts.unreadable_reads += 1);
                // No error: the bytes are handed on with the status, for headers have their CRC and
                // callers their own checks.
                return Ok(status);
            }
        }
    }

    /// Reads data of a logical block that stands in `peb`.
    pub(crate) async fn read_data(
        &self,
        peb: PebNumber,
        offset: u32,
        into: &mut [u8],
    ) -> Result<ReadStatus, UbiError> {
        self.read(peb, self.layout.data_offset + offset, into).await
    }

    /// Writes whole units of a block.
    pub(crate) async fn write(
        &self,
        peb: PebNumber,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        if self.is_read_only.get() {
            return Err(UbiError::ReadOnly);
        }
        let (unit, end) = (self.layout.header_io_bytes, offset as usize + data.len());
        debug_assert!(end <= self.layout.peb_bytes as usize, "block {peb}: a write ends at {end}");
        debug_assert!(
            offset.is_multiple_of(unit) && data.len().is_multiple_of(unit as usize),
            "block {peb}: {} bytes at {offset} are whole units",
            data.len()
        );
        Ok(self.mtd.write(self.address(peb, offset), data).await?)
    }

    pub(crate) async fn write_data(
        &self,
        peb: PebNumber,
        offset: u32,
        data: &[u8],
    ) -> Result<(), UbiError> {
        self.write(peb, self.layout.data_offset + offset, data).await
    }

    /// Whether the block is bad.
    pub(crate) async fn is_bad(&self, peb: PebNumber) -> Result<bool, UbiError> {
        Ok(self.mtd.is_bad(peb.get()).await?)
    }

    pub(crate) async fn mark_bad(&self, peb: PebNumber) -> Result<(), UbiError> {
        if self.is_read_only.get() {
            return Err(UbiError::ReadOnly);
        }
        self.count(|counts| counts.blocks_bad += 1);
        self.find(Code::BadBlock, Place::Block(peb.into()), format!("block {peb} was marked bad"));
        Ok(self.mtd.mark_bad(peb.get()).await?)
    }

    async fn erase(&self, peb: PebNumber) -> Result<(), UbiError> {
        let mut tries = 0;
        loop {
            let done = self.mtd.erase(peb.get()).await;
            self.count(|counts| counts.erases += 1);
            match done {
                Ok(()) => return Ok(()),
                // Three more attempts (`do_sync_erase`), then the block is given up by the caller.
                Err(error @ MtdError::Failed(_)) if tries == RETRIES => return Err(error.into()),
                Err(MtdError::Failed(_)) => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Erases a block, after a test of its cells if asked; how often it was erased
    /// (`ubi_io_sync_erase`).
    pub(crate) async fn sync_erase(&self, peb: PebNumber, tortures: bool) -> Result<u64, UbiError> {
        if self.is_read_only.get() {
            return Err(UbiError::ReadOnly);
        }
        // The erases of the test count for the wear.
        let tested = if tortures { self.torture(peb).await? } else { 0 };
        self.erase(peb).await?;
        Ok(tested + 1)
    }

    /// Erases, fills and reads a block several times (`torture_peb`).
    async fn torture(&self, peb: PebNumber) -> Result<u64, UbiError> {
        self.count(|counts| counts.blocks_tortured += 1);
        let mut buffer = vec![0; self.layout.peb_bytes as usize];
        // A pattern, its complement and all zeros, so each cell is seen in both states (`patterns`
        // of `io.c`).
        for pattern in TORTURE_PATTERNS {
            self.erase(peb).await?;
            // First that the erase left nothing behind, then that the program took.
            self.expect_pattern(peb, &mut buffer, 0xff).await?;
            buffer.fill(pattern);
            self.write(peb, 0, &buffer).await?;
            self.expect_pattern(peb, &mut buffer, pattern).await?;
        }
        self.find(
            Code::TestedBlock,
            Place::Block(peb.into()),
            format!("block {peb} stood the test of its cells"),
        );
        Ok(TORTURE_PATTERNS.len() as u64)
    }

    /// Corrected bits are errors, too: they were not there a moment ago.
    async fn expect_pattern(
        &self,
        peb: PebNumber,
        buffer: &mut [u8],
        pattern: u8,
    ) -> Result<(), UbiError> {
        let status = self.read(peb, 0, buffer).await?;
        self.charge_copy(buffer.len()).await;
        if status.corrected_bits > 0 || buffer.iter().any(|byte| *byte != pattern) {
            self.find(
                Code::WornBlock,
                Place::Block(peb.into()),
                format!("block {peb} does not keep what is written to it"),
            );
            let error = nand::NandError::EraseFailed { block: peb.get() };
            return Err(UbiError::Io(MtdError::Failed(error)));
        }
        Ok(())
    }

    /// Reads the erase counter header (`ubi_io_read_ec_hdr`).
    pub(crate) async fn read_counter(
        &self,
        peb: PebNumber,
    ) -> Result<HeaderRead<EraseCounterHeader>, UbiError> {
        let mut bytes = [0; HEADER_BYTES];
        let status = self.read(peb, 0, &mut bytes).await?;
        self.charge_crc(HEADER_BYTES).await;
        Ok(judge(EraseCounterHeader::decode(&bytes), status))
    }

    /// Reads the volume identifier header (`ubi_io_read_vid_hdr`).
    pub(crate) async fn read_header(
        &self,
        peb: PebNumber,
    ) -> Result<HeaderRead<VolumeHeader>, UbiError> {
        // The header may stand within its unit, where an offset was chosen by hand
        // (`vid_hdr_shift`): the driver reads from the unit's beginning.
        let (start, _) = self.layout.header_unit();
        let shift = (self.layout.header_offset - start) as usize;
        let mut bytes = vec![0; shift + HEADER_BYTES];
        let status = self.read(peb, start, &mut bytes).await?;
        self.charge_crc(HEADER_BYTES).await;
        let bytes = bytes[shift..].try_into().expect("a header is left behind the shift");
        Ok(judge(VolumeHeader::decode(bytes), status))
    }

    /// Writes the erase counter header (`ubi_io_write_ec_hdr`).
    pub(crate) async fn write_counter(
        &self,
        peb: PebNumber,
        erase_counter: u64,
    ) -> Result<(), UbiError> {
        let header = EraseCounterHeader {
            version: 1,
            erase_counter,
            header_offset: self.layout.header_offset,
            data_offset: self.layout.data_offset,
            image_sequence: self.image_sequence.get(),
        };
        self.charge_crc(HEADER_BYTES).await;
        // Zeros around the header, not blank bytes, as `ubi_io_write_ec_hdr` writes its buffer.
        let mut unit = vec![0; self.layout.counter_unit_bytes() as usize];
        unit[..HEADER_BYTES].copy_from_slice(&header.encode());
        self.write(peb, 0, &unit).await
    }

    /// Writes the volume identifier header (`ubi_io_write_vid_hdr`).
    pub(crate) async fn write_header(
        &self,
        peb: PebNumber,
        header: &VolumeHeader,
    ) -> Result<(), UbiError> {
        debug_assert!(header.sequence_number > 0, "only tools write headers without a number");
        let (start, unit_bytes) = self.layout.header_unit();
        let shift = (self.layout.header_offset - start) as usize;
        self.charge_crc(HEADER_BYTES).await;
        let mut unit = vec![0; unit_bytes as usize];
        unit[shift..shift + HEADER_BYTES].copy_from_slice(&header.encode());
        self.write(peb, start, &unit).await
    }
}

/// A header with a right CRC is sound, even where the ECC gave up the bytes around it.
fn judge<T>(decoded: Decoded<T>, status: ReadStatus) -> HeaderRead<T> {
    let is_lost = !status.is_readable();
    let had_errors = is_lost || status.corrected_bits > 0;
    match decoded {
        Decoded::Sound(header) => HeaderRead::Sound { header, had_errors },
        // Blank bytes that the ECC complains of are no erased page: they count as damaged
        // (`UBI_IO_BAD_HDR_EBADMSG`).
        Decoded::Blank if !is_lost => HeaderRead::Blank { had_errors },
        Decoded::Blank | Decoded::Bad => HeaderRead::Bad { is_lost },
    }
}
