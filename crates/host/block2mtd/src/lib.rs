//! `block2mtd`: a block device as an MTD, so that a file system for flash can stand on it.
//!
//! The device has erase blocks of a size that is chosen, and any byte of it can be written at any time. All of
//! that happens in the page cache of the block device: a read reads pages, one by one; a write changes bytes
//! in pages that are in memory, if they differ, and leaves them dirty; an erase fills pages with ones that are
//! not all ones. **Nothing reaches the device but by write-back**: the flusher's, or that of a sync, which
//! JFFS2 asks for at its unmount only. What a power cut leaves is any of the pages that were dirty, in any
//! order, and no call of a file on JFFS2 but `sync` and the unmount makes anything durable. Not even they
//! empty the device's own cache.
//!
//! This is the one way for JFFS2 to meet an I/O scheduler.
//!
//! Source: `drivers/mtd/devices/block2mtd.c` of Linux 2.6.29 to 6.12. An MTD made a block device again
//! (`mtdblock`) is refused there.

mod pages;

use block_medium::BlockMedium;
use mtd::{RamError, RamMtd, RamPending};
use page_cache::{FileError, Mapping, PAGE_BYTES, PageCache, ReadAhead};
use pages::DevicePages;
use sim::{Lock, Sim};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use thiserror::Error;

/// Why a block device cannot be an MTD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AttachError {
    /// Erase blocks are whole pages of memory.
    #[error("an erase block of {block_bytes} bytes: choose a multiple of {PAGE_BYTES}")]
    EraseBlock {
        /// Bytes that were asked for.
        block_bytes: u32,
    },
    /// There is no room for one erase block.
    #[error("the device has {size_bytes} bytes, less than an erase block of {block_bytes}")]
    TooSmall {
        /// Bytes of the device.
        size_bytes: u64,
        /// Bytes that were asked for.
        block_bytes: u32,
    },
    /// The block device takes other blocks than pages.
    #[error("the block device takes blocks of {bytes} bytes, not of {PAGE_BYTES}")]
    DeviceBlock {
        /// Bytes of a block.
        bytes: usize,
    },
}

/// How a block device is made an MTD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of an erase block.
    pub block_bytes: u32,
    /// Bytes of the device that are used, as of a partition; what is no whole erase block is not.
    pub size_bytes: u64,
    /// False for tools, where nothing takes time.
    pub takes_time: bool,
    /// Whoever dirties pages waits if too many are dirty, as from Linux 3.10 on at the latest; in
    /// 2.6.29 the driver does not ask.
    pub holds_writers: bool,
}

/// What the driver did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Pages that a write changed.
    pub changed_pages: u64,
    /// Pages that held what was written already.
    pub same_pages: u64,
    /// Pages that an erase filled.
    pub erased_pages: u64,
    /// Pages that were blank when they were erased.
    pub blank_pages: u64,
}

/// A block device as an MTD.
pub struct Block2Mtd {
    options: Options,
    mapping: Mapping,
    /// One write or erase at a time (`write_mutex`).
    writing: Lock<()>,
    statistics: Cell<Statistics>,
}

impl Block2Mtd {
    /// The MTD over `medium`, whose pages live in `cache`, with a flusher of their own. The cache keeps bytes.
    ///
    /// # Errors
    /// [`AttachError::EraseBlock`], [`AttachError::DeviceBlock`], [`AttachError::TooSmall`].
    pub fn attach(
        sim: &Sim,
        cache: &Rc<PageCache>,
        medium: Rc<dyn BlockMedium>,
        options: Options,
    ) -> Result<Rc<Self>, AttachError> {
        let block_bytes = options.block_bytes;
        if block_bytes == 0 || !u64::from(block_bytes).is_multiple_of(PAGE_BYTES) {
            return Err(AttachError::EraseBlock { block_bytes });
        }
        if medium.block_bytes() as u64 != PAGE_BYTES {
            return Err(AttachError::DeviceBlock { bytes: medium.block_bytes() });
        }
        let size_bytes = options.size_bytes.min(medium.size_bytes());
        // A part of an erase block at the end is not used.
        let blocks = size_bytes / u64::from(block_bytes);
        if blocks == 0 {
            return Err(AttachError::TooSmall { size_bytes, block_bytes });
        }
        let options = Options { size_bytes: blocks * u64::from(block_bytes), ..options };
        let pages = DevicePages::new(sim, medium, options.size_bytes / PAGE_BYTES);
        let device = cache.add_device();
        let mapping = cache.clone().add_mapping(device, Rc::new(pages));
        let statistics = Cell::default();
        Ok(Rc::new(Self { options, mapping, writing: Lock::new(sim, ()), statistics }))
    }

    /// What the driver did since the device was attached.
    pub fn statistics(&self) -> Statistics {
        self.statistics.get()
    }

    /// The device's pages in the cache.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Takes pages that are clean out of the cache, as the end of the driver does
    /// (`invalidate_mapping_pages`).
    pub fn drop_pages(&self) {
        self.mapping.invalidate(&(0..u64::MAX));
    }

    fn count(&self, change: impl FnOnce(&mut Statistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }

    fn range(&self, offset: u64, length: usize) -> Result<Range<u64>, RamError> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.options.size_bytes);
        end.map(|end| offset..end).ok_or(RamError { offset })
    }

    async fn change(
        &self,
        page: u64,
        touched_bytes: u64,
        change: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool, RamError> {
        let is_held = self.options.holds_writers;
        // The driver runs in the context of its caller: a process, or a thread of the file system.
        let process = process::current();
        let changed = self.mapping.change_page(process, page, touched_bytes, is_held, change).await;
        changed.map_err(|_: FileError| RamError { offset: page * PAGE_BYTES })
    }
}

impl RamMtd for Block2Mtd {
    fn size_bytes(&self) -> u64 {
        self.options.size_bytes
    }

    fn block_bytes(&self) -> u32 {
        self.options.block_bytes
    }

    fn takes_time(&self) -> bool {
        self.options.takes_time
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> RamPending<'a> {
        Box::pin(async move {
            let range = self.range(offset, into.len())?;
            // A fresh state each time: `page_read` asks for one page and keeps no history.
            let read_ahead = Cell::new(ReadAhead::default());
            let process = process::current();
            let read = self.mapping.read(process, &read_ahead, range, Some(into), 0).await;
            read.map_err(|_: FileError| RamError { offset })
        })
    }

    fn write<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> RamPending<'a> {
        Box::pin(async move {
            let range = self.range(offset, bytes.len())?;
            // `write_mutex`: a write and an erase do not mix, while reads take no lock.
            let _held = self.writing.lock().await;
            let (mut at, mut rest) = (range.start, bytes);
            while !rest.is_empty() {
                let within = (at % PAGE_BYTES) as usize;
                let count = rest.len().min(PAGE_BYTES as usize - within);
                let (part, later) = rest.split_at(count);
                let put = |page: &mut [u8]| {
                    let place = &mut page[within..within + count];
                    // `_block2mtd_write` copies and dirties a page only if its bytes differ.
                    let differs = place != part;
                    place.copy_from_slice(part);
                    differs
                };
                let is_changed = self.change(at / PAGE_BYTES, count as u64, put).await?;
                self.count(|counted| {
                    counted.changed_pages += u64::from(is_changed);
                    counted.same_pages += u64::from(!is_changed);
                });
                (at, rest) = (at + count as u64, later);
            }
            Ok(())
        })
    }

    fn erase(&self, block: u32) -> RamPending<'_> {
        Box::pin(async move {
            let block_bytes = self.options.block_bytes;
            let offset = u64::from(block) * u64::from(block_bytes);
            let range = self.range(offset, block_bytes as usize)?;
            let _held = self.writing.lock().await;
            for page in range.start / PAGE_BYTES..range.end / PAGE_BYTES {
                let fill = |page: &mut [u8]| {
                    // `_block2mtd_erase` looks for a word that is not all ones and leaves a blank
                    // page clean.
                    let differs = page.iter().any(|byte| *byte != 0xff);
                    page.fill(0xff);
                    differs
                };
                let is_changed = self.change(page, PAGE_BYTES, fill).await?;
                self.count(|counted| {
                    counted.erased_pages += u64::from(is_changed);
                    counted.blank_pages += u64::from(!is_changed);
                });
            }
            Ok(())
        })
    }

    /// `sync_blockdev`; the kernel's driver keeps its error to itself.
    fn sync(&self) -> RamPending<'_> {
        Box::pin(async move {
            self.mapping.write_and_wait(process::current(), 0..u64::MAX).await;
            self.mapping.take_write_error().map_err(|_| RamError { offset: 0 })
        })
    }
}
