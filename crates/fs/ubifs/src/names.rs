//! Names: making, linking, removing and moving them.
//!
//! Source: `fs/ubifs/dir.c`.

use crate::budget::{Budget, Request};
use crate::engine::Engine;
use crate::inode::{Inode, InodeData, flag};
use crate::keys::Key;
use crate::nodes::{
    EntryNode, INODE_BYTES, InodeNode, MAX_INODE_DATA_BYTES, MAX_NAME_BYTES, aligned,
};
use crate::records::Naming;
use fs_api::{Caller, DirectoryEntry, Errno, FileType, InodeNumber, NewInode};
use std::rc::Rc;

/// What an entry adds to the size of its directory (`CALC_DENT_SIZE`).
pub(crate) fn entry_size(name: &[u8]) -> u64 {
    aligned(EntryNode::bytes_of(name)) as u64
}

/// Device numbers as the medium has them (`new_encode_dev`).
pub(crate) fn encode_device((major, minor): (u32, u32)) -> u32 {
    // `new_encode_dev` of `include/linux/kdev_t.h`: 12 bits of major number, 20 of minor, the low
    // byte of the minor first.
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

pub(crate) fn decode_device(word: u32) -> (u32, u32) {
    ((word & 0xf_ff00) >> 8, word & 0xff | word >> 12 & 0xf_ff00)
}

const fn plain(name: &[u8], is_removal: bool) -> Naming<'_> {
    Naming { name, is_removal, is_attribute: false }
}

impl Engine {
    pub(crate) async fn directory(&self, number: InodeNumber) -> Result<Rc<Inode>, Errno> {
        let inode = self.inode(number).await?;
        if inode.is_directory() { Ok(inode) } else { Err(Errno::Enotdir) }
    }

    pub(crate) async fn find_entry(
        &self,
        directory: &Inode,
        name: &[u8],
    ) -> Result<EntryNode, Errno> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Errno::Enametoolong);
        }
        let key = Key::entry(directory.number, name);
        self.tnc_lookup_name(key, name).await?.ok_or(Errno::Enoent)
    }

    pub(crate) async fn list(&self, directory: &Inode) -> Result<Vec<DirectoryEntry>, Errno> {
        let mut entries = Vec::new();
        let mut last = (Key::first_entry(directory.number), Vec::new());
        while let Some(entry) = self.next_entry(last.0, &last.1).await? {
            entries.push(DirectoryEntry { name: entry.name.clone(), inode: entry.inode });
            // The position is a key and a name, not a branch: the index may change between two
            // calls. The kernel keeps the last entry in `file->private_data` for the same reason.
            last = (entry.key, entry.name);
        }
        Ok(entries)
    }

    /// An inode that is not on the medium yet (`ubifs_new_inode`).
    pub(crate) fn new_inode(
        &self,
        caller: &Caller,
        parent: &Inode,
        mode: u32,
        data: Vec<u8>,
    ) -> Result<Rc<Inode>, Errno> {
        let number = self.new_inode_number()?;
        let is_directory = FileType::from_mode(mode) == Some(FileType::Directory);
        let mut flags = 0;
        if parent.is_directory() {
            // `inherit_flags` of `fs/ubifs/dir.c`. The append and immutable flags of
            // `UBIFS_FL_MASK` are not inherited.
            let inherited = flag::COMPRESS | flag::SYNC | flag::DIRECTORY_SYNC;
            flags = parent.data.borrow().node.flags & inherited;
        }
        if !is_directory {
            // The flag has a meaning for directories only.
            flags &= !flag::DIRECTORY_SYNC;
        }
        let stamp = self.stamp(caller.now);
        // Attributes are regular files to `ubifs_new_inode`; nothing else is ever compressed.
        let is_regular = FileType::from_mode(mode) == Some(FileType::Regular);
        let compressor = if is_regular { self.compressor.number() } else { 0 };
        let node = InodeNode {
            key: Key::inode(number),
            // A number that no other inode has had, so that a reused inode number could be
            // recognised (`creat_sqnum`).
            creation: self.next_sequence(),
            // A directory counts its own inode node and all its entries (`UBIFS_INO_NODE_SZ` in
            // `ubifs_new_inode`).
            size: if is_directory { INODE_BYTES as u64 } else { 0 },
            accessed: stamp,
            changed: stamp,
            modified: stamp,
            links: if is_directory { 2 } else { 1 },
            uid: caller.uid,
            gid: caller.gid,
            mode,
            flags,
            compressor,
            data,
            ..InodeNode::default()
        };
        Ok(self.remember(number, InodeData { node, ..InodeData::default() }))
    }

    /// A directory has an entry more or less.
    fn change_directory(&self, caller: &Caller, directory: &Inode, name: &[u8], grows: bool) {
        let stamp = self.stamp(caller.now);
        let node = &mut directory.data.borrow_mut().node;
        let size = entry_size(name);
        node.size = if grows { node.size + size } else { node.size.saturating_sub(size) };
        (node.modified, node.changed) = (stamp, stamp);
    }

    pub(crate) async fn make_name(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        // The VFS checks this before it calls the kernel's file system; here the file system is
        // called directly.
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Errno::Enametoolong);
        }
        let parent = self.directory(directory).await?;
        match self.find_entry(&parent, name).await {
            Ok(_) => return Err(Errno::Eexist),
            Err(Errno::Enoent) => {}
            Err(error) => return Err(error),
        }
        let (mode, data, size) = match new {
            NewInode::Regular(permissions) => (0o100_000 | permissions, Vec::new(), 0),
            NewInode::Directory(permissions) => (0o040_000 | permissions, Vec::new(), 0),
            NewInode::Symlink(target) => {
                if target.is_empty() || target.len() >= MAX_INODE_DATA_BYTES {
                    return Err(Errno::Enametoolong);
                }
                // The target is stored within the inode node, without a final NUL
                // (`ubifs_symlink`).
                (0o120_777, target.to_vec(), target.len() as u64)
            }
            NewInode::Special(mode, device) => {
                let kind = FileType::from_mode(mode).ok_or(Errno::Einval)?;
                let word = encode_device(device).to_le_bytes().to_vec();
                if kind.is_device() { (mode, word, 4) } else { (mode, Vec::new(), 0) }
            }
        };
        let request = Request {
            new_inode: true,
            new_entry: true,
            // The budget is asked before any lock is taken: it may write back pages, collect and
            // commit, all of which need locks.
            new_inode_bytes: data.len(),
            dirtied_inodes: 1,
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        // The inode's lock (`ui_mutex`) is taken before the commit's lock, which `log_name` takes
        // (order in `engine.rs`).
        let _held = parent.lock.lock().await;
        let inode = match self.new_inode(caller, &parent, mode, data) {
            Ok(inode) => inode,
            Err(error) => {
                self.release(budget);
                return Err(error);
            }
        };
        if size > 0 {
            inode.data.borrow_mut().node.size = size;
        }
        let is_directory = inode.is_directory();
        // The directory changes before its node is packed: entry, inode and directory go into one
        // group, whole or not at all.
        self.change_directory(caller, &parent, name, true);
        parent.data.borrow_mut().node.links += u32::from(is_directory);
        let logged = self.log_name(&parent, plain(name, false), &inode).await;
        self.release(budget);
        if let Err(error) = logged {
            // The journal did not take the group, so memory must say what the medium says.
            parent.data.borrow_mut().node.links -= u32::from(is_directory);
            self.change_directory(caller, &parent, name, false);
            // The inode number is lost; the kernel does not reuse it either.
            self.inodes.borrow_mut().remove(&inode.number);
            return Err(error);
        }
        Ok(inode.number)
    }

    pub(crate) async fn link_name(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Errno::Enametoolong);
        }
        let (inode, parent) = (self.inode(inode).await?, self.directory(directory).await?);
        if inode.is_directory() {
            // The VFS refuses links to directories with this error (`vfs_link`).
            return Err(Errno::Eperm);
        }
        match self.find_entry(&parent, name).await {
            Ok(_) => return Err(Errno::Eexist),
            Err(Errno::Enoent) => {}
            Err(error) => return Err(error),
        }
        let request = Request {
            new_entry: true,
            dirtied_inodes: 2,
            dirtied_inode_bytes: inode.data_bytes(),
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        let _held = parent.lock.lock().await;
        // The directory before the inode, as `lock_2_inodes` is called in `ubifs_link` and
        // `ubifs_unlink`.
        let _held_too = inode.lock.lock().await;
        let stamp = self.stamp(caller.now);
        {
            let node = &mut inode.data.borrow_mut().node;
            (node.links, node.changed) = (node.links + 1, stamp);
        }
        self.change_directory(caller, &parent, name, true);
        let logged = self.log_name(&parent, plain(name, false), &inode).await;
        self.release(budget);
        if logged.is_err() {
            inode.data.borrow_mut().node.links -= 1;
            self.change_directory(caller, &parent, name, false);
        }
        logged
    }

    /// Space for a removal; without any it goes on all the same, since it makes some.
    async fn budget_removal(&self, caller: &Caller, request: &Request) -> Result<Budget, Errno> {
        match self.budget(caller, request).await {
            // `ubifs_unlink` and `ubifs_rmdir` go on without a budget. The eraseblock kept for
            // deletions takes the group.
            Err(Errno::Enospc) => Ok(Budget::default()),
            budget => budget,
        }
    }

    pub(crate) async fn unlink_name(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        let parent = self.directory(directory).await?;
        let entry = self.find_entry(&parent, name).await?;
        let inode = self.inode(entry.inode).await?;
        let is_directory = inode.is_directory();
        // The kernel searches the index for a first entry (`ubifs_check_dir_empty`); the link count
        // says nothing of files.
        if is_directory && !self.is_empty(&inode).await? {
            return Err(Errno::Enotempty);
        }
        let request = Request { changed_entry: true, dirtied_inodes: 2, ..Request::default() };
        let budget = self.budget_removal(caller, &request).await?;
        let _held = parent.lock.lock().await;
        let _held_too = inode.lock.lock().await;
        let stamp = self.stamp(caller.now);
        let before = {
            let node = &mut inode.data.borrow_mut().node;
            let before = node.links;
            // An empty directory loses its own link and its name at once (`clear_nlink`).
            node.links = if is_directory { 0 } else { before.saturating_sub(1) };
            node.changed = stamp;
            before
        };
        // The `..` of the removed directory was a link to its parent.
        // The `..` of the removed directory was a link to its parent.
        parent.data.borrow_mut().node.links -= u32::from(is_directory);
        self.change_directory(caller, &parent, name, false);
        let logged = self.log_name(&parent, plain(name, true), &inode).await;
        self.release(budget);
        if logged.is_ok() {
            // Deletions do not release a budget that would clear the flags, so it is done here
            // (`ubifs_unlink` sets `bi.nospace` to 0).
            self.forget_fullness();
        } else {
            inode.data.borrow_mut().node.links = before;
            parent.data.borrow_mut().node.links += u32::from(is_directory);
            self.change_directory(caller, &parent, name, true);
        }
        logged
    }

    async fn is_empty(&self, directory: &Inode) -> Result<bool, Errno> {
        let first = self.next_entry(Key::first_entry(directory.number), &[]).await?;
        Ok(first.is_none())
    }

    pub(crate) async fn rename_name(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        if to.1.is_empty() || to.1.len() > MAX_NAME_BYTES {
            return Err(Errno::Enametoolong);
        }
        let (source, target) = (self.directory(from.0).await?, self.directory(to.0).await?);
        let entry = self.find_entry(&source, from.1).await?;
        let inode = self.inode(entry.inode).await?;
        let replaced = match self.find_entry(&target, to.1).await {
            Ok(entry) => Some(self.inode(entry.inode).await?),
            Err(Errno::Enoent) => None,
            Err(error) => return Err(error),
        };
        // POSIX: a rename of one link of a file to another link of it does nothing.
        if replaced.as_ref().is_some_and(|replaced| replaced.number == inode.number) {
            return Ok(());
        }
        if let Some(replaced) = &replaced
            && replaced.is_directory()
            && !self.is_empty(replaced).await?
        {
            return Err(Errno::Enotempty);
        }
        let request = Request {
            new_entry: true,
            changed_entry: true,
            dirtied_inodes: 3,
            dirtied_inode_bytes: replaced.as_ref().map_or(0, |inode| inode.data_bytes()),
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        // A second budget: the moved inode is only made dirty (its ctime changes) and is written
        // later, outside this group (`ino_req` of `do_rename`).
        let own = Request {
            dirtied_inodes: 1,
            dirtied_inode_bytes: inode.data_bytes(),
            ..Request::default()
        };
        let own_budget = match self.budget(caller, &own).await {
            Ok(budget) => budget,
            Err(error) => {
                self.release(budget);
                return Err(error);
            }
        };
        let is_move = source.number != target.number;
        // Two directories are locked in the order of their numbers.
        let (first, second) =
            if source.number <= target.number { (&source, &target) } else { (&target, &source) };
        let _first = first.lock.lock().await;
        let _second = if is_move { Some(second.lock.lock().await) } else { None };
        let (is_directory, overwrites) = (inode.is_directory(), replaced.is_some());
        let stamp = self.stamp(caller.now);
        let links = |inode: &Inode| inode.data.borrow().node.links;
        let before = (links(&source), links(&target), replaced.as_deref().map(links));
        inode.data.borrow_mut().node.changed = stamp;
        self.change_directory(caller, &source, from.1, false);
        if overwrites {
            let node = &mut target.data.borrow_mut().node;
            (node.modified, node.changed) = (stamp, stamp);
        } else {
            self.change_directory(caller, &target, to.1, true);
        }
        if is_directory {
            // The parent loses the link of `..`, either to another parent or because the replaced
            // directory's count falls away instead.
            if is_move || overwrites {
                source.data.borrow_mut().node.links -= 1;
            }
            // If a directory is replaced, its `..` link is taken over and the target's count stays.
            if is_move && !overwrites {
                target.data.borrow_mut().node.links += 1;
            }
        }
        if let Some(replaced) = &replaced {
            let node = &mut replaced.data.borrow_mut().node;
            // The type of the moved inode decides: POSIX lets a directory replace only a directory.
            node.links = if is_directory { 0 } else { node.links.saturating_sub(1) };
            node.changed = stamp;
        }
        let logged =
            self.log_rename(&inode, (&source, from.1), (&target, to.1), replaced.as_ref()).await;
        // Before the result is looked at: the group is written or will not be; in both cases its
        // budget is done with.
        self.release(budget);
        if logged.is_err() {
            source.data.borrow_mut().node.links = before.0;
            target.data.borrow_mut().node.links = before.1;
            if let (Some(replaced), Some(links)) = (&replaced, before.2) {
                replaced.data.borrow_mut().node.links = links;
            }
            self.release(own_budget);
            return logged;
        }
        // The inode itself was not in the group; its time is written later.
        self.make_inode_dirty(&inode, own_budget);
        if self.is_synchronous(&inode) {
            // The rename is done: the kernel does not return this error (`do_rename`).
            let _ = self.write_inode_back(&inode).await;
        }
        Ok(())
    }
}
