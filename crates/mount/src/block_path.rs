//! The path from a file system on a block device to raw NAND: bios, a scheduler, `mtdblock`.

use crate::{Machine, MountError};
use block::{Bytes, Handle, RequestQueue};
use board::Board;
use device::DeviceError;
use fs::queue_options;
use medium::{BlockMedium, MediumError, Pending, Submitter, WriteFlags};
use mtdblock::MtdBlock;
use sched::{
    Bio, Class, Direction, Elevator, ElevatorOptions, SchedulerEntry, Settings, find_scheduler,
};
use sim::{Completion, Cpus, Sim};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = 512;
/// Most sectors of a request where the driver sets no limit (`SAFE_MAX_SECTORS`, as for `mtdblock`).
const MAX_SECTORS: u32 = 255;
/// Requests that may be queued (`BLKDEV_MAX_RQ`).
const NR_REQUESTS: u32 = 128;

/// What is asked for of the block layer; file systems on raw NAND pass it over.
#[derive(Clone, Debug)]
pub struct BlockRequest {
    /// Scheduler of the queue.
    pub scheduler: &'static SchedulerEntry,
    /// Its tunables.
    pub settings: Settings,
}

impl BlockRequest {
    /// A scheduler with its own defaults.
    pub fn new(scheduler: &'static SchedulerEntry) -> Self {
        let settings = scheduler.settings(&BTreeMap::new()).expect("defaults fit");
        Self { scheduler, settings }
    }
}

impl PartialEq for BlockRequest {
    fn eq(&self, other: &Self) -> bool {
        self.scheduler.name == other.scheduler.name && self.settings == other.settings
    }
}

impl Default for BlockRequest {
    fn default() -> Self {
        Self::new(find_scheduler("noop").expect("in the table"))
    }
}

/// `mtdblock` over a raw NAND device, with its request queue.
#[derive(Clone)]
pub struct BlockPath {
    sim: Sim,
    cpus: Rc<Cpus>,
    board: Rc<Board>,
    queue: RequestQueue,
    device: Rc<MtdBlock>,
    block_bytes: u64,
    /// Blocks that were read ahead of, on their way or there; they go when they are written.
    ahead: Rc<RefCell<BTreeMap<u64, Rc<Ahead>>>>,
}

/// A block that was read ahead of.
struct Ahead {
    /// What waits for the read, once the queue has taken it in.
    handle: OnceCell<Handle>,
    taken: Completion,
    bytes: Bytes,
}

impl BlockPath {
    /// Opens the block device of a machine's chip. File systems ask for blocks of `block_bytes`.
    pub(crate) fn open(machine: &Machine, request: &BlockRequest, block_bytes: u64) -> Self {
        let (sim, board) = (&machine.sim, machine.board.clone());
        let copy = board.costs.copy_ps_per_byte;
        let device = MtdBlock::new(sim, machine.cpus.clone(), machine.mtd.clone(), copy);
        let options = ElevatorOptions {
            hz: board.hz,
            // The queues of flash translation layers were not always marked as ones that do not rotate;
            // since which version they are is not known for sure.
            rotational: !board.is_kernel_at_least((2, 6, 37)),
            nr_requests: NR_REQUESTS,
            max_sectors: MAX_SECTORS,
            merging: true,
        };
        let elevator = Elevator::new(request.scheduler, &request.settings, options);
        let queue =
            RequestQueue::served(sim, elevator, device.clone(), queue_options(&board, MAX_SECTORS));
        Self {
            sim: sim.clone(),
            cpus: machine.cpus.clone(),
            board,
            queue,
            device,
            block_bytes,
            ahead: Rc::default(),
        }
    }

    /// The request queue, for observers.
    pub fn queue(&self) -> &RequestQueue {
        &self.queue
    }

    /// The block device.
    pub fn device(&self) -> &MtdBlock {
        &self.device
    }

    /// The last user closes the device: what its cache holds is written, its buffers are gone.
    ///
    /// # Errors
    /// [`MountError::Medium`].
    pub(crate) async fn close(&self, kind: &'static str) -> Result<(), MountError> {
        self.ahead.borrow_mut().clear();
        let flushed = self.device.flush().await;
        flushed.map_err(|error| MountError::Medium { kind, reason: error.to_string() })
    }

    fn bio(
        &self,
        direction: Direction,
        sync: bool,
        block: u64,
        blocks: u64,
        who: Submitter,
    ) -> Bio {
        let sectors = self.block_bytes / SECTOR_BYTES;
        Bio {
            pid: who as u32 + 1,
            direction,
            sync,
            // `WRITE_SYNC` says that nothing will follow.
            noidle: sync && direction == Direction::Write,
            class: Class::default(),
            level: 4,
            sector: block * sectors,
            sectors: (blocks * sectors) as u32,
        }
    }

    async fn submit(&self, bio: Bio, bytes: Bytes) -> Handle {
        self.pay(self.board.costs.bio_submit_ns).await;
        self.queue.submit_bytes(bio, Some(bytes), None).await
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
        (first..first + u64::from(blocks)).map(|block| ahead.get(&block).cloned()).collect()
    }
}

impl BlockMedium for BlockPath {
    fn block_bytes(&self) -> usize {
        self.block_bytes as usize
    }

    fn size_bytes(&self) -> u64 {
        self.queue.sectors() * SECTOR_BYTES
    }

    /// `bio_get_nr_vecs`, and whole blocks only.
    fn bio_blocks_max(&self) -> u32 {
        MAX_SECTORS / (self.block_bytes / SECTOR_BYTES) as u32
    }

    fn read(&self, first_block: u64, blocks: u32, submitter: Submitter) -> Pending<'_, Vec<u8>> {
        Box::pin(async move { self.submit_read(first_block, blocks, submitter).await?.await })
    }

    fn submit_read(
        &self,
        first_block: u64,
        blocks: u32,
        submitter: Submitter,
    ) -> Pending<'_, Pending<'static, Vec<u8>>> {
        Box::pin(async move {
            let path = self.clone();
            let bytes = Bytes::default();
            let bio = self.bio(Direction::Read, true, first_block, blocks.into(), submitter);
            let handle = self.submit(bio, bytes.clone()).await;
            Ok(Box::pin(async move {
                path.done(&handle, first_block).await?;
                Ok(bytes.take())
            }) as Pending<'static, Vec<u8>>)
        })
    }

    fn read_buffers(
        &self,
        first_block: u64,
        blocks: u32,
        submitter: Submitter,
    ) -> Pending<'_, Vec<u8>> {
        Box::pin(async move {
            let Some(there) = self.read_before(first_block, blocks) else {
                return self.read(first_block, blocks, submitter).await;
            };
            let mut all = Vec::new();
            for (block, ahead) in (first_block..).zip(there) {
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
    fn read_ahead(&self, first_block: u64, blocks: u32, submitter: Submitter) {
        let mut asked = Vec::new();
        for block in first_block..first_block + u64::from(blocks) {
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
                let bio = path.bio(Direction::Read, true, block, 1, submitter);
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
        submitter: Submitter,
    ) -> Pending<'_, Pending<'static, ()>> {
        Box::pin(async move {
            if flags.flushes_before {
                self.flush(submitter).await?;
            }
            let blocks = bytes.len() as u64 / self.block_bytes;
            for block in first_block..first_block + blocks {
                self.ahead.borrow_mut().remove(&block);
            }
            let bio = self.bio(Direction::Write, flags.is_sync, first_block, blocks, submitter);
            let handle = self.submit(bio, Rc::new(RefCell::new(bytes))).await;
            let path = self.clone();
            Ok(Box::pin(async move {
                path.done(&handle, first_block).await?;
                if flags.is_durable {
                    path.flush(submitter).await?;
                }
                Ok(())
            }) as Pending<'static, ()>)
        })
    }

    fn flush(&self, submitter: Submitter) -> Pending<'_, ()> {
        Box::pin(async move {
            let flushed = self.queue.flush(submitter as u32 + 1).await;
            flushed.map(drop).map_err(|_| MediumError { block: 0 })
        })
    }
}
