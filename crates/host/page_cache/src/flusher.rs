//! The task that writes dirty pages back.
//!
//! Source: `bdi_writeback_thread`, `wb_writeback`, `writeback_sb_inodes` and `queue_io` of
//! `fs/fs-writeback.c`, Linux 3.4; before 2.6.32 `pdflush` did the same from a clock of its own.
//! Age is that of the file's first dirty page: once it has expired, all the file's pages are written.

use crate::backing::{Purpose, Task};
use crate::bandwidth::Sample;
use crate::cache_device::CacheDevice;
use crate::limits::Era;
use crate::{Mapping, PageCache};
use std::rc::Rc;

/// Pages of a file written before others have a turn (`MAX_WRITEBACK_PAGES`, 2.6.29 to 3.0, and the
/// unit of the larger chunks later).
const CHUNK_PAGES: u64 = 1024;

/// Which pages are written, and when it is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Files whose first page has been dirty for the time of expiry.
    Old,
    /// Anything, while more is dirty than the background limit.
    Background,
    /// So many pages, whatever their age, for a writer that is held.
    Pages(u64),
    /// So many pages, for a file system short of space: who asks may hold pages, or be waited for by
    /// whoever writes a file, so neither is waited for (`writeback_inodes_sb_nr`).
    Shortage(u64),
    /// Everything that is dirty now (`sync_inodes_sb`).
    All,
}

impl Work {
    fn waits(self) -> bool {
        !matches!(self, Self::Shortage(_))
    }
}

/// Starts the flusher of a device.
pub(crate) fn start(cache: &Rc<PageCache>, device: Rc<CacheDevice>) {
    let name = format!("flusher {}", device.number);
    // The task must not keep the cache alive: whoever uses files does.
    let cache = Rc::downgrade(cache);
    device.sim.clone().spawn_as(device.process, name, async move {
        let mut last_old_ns: Option<u64> = None;
        loop {
            device.timer.fired().await;
            let Some(cache) = cache.upgrade() else { return };
            device.is_active.set(true);
            let task = Task::new(device.process);
            let interval_ns = cache.limits.interval_ns;
            let now_ns = device.sim.now();
            let is_due = last_old_ns.is_none_or(|last_ns| now_ns >= last_ns + interval_ns);
            // Old pages before the background limit, as `wb_do_writeback` does; the interval counts
            // from the last look.
            if interval_ns > 0 && is_due {
                last_old_ns = Some(now_ns);
                write_back(&cache, &device, &task, Work::Old).await;
            }
            write_back(&cache, &device, &task, Work::Background).await;
            // Cleared before the lists are looked at: a page dirtied from now on starts the flusher
            // anew.
            device.is_active.set(false);
            let is_clean = cache.state.borrow().devices[device.number as usize].lists.is_empty();
            if !is_clean {
                device.wake_later(&cache);
            }
        }
    });
}

/// Writes pages of a device for a task; returns how many.
pub(crate) async fn write_back(
    cache: &Rc<PageCache>,
    device: &CacheDevice,
    task: &Task,
    work: Work,
) -> u64 {
    let _work = cache.sim.work(match work {
        Work::Pages(_) | Work::Shortage(_) => "write-back of a writer",
        Work::Old => "write-back of old pages",
        Work::Background => "write-back beyond the limit",
        Work::All => "write-back of all pages",
    });
    let since_ns = cache.sim.now();
    let number = device.number as usize;
    let mut left = match work {
        Work::Pages(pages) | Work::Shortage(pages) => pages,
        // Pages dirtied meanwhile are for the next round.
        // A count taken once, or a fast writer would keep the round alive for ever
        // (`get_nr_dirty_pages`).
        Work::Old | Work::All => amount(cache, number).max(1),
        Work::Background => u64::MAX,
    };
    let mut written = 0;
    while left > 0 {
        // Background work stops in the middle of a round when the limit is met
        // (`over_bground_thresh`).
        if work == Work::Background
            && cache.state.borrow().statistics.dirty <= cache.limits.background
        {
            break;
        }
        // Only when `b_io` is empty: a round that was broken off goes on where it was.
        queue_files(cache, number, work, since_ns);
        let round = write_round(cache, device, task, work, left).await;
        written += round.pages;
        left = left.saturating_sub(round.pages);
        if cache.limits.era == Era::WriterPauses {
            measure(cache, number, since_ns);
        }
        if round.has_progress() {
            continue;
        }
        if round.is_congested {
            // `congestion_wait(WRITE, HZ/10)` of `background_writeout` (2.6.29).
            device
                .wait_uncongested(true, (cache.limits.hz / 10).max(1) * cache.limits.tick_ns)
                .await;
            // A writer that is held looks at the limits again before it writes more.
            if matches!(work, Work::Pages(_)) {
                break;
            }
            continue;
        }
        if !work.waits() || cache.state.borrow().devices[number].lists.more.is_empty() {
            break;
        }
        // Another task is writing the files that are left.
        cache.sim.sleep(cache.limits.tick_ns).await;
    }
    written
}

/// Pages and attributes that are dirty now.
fn amount(cache: &PageCache, device: usize) -> u64 {
    let state = cache.state.borrow();
    let of = &state.devices[device];
    let has_attributes = |file: &&u32| state.mappings[**file as usize].has_dirty_attributes;
    of.dirty + of.lists.files().filter(has_attributes).count() as u64
}

/// What came of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    pages: u64,
    cleaned_files: u64,
    is_congested: bool,
}

impl Round {
    fn has_progress(self) -> bool {
        self.pages + self.cleaned_files > 0
    }
}

/// Chooses the files of a round, if the last one's are used up.
fn queue_files(cache: &PageCache, device: usize, work: Work, since_ns: u64) {
    let now_ns = cache.sim.now();
    let state = &mut *cache.state.borrow_mut();
    let lists = &mut state.devices[device].lists;
    if !lists.io.is_empty() {
        return;
    }
    // What had to wait in the last round goes first (`queue_io` splices `b_more_io` before expired
    // files).
    std::mem::swap(&mut lists.io, &mut lists.more);
    while let Some(file) = lists.dirty.front() {
        let dirtied_ns = state.mappings[*file as usize].dirtied_ns.unwrap_or(0);
        let is_late = match work {
            Work::Old => dirtied_ns + cache.limits.expire_ns > now_ns,
            Work::All => dirtied_ns > since_ns,
            _ => false,
        };
        // The list is in the order of ages, so the first that is too young ends the search
        // (`move_expired_inodes`).
        if is_late {
            break;
        }
        lists.io.extend(lists.dirty.pop_front());
    }
    state.changed();
}

/// Writes a chunk of each file, until there is none left or a tenth of a second has passed.
async fn write_round(
    cache: &Rc<PageCache>,
    device: &CacheDevice,
    task: &Task,
    work: Work,
    left: u64,
) -> Round {
    let since_ns = cache.sim.now();
    let number = device.number as usize;
    let mut round = Round::default();
    loop {
        let (file, chunk) = {
            let state = &mut *cache.state.borrow_mut();
            let of = &mut state.devices[number];
            let Some(file) = of.lists.io.pop_front() else { return round };
            let entry = &mut state.mappings[file as usize];
            // `I_SYNC`: another task writes the file, and only a task that waits for integrity
            // waits for it (`requeue_io`).
            if entry.is_syncing {
                of.lists.more.push_back(file);
                continue;
            }
            entry.is_syncing = true;
            let chunk = chunk_pages(cache, of.bandwidth.pages_per_second(), left - round.pages);
            state.changed();
            (file, chunk)
        };
        let mapping = Mapping { cache: cache.clone(), number: file };
        let backing = mapping.backing();
        // Pages first, then attributes: an inode may point to blocks that its pages have just been
        // given (`writeback_single_inode`).
        let end = mapping.clean(task, chunk, work.waits()).await;
        round.pages += end.pages;
        mapping.write_attributes(task).await;
        // A file that had more than its chunk goes on in the next round, one that was written
        // through goes to the end of the dirty list.
        let is_clean = put_back(cache, number, file, end.pages >= chunk || end.is_congested);
        round.cleaned_files += u64::from(is_clean);
        if end.is_congested {
            round.is_congested = true;
            backing.unplug(task);
            return round;
        }
        // HZ / 10 in `writeback_sb_inodes`: the flusher comes back to look at limits and other
        // work.
        let is_late = cache.sim.now() - since_ns > 100_000_000;
        if round.has_progress() && (is_late || round.pages >= left) {
            backing.unplug(task);
            return round;
        }
    }
}

/// Puts a file on the list where it belongs after it was written; true if it is clean.
fn put_back(cache: &PageCache, device: usize, file: u32, goes_on: bool) -> bool {
    let now_ns = cache.sim.now();
    let state = &mut *cache.state.borrow_mut();
    let entry = &mut state.mappings[file as usize];
    entry.is_syncing = false;
    // Waiters look at the flag when they run, which is after this function.
    cache.synced.wake_all();
    let lists = &mut state.devices[device].lists;
    let is_clean = !entry.is_dirty();
    if is_clean {
        entry.dirtied_ns = None;
    } else if goes_on {
        lists.more.push_back(file);
    } else {
        // Pages that could not be written now are not to keep the flusher busy.
        entry.dirtied_ns = Some(now_ns);
        lists.dirty.push_back(file);
    }
    state.changed();
    is_clean
}

/// Pages of a file to write at a time (`writeback_chunk_size`): half a second's, from Linux 3.2 on.
fn chunk_pages(cache: &PageCache, pages_per_second: u64, left: u64) -> u64 {
    match cache.limits.era {
        Era::WriterWrites => CHUNK_PAGES.min(left),
        Era::WriterPauses => {
            // `MIN_WRITEBACK_PAGES` is 4 MiB; half a second of writing, an eighth of the limit
            // (`DIRTY_SCOPE`), rounded up to it.
            let pages = (pages_per_second / 2).min(cache.limits.dirty / 8).min(left);
            (pages + CHUNK_PAGES) / CHUNK_PAGES * CHUNK_PAGES
        }
    }
}

/// Writes what is dirty of a device now, the file dirty for longest first, and waits for all that is
/// being written (`sync_filesystem`). Each file's `fsync` returns the error of a failed write-back.
pub(crate) async fn write_all(cache: &Rc<PageCache>, device: &CacheDevice, task: &Task) {
    write_back(cache, device, task, Work::All).await;
    let count = cache.state.borrow().mappings.len() as u32;
    for file in 0..count {
        let is_wanted = || {
            let state = cache.state.borrow();
            let entry = &state.mappings[file as usize];
            let is_unwritten = entry.is_dirty() || entry.write_back > 0 || entry.is_syncing;
            is_unwritten && entry.backing.is_some() && entry.device == device.number
        };
        let is_syncing = || cache.state.borrow().mappings[file as usize].is_syncing;
        if !is_wanted() {
            continue;
        }
        cache.synced.wait_until(|| !is_syncing()).await;
        if !is_wanted() {
            continue;
        }
        {
            let state = &mut *cache.state.borrow_mut();
            // Off its list, as a file that is being written is on none.
            state.devices[device.number as usize].lists.remove(file);
            state.mappings[file as usize].is_syncing = true;
            state.changed();
        }
        let mapping = Mapping { cache: cache.clone(), number: file };
        mapping.write_and_wait(task.process, 0..u64::MAX).await;
        mapping.write_attributes(task).await;
        // Whatever became dirty meanwhile puts the file on a list again.
        put_back(cache, device.number as usize, file, false);
    }
}

fn measure(cache: &PageCache, device: usize, since_ns: u64) {
    let now_ticks = cache.sim.now() / cache.limits.tick_ns;
    let state = &mut *cache.state.borrow_mut();
    let of = &mut state.devices[device];
    let sample = Sample {
        now_ticks,
        since_ticks: since_ns / cache.limits.tick_ns,
        written: of.written,
        dirtied: of.dirtied,
        dirty: None,
        device_dirty: of.dirty + of.write_back,
    };
    of.bandwidth.update(&cache.limits, &sample);
}

impl Mapping {
    /// Begins to write dirty pages that no call waits for, at most `most`, from where the last call
    /// ended (`write_cache_pages` with `range_cyclic`).
    pub(crate) async fn clean(&self, task: &Task, most: u64, waits: bool) -> Cleaned {
        let backing = self.backing();
        let start = self.cache.state.borrow().mappings[self.number as usize].next_write;
        let mut cleaned = Cleaned::default();
        let mut at = start;
        let mut end = u64::MAX;
        loop {
            let run = self.next_run(at..end, most - cleaned.pages, waits, task).await;
            let Some(run) = run else {
                // The second half of the cycle: from the beginning to where this call started.
                if end == u64::MAX && start > 0 {
                    (at, end) = (0, start);
                    continue;
                }
                break;
            };
            at = run.end;
            cleaned.pages += run.end - run.start;
            self.write_run(run, Purpose::Cleaning, task).await;
            if cleaned.pages >= most {
                break;
            }
            // Before 2.6.32 `wbc->nonblocking`: background writers turn away instead of sleeping
            // for a request.
            if self.cache.limits.minds_congestion && backing.is_write_congested() {
                cleaned.is_congested = true;
                break;
            }
        }
        self.cache.state.borrow_mut().mappings[self.number as usize].next_write = at;
        // The plug goes before this task sleeps or looks elsewhere; others may wait for these
        // pages.
        backing.unplug(task);
        cleaned
    }

    /// Writes the attributes, if they are dirty, after the pages (`writeback_single_inode`).
    async fn write_attributes(&self, task: &Task) {
        let is_dirty = {
            let state = &mut *self.cache.state.borrow_mut();
            let entry = &mut state.mappings[self.number as usize];
            // Cleared before it is written: a change that comes meanwhile makes the file dirty
            // again.
            std::mem::take(&mut entry.has_dirty_attributes)
        };
        if !is_dirty {
            return;
        }
        let backing = self.backing();
        if let Err(error) = task.carry_out(backing.write_attributes()).await {
            let state = &mut *self.cache.state.borrow_mut();
            state.mappings[self.number as usize].write_error = Some(error);
        }
    }
}

/// What a call of [`Mapping::clean`] has written, and why it ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cleaned {
    pub(crate) pages: u64,
    pub(crate) is_congested: bool,
}
