//! The mounted volume: what all parts share (`struct msdos_sb_info`).
//!
//! May use: `boot`, `buffers`, `finding`, `inode`, `profile`.

use crate::boot::Volume;
use crate::buffers::{Buffer, Buffers};
use crate::finding::Code;
use crate::inode::Inode;
use crate::profile::MountOptions;
use block_medium::{BlockMedium, MediumError};
use fs_api::{CachedPages, Errno, Finding, InodeNumber, Place};
use sim::{Cpus, Lock, Sim, Timer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

pub(crate) struct Engine {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) medium: Rc<dyn BlockMedium>,
    pub(crate) options: MountOptions,
    pub(crate) volume: Volume,
    pub(crate) buffers: Buffers,
    /// One at a time changes directories (`s_lock`).
    pub(crate) names_lock: Lock<()>,
    /// One at a time allocates or frees clusters (`fat_lock`).
    pub(crate) table_lock: Lock<()>,
    /// The cluster allocated last (`prev_free`).
    pub(crate) last_allocated: Cell<u32>,
    /// Free clusters, as FSInfo says or as counted.
    pub(crate) free_clusters: Cell<Option<u32>>,
    /// The number of free clusters was counted; FSInfo's is only shown (no `usefree`).
    pub(crate) is_count_certain: Cell<bool>,
    /// FSInfo has to be written.
    pub(crate) is_info_dirty: Cell<bool>,
    /// Inodes in memory by number, the removed ones in use among them.
    pub(crate) inodes: RefCell<BTreeMap<InodeNumber, Rc<Inode>>>,
    /// Inodes by the place of their directory entry (`i_pos`): sector and byte.
    pub(crate) places: RefCell<BTreeMap<(u64, usize), InodeNumber>>,
    /// Numbers of entries that a listing named and whose inode makes no sense: a directory with a broken chain.
    pub(crate) unfilled: RefCell<BTreeMap<(u64, usize), InodeNumber>>,
    pub(crate) next_inode: Cell<InodeNumber>,
    pub(crate) timer: Timer,
    pub(crate) is_timer_armed: Cell<bool>,
    pub(crate) is_read_only: Cell<bool>,
    pub(crate) is_ended: Cell<bool>,
    pub(crate) findings: RefCell<Vec<Finding>>,
    /// Page cache of the layer above, once `use_cached_pages` has registered it.
    pub(crate) cached_pages: RefCell<Option<Weak<dyn CachedPages>>>,
}

impl Engine {
    pub(crate) async fn compute(&self, cost_ns: u64) {
        if cost_ns > 0 {
            self.cpus.run(cost_ns).await;
        }
    }

    /// Adds to the findings, each of which stands there once.
    pub(crate) fn note(&self, code: Code, place: Place, text: impl Into<String>) {
        let finding = code.at(place, text);
        let mut findings = self.findings.borrow_mut();
        if findings.len() < 1000 && !findings.contains(&finding) {
            findings.push(finding);
        }
    }

    /// Something on the medium makes no sense: it is noted, and nothing changes any more
    /// (`fat_fs_error`, `errors=remount-ro`). What is dirty already still reaches the medium.
    pub(crate) fn damaged(&self, code: Code, place: Place, text: impl Into<String>) -> Errno {
        // `errors=remount-ro`, the default. Only what makes no sense comes here; an error of the
        // medium does not.
        self.is_read_only.set(true);
        self.note(code, place, text);
        Errno::Eio
    }

    /// The medium failed; the kernel goes on.
    pub(crate) fn failed(&self, error: MediumError) -> Errno {
        self.note(Code::Unreadable, Place::Whole, error.to_string());
        Errno::Eio
    }

    pub(crate) async fn buffer(&self, sector: u64) -> Result<Rc<Buffer>, Errno> {
        self.buffers.read(sector).await.map_err(|error| self.failed(error))
    }

    /// Refuses changes on a mount that may not write.
    pub(crate) fn may_write(&self) -> Result<(), Errno> {
        if self.is_read_only.get() { Err(Errno::Erofs) } else { Ok(()) }
    }
}
