//! Collecting garbage: live chunks of a block are written again, then the block is erased.
//!
//! Source: `yaffs_guts.c` (`yaffs_check_gc`, `yaffs_find_gc_block`, `yaffs_gc_block`).
//!
//! May use: `blocks`, `device`, `format`, `header`, `profile`, `tags`.

use crate::blocks::BlockState;
use crate::device::{BlockPage, Device};
use crate::format::OBJECT_SUMMARY;
use crate::header::Header;
use crate::profile::CollectorKind;
use crate::tags::Tags;

/// A victim with so few live chunks ends the search (`YAFFS_GC_GOOD_ENOUGH`).
const GOOD_ENOUGH: u32 = 2;
/// Least threshold of live chunks (`YAFFS_GC_PASSIVE_THRESHOLD`).
const PASSIVE_THRESHOLD: u32 = 4;
/// Live chunks of a victim of the older collector, at most (`YAFFS_PASSIVE_GC_CHUNKS`).
const OLD_PASSIVE_CHUNKS: u32 = 2;
/// Calls of the older collector between victims.
const OLD_SKIP: i32 = 4;

impl Device {
    /// Collects if there is need; called before every write (`yaffs_check_gc`).
    pub(crate) async fn check_collect(&mut self, is_background: bool) {
        if self.collector.is_disabled || self.is_read_only {
            return;
        }
        let reserved = self.options.reserved_blocks as i32;
        // Two rounds at most (`max_tries`), or a write on a full device would never come to its
        // turn.
        for _ in 0..2 {
            let Some(is_aggressive) = self.needs_collect(is_background) else { break };
            if self.collector.block.is_none() {
                // Refreshing is for idle space only: short of erased blocks, a full old block is
                // the worst victim there is.
                let refresh = if is_aggressive { None } else { self.find_refresh_block() };
                self.collector.block =
                    refresh.or_else(|| self.find_victim(is_aggressive, is_background));
                self.collector.page = 0;
            }
            if let Some(block) = self.collector.block {
                self.statistics.all_gcs += 1;
                self.statistics.passive_gcs += u64::from(!is_aggressive);
                self.collect_block(block, is_aggressive).await;
            }
            if self.erased_blocks >= reserved || self.collector.block.is_none() {
                break;
            }
        }
    }

    /// Whether to collect now, and then whether space is short.
    fn needs_collect(&mut self, is_background: bool) -> Option<bool> {
        let needed = self.checkpoint_blocks_needed() as i32;
        let reserved = self.options.reserved_blocks as i32;
        if self.profile.collector == CollectorKind::Foreground {
            return Some(self.erased_blocks < reserved + needed + 2);
        }
        let erased_chunks = self.erased_blocks * self.pages_per_block as i32;
        let mut is_aggressive = true;
        if self.erased_blocks > reserved + needed {
            if !is_background && erased_chunks > self.free_chunks / 4 {
                return None;
            }
            self.collector.skip = self.collector.skip.min(20);
            if erased_chunks < self.free_chunks / 2 || self.collector.skip < 1 || is_background {
                is_aggressive = false;
            } else {
                self.collector.skip -= 1;
                return None;
            }
        }
        // The countdown of `yaffs_check_gc` has next to no effect: a writer has returned above
        // whenever enough is erased for it to count.
        self.collector.skip = 5;
        Some(is_aggressive)
    }

    /// The oldest block, every so many collections.
    fn find_refresh_block(&mut self) -> Option<u32> {
        let period = self.profile.refresh_period;
        if period < 10 {
            return None;
        }
        self.collector.refresh_skip = self.collector.refresh_skip.min(period);
        if self.collector.refresh_skip > 0 {
            return None;
        }
        self.collector.refresh_skip = period;
        let full = self.blocks.iter().filter(|(_, info)| info.state == BlockState::Full);
        let oldest = full.min_by_key(|(_, info)| info.sequence).map(|(block, _)| block);
        self.statistics.refreshes += u64::from(oldest.is_some());
        oldest
    }

    fn find_prioritised(&mut self) -> Option<u32> {
        let wanted: Vec<u32> = self
            .blocks
            .iter()
            .filter(|(_, info)| info.is_prioritised && info.state != BlockState::Dead)
            .map(|(block, _)| block)
            .collect();
        if wanted.is_empty() {
            self.collector.has_prioritised = false;
            return None;
        }
        for block in wanted {
            if self.blocks.get(block).state == BlockState::Full && self.may_collect(block) {
                return Some(block);
            }
        }
        // Something older is in the way.
        self.oldest_dirty.map(|(_, block)| block)
    }

    fn find_victim(&mut self, is_aggressive: bool, is_background: bool) -> Option<u32> {
        if self.profile.collector == CollectorKind::Foreground {
            return self.find_old_victim(is_aggressive);
        }
        let mut selected = None;
        // Damaged blocks are not moved when space is short: they may be full of live chunks.
        if self.collector.has_prioritised && !is_aggressive {
            self.collector.dirtiest = None;
            selected = self.find_prioritised();
        }
        if selected.is_none() {
            let (threshold, looks) = self.limits(is_aggressive, is_background);
            for _ in 0..looks {
                if self.collector.dirtiest.is_some_and(|(_, live)| live <= GOOD_ENOUGH) {
                    break;
                }
                self.look_at_next();
            }
            let dirtiest = self.collector.dirtiest.filter(|(_, live)| *live <= threshold);
            selected = dirtiest.map(|(block, _)| block);
        }
        if selected.is_none() && self.collector.not_done >= if is_background { 10 } else { 20 } {
            self.find_oldest_dirty();
            match self.oldest_dirty {
                Some((_, block)) => {
                    self.statistics.oldest_dirty_gcs += 1;
                    selected = Some(block);
                }
                None => self.collector.not_done = 0,
            }
        }
        if selected.is_some() {
            self.statistics.gc_blocks += 1;
            self.statistics.background_gcs += u64::from(is_background);
            self.collector.dirtiest = None;
            self.collector.not_done = 0;
            self.collector.refresh_skip = self.collector.refresh_skip.saturating_sub(1);
        } else {
            self.collector.not_done += 1;
        }
        selected
    }

    /// Live chunks a victim may have, and blocks that are looked at.
    fn limits(&self, is_aggressive: bool, is_background: bool) -> (u32, u32) {
        if is_aggressive {
            return (self.pages_per_block, self.blocks.count());
        }
        let share = if is_background { 2 } else { 8 };
        let highest = (self.pages_per_block / share).max(PASSIVE_THRESHOLD);
        // The background task grows less choosy with each search in vain; a writer only takes
        // victims with at most the passive threshold of live chunks.
        let wanted = if is_background { (self.collector.not_done + 2) * 2 } else { 0 };
        let threshold = wanted.max(PASSIVE_THRESHOLD).min(highest);
        (threshold, (self.blocks.count() / 16 + 1).min(100))
    }

    fn look_at_next(&mut self) {
        self.collector.finder = self.blocks.next_after(self.collector.finder);
        let block = self.collector.finder;
        let info = *self.blocks.get(block);
        let live = info.live_pages();
        let is_better = self.collector.dirtiest.is_none_or(|(_, fewest)| live < fewest);
        if info.state == BlockState::Full
            && live < self.pages_per_block
            && is_better
            && self.may_collect(block)
        {
            self.collector.dirtiest = Some((block, live));
        }
    }

    /// Source: `yaffs_FindBlockForGarbageCollection` of a 2.6.32 tree.
    fn find_old_victim(&mut self, is_aggressive: bool) -> Option<u32> {
        if self.collector.has_prioritised
            && let Some(block) = self.find_prioritised()
        {
            self.statistics.gc_blocks += 1;
            return Some(block);
        }
        self.collector.skip -= 1;
        if !is_aggressive && self.collector.skip > 0 {
            return None;
        }
        let (mut fewest, looks) = if is_aggressive {
            (self.pages_per_block, self.blocks.count())
        } else {
            (OLD_PASSIVE_CHUNKS + 1, (self.blocks.count() / 16 + 1).min(200))
        };
        let mut selected = None;
        for _ in 0..looks {
            if fewest == 0 {
                break;
            }
            self.collector.finder = self.blocks.next_after(self.collector.finder);
            let block = self.collector.finder;
            let info = *self.blocks.get(block);
            if info.state == BlockState::Full
                && info.live_pages() < fewest
                && self.may_collect(block)
            {
                (fewest, selected) = (info.live_pages(), Some(block));
            }
        }
        // The 2.6.32 tree forgets it at the end of every search; the next shrink header that is
        // looked at costs a walk over all blocks.
        self.oldest_dirty = None;
        if selected.is_none() && is_aggressive && self.collector.not_done >= 20 {
            self.find_oldest_dirty();
            selected = self.oldest_dirty.map(|(_, block)| block);
        }
        if selected.is_some() {
            self.collector.skip = OLD_SKIP;
            self.collector.not_done = 0;
            self.statistics.gc_blocks += 1;
        } else {
            self.collector.not_done += 1;
        }
        selected
    }

    /// Copies some or all live chunks of a block.
    async fn collect_block(&mut self, block: u32, is_whole: bool) {
        let _work = self.mtd.work("garbage collection");
        debug_assert!(
            !self.has_sound_accounts || self.blocks.get(block).state == BlockState::Full,
            "victim {block} is {:?}",
            self.blocks.get(block).state
        );
        let was_checkpoint = self.blocks.get(block).state == BlockState::Checkpoint;
        let info = self.blocks.get_mut(block);
        if info.state == BlockState::Full {
            info.state = BlockState::Collecting;
        }
        // Cleared before the copies, or the block could not be erased with its last chunk
        // (`delete_chunk`). That it may go was asked when it was chosen.
        info.has_shrink_header = false;
        // The copies call the allocator, and the deletions may erase: neither may begin another
        // collection inside this one (`gc_disable`).
        self.collector.is_disabled = true;
        self.summary_release(block);
        if was_checkpoint || !self.blocks.is_any_used(block) {
            self.erase_dirty_block(block).await;
        } else {
            let few = if self.profile.collector == CollectorKind::Foreground { 10 } else { 5 };
            let mut copies_left = if is_whole { self.pages_per_block } else { few };
            while self.collector.page < self.pages_per_block
                && self.blocks.get(block).state == BlockState::Collecting
                && copies_left > 0
            {
                let chunk = self.chunk(BlockPage { block, page: self.collector.page });
                self.collector.page += 1;
                if self.blocks.is_used(chunk) {
                    copies_left -= 1;
                    if !self.move_chunk(chunk).await {
                        // No space: the chunk stays where it is. The real loop counts it as done, too.
                        break;
                    }
                }
            }
        }
        let info = self.blocks.get_mut(block);
        if info.state == BlockState::Collecting {
            // Checkpoints know nothing of collecting. A block that kept a chunk for want of space stays
            // the victim until its last chunk is deleted; nothing else is collected before
            // (`yaffs_gc_block` leaves `gc_block` alone then).
            info.state = BlockState::Full;
        } else {
            self.collector.block = None;
            self.collector.page = 0;
        }
        self.collector.is_disabled = false;
    }

    /// Writes a chunk again; false if there was no space.
    async fn move_chunk(&mut self, chunk: u32) -> bool {
        let mut data = vec![0; self.chunk_bytes as usize];
        // How well it could be read is not asked: the data are copied as they are, with a fresh ECC
        // that hides the damage. The real `yaffs_gc_process_chunk` does so too.
        let (tags, _) = self.read_chunk(chunk, &mut data).await;
        let Some(object) = self.objects.live(tags.object) else {
            self.delete_stray(chunk, &tags).await;
            return true;
        };
        let place = match object.file() {
            Some(file) if tags.chunk > 0 => file.tree.get(tags.chunk),
            _ if tags.chunk == 0 => object.header_chunk,
            _ => 0,
        };
        if place != chunk {
            // Tags that the ECC gave up, or a chunk that nothing refers to.
            self.delete_stray(chunk, &tags).await;
            return true;
        }
        let stored = object.file().map(|file| file.stored_bytes);
        self.statistics.gc_copies += 1;
        let mut new_tags = tags;
        if tags.chunk == 0 {
            // The move makes the header younger than chunks which it never concerned; a shrink or
            // shadow flag carried along would void them (`yaffs_gc_process_chunk`).
            Header::clear_flags(&mut data, stored, self.header_form());
            new_tags = cleared_tags(tags, stored);
        }
        // Copy first, then the pointer, then the old chunk: a cut leaves two copies, and the scan
        // keeps the one in the younger block. The reserve exists for this write.
        let Ok(new_chunk) = self.write_new_chunk(&data, new_tags, true).await else {
            return false;
        };
        if tags.chunk == 0 {
            if let Some(object) = self.objects.get_mut(tags.object) {
                object.header_chunk = new_chunk;
            }
        } else {
            self.with_tree(tags.object, |tree| tree.set(tags.chunk, new_chunk));
        }
        debug_assert_ne!(
            self.block_of(new_chunk),
            self.block_of(chunk),
            "a copy leaves the block that is collected"
        );
        self.delete_chunk(chunk).await;
        true
    }

    /// Frees a chunk to whose tags nothing refers: one of a summary that was not completed, or one whose
    /// tags are damaged. The owner of the latter goes on naming it.
    async fn delete_stray(&mut self, chunk: u32, tags: &Tags) {
        self.has_sound_accounts &= tags.object == OBJECT_SUMMARY;
        self.delete_chunk(chunk).await;
    }
}

/// Tags of a header that neither shrinks nor shadows any more.
fn cleared_tags(mut tags: Tags, stored: Option<u64>) -> Tags {
    if let Some(extra) = &mut tags.extra {
        extra.is_shrink = false;
        extra.shadows = false;
        match stored.map(u32::try_from) {
            Some(Ok(size)) => extra.size_or_equivalent = size,
            // The size needs the page: no extra info.
            Some(Err(_)) => return Tags::header(tags.object, None),
            None => {}
        }
    }
    tags
}
