//! State of the constructor: what it was asked for, what is due, what it has made.
//!
//! Source: `struct nilfs_sc_info` of `fs/nilfs2/segment.h`.
//!
//! May use: `superblock`.

use crate::superblock::Superblock;
use fs_api::Errno;
use sim::{Sim, Timer, WaitQueue};
use std::cell::{Cell, RefCell};

// `NILFS_SC_DEFAULT_TIMEOUT` of `fs/nilfs2/segment.h`.
/// Time from the first change to a checkpoint, if the superblock does not say another.
const INTERVAL_S: u64 = 5;
// `NILFS_SC_DEFAULT_WATERMARK`.
/// Dirty blocks that make the constructor write data, if the superblock does not say another.
const WATERMARK_BLOCKS: u64 = 3600;

/// State of the constructor (`struct nilfs_sc_info`).
pub(crate) struct Constructor {
    pub(crate) interval_ns: u64,
    pub(crate) watermark_blocks: u64,
    /// Blocks that became dirty since the last log.
    pub(crate) dirty_blocks: Cell<u64>,
    /// Checkpoints asked for, taken on, and made.
    pub(crate) requested: Cell<u64>,
    pub(crate) accepted: Cell<u64>,
    pub(crate) done: Cell<u64>,
    pub(crate) result: Cell<Result<(), Errno>>,
    pub(crate) flush_is_requested: Cell<bool>,
    /// When a checkpoint is due because something changed.
    pub(crate) due_ns: Cell<Option<u64>>,
    pub(crate) timer: Timer,
    pub(crate) thread: WaitQueue,
    pub(crate) waiters: WaitQueue,
    pub(crate) is_ended: Cell<bool>,
    /// Segments that become clean with the next checkpoint.
    pub(crate) freed_segments: RefCell<Vec<u64>>,
    /// Blocks in logs since the last checkpoint.
    pub(crate) written_blocks: Cell<u64>,
    /// Logs without a checkpoint were begun (`NILFS_SC_UNCLOSED`).
    pub(crate) is_unclosed: Cell<bool>,
    /// Metadata is dirty (`NILFS_SC_DIRTY`).
    pub(crate) is_dirty: Cell<bool>,
    /// The next checkpoint shows something new (`NILFS_SC_HAVE_DELTA`).
    pub(crate) has_delta: Cell<bool>,
    /// The last construction made a checkpoint (`NILFS_SC_SUPER_ROOT`).
    pub(crate) made_checkpoint: Cell<bool>,
    /// A superblock has to follow the next checkpoint (`THE_NILFS_DISCONTINUED`).
    pub(crate) needs_superblock: Cell<bool>,
    /// Superblocks point to an older segment than the newest checkpoint (`THE_NILFS_SB_DIRTY`).
    pub(crate) is_superblock_dirty: Cell<bool>,
    /// Nothing was written since the device was flushed.
    pub(crate) is_device_flushed: Cell<bool>,
}

impl Constructor {
    pub(crate) fn new(sim: &Sim, superblock: &Superblock) -> Self {
        let or = |value: u32, default| if value == 0 { default } else { u64::from(value) };
        Self {
            interval_ns: or(superblock.commit_interval, INTERVAL_S) * 1_000_000_000,
            watermark_blocks: or(superblock.watermark_blocks, WATERMARK_BLOCKS),
            dirty_blocks: Cell::new(0),
            requested: Cell::new(0),
            accepted: Cell::new(0),
            done: Cell::new(0),
            result: Cell::new(Ok(())),
            flush_is_requested: Cell::new(false),
            due_ns: Cell::new(None),
            timer: Timer::new(sim),
            thread: WaitQueue::new(sim),
            waiters: WaitQueue::new(sim),
            is_ended: Cell::new(false),
            freed_segments: RefCell::default(),
            written_blocks: Cell::new(0),
            is_unclosed: Cell::new(false),
            is_dirty: Cell::new(false),
            has_delta: Cell::new(false),
            made_checkpoint: Cell::new(false),
            needs_superblock: Cell::new(false),
            is_superblock_dirty: Cell::new(false),
            is_device_flushed: Cell::new(true),
        }
    }
}
