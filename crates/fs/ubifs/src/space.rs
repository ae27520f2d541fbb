//! Space: it is set aside before anything becomes dirty, and made where there is too little.
//!
//! Source: `fs/ubifs/budget.c`, `super.c` (`ubifs_statfs`). A part of the engine: uses the engine, states
//! and formats.

use crate::budget::{Budget, Request};
use crate::engine::Engine;
use crate::journal::Obstacle;
use crate::layout::HEADS;
use crate::lprops::Change;
use crate::nodes::BLOCK_BYTES;
use crate::superblock::MIN_INDEX_LEBS;
use fs_api::{Caller, Errno, SpaceUse};

/// Rounds of write-back, collection and commit before space is given up (`MAX_MKSPC_RETRIES`).
const ROUNDS: u32 = 3;
/// Pages that are written back to make promises come true (`NR_TO_WRITE`).
const PAGES_TO_WRITE: u64 = 16;

impl Engine {
    fn may_use_reserve(&self, caller: &Caller) -> bool {
        // `can_use_rp`: the kernel tests `CAP_SYS_RESOURCE` where the caller is compared with the
        // superuser here. Group 0 stands for no group.
        caller.uid == self.superblock.reserved_uid
            || caller.uid == 0
            || self.superblock.reserved_gid != 0 && caller.gid == self.superblock.reserved_gid
    }

    /// Bytes that can be had when so many eraseblocks are kept for the index (`ubifs_calc_available`).
    fn available_bytes(&self, min_index_lebs: u32) -> u64 {
        let sums = self.lpt.borrow().lebs.sums;
        let leb_bytes = i64::from(self.layout.leb_bytes);
        let mut available = i64::from(self.layout.main_lebs) * leb_bytes - sums.used.cast_signed();
        // One for the collector, those of two heads, one for deletions, which have no budget.
        // Deletions bypass budgets, so a full file system can always delete. Kernels since 6.3 keep
        // an eraseblock for the collector's head as well (`subtract_lebs` of
        // `ubifs_calc_available`).
        let kept = i64::from(min_index_lebs) + 1 + (i64::from(HEADS.len() as u32) - 1) + 1;
        available -= kept * leb_bytes + (sums.dead + sums.dark).cast_signed();
        // The sums of dark space leave the index out. Index eraseblocks beyond the reserve will
        // become data eraseblocks, each with its dark space.
        let surplus = i64::from(sums.index_lebs) - i64::from(min_index_lebs);
        if surplus > 0 {
            available -= surplus * i64::from(self.layout.dark_watermark);
        }
        available.max(0) as u64
    }

    /// Whether all that is promised fits (`do_budget_space`).
    fn promises_fit(&self, caller: Option<&Caller>) -> bool {
        let mut space = self.space.borrow_mut();
        let min_index_lebs = space.index_lebs_for(&self.layout);
        let (available_lebs, index_lebs) = {
            let lpt = self.lpt.borrow();
            (lpt.lebs.available_lebs(lpt.waiting.len() as u32), lpt.lebs.sums.index_lebs)
        };
        // The index can only grow into whole eraseblocks; free bytes within data eraseblocks do not
        // help it.
        if i64::from(min_index_lebs.saturating_sub(index_lebs)) > available_lebs {
            return false;
        }
        let outstanding = space.promised.data + space.promised.dirty;
        let Some(left) = self.available_bytes(min_index_lebs).checked_sub(outstanding) else {
            return false;
        };
        let may_use_all = caller.is_none_or(|caller| self.may_use_reserve(caller));
        // Not less, but less or equal: `do_budget_space` refuses when exactly the reserve is left.
        if left <= self.superblock.reserved_bytes && !may_use_all {
            return false;
        }
        // `find_free` and `find_dirty` compare with this value, so it changes only with an accepted
        // promise.
        space.min_index_lebs = min_index_lebs;
        true
    }

    /// Sets space aside, making some if need be (`ubifs_budget_space`).
    pub(crate) async fn budget(&self, caller: &Caller, request: &Request) -> Result<Budget, Errno> {
        self.must_be_writable()?;
        let budget = Budget::of(request, &self.layout);
        // An operation without nodes of its own never fails for space, even on a full file system
        // (`ubifs_budget_space`).
        if budget.data == 0 && budget.dirty == 0 {
            return Ok(budget);
        }
        let mut is_last = false;
        loop {
            {
                let space = self.space.borrow();
                // Without this flag every failing write would collect and commit again before it
                // fails (`bi.nospace`).
                if space.is_full && (space.is_full_for_root || !self.may_use_reserve(caller)) {
                    return Err(Errno::Enospc);
                }
            }
            // The promise comes before the test, so that tasks which make space meanwhile see it.
            // It is taken back before this task makes space itself, as the kernel does.
            self.promise(budget);
            if self.promises_fit(Some(caller)) {
                return Ok(budget);
            }
            self.take_back(budget);
            match Box::pin(self.make_space()).await {
                Ok(()) => {}
                // One more attempt: another task may have freed space between the failure and now.
                Err(Errno::Enospc) if !is_last => is_last = true,
                Err(Errno::Enospc) => {
                    let mut space = self.space.borrow_mut();
                    space.is_full = true;
                    // A caller that may not use the reserve has not tried it, unless there
                    // is none.
                    if self.may_use_reserve(caller) || self.superblock.reserved_bytes == 0 {
                        space.is_full_for_root = true;
                    }
                    return Err(Errno::Enospc);
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn promise(&self, budget: Budget) {
        let promised = &mut self.space.borrow_mut().promised;
        promised.index += budget.index;
        promised.data += budget.data;
        promised.dirty += budget.dirty;
    }

    fn take_back(&self, budget: Budget) {
        let promised = &mut self.space.borrow_mut().promised;
        debug_assert!(
            promised.index >= budget.index
                && promised.data >= budget.data
                && promised.dirty >= budget.dirty,
            "{budget:?} is part of what is promised, {promised:?}"
        );
        promised.index = promised.index.saturating_sub(budget.index);
        promised.data = promised.data.saturating_sub(budget.data);
        promised.dirty = promised.dirty.saturating_sub(budget.dirty);
    }

    /// What was set aside is written, or will not be: only the index is still to be committed
    /// (`ubifs_release_budget`).
    pub(crate) fn release(&self, budget: Budget) {
        if budget.data == 0 && budget.dirty == 0 {
            return;
        }
        self.take_back(budget);
        let mut space = self.space.borrow_mut();
        (space.is_full, space.is_full_for_root) = (false, false);
        // The new branch is in memory now. It is part of the growth until a commit counts the index
        // anew.
        space.uncommitted_index_bytes += budget.index;
        space.min_index_lebs = space.index_lebs_for(&self.layout);
    }

    /// Something was removed: a task that found no space may try again.
    pub(crate) fn forget_fullness(&self) {
        let mut space = self.space.borrow_mut();
        (space.is_full, space.is_full_for_root) = (false, false);
    }

    fn liability(&self) -> u64 {
        let promised = self.space.borrow().promised;
        promised.index + promised.data + promised.dirty
    }

    /// Writes back, collects, commits, until one of them helps (`make_free_space`).
    async fn make_space(&self) -> Result<(), Errno> {
        // Four rounds, not three: the kernel tests `retries++ < MAX_MKSPC_RETRIES` after the round.
        for _ in 0..=ROUNDS {
            let before = self.liability();
            // Promises assume incompressible data and a split of the index per node. Written pages
            // need less, so write-back alone often helps (`shrink_liability`).
            self.write_back(PAGES_TO_WRITE).await;
            if self.liability() < before {
                return Ok(());
            }
            let collected = {
                // `run_gc` holds `commit_sem` for reading: a commit must not start between the
                // choice of a victim and the last moved node.
                let _held = self.commit_lock.read().await;
                Box::pin(self.collect(true)).await
            };
            match collected {
                Ok(leb) => {
                    // `run_gc` only makes the space count as free. It gives the eraseblock back
                    // instead of writing to it.
                    return self.change_properties(leb, Change::RETURN).await;
                }
                // Both cases lead to the commit below: it frees collected eraseblocks of the index
                // and makes dirty space out of replaced index nodes.
                Err(Obstacle::CommitFirst | Obstacle::Failed(Errno::Enospc)) => {}
                Err(Obstacle::Failed(error)) => return Err(error),
            }
            Box::pin(self.commit()).await?;
        }
        Err(Errno::Enospc)
    }

    /// Dirty pages and inodes go to the medium, as far as the layer above can be asked.
    async fn write_back(&self, pages: u64) {
        let cached = self.cached_pages.borrow().clone();
        if let Some(cached) = cached.and_then(|cached| cached.upgrade()) {
            cached.write_back(pages).await;
        }
        let dirty: Vec<_> = {
            let inodes = self.inodes.borrow();
            // A dirty inode holds a promise of its own, and its write-back belongs to
            // `writeback_inodes_sb_nr` of the kernel.
            let dirty = inodes.values().filter(|inode| inode.data.borrow().is_dirty);
            dirty.take(PAGES_TO_WRITE as usize).cloned().collect()
        };
        for inode in dirty {
            // An inode that is being changed is written by the task that changes it.
            if !inode.lock.is_locked() {
                let _ = self.write_inode_back(&inode).await;
            }
        }
    }

    /// Space as `statfs` returns it (`ubifs_get_free_space_nolock`).
    pub(crate) fn space_use(&self) -> SpaceUse {
        let block = BLOCK_BYTES as u64;
        let layout = &self.layout;
        let (available_lebs, sums) = {
            let lpt = self.lpt.borrow();
            (lpt.lebs.available_lebs(lpt.waiting.len() as u32), lpt.lebs.sums)
        };
        let (min_index_lebs, outstanding) = {
            let space = self.space.borrow();
            (space.index_lebs_for(layout), space.promised.data + space.promised.dirty)
        };
        let mut available = self.available_bytes(min_index_lebs).cast_signed();
        // In an empty eraseblock less is wasted than the dark watermark.
        let reserved = i64::from(min_index_lebs.saturating_sub(sums.index_lebs));
        available += (available_lebs - reserved)
            * (i64::from(layout.dark_watermark) - i64::from(layout.leb_overhead));
        let free = (available - outstanding.cast_signed()).max(0) as u64;
        let free_blocks = layout.reported_space(free) / block;
        // The reserve is reported with the same factor as free space; otherwise a user without it
        // would see more than `write` can take.
        let reserve = layout.reported_space(self.superblock.reserved_bytes) / block;
        // `ubifs_statfs`: one eraseblock for the collector, one for deletions, those of the index
        // and of the heads; the last one is the head that data goes to.
        let main = i64::from(layout.main_lebs)
            - 1
            - 1
            - i64::from(MIN_INDEX_LEBS)
            - i64::from(HEADS.len() as u32)
            + 1;
        let total = main.max(0) as u64 * u64::from(layout.leb_bytes - layout.leb_overhead);
        SpaceUse {
            block_bytes: BLOCK_BYTES as u32,
            blocks: layout.reported_space(total) / block,
            free_blocks,
            available_blocks: free_blocks.saturating_sub(reserve),
        }
    }
}
