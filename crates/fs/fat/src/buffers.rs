//! Buffers of the device: sectors of metadata in memory.
//!
//! Source: `fs/buffer.c` (`sb_bread`, `mark_buffer_dirty_inode`, `sync_mapping_buffers`,
//! `clean_bdev_aliases`), Linux 6.12. Each dirty buffer is a bio of its own, and the queue of the device
//! merges neighbours. Clean buffers stay: a volume's metadata is small against memory.
//!
//! May use: `boot`, `join`.

use crate::boot::SECTOR_BYTES;
use crate::join::join_all;
use block_medium::{BlockMedium, MediumError, WriteFlags};
use fs_api::InodeNumber;
use sim::{Sim, WaitQueue};
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// Whose `fsync` writes a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The tables (`fat_inode`): every `fsync` writes them.
    Tables,
    /// A directory, whose own `fsync` writes them.
    Directory(InodeNumber),
    /// None: the sector of an entry whose file changed.
    Unowned,
}

/// A sector in memory.
pub(crate) struct Buffer {
    pub(crate) sector: u64,
    bytes: RefCell<Vec<u8>>,
    is_dirty: Cell<bool>,
    is_written: Cell<bool>,
    owner: Cell<Owner>,
}

impl Buffer {
    fn new(sector: u64, bytes: Vec<u8>) -> Rc<Self> {
        Rc::new(Self {
            sector,
            bytes: RefCell::new(bytes),
            is_dirty: Cell::new(false),
            is_written: Cell::new(false),
            owner: Cell::new(Owner::Unowned),
        })
    }

    pub(crate) fn bytes(&self) -> Ref<'_, [u8]> {
        Ref::map(self.bytes.borrow(), Vec::as_slice)
    }
}

/// All buffers of a device.
pub(crate) struct Buffers {
    sim: Sim,
    medium: Rc<dyn BlockMedium>,
    known: RefCell<BTreeMap<u64, Rc<Buffer>>>,
    /// Buffers that an `fsync` has to write, in the order in which they became dirty.
    owned: RefCell<BTreeMap<Owner, Vec<Rc<Buffer>>>>,
    /// When the first of the buffers that are dirty now became so.
    dirty_since_ns: Cell<Option<u64>>,
    written: WaitQueue,
}

impl Buffers {
    pub(crate) fn new(sim: &Sim, medium: Rc<dyn BlockMedium>) -> Self {
        Self {
            sim: sim.clone(),
            medium,
            known: RefCell::default(),
            owned: RefCell::default(),
            dirty_since_ns: Cell::new(None),
            written: WaitQueue::new(sim),
        }
    }

    fn get(&self, sector: u64) -> Option<Rc<Buffer>> {
        self.known.borrow().get(&sector).cloned()
    }

    /// The buffer of a sector, read if it is not in memory.
    pub(crate) async fn read(&self, sector: u64) -> Result<Rc<Buffer>, MediumError> {
        if let Some(buffer) = self.get(sector) {
            return Ok(buffer);
        }
        self.read_run(sector, 1).await?;
        self.get(sector).ok_or(MediumError { block: sector })
    }

    /// Reads sectors by one bio, unless the first is in memory.
    pub(crate) async fn read_run(&self, first: u64, sectors: u32) -> Result<(), MediumError> {
        if self.get(first).is_some() {
            return Ok(());
        }
        // One bio for all of them, as read-ahead makes one of neighbours. Sectors behind the first
        // that are in memory are read again, and the copy is dropped.
        let bytes = self.medium.read(first, sectors).await?;
        debug_assert_eq!(bytes.len(), sectors as usize * SECTOR_BYTES, "whole sectors are read");
        let mut known = self.known.borrow_mut();
        for (sector, bytes) in (first..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            // Another task may have read and changed it meanwhile.
            known.entry(sector).or_insert_with(|| Buffer::new(sector, bytes.to_vec()));
        }
        Ok(())
    }

    /// The buffer of a sector that is about to be written whole.
    pub(crate) fn fresh_or_known(&self, sector: u64) -> Rc<Buffer> {
        self.get(sector).unwrap_or_else(|| self.fresh(sector))
    }

    /// A buffer of zeros for a sector whose old bytes do not matter (`sb_getblk`).
    pub(crate) fn fresh(&self, sector: u64) -> Rc<Buffer> {
        let buffer = Buffer::new(sector, vec![0; SECTOR_BYTES]);
        self.known.borrow_mut().insert(sector, buffer.clone());
        buffer
    }

    /// Changes a buffer, which is dirty then.
    pub(crate) fn change(&self, buffer: &Rc<Buffer>, owner: Owner, change: impl FnOnce(&mut [u8])) {
        change(&mut buffer.bytes.borrow_mut());
        buffer.is_dirty.set(true);
        if self.dirty_since_ns.get().is_none() {
            self.dirty_since_ns.set(Some(self.sim.now()));
        }
        // The first owner keeps it until its `fsync` (`mark_buffer_dirty_inode` leaves a buffer on
        // the list that it is on). A sector that two directories share is not written by the
        // other's.
        if owner != Owner::Unowned && buffer.owner.get() == Owner::Unowned {
            buffer.owner.set(owner);
            self.owned.borrow_mut().entry(owner).or_default().push(buffer.clone());
        }
    }

    /// When the first of the dirty buffers became dirty.
    pub(crate) fn dirty_since_ns(&self) -> Option<u64> {
        self.dirty_since_ns.get()
    }

    /// Buffers in memory, and those of them that are dirty.
    pub(crate) fn count(&self) -> (u64, u64) {
        let known = self.known.borrow();
        let dirty = known.values().filter(|buffer| buffer.is_dirty.get()).count();
        (known.len() as u64, dirty as u64)
    }

    /// Writes what a file's `fsync` has to write.
    pub(crate) async fn write_owned(&self, owner: Owner) -> Result<(), MediumError> {
        // Taken off the list before they are written: what becomes dirty meanwhile is the next
        // call's.
        let buffers = self.owned.borrow_mut().remove(&owner).unwrap_or_default();
        for buffer in &buffers {
            buffer.owner.set(Owner::Unowned);
        }
        self.write(&buffers, true).await
    }

    /// Writes all that is dirty, in the order of sectors.
    pub(crate) async fn write_all(&self, is_sync: bool) -> Result<(), MediumError> {
        // Before the writes, so that a sector that changes while they are under way starts a new
        // age.
        self.dirty_since_ns.set(None);
        let is_wanted = |buffer: &&Rc<Buffer>| buffer.is_dirty.get() || buffer.is_written.get();
        let dirty: Vec<_> = self.known.borrow().values().filter(is_wanted).cloned().collect();
        self.write(&dirty, is_sync).await
    }

    /// Writes those of the buffers that are dirty, and waits for all.
    pub(crate) async fn write(
        &self,
        buffers: &[Rc<Buffer>],
        is_sync: bool,
    ) -> Result<(), MediumError> {
        let mut under_way = Vec::new();
        let mut result = Ok(());
        for buffer in buffers {
            // A buffer that another task writes is locked (`lock_buffer`).
            self.written.wait_until(|| !buffer.is_written.get()).await;
            // Clean from the moment on at which its bytes are copied, not when the medium has them:
            // a change meanwhile makes it dirty again and is not lost.
            if !buffer.is_dirty.replace(false) {
                continue;
            }
            buffer.is_written.set(true);
            let bytes = buffer.bytes().to_vec();
            let flags = WriteFlags { is_sync, ..WriteFlags::default() };
            match self.medium.write(buffer.sector, bytes, flags).await {
                Ok(done) => under_way.push(async move {
                    let done = done.await;
                    buffer.is_written.set(false);
                    self.written.wake_all();
                    done
                }),
                Err(error) => {
                    buffer.is_written.set(false);
                    self.written.wake_all();
                    // The others are written all the same. The sector stays clean in memory though
                    // the medium has not got it: the kernel gives up on it too
                    // (`end_buffer_async_write`).
                    result = Err(error);
                }
            }
        }
        for done in join_all(under_way).await {
            result = result.and(done);
        }
        result
    }

    /// The sectors are another file's now: what is in memory of them is not written any more
    /// (`clean_bdev_aliases`).
    pub(crate) async fn forget(&self, sectors: Range<u64>) {
        let gone: Vec<_> = self.known.borrow().range(sectors).map(|(_, it)| it.clone()).collect();
        for buffer in gone {
            debug_assert_ne!(
                buffer.owner.get(),
                Owner::Tables,
                "sector {} holds clusters, not the tables",
                buffer.sector
            );
            // A write under way is waited for: it must not reach the medium behind the new file's
            // data.
            buffer.is_dirty.set(false);
            self.written.wait_until(|| !buffer.is_written.get()).await;
            self.known.borrow_mut().remove(&buffer.sector);
        }
    }

    /// Buffers stand under their sectors, and in the list of the owner that they name; those that are
    /// dirty have a time since which they are.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn assert_invariants(&self) {
        let known = self.known.borrow();
        for (sector, buffer) in &*known {
            assert_eq!(buffer.sector, *sector, "the key of a buffer is its sector");
            assert_eq!(buffer.bytes().len(), SECTOR_BYTES, "bytes of sector {sector}");
        }
        for (owner, buffers) in &*self.owned.borrow() {
            let mut sectors = BTreeSet::new();
            for buffer in buffers {
                assert_eq!(buffer.owner.get(), *owner, "owner of sector {}", buffer.sector);
                assert_ne!(*owner, Owner::Unowned, "a list is an owner's");
                assert!(sectors.insert(Rc::as_ptr(buffer)), "sector {} twice", buffer.sector);
            }
        }
        // While buffers are written the time is that of what became dirty since.
        let is_written = known.values().any(|buffer| buffer.is_written.get());
        let is_dirty = known.values().any(|buffer| buffer.is_dirty.get());
        assert!(
            is_written || !is_dirty || self.dirty_since_ns.get().is_some(),
            "sectors are dirty since no time, and would never be written"
        );
    }

    /// Lets go of all buffers that are clean (`drop_caches`).
    pub(crate) fn drop_clean(&self) {
        let stays = |buffer: &Rc<Buffer>| buffer.is_dirty.get() || buffer.is_written.get();
        self.known.borrow_mut().retain(|_, buffer| stays(buffer));
        for owned in self.owned.borrow_mut().values_mut() {
            owned.retain(stays);
        }
    }
}
