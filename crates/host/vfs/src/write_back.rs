//! Files whose pages are written back later: what [`Vfs`] does for file systems that say so.
//!
//! Source: `mm/filemap.c`, `fs/sync.c` and `fs/fs-writeback.c` of Linux 2.6.35; the order of calls is that
//! of `ubifs_fsync` and `ubifs_setattr` of `fs/ubifs/file.c`.

use crate::cache::{CachedFile, errno_of};
use crate::vfs::{OpenFile, Vfs};
use fs_api::{Caller, Changes, Errno, FileSystem, InodeNumber, PAGE_BYTES};
use page_cache::{FileError, WriteHooks};
use std::ops::Range;

/// Attribute that every write to a file takes away.
const CAPABILITY: &[u8] = b"security.capability";

/// A file that is being written.
struct Writer<'a, F> {
    file_system: &'a F,
    caller: &'a Caller,
    inode: InodeNumber,
    file: &'a CachedFile,
}

impl<F: FileSystem> WriteHooks for Writer<'_, F> {
    async fn begin(
        &self,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, FileError> {
        let Self { caller, inode, .. } = *self;
        // Space is set aside before the page changes: it alone may fail (`ubifs_write_begin`).
        let begun = self.file_system.begin_write(caller, inode, page, part, is_cached).await;
        // Even if that failed: the inode may have been dirtied on the way.
        self.file.mapping.set_attributes_dirty();
        Ok(begun?)
    }

    async fn end(&self, page: u64, part: Range<usize>) -> Result<(), FileError> {
        let end = page * PAGE_BYTES as u64 + part.end as u64;
        self.file_system.end_write(self.caller, self.inode, page, part).await?;
        self.file.mapping.set_attributes_dirty();
        let size = &self.file.size_bytes;
        // The size never falls with a write; a smaller end is a write into the middle.
        size.set(size.get().max(end));
        Ok(())
    }
}

impl<F: FileSystem + 'static> Vfs<F> {
    /// Writes into pages that will be written back; the inode's lock is held.
    pub(crate) async fn write_dirty(
        &self,
        pages: &CachedFile,
        caller: &Caller,
        file: &OpenFile,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        if bytes.is_empty() {
            return Ok(());
        }
        let inode = file.inode;
        let range = at..at + bytes.len() as u64;
        // Before the first page, as `__generic_file_aio_write` does, and with the lock held.
        self.remove_privileges(caller, inode).await?;
        let writer = Writer { file_system: &**self.file_system(), caller, inode, file: pages };
        let call_ns = self.call_ns();
        let written =
            pages.mapping.write_hooked(process::current(), range, bytes, call_ns, &writer).await;
        written.map_err(errno_of)
    }

    /// Each write asks the file for capabilities and takes them away (`file_remove_privs`,
    /// `cap_inode_need_killpriv`). From Linux 3.0 on, an inode remembers that it has none, but only on file
    /// systems that ask for it (`MS_NOSEC`), of which UBIFS is none: the answer is looked for each time.
    async fn remove_privileges(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        match self.file_system().extended_attribute(inode, CAPABILITY).await {
            Ok(value) if !value.is_empty() => {
                self.file_system().set_extended_attribute(caller, inode, CAPABILITY, None).await
            }
            _ => Ok(()),
        }
    }

    /// Makes pages of a file durable, with its attributes (`vfs_fsync_range`).
    pub(crate) async fn sync_pages(
        &self,
        caller: &Caller,
        file: &OpenFile,
        pages: Range<u64>,
        data_only: bool,
    ) -> Result<(), Errno> {
        if let Some(known) = self.caches().and_then(|caches| caches.known_file(file.inode)) {
            // Pages first, then the lock, as `vfs_fsync_range` takes it: write-back must not need
            // it.
            known.mapping.write_and_wait(process::current(), pages).await;
            // The error of a write-back in the background belongs to this call, once.
            known.mapping.take_write_error().map_err(errno_of)?;
        }
        let lock = self.lock_of(file.inode);
        let _held = lock.lock().await;
        self.sync_itself(caller, file, data_only).await
    }

    /// `fsync`, or `fdatasync`, without what a call costs.
    pub(crate) async fn fsync_data(
        &self,
        caller: &Caller,
        file: &OpenFile,
        data_only: bool,
    ) -> Result<(), Errno> {
        if self.file_system().writes_back() {
            return self.sync_pages(caller, file, 0..u64::MAX, data_only).await;
        }
        self.sync_itself(caller, file, data_only).await
    }

    async fn sync_itself(
        &self,
        caller: &Caller,
        file: &OpenFile,
        data_only: bool,
    ) -> Result<(), Errno> {
        if data_only {
            return self.file_system().sync_data(caller, file.inode).await;
        }
        self.file_system().fsync(caller, file.inode).await
    }

    /// Writes all that is dirty in memory, pages of each file before its attributes.
    // Without write-back nothing is dirty in memory.
    pub(crate) async fn write_all(&self) -> Result<(), Errno> {
        if !self.file_system().writes_back() {
            return Ok(());
        }
        if let Some(caches) = self.caches() {
            caches.write_all().await;
        }
        // Inodes that changed without pages: names and attributes.
        for inode in self.file_system().dirty_inodes() {
            self.file_system().write_inode(inode).await?;
        }
        Ok(())
    }

    /// Changes attributes; the inode's lock is held. Pages behind a new end are held while it changes,
    /// for the medium must not get them afterwards, and dropped then; the page with the new end is
    /// written before, if it is dirty, so that the file system finds what it cuts.
    pub(crate) async fn change_held(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        to: &Changes,
    ) -> Result<(), Errno> {
        let writes_back = self.file_system().writes_back();
        let Some(caches) = self.caches().filter(|_| writes_back) else {
            self.file_system().change(caller, inode, to).await?;
            self.cut_pages(inode, to).await;
            return Ok(());
        };
        let cut = to.size_bytes.zip(caches.known_file(inode));
        let mut held = Vec::new();
        if let Some((size, file)) = &cut {
            // The page with the new end is written before the cut, so that the medium has what is
            // not cut off.
            let last = size / PAGE_BYTES as u64;
            if !size.is_multiple_of(PAGE_BYTES as u64)
                && *size < file.size_bytes.get()
                && !self.file_system().writes_page_of_cut()
            {
                file.mapping.write_and_wait(process::current(), last..last + 1).await;
            }
            // Held until the file system has cut them, or write-back could put them behind the new
            // end.
            held = file.mapping.lock_pages(size.div_ceil(PAGE_BYTES as u64)).await;
        }
        let changed = self.file_system().change(caller, inode, to).await;
        if let Some((size, file)) = &cut {
            if changed.is_ok() {
                // Whoever waits for a page finds the file's end before it.
                file.size_bytes.set(*size);
            }
            // Let go whether or not the change succeeded.
            file.mapping.unlock_pages(&held);
        }
        changed?;
        self.cut_pages(inode, to).await;
        self.set_dirty(inode).await
    }

    /// Attributes of an inode may have changed in memory only: they are written in time.
    pub(crate) async fn set_dirty(&self, inode: InodeNumber) -> Result<(), Errno> {
        let writes_back = self.file_system().writes_back();
        let Some(caches) = self.caches().filter(|_| writes_back) else { return Ok(()) };
        let file = if let Some(file) = caches.known_file(inode) {
            file
        } else {
            let size = self.file_system().attributes(inode).await?.size_bytes;
            caches.file(inode, size)
        };
        file.mapping.set_attributes_dirty();
        Ok(())
    }

    /// Ends the mount in an orderly way, after what is dirty in memory was written; there must be no
    /// calls any more.
    ///
    /// # Errors
    /// [`Errno::Eio`] or [`Errno::Enospc`], if what was in memory could not be written.
    pub async fn unmount(&self) -> Result<(), Errno> {
        // Dirty pages first: `generic_shutdown_super` syncs before it puts the file system.
        let written = self.write_all().await;
        let ended = self.file_system().unmount().await;
        written.and(ended)
    }
}
