//! The collector's thread, and the periodic write-back.
//!
//! Source: `fs/jffs2/background.c`, `nodemgmt.c` (`jffs2_thread_should_wake`), `super.c`.
//!
//! May use: `engine`, `finding`, `space`, `state`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::space::Collecting;
use crate::state::List;
use fs_api::{Errno, Place};
use std::rc::Rc;

/// Failed passes in a row after which the thread gives up.
const FAILURES_MAX: u32 = 1000;

impl Engine {
    /// Whether the thread has something to do.
    pub(crate) fn has_work(&self) -> bool {
        let state = self.state.borrow();
        if !state.list(List::EraseComplete).is_empty() || !state.list(List::ErasePending).is_empty()
        {
            return true;
        }
        // Checks run in the background after each mount: nothing can be collected before they end.
        if state.sums.unchecked > 0 {
            return true;
        }
        let is_short = state.available_blocks() < state.reserve.collect_trigger
            && state.dirty_bytes() > state.reserve.dirty_bytes_min;
        let very_dirty = state.list(List::VeryDirty).len() as u32;
        is_short || very_dirty >= state.reserve.very_dirty_trigger
    }

    /// Starts what runs beside the callers.
    pub(crate) fn start(self: &Rc<Self>) {
        if self.options.is_read_only {
            return;
        }
        if self.options.has_thread {
            let engine = self.clone();
            // A process of its own (`jffs2_start_garbage_collect_thread`), which a scheduler under
            // `block2mtd` sees.
            self.sim.spawn_as(self.sim.kernel_thread(), "jffs2 collector", async move {
                engine.run_collector().await;
            });
        }
        if self.options.has_write_back {
            let engine = self.clone();
            self.sim.spawn_as(self.sim.kernel_thread(), "jffs2 write-back", async move {
                engine.run_write_back().await;
            });
        }
    }

    /// The thread (`jffs2_garbage_collect_thread`).
    ///
    /// It is woken by a signal. One that comes while it works, from a block that its own pass erased
    /// or gave up for erasing, is found when the pass is over: neither sleep nor pause happens then,
    /// and one more pass is made even if nothing asks for it. Signals that others send while it
    /// pauses are left out: it has the lowest share of the processor, which the sender is using.
    async fn run_collector(&self) {
        let mut failures = 0;
        let mut is_signalled = false;
        while !self.is_ending.get() {
            if !is_signalled && !self.has_work() {
                self.thread_waiters.wait().await;
                is_signalled = self.has_work();
                continue;
            }
            if !is_signalled {
                // Without the pause the thread would starve everybody else after a mount.
                let pause_ns = self.options.profile.collector_pause_ns;
                let end_ns = self.state.borrow().clock.end_of_pause_ns(pause_ns);
                self.sim.sleep_until(end_ns).await;
            }
            if self.is_ending.get() {
                return;
            }
            let (before_ns, erased) = (self.sim.now(), self.statistics.get().blocks_erased);
            match self.collect_pass().await {
                // `jffs2_garbage_collect_thread` ends for good on ENOSPC.
                Err(Collecting::Failed(Errno::Enospc)) => {
                    self.find(
                        Code::EndedThread,
                        Place::Whole,
                        "the collector's thread found no space and ended",
                    );
                    return;
                }
                Err(Collecting::Again) => self.erase_waiters.wait().await,
                Err(Collecting::Failed(_)) => failures += 1,
                Ok(()) => failures = 0,
            }
            is_signalled = self.statistics.get().blocks_erased != erased
                || self.listed(List::ErasePending) > 0;
            if failures == FAILURES_MAX {
                // The kernel would try for ever; here that would be a run without end.
                self.find(
                    Code::EndedThread,
                    Place::Whole,
                    "the collector's thread met too many errors in a row and ended",
                );
                return;
            }
            if self.sim.now() == before_ns {
                self.sim.yield_now().await;
            }
        }
    }

    async fn run_write_back(&self) {
        let interval_ns = self.options.profile.write_back_interval_ns;
        while !self.is_ending.get() {
            self.sim.sleep(interval_ns).await;
            if self.is_ending.get() {
                return;
            }
            let held = self.allocation.lock().await;
            let _work = self.sim.work("write-back");
            // A failure is in the findings; the periodic flush has no caller that takes an error.
            let _ = self.flush_padded().await;
            if self.options.profile.write_super_erases {
                self.erase_all_pending().await;
            }
            drop(held);
        }
    }
}
