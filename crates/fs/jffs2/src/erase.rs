//! Erasing blocks, looking whether they are blank, and marking them clean.
//!
//! Source: `fs/jffs2/erase.c`, `wbuf.c` (cleanmarkers).
//!
//! May use: `engine`, `finding`, `nodes`, `state`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::{CLEANMARKER, HEADER_BYTES, Header};
use crate::state::{List, NodeState, Owner};
use fs_api::{Errno, Place};
use mtd::is_blank;

/// Erases of a block that may fail before it is marked bad (`MAX_ERASE_FAILURES`).
const FAILURES_MAX: u32 = 2;

impl Engine {
    /// Does one step of erasing (`jffs2_erase_pending_blocks` with a count of one): marks an erased
    /// block clean, or erases pending ones until one is erased; whether a block came free.
    pub(crate) async fn erase_one(&self) -> bool {
        loop {
            let complete = self.state.borrow().list(List::EraseComplete).front().copied();
            if let Some(block) = complete {
                self.state.borrow_mut().file(block, List::Erasing);
                self.finish_erase(block).await;
                return true;
            }
            // The collector may be reading an obsolete node of this block under the same lock.
            let held = self.erased_nodes.lock().await;
            let pending = self.state.borrow().list(List::ErasePending).front().copied();
            let Some(block) = pending else { return false };
            {
                let state = &mut *self.state.borrow_mut();
                let bytes = u64::from(self.block_bytes);
                let sums = &mut state.sums;
                let entry = &mut state.blocks[block as usize];
                debug_assert_eq!(
                    entry.used + entry.unchecked,
                    0,
                    "live nodes of block {block} would vanish"
                );
                // All sums leave at once: while it is erased the block is neither free nor dirty.
                sums.erasing += bytes;
                sums.wasted -= u64::from(std::mem::take(&mut entry.wasted));
                sums.free -= u64::from(std::mem::take(&mut entry.free));
                sums.used -= u64::from(std::mem::take(&mut entry.used));
                sums.dirty -= u64::from(std::mem::take(&mut entry.dirty));
                sums.unchecked -= u64::from(std::mem::take(&mut entry.unchecked));
                // Before the erase: no look-up may lead to bytes that vanish.
                state.forget_nodes(block);
                state.file(block, List::Erasing);
            }
            drop(held);
            let erased = self.flash.erase(block).await;
            self.count(|statistics| statistics.blocks_erased += 1);
            if erased {
                // Verification and mark follow in the next step, as in the kernel's two loops.
                self.state.borrow_mut().file(block, List::EraseComplete);
                self.wake_thread();
            } else {
                self.erase_failed(block).await;
            }
        }
    }

    /// Reads an erased block back, writes its mark and frees it (`jffs2_mark_erased_block`).
    async fn finish_erase(&self, block: u32) {
        // Every byte is read back. A block that an interrupted erase left half blank would corrupt
        // nodes.
        match self.is_erased(block).await {
            Ok(true) => {}
            Ok(false) => {
                self.find(
                    Code::FailedErase,
                    Place::Block(block.into()),
                    format!("block {block} is not blank after its erase"),
                );
                return self.erase_failed(block).await;
            }
            Err(_) => return self.erase_failed(block).await,
        }
        let first = block * self.block_bytes;
        // The mark comes last. Without it a mount after a cut erases the block once more.
        let is_marked = if self.is_in_band() {
            let marker = Header::new(CLEANMARKER, HEADER_BYTES as u32).to_bytes();
            self.flash.write(first, &marker).await.is_ok()
        } else {
            self.flash.write_spare_marker(block).await
        };
        if !is_marked {
            return self.erase_failed(block).await;
        }
        let state = &mut *self.state.borrow_mut();
        let bytes = u64::from(self.block_bytes);
        state.blocks[block as usize].free = self.block_bytes;
        state.blocks[block as usize].failures = 0;
        state.sums.erasing -= bytes;
        state.sums.free += bytes;
        if self.is_in_band() {
            state.link(first, HEADER_BYTES as u32, NodeState::Normal, Owner::None);
        }
        // At the end of the list: blocks are used in the order in which they were erased.
        state.file(block, List::Free);
        state.erasing_blocks -= 1;
        state.assert_accounts(block);
        state.assert_erasing();
        self.erase_waiters.wake_all();
    }

    async fn is_erased(&self, block: u32) -> Result<bool, Errno> {
        let first = block * self.block_bytes;
        let mut bytes = vec![0; self.block_bytes.min(4096) as usize];
        for offset in (first..first + self.block_bytes).step_by(bytes.len()) {
            self.read_medium(offset, &mut bytes).await?;
            if !is_blank(&bytes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The block gets another try, or is marked bad (`jffs2_erase_failed`).
    async fn erase_failed(&self, block: u32) {
        let is_bad = {
            let state = &mut *self.state.borrow_mut();
            let entry = &mut state.blocks[block as usize];
            entry.failures += 1;
            entry.failures >= FAILURES_MAX
        };
        if is_bad {
            self.find(
                Code::GivenUpBlock,
                Place::Block(block.into()),
                format!("block {block} is given up"),
            );
            self.count(|statistics| statistics.blocks_bad += 1);
            self.flash.mark_bad(block).await;
        }
        let state = &mut *self.state.borrow_mut();
        let bytes = u64::from(self.block_bytes);
        state.sums.erasing -= bytes;
        if is_bad {
            state.sums.bad += bytes;
            state.file(block, List::Bad);
            state.erasing_blocks -= 1;
        } else {
            state.sums.dirty += bytes;
            state.blocks[block as usize].dirty = self.block_bytes;
            state.file(block, List::ErasePending);
        }
        state.assert_erasing();
        self.erase_waiters.wake_all();
    }

    /// Erases all that is pending, as the periodic write of the superblock of old kernels does.
    pub(crate) async fn erase_all_pending(&self) {
        while self.erase_one().await {}
    }
}
