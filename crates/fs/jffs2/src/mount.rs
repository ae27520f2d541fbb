//! Mounting, and what a mount offers beside the calls of a file system.
//!
//! May use: `clock`, `compress`, `engine`, `flash`, `mount_error`, `profile`, `state`, `statistics`.

use crate::clock::Clock;
use crate::compress::COMPRESSORS;
use crate::engine::Engine;
use crate::flash::Flash;
use crate::mount_error::MountError;
use crate::profile::{CleanMarkers, MountOptions};
use crate::state::{State, Sums};
use crate::statistics::Statistics;
use fs_api::Finding;
use sim::{Cpus, Lock, RwLock, Sim, WaitQueue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Where nodes are marked obsolete on the medium, as many more blocks may be very dirty before the
/// collector begins (`jffs2_calc_trigger_levels`).
const VERY_DIRTY_FACTOR: u32 = 10;

/// Space by what it holds, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Nodes that files and directories use.
    pub used_bytes: u64,
    /// Obsolete nodes in blocks that are worth collecting.
    pub dirty_bytes: u64,
    /// The same in other blocks.
    pub wasted_bytes: u64,
    /// Bytes that can be written.
    pub free_bytes: u64,
    /// Blocks that are being erased or wait for their mark.
    pub erasing_bytes: u64,
    /// Blocks that are marked bad or were given up.
    pub bad_bytes: u64,
    /// Nodes whose data was not checked yet.
    pub unchecked_bytes: u64,
    /// Blocks that are erased and marked clean.
    pub free_blocks: u32,
    /// Blocks that have to stay free after a write.
    pub reserved_blocks: u32,
}

/// A mounted JFFS2; the calls are those of [`fs_api::FileSystem`].
pub struct Jffs2 {
    pub(crate) engine: Rc<Engine>,
}

impl Jffs2 {
    /// Scans a device and mounts what is on it; a blank device becomes an empty file system
    /// (`jffs2_do_fill_super`).
    ///
    /// # Errors
    /// [`MountError::NoNodes`] and the two of unknown node types for what is on the medium,
    /// [`MountError::Device`] for its size, [`MountError::Medium`] and [`MountError::Call`] for reads.
    pub async fn mount(
        sim: &Sim,
        cpus: Rc<Cpus>,
        flash: impl Into<Flash>,
        options: MountOptions,
    ) -> Result<Self, MountError> {
        // One function: the steps of `jffs2_do_fill_super`, each of which relies on the one before.
        let flash = flash.into();
        let block_bytes = flash.block_bytes();
        let blocks = flash.size_bytes() / u64::from(block_bytes);
        // Offsets in nodes and references have 32 bits; five blocks is the limit of
        // `jffs2_do_fill_super`.
        if flash.size_bytes() > u64::from(u32::MAX) || blocks < 5 {
            return Err(MountError::Device("JFFS2 needs five blocks and less than 4 GiB"));
        }
        let wanted = |id: u8, name: &str| match &options.compressors {
            Some(ids) => ids.contains(&id),
            None => options.profile.compressors.contains(&name),
        };
        let compressors = COMPRESSORS.iter().filter(|found| wanted(found.id, found.name)).collect();
        let mut options = options;
        if matches!(flash, Flash::Ram(_)) {
            options.clean_markers = CleanMarkers::InBand;
        } else {
            options.is_read_only |= options.clean_markers == CleanMarkers::InBand;
        }
        let has_summary = options.has_summary.unwrap_or(options.profile.has_summary);
        // `jffs2_can_mark_obsolete`: only where bits can be cleared in place, and only without
        // summaries.
        let marks_obsolete =
            matches!(flash, Flash::Ram(_)) && !has_summary && !options.is_read_only;
        let clock = Clock::new(sim, options.hz, options.seed, flash.takes_time());
        let mut state = State::new(block_bytes, blocks as u32, clock);
        if marks_obsolete {
            state.reserve.very_dirty_trigger *= VERY_DIRTY_FACTOR;
        }
        let engine = Rc::new(Engine {
            sim: sim.clone(),
            cpus,
            block_bytes,
            page_bytes: flash.page_bytes().unwrap_or(1),
            has_summary,
            state: RefCell::new(state),
            inodes: RefCell::new(BTreeMap::new()),
            allocation: Lock::new(sim, ()),
            attribute_lock: RwLock::new(sim, ()),
            erased_nodes: Lock::new(sim, ()),
            write_buffer_lock: RwLock::new(sim, ()),
            inode_waiters: WaitQueue::new(sim),
            erase_waiters: WaitQueue::new(sim),
            thread_waiters: WaitQueue::new(sim),
            is_ending: Cell::new(false),
            findings: RefCell::default(),
            statistics: Cell::default(),
            compressors,
            cached_pages: RefCell::default(),
            flash,
            options,
        });
        engine.scan().await?;
        engine.build();
        // What is obsolete already stays as it is: there was a reason if it was not marked.
        engine.state.borrow_mut().marks_obsolete = marks_obsolete;
        // The root is read at once (`jffs2_iget(sb, 1)`), which a page-read count sees.
        engine.inode(1).await?;
        engine.write_marks().await;
        // The thread starts last: it would collect before the tree is built.
        engine.start();
        Ok(Self { engine })
    }

    /// What was found wrong with the medium so far.
    pub fn findings(&self) -> Vec<Finding> {
        self.engine.findings.borrow().clone()
    }

    /// Counts since the mount.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics.get()
    }

    /// Space by what it holds.
    pub fn space_by_use(&self) -> Space {
        let state = self.engine.state.borrow();
        let Sums { used, dirty, wasted, free, erasing, bad, unchecked } = state.sums;
        Space {
            used_bytes: used,
            dirty_bytes: dirty,
            wasted_bytes: wasted,
            free_bytes: free,
            erasing_bytes: erasing,
            bad_bytes: bad,
            unchecked_bytes: unchecked,
            free_blocks: state.free_blocks(),
            reserved_blocks: state.reserve.write,
        }
    }

    /// True if neither erases nor checks nor collecting are due.
    pub fn is_idle(&self) -> bool {
        !self.engine.has_work()
    }

    /// Does one piece of the collector's work in the caller's time, as a tool without the thread
    /// does; false if there was nothing to do or nothing could be done.
    pub async fn collect(&self) -> bool {
        self.engine.has_work() && self.engine.collect_pass().await.is_ok()
    }
}
