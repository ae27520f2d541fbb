//! The path from a file system to its block device: bios, a scheduler, and `mtdblock` over raw NAND or
//! another device.

use crate::{BlockDeviceChoice, CardSlot, Machine, MountError};
use block::{Bytes, Handle, RequestQueue};
use block_medium::{BlockMedium, MediumError, Pending, SectorStore, WriteFlags};
use board::Board;
use device::DeviceError;
use mtdblock::MtdBlock;
use page_cache::queue_options;
use process::Process;
use sched::{Bio, Direction, Elevator, ElevatorOptions, SchedulerEntry, Settings, find_scheduler};
use shared_page::SharedPage;
use sim::{Completion, Cpus, Sim};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = units::SECTOR_BYTES_U64;
/// Sectors of a page of the host's memory.
const PAGE_SECTORS: u32 = (fs_api::PAGE_BYTES as u64 / SECTOR_BYTES) as u32;
/// Most sectors of a request where the driver sets no limit (`SAFE_MAX_SECTORS`, as for `mtdblock`).
const MAX_SECTORS: u32 = 255;
/// Most sectors of a request of other devices (`max_sectors_kb` of 512).
const DEVICE_MAX_SECTORS: u32 = 1024;
/// Requests that may be queued (`BLKDEV_MAX_RQ`).
const NR_REQUESTS: u32 = 128;

/// What is asked for of the block layer; file systems on raw NAND pass it over.
#[derive(Clone, Debug)]
pub struct BlockRequest {
    /// Scheduler of the queue.
    pub scheduler: &'static SchedulerEntry,
    /// Tunables of the scheduler.
    pub settings: Settings,
    /// The device under the queue.
    pub device: BlockDeviceChoice,
    /// Most sectors of a request, instead of the driver's own limit.
    pub max_sectors: Option<u32>,
}

impl BlockRequest {
    /// A scheduler with its own defaults.
    pub fn new(scheduler: &'static SchedulerEntry) -> Self {
        let settings = scheduler.settings(&BTreeMap::new()).expect("defaults fit");
        Self { scheduler, settings, device: BlockDeviceChoice::default(), max_sectors: None }
    }
}

/// Equal requests open the same device and queue.
impl PartialEq for BlockRequest {
    fn eq(&self, other: &Self) -> bool {
        (self.scheduler.name, &self.settings, &self.device, self.max_sectors)
            == (other.scheduler.name, &other.settings, &other.device, other.max_sectors)
    }
}

impl Default for BlockRequest {
    fn default() -> Self {
        Self::new(find_scheduler("noop").expect("in the table"))
    }
}

/// What is under the request queue.
#[derive(Clone)]
enum Under {
    /// It moves bytes itself.
    MtdBlock(Rc<MtdBlock>),
    /// It keeps time only; the bytes are here.
    Timed(Rc<SectorStore>),
}

/// A block device with its request queue.
#[derive(Clone)]
pub struct BlockPath {
    sim: Sim,
    cpus: Rc<Cpus>,
    board: Rc<Board>,
    queue: RequestQueue,
    under: Under,
    max_sectors: u32,
    block_bytes: u64,
    /// Blocks that were read ahead of, on their way or there; they go when they are written.
    ahead: Rc<RefCell<BTreeMap<u64, Rc<Ahead>>>>,
    /// Flushes of the device that came to their end.
    flushes: Rc<Cell<u64>>,
    /// Who notes what is written to a card.
    card: Rc<CardSlot>,
    /// What was written is durable once it is flushed, and not before.
    has_cache: bool,
}

/// A block that was read ahead of.
struct Ahead {
    /// What waits for the read, once the queue has taken it in.
    handle: OnceCell<Handle>,
    taken: Completion,
    bytes: Bytes,
}

impl BlockPath {
    /// Opens the block device that is asked for, as file systems do that ask for blocks of `block_bytes`.
    ///
    /// # Errors
    /// [`MountError::BlockDevice`] for a description that makes no device.
    pub(crate) fn open(
        machine: &Machine,
        request: &BlockRequest,
        block_bytes: u64,
    ) -> Result<Self, MountError> {
        let (sim, board) = (&machine.sim, machine.board.clone());
        let elevator = |rotational, max_sectors| {
            let (hz, nr_requests) = (board.hz, NR_REQUESTS);
            let merging = true;
            let options = ElevatorOptions { hz, rotational, nr_requests, max_sectors, merging };
            let settings = request.settings.clone().with_seed(sim.seed());
            Elevator::new(request.scheduler, &settings, options)
        };
        // A request must hold a page, or the page cache could not be written.
        let limit = |own: u32| request.max_sectors.unwrap_or(own).max(PAGE_SECTORS);
        let (queue, under, max_sectors) = match &request.device {
            BlockDeviceChoice::MtdBlock => {
                let copy = board.costs.copy_ps_per_byte;
                let device = MtdBlock::new(sim, machine.cpus.clone(), machine.mtd.clone(), copy);
                let max_sectors = limit(MAX_SECTORS);
                // The queues of flash translation layers were not always marked as ones that do not
                // rotate; since which version they are is not known for sure.
                let elevator = elevator(!board.is_kernel_at_least((2, 6, 37)), max_sectors);
                let options = queue_options(&board, max_sectors);
                let queue = RequestQueue::served(sim, elevator, device.clone(), options);
                (queue, Under::MtdBlock(device), max_sectors)
            }
            BlockDeviceChoice::Device(spec) => {
                // Drawn from the run's seed, so that equal runs meet equal devices.
                let seed = sim.stream("block device").next_u64();
                let device = device::build(spec, seed).map_err(|error| {
                    MountError::BlockDevice { device: spec.name.clone(), reason: error.to_string() }
                })?;
                let max_sectors = limit(DEVICE_MAX_SECTORS);
                let elevator = elevator(device.is_rotational(), max_sectors);
                let options = queue_options(&board, max_sectors);
                let queue = RequestQueue::new(sim, elevator, device, options);
                (queue, Under::Timed(Rc::default()), max_sectors)
            }
        };
        let (sim, cpus) = (sim.clone(), machine.cpus.clone());
        let (ahead, flushes, card) = (Rc::default(), Rc::default(), machine.card.clone());
        let has_cache = match &request.device {
            BlockDeviceChoice::MtdBlock => true,
            BlockDeviceChoice::Device(spec) => spec.cache.bytes > 0,
        };
        // The bytes of a card outlive a machine where a power cut is looked at.
        if let Under::Timed(store) = &under {
            for (sector, bytes) in card.contents().sectors() {
                store.put(sector, bytes);
            }
        }
        Ok(Self {
            sim,
            cpus,
            board,
            queue,
            under,
            max_sectors,
            block_bytes,
            ahead,
            flushes,
            card,
            has_cache,
        })
    }

    /// True if file systems ask for blocks of this size.
    pub(crate) fn asks_for(&self, block_bytes: u64) -> bool {
        self.block_bytes == block_bytes
    }

    /// The request queue, for observers.
    pub fn queue(&self) -> &RequestQueue {
        &self.queue
    }

    /// Flushes of the device since it was opened: what was written before each of them is durable. None of a
    /// device without a cache, where what is done is durable.
    pub fn flushes(&self) -> Option<u64> {
        self.has_cache.then(|| self.flushes.get())
    }

    fn count_flush(&self) {
        self.flushes.set(self.flushes.get() + 1);
    }

    /// The block device over raw NAND, if it is that.
    pub fn mtdblock(&self) -> Option<&MtdBlock> {
        match &self.under {
            Under::MtdBlock(device) => Some(device),
            Under::Timed(_) => None,
        }
    }

    /// The last user closes the device: what its cache holds is written, its buffers are gone.
    ///
    /// # Errors
    /// [`MountError::Medium`].
    pub async fn close(&self, kind: &'static str) -> Result<(), MountError> {
        // Buffers of the device go with its last user (`kill_bdev`).
        self.ahead.borrow_mut().clear();
        let flushed = match &self.under {
            Under::MtdBlock(device) => device.flush().await.map(|()| self.count_flush()),
            // The last user of a disk or a card asks for no flush (`bdev_release` of `block/bdev.c`).
            Under::Timed(_) => Ok(()),
        };
        flushed.map_err(|error| MountError::Medium { kind, reason: error.to_string() })
    }

    fn bio(&self, direction: Direction, sync: bool, blocks: Range<u64>) -> Bio {
        let sectors = self.block_bytes / SECTOR_BYTES;
        // Who submits it, as `get_io_context` finds it (`block/blk-ioc.c`): a call of a file system
        // carries no process.
        let Process { pid, class, level } = process::current();
        Bio {
            pid,
            direction,
            sync,
            // `WRITE_SYNC` says that nothing will follow.
            noidle: sync && direction == Direction::Write,
            class,
            level,
            sector: blocks.start * sectors,
            sectors: ((blocks.end - blocks.start) * sectors) as u32,
        }
    }

    async fn submit(&self, bio: Bio, bytes: Bytes) -> Handle {
        self.pay(self.board.costs.bio_submit_ns).await;
        if let Under::Timed(store) = &self.under {
            // A timed device keeps no bytes: they change when the bio is submitted, not when it is
            // done.
            match bio.direction {
                Direction::Write => store.put(bio.sector, &bytes.borrow()),
                Direction::Read => drop(bytes.replace(store.get(bio.sector, bio.sectors))),
            }
        }
        // A device that keeps time looks at no byte: those of a write may go now.
        let moved = matches!(self.under, Under::MtdBlock(_)).then_some(bytes);
        // No plug: each bio reaches the scheduler at once.
        self.queue.submit_bytes(bio, moved, None).await
    }

    async fn pay(&self, cost_ns: u64) {
        if cost_ns > 0 {
            self.cpus.run(cost_ns).await;
        }
    }

    async fn done(&self, handle: &Handle, block: u64) -> Result<(), MediumError> {
        let done = handle.wait().await;
        self.pay(self.board.costs.bio_complete_ns).await;
        done.map(drop).map_err(|_: DeviceError| MediumError { block })
    }

    /// Blocks that were all read ahead of.
    fn read_before(&self, first: u64, blocks: u32) -> Option<Vec<Rc<Ahead>>> {
        let ahead = self.ahead.borrow();
        // All or none: with a part missing, the whole is read.
        (first..first + u64::from(blocks)).map(|block| ahead.get(&block).cloned()).collect()
    }
}

impl BlockMedium for BlockPath {
    fn block_bytes(&self) -> usize {
        self.block_bytes as usize
    }

    fn size_bytes(&self) -> u64 {
        let bytes = self.queue.sectors() * SECTOR_BYTES;
        if matches!(self.under, Under::Timed(_)) { self.card.limited(bytes) } else { bytes }
    }

    /// `bio_get_nr_vecs`: a bio holds whole pages, and no more than a request.
    fn bio_blocks_max(&self) -> u32 {
        // Whole pages, since the vectors of a bio are pages.
        let sectors = self.max_sectors / PAGE_SECTORS * PAGE_SECTORS;
        sectors / (self.block_bytes / SECTOR_BYTES) as u32
    }

    fn read(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        Box::pin(async move { self.submit_read(first_block, blocks).await?.await })
    }

    fn submit_read(&self, first_block: u64, blocks: u32) -> Pending<'_, Pending<'static, Vec<u8>>> {
        Box::pin(async move {
            let path = self.clone();
            let bytes = Bytes::default();
            let bio = self.bio(Direction::Read, true, first_block..first_block + u64::from(blocks));
            let handle = self.submit(bio, bytes.clone()).await;
            Ok(Box::pin(async move {
                path.done(&handle, first_block).await?;
                Ok(bytes.take())
            }) as Pending<'static, Vec<u8>>)
        })
    }

    fn read_buffers(&self, first_block: u64, blocks: u32) -> Pending<'_, Vec<u8>> {
        Box::pin(async move {
            let Some(there) = self.read_before(first_block, blocks) else {
                return self.read(first_block, blocks).await;
            };
            let mut all = Vec::new();
            for (block, ahead) in (first_block..).zip(there) {
                // The queue may not have taken the bio in yet.
                ahead.taken.wait().await;
                let handle = ahead.handle.get().expect("it was taken");
                self.done(handle, block).await?;
                all.extend_from_slice(&ahead.bytes.borrow());
            }
            Ok(all)
        })
    }

    /// One bio a block that is not there or on its way, as `sb_breadahead` submits them; the queue joins
    /// them.
    fn read_ahead(&self, first_block: u64, blocks: u32) {
        let mut asked = Vec::new();
        for block in first_block..first_block + u64::from(blocks) {
            // There, or on its way: `sb_breadahead` submits no second read.
            if self.ahead.borrow().contains_key(&block) {
                continue;
            }
            let ahead = Rc::new(Ahead {
                handle: OnceCell::new(),
                taken: Completion::new(&self.sim),
                bytes: Bytes::default(),
            });
            asked.push((block, ahead.clone()));
            self.ahead.borrow_mut().insert(block, ahead);
        }
        let path = self.clone();
        self.sim.spawn_named("read-ahead", async move {
            for (block, ahead) in asked {
                let bio = path.bio(Direction::Read, true, block..block + 1);
                let handle = path.submit(bio, ahead.bytes.clone()).await;
                assert!(ahead.handle.set(handle).is_ok(), "a block is submitted once");
                ahead.taken.complete();
            }
        });
    }

    fn write(
        &self,
        first_block: u64,
        bytes: Vec<u8>,
        flags: WriteFlags,
    ) -> Pending<'_, Pending<'static, ()>> {
        Box::pin(async move {
            // `REQ_PREFLUSH`: the device's cache is empty before the write begins.
            if flags.flushes_before {
                self.flush().await?;
            }
            let end = first_block + bytes.len() as u64 / self.block_bytes;
            for block in first_block..end {
                // A block that was read ahead of is stale once it is written.
                self.ahead.borrow_mut().remove(&block);
            }
            let mut bio = self.bio(Direction::Write, flags.is_sync, first_block..end);
            bio.noidle &= !flags.is_direct;
            // What mtdblock writes is in the journal of the chip.
            let is_card = matches!(self.under, Under::Timed(_));
            let number = if is_card { self.card.write(bio.sector, &bytes) } else { None };
            let handle = self.submit(bio, Rc::new(RefCell::new(bytes))).await;
            let path = self.clone();
            Ok(Box::pin(async move {
                path.done(&handle, first_block).await?;
                path.card.done(number, path.has_cache);
                // `REQ_FUA` as a flush after the write, as the block layer does it for devices
                // without the flag.
                if flags.is_durable {
                    path.flush().await?;
                }
                Ok(())
            }) as Pending<'static, ()>)
        })
    }

    fn keep_once(&self, block: u64, page: &Rc<SharedPage>) {
        if self.block_bytes != fs_api::PAGE_BYTES as u64 {
            return;
        }
        match &self.under {
            Under::MtdBlock(device) => device.keep_once(block, page),
            Under::Timed(store) => store.keep_once(block, page),
        }
    }

    fn flush(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            // A write that ends while the flush is under way may still be in the cache after it.
            let covered = self.card.covered();
            let flushed = self.queue.flush(process::current().pid).await;
            flushed.map_err(|_| MediumError { block: 0 })?;
            if self.has_cache {
                self.count_flush();
                self.card.flushed(&covered);
            }
            Ok(())
        })
    }
}
