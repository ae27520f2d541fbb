//! An attached device: its parts, and what all of them use.
//!
//! Uses the states. `impl Ubi` elsewhere uses this file, never the other way round.

use crate::io::Io;
use crate::leb_locks::LebLocks;
use crate::numbers::PebNumber;
use crate::profile::AttachOptions;
use crate::statistics::Statistics;
use crate::volume_state::Volumes;
use crate::wear_state::WearState;
use fs_api::Finding;
use sim::{Lock, RwLock, WaitQueue};
use std::cell::{Cell, RefCell};

/// Good blocks that the scan left alone.
#[derive(Debug, Default)]
pub(crate) struct SetAside {
    /// They hold data under headers that cannot be read.
    pub(crate) corrupted: Vec<PebNumber>,
    /// They are of internal volumes that must be preserved.
    pub(crate) alien: Vec<PebNumber>,
}

/// An attached device.
///
/// Locks are taken in this order: volumes (`device_mutex`), atomic changes (`alloc_mutex`), a logical
/// block, works (`work_sem`), the move (`move_mutex`), the buffer (`buf_mutex`). The states are
/// borrowed between awaits only.
pub struct Ubi {
    pub(crate) io: Io,
    pub(crate) options: AttachOptions,
    pub(crate) wear: RefCell<WearState>,
    pub(crate) volumes: RefCell<Volumes>,
    /// Number of the header written last.
    pub(crate) sequence_number: Cell<u64>,
    pub(crate) device_lock: Lock<()>,
    pub(crate) change_lock: Lock<()>,
    pub(crate) leb_locks: LebLocks,
    pub(crate) work_lock: RwLock<()>,
    pub(crate) move_lock: Lock<()>,
    pub(crate) buffer_lock: Lock<()>,
    pub(crate) thread_waiters: WaitQueue,
    pub(crate) is_ending: Cell<bool>,
    /// Blocks that neither volumes nor the wear levelling may touch.
    pub(crate) set_aside: SetAside,
    /// An image with a fastmap was attached by scanning.
    pub(crate) has_fastmap: bool,
}

impl Ubi {
    pub(crate) fn new(io: Io, options: AttachOptions, volumes: Volumes, wear: WearState) -> Self {
        let sim = io.sim.clone();
        Self {
            io,
            options,
            wear: RefCell::new(wear),
            volumes: RefCell::new(volumes),
            sequence_number: Cell::new(0),
            device_lock: Lock::new(&sim, ()),
            change_lock: Lock::new(&sim, ()),
            leb_locks: LebLocks::new(&sim),
            work_lock: RwLock::new(&sim, ()),
            move_lock: Lock::new(&sim, ()),
            buffer_lock: Lock::new(&sim, ()),
            thread_waiters: WaitQueue::new(&sim),
            is_ending: Cell::new(false),
            set_aside: SetAside::default(),
            has_fastmap: false,
        }
    }

    /// Number for the next header that is written.
    pub(crate) fn next_sequence_number(&self) -> u64 {
        // Counted up whether or not the header is ever written; gaps do no harm, but two blocks of
        // one LEB with the same number make the device unattachable.
        self.sequence_number.set(self.sequence_number.get() + 1);
        self.sequence_number.get()
    }

    /// Whether the device is read-only: it was attached so, or errors made it so.
    pub fn is_read_only(&self) -> bool {
        self.io.is_read_only.get()
    }

    /// What was found wrong with the medium, in order.
    pub fn findings(&self) -> Vec<Finding> {
        self.io.findings()
    }

    /// What the device did since it was attached.
    pub fn statistics(&self) -> Statistics {
        self.io.statistics.get()
    }

    /// Difference of erase counters from which on data is moved.
    pub fn wear_threshold(&self) -> u32 {
        u32::try_from(self.options.wear_threshold).unwrap_or(u32::MAX)
    }

    /// Wears every block by so many erases that are not carried out, as a stretch of life that is left out.
    ///
    /// Wear levelling sees them at once. The header of a block shows them from its next erase on, as
    /// the device is not to be attached anew before that.
    ///
    /// # Panics
    /// In debug builds if there is not a number for each block.
    pub fn age(&self, erases: &[u32]) {
        // No move is scheduled here: the next erase asks for one, as in the kernel.
        self.wear.borrow_mut().age(erases);
    }

    /// Ends the work in the background; what is still to be erased will be found by the next attach.
    pub fn detach(&self) {
        self.is_ending.set(true);
        // As `shutdown_work`: pending erases are dropped, not done. The next scan sorts out what
        // was replaced by its sequence number, and brings back what was only unmapped.
        self.wear.borrow_mut().works.clear();
        self.thread_waiters.wake_all();
    }
}
