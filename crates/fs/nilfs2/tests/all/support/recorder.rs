//! A block device in memory that writes down all bios in order, as blktrace does when they are queued.

use block_medium::{BlockMedium, MemoryMedium, Pending, WriteFlags};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;

/// A bio, as a row of a recording has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    /// Line of the script.
    pub(crate) line: usize,
    /// The constructor's thread asked, not the calling process.
    pub(crate) is_thread: bool,
    /// Letters as blkparse writes them.
    pub(crate) rwbs: String,
    /// First sector of the bio.
    pub(crate) sector: u64,
    /// How many sectors it has.
    pub(crate) sectors: u64,
}

/// The device, with a cache of writes that flushes empty.
pub(crate) struct Recorder {
    pub(crate) medium: MemoryMedium,
    /// Line of the script that is being carried out.
    pub(crate) line: Cell<usize>,
    events: RefCell<Vec<Event>>,
    /// Blocks in the buffers of the device, which are not read again.
    buffers: RefCell<BTreeSet<u64>>,
}

impl Recorder {
    pub(crate) fn new(medium: MemoryMedium) -> Self {
        let (line, events, buffers) = (Cell::new(0), RefCell::default(), RefCell::default());
        Self { medium, line, events, buffers }
    }

    /// All bios up to now.
    pub(crate) fn take(&self) -> Vec<Event> {
        self.events.take()
    }

    /// The buffers of the device are forgotten.
    pub(crate) fn forget_buffers(&self) {
        self.buffers.borrow_mut().clear();
    }

    fn note(&self, rwbs: &str, block: u64, blocks: u64) {
        let sectors = self.block_bytes() as u64 / SECTOR_BYTES;
        self.events.borrow_mut().push(Event {
            line: self.line.get(),
            is_thread: process::current().is_kernel_thread(),
            rwbs: rwbs.to_owned(),
            sector: block * sectors,
            sectors: blocks * sectors,
        });
    }
}

impl BlockMedium for Recorder {
    fn block_bytes(&self) -> usize {
        self.medium.block_bytes()
    }

    fn size_bytes(&self) -> u64 {
        self.medium.size_bytes()
    }

    /// Pages that follow each other in memory are one of the 256 pieces of a bio (`bio_add_page`), so that
    /// its length has no limit in a machine that has just been booted.
    fn bio_blocks_max(&self) -> u32 {
        u32::MAX
    }

    fn read(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        self.note("R", first_block, blocks.into());
        self.medium.read(first_block, blocks)
    }

    fn read_buffers(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        for block in first_block..first_block + u64::from(blocks) {
            if self.buffers.borrow_mut().insert(block) {
                self.note("R", block, 1);
            }
        }
        self.medium.read(first_block, blocks)
    }

    fn read_ahead(&self, first_block: u64, blocks: u32) {
        for block in first_block..first_block + u64::from(blocks) {
            if self.buffers.borrow_mut().insert(block) {
                self.note("RA", block, 1);
            }
        }
    }

    fn write(
        &self,
        first_block: u64,
        bytes: Vec<u8>,
        flags: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>> {
        let letters = [
            ("F", flags.flushes_before),
            ("W", true),
            ("F", flags.is_durable),
            ("S", flags.is_sync),
        ];
        let rwbs: String =
            letters.iter().filter(|(_, is)| *is).map(|(letter, _)| *letter).collect();
        self.note(&rwbs, first_block, (bytes.len() / self.block_bytes()) as u64);
        self.medium.write(first_block, bytes, flags)
    }

    fn flush(&self) -> Pending<'_, ()> {
        // `submit_bio_wait` marks it as waited for.
        self.note("FWS", 0, 0);
        self.medium.flush()
    }
}
