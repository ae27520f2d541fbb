//! The smallest file system on raw NAND that keeps its promise: the whole tree is in memory, and each sync
//! writes all of it anew.
//!
//! Model for readers: [`Toyfs`] is what a mount gives to the layer above, `tree.rs` the tree in memory,
//! `snapshot.rs` the format on the medium. It stands for no real file system, and no study compares it.
//!
//! - *Promise*: all that was done before an `fsync` or `sync` survives any power cut.
//! - *How*: even and odd blocks take turns. A snapshot is a header with a sequence number and a checksum,
//!   and the tree behind it. A mount takes the newest snapshot whose checksum is right, so one that a cut tore
//!   leaves the one before it.

mod snapshot;
mod tree;

pub use snapshot::{MAGIC, Snapshot};

use fs_api::{
    Attributes, Caller, Changes, DirectoryEntry, Errno, FileSystem, FileType, Finding, InodeNumber,
    Memory, NewInode, PAGE_BYTES, Place, SpaceUse,
};
use mtd::Mtd;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use tree::{ROOT, Tree};

fs_api::finding_codes! {
    /// What the toy finds wrong with its medium.
    pub enum FindingCode {
        /// A half holds a snapshot whose checksum is wrong: a cut tore it, or the medium lost it.
        TornSnapshot = "toyfs-torn-snapshot", Note;
        /// A block failed and was marked bad.
        BadBlock = "toyfs-bad-block", Failure;
    }
}

/// A mounted toy: the tree in memory, and the sequence number of the snapshot that holds it.
pub struct Toyfs {
    mtd: Rc<Mtd>,
    tree: RefCell<Tree>,
    /// Sequence number of the newest snapshot.
    sequence: Cell<u32>,
    is_read_only: bool,
    is_dirty: Cell<bool>,
    snapshots_written: Cell<u64>,
    findings: RefCell<Vec<Finding>>,
}

impl Toyfs {
    /// Mounts the newest snapshot; a device without any is an empty file system, made at `caller.now`.
    pub async fn mount(mtd: Rc<Mtd>, caller: &Caller, is_read_only: bool) -> Self {
        let (mut newest, mut findings) = (None::<(u32, Tree)>, Vec::new());
        for half in 0..2 {
            match snapshot::read(&mtd, half).await {
                Snapshot::None => {}
                Snapshot::Torn => {
                    let text = format!("the snapshot in half {half} of the device is torn");
                    findings.push(FindingCode::TornSnapshot.at(Place::Whole, text));
                }
                Snapshot::Whole(sequence, payload) => match Tree::parse(&payload) {
                    Some(tree) if newest.as_ref().is_none_or(|(other, _)| *other < sequence) => {
                        newest = Some((sequence, tree));
                    }
                    _ => {}
                },
            }
        }
        // Sequence numbers begin with 1, so that a device without a snapshot counts as older than any.
        let (sequence, tree) = newest.unwrap_or_else(|| (0, Tree::new(caller)));
        Self {
            mtd,
            tree: tree.into(),
            sequence: sequence.into(),
            is_read_only,
            is_dirty: false.into(),
            snapshots_written: 0.into(),
            findings: findings.into(),
        }
    }

    /// What was found wrong with the medium since the mount began.
    pub fn findings(&self) -> Vec<Finding> {
        self.findings.borrow().clone()
    }

    /// Snapshots that were written since the mount began.
    pub fn snapshots_written(&self) -> u64 {
        self.snapshots_written.get()
    }

    /// Changes the tree; nothing stays changed of what would not fit into a half of the device.
    fn change_tree<T>(
        &self,
        added_bytes: usize,
        change: impl FnOnce(&mut Tree) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if self.is_read_only {
            return Err(Errno::Erofs);
        }
        let mut tree = self.tree.borrow_mut();
        // Asked before the change: a snapshot that does not fit could not be written at all.
        let is_full = tree.bytes() + added_bytes > snapshot::payload_bytes_max(&self.mtd);
        if added_bytes > 0 && is_full {
            return Err(Errno::Enospc);
        }
        self.is_dirty.set(true);
        change(&mut tree)
    }

    /// Writes the whole tree into the half that the newest snapshot does not lie in.
    async fn write_snapshot(&self) -> Result<(), Errno> {
        // Nothing changed: the newest snapshot says it all.
        if !self.is_dirty.replace(false) {
            return Ok(());
        }
        let payload = self.tree.borrow().to_bytes();
        // What the next mount cannot read would be lost with the snapshot before it.
        debug_assert!(Tree::parse(&payload).is_some(), "a mount reads what is written");
        let sequence = self.sequence.get() + 1;
        loop {
            match snapshot::write(&self.mtd, sequence, &payload).await {
                Ok(()) => break,
                // One block less: the half that is kept is untouched, so it is begun anew.
                Err(Some(block)) => {
                    let place = Place::Block(block.into());
                    let finding = FindingCode::BadBlock.at(place, format!("block {block} is bad"));
                    self.findings.borrow_mut().push(finding);
                }
                Err(None) => {
                    // The changes are still in memory alone: a later sync, with more room, writes them.
                    self.is_dirty.set(true);
                    return Err(Errno::Enospc);
                }
            }
        }
        // Counted only now: after a failed attempt the same half is written again, never the other one.
        self.sequence.set(sequence);
        self.snapshots_written.set(self.snapshots_written.get() + 1);
        Ok(())
    }
}

/// A name has at most 255 bytes (`NAME_MAX`, `include/uapi/linux/limits.h`).
const NAME_BYTES_MAX: usize = 255;

fn check_name(name: &[u8]) -> Result<(), Errno> {
    if name.len() > NAME_BYTES_MAX { Err(Errno::Enametoolong) } else { Ok(()) }
}

impl FileSystem for Toyfs {
    fn root(&self) -> InodeNumber {
        ROOT
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        self.tree.borrow().node(directory)?.names.get(name).copied().ok_or(Errno::Enoent)
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        let tree = self.tree.borrow();
        let names = tree.node(directory)?.names.iter();
        Ok(names
            .map(|(name, inode)| DirectoryEntry { name: name.clone(), inode: *inode })
            .collect())
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        Ok(self.tree.borrow().node(inode)?.attributes)
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        let grown = match to.size_bytes {
            Some(size) => {
                let grown = size.saturating_sub(self.attributes(inode).await?.size_bytes);
                usize::try_from(grown).map_err(|_| Errno::Efbig)?
            }
            None => 0,
        };
        self.change_tree(grown, |tree| tree.change(caller, inode, to))
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        check_name(name)?;
        let target_bytes = if let NewInode::Symlink(target) = new { target.len() } else { 0 };
        // The fixed bytes of a node hold those of one name.
        let bytes = tree::NODE_BYTES + name.len() + target_bytes;
        self.change_tree(bytes, |tree| tree.make(caller, directory, name, new))
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        check_name(name)?;
        self.change_tree(tree::NAME_BYTES + name.len(), |tree| {
            tree.node_mut(inode)?.attributes.links += 1;
            tree.node_mut(inode)?.attributes.changed = caller.now;
            tree.add_name(caller, directory, name, inode)
        })
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.change_tree(0, |tree| tree.take_name(caller, directory, name).map(drop))
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        check_name(to.1)?;
        self.change_tree(to.1.len(), |tree| tree.rename(caller, from, to))
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        Ok(self.tree.borrow().node(inode)?.data.clone())
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        let tree = self.tree.borrow();
        let data = &tree.node(inode)?.data;
        let start = (page as usize * PAGE_BYTES).min(data.len());
        let end = (start + PAGE_BYTES).min(data.len());
        // A page that ends behind the file is zero there, as the page cache above may be mapped.
        into.fill(0);
        into[..end - start].copy_from_slice(&data[start..end]);
        Ok(())
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        // The file may be shorter than the page before this one: the gap is zeros, and counts as growth.
        let start = page as usize * PAGE_BYTES;
        let old = self.tree.borrow().node(inode)?.data.len();
        self.change_tree((start + part.end).saturating_sub(old), |tree| {
            let node = tree.node_mut(inode)?;
            node.data.resize(old.max(start + part.end), 0);
            node.data[start + part.start..start + part.end].copy_from_slice(&bytes[part]);
            node.attributes.size_bytes = node.data.len() as u64;
            node.touch(caller);
            Ok(())
        })
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        Ok(self.tree.borrow().node(inode)?.extended.keys().cloned().collect())
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.tree.borrow().node(inode)?.extended.get(name).cloned().ok_or(Errno::Enodata)
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let bytes = value.map_or(0, |value| tree::NAME_BYTES + name.len() + value.len());
        self.change_tree(bytes, |tree| {
            let node = tree.node_mut(inode)?;
            match value {
                Some(value) => drop(node.extended.insert(name.to_vec(), value.to_vec())),
                None => drop(node.extended.remove(name).ok_or(Errno::Enodata)?),
            }
            node.attributes.changed = caller.now;
            Ok(())
        })
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.tree.borrow_mut().forget(inode);
        Ok(())
    }

    async fn fsync(&self, _caller: &Caller, _inode: InodeNumber) -> Result<(), Errno> {
        self.write_snapshot().await
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.write_snapshot().await
    }

    async fn unmount(&self) -> Result<(), Errno> {
        self.write_snapshot().await
    }

    fn space(&self) -> SpaceUse {
        let (all, used) = (snapshot::payload_bytes_max(&self.mtd), self.tree.borrow().bytes());
        let (block, free) = (PAGE_BYTES as u64, all.saturating_sub(used) as u64);
        SpaceUse {
            block_bytes: PAGE_BYTES as u32,
            blocks: all as u64 / block,
            free_blocks: free / block,
            available_blocks: free / block,
        }
    }

    fn memory(&self) -> Memory {
        let tree = self.tree.borrow();
        Memory { kinds: vec![("toyfs_node", tree.len() as u64, tree.bytes() as u64)] }
    }

    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        Ok(self.tree.borrow().node(inode)?.attributes.kind)
    }
}
