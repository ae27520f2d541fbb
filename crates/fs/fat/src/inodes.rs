//! Inodes in memory: found by number and by entry, filled from the medium, written back to their entries.
//!
//! Source: `fat_build_inode`, `fat_fill_inode`, `fat_write_inode` of `fs/fat/inode.c`, Linux 6.12.
//!
//! May use: `boot`, `buffers`, `engine`, `finding`, `inode`, `names`.

use crate::boot::{FatType, SECTOR_BYTES};
use crate::buffers::Owner;
use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::Inode;
use crate::names::{ATTRIBUTE_READ_ONLY, Record, SLOT_BYTES};
use fs_api::{Attributes, Errno, FileType, InodeNumber, Place};
use std::rc::Rc;

impl Engine {
    /// An inode that is in memory.
    pub(crate) fn inode(&self, number: InodeNumber) -> Result<Rc<Inode>, Errno> {
        let known = self.inodes.borrow().get(&number).cloned();
        known.ok_or_else(|| {
            // `fat_build_inode` of such an entry fails each time.
            let is_unfilled = self.unfilled.borrow().values().any(|other| *other == number);
            if is_unfilled { Errno::Eio } else { Errno::Enoent }
        })
    }

    /// The number that a listing gives to an entry.
    ///
    /// The kernel lists names without their inodes: it takes the number of an inode in memory, and makes one up
    /// for another (`__fat_readdir` of `fs/fat/dir.c`: `fat_iget`, `iunique`). So a directory whose chain is broken
    /// is listed, and only its lookup fails. Here all inodes are brought into memory, which notices such damage
    /// at the listing already and makes the mount read-only then.
    pub(crate) async fn listed_number(
        &self,
        place: (u64, usize),
        record: &Record,
    ) -> Result<InodeNumber, Errno> {
        match self.inode_at(place, record).await {
            Ok(inode) => {
                self.unfilled.borrow_mut().remove(&place);
                Ok(inode.number)
            }
            Err(Errno::Eio) => {
                let mut unfilled = self.unfilled.borrow_mut();
                let number = unfilled.entry(place).or_insert_with(|| {
                    let number = self.next_inode.get();
                    self.next_inode.set(number + 1);
                    number
                });
                Ok(*number)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn directory(&self, number: InodeNumber) -> Result<Rc<Inode>, Errno> {
        let inode = self.inode(number)?;
        if inode.is_directory { Ok(inode) } else { Err(Errno::Enotdir) }
    }

    pub(crate) fn regular(&self, number: InodeNumber) -> Result<Rc<Inode>, Errno> {
        let inode = self.inode(number)?;
        if inode.is_directory { Err(Errno::Eisdir) } else { Ok(inode) }
    }

    /// The inode of an entry; brought into memory if it is not there. Of a directory all slots are
    /// read, because the directories in it are its links (`fat_subdirs`).
    pub(crate) async fn inode_at(
        &self,
        place: (u64, usize),
        record: &Record,
    ) -> Result<Rc<Inode>, Errno> {
        let known = |engine: &Self| engine.places.borrow().get(&place).copied();
        if let Some(number) = known(self) {
            // By the place of the entry, which is all the identity that a FAT file has
            // (`fat_iget`). A rename moves it along.
            return self.inode(number);
        }
        let number = self.next_inode.get();
        self.next_inode.set(number + 1);
        let inode = Rc::new(Inode::new(&self.sim, number, Some(place), record));
        if inode.is_directory {
            self.fill_directory(&inode).await?;
            // Another task may have been quicker.
            if let Some(number) = known(self) {
                return self.inode(number);
            }
        }
        let other = self.places.borrow_mut().insert(place, number);
        debug_assert_eq!(other, None, "one inode is at the entry {place:?}");
        let other = self.inodes.borrow_mut().insert(number, inode.clone());
        debug_assert!(other.is_none(), "number {number} was given once");
        Ok(inode)
    }

    /// Size and links of a directory.
    pub(crate) async fn fill_directory(&self, inode: &Rc<Inode>) -> Result<(), Errno> {
        let is_fixed = inode.is_root() && self.volume.kind != FatType::Fat32;
        let size = if is_fixed {
            u64::from(self.volume.root_slots) * 32
        } else {
            if !self.volume.has_cluster(inode.start.get()) {
                let start = inode.start.get();
                return Err(self.damaged(
                    Code::BadDirectory,
                    Place::Block(start.into()),
                    format!("a directory begins at cluster {start}"),
                ));
            }
            self.follow_chain(inode).await?;
            inode.chain.borrow().len() as u64 * self.volume.cluster_bytes()
        };
        inode.size_bytes.set(size);
        let mut directories = 0;
        self.scan(inode, |entry| {
            let is_own = entry.record.name[0] == b'.';
            directories += u32::from(!is_own && entry.record.is_directory());
            false
        })
        .await?;
        inode.links.set(2 + directories);
        Ok(())
    }

    /// What `stat` reports (`fat_make_mode`).
    pub(crate) fn attributes_of(&self, inode: &Inode) -> Attributes {
        let umask = self.options.umask;
        // Of directories the bit means something else to Windows, so it takes no permission away
        // (`fat_mode_can_hold_ro` without `rodir`).
        let is_locked = !inode.is_directory && inode.bits.get() & ATTRIBUTE_READ_ONLY != 0;
        let permissions = if is_locked { 0o555 } else { 0o777 } & !umask;
        Attributes {
            kind: if inode.is_directory { FileType::Directory } else { FileType::Regular },
            permissions,
            links: inode.links.get(),
            uid: self.options.uid,
            gid: self.options.gid,
            size_bytes: inode.size_bytes.get(),
            accessed: inode.accessed.get(),
            modified: inode.modified.get(),
            // FAT stores no time of change; its creation time is not shown by `stat`.
            changed: inode.modified.get(),
            device: (0, 0),
        }
    }

    /// The inode differs from its entry now (`mark_inode_dirty`).
    pub(crate) fn mark_dirty(&self, inode: &Inode) {
        if inode.dirty_since_ns.get().is_none() {
            inode.dirty_since_ns.set(Some(self.sim.now()));
        }
        self.arm_flusher();
    }

    /// Inodes that differ from their entries, the oldest change first.
    pub(crate) fn dirty_inodes(&self) -> Vec<Rc<Inode>> {
        let inodes = self.inodes.borrow();
        let is_dirty = |inode: &&Rc<Inode>| inode.dirty_since_ns.get().is_some();
        let mut dirty: Vec<_> = inodes.values().filter(is_dirty).cloned().collect();
        dirty.sort_by_key(|inode| (inode.dirty_since_ns.get(), inode.number));
        dirty
    }

    /// Brings an inode's entry up to date, in the buffer of its sector; on the medium too, if a
    /// caller waits for it (`__fat_write_inode`).
    pub(crate) async fn write_inode(&self, inode: &Rc<Inode>, waits: bool) -> Result<(), Errno> {
        {
            let _held = inode.writing.lock().await;
            // The zeros before the entry whose size makes them visible, at least in the order of
            // the requests.
            self.write_zeros(inode, waits).await?;
        }
        if inode.dirty_since_ns.get().is_none() {
            return Ok(());
        }
        // The root has no entry, and what was removed has none any more: there is nothing to be
        // written.
        let Some((sector, at)) = inode.place.get() else {
            inode.dirty_since_ns.set(None);
            return Ok(());
        };
        let buffer = self.buffer(sector).await?;
        // The entry may have moved while its sector was read.
        if inode.place.get() != Some((sector, at)) {
            return Ok(());
        }
        // Before the entry is filled in: nothing is awaited until then, and later changes make it
        // dirty again.
        inode.dirty_since_ns.set(None);
        debug_assert!(
            at.is_multiple_of(SLOT_BYTES) && at < SECTOR_BYTES,
            "byte {at} of a sector begins an entry"
        );
        inode.entry.set(inode.new_entry());
        let kind = self.volume.kind;
        self.buffers.change(&buffer, Owner::Unowned, |bytes| {
            let slot = &mut bytes[at..at + 32];
            let mut record = Record::decode(slot, kind);
            record.attributes = inode.bits.get();
            record.start = inode.start.get();
            record.size_bytes = if inode.is_directory { 0 } else { inode.size_bytes.get() as u32 };
            (record.created, record.accessed) = (inode.created.get(), inode.accessed.get());
            record.modified = inode.modified.get();
            // The fine part of the creation time is not kept in memory, so it stays as it was.
            let tenths = slot[13];
            slot.copy_from_slice(&record.encode());
            slot[13] = tenths;
        });
        if waits {
            let written = self.buffers.write(&[buffer], true).await;
            return written.map_err(|error| self.failed(error));
        }
        self.arm_flusher();
        Ok(())
    }
}
