//! Writing into pages: dirty at once, by way of a file system's hooks, or handed through.
//!
//! Source: `generic_perform_write` of `mm/filemap.c`, Linux 3.4.

use crate::frames::{LOCKED, UPTODATE, WRITE_BACK};
use crate::mapping::{pages_of, part_of, within_page};
use crate::{FileError, Mapping, PAGE_BYTES, Process, throttle};
use std::ops::Range;

/// What a file system does around each change of a page that will be written back.
#[allow(async_fn_in_trait, reason = "one thread: no future needs to be Send")]
pub trait WriteHooks {
    /// A part of a page is about to be changed (`write_begin`): the place to set space aside.
    /// `is_cached`: the page is in memory and whole. Nothing of the cache is held meanwhile, and
    /// if the page is not what it was when this returns, it is called again. Returns whether a page
    /// that is not in memory must be read though all of it is changed.
    ///
    /// # Errors
    /// [`FileError::FileSystem`]: the page is not changed.
    async fn begin(
        &self,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, FileError>;

    /// The part was changed (`write_end`): the page becomes dirty.
    ///
    /// # Errors
    /// [`FileError::FileSystem`]: the page does not become dirty.
    async fn end(&self, page: u64, part: Range<usize>) -> Result<(), FileError>;
}

impl Mapping {
    /// Writes bytes into pages and marks them dirty; `from`, if given, holds the bytes. Waits if
    /// too much is dirty.
    ///
    /// # Errors
    /// [`FileError::Device`] or [`FileError::FileSystem`], if a page that is written in part could not be read.
    pub async fn write(
        &self,
        process: Process,
        bytes: Range<u64>,
        from: Option<&[u8]>,
        overhead_ns: u64,
    ) -> Result<(), FileError> {
        let mut owed_ns = overhead_ns;
        // Stable pages: a page on its way to the medium must not change under a checksum (3.0 to
        // 3.8).
        let busy = if self.cache.limits.has_stable_pages { LOCKED | WRITE_BACK } else { LOCKED };
        for page in pages_of(&bytes) {
            let part = part_of(&bytes, page);
            // A page that is overwritten whole is not read (`block_write_begin`).
            let is_whole = part.end - part.start == PAGE_BYTES;
            self.lock_page(process, page, is_whole, busy, &mut owed_ns).await?;
            self.fill(&bytes, page, from, &mut owed_ns).await;
            self.end_dirty(process, page).await;
        }
        self.pay(&mut owed_ns).await;
        Ok(())
    }

    /// Writes bytes into pages and marks them dirty, with the hooks of a file system around the change of
    /// each page. A page that is being written does not change: whoever writes it holds it, as
    /// `writepage` does. Waits if too much is dirty.
    ///
    /// # Errors
    /// [`FileError::Device`] or [`FileError::FileSystem`] of reading, [`FileError::FileSystem`] of the hooks;
    /// pages that were written before stay so.
    pub async fn write_hooked(
        &self,
        process: Process,
        bytes: Range<u64>,
        from: &[u8],
        overhead_ns: u64,
        hooks: &impl WriteHooks,
    ) -> Result<(), FileError> {
        let mut owed_ns = overhead_ns;
        for page in pages_of(&bytes) {
            let part = part_of(&bytes, page);
            self.lock_begun(process, page, &part, hooks, &mut owed_ns).await?;
            self.fill(&bytes, page, Some(from), &mut owed_ns).await;
            // The page stays locked until the file system has recorded the change.
            let ended = hooks.end(page, within_page(&part, page)).await;
            if let Err(error) = ended {
                // Unlocked and not dirty: what was copied is not written, as after a short
                // `write_end`.
                self.cache.clear_flags(self.number, page, LOCKED);
                return Err(error);
            }
            self.end_dirty(process, page).await;
        }
        self.pay(&mut owed_ns).await;
        Ok(())
    }

    /// Writes bytes into pages and hands every page to the file system at once, which `write` does: it
    /// gets the number of the page, its bytes and the part of them that is new. The page stays clean.
    /// A page that is not up to date is read first, even if all of it is written.
    ///
    /// Source: `generic_perform_write` over the `write_begin` and `write_end` of `fs/jffs2/file.c`
    /// (Linux 2.6.32 to 6.1) and of YAFFS2's `yaffs_vfs_multi.c`, which are alike in this.
    ///
    /// # Errors
    /// [`FileError::Device`] or [`FileError::FileSystem`] of reading, and those of `write`; the next reader of
    /// the page reads it again.
    pub async fn write_through(
        &self,
        process: Process,
        bytes: Range<u64>,
        from: &[u8],
        overhead_ns: u64,
        mut write: impl AsyncFnMut(u64, &[u8], Range<usize>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let mut owed_ns = overhead_ns;
        let mut whole = vec![0; PAGE_BYTES as usize];
        for page in pages_of(&bytes) {
            // Even a page that is written whole is read first: `jffs2_write_begin` reads whatever
            // is not up to date.
            self.lock_page(process, page, false, LOCKED, &mut owed_ns).await?;
            self.fill(&bytes, page, Some(from), &mut owed_ns).await;
            let _ = self.look_at(page, |stored| whole.copy_from_slice(stored));
            let written = write(page, &whole, within_page(&part_of(&bytes, page), page)).await;
            // After a failed write the page shows data the medium does not have: it must be read
            // again.
            let stale = if written.is_ok() { 0 } else { UPTODATE };
            self.cache.clear_flags(self.number, page, LOCKED | stale);
            written?;
        }
        self.pay(&mut owed_ns).await;
        Ok(())
    }

    /// Changes a page as a driver does that has it from `read_mapping_page`: whole in memory, locked while
    /// it changes, dirty afterwards, whether or not it is being written. `change` returns whether it changed
    /// anything; the processor is busy as with a copy of `touched_bytes`. With `is_held`, waits if too much
    /// is dirty.
    ///
    /// # Errors
    /// [`FileError::Device`] or [`FileError::FileSystem`], if the page could not be read.
    pub async fn change_page(
        &self,
        process: Process,
        page: u64,
        touched_bytes: u64,
        is_held: bool,
        change: impl FnOnce(&mut [u8]) -> bool,
    ) -> Result<bool, FileError> {
        let mut owed_ns = 0;
        self.lock_page(process, page, false, LOCKED, &mut owed_ns).await?;
        owed_ns += self.cache.pages_ns(1) + self.copy_ns(touched_bytes);
        self.pay(&mut owed_ns).await;
        let is_changed = self.with_bytes(page, change).unwrap_or(false);
        if !is_changed {
            self.cache.clear_flags(self.number, page, LOCKED);
            return Ok(false);
        }
        if is_held {
            self.end_dirty(process, page).await;
        } else {
            self.cache.set_dirty(self.number, page);
            self.cache.clear_flags(self.number, page, LOCKED);
        }
        Ok(true)
    }

    /// Locks a page that is to be changed, once none of the `busy` flags is set; reads it if it is not
    /// up to date, unless `skips_read`.
    async fn lock_page(
        &self,
        process: Process,
        page: u64,
        skips_read: bool,
        busy: u8,
        owed_ns: &mut u64,
    ) -> Result<(), FileError> {
        let mut was_tried = false;
        loop {
            match self.flags(page) {
                None => {
                    self.cache.insert(self.number, page, LOCKED);
                    if skips_read {
                        return Ok(());
                    }
                    self.pay(owed_ns).await;
                    self.read_locked(process, page).await;
                    // The read has just been tried: if it fails, the error belongs to this call.
                    was_tried = true;
                }
                Some(flags) if flags & busy != 0 => {
                    self.pay(owed_ns).await;
                    self.cache.wait_clear(self.number, page, busy, process).await;
                }
                Some(flags) if skips_read || flags & UPTODATE != 0 => {
                    self.cache.set_flags(self.number, page, LOCKED);
                    self.cache.touch(self.number, page);
                    return Ok(());
                }
                Some(_) => {
                    self.pay(owed_ns).await;
                    self.try_again(process, page, &mut was_tried).await?;
                }
            }
        }
    }

    /// Locks a page for whose change the file system has set space aside. Making space may write pages
    /// back, so the page is not held meanwhile (`write_begin_slow` of `fs/ubifs/file.c`).
    async fn lock_begun(
        &self,
        process: Process,
        page: u64,
        part: &Range<u64>,
        hooks: &impl WriteHooks,
        owed_ns: &mut u64,
    ) -> Result<(), FileError> {
        let busy = LOCKED | WRITE_BACK;
        // Locking order: pages under write-back are waited for before the file system takes its own
        // locks.
        let mut skips_read = part.end - part.start == PAGE_BYTES;
        loop {
            self.lock_page(process, page, skips_read, busy, owed_ns).await?;
            let is_cached = |flags: u8| flags & UPTODATE != 0;
            let was_cached = self.flags(page).is_some_and(is_cached);
            // Let go before space is set aside: making space writes pages back, and would wait for
            // this one.
            self.cache.clear_flags(self.number, page, LOCKED);
            self.pay(owed_ns).await;
            if hooks.begin(page, within_page(part, page), was_cached).await? && !was_cached {
                skips_read = false;
                continue;
            }
            // Another task may have read, written or dropped the page meanwhile; then it begins
            // anew.
            let is_same = |flags: &u8| flags & busy == 0 && is_cached(*flags) == was_cached;
            if self.flags(page).as_ref().is_some_and(is_same) {
                self.cache.set_flags(self.number, page, LOCKED);
                return Ok(());
            }
        }
    }

    /// Copies what is new of a page that is locked.
    async fn fill(&self, bytes: &Range<u64>, page: u64, from: Option<&[u8]>, owed_ns: &mut u64) {
        let part = part_of(bytes, page);
        *owed_ns += self.cache.pages_ns(1) + self.copy_ns(part.end - part.start);
        // The processor is busy while the page is locked, so others wait for the copy.
        self.pay(owed_ns).await;
        if let Some(from) = from {
            self.copy_in(bytes, page, from);
        }
    }

    /// A page that is locked was changed: it is dirty, and whoever dirtied it may have to wait.
    async fn end_dirty(&self, process: Process, page: u64) {
        // Dirty before it is unlocked, or it could be given up in between.
        let was_clean = self.cache.set_dirty(self.number, page);
        self.cache.clear_flags(self.number, page, LOCKED);
        // After the unlock: a writer that is held must not hold a page that the flusher wants to
        // write.
        throttle::balance(self, process, was_clean).await;
    }
}
