//! Mounting: superblock, master, LEB properties, journal, orphans; an empty volume is formatted.
//!
//! Source: `fs/ubifs/super.c` (`mount_ubifs`), `sb.c` (`create_default_filesystem`). Above the engine: uses
//! it with all its parts.

use crate::budget::Space;
use crate::commit_state::CommitState;
use crate::compress::Compressor;
use crate::engine::Engine;
use crate::error::MountError;
use crate::finding::Code;
use crate::format::make_file_system;
use crate::inode::{FIRST_INODE, ROOT};
use crate::journal::Journal;
use crate::layout::{Layout, MASTER_LEB, SUPERBLOCK_LEB};
use crate::lprops::Change;
use crate::lpt::Lpt;
use crate::master::{Master, flag};
use crate::nodes::{Group, Header, SUPERBLOCK_BYTES, kind, padded, seal};
use crate::orphans::Orphans;
use crate::position::Position;
use crate::profile::MountOptions;
use crate::statistics::Statistics;
use crate::superblock::{Superblock, flag as superblock_flag};
use crate::tnc::{Branch, Tnc};
use crate::volume::Volume;
use crate::write_buffer::Head;
use fs_api::{Errno, Finding, Place as FoundAt};
use sim::{Cpus, Lock, RwLock, Sim, WaitQueue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use ubi::written_bytes;

/// A mounted UBIFS; the calls are those of [`fs_api::FileSystem`].
pub struct Ubifs {
    pub(crate) engine: Rc<Engine>,
}

impl Ubifs {
    /// Mounts a volume; an empty one is formatted first.
    ///
    /// # Errors
    /// [`MountError::Empty`] if nothing may be written; [`MountError::TooSmall`];
    /// [`MountError::NoSuperblock`]; [`MountError::BadSuperblock`]; [`MountError::Damaged`].
    pub async fn mount(
        sim: &Sim,
        cpus: Rc<Cpus>,
        volume: Volume,
        options: MountOptions,
    ) -> Result<Self, MountError> {
        let superblock = read_or_make(&volume, &options).await?;
        let engine = Rc::new(Engine::new(sim, cpus, volume, superblock, options));
        let mounted = Box::pin(engine.mount()).await;
        let damaged =
            |error| MountError::Damaged { error, findings: engine.findings.borrow().clone() };
        mounted.map_err(damaged)?;
        engine.start_thread();
        Ok(Self { engine })
    }

    /// What was found wrong with the medium.
    pub fn findings(&self) -> Vec<Finding> {
        self.engine.findings.borrow().clone()
    }

    /// Counts since the mount began.
    pub fn statistics(&self) -> Statistics {
        self.engine.statistics.get()
    }

    /// An error of the medium has made the mount read-only.
    pub fn is_read_only(&self) -> bool {
        self.engine.is_read_only() || self.engine.is_broken.get()
    }
}

/// The superblock of a volume; an empty one gets a file system.
async fn read_or_make(volume: &Volume, options: &MountOptions) -> Result<Superblock, MountError> {
    let shape = volume.shape();
    // The attach of UBI has found what is mapped, so this reads nothing (`check_volume_empty`).
    let is_empty = !SUPERBLOCK_LEB.run(shape.leb_count).any(|leb| volume.is_mapped(leb));
    if is_empty {
        if options.is_read_only {
            return Err(MountError::Empty);
        }
        make_file_system(volume, options).await?;
    }
    let mut bytes = vec![0; SUPERBLOCK_BYTES.next_multiple_of(shape.min_io_bytes as usize)];
    if bytes.len() > shape.leb_bytes as usize {
        return Err(MountError::TooSmall { lebs: shape.leb_count, leb_bytes: shape.leb_bytes });
    }
    volume.read(Position::start_of(SUPERBLOCK_LEB), &mut bytes).await?;
    let header =
        Header::check(&bytes).map_err(|error| MountError::NoSuperblock(error.to_string()))?;
    if header.kind != kind::SUPERBLOCK {
        return Err(MountError::NoSuperblock("another kind of node is there".into()));
    }
    let mut superblock = Superblock::parse(&bytes);
    // The volume may have grown.
    let before = superblock.leb_count;
    superblock.leb_count = before.max(superblock.max_leb_count.min(shape.leb_count));
    let newest = options.profile.newest_format;
    superblock.check(shape, newest).map_err(MountError::BadSuperblock)?;
    // A volume grows without a word to the file system. The superblock takes the new count up to
    // `max_leb_cnt` (`ubifs_read_superblock`).
    if !options.is_read_only && superblock.leb_count > before {
        let mut node = superblock.to_bytes();
        seal(&mut node, kind::SUPERBLOCK, header.sequence, Group::None);
        volume.change(SUPERBLOCK_LEB, &padded(node, shape.min_io_bytes)).await?;
    }
    if superblock.flags & superblock_flag::SPACE_FIXUP != 0 && !options.is_read_only {
        fix_space(volume, &mut superblock, header.sequence).await?;
    }
    Ok(superblock)
}

/// The tool that flashed the image may have programmed blank ends: every eraseblock is written anew
/// without its own, once (`ubifs_fixup_free_space`).
async fn fix_space(
    volume: &Volume,
    superblock: &mut Superblock,
    sequence: u64,
) -> Result<(), MountError> {
    let shape = volume.shape();
    for leb in MASTER_LEB.run(superblock.leb_count - 1) {
        let mut bytes = vec![0; shape.leb_bytes as usize];
        volume.read(Position::start_of(leb), &mut bytes).await?;
        // The kernel takes the used length of each area from the master, the log and the LPT. Here
        // the last byte that is not blank decides.
        let used = written_bytes(&bytes);
        let used = used.next_multiple_of(shape.min_io_bytes as usize);
        if used == 0 {
            volume.unmap(leb).await?;
        } else if used < bytes.len() {
            volume.change(leb, &bytes[..used]).await?;
        }
    }
    // The flag goes last: a cut before it repeats the whole fix-up, which changes nothing the
    // second time.
    superblock.flags &= !superblock_flag::SPACE_FIXUP;
    let mut node = superblock.to_bytes();
    seal(&mut node, kind::SUPERBLOCK, sequence, Group::None);
    volume.change(SUPERBLOCK_LEB, &padded(node, shape.min_io_bytes)).await?;
    Ok(())
}

impl Engine {
    fn new(
        sim: &Sim,
        cpus: Rc<Cpus>,
        volume: Volume,
        superblock: Superblock,
        options: MountOptions,
    ) -> Self {
        let mut shape = volume.shape();
        if !options.profile.has_wide_buffers {
            shape.max_write_bytes = shape.min_io_bytes;
        }
        let layout = Layout::new(&superblock, shape);
        let known = Compressor::from_number(superblock.compressor).unwrap_or_default();
        let head = || Head { lock: Lock::new(sim, ()), buffer: RefCell::default() };
        Self {
            compressor: options.compressor.unwrap_or(known),
            sim: sim.clone(),
            cpus,
            volume,
            options,
            superblock,
            layout,
            master: Cell::default(),
            master_offset: Cell::new(0),
            sequence: Cell::new(0),
            highest_inode: Cell::new(FIRST_INODE),
            commit_number: Cell::new(0),
            commit_lock: RwLock::new(sim, ()),
            commit_state: Cell::new(CommitState::Resting),
            commit_waiters: WaitQueue::new(sim),
            thread_waiters: WaitQueue::new(sim),
            heads: [head(), head(), head()],
            log_lock: Lock::new(sim, ()),
            journal: RefCell::new(Journal::default()),
            tnc_lock: Lock::new(sim, ()),
            tnc: RefCell::new(Tnc::default()),
            collected: Cell::new(0),
            lpt_lock: Lock::new(sim, ()),
            lpt: RefCell::new(Lpt::default()),
            space: RefCell::new(Space::default()),
            orphans: RefCell::new(Orphans::default()),
            inodes: RefCell::new(BTreeMap::new()),
            sizes: RefCell::default(),
            cached_pages: RefCell::new(None),
            needs_recovery: Cell::new(false),
            was_clean: Cell::new(true),
            is_mounting: Cell::new(true),
            is_ending: Cell::new(false),
            is_broken: Cell::new(false),
            findings: RefCell::default(),
            statistics: Cell::default(),
        }
    }

    /// Begins with the numbers of the master.
    fn begin_with(&self, master: Master) {
        self.master.set(master);
        self.highest_inode.set(master.highest_inode);
        self.commit_number.set(master.commit);
        self.new_journal(master.log_leb);
        *self.lpt.borrow_mut() = Lpt::new(&self.layout, &master);
        let mut tnc = self.tnc.borrow_mut();
        tnc.root = Branch { place: master.root, ..Branch::default() };
        tnc.index_bytes = master.index_bytes;
        let mut space = self.space.borrow_mut();
        space.committed_index_bytes = master.index_bytes;
        space.index_head = master.index_head;
        space.gc_leb = master.gc_leb;
        space.min_index_lebs = space.index_lebs_for(&self.layout);
    }

    /// A master from before the volume grew: what came is empty.
    fn grown(&self, mut master: Master) -> Result<Master, Errno> {
        let count = self.layout.leb_count;
        let Some(more) = count.checked_sub(master.leb_count) else {
            self.find(
                Code::BadMaster,
                FoundAt::Whole,
                "the master node counts more LEBs than the superblock",
            );
            return Err(Errno::Eio);
        };
        master.leb_count = count;
        master.sums.empty_lebs += more;
        master.sums.free += u64::from(more) * u64::from(self.layout.leb_bytes);
        master.sums.dark += u64::from(more) * u64::from(self.layout.dark_watermark);
        Ok(master)
    }

    // One function: each step needs what the ones before it have read (`mount_ubifs`).
    async fn mount(&self) -> Result<(), Errno> {
        let is_writable = !self.is_read_only();
        let master = match self.read_master().await? {
            Some(master) => master,
            None => self.recover_master().await?,
        };
        if !master.is_sound(&self.layout) {
            self.find(Code::BadMaster, FoundAt::Whole, "the numbers of the master node cannot be");
            return Err(Errno::Eio);
        }
        let has_orphans = master.flags & flag::NO_ORPHANS == 0;
        self.needs_recovery.set(master.flags & flag::DIRTY != 0);
        self.was_clean.set(!self.needs_recovery.get());
        self.begin_with(self.grown(Master { flags: master.flags & !flag::RECOVERED, ..master })?);
        // One read more per mount: the number of page reads is compared with the kernel's.
        if self.options.profile.reads_root_twice {
            self.read_node(master.root, kind::INDEX).await?;
        }
        if is_writable && self.needs_recovery.get() {
            // Before the LPT is used: a commit that was cut may have written behind the heads of
            // the index and the LPT.
            self.recover_heads().await?;
        }
        self.start_lpt().await?;
        // Without this write a cut during the mount would look like an orderly unmount. After a cut
        // the flag is set already.
        if is_writable && !self.needs_recovery.get() {
            self.change_master(|master| master.flags |= flag::DIRTY);
            self.write_master().await?;
        }
        // The index must be complete before orphans are removed and sizes are mended.
        self.replay().await?;
        {
            let mut space = self.space.borrow_mut();
            space.min_index_lebs = space.index_lebs_for(&self.layout);
        }
        self.mount_orphans(has_orphans).await?;
        if is_writable {
            self.check_free_space()?;
            // The commit that recovery makes needs one more eraseblock of the log.
            self.make_log_room().await?;
        }
        match (is_writable, self.needs_recovery.get()) {
            (true, true) => {
                self.change_master(|master| master.flags |= flag::DIRTY);
                self.recover_sizes().await?;
                self.recover_reserve().await?;
            }
            (true, false) => {
                self.take_reserve().await?;
                let reserve = self.space.borrow().gc_leb;
                // It may hold garbage from an unclean reboot: unmapped, but not erased
                // (`mount_ubifs`).
                if let Some(leb) = reserve {
                    self.unmap(leb).await?;
                }
            }
            (false, true) => self.recover_sizes().await?,
            (false, false) => self.take_reserve().await?,
        }
        self.needs_recovery.set(false);
        self.is_mounting.set(false);
        self.inode(ROOT).await?;
        Ok(())
    }

    /// Deletions write as well: without any space a writable mount could do nothing
    /// (`check_free_space` of `super.c`).
    fn check_free_space(&self) -> Result<(), Errno> {
        if !self.lpt.borrow().lebs.sums.allow_writing(self.layout.dark_watermark) {
            self.find(
                Code::NoRoom,
                FoundAt::Whole,
                "too little free space to mount it writable; mount it read-only",
            );
            return Err(Errno::Enospc);
        }
        Ok(())
    }

    /// The collector's reserve is empty and taken (`take_gc_lnum`).
    async fn take_reserve(&self) -> Result<(), Errno> {
        let reserve = self.space.borrow().gc_leb;
        let Some(leb) = reserve else {
            self.find(Code::BadMaster, FoundAt::Whole, "no LEB is reserved for the collector");
            return Err(Errno::Eio);
        };
        // The journal and the index write on in theirs: the collector would write over it.
        let is_in_use = leb == self.space.borrow().index_head.leb
            || self.journal.borrow().buds.contains_key(&leb);
        if is_in_use {
            let text = format!("LEB {leb} is reserved for the collector and in use");
            self.find(Code::BadMaster, Position::start_of(leb).found(), text);
            return Err(Errno::Eio);
        }
        let change = Change {
            free: Some(self.layout.leb_bytes),
            dirty: Some(0),
            is_index: None,
            is_taken: Some(true),
        };
        self.change_properties(leb, change).await
    }

    /// A log that runs into its own tail is written anew in short (`ubifs_consolidate_log`).
    async fn make_log_room(&self) -> Result<(), Errno> {
        let (head, tail) = {
            let journal = self.journal.borrow();
            (journal.log_head.leb, journal.log_tail)
        };
        if self.layout.next_log_leb(head) != tail {
            return Ok(());
        }
        self.consolidate_log(tail).await
    }

    /// Ends the mount in order: a commit, then a master without the flag of a mount (`ubifs_put_super`).
    pub(crate) async fn unmount(&self) -> Result<(), Errno> {
        if self.is_read_only() {
            return Ok(());
        }
        self.sync_all().await?;
        self.is_ending.set(true);
        self.thread_waiters.wake_all();
        self.must_be_writable()?;
        self.sync_heads().await?;
        let reserve = self.space.borrow().gc_leb;
        self.change_master(|master| {
            master.flags &= !flag::DIRTY;
            master.flags |= flag::NO_ORPHANS;
            master.gc_leb = reserve;
        });
        self.write_master().await?;
        self.volume.sync().await
    }

    /// Inodes, write-buffers, then a commit (`ubifs_sync_fs`).
    pub(crate) async fn sync_all(&self) -> Result<(), Errno> {
        self.must_be_writable()?;
        let dirty: Vec<_> = {
            let inodes = self.inodes.borrow();
            inodes.values().filter(|inode| inode.data.borrow().is_dirty).cloned().collect()
        };
        for inode in dirty {
            self.write_inode_back(&inode).await?;
        }
        self.sync_heads().await?;
        self.commit().await?;
        self.volume.sync().await
    }
}
