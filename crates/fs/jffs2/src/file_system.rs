//! The calls of a file system.
//!
//! Source: `fs/jffs2/dir.c`, `file.c`, `fs.c`, `super.c`.
//!
//! May use: `mount`, `nodes`, `operations`, `write`.

use crate::mount::Jffs2;
use crate::nodes::{DT_DIR, NAME_BYTES_MAX, PAGE_BYTES};
use crate::operations::seconds;
use crate::write::Allocation;
use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectoryEntry, Errno, FileSystem, FileType,
    InodeNumber, Memory, NewInode, RenameFlags, SpaceUse, Time,
};
use std::ops::Range;
use std::rc::Weak;

impl FileSystem for Jffs2 {
    fn root(&self) -> InodeNumber {
        1
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::Enametoolong);
        }
        let directory = self.directory(directory).await?;
        let held = directory.lock.lock().await;
        let found = Self::find_name(&directory, name);
        drop(held);
        let (number, _) = found.ok_or(Errno::Enoent)?;
        Ok(self.engine.inode(number).await?.number.into())
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        let directory = self.directory(directory).await?;
        let _held = directory.lock.lock().await;
        let data = directory.data.borrow();
        let live = data.entries.iter().filter(|entry| entry.inode != 0);
        Ok(live
            .map(|entry| DirectoryEntry { name: entry.name.clone(), inode: entry.inode.into() })
            .collect())
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        let inode = self.get(inode).await?;
        let data = inode.data.borrow();
        let kind = FileType::from_mode(data.mode).ok_or(Errno::Eio)?;
        let links = if kind == FileType::Directory {
            // The root directory has one more than others.
            2 + inode.subdirectories() + u32::from(inode.number == 1)
        } else {
            let state = self.engine.state.borrow();
            state.inodes.get(&inode.number).map_or(0, |cache| cache.parent_or_links)
        };
        Ok(Attributes {
            kind,
            permissions: data.mode & 0o7777,
            links,
            uid: data.uid,
            gid: data.gid,
            size_bytes: data.bytes.into(),
            accessed: Time::from_seconds(data.accessed),
            modified: Time::from_seconds(data.modified),
            changed: Time::from_seconds(data.changed),
            device: data.device,
        })
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        let inode = self.get(inode).await?;
        if to.size_bytes.is_some()
            && FileType::from_mode(inode.data.borrow().mode) != Some(FileType::Regular)
        {
            return Err(if inode.is_directory() { Errno::Eisdir } else { Errno::Einval });
        }
        self.set(caller, &inode, to).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Errno::Enametoolong);
        }
        let parent = self.directory(directory).await?;
        if Self::find_name(&parent, name).is_some() {
            return Err(Errno::Eexist);
        }
        // The inode's node before the entry: a cut between the two leaves an inode without a name,
        // which a mount drops.
        let inode = self.make_inode(caller, &new).await?;
        let is_directory = inode.is_directory();
        let kind = (inode.data.borrow().mode >> 12) as u8;
        let now = seconds(caller.now);
        let target = (inode.number, kind);
        let added = self.engine.add_name(&parent, name, target, now, Allocation::Normal).await;
        let state = &self.engine.state;
        if let Err(error) = added {
            state.borrow_mut().inode_cache(inode.number).parent_or_links = 0;
            self.clear(inode.number).await;
            return Err(error);
        }
        if is_directory {
            state.borrow_mut().inode_cache(inode.number).parent_or_links = parent.number;
        }
        Ok(inode.number.into())
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::Enametoolong);
        }
        let (inode, directory) = (self.get(inode).await?, self.directory(directory).await?);
        if inode.is_directory() {
            return Err(Errno::Eperm);
        }
        if Self::find_name(&directory, name).is_some() {
            return Err(Errno::Eexist);
        }
        let kind = (inode.data.borrow().mode >> 12) as u8;
        let (target, now) = ((inode.number, kind), seconds(caller.now));
        self.engine.add_name(&directory, name, target, now, Allocation::Normal).await?;
        self.engine.state.borrow_mut().inode_cache(inode.number).parent_or_links += 1;
        inode.data.borrow_mut().changed = caller.now.seconds;
        Ok(())
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        let directory = self.directory(directory).await?;
        let (number, _) = Self::find_name(&directory, name).ok_or(Errno::Enoent)?;
        let victim = self.engine.inode(number).await;
        if let Ok(victim) = &victim
            && victim.is_directory()
            && !Self::is_empty(victim)
        {
            return Err(Errno::Enotempty);
        }
        // The removal is written first. The inode's nodes become obsolete in memory only after it,
        // so they cannot be erased before.
        self.remove_name(&directory, name, seconds(caller.now)).await?;
        // A name of an inode that cannot be read can be removed all the same.
        if let Ok(victim) = victim {
            let _held = victim.lock.lock().await;
            self.drop_name(&victim);
            victim.data.borrow_mut().changed = caller.now.seconds;
        }
        self.engine.finish_change().await;
        Ok(())
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        if to.1.is_empty() || to.1.len() > NAME_BYTES_MAX {
            return Err(Errno::Enametoolong);
        }
        let (source, target) = (self.directory(from.0).await?, self.directory(to.0).await?);
        let (number, _) = Self::find_name(&source, from.1).ok_or(Errno::Enoent)?;
        let inode = self.engine.inode(number).await?;
        let victim = match Self::find_name(&target, to.1) {
            Some((same, _)) if same == number => return Ok(()),
            Some((victim, _)) => Some(self.engine.inode(victim).await?),
            None => None,
        };
        if let Some(victim) = &victim {
            match (inode.is_directory(), victim.is_directory()) {
                (true, false) => return Err(Errno::Enotdir),
                (false, true) => return Err(Errno::Eisdir),
                (true, true) if !Self::is_empty(victim) => return Err(Errno::Enotempty),
                _ => {}
            }
        }
        let now = seconds(caller.now);
        let kind = (inode.data.borrow().mode >> 12) as u8;
        let name = (number, kind);
        // The new name before the removal of the old one: a cut between them leaves the file under
        // both names, never under none.
        self.engine.add_name(&target, to.1, name, now, Allocation::Normal).await?;
        if !inode.is_directory() {
            self.engine.state.borrow_mut().inode_cache(number).parent_or_links += 1;
        }
        if let Some(victim) = victim {
            let _held = victim.lock.lock().await;
            self.drop_name(&victim);
        }
        self.remove_name(&source, from.1, now).await?;
        let state = &mut *self.engine.state.borrow_mut();
        let cache = state.inode_cache(number);
        if kind == DT_DIR {
            cache.parent_or_links = target.number;
        } else {
            cache.parent_or_links -= 1;
        }
        Ok(())
    }

    /// `jffs2_rename` takes `RENAME_NOREPLACE` alone.
    fn rename_flags(&self) -> RenameFlags {
        RenameFlags::NO_REPLACE.in_profile(self.engine.options.profile.name)
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        let inode = self.get(inode).await?;
        let target = inode.data.borrow().target.clone();
        target.ok_or(Errno::Einval)
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; fs_api::PAGE_BYTES],
    ) -> Result<(), Errno> {
        let inode = self.get(inode).await?;
        let Some(offset) = u32::try_from(page).ok().and_then(|page| page.checked_mul(PAGE_BYTES))
        else {
            into.fill(0);
            return Ok(());
        };
        let _held = inode.lock.lock().await;
        self.engine.read_range(&inode, offset, into).await
    }

    async fn begin_behind_end(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        offset: u64,
    ) -> Result<(), Errno> {
        let inode = self.get(inode).await?;
        // What is too far is refused where the page is written.
        let Ok(position) = u32::try_from(offset) else { return Ok(()) };
        if position > u32::MAX - 2 * PAGE_BYTES {
            return Ok(());
        }
        self.write_gap(caller, &inode, position).await
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        let inode = self.get(inode).await?;
        let _held = inode.lock.lock().await;
        self.engine.data_pages(&inode).await.map(Some)
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; fs_api::PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let inode = self.get(inode).await?;
        let page_start = u32::try_from(page).ok().and_then(|page| page.checked_mul(PAGE_BYTES));
        let page_start = page_start.ok_or(Errno::Efbig)?;
        if page_start > u32::MAX - PAGE_BYTES || part.is_empty() {
            return if part.is_empty() { Ok(()) } else { Err(Errno::Efbig) };
        }
        let position = page_start + part.start as u32;
        self.write_gap(caller, &inode, position).await?;
        // The end of a page is written with all that comes before it: fewer nodes for files that
        // grow by little.
        let start = if part.end == fs_api::PAGE_BYTES { 0 } else { part.start & !3 };
        let data = &bytes[start..part.end];
        let offset = page_start + start as u32;
        let mut template = Self::template(caller, &inode);
        template.file_bytes = inode.data.borrow().bytes;
        self.engine.write_range(&inode, template, offset, data).await?;
        let mut known = inode.data.borrow_mut();
        (known.modified, known.changed) = (caller.now.seconds, caller.now.seconds);
        self.engine.count(|statistics| statistics.user_bytes += part.len() as u64);
        Ok(())
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        let inode = self.get(inode).await?;
        self.engine.list_xattrs(inode.number).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let inode = self.get(inode).await?;
        self.engine.get_xattr(inode.number, name).await
    }

    async fn set_extended_attribute(
        &self,
        _caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let inode = self.get(inode).await?;
        let set = self.engine.set_xattr(inode.number, name, value).await;
        self.engine.write_marks().await;
        set
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        if inode != self.root() {
            self.clear(u32::try_from(inode).map_err(|_| Errno::Enoent)?).await;
        }
        Ok(())
    }

    async fn fsync(&self, _caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        let number = u32::try_from(inode).map_err(|_| Errno::Enoent)?;
        self.engine.flush_by_collecting(number).await
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.engine.write_marks().await;
        // Padding moves the write position, which the allocation lock guards.
        let held = self.engine.allocation.lock().await;
        let flushed = self.engine.flush_padded().await;
        drop(held);
        // `sync_fs` flushes the write-buffer; `sync(2)` goes on to the pages of all block devices.
        flushed.and(self.engine.flash.sync().await)
    }

    async fn unmount(&self) -> Result<(), Errno> {
        self.engine.is_ending.set(true);
        self.engine.wake_thread();
        let held = self.engine.allocation.lock().await;
        let flushed = self.engine.flush_padded().await;
        drop(held);
        self.engine.write_marks().await;
        flushed.and(self.engine.flash.sync().await)
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        *self.engine.cached_pages.borrow_mut() = Some(pages);
    }

    /// The backing device of MTD has no read-ahead (`drivers/mtd/mtdbdi.c`, later `mtdcore.c`).
    fn reads_ahead(&self) -> bool {
        false
    }

    fn space(&self) -> SpaceUse {
        let state = self.engine.state.borrow();
        let reserved = u64::from(state.reserve.write) * u64::from(self.engine.block_bytes);
        let available = (state.sums.dirty + state.sums.free).saturating_sub(reserved);
        let blocks = self.engine.flash.size_bytes() / u64::from(PAGE_BYTES);
        let free_blocks = available / u64::from(PAGE_BYTES);
        SpaceUse { block_bytes: PAGE_BYTES, blocks, free_blocks, available_blocks: free_blocks }
    }

    fn memory(&self) -> Memory {
        self.engine.memory_use()
    }
}
