//! The calls of a file system. Above the engine: uses it with all its parts.

use crate::inode::{Inode, ROOT};
use crate::mount::Ubifs;
use crate::names::decode_device;
use crate::nodes::{Stamp, u32_at, u64_at};
use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectoryEntry, Errno, FileSystem, FileType,
    InodeNumber, Memory, NewInode, PAGE_BYTES, RenameFlags, SpaceUse, Time,
};
use std::ops::Range;
use std::rc::Weak;

fn time(stamp: Stamp) -> Time {
    Time { seconds: stamp.0, nanoseconds: stamp.1 }
}

/// Device numbers, in the four bytes of newer kernels or the eight that may be, too.
fn device_of(inode: &Inode) -> (u32, u32) {
    let data = inode.data.borrow();
    match data.node.data.len() {
        4 => decode_device(u32_at(&data.node.data, 0)),
        8 => {
            let word = u64_at(&data.node.data, 0);
            // `huge_decode_dev` of `include/linux/kdev_t.h`.
            let major = (word >> 8 & 0xfff) as u32 | (word >> 32 & !0xfff) as u32;
            let minor = (word & 0xff) as u32 | (word >> 12 & 0xffff_ff00) as u32;
            (major, minor)
        }
        _ => (0, 0),
    }
}

impl FileSystem for Ubifs {
    fn root(&self) -> InodeNumber {
        ROOT
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        let directory = self.engine.directory(directory).await?;
        let entry = self.engine.find_entry(&directory, name).await?;
        Ok(self.engine.inode(entry.inode).await?.number)
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        let directory = self.engine.directory(directory).await?;
        self.engine.list(&directory).await
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        let inode = self.engine.inode(inode).await?;
        let kind = inode.kind().ok_or(Errno::Eio)?;
        let device = if kind.is_device() { device_of(&inode) } else { (0, 0) };
        let node = &inode.data.borrow().node;
        Ok(Attributes {
            kind,
            permissions: node.mode & 0o7777,
            links: node.links,
            uid: node.uid,
            gid: node.gid,
            // Of a device that is the length of its number, which `ubifs_getattr` shows like any other size.
            size_bytes: node.size,
            accessed: time(node.accessed),
            modified: time(node.modified),
            changed: time(node.changed),
            device,
        })
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        self.engine.set(caller, inode, to).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        self.engine.make_name(caller, directory, name, new).await
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.engine.link_name(caller, inode, directory, name).await
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.engine.unlink_name(caller, directory, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.engine.rename_name(caller, from, to, false).await.map(drop)
    }

    async fn exchange(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.engine.exchange_names(caller, one, other).await
    }

    async fn rename_with_whiteout(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<InodeNumber, Errno> {
        self.engine.rename_name(caller, from, to, true).await?.ok_or(Errno::Einval)
    }

    /// `ubifs_rename` has all flags since Linux 4.9.
    fn rename_flags(&self) -> RenameFlags {
        RenameFlags { has_call: true, exchanges: true, has_whiteout: true }
            .in_profile(self.engine.options.profile.name)
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        let inode = self.engine.inode(inode).await?;
        if inode.kind() != Some(FileType::Symlink) {
            return Err(Errno::Einval);
        }
        let data = inode.data.borrow();
        Ok(data.node.data.clone())
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        let inode = self.engine.regular(inode).await?;
        self.engine.read_block(&inode, page, into).await
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        let inode = self.engine.regular(inode).await?;
        self.engine.data_blocks(inode.number).await.map(Some)
    }

    fn writes_back(&self) -> bool {
        true
    }

    fn writes_page_of_cut(&self) -> bool {
        true
    }

    fn is_synchronous(&self) -> bool {
        self.engine.options.is_synchronous
    }

    async fn begin_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        let inode = self.engine.regular(inode).await?;
        self.engine.begin_page(caller, &inode, page, part, is_cached).await
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let _ = caller;
        let inode = self.engine.regular(inode).await?;
        self.engine.end_page(&inode, page, part);
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
        let inode = self.engine.regular(inode).await?;
        if !inode.data.borrow().pages.contains_key(&page) {
            // The layer above keeps no dirty pages: it writes through.
            self.engine.begin_page(caller, &inode, page, part.clone(), true).await?;
            self.engine.end_page(&inode, page, part);
        }
        self.engine.write_block(&inode, page, bytes).await
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        let inodes = self.engine.inodes.borrow();
        let mut dirty: Vec<_> = inodes
            .values()
            .filter(|inode| inode.data.borrow().is_dirty)
            .map(|inode| (inode.data.borrow().dirty_since_ns, inode.number))
            .collect();
        // The flusher of the kernel writes the inode first that became dirty first (`b_dirty`
        // list).
        dirty.sort_unstable();
        dirty.into_iter().map(|(_, number)| number).collect()
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        let known = self.engine.inodes.borrow().get(&inode).cloned();
        match known {
            Some(inode) => self.engine.write_inode_back(&inode).await,
            None => Ok(()),
        }
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        self.engine.attribute_names(inode).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.engine.attribute_value(inode, name).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        self.engine.set_attribute(caller, inode, name, value).await
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.engine.evict(inode).await
    }

    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        let _ = caller;
        // The inode before the buffers: its node must be in a buffer when they are written
        // (`ubifs_fsync`).
        self.write_inode(inode).await?;
        self.engine.sync_heads_of(inode).await
    }

    /// The inode goes only if its size has changed: a new time alone does not set `I_DIRTY_DATASYNC`
    /// (`update_mctime`, `ubifs_write_end`).
    async fn sync_data(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        let known = self.engine.inodes.borrow().get(&inode).cloned();
        let has_new_size = known.is_some_and(|known| {
            let data = known.data.borrow();
            data.node.size != data.synced_size
        });
        if has_new_size {
            return self.fsync(caller, inode).await;
        }
        self.engine.sync_heads_of(inode).await
    }

    async fn sync(&self) -> Result<(), Errno> {
        if self.engine.is_read_only() { Ok(()) } else { self.engine.sync_all().await }
    }

    /// The thread gets the processor before the kernel asks again: what the commit that was started
    /// wrote goes, too (`cond_resched` in `drop_slab_node` of `mm/vmscan.c`).
    async fn shrink(&self) -> u64 {
        let freed = Self::shrink(self);
        if freed > 0 && self.engine.waited_for_background_commit().await {
            return freed + Self::shrink(self);
        }
        freed
    }

    async fn unmount(&self) -> Result<(), Errno> {
        self.engine.unmount().await
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        *self.engine.cached_pages.borrow_mut() = Some(pages);
    }

    /// UBIFS has no read-ahead of its own, and the kernel's is off (`bdi->ra_pages` is zero).
    fn reads_ahead(&self) -> bool {
        false
    }

    fn space(&self) -> SpaceUse {
        self.engine.space_use()
    }

    fn memory(&self) -> Memory {
        self.engine.memory_use()
    }
}
