//! A file under the page cache: its pages are read from the file system, and written back to it.
//!
//! Source: `do_readpage`, `ubifs_writepage` of `fs/ubifs/file.c` and `write_cache_pages` of
//! `mm/page-writeback.c`, Linux 2.6.35: as many pages as the file system takes at once are handed over and
//! held until they are written.

use fs_api::{Caller, Errno, FileSystem, InodeNumber, PAGE_BYTES, PageRun, Time};
use page_cache::{Backing, FileError, Mapping, Pending, Process, Purpose, Task};
use std::cell::Cell;
use std::ops::Range;
use std::rc::{Rc, Weak};

/// A file under the page cache.
pub(crate) struct FilePages<F> {
    /// Weak, since the cache owns this file. A file system whose device lies in the same cache (JFFS2
    /// over block2mtd) owns that cache in turn; owning it from here would keep both in memory for ever.
    file_system: Weak<F>,
    inode: InodeNumber,
    size_bytes: Rc<Cell<u64>>,
}

impl<F> FilePages<F> {
    pub(crate) fn new(file_system: &Rc<F>, inode: InodeNumber, size_bytes: Rc<Cell<u64>>) -> Self {
        Self { file_system: Rc::downgrade(file_system), inode, size_bytes }
    }

    /// The file system, while it is mounted.
    ///
    /// # Errors
    /// `EIO` once it has gone: nothing can be read from it or written to it any more.
    fn mounted(&self) -> Result<Rc<F>, FileError> {
        self.file_system.upgrade().ok_or(FileError::FileSystem(Errno::Eio))
    }
}

impl<F: FileSystem + 'static> Backing for FilePages<F> {
    fn pages(&self) -> u64 {
        self.size_bytes.get().div_ceil(PAGE_BYTES as u64)
    }

    fn reads_ahead(&self) -> bool {
        self.file_system.upgrade().is_some_and(|file_system| file_system.reads_ahead())
    }

    fn read_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        _: &'a Task,
    ) -> Pending<'a, ()> {
        Box::pin(async move {
            let file_system = match self.mounted() {
                Ok(file_system) => file_system,
                // A page that is not read would keep its readers waiting for ever.
                Err(gone) => return mapping.end_read(pages, Err(gone)),
            };
            let at_once = file_system.pages_at_once();
            let mut bytes = vec![[0; PAGE_BYTES]; at_once.min(pages.end - pages.start) as usize];
            let mut first = pages.start;
            while first < pages.end {
                let end = pages.end.min(first + at_once);
                let into = &mut bytes[..(end - first) as usize];
                // As many pages at once as the file system takes; an error concerns those alone.
                let read = file_system.read_pages(self.inode, first, into).await;
                for (page, bytes) in (first..end).zip(&*into) {
                    let _ = mapping.with_bytes(page, |stored| stored.copy_from_slice(bytes));
                }
                mapping.end_read(first..end, read.map_err(FileError::from));
                first = end;
            }
        })
    }

    fn write_pages<'a>(
        &'a self,
        mapping: &'a Mapping,
        pages: Range<u64>,
        purpose: Purpose,
        _: &'a Task,
    ) -> Pending<'a, ()> {
        Box::pin(async move {
            let file_system = match self.mounted() {
                Ok(file_system) => file_system,
                // The pages leave write-back all the same: `sync` and `fsync` wait for that.
                Err(gone) => return mapping.end_write(pages, Err(gone)),
            };
            let count = pages.end - pages.start;
            let most = file_system.pages_at_once().max(1);
            debug_assert!((1..=most).contains(&count), "as many pages as the file system takes");
            // The times of the file are those of the writes, which have long been taken over.
            let now = Time::default();
            let caller = Caller { uid: 0, gid: 0, now };
            let mut bytes = vec![[0; PAGE_BYTES]; count as usize];
            // Copied before anything waits: the page is under write-back and does not change, but
            // the cache cannot be borrowed across a wait.
            for (page, bytes) in pages.clone().zip(&mut bytes) {
                let _ = mapping.with_bytes(page, |stored| bytes.copy_from_slice(stored));
            }
            // The last page of a file counts up to its end only; `ubifs_writepage` fills the rest
            // with zeros.
            let after = self.size_bytes.get().saturating_sub(pages.start * PAGE_BYTES as u64);
            let valid =
                (bytes.len() * PAGE_BYTES).min(usize::try_from(after).unwrap_or(usize::MAX));
            let written = if valid == 0 {
                // The file was cut meanwhile.
                Ok(())
            } else {
                let is_waited_for = purpose == Purpose::Integrity;
                let first = pages.start;
                let run =
                    PageRun { first, pages: &bytes, bytes: valid, is_waited_for, is_direct: false };
                file_system.write_pages(&caller, self.inode, run).await
            };
            // In any case: a page that stays under write-back would block its file for ever.
            mapping.end_write(pages, written.map_err(FileError::from));
        })
    }

    fn pages_at_once(&self) -> u64 {
        self.file_system.upgrade().map_or(1, |file_system| file_system.pages_at_once())
    }

    fn write_attributes(&self) -> Pending<'_, Result<(), FileError>> {
        Box::pin(async { Ok(self.mounted()?.write_inode(self.inode).await?) })
    }

    fn flush(&self, _process: Process) -> Pending<'_, Result<(), FileError>> {
        unreachable!("the file system is told of fsync itself")
    }
}

#[cfg(test)]
mod tests {
    use super::{Backing, FilePages, PAGE_BYTES};
    use crate::MemoryFileSystem;
    use board::Board;
    use fs_api::{Caller, FileSystem, Time};
    use page_cache::{CacheOptions, PageCache, Process, Purpose, Task};
    use sim::{Cpus, Simulation};
    use std::cell::Cell;
    use std::rc::Rc;

    /// Writes so many pages at once to a file system that takes one.
    fn write(pages: u64) {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let board = Rc::new(Board::without_costs());
        let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
        let cache = PageCache::new(&sim, &cpus, &board, CacheOptions { stores_bytes: true });
        let caller = Caller { uid: 0, gid: 0, now: Time::default() };
        let file_system = Rc::new(MemoryFileSystem::new(&caller));
        assert_eq!(file_system.pages_at_once(), 1);
        let size_bytes = Rc::new(Cell::new(8 * PAGE_BYTES as u64));
        let backing = Rc::new(FilePages::new(&file_system, file_system.root(), size_bytes));
        let mapping = cache.clone().add_mapping(cache.add_device(), backing.clone());
        sim.spawn(async move {
            let task = Task::new(Process::new(1));
            backing.write_pages(&mapping, 0..pages, Purpose::Cleaning, &task).await;
        });
        simulation.run();
    }

    #[test]
    #[should_panic(expected = "as many pages as the file system takes")]
    fn a_write_of_no_page_is_seen() {
        write(0);
    }

    #[test]
    #[should_panic(expected = "as many pages as the file system takes")]
    fn a_write_of_too_many_pages_is_seen() {
        write(2);
    }
}
