//! Where the next chunk goes, and what becomes of chunks and blocks that are done with.
//!
//! Source: `yaffs_guts.c` (`yaffs_write_new_chunk`, `yaffs_chunk_del`, `yaffs_block_became_dirty`).
//!
//! May use: `blocks`, `device`, `format`, `statistics`, `tags`.

use crate::blocks::BlockState;
use crate::device::{BlockPage, Device, WriteFailure};
use crate::statistics::Finding;
use crate::tags::{EccResult, Tags};
use fs_api::Errno;
use mtd::is_blank;

/// Writes of a chunk that are tried before it is given up (`YAFFS_WR_ATTEMPTS`).
const WRITE_ATTEMPTS: u32 = 5 * 64;

impl Device {
    /// Whether `chunks` more can be written without touching what is reserved.
    pub(crate) fn has_room(&mut self, chunks: u32) -> bool {
        // `yaffs_check_alloc_available`: the room for the next checkpoint is kept as well, or a
        // full device could never be unmounted with one.
        let blocks = self.options.reserved_blocks + self.checkpoint_blocks_needed();
        self.free_chunks > (blocks * self.pages_per_block + chunks) as i32
    }

    /// Chunks that users may still write (`yaffs_get_n_free_chunks`).
    pub(crate) fn user_free_chunks(&mut self) -> u32 {
        // One block more than `has_room` keeps, so that what `statfs` reports is used up before
        // writes fail. Dirty cached chunks count as written; chunks of deleted files are added
        // (`n_deleted_files` counts files, yet the real sum takes it for chunks as well).
        let kept = self.options.reserved_blocks + 1 + self.checkpoint_blocks_needed();
        let free = self.free_chunks + self.deleted_files as i32
            - self.cache.dirty_count() as i32
            - (kept * self.pages_per_block) as i32;
        free.max(0) as u32
    }

    fn find_erased_block(&mut self) -> Option<u32> {
        if self.erased_blocks < 1 {
            return None;
        }
        // The search goes on behind the last block found, never from the start: that is all the
        // wear levelling there is beside the refresh of old blocks.
        for _ in self.blocks.numbers() {
            self.alloc_finder = self.blocks.next_after(self.alloc_finder);
            let block = self.alloc_finder;
            if self.blocks.get(block).state == BlockState::Empty {
                // The number belongs to the block, not to the chunk: a scan sorts blocks by it, and
                // within one block the later page is the younger. It rises when the block is
                // opened, so no two blocks that hold data share one.
                debug_assert!(
                    !self.has_sound_accounts || !self.blocks.is_any_used(block),
                    "erased block {block} has chunks in use"
                );
                self.sequence += 1;
                let sequence = self.sequence;
                let info = self.blocks.get_mut(block);
                info.state = BlockState::Allocating;
                info.sequence = sequence;
                self.erased_blocks -= 1;
                return Some(block);
            }
        }
        None
    }

    fn allocate_chunk(&mut self, may_use_reserve: bool) -> Option<u32> {
        if self.alloc_block.is_none() {
            // Before the check of the room, as in `yaffs_alloc_chunk`: a write that is refused may
            // have opened a block, and that costs a sequence number.
            self.alloc_block = self.find_erased_block();
            self.alloc_page = 0;
        }
        if !may_use_reserve && !self.has_room(1) {
            return None;
        }
        let block = self.alloc_block?;
        let chunk = self.chunk(BlockPage { block, page: self.alloc_page });
        debug_assert_eq!(
            self.blocks.get(block).state,
            BlockState::Allocating,
            "chunks are taken from block {block}"
        );
        debug_assert!(
            !self.has_sound_accounts || !self.blocks.is_used(chunk),
            "chunk {chunk} is taken twice"
        );
        // Counted before the write is tried. A failure gives it back through `delete_chunk`, but
        // its page is passed over until the block is erased.
        self.blocks.get_mut(block).pages_in_use += 1;
        self.blocks.set_used(chunk);
        self.alloc_page += 1;
        self.free_chunks -= 1;
        if self.alloc_page >= self.pages_per_block {
            self.blocks.get_mut(block).state = BlockState::Full;
            self.alloc_block = None;
        }
        self.assert_block(block);
        Some(chunk)
    }

    /// Takes no more chunks from the block that is being written.
    pub(crate) fn skip_rest_of_block(&mut self) {
        if let Some(block) = self.alloc_block {
            let info = self.blocks.get_mut(block);
            if info.state == BlockState::Allocating {
                info.state = BlockState::Full;
                self.alloc_block = None;
            }
        }
    }

    async fn is_erased(&mut self, chunk: u32) -> bool {
        let mut data = vec![0; self.chunk_bytes as usize];
        let (tags, result) = self.read_chunk(chunk, &mut data).await;
        // `yaffs_check_chunk_erased` asks for both: unused tags alone would pass a page whose
        // program was cut after its first bytes.
        result == EccResult::Clean && tags.is_unused() && is_blank(&data)
    }

    async fn is_written(&mut self, chunk: u32, data: &[u8], tags: &Tags) -> bool {
        let mut back = vec![0; self.chunk_bytes as usize];
        let (read, result) = self.read_chunk(chunk, &mut back).await;
        result != EccResult::Unfixed
            && back == data
            // Not the sequence number: `yaffs_verify_chunk_written` compares these three and the
            // data.
            && (read.object, read.chunk, read.bytes) == (tags.object, tags.chunk, tags.bytes)
    }

    /// Writes a chunk to the next free place; the place.
    ///
    /// The first chunk of a block that was not erased in this mount is checked to be erased, and read
    /// back where the profile says so.
    ///
    /// # Errors
    /// [`Errno::Enospc`] without a free chunk, or after too many failed programs; [`Errno::Erofs`].
    pub(crate) async fn write_new_chunk(
        &mut self,
        data: &[u8],
        mut tags: Tags,
        may_use_reserve: bool,
    ) -> Result<u32, Errno> {
        // One function: an attempt has three ways to fail, and each decides what the next attempt
        // finds.
        if self.is_read_only {
            return Err(Errno::Erofs);
        }
        // Before the first change reaches the medium. The other order would let a mount after a
        // power cut trust a checkpoint without the new chunk.
        self.invalidate_checkpoint().await;
        for attempt in 0..=WRITE_ATTEMPTS {
            let Some(chunk) = self.allocate_chunk(may_use_reserve) else {
                return Err(Errno::Enospc);
            };
            let block = self.block_of(chunk);
            debug_assert!(
                !self.has_sound_accounts || self.blocks.get(block).sequence == self.sequence,
                "block {block} is the youngest, for its chunks carry the number {}",
                self.sequence
            );
            if attempt > 0 {
                self.statistics.retried_writes += 1;
            }
            if self.options.always_checks_erased {
                self.blocks.get_mut(block).skips_erased_check = false;
            }
            let checks = !self.blocks.get(block).skips_erased_check;
            if checks && !self.is_erased(chunk).await {
                self.give_up_chunk(chunk).await;
                continue;
            }
            // Given here and not by the caller: collecting copies chunks with their old tags, and
            // in their new block they must carry that block's number or a scan drops them as
            // insane.
            tags.sequence = self.sequence;
            let mut written = self.write_raw(chunk, data, &tags).await;
            if written.is_ok() {
                // Noted before the read-back, as in `yaffs_wr_chunk_tags_nand`. A failure then
                // closes the block, which gets no summary unless this was its last chunk.
                self.summary_add(chunk, &tags).await;
            }
            if checks
                && self.profile.verifies_first_write
                && written.is_ok()
                && !self.is_written(chunk, data, &tags).await
            {
                written = Err(WriteFailure::Program);
            }
            match written {
                Ok(()) => {
                    // One good write vouches for the rest of the block (`skip_erased_check`): each
                    // block that this mount did not erase costs these reads once.
                    self.blocks.get_mut(block).skips_erased_check = true;
                    return Ok(chunk);
                }
                Err(WriteFailure::NotErased) => self.give_up_chunk(chunk).await,
                Err(WriteFailure::Program) => {
                    self.note_chunk_error(block);
                    // Newer code blames the block only if it has just seen that the page was erased
                    // (`erased_ok` of `yaffs_handle_chunk_wr_error`); else the block is collected,
                    // erased and used again.
                    if checks || !self.profile.skips_after_error {
                        self.blocks.get_mut(block).needs_retiring = true;
                    }
                    self.delete_chunk(chunk).await;
                    self.skip_rest_of_block();
                }
            }
        }
        Err(Errno::Enospc)
    }

    /// A page that should be erased is not: its block is left to collecting.
    async fn give_up_chunk(&mut self, chunk: u32) {
        self.report(Finding::NotErased { chunk });
        // In this order, as `yaffs_write_new_chunk` has it: a block that is still written to is not
        // erased with its last chunk, so one without any waits for the collector.
        self.delete_chunk(chunk).await;
        if self.profile.skips_after_error {
            self.skip_rest_of_block();
        }
    }

    /// Frees a chunk; a block that has no more of them is erased.
    pub(crate) async fn delete_chunk(&mut self, chunk: u32) {
        if chunk == 0 || !self.blocks.holds_chunk(chunk) {
            return;
        }
        self.statistics.deletions += 1;
        let block = self.block_of(chunk);
        // Even if the block's state makes the rest void: the block has now a freed chunk, and may
        // be older than the oldest one known.
        self.update_oldest_dirty(block);
        let info = self.blocks.get_mut(block);
        if !matches!(
            info.state,
            BlockState::Allocating
                | BlockState::Full
                | BlockState::NeedsScan
                | BlockState::Collecting
        ) {
            return;
        }
        debug_assert!(
            !self.has_sound_accounts || info.pages_in_use > 0,
            "chunk {chunk} is freed in block {block} without any"
        );
        info.pages_in_use -= 1;
        let is_done = info.pages_in_use == 0
            // An empty block with a header that shrinks a file stays: older blocks may still hold
            // the chunks which only that header makes void. The collector takes it when it is the
            // oldest (`may_collect`).
            && !info.has_shrink_header
            && !matches!(info.state, BlockState::Allocating | BlockState::NeedsScan);
        self.free_chunks += 1;
        debug_assert!(
            !self.has_sound_accounts || self.blocks.is_used(chunk),
            "chunk {chunk} is freed twice"
        );
        self.blocks.clear_used(chunk);
        self.assert_block(block);
        if is_done {
            self.erase_dirty_block(block).await;
        }
    }

    /// Erases a block that holds nothing more, or retires it.
    pub(crate) async fn erase_dirty_block(&mut self, block: u32) {
        self.clear_oldest_dirty(block);
        debug_assert!(
            !self.has_sound_accounts || !self.blocks.is_any_used(block),
            "block {block} is erased with chunks in use"
        );
        debug_assert_ne!(self.alloc_block, Some(block), "the block being written is not erased");
        // The order of `yaffs_block_became_dirty`: the block leaves every list of candidates first,
        // then the checkpoint goes, then the block is erased. A checkpoint that outlived the erase
        // would name its chunks.
        self.blocks.get_mut(block).state = BlockState::Dirty;
        self.collector.forget(block);
        let mut is_erased = false;
        if !self.blocks.get(block).needs_retiring && !self.is_read_only {
            self.invalidate_checkpoint().await;
            is_erased = self.erase_block(block).await;
        }
        if self.is_read_only {
            return;
        }
        if !is_erased {
            // Its chunks were counted as free one by one while they were deleted; the device has
            // lost them now.
            self.free_chunks -= self.pages_per_block as i32;
            self.retire_block(block).await;
            return;
        }
        self.erased_blocks += 1;
        let info = self.blocks.get_mut(block);
        // Strikes outlast the erase, all else begins anew: the fourth retires the block
        // (`chunk_error_strikes`).
        let strikes = info.error_strikes;
        *info = crate::blocks::BlockInfo {
            state: BlockState::Empty,
            skips_erased_check: true,
            error_strikes: strikes,
            ..Default::default()
        };
        self.blocks.clear_block(block);
        self.assert_block(block);
    }

    /// Erases a block; whether it worked.
    pub(crate) async fn erase_block(&mut self, block: u32) -> bool {
        self.pay().await;
        self.statistics.erasures += 1;
        let is_erased = self.mtd.erase(Self::device_block(block)).await.is_ok();
        if !is_erased {
            self.statistics.erase_failures += 1;
        }
        is_erased
    }

    async fn retire_block(&mut self, block: u32) {
        self.invalidate_checkpoint().await;
        self.clear_oldest_dirty(block);
        self.report(Finding::Retired { block });
        // The mark of the driver is what later mounts look at. Where it cannot be set, a page of
        // tags with a sequence number of no data says the same (`yaffs_retire_block`).
        if self.mtd.mark_bad(Self::device_block(block)).await.is_err()
            && self.erase_block(block).await
        {
            let tags = Tags { sequence: crate::format::SEQUENCE_BAD, ..Tags::data(0, 0, 0) };
            let data = vec![0xff; self.chunk_bytes as usize];
            // Nothing is left to be done if this fails too.
            let _ = self.write_raw(self.chunk(BlockPage { block, page: 0 }), &data, &tags).await;
        }
        let info = self.blocks.get_mut(block);
        info.state = BlockState::Dead;
        info.is_prioritised = false;
        info.needs_retiring = false;
        self.statistics.retired_blocks += 1;
    }

    /// The oldest full block with a freed chunk: sequence number and block. Headers that shrink files
    /// must not go before it does, for it may hold chunks that only they make void.
    pub(crate) fn find_oldest_dirty(&mut self) {
        if self.oldest_dirty.is_some() {
            return;
        }
        let pages_per_block = self.pages_per_block;
        let dirty = self.blocks.iter().filter(|(_, info)| {
            // As `yaffs2_find_oldest_dirty_seq`: full blocks only. The block being written is
            // younger than all of them.
            info.state == BlockState::Full && info.live_pages() < pages_per_block
        });
        self.oldest_dirty =
            dirty.map(|(block, info)| (info.sequence, block)).min_by_key(|(sequence, _)| *sequence);
    }

    fn update_oldest_dirty(&mut self, block: u32) {
        let sequence = self.blocks.get(block).sequence;
        // Kept only if one is known. After it is erased nothing is, and the next question costs a
        // walk over all blocks.
        if self.oldest_dirty.is_some_and(|(oldest, _)| oldest > sequence) {
            self.oldest_dirty = Some((sequence, block));
        }
    }

    fn clear_oldest_dirty(&mut self, block: u32) {
        let sequence = self.blocks.get(block).sequence;
        if self.oldest_dirty.is_some_and(|(oldest, _)| oldest == sequence) {
            self.oldest_dirty = None;
        }
    }

    /// Whether a block may be collected.
    pub(crate) fn may_collect(&mut self, block: u32) -> bool {
        let info = *self.blocks.get(block);
        if !info.has_shrink_header {
            return true;
        }
        self.find_oldest_dirty();
        // `yaffs_block_ok_for_gc`: everything that the header could make void lies in older blocks;
        // with none of them dirty, all void chunks are erased already.
        self.oldest_dirty.is_some_and(|(oldest, _)| info.sequence <= oldest)
    }
}
