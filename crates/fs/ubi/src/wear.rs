//! Blocks given out and taken back, erased by the background thread or by the task that needs one.
//!
//! Source: `drivers/mtd/ubi/wl.c` of Linux 6.1. A part of the device: uses it, its states and `io.rs`.

use crate::device::Ubi;
use crate::error::UbiError;
use crate::finding::Code;
use crate::headers::ERASE_COUNTER_MAX;
use crate::numbers::{LebAddress, LebNumber, PebNumber, VolumeNumber};
use crate::wear_state::{DataType, Work};
use fs_api::Place;
use std::rc::Rc;

/// Failed works in a row after which the thread gives up (`WL_MAX_FAILURES`).
const FAILURES_MAX: u32 = 32;

/// Works that failed one after the other.
#[derive(Default)]
struct Failures(u32);

impl Failures {
    /// Counts the end of a work; true if the thread gives up.
    fn count(&mut self, has_failed: bool) -> bool {
        if !has_failed {
            self.0 = 0;
            return false;
        }
        // Compared before it grows (`failures++ > WL_MAX_FAILURES` in `ubi_thread` of `wl.c`): the
        // 34th failure in a row is the last.
        let before = self.0;
        self.0 += 1;
        before > FAILURES_MAX
    }
}

impl Ubi {
    /// Takes a free block; erases one itself if none is free (`ubi_wl_get_peb`).
    pub(crate) async fn get_block(&self, data_type: DataType) -> Result<PebNumber, UbiError> {
        let data_type =
            if self.options.profile.has_data_types { data_type } else { DataType::Unknown };
        loop {
            let taken = self.wear.borrow_mut().take_free(data_type);
            if let Some(peb) = taken {
                return Ok(peb);
            }
            if self.is_read_only() {
                return Err(UbiError::ReadOnly);
            }
            if self.wear.borrow().works.is_empty() {
                // The thread may be at the last work, which will give a block.
                // To get the lock for writing is to wait for all works under way.
                drop(self.work_lock.write().await);
                if self.wear.borrow().free.len() == 0 && self.wear.borrow().works.is_empty() {
                    return Err(UbiError::NoSpace);
                }
                continue;
            }
            self.io.count(|counts| counts.foreground_works += 1);
            // The caller does a work of the thread's, any work, until one yields a block
            // (`produce_free_peb`).
            self.do_work().await?;
        }
    }

    /// Takes a block back, to be erased (`ubi_wl_put_peb`). `leb` is the logical block that it
    /// held.
    pub(crate) async fn put_block(
        &self,
        leb: LebAddress,
        peb: PebNumber,
        tortures: bool,
    ) -> Result<(), UbiError> {
        while self.wear.borrow().move_from == Some(peb) {
            // The mover decides what becomes of it.
            drop(self.move_lock.lock().await);
        }
        debug_assert_ne!(
            self.mapping(leb),
            Some(peb),
            "LEB {leb}: no reader finds the block any more"
        );
        self.schedule_erase(leb, peb, tortures)?;
        // Erases are left to the thread. Only when it falls behind do writers help.
        self.thread_waiters.wake_one();
        // A thread that has slept goes before the one that woke it.
        self.io.sim.yield_now().await;
        Ok(())
    }

    fn schedule_erase(
        &self,
        leb: LebAddress,
        peb: PebNumber,
        tortures: bool,
    ) -> Result<(), UbiError> {
        let mut wear = self.wear.borrow_mut();
        // The target of a move that is under way: the mover erases it when it ends (`move_to_put`).
        if wear.move_to == Some(peb) {
            wear.is_target_put = true;
            return Ok(());
        }
        let Some(is_suspicious) = wear.release(peb) else {
            self.io.become_read_only(&format!("block {peb} is given back but not in use"));
            return Err(UbiError::ReadOnly);
        };
        // A block whose data could not be read is tested before it is used again.
        let tortures = tortures || is_suspicious;
        wear.works.push_back(Work::Erase { peb, leb: Some(leb), tortures });
        Ok(())
    }

    /// Has a block moved to another one soon (`ubi_wl_scrub_peb`).
    pub(crate) async fn scrub_block(&self, peb: PebNumber) {
        if self.is_read_only() {
            return;
        }
        while self.wear.borrow().move_to == Some(peb) {
            // It was moved this moment and is about to be among the used ones.
            drop(self.move_lock.lock().await);
        }
        let mut wear = self.wear.borrow_mut();
        if !wear.is_scrubbing(peb) && wear.start_scrubbing(peb) && wear.schedule_move() {
            self.thread_waiters.wake_one();
        }
    }

    /// Does the first of the works (`do_work`).
    pub(crate) async fn do_work(&self) -> Result<(), UbiError> {
        // Taken before the work leaves the list, so that a flush that finds the list empty still
        // waits for it.
        let _shared = self.work_lock.read().await;
        let work = self.wear.borrow_mut().take_work(None);
        match work {
            Some(work) => self.carry_out(work).await,
            None => Ok(()),
        }
    }

    async fn carry_out(&self, work: Work) -> Result<(), UbiError> {
        let _work = self.io.sim.work(match work {
            Work::Erase { .. } => "erase of a block",
            Work::Move => "move of a block",
        });
        match work {
            Work::Erase { peb, tortures, .. } => self.erase_block(peb, tortures).await,
            Work::Move => self.move_block().await,
        }
    }

    /// Erases what a volume, or one of its blocks, left behind (`ubi_wl_flush`).
    pub(crate) async fn flush_works(
        &self,
        volume: VolumeNumber,
        leb: Option<LebNumber>,
    ) -> Result<(), UbiError> {
        loop {
            let _shared = self.work_lock.read().await;
            let work = self.wear.borrow_mut().take_work(Some((volume, leb)));
            let Some(work) = work else { break };
            self.carry_out(work).await?;
        }
        // Works that others began are ended, too.
        drop(self.work_lock.write().await);
        Ok(())
    }

    /// Erases a block and makes it free, or marks it bad (`erase_worker`).
    pub(crate) async fn erase_block(&self, peb: PebNumber, tortures: bool) -> Result<(), UbiError> {
        let error = match self.sync_erase(peb, tortures).await {
            Ok(()) => {
                let mut wear = self.wear.borrow_mut();
                wear.add_free(peb);
                // Time is counted in erases: ten of them, and a block that was taken may be moved
                // (`serve_prot_queue`).
                wear.serve_protection();
                wear.schedule_move();
                return Ok(());
            }
            Err(error) => error,
        };
        if !error.is_io() {
            self.io.become_read_only(&format!("block {peb} could not be erased: {error}"));
            return Err(error);
        }
        // Only an error of the chip costs the block; any other one is no fault of its cells.
        self.give_up_block(peb).await
    }

    /// Marks a block bad; another one from the reserve takes its place.
    async fn give_up_block(&self, peb: PebNumber) -> Result<(), UbiError> {
        {
            let mut volumes = self.volumes.borrow_mut();
            // The replacement is secured before the block is marked: with none left the device
            // stops writing while every volume still has its blocks.
            if volumes.bad_reserve == 0 {
                if volumes.available_pebs == 0 {
                    drop(volumes);
                    let reason = format!("block {peb} is bad and no block is left to replace it");
                    self.io.stop_writing(Code::NoReserve, &reason);
                    return Err(UbiError::ReadOnly);
                }
                volumes.reserve(1);
                volumes.bad_reserve = 1;
            }
        }
        self.io.mark_bad(peb).await?;
        let mut volumes = self.volumes.borrow_mut();
        volumes.bad_reserve = volumes.bad_reserve.saturating_sub(1);
        volumes.reserved_pebs -= 1;
        volumes.bad_pebs += 1;
        volumes.good_pebs -= 1;
        volumes.assert_good_pebs();
        volumes.calculate_reserve();
        let left = volumes.bad_reserve;
        drop(volumes);
        if left == 0 {
            self.io.find(
                Code::UsedReserve,
                Place::Whole,
                "the last block of the reserve for bad ones was used",
            );
        }
        Ok(())
    }

    /// Erases a block and writes its counter (`sync_erase`).
    pub(crate) async fn sync_erase(&self, peb: PebNumber, tortures: bool) -> Result<(), UbiError> {
        let before = self.wear.borrow().counter(peb);
        let erase_counter = before + self.io.sync_erase(peb, tortures).await?;
        if erase_counter > ERASE_COUNTER_MAX {
            let reason = "the erase counter is at its end".to_owned();
            return Err(UbiError::Corrupt { peb, reason });
        }
        // Right after the erase: a cut between the two costs the counter, and the next attach
        // takes the mean.
        debug_assert!(erase_counter > before, "an erase wears block {peb}");
        self.io.write_counter(peb, erase_counter).await?;
        self.wear.borrow_mut().set_counter(peb, erase_counter);
        Ok(())
    }

    /// Starts the background thread (`ubi_bgt0d`).
    pub(crate) async fn start_thread(self: &Rc<Self>) {
        if self.options.has_thread && !self.is_read_only() {
            let ubi = self.clone();
            self.io.sim.spawn_named("ubi thread", async move { ubi.run_thread().await });
            self.io.sim.yield_now().await;
        }
    }

    async fn run_thread(&self) {
        let mut failures = Failures::default();
        while !self.is_ending.get() {
            if self.wear.borrow().works.is_empty() || self.is_read_only() {
                self.thread_waiters.wait().await;
                continue;
            }
            // One work, one look at the state: the thread never holds a lock between works.
            let is_move = self.wear.borrow().works.front() == Some(&Work::Move);
            let has_failed = self.do_work().await.is_err();
            if failures.count(has_failed) {
                self.io.become_read_only("the thread met too many errors in a row");
            }
            if is_move {
                // The task that holds the logical block must end before the next attempt.
                self.io.sim.yield_now().await;
            }
        }
    }

    /// Does all erases and moves that are left for the background: for tests, and for tools that pass a chip
    /// on.
    ///
    /// # Errors
    /// [`UbiError::Io`], [`UbiError::Corrupt`] or [`UbiError::ReadOnly`] of an erase or a move.
    pub async fn finish_works(&self) -> Result<(), UbiError> {
        while !self.wear.borrow().works.is_empty() && !self.is_read_only() {
            self.do_work().await?;
        }
        drop(self.work_lock.write().await);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_gives_up_at_the_34th_failure_in_a_row() {
        let mut failures = Failures::default();
        assert!((0..20).all(|_| !failures.count(true)));
        assert!(!failures.count(false));
        let failed = (1..1000).find(|_| failures.count(true));
        assert_eq!(failed, Some(34));
    }
}
