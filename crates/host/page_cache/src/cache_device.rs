//! A device as write-back sees it (`struct backing_dev_info`).

use crate::bandwidth::Bandwidth;
use crate::{PageCache, Process};
use sim::{Sim, Timer, WaitQueue};
use std::cell::Cell;
use std::collections::VecDeque;
use std::pin::pin;
use std::task::Poll;

/// Files with dirty pages, by what is to become of them.
#[derive(Default)]
pub(crate) struct Lists {
    /// The one dirty for longest first (`b_dirty`).
    pub(crate) dirty: VecDeque<u32>,
    /// To be written in this round (`b_io`).
    pub(crate) io: VecDeque<u32>,
    /// To be written in the next round (`b_more_io`).
    pub(crate) more: VecDeque<u32>,
}

impl Lists {
    /// The file added last is the only one.
    pub(crate) fn is_idle_otherwise(&self) -> bool {
        self.dirty.len() == 1 && self.io.is_empty() && self.more.is_empty()
    }

    /// All files that are on a list.
    pub(crate) fn files(&self) -> impl Iterator<Item = &u32> {
        self.io.iter().chain(&self.more).chain(&self.dirty)
    }

    /// Takes a file off whichever list it is on.
    pub(crate) fn remove(&mut self, file: u32) {
        for list in [&mut self.io, &mut self.more, &mut self.dirty] {
            if let Some(place) = list.iter().position(|other| *other == file) {
                list.remove(place);
                return;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        // All three, so that the interval is not stopped while files wait for their next round.
        self.dirty.is_empty() && self.io.is_empty() && self.more.is_empty()
    }
}

/// Counts of a device.
#[derive(Default)]
pub(crate) struct DeviceState {
    pub(crate) dirty: u64,
    pub(crate) write_back: u64,
    pub(crate) dirtied: u64,
    pub(crate) written: u64,
    pub(crate) lists: Lists,
    pub(crate) bandwidth: Bandwidth,
    /// Writers of kernels before 3.2 look at the limits more often.
    pub(crate) is_exceeded: bool,
}

/// The flusher of a device, and those who wait for it.
pub(crate) struct CacheDevice {
    pub(crate) sim: Sim,
    pub(crate) number: u32,
    /// The process under whose number the flusher writes.
    pub(crate) process: Process,
    pub(crate) timer: Timer,
    /// The flusher is at work, or was asked to be.
    pub(crate) is_active: Cell<bool>,
    uncongested: WaitQueue,
    was_congested: Cell<bool>,
}

impl CacheDevice {
    pub(crate) fn new(sim: &Sim, number: u32, process: Process) -> Self {
        Self {
            sim: sim.clone(),
            number,
            process,
            timer: Timer::new(sim),
            is_active: Cell::new(false),
            uncongested: WaitQueue::new(sim),
            was_congested: Cell::new(false),
        }
    }

    /// Starts the flusher at once, unless it is at work (`bdi_start_background_writeback`).
    pub(crate) fn start(&self) {
        if !self.is_active.replace(true) {
            self.timer.arm(self.sim.now());
        }
    }

    /// Lets the flusher look for old pages when its interval has passed.
    pub(crate) fn wake_later(&self, cache: &PageCache) {
        let interval_ns = cache.limits.interval_ns;
        if self.is_active.get() || interval_ns == 0 {
            return;
        }
        let now_ns = self.sim.now();
        // From 2.6.36 on a flusher sleeps while all is clean and is woken an interval after the
        // first dirty page (`bdi_wakeup_thread_delayed`); before, `kupdate` ran by a clock of its
        // own.
        let at_ns = if cache.limits.sleeps_when_clean {
            now_ns + interval_ns
        } else {
            (now_ns / interval_ns + 1) * interval_ns
        };
        self.timer.arm(at_ns);
    }

    /// Waits until the queue is no longer congested, at most `most_ns` (`congestion_wait`).
    pub(crate) async fn wait_uncongested(&self, is_congested: bool, most_ns: u64) {
        // Remembered, so that the end of a write wakes writers only if there was congestion.
        self.was_congested.set(self.was_congested.get() || is_congested);
        let mut uncongested = pin!(self.uncongested.wait());
        let mut sleep = pin!(self.sim.sleep(most_ns));
        std::future::poll_fn(|context| {
            let is_over = uncongested.as_mut().poll(context).is_ready();
            if sleep.as_mut().poll(context).is_ready() || is_over {
                return Poll::Ready(());
            }
            Poll::Pending
        })
        .await;
    }

    /// A write has ended: wakes those who wait for the end of congestion, if this was it.
    pub(crate) fn wake_uncongested(&self, is_congested: impl FnOnce() -> bool) {
        // Only the end of congestion wakes, not each request, so writers come in groups
        // (`clear_bdi_congested`).
        if self.was_congested.get() && !is_congested() {
            self.was_congested.set(false);
            self.uncongested.wake_all();
        }
    }
}
