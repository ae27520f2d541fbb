//! Names: making, linking, removing and moving them.
//!
//! Source: `fs/ubifs/dir.c`. A part of the engine: uses the engine, states and formats.

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

/// Mode of a new inode, and the data within its node.
fn contents_of(new: NewInode<'_>) -> Result<(u32, Vec<u8>), Errno> {
    Ok(match new {
        NewInode::Regular(permissions) => (0o100_000 | permissions, Vec::new()),
        NewInode::Directory(permissions) => (0o040_000 | permissions, Vec::new()),
        NewInode::Symlink(target) => {
            if target.is_empty() || target.len() >= MAX_INODE_DATA_BYTES {
                return Err(Errno::Enametoolong);
            }
            // The target is stored within the inode node, without a final NUL (`ubifs_symlink`).
            (0o120_777, target.to_vec())
        }
        NewInode::Special(mode, device) => {
            let kind = FileType::from_mode(mode).ok_or(Errno::Einval)?;
            let word = encode_device(device).to_le_bytes().to_vec();
            (mode, if kind.is_device() { word } else { Vec::new() })
        }
    })
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
        let (mode, data) = contents_of(new)?;
        let size = data.len() as u64;
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
            // The journal did not take the group, so memory must agree with the medium.
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

    /// The inode that has the new name already.
    async fn find_replaced(&self, target: &Inode, name: &[u8]) -> Result<Option<Rc<Inode>>, Errno> {
        match self.find_entry(target, name).await {
            Ok(entry) => self.inode(entry.inode).await.map(Some),
            Err(Errno::Enoent) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Exchanges what two names name (`ubifs_xrename`). Only the times of the two inodes change, in memory.
    pub(crate) async fn exchange_names(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        let directories = [self.directory(one.0).await?, self.directory(other.0).await?];
        let mut inodes = Vec::new();
        for (directory, name) in directories.iter().zip([one.1, other.1]) {
            let entry = self.find_entry(directory, name).await?;
            inodes.push(self.inode(entry.inode).await?);
        }
        let request = Request {
            new_entry: true,
            changed_entry: true,
            dirtied_inodes: 2,
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        let is_move = one.0 != other.0;
        let order = usize::from(directories[0].number > directories[1].number);
        // In the order of `move_name`.
        let _first = directories[order].lock.lock().await;
        let _second = if is_move { Some(directories[1 - order].lock.lock().await) } else { None };
        let stamp = self.stamp(caller.now);
        for inode in &inodes {
            inode.data.borrow_mut().node.changed = stamp;
        }
        for directory in &directories {
            let node = &mut directory.data.borrow_mut().node;
            (node.modified, node.changed) = (stamp, stamp);
        }
        // A directory that changes its parent takes the link of its `..` along.
        let kinds = [inodes[0].is_directory(), inodes[1].is_directory()];
        let moves =
            if is_move && kinds[0] != kinds[1] { Some(usize::from(kinds[1])) } else { None };
        let move_link = |from: usize| {
            directories[from].data.borrow_mut().node.links -= 1;
            directories[1 - from].data.borrow_mut().node.links += 1;
        };
        if let Some(from) = moves {
            move_link(from);
        }
        let logged = self
            .log_exchange(
                (&directories[0], one.1, &inodes[0]),
                (&directories[1], other.1, &inodes[1]),
            )
            .await;
        // The journal did not take the group, so memory must agree with the medium.
        if let (Err(_), Some(from)) = (&logged, moves) {
            move_link(1 - from);
        }
        self.release(budget);
        logged
    }

    /// The inode of a whiteout, in memory alone, and its budget (`create_whiteout`).
    async fn make_whiteout(
        &self,
        caller: &Caller,
        parent: &Rc<Inode>,
    ) -> Result<(Rc<Inode>, Budget), Errno> {
        let device = FileType::CharacterDevice.mode_bits();
        let (mode, data) = contents_of(NewInode::Special(device, (0, 0)))?;
        let request =
            Request { new_inode: true, new_inode_bytes: data.len(), ..Request::default() };
        let budget = self.budget(caller, &request).await?;
        match self.new_inode(caller, parent, mode, data) {
            // Its size stays 0, where `ubifs_mknod` sets that of other devices to the length of their number.
            Ok(inode) => Ok((inode, budget)),
            Err(error) => {
                self.release(budget);
                Err(error)
            }
        }
    }

    // One function: all budgets must be released on each way out.
    pub(crate) async fn rename_name(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
        leaves_whiteout: bool,
    ) -> Result<Option<InodeNumber>, Errno> {
        if to.1.is_empty() || to.1.len() > MAX_NAME_BYTES {
            return Err(Errno::Enametoolong);
        }
        let (source, target) = (self.directory(from.0).await?, self.directory(to.0).await?);
        let entry = self.find_entry(&source, from.1).await?;
        let inode = self.inode(entry.inode).await?;
        let replaced = self.find_replaced(&target, to.1).await?;
        // POSIX: a rename of one link of a file to another link of it does nothing.
        if replaced.as_ref().is_some_and(|replaced| replaced.number == inode.number) {
            return Ok(None);
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
        // Both budgets before the first lock, as in `do_rename`: they may write back, collect and commit.
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
        let whiteout = if leaves_whiteout {
            match self.make_whiteout(caller, &source).await {
                Ok(whiteout) => Some(whiteout),
                Err(error) => {
                    self.release(own_budget);
                    self.release(budget);
                    return Err(error);
                }
            }
        } else {
            None
        };
        let (whiteout, whiteout_budget) = whiteout.unzip();
        let rename = Rename { inode, source, target, replaced, whiteout, from: from.1, to: to.1 };
        let moved = self.move_name(caller, &rename).await;
        if let Some(budget) = whiteout_budget {
            self.release(budget);
        }
        if let (Err(_), Some(whiteout)) = (&moved, &rename.whiteout) {
            self.inodes.borrow_mut().remove(&whiteout.number);
        }
        // Before the result is looked at: the group is written or will not be; in both cases its
        // budget is done with.
        self.release(budget);
        if let Err(error) = moved {
            self.release(own_budget);
            return Err(error);
        }
        // The inode itself was not in the group; its time is written later.
        self.make_inode_dirty(&rename.inode, own_budget);
        if self.is_synchronous(&rename.inode) {
            // The rename is done: the kernel does not return this error (`do_rename`).
            let _ = self.write_inode_back(&rename.inode).await;
        }
        Ok(rename.whiteout.map(|whiteout| whiteout.number))
    }

    /// Locks the inodes of a rename, changes and logs them (`do_rename`).
    ///
    /// Lock order: the two directories by their numbers, then the inode that is replaced. `lock_4_inodes` of
    /// `fs/ubifs/dir.c` takes the directory of the old name first. That is safe because the VFS holds the
    /// locks of both directories (`lock_rename`), as `vfs` does here. No task that holds the lock of an inode
    /// takes that of a directory, so the last lock closes no circle. The moved inode is not locked: only its
    /// time changes.
    async fn move_name(&self, caller: &Caller, rename: &Rename<'_>) -> Result<(), Errno> {
        let (source, target) = (&rename.source, &rename.target);
        let (first, second) =
            if source.number <= target.number { (source, target) } else { (target, source) };
        let _first = first.lock.lock().await;
        let _second = if rename.is_move() { Some(second.lock.lock().await) } else { None };
        // Neither directory: one of them would not be empty then.
        let _replaced = match &rename.replaced {
            Some(replaced) => Some(replaced.lock.lock().await),
            None => None,
        };
        let before = rename.links_and_sizes();
        self.change_inodes(caller, rename);
        let (from, to) = ((source, rename.from), (target, rename.to));
        let logged = self.log_rename(
            &rename.inode,
            from,
            to,
            rename.replaced.as_ref(),
            rename.whiteout.as_ref(),
        );
        let logged = logged.await;
        if logged.is_err() {
            // The journal did not take the group, so memory must agree with the medium (`out_cancel`
            // of `do_rename`).
            rename.restore(&before);
        }
        logged
    }

    /// Links, sizes and times of the inodes of a rename.
    fn change_inodes(&self, caller: &Caller, rename: &Rename<'_>) {
        let (source, target) = (&rename.source, &rename.target);
        let (is_directory, overwrites) = (rename.inode.is_directory(), rename.replaced.is_some());
        let stamp = self.stamp(caller.now);
        rename.inode.data.borrow_mut().node.changed = stamp;
        if rename.whiteout.is_some() {
            // The old name stays, so the directory keeps its size.
            let node = &mut source.data.borrow_mut().node;
            (node.modified, node.changed) = (stamp, stamp);
        } else {
            self.change_directory(caller, source, rename.from, false);
        }
        if overwrites {
            let node = &mut target.data.borrow_mut().node;
            (node.modified, node.changed) = (stamp, stamp);
        } else {
            self.change_directory(caller, target, rename.to, true);
        }
        if is_directory {
            // The parent loses the link of `..`, either to another parent or because the replaced
            // directory's count falls away instead.
            if rename.is_move() || overwrites {
                source.data.borrow_mut().node.links -= 1;
            }
            // If a directory is replaced, its `..` link is taken over and the target's count stays.
            if rename.is_move() && !overwrites {
                target.data.borrow_mut().node.links += 1;
            }
        }
        if let Some(replaced) = &rename.replaced {
            let node = &mut replaced.data.borrow_mut().node;
            // The type of the moved inode decides: POSIX lets a directory replace only a directory.
            node.links = if is_directory { 0 } else { node.links.saturating_sub(1) };
            node.changed = stamp;
        }
    }
}

/// A rename whose names were looked up.
struct Rename<'a> {
    inode: Rc<Inode>,
    /// The directory of the old name, and that of the new one.
    source: Rc<Inode>,
    target: Rc<Inode>,
    replaced: Option<Rc<Inode>>,
    /// What takes the old name.
    whiteout: Option<Rc<Inode>>,
    from: &'a [u8],
    to: &'a [u8],
}

impl Rename<'_> {
    fn is_move(&self) -> bool {
        self.source.number != self.target.number
    }

    /// The inodes whose links and sizes change.
    fn changed(&self) -> impl Iterator<Item = &Rc<Inode>> {
        [&self.source, &self.target].into_iter().chain(&self.replaced)
    }

    fn links_and_sizes(&self) -> Vec<(u32, u64)> {
        let pair = |inode: &Rc<Inode>| {
            let node = &inode.data.borrow().node;
            (node.links, node.size)
        };
        self.changed().map(pair).collect()
    }

    fn restore(&self, before: &[(u32, u64)]) {
        for (inode, (links, size)) in self.changed().zip(before) {
            let node = &mut inode.data.borrow_mut().node;
            (node.links, node.size) = (*links, *size);
        }
    }
}
