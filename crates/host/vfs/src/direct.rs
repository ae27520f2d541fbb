//! Calls past the page cache, and advice about it.
//!
//! Source: `setfl` of `fs/fcntl.c`; `generic_file_aio_read`, `generic_file_direct_write` and
//! `__generic_file_aio_write` of `mm/filemap.c`; `SYSCALL_DEFINE(fadvise64_64)` of `mm/fadvise.c`; Linux 2.6.32.
//! Transfers are whole pages: a kernel also takes single sectors.

use crate::vfs::{OpenFile, Vfs};
use fs_api::{Caller, DirectIo, Errno, FileSystem, InodeNumber, PAGE_BYTES, PageRun};
use page_cache::ReadAhead;
use std::ops::Range;

const PAGE: u64 = PAGE_BYTES as u64;

/// Pages that hold bytes.
fn pages_of(at: u64, bytes: u64) -> Range<u64> {
    at / PAGE..(at + bytes).div_ceil(PAGE)
}

impl<F: FileSystem + 'static> Vfs<F> {
    /// Sets `O_DIRECT` of an open file (`fcntl` with `F_SETFL`).
    ///
    /// # Errors
    /// [`Errno::Einval`], if the file system has no direct transfers.
    pub fn set_direct(&self, file: &OpenFile) -> Result<(), Errno> {
        if self.file_system().direct_io() == DirectIo::Refused {
            return Err(Errno::Einval);
        }
        file.is_direct.set(true);
        Ok(())
    }

    /// Reads of an open file are not read ahead of any more (`POSIX_FADV_RANDOM`).
    pub fn advise_random(&self, file: &OpenFile) {
        file.read_ahead.set(ReadAhead::random());
    }

    /// Drops the whole pages of a range that are clean (`POSIX_FADV_DONTNEED`): a part of a page at either end
    /// stays. The kernel also begins to write the file's dirty pages then, which is not modelled.
    pub fn advise_not_needed(&self, file: &OpenFile, bytes: Range<u64>) {
        let pages = bytes.start.div_ceil(PAGE)..bytes.end / PAGE;
        let known = self.caches().and_then(|caches| caches.known_file(file.inode));
        if let Some(known) = known.filter(|_| pages.start < pages.end) {
            known.mapping.invalidate(&pages);
        }
    }

    /// A write to this file goes past the page cache. One behind the end of the file does not: the file
    /// system would have to make room first.
    pub(crate) fn is_direct_write(&self, file: &OpenFile, is_within: bool) -> bool {
        let offered = self.file_system().direct_io() == DirectIo::ReadsAndWrites;
        file.is_direct.get() && offered && is_within
    }

    pub(crate) async fn read_direct(
        &self,
        file: &OpenFile,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        self.enter().await;
        check_aligned(offset, into.len())?;
        let size = self.file_system().attributes(file.inode).await?.size_bytes;
        let wanted = (into.len() as u64).min(size.saturating_sub(offset)) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        // Written first, and kept: a read drops nothing from the cache.
        self.write_pages_out(file.inode, &pages_of(offset, wanted as u64)).await?;
        let mut pages = vec![[0; PAGE_BYTES]; into.len() / PAGE_BYTES];
        self.file_system().read_pages(file.inode, offset / PAGE, &mut pages).await?;
        into[..wanted].copy_from_slice(&pages.as_flattened()[..wanted]);
        Ok(wanted)
    }

    /// Writes past the page cache; the inode's lock is held.
    pub(crate) async fn write_direct(
        &self,
        caller: &Caller,
        file: &OpenFile,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), Errno> {
        self.enter().await;
        check_aligned(at, bytes.len())?;
        self.write_out(file.inode, at, bytes.len() as u64).await?;
        let pages: Vec<[u8; PAGE_BYTES]> = bytes
            .chunks_exact(PAGE_BYTES)
            .map(|page| page.try_into().expect("chunks have one size"))
            .collect();
        let run = PageRun {
            first: at / PAGE,
            pages: &pages,
            bytes: bytes.len(),
            is_waited_for: true,
            is_direct: true,
        };
        self.file_system().write_pages(caller, file.inode, run).await?;
        // Again: a reader may have brought pages in meanwhile.
        self.drop_pages(file.inode, &pages_of(at, bytes.len() as u64));
        Ok(())
    }

    /// Writes what is dirty of a range, and drops it from the cache: before a direct write, and after one that
    /// went through the cache.
    pub(crate) async fn write_out(
        &self,
        inode: InodeNumber,
        at: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        let pages = pages_of(at, bytes);
        self.write_pages_out(inode, &pages).await?;
        self.drop_pages(inode, &pages);
        Ok(())
    }

    async fn write_pages_out(&self, inode: InodeNumber, pages: &Range<u64>) -> Result<(), Errno> {
        if let Some(known) = self.caches().and_then(|caches| caches.known_file(inode)) {
            known.mapping.write_and_wait(process::current(), pages.clone()).await;
            known.mapping.take_write_error().map_err(crate::cache::errno_of)?;
        }
        self.file_system().write_out(inode).await
    }

    fn drop_pages(&self, inode: InodeNumber, pages: &Range<u64>) {
        if let Some(known) = self.caches().and_then(|caches| caches.known_file(inode)) {
            known.mapping.invalidate(pages);
        }
    }
}

fn check_aligned(at: u64, bytes: usize) -> Result<(), Errno> {
    if at.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE_BYTES) {
        Ok(())
    } else {
        Err(Errno::Einval)
    }
}
