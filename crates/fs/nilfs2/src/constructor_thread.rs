//! When logs are made: the constructor's thread, its timer, its watermark, and who waits for it.
//!
//! Source: `nilfs_segctor_thread`, `nilfs_segctor_sync`, `nilfs_construct_dsync_segment` and
//! `nilfs_transaction_commit` in `fs/nilfs2/segment.c`.
//!
//! May use: `engine`, `file`, `segment_writer`.

use crate::engine::Engine;
use crate::file::File;
use crate::segment_writer::Mode;
use fs_api::Errno;
use std::rc::Rc;

impl Engine {
    /// Starts the thread and its timer.
    pub(crate) fn start_constructor(self: &Rc<Self>) {
        let engine = self.clone();
        self.sim.spawn(async move {
            loop {
                engine.constructor.timer.fired().await;
                if engine.constructor.is_ended.get() {
                    return;
                }
                engine.constructor.thread.wake_all();
            }
        });
        let engine = self.clone();
        // A thread of its own: the scheduler sees logs as its, and not as those of the processes that
        // wrote (`nilfs_segctor_start_thread`).
        self.sim.spawn_as(self.sim.kernel_thread(), "segctord", async move {
            engine.constructor_thread().await;
        });
    }

    async fn constructor_thread(&self) {
        let state = &self.constructor;
        loop {
            state.thread.wait_until(|| self.next_mode().is_some() || state.is_ended.get()).await;
            if state.is_ended.get() {
                return;
            }
            self.check_superblock_age();
            let Some(mode) = self.next_mode() else { continue };
            {
                let _alone = self.transactions.write().await;
                // Whoever waits for a checkpoint learns the result; others see a read-only mount.
                let _ = self.construct(mode).await;
                // A logical segment is open: a checkpoint has to close it soon, or a cut would lose
                // the logs in it.
                if state.is_unclosed.get() {
                    self.start_timer();
                }
            }
            // What cannot be deleted has made the mount read-only.
            let _ = self.evict().await;
        }
    }

    /// What is due now.
    fn next_mode(&self) -> Option<Mode> {
        let state = &self.constructor;
        let is_due = state.due_ns.get().is_some_and(|due| self.sim.now() >= due);
        let timer_counts = is_due && self.options.has_timer;
        if timer_counts || state.requested.get() != state.done.get() {
            return Some(Mode::Checkpoint);
        }
        state
            .flush_is_requested
            .get()
            .then(|| if state.is_unclosed.get() { Mode::Checkpoint } else { Mode::Flush })
    }

    /// A superblock that is long out of date is written with the next checkpoint.
    pub(crate) fn check_superblock_age(&self) {
        let state = &self.constructor;
        if state.is_superblock_dirty.get() && self.superblock_is_old() {
            state.needs_superblock.set(true);
        }
    }

    fn start_timer(&self) {
        let state = &self.constructor;
        if state.due_ns.get().is_none() {
            let due_ns = self.sim.now() + state.interval_ns;
            state.due_ns.set(Some(due_ns));
            if self.options.has_timer {
                state.timer.arm(due_ns);
            }
        }
    }

    /// Makes logs, and the superblock if it is due. The caller holds the transaction lock for
    /// writing.
    pub(crate) async fn construct(&self, mode: Mode) -> Result<(), Errno> {
        let state = &self.constructor;
        // Requests up to here are served by this run. A later one needs a run of its own, since its
        // changes may come after the collection.
        state.accepted.set(state.requested.get());
        debug_assert!(
            state.done.get() <= state.accepted.get(),
            "no request is served before it is made"
        );
        state.timer.cancel();
        // A superblock can only name a log with a super root.
        let mode = if state.needs_superblock.get() { Mode::Checkpoint } else { mode };
        let is_checkpoint = mode == Mode::Checkpoint;
        let mut result = self.may_write();
        if result.is_ok() && !self.is_clean() {
            result = self.build_logs(mode).await;
            if result.is_ok() {
                state.dirty_blocks.set(0);
                // The superblock follows the logs, with a flush in between: it must never name a
                // log that is not there.
                if state.made_checkpoint.get() && state.needs_superblock.get() {
                    result = self.write_log_pointer().await;
                }
            } else {
                // What is half done in memory must not reach the medium.
                self.is_read_only.set(true);
            }
        }
        // After a failure the waiters are released, too: they get the error instead of waiting for
        // ever.
        if is_checkpoint || result.is_err() {
            state.due_ns.set(None);
            state.flush_is_requested.set(false);
            state.result.set(result);
            state.done.set(state.accepted.get());
            state.waiters.wake_all();
        } else {
            state.flush_is_requested.set(false);
            if let Some(due_ns) = state.due_ns.get()
                && self.options.has_timer
            {
                state.timer.arm(due_ns.max(self.sim.now()));
            }
        }
        result
    }

    /// Waits for a checkpoint that shows all that was done before (`nilfs_segctor_sync`).
    pub(crate) async fn make_checkpoint(&self) -> Result<(), Errno> {
        self.may_write()?;
        let state = &self.constructor;
        let mine = state.requested.get() + 1;
        // A ticket per caller: the wait ends when a run has served this number, whoever asked for
        // that run.
        state.requested.set(mine);
        state.thread.wake_all();
        state.waiters.wait_until(|| state.done.get() >= mine).await;
        state.result.get()
    }

    /// Makes data of one file durable without a checkpoint, if nothing else changed.
    pub(crate) async fn sync_data(&self, file: &Rc<File>) -> Result<(), Errno> {
        self.may_write()?;
        let state = &self.constructor;
        {
            let _alone = self.transactions.write().await;
            // `order=strict` demands that no data reaches the medium without the checkpoint that shows
            // all changes before it.
            let needs_checkpoint = file.needs_checkpoint.get()
                || self.options.has_strict_order
                || state.is_unclosed.get()
                || state.needs_superblock.get();
            if !needs_checkpoint {
                if !file.is_queued.get() || file.dirty_data().is_empty() {
                    return Ok(());
                }
                // By the caller, not the thread: `nilfs_construct_dsync_segment` holds the
                // transaction lock itself.
                let result = self.build_logs(Mode::DataSync(file.number)).await;
                state.is_device_flushed.set(false);
                return result;
            }
        }
        self.make_checkpoint().await
    }

    /// A change is done: starts the timer, and the thread if much is dirty.
    pub(crate) fn committed(&self) {
        self.start_timer();
        let state = &self.constructor;
        // Data is written early so that memory is freed. A checkpoint is not needed for that.
        if state.dirty_blocks.get() > state.watermark_blocks && !state.flush_is_requested.get() {
            state.flush_is_requested.set(true);
            state.thread.wake_all();
        }
    }

    /// A file has so many more dirty blocks (`nilfs_set_file_dirty`).
    pub(crate) fn file_is_dirty(&self, file: &Rc<File>, blocks: u64) {
        let state = &self.constructor;
        state.dirty_blocks.set(state.dirty_blocks.get() + blocks);
        if !file.is_queued.replace(true) {
            self.dirty_files.borrow_mut().push(file.clone());
        }
    }

    /// Makes what was written durable (`nilfs_flush_device`).
    pub(crate) async fn flush_device(&self) -> Result<(), Errno> {
        let flushes = self.options.profile.flushes && self.options.has_barrier;
        // Set before the flush is sent, as `nilfs_flush_device` does: writes that follow clear it
        // again.
        if !flushes || self.constructor.is_device_flushed.replace(true) {
            return Ok(());
        }
        self.medium.flush().await.map_err(|error| self.failed(error))
    }

    /// Ends the thread after a last checkpoint.
    pub(crate) async fn stop_constructor(&self) -> Result<(), Errno> {
        let result = {
            let _alone = self.transactions.write().await;
            self.construct(Mode::Checkpoint).await
        };
        self.constructor.is_ended.set(true);
        self.constructor.thread.wake_all();
        // Lets the timer's task see that it has to end.
        self.constructor.timer.arm(self.sim.now());
        result
    }
}
