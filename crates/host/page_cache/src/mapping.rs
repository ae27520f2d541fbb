//! A file in the page cache: reading and writing back through it.
//!
//! Source: `do_generic_file_read` and `filemap_write_and_wait_range` of `mm/filemap.c`, Linux 3.4.

use crate::backing::{Backing, Purpose, Task};
use crate::cache_device::CacheDevice;
use crate::frames::{DIRTY, LOCKED, MARKER, UPTODATE, WRITE_BACK};
use crate::page_tree::Tag;
use crate::read_ahead::{ReadAhead, Request};
use crate::{FileError, PAGE_BYTES, PageCache, Process};
use process::{current, run_as};
use shared_page::SharedPage;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// A file in the page cache. Clones are the same file.
#[derive(Clone)]
pub struct Mapping {
    pub(crate) cache: Rc<PageCache>,
    pub(crate) number: u32,
}

impl Mapping {
    /// The cache that holds the file.
    pub fn cache(&self) -> &Rc<PageCache> {
        &self.cache
    }

    /// Pages that are dirty or being written.
    pub fn unwritten_pages(&self) -> u64 {
        let state = self.cache.state.borrow();
        let entry = &state.mappings[self.number as usize];
        entry.dirty + entry.write_back
    }

    /// The backing is done with reading pages.
    pub fn end_read(&self, pages: Range<u64>, result: Result<(), FileError>) {
        self.cache.end_read(self.number, pages, result);
    }

    /// The backing is done with writing pages.
    pub fn end_write(&self, pages: Range<u64>, result: Result<(), FileError>) {
        self.cache.end_write(self.number, pages, result);
    }

    /// Lets a backing see or fill the bytes of a page it was given; none if the cache keeps none.
    pub fn with_bytes<T>(&self, page: u64, look: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        let state = &mut *self.cache.state.borrow_mut();
        let frame = state.mappings[self.number as usize].pages.get(page)?;
        let held = state.frames.get_mut(frame).bytes.as_mut()?;
        // Whoever has taken the page over keeps the bytes that it had then.
        if Rc::strong_count(held) > 1 {
            *held = held.copied();
        }
        Some(held.change(|bytes| look(bytes)))
    }

    /// A page with its bytes, for a file system that takes it over; a later change in the cache does not
    /// reach it. None if the page is not there, or the cache keeps no bytes.
    pub fn shared_page(&self, page: u64) -> Option<Rc<SharedPage>> {
        let state = self.cache.state.borrow();
        let frame = state.mappings[self.number as usize].pages.get(page)?;
        state.frames.get(frame).bytes.clone()
    }

    /// Looks at the bytes of a page without changing them; none as of [`Mapping::with_bytes`].
    pub(crate) fn look_at<T>(&self, page: u64, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let state = self.cache.state.borrow();
        let frame = state.mappings[self.number as usize].pages.get(page)?;
        // A page that the medium lends stays lent.
        state.frames.get(frame).bytes.as_ref().map(|held| held.look(|bytes| look(bytes)))
    }

    pub(crate) fn backing(&self) -> Rc<dyn Backing> {
        self.cache.backing(self.number)
    }

    pub(crate) fn device(&self) -> Rc<CacheDevice> {
        let device = self.cache.state.borrow().mappings[self.number as usize].device;
        self.cache.devices.borrow()[device as usize].clone()
    }

    pub(crate) fn flags(&self, page: u64) -> Option<u8> {
        self.cache.flags(self.number, page)
    }

    pub(crate) fn copy_ns(&self, bytes: u64) -> u64 {
        bytes * self.cache.board.costs.copy_ps_per_byte / 1000
    }

    /// Spends processor time that was put off while nothing could happen in between.
    pub(crate) async fn pay(&self, owed_ns: &mut u64) {
        self.cache.cpus.run(std::mem::take(owed_ns)).await;
    }

    /// Reads bytes; `into`, if given, receives them where the cache keeps them. `overhead_ns` is
    /// processor time of the call before the first page.
    ///
    /// # Errors
    /// [`FileError::Device`] or [`FileError::FileSystem`], once a second attempt on the same page has failed too.
    pub async fn read(
        &self,
        process: Process,
        read_ahead: &Cell<ReadAhead>,
        bytes: Range<u64>,
        mut into: Option<&mut [u8]>,
        overhead_ns: u64,
    ) -> Result<(), FileError> {
        let mut owed_ns = overhead_ns;
        // Costs are put off until something else could notice, so a call on cached pages is one
        // event.
        let pages = pages_of(&bytes);
        for page in pages.clone() {
            self.make_uptodate(process, read_ahead, page..pages.end, &mut owed_ns).await?;
            self.cache.touch(self.number, page);
            let part = part_of(&bytes, page);
            owed_ns += self.cache.pages_ns(1) + self.copy_ns(part.end - part.start);
            if let Some(into) = &mut into {
                self.copy_out(&bytes, page, into);
            }
        }
        self.pay(&mut owed_ns).await;
        // Once for the call: small reads of one page must not look like steps backwards
        // (`prev_pos`).
        if !pages.is_empty() {
            let mut state = read_ahead.get();
            state.read_to(pages.end - 1);
            read_ahead.set(state);
        }
        Ok(())
    }

    /// Waits until the first of the pages that a call still wants is in memory and up to date.
    async fn make_uptodate(
        &self,
        process: Process,
        read_ahead: &Cell<ReadAhead>,
        wanted: Range<u64>,
        owed_ns: &mut u64,
    ) -> Result<(), FileError> {
        let page = wanted.start;
        let mut was_tried = false;
        loop {
            let Some(flags) = self.flags(page) else {
                self.pay(owed_ns).await;
                self.read_around(process, read_ahead, wanted.clone(), false).await;
                // Read-ahead may have found no memory, or a page that is beyond the file: one
                // page is read in any case (`no_cached_page`).
                if self.flags(page).is_none() {
                    self.cache.insert(self.number, page, LOCKED);
                    self.read_locked(process, page).await;
                }
                continue;
            };
            if flags & MARKER != 0 {
                // Cleared first, or each reader of the page would start the same window
                // (`ClearPageReadahead`).
                self.cache.clear_flags(self.number, page, MARKER);
                // A congested queue would make a reader wait for pages that no call has asked
                // for yet (`page_cache_async_readahead`).
                if flags & WRITE_BACK == 0 && !self.backing().is_read_congested() {
                    self.pay(owed_ns).await;
                    self.read_around(process, read_ahead, wanted.clone(), true).await;
                }
            } else if flags & UPTODATE != 0 {
                return Ok(());
            } else if flags & LOCKED != 0 {
                // Locked and not up to date: the read of another process is on its way.
                self.pay(owed_ns).await;
                self.cache.wait_clear(self.number, page, LOCKED, process).await;
            } else {
                // Neither: the read has failed. It is tried once more by this reader
                // (`readpage` in `do_generic_file_read`).
                self.pay(owed_ns).await;
                self.try_again(process, page, &mut was_tried).await?;
            }
        }
    }

    /// Reads a page that a first attempt left without data; an error the second time.
    pub(crate) async fn try_again(
        &self,
        process: Process,
        page: u64,
        was_tried: &mut bool,
    ) -> Result<(), FileError> {
        let error = {
            let state = &mut *self.cache.state.borrow_mut();
            state.mappings[self.number as usize].read_errors.remove(&page)
        };
        // The first attempt may have been read-ahead's; its error is not this reader's.
        if let Some(error) = error
            && std::mem::replace(was_tried, true)
        {
            return Err(error);
        }
        self.cache.set_flags(self.number, page, LOCKED);
        self.read_locked(process, page).await;
        Ok(())
    }

    /// Begins to read a page that is locked.
    pub(crate) async fn read_locked(&self, process: Process, page: u64) {
        let task = Task::new(process);
        let backing = self.backing();
        task.carry_out(backing.read_pages(self, page..page + 1, &task)).await;
        backing.unplug(&task);
    }

    /// Begins to read what read-ahead finds fit for pages of which the first is missing or marked.
    async fn read_around(
        &self,
        process: Process,
        read_ahead: &Cell<ReadAhead>,
        wanted: Range<u64>,
        is_marked: bool,
    ) {
        let most = self.cache.board.writeback.read_ahead_bytes / PAGE_BYTES;
        if most == 0 {
            return;
        }
        let mut runs: Vec<Range<u64>> = Vec::new();
        let backing = self.backing();
        if !backing.reads_ahead() {
            return;
        }
        {
            let mut ahead = read_ahead.get();
            let window = {
                let state = self.cache.state.borrow();
                ahead.plan(&Request {
                    pages: &state.mappings[self.number as usize].pages,
                    index: wanted.start,
                    wanted: wanted.end - wanted.start,
                    most,
                    is_marked,
                    looks_back: self.cache.limits.looks_back,
                })
            };
            read_ahead.set(ahead);
            let Some(window) = window else { return };
            // The marker lies where the pages begin that no reader has asked for: reading it starts
            // the next window in time.
            let marker = window.first + window.count - window.ahead;
            for page in window.first..(window.first + window.count).min(backing.pages()) {
                if self.flags(page).is_some() {
                    // Pages that are there break the window into several reads.
                    continue;
                }
                let mark = if window.ahead > 0 && page == marker { MARKER } else { 0 };
                self.cache.insert(self.number, page, LOCKED | mark);
                match runs.last_mut() {
                    Some(run) if run.end == page => run.end += 1,
                    _ => runs.push(page..page + 1),
                }
            }
        }
        let count = runs.iter().map(|run| run.end - run.start).sum();
        // Before the bios go, since pages are allocated before they are submitted.
        self.cache.cpus.run(self.cache.pages_ns(count)).await;
        let task = Task::new(process);
        for run in runs {
            task.carry_out(backing.read_pages(self, run, &task)).await;
        }
        // All runs under one plug, so that neighbours become one request.
        backing.unplug(&task);
    }

    /// Copies a page that is there and up to date; false if it is not.
    pub fn copy_page(&self, page: u64, into: &mut [u8]) -> bool {
        let is_there = self.flags(page).is_some_and(|flags| flags & UPTODATE != 0);
        is_there && self.look_at(page, |stored| into.copy_from_slice(stored)).is_some()
    }

    /// Adds a page that was read elsewhere, unless it is there.
    pub fn add_page(&self, page: u64, bytes: &[u8]) {
        if self.flags(page).is_none() {
            self.cache.insert(self.number, page, UPTODATE);
            let _ = self.with_bytes(page, |stored| stored.copy_from_slice(bytes));
        }
    }

    /// Clears the bytes of a page that is there, from one on: the file ends before them.
    pub fn clear_from(&self, page: u64, first: usize) {
        let _ = self.with_bytes(page, |stored| stored[first..].fill(0));
    }

    /// Writes all dirty pages of the file and makes them durable.
    ///
    /// # Errors
    /// [`FileError::Device`] or [`FileError::FileSystem`], of the flush or, once, of a write-back that failed
    /// since the last call.
    pub async fn fsync(&self, process: Process) -> Result<(), FileError> {
        self.fsync_pages(process, 0..u64::MAX).await
    }

    pub(crate) async fn fsync_pages(
        &self,
        process: Process,
        pages: Range<u64>,
    ) -> Result<(), FileError> {
        // Write, wait, then flush: the device may hold completed writes in its cache until the
        // flush.
        self.write_and_wait(process, pages).await;
        // Before the flush: after a failed write-back there is nothing worth a flush
        // (`filemap_write_and_wait_range` returns the error).
        self.take_write_error()?;
        run_as(process, self.backing().flush(process)).await
    }

    /// The error of a write-back that no call has returned yet.
    ///
    /// # Errors
    /// The [`FileError`] of the last write-back that failed; this call clears it.
    pub fn take_write_error(&self) -> Result<(), FileError> {
        let state = &mut *self.cache.state.borrow_mut();
        state.mappings[self.number as usize].write_error.take().map_or(Ok(()), Err)
    }

    /// Writes the pages that are dirty now, and waits for them and for those being written.
    pub async fn write_and_wait(&self, process: Process, pages: Range<u64>) {
        if self.unwritten_pages() == 0 {
            return;
        }
        let _waits = self.begin_waits(&pages, process);
        let task = Task::new(process);
        // The pages that are dirty now: those that a writer adds meanwhile are not waited for, or
        // `fsync` would not end.
        for run in self.dirty_runs(&pages) {
            let mut at = run.start;
            while let Some(next) = self.next_integrity_run(at..run.end, &task).await {
                at = next.end;
                self.write_run(next, Purpose::Integrity, &task).await;
            }
        }
        // The plug before the wait: this task's own bios may be what it waits for.
        self.backing().unplug(&task);
        let mut at = pages.start;
        // In the order of pages; those that end meanwhile are not found any more.
        while let Some(page) = self.next_tagged(Tag::WriteBack, at).filter(|page| *page < pages.end)
        {
            self.cache.wait_clear(self.number, page, WRITE_BACK, process).await;
            at = page + 1;
        }
    }

    /// The dirty pages of a range at this moment, as ranges.
    pub fn dirty_runs(&self, pages: &Range<u64>) -> Vec<Range<u64>> {
        self.tagged_runs(Tag::Dirty, pages, u64::MAX)
    }

    /// The first pages of a range that have a tag, at most `most`, as ranges.
    pub(crate) fn tagged_runs(&self, tag: Tag, pages: &Range<u64>, most: u64) -> Vec<Range<u64>> {
        let state = self.cache.state.borrow();
        let tree = &state.mappings[self.number as usize].pages;
        let mut runs: Vec<Range<u64>> = Vec::new();
        let (mut at, mut count) = (pages.start, 0);
        while count < most
            && let Some(page) = tree.next(tag, at).filter(|page| *page < pages.end)
        {
            match runs.last_mut() {
                Some(run) if run.end == page => run.end += 1,
                _ => runs.push(page..page + 1),
            }
            (at, count) = (page + 1, count + 1);
        }
        runs
    }

    fn next_tagged(&self, tag: Tag, from: u64) -> Option<u64> {
        self.cache.state.borrow().mappings[self.number as usize].pages.next(tag, from)
    }

    /// The next pages in a row that can be written. Those being written are passed over, and so are
    /// those that a task holds, unless `waits`.
    pub(crate) async fn next_run(
        &self,
        pages: Range<u64>,
        most: u64,
        waits: bool,
        task: &Task,
    ) -> Option<Range<u64>> {
        let mut at = pages.start;
        loop {
            let page = self.next_tagged(Tag::Dirty, at).filter(|page| *page < pages.end)?;
            let flags = self.flags(page)?;
            // Already on its way, or held: if it is dirty again later, the next round takes it
            // (`WB_SYNC_NONE`).
            if flags & WRITE_BACK != 0 || flags & LOCKED != 0 && !waits {
                at = page + 1;
            } else if flags & LOCKED != 0 {
                // Sleeping with a plug could wait for itself.
                self.backing().unplug(task);
                self.cache.wait_clear(self.number, page, LOCKED, task.process).await;
            } else {
                return Some(self.extend_run(page, pages.end.min(page.saturating_add(most))));
            }
        }
    }

    /// The next pages in a row that are dirty, once no task reads, changes or writes them.
    async fn next_integrity_run(&self, pages: Range<u64>, task: &Task) -> Option<Range<u64>> {
        loop {
            let page =
                self.next_tagged(Tag::Dirty, pages.start).filter(|page| *page < pages.end)?;
            let flags = self.flags(page)?;
            if flags & (WRITE_BACK | LOCKED) == 0 {
                return Some(self.extend_run(page, pages.end));
            }
            self.backing().unplug(task);
            // For integrity a page that is being written is waited for: what was changed since may
            // not be in that write.
            self.cache.wait_clear(self.number, page, WRITE_BACK | LOCKED, task.process).await;
        }
    }

    fn extend_run(&self, first: u64, end: u64) -> Range<u64> {
        let end = end.min(first + self.backing().pages_at_once().max(1));
        let is_free = |page: &u64| {
            self.flags(*page).is_some_and(|flags| flags & (DIRTY | WRITE_BACK | LOCKED) == DIRTY)
        };
        let more = (first + 1..end).take_while(is_free).count() as u64;
        first..first + 1 + more
    }

    /// Puts pages under write-back and hands them to the backing.
    pub(crate) async fn write_run(&self, pages: Range<u64>, purpose: Purpose, task: &Task) {
        // Dirty is cleared before the write begins: a change during the write makes the page dirty
        // again (`clear_page_dirty_for_io`).
        self.cache.begin_write(self.number, pages.clone());
        self.cache.cpus.run(self.cache.pages_ns(pages.end - pages.start)).await;
        task.carry_out(self.backing().write_pages(self, pages, purpose, task)).await;
    }

    /// Drops pages that are clean and that no task reads, writes or holds, as a direct write does
    /// (`invalidate_inode_pages2_range`).
    pub fn invalidate(&self, pages: &Range<u64>) {
        let state = &mut *self.cache.state.borrow_mut();
        let mut at = pages.start;
        while let Some(page) = state.mappings[self.number as usize].pages.next(Tag::Present, at)
            && page < pages.end
        {
            at = page + 1;
            let frame = state.mappings[self.number as usize].pages.get(page);
            if let Some(frame) = frame
                && state.frames.get(frame).flags & (DIRTY | WRITE_BACK | LOCKED) == 0
            {
                state.drop_frame(frame);
            }
        }
        state.changed();
    }

    /// Drops all pages from one on, dirty or not, each once no task reads or writes it.
    pub async fn truncate(&self, from: u64) {
        let _waits = self.begin_waits(&(from..u64::MAX), current());
        let mut at = from;
        while let Some(page) = self.next_tagged(Tag::Present, at) {
            self.cache.wait_clear(self.number, page, LOCKED | WRITE_BACK, current()).await;
            // Waiting lets others run: the page may be gone, and another may have come in front of
            // it.
            at = page + 1;
            let state = &mut *self.cache.state.borrow_mut();
            let entry = &mut state.mappings[self.number as usize];
            let Some(frame) = entry.pages.get(page) else { continue };
            if state.frames.get(frame).flags & DIRTY != 0 {
                entry.dirty -= 1;
                state.statistics.dirty -= 1;
                state.devices[entry.device as usize].dirty -= 1;
            }
            state.drop_frame(frame);
            state.changed();
        }
    }

    /// Takes the file out of the cache, with pages that were to be written (`evict`). The mapping and
    /// its clones must not be used any more.
    pub async fn remove(&self) {
        // A task that writes the file holds a reference to it in the kernel; here its number would
        // be given to another.
        self.cache.synced.wait_until(|| !self.is_syncing()).await;
        self.truncate(0).await;
        // Whoever began to write it meanwhile found nothing to do.
        self.cache.synced.wait_until(|| !self.is_syncing()).await;
        self.cache.remove_mapping(self.number);
    }

    fn is_syncing(&self) -> bool {
        self.cache.state.borrow().mappings[self.number as usize].is_syncing
    }

    /// Takes the file out of the cache if it has no pages and there is nothing to write of it; returns
    /// whether it is out. If it is, the mapping and its clones must not be used any more.
    pub fn remove_if_unused(&self) -> bool {
        let is_unused = {
            let state = self.cache.state.borrow();
            let entry = &state.mappings[self.number as usize];
            entry.pages.next(Tag::Present, 0).is_none() && !entry.is_syncing && !entry.is_dirty()
        };
        if is_unused {
            self.cache.remove_mapping(self.number);
        }
        is_unused
    }

    /// Whether pages or attributes are still to be written, or are being written.
    pub fn is_dirty(&self) -> bool {
        let state = self.cache.state.borrow();
        let entry = &state.mappings[self.number as usize];
        entry.is_dirty() || entry.write_back > 0 || entry.is_syncing
    }

    /// The file's attributes changed in memory: they are written with its pages, or alone
    /// (`__mark_inode_dirty`).
    pub fn set_attributes_dirty(&self) {
        self.cache.set_attributes_dirty(self.number);
    }

    /// Holds the pages from one on that are in the cache, each once no task reads or writes it.
    /// They are not written until [`Mapping::unlock_pages`] lets them go.
    pub async fn lock_pages(&self, from: u64) -> Vec<u64> {
        let _waits = self.begin_waits(&(from..u64::MAX), current());
        let mut held = Vec::new();
        let mut at = from;
        while let Some(page) = self.next_tagged(Tag::Present, at) {
            self.cache.wait_clear(self.number, page, LOCKED | WRITE_BACK, current()).await;
            at = page + 1;
            if self.flags(page).is_some() {
                self.cache.set_flags(self.number, page, LOCKED);
                held.push(page);
            }
        }
        held
    }

    /// Lets go of pages that [`Mapping::lock_pages`] holds.
    pub fn unlock_pages(&self, held: &[u64]) {
        for page in held {
            self.cache.clear_flags(self.number, *page, LOCKED);
        }
    }

    /// True if a page of the range is in the cache.
    pub fn has_pages(&self, pages: &Range<u64>) -> bool {
        self.next_tagged(Tag::Present, pages.start).is_some_and(|page| page < pages.end)
    }

    fn copy_out(&self, bytes: &Range<u64>, page: u64, into: &mut [u8]) {
        let part = part_of(bytes, page);
        let place = (part.start - bytes.start) as usize..(part.end - bytes.start) as usize;
        let inner = within_page(&part, page);
        let _ = self.look_at(page, |stored| into[place].copy_from_slice(&stored[inner]));
    }

    pub(crate) fn copy_in(&self, bytes: &Range<u64>, page: u64, from: &[u8]) {
        let part = part_of(bytes, page);
        let place = (part.start - bytes.start) as usize..(part.end - bytes.start) as usize;
        let inner = within_page(&part, page);
        let _ = self.with_bytes(page, |stored| stored[inner].copy_from_slice(&from[place]));
    }
}

/// Pages that hold bytes.
pub(crate) fn pages_of(bytes: &Range<u64>) -> Range<u64> {
    // The maximum keeps an empty range from ending before it begins.
    bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES).max(bytes.start / PAGE_BYTES)
}

/// Those of the bytes that are in the page.
pub(crate) fn part_of(bytes: &Range<u64>, page: u64) -> Range<u64> {
    bytes.start.max(page * PAGE_BYTES)..bytes.end.min((page + 1) * PAGE_BYTES)
}

pub(crate) fn within_page(part: &Range<u64>, page: u64) -> Range<usize> {
    (part.start - page * PAGE_BYTES) as usize..(part.end - page * PAGE_BYTES) as usize
}
