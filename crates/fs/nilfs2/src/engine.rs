//! The mounted file system: what all parts share (`struct the_nilfs`, `struct nilfs_sc_info`).
//!
//! May use: `cleaner_switch`, `constructor`, `file`, `finding`, `map`, `mount_error`, `profile`, `records`,
//! `superblock`.

use crate::cleaner_switch::CleanerSwitch;
use crate::constructor::Constructor;
use crate::file::File;
use crate::finding::Code;
use crate::mount_error::RolledBack;
use crate::profile::MountOptions;
use crate::records::SuperRoot;
use crate::superblock::Superblock;
use block_medium::{BlockMedium, MediumError};
use fs_api::{CachedPages, Errno, Finding, Place};
use sim::{Cpus, Lock, RwLock, Sim};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// Sizes that do not change while mounted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) block_bytes: u64,
    pub(crate) blocks_per_segment: u64,
    pub(crate) segments: u64,
    pub(crate) first_data_block: u64,
    pub(crate) reserved_segments: u64,
    pub(crate) checksum_seed: u32,
}

impl Geometry {
    /// First and last block of a segment.
    pub(crate) fn segment_range(&self, segment: u64) -> (u64, u64) {
        let first = segment * self.blocks_per_segment;
        let end = first + self.blocks_per_segment - 1;
        // Segment 0 shares its first blocks with the superblock.
        (if segment == 0 { self.first_data_block } else { first }, end)
    }

    /// Segment that a block is in.
    pub(crate) fn segment_of(&self, block: u64) -> u64 {
        block / self.blocks_per_segment
    }

    /// Entries of a group of the persistent object allocator: bits of a block.
    pub(crate) fn entries_per_group(&self) -> u64 {
        self.block_bytes * 8
    }

    /// Blocks that may hold logs.
    pub(crate) fn blocks(&self) -> u64 {
        self.segments * self.blocks_per_segment
    }
}

/// Where the next log goes, and where the newest checkpoint is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPosition {
    /// Segment that is being filled.
    pub(crate) segment: u64,
    /// Segment that follows it.
    pub(crate) next_segment: u64,
    /// Block of the segment where the next log begins.
    pub(crate) offset: u64,
    /// Sequence number of the segment.
    pub(crate) sequence: u64,
    /// Checkpoint that the next log with a super root makes.
    pub(crate) checkpoint: u64,
    /// First block of the newest log with a super root.
    pub(crate) last_log: u64,
    /// Sequence number of that log's segment.
    pub(crate) last_sequence: u64,
    /// Number of the checkpoint that that log made.
    pub(crate) last_checkpoint: u64,
    /// Sequence number up to which segments may be cleaned: that of the log in the superblocks.
    pub(crate) protected_sequence: u64,
    /// Sequence number when the superblocks were last found out of date.
    pub(crate) previous_sequence: u64,
    /// When the last log was made that is not the cleaner's, seconds.
    pub(crate) written: u64,
}

/// Both superblocks as they stand on the medium; the first one is the newer.
#[derive(Clone, Debug)]
pub(crate) struct Superblocks {
    /// Places and contents. A damaged second one is missing until the next mount that writes.
    pub(crate) pair: Vec<(u64, Superblock)>,
    /// Both stood on the medium when it was mounted: the older one is another place to begin at.
    pub(crate) has_spare: bool,
    /// The blocks in which they stand, by number: they stay in memory while mounted (`ns_sbh`).
    pub(crate) buffers: BTreeMap<u64, Vec<u8>>,
    /// Times one of them was written.
    pub(crate) writes: u64,
    /// When one was last written, seconds.
    pub(crate) written_s: u64,
}

/// Files of the checkpoint that is shown (`struct nilfs_root`).
pub(crate) struct Root {
    pub(crate) ifile: Rc<File>,
    pub(crate) inodes: Cell<u64>,
    pub(crate) blocks: Cell<u64>,
    /// Files in memory by inode.
    pub(crate) files: RefCell<BTreeMap<u64, Rc<File>>>,
}

pub(crate) struct Engine {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) medium: Rc<dyn BlockMedium>,
    pub(crate) options: MountOptions,
    pub(crate) geometry: Geometry,
    pub(crate) superblocks: RefCell<Superblocks>,
    /// One writer of superblocks at a time (`ns_sem`).
    pub(crate) superblock_lock: Lock<()>,
    pub(crate) position: Cell<LogPosition>,
    pub(crate) dat: Rc<File>,
    pub(crate) cpfile: Rc<File>,
    pub(crate) sufile: Rc<File>,
    pub(crate) root: Root,
    /// Files with dirty data, in the order in which they became so.
    pub(crate) dirty_files: RefCell<Vec<Rc<File>>>,
    /// Files without names that the constructor has let go of.
    pub(crate) evictions: RefCell<Vec<Rc<File>>>,
    /// Files that hold blocks for the cleaner, by inode and checkpoint.
    pub(crate) cleaned_files: RefCell<Vec<Rc<File>>>,
    /// Page cache of the layer above, once `use_cached_pages` has registered it.
    pub(crate) cached_pages: RefCell<Option<Weak<dyn CachedPages>>>,
    /// Changes read, the constructor writes (`ns_segctor_sem`).
    pub(crate) transactions: RwLock<()>,
    pub(crate) constructor: Constructor,
    pub(crate) cleaner: CleanerSwitch,
    /// Clean segments, as counted in the segment usage file.
    pub(crate) clean_segments: Cell<u64>,
    pub(crate) is_read_only: Cell<bool>,
    pub(crate) findings: RefCell<Vec<Finding>>,
    /// Why the mount began at the older superblock, if it did.
    pub(crate) rolled_back: Option<RolledBack>,
}

impl Engine {
    pub(crate) fn super_root_files(sim: &Sim, root: &SuperRoot) -> [Rc<File>; 3] {
        use crate::map::Map;
        use crate::records::{CPFILE_INODE, DAT_INODE, SUFILE_INODE};
        [(DAT_INODE, &root.dat), (CPFILE_INODE, &root.cpfile), (SUFILE_INODE, &root.sufile)].map(
            |(number, inode)| File::new(sim, number, inode.clone(), Map::new(number, inode.map)),
        )
    }

    /// The clock of logs and superblocks, seconds since 1970.
    pub(crate) fn now_s(&self) -> u64 {
        self.options.epoch_s + self.sim.now() / 1_000_000_000
    }

    pub(crate) async fn compute(&self, cost_ns: u64) {
        if cost_ns > 0 {
            self.cpus.run(cost_ns).await;
        }
    }

    /// Computes over bytes at picoseconds each.
    pub(crate) async fn compute_bytes(&self, bytes: u64, ps_per_byte: u64) {
        self.compute(bytes * ps_per_byte / 1000).await;
    }

    /// Something on the medium makes no sense: it is noted, and nothing is written any more
    /// (`nilfs_error`, `errors=remount-ro`).
    pub(crate) fn damaged(&self, code: Code, place: Place, text: impl Into<String>) -> Errno {
        self.is_read_only.set(true);
        self.note(code, place, text);
        Errno::Eio
    }

    pub(crate) fn failed(&self, error: MediumError) -> Errno {
        self.damaged(Code::Unreadable, Place::Whole, error.to_string())
    }

    /// True of blocks that may hold logs.
    pub(crate) fn has_place(&self, block: u64) -> bool {
        (1..self.geometry.blocks()).contains(&block)
    }

    /// Refuses a block that no segment holds.
    pub(crate) fn check_place(&self, block: u64) -> Result<(), Errno> {
        if self.has_place(block) {
            return Ok(());
        }
        Err(self.damaged(
            Code::BadMap,
            Place::Block(block),
            format!("a map leads to block {block}, outside the segments"),
        ))
    }

    /// Reads one block of the device.
    pub(crate) async fn read_block(&self, block: u64) -> Result<Vec<u8>, Errno> {
        self.check_place(block)?;
        let read = self.medium.read(block, 1).await;
        read.map_err(|error| self.failed(error))
    }

    /// Blocks that belong to the checkpoint came or went.
    pub(crate) fn count_root_blocks(&self, file: &File, blocks: i64) {
        if file.is_in_checkpoint() {
            let now = self.root.blocks.get().saturating_add_signed(blocks);
            self.root.blocks.set(now);
        }
    }

    pub(crate) fn update_position(&self, update: impl FnOnce(&mut LogPosition)) {
        let mut position = self.position.get();
        update(&mut position);
        self.position.set(position);
    }

    /// Refuses changes on a mount that may not write.
    pub(crate) fn may_write(&self) -> Result<(), Errno> {
        if self.is_read_only.get() { Err(Errno::Erofs) } else { Ok(()) }
    }

    /// Refuses changes when only the cleaner may still write (`nilfs_near_disk_full`).
    pub(crate) fn may_allocate(&self) -> Result<(), Errno> {
        self.may_write()?;
        // Dirty blocks will take segments that are still clean. One more is for the metadata of the
        // next checkpoint.
        let dirty = self.constructor.dirty_blocks.get() / self.geometry.blocks_per_segment + 1;
        // The cleaner writes before it frees. Without the reserve a full file system could never be
        // cleaned.
        if self.clean_segments.get() <= self.geometry.reserved_segments + dirty {
            return Err(Errno::Enospc);
        }
        Ok(())
    }
}
