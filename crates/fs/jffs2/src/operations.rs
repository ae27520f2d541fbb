//! What the calls of a file system are made of: inodes made, changed and cleared, names removed.
//!
//! Source: `fs/jffs2/fs.c`, `write.c`, `readinode.c`.
//!
//! May use: `compress`, `fragments`, `inode`, `mount`, `nodes`, `state`, `summary`, `write`.

use crate::compress::ZERO;
use crate::fragments::DataNode;
use crate::inode::{Inode, InodeData};
use crate::mount::Jffs2;
use crate::nodes::{INODE, INODE_BYTES, InodeNode, PAGE_BYTES, TARGET_BYTES_MAX};
use crate::state::{InodeState, name_hash};
use crate::summary::entry_bytes;
use crate::write::Allocation;
use fs_api::{Caller, Changes, Errno, FileType, InodeNumber, NewInode, Time};
use std::rc::Rc;

pub(crate) fn seconds(time: Time) -> u32 {
    time.seconds as u32
}

/// The device number as it is stored (`jffs2_encode_dev`): two bytes if it fits the old form.
fn encode_device((major, minor): (u32, u32)) -> Vec<u8> {
    if major < 256 && minor < 256 {
        return vec![minor as u8, major as u8];
    }
    (minor & 0xff | major << 8 | (minor & !0xff) << 12).to_le_bytes().to_vec()
}

impl Jffs2 {
    pub(crate) async fn get(&self, number: InodeNumber) -> Result<Rc<Inode>, Errno> {
        self.engine.inode(u32::try_from(number).map_err(|_| Errno::Enoent)?).await
    }

    pub(crate) async fn directory(&self, number: InodeNumber) -> Result<Rc<Inode>, Errno> {
        let inode = self.get(number).await?;
        if inode.is_directory() { Ok(inode) } else { Err(Errno::Enotdir) }
    }

    pub(crate) fn find_name(directory: &Inode, name: &[u8]) -> Option<(u32, u8)> {
        let data = directory.data.borrow();
        let hash = name_hash(name);
        let start = data.entries.partition_point(|entry| entry.name_hash < hash);
        data.entries[start..]
            .iter()
            .take_while(|entry| entry.name_hash == hash)
            .find(|entry| entry.name == name && entry.inode != 0)
            .map(|entry| (entry.inode, entry.kind))
    }

    pub(crate) fn is_empty(directory: &Inode) -> bool {
        directory.data.borrow().entries.iter().all(|entry| entry.inode == 0)
    }

    /// Takes a name from an inode, or its last.
    pub(crate) fn drop_name(&self, victim: &Inode) {
        let state = &mut *self.engine.state.borrow_mut();
        if victim.is_directory() {
            for entry in std::mem::take(&mut victim.data.borrow_mut().entries) {
                // Removed names of a removed directory need not be remembered any longer
                // (`jffs2_do_unlink`).
                state.mark_obsolete(entry.node);
            }
            state.inode_cache(victim.number).parent_or_links = 0;
        } else {
            let links = &mut state.inode_cache(victim.number).parent_or_links;
            *links = links.saturating_sub(1);
        }
    }

    /// Writes the removal of a name (`jffs2_do_unlink`).
    pub(crate) async fn remove_name(
        &self,
        directory: &Inode,
        name: &[u8],
        now: u32,
    ) -> Result<(), Errno> {
        self.engine.add_name(directory, name, (0, 0), now, Allocation::Deletion).await
    }

    /// Writes attributes anew, with what an inode keeps beside them (`jffs2_do_setattr`).
    pub(crate) async fn set(
        &self,
        caller: &Caller,
        inode: &Inode,
        to: &Changes,
    ) -> Result<(), Errno> {
        // One function: the node that is written and what becomes of it in memory are one change
        // under one lock, and differ by field alone.
        let engine = &self.engine;
        let (mode, old_metadata) = {
            let data = inode.data.borrow();
            (data.mode, data.metadata.clone())
        };
        let kept = match (FileType::from_mode(mode), &old_metadata) {
            (
                Some(FileType::Symlink | FileType::BlockDevice | FileType::CharacterDevice),
                Some(node),
            ) => {
                let place = engine.state.borrow().node(node.node.get()).offset;
                engine.read_node_data(place).await?
            }
            _ => Vec::new(),
        };
        let old_bytes = inode.data.borrow().bytes;
        let new_bytes = match to.size_bytes {
            Some(bytes) => u32::try_from(bytes).map_err(|_| Errno::Efbig)?,
            None => old_bytes,
        };
        // Truncation to nothing frees space and may use the reserve of deletions
        // (`jffs2_do_setattr`).
        let allocation = match to.size_bytes {
            Some(0) => Allocation::Deletion,
            _ => Allocation::Normal,
        };
        let needed = (INODE_BYTES + kept.len()) as u32;
        let room = engine.reserve(needed, allocation, entry_bytes(INODE, 0)).await?;
        let held = inode.lock.lock().await;
        let mut node = inode.template();
        node.version = inode.next_version();
        if let Some(permissions) = to.permissions {
            node.mode = node.mode & !0o7777 | permissions & 0o7777;
        }
        node.uid = to.uid.map_or(node.uid, |uid| uid as u16);
        node.gid = to.gid.map_or(node.gid, |gid| gid as u16);
        node.accessed = to.accessed.map_or(node.accessed, seconds);
        let modified = if to.size_bytes.is_some() {
            Some(to.modified.unwrap_or(caller.now))
        } else {
            to.modified
        };
        node.modified = modified.map_or(node.modified, seconds);
        node.changed = seconds(caller.now);
        node.file_bytes = new_bytes;
        node.data_bytes = kept.len() as u32;
        let grows = new_bytes > old_bytes;
        if grows {
            // Growing writes a hole with the new attributes in one node.
            node.compressor = ZERO;
            (node.offset, node.data_bytes) = (old_bytes, new_bytes - old_bytes);
        }
        let written = engine.write_data_node(node, &kept, allocation).await?;
        {
            let state = &mut *engine.state.borrow_mut();
            let data = &mut *inode.data.borrow_mut();
            data.mode = node.mode;
            (data.uid, data.gid) = (node.uid.into(), node.gid.into());
            (data.accessed, data.modified) = (node.accessed.into(), node.modified.into());
            data.changed = node.changed.into();
            data.bytes = new_bytes;
            if new_bytes < old_bytes {
                data.fragments.truncate(new_bytes, state);
            }
            // The collector may have written the attributes elsewhere in the meantime.
            let old = data.metadata.take();
            if grows {
                data.fragments.add(&written, state);
            } else {
                data.metadata = Some(written);
            }
            if let Some(old) = old {
                state.mark_obsolete(old.node.get());
            }
        }
        drop(held);
        drop(room);
        engine.finish_change().await;
        Ok(())
    }

    /// Makes an inode and writes its first node (`jffs2_new_inode` and what follows it).
    pub(crate) async fn make_inode(
        &self,
        caller: &Caller,
        new: &NewInode<'_>,
    ) -> Result<Rc<Inode>, Errno> {
        // One function: room is held from the reservation to the node, and the number given back if
        // that fails.
        let engine = &self.engine;
        let (mode, bytes, device) = match new {
            NewInode::Regular(mode) => {
                (FileType::Regular.mode_bits() | mode & 0o7777, Vec::new(), (0, 0))
            }
            NewInode::Directory(mode) => {
                (FileType::Directory.mode_bits() | mode & 0o7777, Vec::new(), (0, 0))
            }
            NewInode::Symlink(target) => {
                (FileType::Symlink.mode_bits() | 0o777, target.to_vec(), (0, 0))
            }
            NewInode::Special(mode, device) => {
                let kind = FileType::from_mode(*mode).ok_or(Errno::Einval)?;
                let bytes = if kind.is_device() { encode_device(*device) } else { Vec::new() };
                (*mode, bytes, if kind.is_device() { *device } else { (0, 0) })
            }
        };
        if bytes.len() > TARGET_BYTES_MAX {
            return Err(Errno::Enametoolong);
        }
        let is_link = FileType::from_mode(mode) == Some(FileType::Symlink);
        let needed = (INODE_BYTES + bytes.len()) as u32;
        let room = engine.reserve(needed, Allocation::Normal, entry_bytes(INODE, 0)).await?;
        let number = {
            let state = &mut *engine.state.borrow_mut();
            let number = state.highest_inode.max(1).checked_add(1).ok_or(Errno::Enospc)?;
            let cache = state.inode_cache(number);
            // Counted before the name exists: an inode with zero links would be dropped by `clear`.
            cache.parent_or_links = 1;
            cache.state = InodeState::Present;
            number
        };
        let now = caller.now.seconds;
        let data = InodeData {
            mode,
            uid: caller.uid & 0xffff,
            gid: caller.gid & 0xffff,
            accessed: now,
            modified: now,
            changed: now,
            bytes: if is_link { bytes.len() as u32 } else { 0 },
            device,
            target: is_link.then(|| bytes.clone()),
            ..InodeData::default()
        };
        let inode = Inode::new(number, data, &engine.sim);
        let mut node = inode.template();
        node.version = inode.next_version();
        node.data_bytes = bytes.len() as u32;
        match engine.write_data_node(node, &bytes, Allocation::Normal).await {
            Ok(written) => {
                inode.data.borrow_mut().metadata =
                    Some(DataNode::new(written.node.get(), 0, node.data_bytes));
            }
            Err(error) => {
                engine.state.borrow_mut().inodes.remove(&number);
                return Err(error);
            }
        }
        let other = engine.inodes.borrow_mut().insert(number, inode.clone());
        debug_assert!(other.is_none(), "number {number} was given once");
        drop(room);
        engine.finish_change().await;
        Ok(inode)
    }

    /// An inode without names is deleted, all others leave memory (`jffs2_do_clear_inode`).
    pub(crate) async fn clear(&self, number: u32) {
        let engine = &self.engine;
        let inode = engine.inodes.borrow().get(&number).cloned();
        let Some(inode) = inode else { return };
        let held = inode.lock.lock().await;
        {
            let state = &mut *engine.state.borrow_mut();
            let is_deleted =
                state.inodes.get(&number).is_some_and(|cache| cache.parent_or_links == 0);
            let data = &mut *inode.data.borrow_mut();
            let metadata = data.metadata.take();
            data.fragments.clear(is_deleted, state);
            let entries = std::mem::take(&mut data.entries);
            if is_deleted {
                if let Some(node) = metadata {
                    state.mark_obsolete(node.node.get());
                }
                for entry in entries {
                    state.mark_obsolete(entry.node);
                }
                state.delete_attributes(number);
            }
        }
        // The collector may be waiting for this inode's lock and must not use it afterwards.
        inode.is_gone.set(true);
        engine.inodes.borrow_mut().remove(&number);
        drop(held);
        engine.set_state(number, InodeState::CheckedAbsent);
        {
            let state = &mut *engine.state.borrow_mut();
            let cache = state.inodes.get(&number);
            if cache.is_some_and(|cache| cache.nodes.is_empty() && cache.parent_or_links == 0) {
                state.inodes.remove(&number);
            }
        }
        engine.finish_change().await;
    }

    pub(crate) fn template(caller: &Caller, inode: &Inode) -> InodeNode {
        let now = seconds(caller.now);
        InodeNode { accessed: now, modified: now, changed: now, ..inode.template() }
    }

    /// Tells of the bytes between the end of a file and the position of a write behind it by a node of
    /// their own, before the page is read (`jffs2_write_begin` in `fs/jffs2/file.c`). Older kernels
    /// end the hole where the page begins.
    pub(crate) async fn write_gap(
        &self,
        caller: &Caller,
        inode: &Inode,
        position: u32,
    ) -> Result<(), Errno> {
        let profile = self.engine.options.profile;
        let page_start = position - position % PAGE_BYTES;
        let end = if profile.hole_reaches_position { position } else { page_start };
        if end <= inode.data.borrow().bytes {
            return Ok(());
        }
        let template = Self::template(caller, inode);
        self.engine.write_hole(inode, template, end).await
    }
}
