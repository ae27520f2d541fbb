//! What a directory entry holds of a file, while the file is in memory.
//!
//! Source: `struct msdos_inode_info` of `fs/fat/fat.h`, Linux 6.12.
//!
//! May use: `boot`, `names`, `zeros`.

use crate::boot::Volume;
use crate::names::Record;
use crate::zeros::Zeros;
use fs_api::{InodeNumber, Time};
use sim::{Lock, Sim};
use std::cell::{Cell, RefCell};

/// Number of the inode of the root directory (`MSDOS_ROOT_INO`).
pub(crate) const ROOT: InodeNumber = 1;

/// A file or directory in memory (`struct msdos_inode_info`).
pub(crate) struct Inode {
    pub(crate) number: InodeNumber,
    pub(crate) is_directory: bool,
    /// Sector and byte of the short entry; none of the root and of what was removed (`i_pos`).
    pub(crate) place: Cell<Option<(u64, usize)>>,
    /// Attribute bits of the entry: read-only, directory, archive.
    pub(crate) bits: Cell<u8>,
    pub(crate) start: Cell<u32>,
    pub(crate) size_bytes: Cell<u64>,
    pub(crate) links: Cell<u32>,
    pub(crate) created: Cell<Time>,
    pub(crate) accessed: Cell<Time>,
    pub(crate) modified: Cell<Time>,
    /// Clusters of the file, as far as the chain was followed.
    pub(crate) chain: RefCell<Vec<u32>>,
    /// The chain was followed to its end.
    pub(crate) is_chain_whole: Cell<bool>,
    /// `fallocate` has set clusters aside behind the end, which go with the last user.
    pub(crate) has_clusters_behind_end: Cell<bool>,
    /// Bytes that are zero and not yet written so.
    pub(crate) zeros: RefCell<Zeros>,
    /// Held while data is written or cut: what is read to be written back stays as it is.
    pub(crate) writing: Lock<()>,
    /// What its entry says of its data: attribute bits, first cluster, size.
    pub(crate) entry: Cell<(u8, u32, u64)>,
    /// When it first differed from its entry.
    pub(crate) dirty_since_ns: Cell<Option<u64>>,
}

impl Inode {
    pub(crate) fn new(
        sim: &Sim,
        number: InodeNumber,
        place: Option<(u64, usize)>,
        record: &Record,
    ) -> Self {
        let is_directory = record.is_directory();
        // The entry of a directory has no size; its chain tells it.
        let size_bytes = if is_directory { 0 } else { record.size_bytes.into() };
        Self {
            number,
            is_directory,
            place: Cell::new(place),
            bits: Cell::new(record.attributes),
            start: Cell::new(record.start),
            size_bytes: Cell::new(size_bytes),
            links: Cell::new(1 + u32::from(is_directory)),
            created: Cell::new(record.created),
            accessed: Cell::new(record.accessed),
            modified: Cell::new(record.modified),
            chain: RefCell::default(),
            is_chain_whole: Cell::new(false),
            has_clusters_behind_end: Cell::new(false),
            zeros: RefCell::default(),
            writing: Lock::new(sim, ()),
            entry: Cell::new((record.attributes, record.start, size_bytes)),
            dirty_since_ns: Cell::new(None),
        }
    }

    /// What the entry will have to say of the data.
    pub(crate) fn new_entry(&self) -> (u8, u32, u64) {
        (self.bits.get(), self.start.get(), self.size_bytes.get())
    }

    /// The entry does not lead to the data as it is now; if it does, it may still have old times.
    pub(crate) fn leads_elsewhere(&self) -> bool {
        self.entry.get() != self.new_entry()
    }

    pub(crate) fn is_root(&self) -> bool {
        self.number == ROOT
    }

    /// After a change of the chain: it begins where the entry says, with clusters of the volume.
    #[inline]
    #[track_caller]
    pub(crate) fn assert_chain(&self, volume: &Volume) {
        let chain = self.chain.borrow();
        debug_assert!(
            chain.first().is_none_or(|first| *first == self.start.get()),
            "inode {} begins at cluster {}, its chain is {chain:?}",
            self.number,
            self.start.get()
        );
        debug_assert!(
            chain.last().is_none_or(|last| volume.has_cluster(*last)),
            "inode {}: {chain:?} ends outside the volume",
            self.number
        );
    }

    /// The cluster that the `..` of a directory in this one names: zero for the root.
    pub(crate) fn start_for_children(&self) -> u32 {
        if self.is_root() { 0 } else { self.start.get() }
    }
}
