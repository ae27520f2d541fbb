//! Pages of files in memory: which there are, in which state, and which to give up.

use crate::backing::{Backing, Task};
use crate::cache_device::{CacheDevice, DeviceState};
use crate::flusher::{self, Work};
use crate::frames::{DIRTY, Frames, LOCKED, UPTODATE, WRITE_BACK};
use crate::limits::Limits;
use crate::mapping::Mapping;
use crate::page_tree::{PageTree, Tag};
use crate::throttle::TaskState;
use crate::{FileError, PAGE_BYTES, Process, waits};
use board::Board;
use process::run_as;
use rustc_hash::FxHashMap;
use shared_page::SharedPage;
use sim::{Cpus, Sim, WaitQueue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Queues that waiters for pages share, as the kernel's hashed wait queues of a zone.
// A queue for each page would cost more than it saves; waiters of other pages look again and sleep
// on.
const WAIT_QUEUES: usize = 64;

/// Pages looked at to find one to give up (`SWAP_CLUSTER_MAX` of `include/linux/swap.h`).
const SCAN_PAGES: u32 = 32;

/// Most pages whose memory is asked for at once: a mebibyte.
const PAGES_AT_ONCE: u64 = 256;

/// What a page cache keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheOptions {
    /// True to keep the bytes of pages, for file systems that need them.
    pub stores_bytes: bool,
}

/// How many pages there are, and what has been done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Pages in memory, clean ones included.
    pub pages: u64,
    /// Pages that differ from the medium and are not being written.
    pub dirty: u64,
    /// Pages that are being written.
    pub write_back: u64,
    /// Times a clean page became dirty.
    pub dirtied: u64,
    /// Pages whose writing has ended, well or not.
    pub written: u64,
    /// Pages whose reading has ended, well or not.
    pub read: u64,
    /// Pages given up for others.
    pub evicted: u64,
}

/// A file as the cache sees it (`struct address_space`, and the write-back state of its inode).
pub(crate) struct MappingState {
    pub(crate) pages: PageTree,
    /// None of a file that was taken out of the cache.
    pub(crate) backing: Option<Rc<dyn Backing>>,
    pub(crate) device: u32,
    pub(crate) dirty: u64,
    pub(crate) write_back: u64,
    /// Attributes changed in memory only (`I_DIRTY_SYNC`).
    pub(crate) has_dirty_attributes: bool,
    /// When its first page or its attributes became dirty; none while the file is on no list
    /// (`dirtied_when`).
    pub(crate) dirtied_ns: Option<u64>,
    /// A task is writing it and will put it on a list again (`I_SYNC`).
    pub(crate) is_syncing: bool,
    /// Where the next write-back begins (`writeback_index`).
    pub(crate) next_write: u64,
    /// The error of a write-back that no call has returned yet.
    pub(crate) write_error: Option<FileError>,
    /// Errors of reads that no reader has returned yet, by page.
    pub(crate) read_errors: BTreeMap<u64, FileError>,
}

impl MappingState {
    /// A file without pages, or with no backing a number that is free.
    fn new(device: u32, backing: Option<Rc<dyn Backing>>) -> Self {
        Self {
            pages: PageTree::default(),
            backing,
            device,
            dirty: 0,
            write_back: 0,
            has_dirty_attributes: false,
            dirtied_ns: None,
            is_syncing: false,
            next_write: 0,
            write_error: None,
            read_errors: BTreeMap::new(),
        }
    }

    /// Something is to be written.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty > 0 || self.has_dirty_attributes
    }
}

pub(crate) struct CacheState {
    pub(crate) frames: Frames,
    /// Memory of pages to come.
    spare: Vec<Box<[u8; PAGE_BYTES as usize]>>,
    pub(crate) mappings: Vec<MappingState>,
    /// Numbers of files that were taken out.
    pub(crate) free_mappings: Vec<u32>,
    pub(crate) devices: Vec<DeviceState>,
    pub(crate) tasks: FxHashMap<u32, TaskState>,
    pub(crate) statistics: CacheStatistics,
    /// Pages dirtied since a writer last looked at the limits (kernels before 3.2).
    pub(crate) dirtied_unchecked: u64,
    pub(crate) options: CacheOptions,
    /// Changes since the last check of the whole cache, in debug builds.
    pub(crate) unchecked_changes: u64,
}

/// Pages of files in memory.
///
/// Models the page cache of Linux 2.6.29 to 3.4 as far as its time and its writes go: page locks,
/// write-back tags, dirty limits, one flusher a device. One list of pages by last use stands for the
/// kernel's active and inactive ones, and memory is that of the board, always.
pub struct PageCache {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) board: Rc<Board>,
    pub(crate) limits: Limits,
    pub(crate) state: RefCell<CacheState>,
    waiters: Vec<WaitQueue>,
    /// Tasks that wait until a file is not being written (`I_SYNC`).
    pub(crate) synced: WaitQueue,
    waiting: Cell<u32>,
    pub(crate) devices: RefCell<Vec<Rc<CacheDevice>>>,
    capacity_pages: u64,
}

impl PageCache {
    /// An empty cache of the size that the board has memory for.
    pub fn new(sim: &Sim, cpus: &Rc<Cpus>, board: &Rc<Board>, options: CacheOptions) -> Rc<Self> {
        let state = CacheState {
            frames: Frames::new(),
            spare: Vec::new(),
            mappings: Vec::new(),
            free_mappings: Vec::new(),
            devices: Vec::new(),
            tasks: FxHashMap::default(),
            statistics: CacheStatistics::default(),
            dirtied_unchecked: 0,
            options,
            unchecked_changes: 0,
        };
        Rc::new(Self {
            sim: sim.clone(),
            cpus: cpus.clone(),
            board: board.clone(),
            limits: Limits::new(board),
            state: RefCell::new(state),
            synced: WaitQueue::new(sim),
            waiters: (0..WAIT_QUEUES).map(|_| WaitQueue::new(sim)).collect(),
            waiting: Cell::new(0),
            devices: RefCell::default(),
            capacity_pages: (board.available_bytes / PAGE_BYTES).max(1),
        })
    }

    /// A device that files live on, with a flusher of its own; returns its number.
    pub fn add_device(self: &Rc<Self>) -> u32 {
        let number = self.devices.borrow().len() as u32;
        // A thread of its own for each device (`bdi_start_fn` of `mm/backing-dev.c`, Linux 2.6.32).
        let device = Rc::new(CacheDevice::new(&self.sim, number, self.sim.kernel_thread()));
        self.state.borrow_mut().devices.push(DeviceState::default());
        self.devices.borrow_mut().push(device.clone());
        flusher::start(self, device);
        number
    }

    /// A file on a device, without pages.
    pub fn add_mapping(self: Rc<Self>, device: u32, backing: Rc<dyn Backing>) -> Mapping {
        let entry = MappingState::new(device, Some(backing));
        let number = {
            let state = &mut *self.state.borrow_mut();
            let number = if let Some(number) = state.free_mappings.pop() {
                state.mappings[number as usize] = entry;
                number
            } else {
                state.mappings.push(entry);
                (state.mappings.len() - 1) as u32
            };
            state.changed();
            number
        };
        Mapping { cache: self, number }
    }

    /// Gives the number of a file without pages to the next one.
    pub(crate) fn remove_mapping(&self, number: u32) {
        let state = &mut *self.state.borrow_mut();
        let entry = &mut state.mappings[number as usize];
        debug_assert!(entry.dirty + entry.write_back == 0 && !entry.is_syncing);
        // A file can be on a list although nothing of it is dirty any more.
        if entry.dirtied_ns.is_some() {
            state.devices[entry.device as usize].lists.remove(number);
        }
        debug_assert!(entry.pages.next(Tag::Present, 0).is_none(), "a page is still in use");
        // Attributes that were to be written and errors that no call returned go with the file
        // (`clear_inode` of `fs/inode.c`).
        *entry = MappingState::new(entry.device, None);
        state.free_mappings.push(number);
        state.changed();
    }

    /// Numbers of pages, and what has been done with them so far.
    pub fn statistics(&self) -> CacheStatistics {
        let state = self.state.borrow();
        CacheStatistics { pages: state.frames.len(), ..state.statistics }
    }

    /// Dirty pages from which the flusher writes, and from which writers are held.
    pub fn dirty_limits(&self) -> (u64, u64) {
        (self.limits.background, self.limits.dirty)
    }

    /// The thread that writes back the dirty pages of a device.
    pub fn flusher(&self, device: u32) -> Process {
        self.devices.borrow()[device as usize].process
    }

    /// Writes everything that is dirty, waits for it and flushes every file's device, as `sync(2)`
    /// and the end of a run do. Each file's `fsync` returns the error of a failed write-back.
    ///
    /// # Errors
    /// The [`FileError::Device`] or [`FileError::FileSystem`] of the first flush that failed.
    pub async fn sync(self: &Rc<Self>) -> Result<(), FileError> {
        let mut outcome = Ok(());
        let count = self.state.borrow().mappings.len() as u32;
        for number in 0..count {
            let mapping = Mapping { cache: self.clone(), number };
            if self.state.borrow().mappings[number as usize].backing.is_none() {
                continue;
            }
            let device = mapping.device();
            // By the flusher's process, as `sync(2)` lets it write (`wakeup_flusher_threads`), then
            // waits.
            mapping.write_and_wait(device.process, 0..u64::MAX).await;
            // The first error counts, but every device is flushed.
            let flushed = run_as(device.process, mapping.backing().flush(device.process)).await;
            outcome = outcome.and(flushed);
        }
        outcome
    }

    /// Writes what is dirty of a device now, the file dirty for longest first, and waits for it.
    /// Each file keeps the error of a failed write-back for its next `fsync`.
    pub async fn write_all(self: &Rc<Self>, device: u32) {
        let device = self.devices.borrow()[device as usize].clone();
        flusher::write_all(self, &device, &Task::new(device.process)).await;
    }

    /// Writes so many dirty pages of a device, if there are, the file dirty for longest first, without
    /// waiting for what the caller may hold.
    pub async fn relieve(self: &Rc<Self>, device: u32, pages: u64) {
        let device = self.devices.borrow()[device as usize].clone();
        let task = Task::new(device.process);
        flusher::write_back(self, &device, &task, Work::Shortage(pages)).await;
    }

    /// What a file's pages come from.
    pub(crate) fn backing(&self, mapping: u32) -> Rc<dyn Backing> {
        let backing = &self.state.borrow().mappings[mapping as usize].backing;
        backing.clone().expect("a file that was taken out is not used any more")
    }

    /// The line of those who wait for a page.
    fn line(&self, mapping: u32, index: u64) -> &WaitQueue {
        &self.waiters[(index.wrapping_add(u64::from(mapping)) % WAIT_QUEUES as u64) as usize]
    }

    /// Waits until none of `flags` is set; at once if the page is not there. The block layer learns whose wait it
    /// is, if the page is being written.
    pub(crate) async fn wait_clear(&self, mapping: u32, index: u64, flags: u8, waiter: Process) {
        let mut awaited = None;
        while let Some(set) = self.flags(mapping, index).map(|set| set & flags)
            && set != 0
        {
            // `folio_wait_writeback`, and all who come to it: writers of a stable page, truncation, `fsync`.
            if set & WRITE_BACK != 0 && awaited.is_none() {
                let page = index..index + 1;
                awaited = waits::begin(self, mapping, std::slice::from_ref(&page), waiter);
            }
            self.waiting.set(self.waiting.get() + 1);
            self.line(mapping, index).wait().await;
            self.waiting.set(self.waiting.get() - 1);
        }
    }

    /// Wakes those who wait for pages.
    pub(crate) fn wake(&self, mapping: u32, pages: Range<u64>) {
        // Most pages are read and written without a waiter; the count saves the search.
        if self.waiting.get() == 0 {
            return;
        }
        // No more lines than there are queues.
        for index in pages.take(WAIT_QUEUES) {
            self.line(mapping, index).wake_all();
        }
    }

    /// State of a page, if it is there.
    pub(crate) fn flags(&self, mapping: u32, index: u64) -> Option<u8> {
        let state = self.state.borrow();
        let frame = state.mappings[mapping as usize].pages.get(index)?;
        Some(state.frames.get(frame).flags)
    }

    /// Adds a page that is not there, giving another up if memory is full.
    pub(crate) fn insert(&self, mapping: u32, index: u64, flags: u8) {
        let state = &mut *self.state.borrow_mut();
        while state.frames.len() >= self.capacity_pages {
            // Nothing to give up: the page is added beyond the limit, for the kernel has reserves.
            let Some(victim) = state.frames.victim(SCAN_PAGES) else { break };
            state.drop_frame(victim);
            state.statistics.evicted += 1;
        }
        let frame = state.frames.insert(mapping, index, flags);
        if state.options.stores_bytes {
            let bytes = state.fresh_page();
            state.frames.get_mut(frame).bytes = Some(bytes);
        }
        state.mappings[mapping as usize].pages.insert(index, frame);
        state.changed();
    }

    /// Marks a page dirty; true if it was clean.
    pub(crate) fn set_dirty(&self, mapping: u32, index: u64) -> bool {
        let state = &mut *self.state.borrow_mut();
        let entry = &mut state.mappings[mapping as usize];
        let frame = entry.pages.get(index).expect("a page that is locked is there");
        let flags = &mut state.frames.get_mut(frame).flags;
        let was_clean = *flags & DIRTY == 0;
        // Dirty implies up to date: a page that is overwritten whole was never read.
        *flags |= DIRTY | UPTODATE;
        if !was_clean {
            return false;
        }
        entry.pages.set(index, Tag::Dirty, true);
        entry.dirty += 1;
        state.statistics.dirty += 1;
        state.statistics.dirtied += 1;
        let device = &mut state.devices[entry.device as usize];
        device.dirty += 1;
        device.dirtied += 1;
        self.enlist(state, mapping);
        state.changed();
        true
    }

    /// Marks the attributes of a file dirty.
    pub(crate) fn set_attributes_dirty(&self, mapping: u32) {
        let state = &mut *self.state.borrow_mut();
        state.mappings[mapping as usize].has_dirty_attributes = true;
        self.enlist(state, mapping);
        state.changed();
    }

    /// Puts a file that became dirty on its device's list, unless it is on one.
    fn enlist(&self, state: &mut CacheState, mapping: u32) {
        let entry = &mut state.mappings[mapping as usize];
        // A file that is dirty already keeps its age, which is that of its first dirty page
        // (`dirtied_when`).
        if entry.dirtied_ns.is_some() {
            return;
        }
        entry.dirtied_ns = Some(self.sim.now());
        // The task that writes it puts it on a list when it is done (`writeback_single_inode`).
        if !entry.is_syncing {
            let lists = &mut state.devices[entry.device as usize].lists;
            lists.dirty.push_back(mapping);
            // The interval is armed with the first dirty file only; further ones are found by the
            // same look.
            if lists.is_idle_otherwise() {
                self.devices.borrow()[entry.device as usize].wake_later(self);
            }
        }
    }

    /// Takes pages out of the dirty state and puts them under write-back.
    pub(crate) fn begin_write(&self, mapping: u32, pages: Range<u64>) {
        let state = &mut *self.state.borrow_mut();
        let entry = &mut state.mappings[mapping as usize];
        let count = pages.end - pages.start;
        for index in pages {
            let frame = entry.pages.get(index).expect("a dirty page is there");
            let flags = &mut state.frames.get_mut(frame).flags;
            // Exactly dirty: a page that is locked is being changed, and its write would tear it.
            debug_assert_eq!(*flags & (DIRTY | WRITE_BACK | LOCKED), DIRTY);
            *flags = *flags & !DIRTY | WRITE_BACK;
            entry.pages.set(index, Tag::Dirty, false);
            entry.pages.set(index, Tag::WriteBack, true);
        }
        entry.dirty -= count;
        entry.write_back += count;
        let device = &mut state.devices[entry.device as usize];
        device.dirty -= count;
        device.write_back += count;
        state.statistics.dirty -= count;
        state.statistics.write_back += count;
        state.changed();
    }

    /// Ends the write-back of pages.
    pub(crate) fn end_write(&self, mapping: u32, pages: Range<u64>, result: Result<(), FileError>) {
        let count = pages.end - pages.start;
        let device = {
            let state = &mut *self.state.borrow_mut();
            let entry = &mut state.mappings[mapping as usize];
            for index in pages.clone() {
                let frame = entry.pages.get(index).expect("a page under write-back is there");
                let flags = &mut state.frames.get_mut(frame).flags;
                debug_assert_ne!(*flags & WRITE_BACK, 0);
                *flags &= !WRITE_BACK;
                entry.pages.set(index, Tag::WriteBack, false);
            }
            entry.write_back -= count;
            if let Err(error) = result {
                // Kept for the next `fsync`, whoever calls it: the writer has gone on (`AS_EIO`).
                entry.write_error = Some(error);
            }
            let device = &mut state.devices[entry.device as usize];
            device.write_back -= count;
            device.written += count;
            state.statistics.write_back -= count;
            state.statistics.written += count;
            let device = entry.device;
            state.changed();
            device
        };
        self.wake(mapping, pages);
        let device = self.devices.borrow()[device as usize].clone();
        // After the pages are counted out, so that a writer that wakes sees the new amounts.
        device.wake_uncongested(|| self.backing(mapping).is_write_congested());
    }

    /// Ends the reading of pages: they are unlocked, and up to date unless it failed.
    pub(crate) fn end_read(&self, mapping: u32, pages: Range<u64>, result: Result<(), FileError>) {
        {
            let state = &mut *self.state.borrow_mut();
            let entry = &mut state.mappings[mapping as usize];
            for index in pages.clone() {
                let frame = entry.pages.get(index).expect("a page being read is there");
                let flags = &mut state.frames.get_mut(frame).flags;
                debug_assert_ne!(*flags & LOCKED, 0);
                *flags &= !LOCKED;
                match result {
                    Ok(()) => *flags |= UPTODATE,
                    // Not up to date and not locked is what a reader takes for a failed read.
                    Err(error) => drop(entry.read_errors.insert(index, error)),
                }
            }
            state.statistics.read += pages.end - pages.start;
            state.changed();
        }
        self.wake(mapping, pages);
    }

    /// Sets flags of a page, if it is there: it may be gone while its holder waited.
    pub(crate) fn set_flags(&self, mapping: u32, index: u64, flags: u8) {
        self.change_flags(mapping, index, |before| before | flags);
    }

    /// Clears flags of a page, if it is there.
    pub(crate) fn clear_flags(&self, mapping: u32, index: u64, flags: u8) {
        let is_there = self.change_flags(mapping, index, |before| before & !flags);
        // Unlocking wakes; a page that becomes dirty wakes no task.
        if is_there && flags & LOCKED != 0 {
            self.wake(mapping, index..index + 1);
        }
    }

    fn change_flags(&self, mapping: u32, index: u64, change: impl FnOnce(u8) -> u8) -> bool {
        let state = &mut *self.state.borrow_mut();
        let Some(frame) = state.mappings[mapping as usize].pages.get(index) else { return false };
        let flags = &mut state.frames.get_mut(frame).flags;
        *flags = change(*flags);
        state.changed();
        true
    }

    /// The page was used.
    pub(crate) fn touch(&self, mapping: u32, index: u64) {
        let state = &mut *self.state.borrow_mut();
        if let Some(frame) = state.mappings[mapping as usize].pages.get(index) {
            state.frames.touch(frame);
        }
    }

    /// Processor time of handling pages in the cache.
    pub(crate) fn pages_ns(&self, pages: u64) -> u64 {
        pages * self.board.costs.page_ns
    }
}

impl CacheState {
    /// A page of zeros.
    ///
    /// Pages that are written together are lent together, and only memory that lies together can then become
    /// a block of a chip: it must not lie between what each page takes beside its bytes. Asked for one by
    /// one, the process that wrote 256 MiB to a chip was 2.19 times as large as the data, and not 1.56 times.
    fn fresh_page(&mut self) -> Rc<SharedPage> {
        if self.spare.is_empty() {
            // No more than there are already, so that few pages take little.
            let count = self.frames.len().clamp(1, PAGES_AT_ONCE);
            self.spare.extend((0..count).map(|_| shared_page::zeros()));
        }
        SharedPage::with_own(self.spare.pop().expect("it was filled"))
    }

    /// Takes a page out of the cache that is clean, or whose file ends before it.
    pub(crate) fn drop_frame(&mut self, frame: u32) {
        let (mapping, index) = {
            let frame = self.frames.get(frame);
            (frame.mapping as usize, frame.index)
        };
        self.mappings[mapping].pages.remove(index);
        self.mappings[mapping].read_errors.remove(&index);
        self.frames.remove(frame);
    }
}
