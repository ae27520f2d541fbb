//! Writers are kept from dirtying memory faster than it is cleaned.
//!
//! Source: `balance_dirty_pages` and its callers of `mm/page-writeback.c`: Linux 2.6.32 for kernels
//! before 3.2, whose writers write pages themselves, and 3.4 for later ones, whose writers pause. The
//! counter that processors have each for themselves is one here.

use crate::backing::Task;
use crate::bandwidth::{Pace, Sample, Unwritten};
use crate::flusher::{self, Work};
use crate::limits::Era;
use crate::{Mapping, PageCache, Process};
use std::ops::Range;
use std::rc::Rc;

/// Pages after which a new process looks at the limits: 128 KiB (`nr_dirtied_pause`, Linux 3.4).
// `current->nr_dirtied_pause` of `copy_process`: 128 KiB in pages.
const FIRST_PAUSE_PAGES: u64 = 32;

/// Pages after which every writer looks once limits are exceeded: 32 KiB in 3.4, 8 pages before.
const EXCEEDED_PAGES: u64 = 8;

/// What Linux 3.2 and later keep of a writer (fields of `struct task_struct`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskState {
    /// Pages dirtied since the last look (`nr_dirtied`).
    dirtied: u64,
    /// Pages after which to look (`nr_dirtied_pause`).
    look_after: u64,
    /// Tick up to which it has paid for its pages (`dirty_paused_when`).
    paid_until: Option<u64>,
}

impl Default for TaskState {
    fn default() -> Self {
        Self { dirtied: 0, look_after: FIRST_PAUSE_PAGES, paid_until: None }
    }
}

/// A process wrote to a page; `was_clean` says whether it dirtied it. Waits if too much is dirty.
pub(crate) async fn balance(mapping: &Mapping, process: Process, was_clean: bool) {
    let cache = &mapping.cache;
    match cache.limits.era {
        Era::WriterWrites => {
            let unchecked = {
                let state = &mut *cache.state.borrow_mut();
                state.dirtied_unchecked += 1;
                let device = state.mappings[mapping.number as usize].device;
                // Once the limit is exceeded every writer looks after eight pages
                // (`dirty_exceeded`), not after up to 1024.
                let is_exceeded = state.devices[device as usize].is_exceeded;
                let most = if is_exceeded { EXCEEDED_PAGES } else { cache.limits.unchecked };
                if state.dirtied_unchecked < most {
                    return;
                }
                // One counter for all writers: the kernel has one for each processor.
                std::mem::take(&mut state.dirtied_unchecked)
            };
            // `sync_writeback_pages`: half as many pages again as were dirtied, so that cleaning
            // gains on dirtying.
            let chunk = unchecked.max(cache.limits.unchecked);
            writer_writes(mapping, process, chunk + chunk / 2).await;
        }
        Era::WriterPauses => {
            let dirtied = {
                let state = &mut *cache.state.borrow_mut();
                let device = state.mappings[mapping.number as usize].device;
                let is_exceeded = state.devices[device as usize].is_exceeded;
                let task = state.tasks.entry(process.pid).or_default();
                // Pages that were dirty already cost the device nothing more
                // (`account_page_dirtied`).
                task.dirtied += u64::from(was_clean);
                state.dirtied_unchecked += u64::from(was_clean);
                let mut most = task.look_after;
                if is_exceeded {
                    most = most.min(EXCEEDED_PAGES);
                }
                let processors = u64::from(cache.board.processors.count);
                // The task's own count first, then that of the processor, which catches many tasks
                // that each dirty little.
                if task.dirtied >= most {
                    state.dirtied_unchecked = 0;
                } else if state.dirtied_unchecked
                    >= (cache.limits.dirty / (processors * 32)).max(16)
                {
                    state.dirtied_unchecked = 0;
                    // Zero makes the test below succeed, as in
                    // `balance_dirty_pages_ratelimited_nr`.
                    most = 0;
                }
                if task.dirtied < most {
                    return;
                }
                task.dirtied
            };
            writer_pauses(mapping, process, dirtied).await;
        }
    }
}

/// Counts of dirty pages, and of those with the ones being written.
struct Amounts {
    dirty: u64,
    with_write_back: u64,
    device_dirty: u64,
    device_with_write_back: u64,
}

fn amounts(cache: &PageCache, device: u32) -> Amounts {
    let state = cache.state.borrow();
    let of = &state.devices[device as usize];
    Amounts {
        dirty: state.statistics.dirty,
        with_write_back: state.statistics.dirty + state.statistics.write_back,
        device_dirty: of.dirty,
        device_with_write_back: of.dirty + of.write_back,
    }
}

async fn writer_writes(mapping: &Mapping, process: Process, chunk: u64) {
    let cache = &mapping.cache;
    let device = mapping.device();
    let limits = cache.limits;
    let exceeded = |is_exceeded: bool| {
        cache.state.borrow_mut().devices[device.number as usize].is_exceeded = is_exceeded;
    };
    let mut written = 0;
    let mut pause_ticks = 1;
    loop {
        let now = amounts(cache, device.number);
        // The device's share and the global free run: both must be exceeded (`balance_dirty_pages`
        // of 2.6.32).
        if now.device_with_write_back <= limits.dirty || now.with_write_back < limits.free_run() {
            break;
        }
        exceeded(true);
        // Only what is dirty can be written; what is under write-back must be waited for.
        if now.device_dirty > limits.dirty {
            let task = Task::new(process);
            written += flusher::write_back(cache, &device, &task, Work::Pages(chunk)).await;
        }
        // Tested again after the write, since writing took time and others cleaned meanwhile.
        if amounts(cache, device.number).device_with_write_back <= limits.dirty || written >= chunk
        {
            break;
        }
        // HZ / 10: a tenth of a second is the longest wait between two looks.
        let longest_ticks = (limits.hz / 10).max(1);
        let _owed = mapping.begin_throttling(chunk, process);
        if limits.minds_congestion {
            let is_congested = mapping.backing().is_write_congested();
            device.wait_uncongested(is_congested, longest_ticks * limits.tick_ns).await;
        } else {
            cache.sim.sleep(pause_ticks * limits.tick_ns).await;
            // Doubled each time, from one tick on: short waits first, for a device that is fast.
            pause_ticks = (pause_ticks * 2).min(longest_ticks);
        }
    }
    let now = amounts(cache, device.number);
    // Below, not at: the flag stays on at the limit itself.
    if now.device_with_write_back < limits.dirty {
        exceeded(false);
    }
    if now.dirty > limits.background {
        device.start();
    }
}

/// Updates the estimates of a device (`bdi_update_bandwidth`), and says how fast a writer may go.
fn estimated_pace(cache: &PageCache, device: u32, now: &Amounts, ticks: &Range<u64>) -> Pace {
    let limits = &cache.limits;
    let state = &mut *cache.state.borrow_mut();
    let of = &mut state.devices[device as usize];
    of.is_exceeded = now.with_write_back > limits.dirty;
    let sample = Sample {
        now_ticks: ticks.end,
        since_ticks: ticks.start,
        written: of.written,
        dirtied: of.dirtied,
        dirty: Some(now.with_write_back),
        device_dirty: now.device_with_write_back,
    };
    of.bandwidth.update(limits, &sample);
    let unwritten = Unwritten { all: now.with_write_back, of_device: now.device_with_write_back };
    of.bandwidth.pace(limits, unwritten)
}

impl TaskState {
    /// After a pause too short to sleep for: what is owed, or saved, is carried over to the next look.
    fn charged(self, period: u64, now_ticks: u64, dirtied: u64) -> Self {
        if period > 0 {
            let paid_until = self.paid_until.map_or(now_ticks, |paid| paid + period);
            return Self { dirtied: 0, paid_until: Some(paid_until), ..self };
        }
        let grown = self.look_after.max(1) + dirtied;
        let look_after = if self.look_after <= dirtied { grown } else { self.look_after };
        Self { look_after, ..self }
    }
}

// Longer than a screen: the loop of `balance_dirty_pages`, whose steps share the task, the amounts and the
// time of one look, and are read beside the kernel's.
/// Lets a writer sleep until the device keeps up (Linux 3.2 and later).
async fn writer_pauses(mapping: &Mapping, process: Process, dirtied: u64) {
    let cache: &Rc<PageCache> = &mapping.cache;
    let device = mapping.device();
    let limits = cache.limits;
    let ticks = || cache.sim.now() / limits.tick_ns;
    let since_ticks = ticks();
    let set = |task: TaskState| {
        cache.state.borrow_mut().tasks.insert(process.pid, task);
    };
    let last = loop {
        let now_ticks = ticks();
        let now = amounts(cache, device.number);
        // Below the free run no writer is held; the task only sets when it looks again.
        if now.with_write_back <= limits.free_run() {
            let room = limits.dirty - now.with_write_back;
            // `dirty_poll_interval`: the square root of the room, so that writers look oftener as
            // it shrinks.
            let look_after = 1 << (room.max(1).ilog2() / 2);
            set(TaskState { dirtied: 0, look_after, paid_until: Some(now_ticks) });
            break now;
        }
        // The flusher must be at work before writers sleep for it.
        device.start();
        let pace = estimated_pace(cache, device.number, &now, &(since_ticks..now_ticks));
        let task = cache.state.borrow().tasks.get(&process.pid).copied().unwrap_or_default();
        let mut start_ticks = now_ticks;
        let mut pause = pace.longest.cast_signed();
        // At the limit the rate is zero, and the longest pause follows without arithmetic.
        if let Some(period) = (limits.hz * dirtied).checked_div(pace.rate) {
            pause = period.cast_signed();
            if let Some(paid_until) = task.paid_until {
                // What the task has slept or computed since it last paid counts as paid.
                pause -= now_ticks.cast_signed() - paid_until.cast_signed();
            }
            // Below `min_pause` sleeping costs more than it holds back.
            if pause < pace.shortest.cast_signed() {
                // More than a second to the task's credit is dropped, or it could dirty without
                // limit after a rest.
                set(if pause < -(limits.hz.cast_signed()) {
                    TaskState { dirtied: 0, paid_until: Some(now_ticks), ..task }
                } else {
                    task.charged(period, now_ticks, dirtied)
                });
                break now;
            }
            let longest = pace.longest.cast_signed();
            // The rest of an overlong pause is charged, at most once more, by moving the start
            // forward.
            if pause > longest {
                start_ticks += (pause - longest).min(longest).cast_unsigned();
                pause = longest;
            }
        }
        let owed = mapping.begin_throttling(dirtied, process);
        cache.sim.sleep(pause.cast_unsigned() * limits.tick_ns).await;
        drop(owed);
        let paid_until = Some(start_ticks + pause.cast_unsigned());
        set(TaskState { dirtied: 0, look_after: pace.pages, paid_until });
        // Without a rate the task waits until the device has cleaned, unless it has nothing to
        // clean.
        if pace.rate > 0 || now.device_with_write_back == 0 {
            break now;
        }
    };
    if last.dirty > limits.background {
        device.start();
    }
}
