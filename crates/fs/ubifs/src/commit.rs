//! Commits: the index, the LEB properties and the orphans go to the medium, and the journal begins anew.
//!
//! Source: `fs/ubifs/commit.c`. A part of the engine: uses the engine, states and formats.

use crate::commit_state::CommitState;
use crate::engine::Engine;
use crate::layout::HEADS;
use crate::master::flag;
use fs_api::Errno;
use std::rc::Rc;

impl Engine {
    /// Lets every writer wait until a commit was made (`ubifs_commit_required`).
    pub(crate) fn require_commit(&self) {
        let state = match self.commit_state.get() {
            CommitState::Resting | CommitState::Background => CommitState::Required,
            CommitState::RunningInBackground => CommitState::RunningRequired,
            other => other,
        };
        self.commit_state.set(state);
    }

    /// Lets the background thread make a commit (`ubifs_request_bg_commit`).
    pub(crate) fn request_background_commit(&self) {
        if self.commit_state.get() == CommitState::Resting {
            self.commit_state.set(CommitState::Background);
            self.thread_waiters.wake_all();
        }
    }

    /// Makes a commit, or waits for the one that is being made (`ubifs_run_commit`).
    pub(crate) async fn commit(&self) -> Result<(), Errno> {
        match self.commit_state.get() {
            CommitState::Broken => return Err(Errno::Erofs),
            CommitState::RunningInBackground | CommitState::RunningRequired => {
                self.commit_state.set(CommitState::RunningRequired);
                self.wait_for_commit().await;
                return self.commit_result();
            }
            // Set before the lock is requested: other tasks then wait for this commit instead of
            // making their own.
            CommitState::Resting => self.commit_state.set(CommitState::Required),
            CommitState::Background | CommitState::Required => {}
        }
        let held = self.commit_lock.write().await;
        // Another task may have committed while this one waited for the lock.
        match self.commit_state.get() {
            CommitState::Resting => return Ok(()),
            CommitState::Broken => return Err(Errno::Erofs),
            CommitState::RunningInBackground | CommitState::RunningRequired => {
                drop(held);
                self.wait_for_commit().await;
                return self.commit_result();
            }
            CommitState::Background | CommitState::Required => {}
        }
        self.commit_state.set(CommitState::RunningRequired);
        self.make_commit(held).await
    }

    /// The thread's commit: gives way to one that is required (`run_bg_commit`).
    pub(crate) async fn commit_in_background(&self) -> Result<(), Errno> {
        if self.commit_state.get() != CommitState::Background {
            return Ok(());
        }
        let held = self.commit_lock.write().await;
        let state = match self.commit_state.get() {
            CommitState::Required => CommitState::RunningRequired,
            CommitState::Background => CommitState::RunningInBackground,
            _ => return Ok(()),
        };
        self.commit_state.set(state);
        self.make_commit(held).await
    }

    fn commit_result(&self) -> Result<(), Errno> {
        if self.commit_state.get() == CommitState::Broken { Err(Errno::Erofs) } else { Ok(()) }
    }

    fn is_committing(&self) -> bool {
        matches!(
            self.commit_state.get(),
            CommitState::RunningInBackground | CommitState::RunningRequired
        )
    }

    pub(crate) async fn wait_for_commit(&self) {
        self.commit_waiters.wait_until(|| !self.is_committing()).await;
    }

    /// Waits until a commit ends that was asked of the thread; false if there is none, or no thread.
    pub(crate) async fn waited_for_background_commit(&self) -> bool {
        let is_asked = || self.commit_state.get() == CommitState::Background;
        if !self.options.has_thread || !(is_asked() || self.is_committing()) {
            return false;
        }
        self.commit_waiters.wait_until(|| !is_asked() && !self.is_committing()).await;
        true
    }

    async fn make_commit(&self, held: sim::WriteGuard<'_, ()>) -> Result<(), Errno> {
        let work = self.sim.work("commit");
        let done = self.write_commit(held).await;
        drop(work);
        let state = match done {
            Ok(()) => CommitState::Resting,
            Err(error) => {
                self.turn_read_only(error);
                CommitState::Broken
            }
        };
        self.commit_state.set(state);
        self.commit_waiters.wake_all();
        done
    }

    /// A commit would write nothing (`nothing_to_commit`).
    pub(crate) fn has_nothing_to_commit(&self) -> bool {
        if self.is_mounting.get() {
            return false;
        }
        let tnc = self.tnc.borrow();
        let is_root_dirty = tnc.root.child.is_some_and(|root| tnc.get(root).is_dirty);
        let lpt = self.lpt.borrow();
        let is_lpt_dirty = lpt
            .levels
            .last()
            .is_some_and(|level| level[0].as_ref().is_some_and(|root| root.is_dirty));
        !is_root_dirty && !is_lpt_dirty
    }

    // One function: what a power cut finds depends on the order of its steps (`do_commit`).
    async fn write_commit(&self, held: sim::WriteGuard<'_, ()>) -> Result<(), Errno> {
        debug_assert!(self.is_committing(), "the state says that a commit is made");
        self.must_be_writable()?;
        if self.has_nothing_to_commit() {
            return Ok(());
        }
        // Recovery needs what is void to be so on the medium.
        self.sync_heads().await?;
        // Inodes compare this number (`deleted_in`) under the commit's lock, to find whether the
        // journal still holds their deletion.
        self.commit_number.set(self.commit_number.get() + 1);
        self.start_collected().await?;
        // The new log names the open heads before the index is laid out: a cut from here on replays
        // both logs, old and new.
        let new_tail = self.start_log().await?;
        let index = self.start_index().await?;
        let lpt = self.start_lpt_commit().await?;
        let orphans = self.start_orphans();
        // The sums go to the master as they are now. Writers change them as soon as the lock is
        // released (`ubifs_get_lp_stats`).
        let sums = self.lpt.borrow().lebs.sums;
        let (index_bytes, root) = {
            let tnc = self.tnc.borrow();
            (tnc.index_bytes, tnc.root.place)
        };
        // From here writers go on. What they write belongs to the next commit, and the rest only
        // writes what was laid out above.
        drop(held);

        // Index, LEB properties and orphans first, the master last: until both masters are written,
        // the old commit is the valid one.
        self.end_index(index).await?;
        self.end_lpt_commit(lpt).await?;
        self.end_orphans(orphans).await?;
        {
            let (lpt, space) = (self.lpt.borrow(), self.space.borrow());
            let has_orphans = self.orphans.borrow().has_written();
            self.change_master(|master| {
                master.commit = self.commit_number.get();
                master.log_leb = new_tail;
                master.root = root;
                master.index_head = space.index_head;
                master.index_bytes = index_bytes;
                master.lpt_root = lpt.root;
                master.lpt_head = lpt.head;
                master.lpt_table = lpt.table_place;
                master.lpt_saved = lpt.saved_place;
                master.scan_leb = lpt.scan_leb;
                master.sums = sums;
                master.gc_leb = space.gc_leb;
                master.flags &= !flag::NO_ORPHANS;
                if !has_orphans {
                    master.flags |= flag::NO_ORPHANS;
                }
            });
        }
        let old_tail = {
            let _held = self.log_lock.lock().await;
            let old_tail = {
                let mut journal = self.journal.borrow_mut();
                debug_assert!(
                    journal.committing_bytes <= journal.bud_bytes,
                    "a part of the journal"
                );
                // Under the log's lock, so that no new bud is counted between the change of the
                // tail and the write of the master (`ubifs_log_end_commit`).
                journal.bud_bytes -= std::mem::take(&mut journal.committing_bytes);
                journal.min_log_bytes = self.layout.leb_bytes.into();
                std::mem::replace(&mut journal.log_tail, new_tail)
            };
            self.write_master().await?;
            old_tail
        };
        // Only after the master: the old log, old buds, collected index eraseblocks and void LPT
        // eraseblocks are what a cut before it needs.
        self.release_log(old_tail).await?;
        debug_assert!(
            self.orphans.borrow().has_written() || self.orphans.borrow().has_only_new(),
            "orphans of this commit are on the medium"
        );
        self.end_collected().await?;
        self.finish_lpt_commit().await?;
        self.count(|statistics| statistics.commits += 1);
        Ok(())
    }

    /// Starts what runs beside the callers (`ubifs_bg_thread`).
    pub(crate) fn start_thread(self: &Rc<Self>) {
        if self.is_read_only() || !self.options.has_thread {
            return;
        }
        let engine = self.clone();
        self.sim.spawn_named("ubifs background", async move {
            while !engine.is_ending.get() {
                if engine.commit_state.get() == CommitState::Background {
                    // A failure has made the mount read-only, and the thread has no caller that
                    // takes an error.
                    let _ = engine.commit_in_background().await;
                } else {
                    engine.thread_waiters.wait().await;
                }
            }
        });
        if let Some(interval_ns) = self.options.write_buffer_interval_ns {
            let engine = self.clone();
            self.sim.spawn_named("ubifs write-buffers", async move {
                engine.sync_old_buffers(interval_ns).await;
            });
        }
    }

    /// Writes buffers that have waited for their interval (the timers of `io.c`).
    async fn sync_old_buffers(&self, interval_ns: u64) {
        while !self.is_ending.get() {
            // The kernel has one timer per buffer. This loop stands for all of them and is late by at most
            // half an interval.
            self.sim.sleep(interval_ns / 2).await;
            for head in HEADS {
                let is_old = {
                    let buffer = self.head(head).buffer.borrow();
                    !buffer.bytes.is_empty() && self.sim.now() >= buffer.since_ns + interval_ns
                };
                if is_old && !self.is_ending.get() && !self.is_broken.get() {
                    let _work = self.sim.work("write-back of a buffer");
                    let _ = self.sync_head(head).await;
                }
            }
        }
    }
}
