//! Inodes of a mount: found, kept, written back and evicted.
//!
//! Source: `fs/ubifs/super.c` (`ubifs_iget`, `ubifs_write_inode`, `ubifs_evict_inode`), `dir.c`. A part of
//! the engine: uses the engine, states and formats.

use crate::budget::Budget;
use crate::compress::Compressor;
use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::{INODE_NUMBER_WATERMARK, Inode, InodeData, flag};
use crate::keys::Key;
use crate::nodes::{MAX_INODE_DATA_BYTES, Stamp};
use fs_api::{Errno, FileType, Place as FoundAt, Time};
use sim::Lock;
use std::cell::RefCell;
use std::rc::Rc;

impl Engine {
    /// A time as the medium keeps it.
    pub(crate) fn stamp(&self, time: Time) -> Stamp {
        let unit = self.superblock.time_unit_ns;
        (time.seconds, time.nanoseconds / unit * unit)
    }

    pub(crate) fn remember(&self, number: u64, data: InodeData) -> Rc<Inode> {
        let (lock, data) = (Lock::new(&self.sim, ()), RefCell::new(data));
        let inode = Rc::new(Inode { number, lock, data });
        self.inodes.borrow_mut().entry(number).or_insert(inode).clone()
    }

    /// An inode, read if need be (`ubifs_iget`).
    pub(crate) async fn inode(&self, number: u64) -> Result<Rc<Inode>, Errno> {
        if let Some(known) = self.inodes.borrow().get(&number) {
            return Ok(known.clone());
        }
        let node = self.read_inode(number).await?;
        let is_possible = FileType::from_mode(node.mode).is_some()
            && node.data.len() <= MAX_INODE_DATA_BYTES
            && Compressor::from_number(node.compressor).is_some();
        if !is_possible {
            self.find(
                Code::BadInode,
                FoundAt::Inode(number),
                format!("inode {number} contradicts itself"),
            );
            return Err(Errno::Eio);
        }
        if node.flags & flag::ENCRYPTED != 0 {
            self.find(
                Code::Unsupported,
                FoundAt::Inode(number),
                format!("inode {number} is encrypted; that is not supported"),
            );
            return Err(Errno::Eopnotsupp);
        }
        let data = InodeData { synced_size: node.size, node, ..InodeData::default() };
        Ok(self.remember(number, data))
    }

    /// The number of an inode that is to be made.
    pub(crate) fn new_inode_number(&self) -> Result<u64, Errno> {
        let highest = self.highest_inode.get();
        // Numbers are never used again, and keys have 32 bits for them (`ubifs_new_inode` of `dir.c`).
        if highest >= INODE_NUMBER_WATERMARK {
            return Err(Errno::Einval);
        }
        let number = highest + 1;
        self.highest_inode.set(number);
        Ok(number)
    }

    /// Attributes changed in memory; what was set aside for that is kept until they are written.
    pub(crate) fn make_inode_dirty(&self, inode: &Inode, budget: Budget) {
        let was_dirty = {
            let mut data = inode.data.borrow_mut();
            if !data.is_dirty {
                data.dirty_since_ns = self.sim.now();
            }
            std::mem::replace(&mut data.is_dirty, true)
        };
        // The promise for a dirty inode exists once. A second one is released at once.
        if was_dirty {
            self.release(budget);
        }
    }

    /// The medium has the inode as it is (`mark_inode_clean`).
    pub(crate) fn make_inode_clean(&self, inode: &Inode) {
        let (was_dirty, bytes) = {
            let mut data = inode.data.borrow_mut();
            data.synced_size = data.node.size;
            (std::mem::take(&mut data.is_dirty), data.node.data.len())
        };
        if was_dirty {
            self.release(Budget::of_inode(bytes));
        }
    }

    /// Writes the node of a dirty inode; one without names is only marked clean
    /// (`ubifs_write_inode`).
    pub(crate) async fn write_inode_back(&self, inode: &Rc<Inode>) -> Result<(), Errno> {
        let _held = inode.lock.lock().await;
        if !inode.data.borrow().is_dirty {
            return Ok(());
        }
        // An inode without names is deleted by `evict`. Its orphan entry keeps it safe until then
        // (`ubifs_write_inode`).
        if inode.data.borrow().node.links > 0 {
            self.log_inode(inode).await?;
        }
        self.make_inode_clean(inode);
        Ok(())
    }

    /// The node of an inode as it goes to the medium (`pack_inode`).
    pub(crate) fn pack(inode: &Inode) -> Vec<u8> {
        let node = &inode.data.borrow().node;
        debug_assert!(node.key == Key::inode(inode.number), "the key is that of the inode");
        node.to_bytes()
    }

    /// The last user has closed the inode (`ubifs_evict_inode`).
    pub(crate) async fn evict(&self, number: u64) -> Result<(), Errno> {
        let Some(inode) = self.inodes.borrow().get(&number).cloned() else { return Ok(()) };
        if inode.data.borrow().node.links > 0 {
            let data = inode.data.borrow();
            // Dirty inodes stay in memory until they are written, even without a user.
            if !data.is_dirty && data.pages.is_empty() {
                self.inodes.borrow_mut().remove(&number);
            }
            return Ok(());
        }
        self.inodes.borrow_mut().remove(&number);
        if self.is_read_only() {
            return Ok(());
        }
        let pages = std::mem::take(&mut inode.data.borrow_mut().pages);
        for budget in pages.into_values() {
            self.release(budget);
        }
        // `ubifs_evict_inode` cuts the file before it logs the deletion: a node that is written has size zero.
        inode.data.borrow_mut().node.size = 0;
        let deleted = self.log_deletion(&inode).await;
        self.make_inode_clean(&inode);
        self.forget_fullness();
        deleted
    }
}
