//! Room for nodes: reserving it, the next block, thresholds.
//!
//! Source: `fs/jffs2/nodemgmt.c`.
//!
//! May use: `engine`, `nodes`, `state`, `write`.

use crate::engine::Engine;
use crate::nodes::padded;
use crate::state::{List, Owner};
use crate::write::Allocation;
use fs_api::Errno;
use sim::LockGuard;

/// Room that was reserved; while it is held no other task writes nodes.
pub(crate) struct Room<'a> {
    /// Bytes that the block being written has left.
    pub(crate) bytes: u32,
    _held: LockGuard<'a, ()>,
}

impl Engine {
    /// Reserves room for a node of at least `bytes_min`, collecting if there is none
    /// (`jffs2_reserve_space`). `entry_bytes` is what the summary needs for it.
    ///
    /// # Errors
    /// `ENOSPC` if collecting cannot make room, `EROFS` on a mount for reading, `EIO` if a flush failed.
    pub(crate) async fn reserve(
        &self,
        bytes_min: u32,
        allocation: Allocation,
        entry_bytes: u32,
    ) -> Result<Room<'_>, Errno> {
        if self.options.is_read_only {
            return Err(Errno::Erofs);
        }
        // One lock for everything that moves the write position (`alloc_sem`). It stays locked
        // until the node is written, because the room belongs to this position.
        let mut held = self.allocation.lock().await;
        loop {
            // Writers collect in the foreground when blocks are short. The thread alone may be too
            // slow, since it sleeps between passes.
            while !self.has_reserve(allocation)? {
                // The collector takes the same lock for its own nodes.
                drop(held);
                self.count(|statistics| statistics.foreground_passes += 1);
                match self.collect_pass().await {
                    Ok(()) => {}
                    Err(Collecting::Again) => self.wait_for_erase().await,
                    Err(Collecting::Failed(error)) => return Err(error),
                }
                // Lets other tasks in where nothing takes time.
                self.sim.yield_now().await;
                held = self.allocation.lock().await;
            }
            match self.find_room(padded(bytes_min), entry_bytes).await {
                Ok(bytes) => return Ok(Room { bytes, _held: held }),
                Err(Collecting::Again) => {}
                Err(Collecting::Failed(error)) => return Err(error),
            }
        }
    }

    /// Whether as many blocks are free as a write has to leave.
    fn has_reserve(&self, allocation: Allocation) -> Result<bool, Errno> {
        let state = self.state.borrow();
        let (available, reserve) = (state.available_blocks(), state.reserve);
        // Blocks that are being erased count as free: they will be, and nothing has to be copied
        // for it.
        if available >= reserve.write {
            return Ok(true);
        }
        let may_delete = allocation == Allocation::Deletion && available >= reserve.deletion;
        // Unchecked bytes count as dirty, in the hope that the check finds some obsolete
        // (`jffs2_reserve_space`).
        let dirty = state.dirty_bytes() + state.sums.unchecked;
        let sums = state.sums;
        let possible = sums.free + sums.dirty + sums.erasing + sums.unchecked;
        let is_full = dirty < reserve.dirty_bytes_min
            || possible / u64::from(self.block_bytes) <= u64::from(reserve.write);
        match (is_full, may_delete) {
            (false, _) => Ok(false),
            // Deletions may use the reserve down to two blocks: they are what makes space.
            (true, true) => Ok(true),
            (true, false) => Err(Errno::Enospc),
        }
    }

    async fn wait_for_erase(&self) {
        let is_under_way = {
            let state = self.state.borrow();
            state.erasing_blocks > 0
                && state.list(List::ErasePending).is_empty()
                && state.list(List::EraseComplete).is_empty()
        };
        if is_under_way {
            self.erase_waiters.wait().await;
        }
    }

    /// Reserves room for the collector, which holds the allocation lock
    /// (`jffs2_reserve_space_gc`).
    pub(crate) async fn reserve_collecting(
        &self,
        bytes_min: u32,
        entry_bytes: u32,
    ) -> Result<u32, Errno> {
        loop {
            match self.find_room(padded(bytes_min), entry_bytes).await {
                Ok(bytes) => return Ok(bytes),
                Err(Collecting::Again) => {}
                Err(Collecting::Failed(error)) => return Err(error),
            }
        }
    }

    /// Room in the block being written, or in the next (`jffs2_do_reserve_space`).
    async fn find_room(&self, bytes_min: u32, entry_bytes: u32) -> Result<u32, Collecting> {
        loop {
            let (block, free, reserved) = {
                let state = self.state.borrow();
                let has_summary = self.has_summary && !state.summary.is_disabled;
                // Room for the summary with one entry more is always kept free at the end of the
                // block.
                let reserved = if has_summary { state.summary.bytes_with(entry_bytes) } else { 0 };
                let free = state.next_block.map_or(0, |block| state.blocks[block as usize].free);
                (state.next_block, free, reserved)
            };
            let Some(block) = block else {
                match self.take_free_block() {
                    Ok(()) => continue,
                    Err(true) => {
                        self.make_free_block().await?;
                        return Err(Collecting::Again);
                    }
                    Err(false) => return Err(Collecting::Failed(Errno::Enospc)),
                }
            };
            if bytes_min + reserved <= free {
                self.end_mark(block);
                debug_assert_eq!(
                    self.state.borrow().blocks[block as usize].list,
                    List::Nowhere,
                    "the block being written is on no list"
                );
                return Ok(free - reserved);
            }
            if reserved > 0 {
                // If it failed, the block was given up and the next round takes another.
                let _ = self.write_summary().await;
                let state = &mut *self.state.borrow_mut();
                if !state.summary.is_disabled && state.next_block == Some(block) {
                    state.next_block = None;
                    state.close(block, false);
                }
                continue;
            }
            // The rest of the block is too small: what is in the buffer fills a page of it.
            // Padding may leave a whole page at the end of the block, which is room again; so the
            // loop starts over.
            if !self.state.borrow().write_buffer.bytes.is_empty() {
                self.flush_padded().await.map_err(Collecting::Failed)?;
                continue;
            }
            let state = &mut *self.state.borrow_mut();
            // The rest counts as wasted, not dirty: it alone must not make a block worth
            // collecting.
            state.link_dirt((block + 1) * self.block_bytes - free, free);
            state.dirt_to_waste(block, free);
            state.next_block = None;
            state.close(block, false);
        }
    }

    /// A block that is written to needs no mark that it is clean.
    fn end_mark(&self, block: u32) {
        if !self.is_in_band() {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        let entry = &state.blocks[block as usize];
        let first = entry.nodes.first().copied().filter(|_| entry.used == self.marker_bytes());
        if let Some(mark) = first
            && state.node(mark).owner == Owner::None
        {
            state.mark_obsolete(mark);
        }
    }

    /// Takes the first free block for writing; else tells whether one can be made
    /// (`jffs2_find_nextblock`).
    pub(crate) fn take_free_block(&self) -> Result<(), bool> {
        let state = &mut *self.state.borrow_mut();
        debug_assert!(state.next_block.is_none(), "the last block was closed before");
        debug_assert!(
            state.write_buffer.bytes.is_empty(),
            "what is in the buffer belongs to the block before"
        );
        if let Some(block) = state.list(List::Free).front().copied() {
            state.file(block, List::Nowhere);
            state.next_block = Some(block);
            state.summary.clear();
            // The buffer follows the first node into the new block.
            state.write_buffer.offset = None;
            return Ok(());
        }
        // Erasable blocks wait on purpose, for wear levelling. With no other erase under way one
        // has to be used (`jffs2_find_nextblock`).
        if state.erasing_blocks == 0
            && let Some(block) = state.list(List::Erasable).front().copied()
        {
            state.file_erase_pending(block);
        }
        // Blocks whose replacement is still in the buffer come free by a flush.
        let can_flush = !state.list(List::ErasablePendingFlush).is_empty();
        Err(state.erasing_blocks > 0 || can_flush)
    }

    async fn make_free_block(&self) -> Result<(), Collecting> {
        if self.state.borrow().erasing_blocks == 0 {
            return self.flush_padded().await.map_err(Collecting::Failed);
        }
        if !self.erase_one().await {
            let has_erasing = self.listed(List::Erasing) > 0;
            if !has_erasing {
                return Err(Collecting::Failed(Errno::Enospc));
            }
            self.erase_waiters.wait().await;
        }
        Ok(())
    }
}

/// Why a pass of the collector, or a search for room, ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collecting {
    /// Blocks are being erased: try again (`EAGAIN`).
    Again,
    /// No later attempt would succeed without other changes.
    Failed(Errno),
}

impl From<Errno> for Collecting {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}
