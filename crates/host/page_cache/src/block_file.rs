//! A block device opened as a file.
//!
//! Source: `fs/block_dev.c` and `mm/filemap.c`, Linux 3.4.

use crate::backing::{Backing, Pending, Purpose, Task};
use crate::direct::{BIO_PAGES_MAX, DirectPath, sectors_of_pages};
use crate::mapping::pages_of;
use crate::read_ahead::ReadAhead;
use crate::transfer::BioKind;
use crate::{FileError, Mapping, Mode, PAGE_BYTES, PageCache, Process, Transfer};
use block::{Awaited, BioTimes, RequestQueue};
use board::Board;
use device::SECTOR_BYTES;
use rustc_hash::FxHashMap;
use sched::QuasiAsync;
use sim::{Cpus, Sim};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// A block device opened as a file, like `/dev/mmcblk0`. Clones are the same device.
///
/// Every process has it opened for itself, so each has a read-ahead of its own. Raw devices take no
/// lock around a write: calls on the same bytes meet at the pages alone.
#[derive(Clone)]
pub struct BlockFile(Rc<Opened>);

struct Opened {
    sim: Sim,
    cpus: Rc<Cpus>,
    board: Rc<Board>,
    queue: RequestQueue,
    mapping: Mapping,
    /// First sector of the partition on the device.
    first_sector: u64,
    size_bytes: u64,
    read_aheads: RefCell<FxHashMap<u32, Rc<Cell<ReadAhead>>>>,
    /// The flush that a call of a process waited for last.
    flushes: Rc<RefCell<FxHashMap<u32, BioTimes>>>,
}

impl BlockFile {
    /// Opens the device of `queue`, with a flusher of its own.
    pub fn new(
        sim: &Sim,
        cpus: Rc<Cpus>,
        board: Rc<Board>,
        queue: RequestQueue,
        cache: Rc<PageCache>,
    ) -> Self {
        let device = cache.add_device();
        let sectors = 0..queue.sectors();
        Self::open(sim, cpus, board, queue, (cache, device), sectors)
    }

    /// Opens a partition of the same device: its pages are its own, the queue and the flusher are those of the
    /// device (`blkdev_get` of a partition takes the `backing_dev_info` of the whole disk).
    ///
    /// # Panics
    /// The sectors do not lie on the device.
    #[must_use]
    pub fn partition(&self, sectors: Range<u64>) -> Self {
        let Opened { sim, cpus, board, queue, mapping, first_sector, size_bytes, .. } = &*self.0;
        let most = size_bytes / SECTOR_BYTES;
        assert!(
            sectors.start <= sectors.end && sectors.end <= most,
            "a partition lies on its device"
        );
        let sectors = first_sector + sectors.start..first_sector + sectors.end;
        let of_device = (mapping.cache.clone(), mapping.device().number);
        Self::open(sim, cpus.clone(), board.clone(), queue.clone(), of_device, sectors)
    }

    fn open(
        sim: &Sim,
        cpus: Rc<Cpus>,
        board: Rc<Board>,
        queue: RequestQueue,
        (cache, device): (Rc<PageCache>, u32),
        sectors: Range<u64>,
    ) -> Self {
        let first_sector = sectors.start;
        let size_bytes = (sectors.end - sectors.start) * SECTOR_BYTES;
        // A call that waits for a flush of its own finds its times here.
        let flushes = Rc::new(RefCell::default());
        let pages = Rc::new(DevicePages {
            sim: sim.clone(),
            cpus: cpus.clone(),
            board: board.clone(),
            queue: queue.clone(),
            first_sector,
            sectors: size_bytes / SECTOR_BYTES,
            flushes: Rc::clone(&flushes),
        });
        let mapping = cache.add_mapping(device, pages);
        let read_aheads = RefCell::default();
        let sim = sim.clone();
        Self(Rc::new(Opened {
            sim,
            cpus,
            board,
            queue,
            mapping,
            first_sector,
            size_bytes,
            read_aheads,
            flushes,
        }))
    }

    /// Bytes of the device.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    /// The device's pages in the cache.
    pub fn mapping(&self) -> &Mapping {
        &self.0.mapping
    }

    /// Switches the read-ahead of a process off for this file, as `posix_fadvise` with `POSIX_FADV_RANDOM` does.
    pub fn advise_random(&self, process: Process) {
        let mut read_aheads = self.0.read_aheads.borrow_mut();
        read_aheads.entry(process.pid).or_default().set(ReadAhead::random());
    }

    /// Reads `bytes` from `offset` on; fewer at the end of the device.
    ///
    /// # Errors
    /// [`FileError::Device`]; [`FileError::Misaligned`] of a direct read.
    pub async fn read(
        &self,
        process: Process,
        offset: u64,
        bytes: u64,
        mode: Mode,
    ) -> Result<Transfer, FileError> {
        let this = &*self.0;
        // Reads end at the device's end without an error; writes that begin there fail
        // (`generic_write_checks`).
        let range = offset..offset.saturating_add(bytes).min(this.size_bytes).max(offset);
        if mode == Mode::Direct {
            return self.direct(process, BioKind::Read, range).await;
        }
        let start_ns = this.sim.now();
        // The state belongs to the open file, which each process has of its own.
        let read_ahead = this.read_aheads.borrow_mut().entry(process.pid).or_default().clone();
        let bytes = range.end - range.start;
        let syscall_ns = this.board.costs.syscall_ns;
        this.mapping.read(process, &read_ahead, range, None, syscall_ns).await?;
        Ok(Transfer { bytes, latency_ns: this.sim.now() - start_ns, slowest: None })
    }

    /// Writes `bytes` from `offset` on; fewer at the end of the device.
    ///
    /// # Errors
    /// [`FileError::Device`]; [`FileError::Misaligned`] of a direct write; [`FileError::NoSpace`].
    pub async fn write(
        &self,
        process: Process,
        offset: u64,
        bytes: u64,
        mode: Mode,
    ) -> Result<Transfer, FileError> {
        let this = &*self.0;
        let size = this.size_bytes;
        if offset >= size && bytes > 0 {
            return Err(FileError::NoSpace { offset, size });
        }
        let range = offset..offset.saturating_add(bytes).min(size).max(offset);
        if mode == Mode::Direct {
            return self.direct(process, BioKind::DirectWrite, range).await;
        }
        let start_ns = this.sim.now();
        let bytes = range.end - range.start;
        let pages = pages_of(&range);
        this.mapping.write(process, range, None, this.board.costs.syscall_ns).await?;
        let mut slowest = None;
        if mode == Mode::Sync {
            // `O_SYNC` waits for the pages of this write, then flushes the device
            // (`generic_write_sync`).
            this.mapping.fsync_pages(process, pages).await?;
            slowest = this.flushes.borrow_mut().remove(&process.pid);
        }
        Ok(Transfer { bytes, latency_ns: this.sim.now() - start_ns, slowest })
    }

    /// Makes what was written durable. The slowest bio in what it returns is the flush.
    ///
    /// # Errors
    /// [`FileError::Device`], of this call or of write-back since the last one.
    pub async fn fsync(&self, process: Process) -> Result<Transfer, FileError> {
        let this = &*self.0;
        let start_ns = this.sim.now();
        this.cpus.run(this.board.costs.syscall_ns).await;
        this.mapping.fsync(process).await?;
        let slowest = this.flushes.borrow_mut().remove(&process.pid);
        Ok(Transfer { bytes: 0, latency_ns: this.sim.now() - start_ns, slowest })
    }

    async fn direct(
        &self,
        process: Process,
        kind: BioKind,
        range: Range<u64>,
    ) -> Result<Transfer, FileError> {
        let this = &*self.0;
        let start_ns = this.sim.now();
        let Range { start: offset, end } = range;
        // Sectors of 512 bytes: `blockdev_direct_IO` asks for the logical block size of the device.
        if !offset.is_multiple_of(SECTOR_BYTES) || !end.is_multiple_of(SECTOR_BYTES) {
            return Err(FileError::Misaligned { offset, end });
        }
        let pages = pages_of(&range);
        // Both sides of the device show the same bytes: the cache is written before, and does not
        // keep what a direct write replaces (`generic_file_direct_write`).
        let is_cached = this.mapping.has_pages(&pages);
        if is_cached {
            this.mapping.write_and_wait(process, pages.clone()).await;
        }
        let costs = &this.board.costs;
        let path = DirectPath {
            cpus: &this.cpus,
            queue: &this.queue,
            bio_submit_ns: costs.bio_submit_ns,
            bio_complete_ns: costs.bio_complete_ns,
        };
        let first = this.first_sector;
        let sectors = first + offset / SECTOR_BYTES..first + end / SECTOR_BYTES;
        let slowest = path.transfer(process, kind, sectors, costs.syscall_ns).await?;
        if is_cached && kind == BioKind::DirectWrite {
            this.mapping.invalidate(&pages);
        }
        Ok(Transfer { bytes: end - offset, latency_ns: this.sim.now() - start_ns, slowest })
    }
}

/// The device as a [`Backing`]: page and sector number go together.
///
/// Pages in a row go as one bio. The kernel makes a bio of every page of a raw device and lets the
/// plug merge them; requests are the same, and the processor time of a bio is paid for each of the
/// merged ones only.
struct DevicePages {
    sim: Sim,
    cpus: Rc<Cpus>,
    board: Rc<Board>,
    queue: RequestQueue,
    first_sector: u64,
    sectors: u64,
    flushes: Rc<RefCell<FxHashMap<u32, BioTimes>>>,
}

impl DevicePages {
    async fn submit(&self, mapping: &Mapping, pages: Range<u64>, kind: BioKind, task: &Task) {
        // A bio must fit into one request.
        let sectors_max = u64::from(self.queue.options().max_sectors);
        let most = (sectors_max / sectors_of_pages(1)).clamp(1, BIO_PAGES_MAX);
        let mut at = pages.start;
        while at < pages.end {
            let part = at..(at + most).min(pages.end);
            at = part.end;
            let Range { start: sector, end } = self.sectors_of(&part);
            self.cpus.run(self.board.costs.bio_submit_ns).await;
            let bio = kind.bio(task.process, sector, (end - sector) as u32);
            let handle = self.queue.submit(bio, Some(&task.plug)).await;
            let (mapping, cpus) = (mapping.clone(), self.cpus.clone());
            let complete_ns = self.board.costs.bio_complete_ns;
            // A task for each bio: pages end their write-back when the medium has them, not when
            // the submitter looks.
            self.sim.spawn_named("bio end", async move {
                let result = handle.wait().await.map(drop).map_err(FileError::from);
                cpus.run(complete_ns).await;
                match kind {
                    BioKind::Read => mapping.end_read(part, result),
                    _ => mapping.end_write(part, result),
                }
            });
        }
    }

    /// Sectors of pages on the device.
    fn sectors_of(&self, pages: &Range<u64>) -> Range<u64> {
        // The last page may lie in part behind the end.
        let end = sectors_of_pages(pages.end).min(self.sectors);
        self.first_sector + sectors_of_pages(pages.start)..self.first_sector + end
    }

    fn is_congested(&self, kind: BioKind) -> bool {
        self.queue.is_congested(&kind.bio(Process::INIT, 0, 1))
    }
}

impl Backing for DevicePages {
    fn pages(&self) -> u64 {
        (self.sectors * SECTOR_BYTES).div_ceil(PAGE_BYTES)
    }

    fn read_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        task: &'a Task,
    ) -> Pending<'a, ()> {
        Box::pin(self.submit(mapping, pages, BioKind::Read, task))
    }

    fn write_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        purpose: Purpose,
        task: &'a Task,
    ) -> Pending<'a, ()> {
        Box::pin(self.submit(mapping, pages, purpose.bio_kind(), task))
    }

    fn flush(&self, process: Process) -> Pending<'_, Result<(), FileError>> {
        Box::pin(async move {
            let times = self.queue.flush(process.pid).await;
            self.cpus.run(self.board.costs.bio_complete_ns).await;
            self.flushes.borrow_mut().insert(process.pid, times?);
            Ok(())
        })
    }

    fn unplug(&self, task: &Task) {
        self.queue.unplug(&task.plug);
    }

    fn quasi_async(&self) -> Option<&'static QuasiAsync> {
        Some(self.queue.quasi_async())
    }

    fn await_pages(&self, pages: &[Range<u64>], waiter: Process) -> Option<Awaited> {
        let runs = pages.iter().map(|run| self.sectors_of(run)).collect();
        Some(self.queue.await_sectors(runs, waiter))
    }

    fn is_write_congested(&self) -> bool {
        self.is_congested(BioKind::WriteBack)
    }

    fn is_read_congested(&self) -> bool {
        self.is_congested(BioKind::Read)
    }
}
