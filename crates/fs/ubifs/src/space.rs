//! Budgets: space for what is dirty in memory is set aside before it becomes dirty.
//!
//! Source: `fs/ubifs/budget.c`, `super.c` (`ubifs_statfs`).

use crate::engine::Engine;
use crate::journal::Obstacle;
use crate::layout::{HEADS, Layout, MIN_INDEX_LEBS};
use crate::lprops::Change;
use crate::nodes::{BLOCK_BYTES, INODE_BYTES, MAX_DATA_NODE_BYTES, MAX_ENTRY_NODE_BYTES, aligned};
use fs_api::{Caller, Errno, SpaceUse};

/// Rounds of write-back, collection and commit before space is given up (`MAX_MKSPC_RETRIES`).
const ROUNDS: u32 = 3;
/// Pages that are written back to make promises come true (`NR_TO_WRITE`).
const PAGES_TO_WRITE: u64 = 16;

/// What an operation will write at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one node more, as the kernel counts")]
pub(crate) struct Request {
    pub(crate) new_page: bool,
    pub(crate) dirtied_page: bool,
    pub(crate) new_entry: bool,
    pub(crate) changed_entry: bool,
    pub(crate) new_inode: bool,
    /// Bytes within the new inode.
    pub(crate) new_inode_bytes: usize,
    pub(crate) dirtied_inodes: u32,
    /// Bytes within the dirtied inodes.
    pub(crate) dirtied_inode_bytes: usize,
}

/// Space that is set aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) index: u64,
    pub(crate) data: u64,
    pub(crate) dirty: u64,
}

/// Space that was promised, and what the index may grow to.
#[derive(Debug, Default)]
pub(crate) struct Space {
    pub(crate) promised: Budget,
    /// Index that is dirty in memory.
    pub(crate) uncommitted_index_bytes: u64,
    /// Index on the medium.
    pub(crate) committed_index_bytes: u64,
    /// Eraseblocks that are kept for the index.
    pub(crate) min_index_lebs: u32,
    /// There was no space, and nothing has become free since.
    is_full: bool,
    is_full_for_root: bool,
    /// Eraseblock that the collector has in reserve.
    pub(crate) gc_leb: Option<u32>,
    /// Where the index is written on.
    pub(crate) index_head: (u32, u32),
}

impl Space {
    /// Thrice the index, so that it can always be written (`ubifs_calc_min_idx_lebs`).
    pub(crate) fn index_lebs_for(&self, layout: &Layout) -> u32 {
        let bytes = self.committed_index_bytes + self.promised.index + self.uncommitted_index_bytes;
        let lebs = (bytes * 3).div_ceil(layout.index_leb_bytes.into()) as u32;
        // The head of the index has no gaps to fill.
        (lebs + 1).max(MIN_INDEX_LEBS)
    }
}

impl Engine {
    pub(crate) fn budget_of(&self, request: &Request) -> Budget {
        let when = |is: bool, bytes: usize| if is { bytes as u64 } else { 0 };
        let (page, entry) = (MAX_DATA_NODE_BYTES, aligned(MAX_ENTRY_NODE_BYTES));
        // Only new nodes need a new branch in the index; a node that replaces another takes its
        // branch over (`calc_idx_growth`).
        let nodes = [request.new_inode, request.new_page, request.new_entry];
        let new_nodes = nodes.into_iter().filter(|is| *is).count() as u64;
        let mut dirty = when(request.dirtied_page, page) + when(request.changed_entry, entry);
        if request.dirtied_inodes > 0 {
            // The shift is that of `calc_dd_growth` (`fs/ubifs/budget.c`) up to Linux 6.2. Later
            // kernels multiply, which differs for three inodes only.
            dirty += (INODE_BYTES as u64) << (request.dirtied_inodes - 1);
        }
        Budget {
            index: new_nodes * u64::from(self.layout.max_index_node.next_multiple_of(8)),
            data: when(request.new_inode, INODE_BYTES)
                + when(request.new_page, page)
                + when(request.new_entry, entry)
                + aligned(request.new_inode_bytes) as u64,
            dirty: dirty + aligned(request.dirtied_inode_bytes) as u64,
        }
    }

    fn may_use_reserve(&self, caller: &Caller) -> bool {
        // `can_use_rp`: the kernel asks for `CAP_SYS_RESOURCE` where the caller is compared with
        // the superuser here. Group 0 stands for no group.
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
        let kept = i64::from(min_index_lebs) + 1 + (i64::from(HEADS as u32) - 1) + 1;
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
        let budget = self.budget_of(request);
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
                    // A caller without the reserve proves nothing about the reserve, unless there
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

    /// What a dirty inode with so many bytes of data needs.
    pub(crate) fn inode_budget(data_bytes: usize) -> Budget {
        Budget { dirty: (INODE_BYTES + aligned(data_bytes)) as u64, ..Budget::default() }
    }

    /// Something was removed: who found no space may try again.
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
                    // `run_gc` only wants the space counted as free. It gives the eraseblock back
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
            // An inode that is being changed is written by whoever changes it.
            if !inode.lock.is_locked() {
                let _ = self.write_inode_back(&inode).await;
            }
        }
    }

    /// What `statfs` tells (`ubifs_get_free_space_nolock`).
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
            - i64::from(HEADS as u32)
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
