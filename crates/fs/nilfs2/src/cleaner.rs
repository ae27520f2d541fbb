//! Cleaning: segments become clean when what is still in use of them is moved.
//!
//! What is in use follows `nilfs_reclaim_segment` of nilfs-utils 2.2; moving follows
//! `nilfs_clean_segments` and `nilfs_ioctl_*` of `fs/nilfs2`. When it is done is the daemon's matter.
//!
//! May use: `cleaner_settings`, `engine`, `file`, `file_system`, `finding`, `node`, `records`, `recovery`,
//! `segment_writer`, `summary`.

use crate::cleaner_settings::CleanerSettings;
use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::file_system::Nilfs2;
use crate::finding::Code;
use crate::records::{DAT_INODE, NO_END};
use crate::recovery::{FoundLog, LogReader};
use crate::segment_writer::Mode;
use crate::summary::{BlockInfo, FileInfo, LogHeader};
use fs_api::{Errno, Place};
use std::rc::Rc;

/// What a cleaning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Segments that became clean.
    pub segments: u64,
    /// Blocks that were moved.
    pub moved_blocks: u64,
    /// Virtual blocks that nothing shows any more.
    pub freed_blocks: u64,
    /// Checkpoints that are gone.
    pub deleted_checkpoints: u64,
}

/// A block in a segment that is to be cleaned.
struct Resident {
    file: FileInfo,
    is_node: bool,
    info: BlockInfo,
    block: u64,
}

/// What of some segments is in use.
#[derive(Default)]
struct Sorted {
    segments: Vec<u64>,
    /// In use: to be moved.
    live: Vec<Resident>,
    /// Virtual blocks that are free now.
    freed: Vec<u64>,
    /// Checkpoints that showed them, from the first to before the last.
    periods: Vec<(u64, u64)>,
}

/// What became of segments that the daemon chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reclaimed {
    /// Recovery may still need all of them.
    Protected,
    /// There is too little to win.
    Deferred,
    /// Their live blocks were moved; the segments are clean.
    Cleaned,
}

impl Sorted {
    fn extend(&mut self, other: Self) {
        self.segments.extend(other.segments);
        self.live.extend(other.live);
        self.freed.extend(other.freed);
        self.periods.extend(other.periods);
    }
}

impl Nilfs2 {
    /// Cleans so many segments once.
    ///
    /// # Errors
    /// [`Errno::Erofs`] on a mount for reading, [`Errno::Enospc`] without a clean segment for the copies,
    /// [`Errno::Eio`] for damaged logs or a device that fails.
    pub async fn clean(
        &self,
        settings: &CleanerSettings,
        segments: usize,
        min_reclaimable_percent: u64,
    ) -> Result<Cleaned, Errno> {
        self.engine.may_write()?;
        self.engine.clean(settings, segments, min_reclaimable_percent).await
    }
}

impl Engine {
    async fn clean(
        &self,
        settings: &CleanerSettings,
        segments: usize,
        min_reclaimable_percent: u64,
    ) -> Result<Cleaned, Errno> {
        // The choice is made without the transaction lock, as the daemon does it outside the
        // kernel. What changes meanwhile is compared again when blocks move.
        let _work = self.sim.work("cleaning of segments");
        let protected = self.protected_checkpoint(settings.protection_period_s).await?;
        let snapshots = self.snapshots().await?;
        let mut sorted = Sorted::default();
        let least = self.geometry.blocks_per_segment * min_reclaimable_percent;
        for (_, segment) in self.candidates().await? {
            if sorted.segments.len() >= segments {
                break;
            }
            if let Some(found) = self.sort_segment(segment, protected, &snapshots).await?
                && self.reclaimable_blocks(&found) * 100 >= least
            {
                sorted.extend(found);
            }
        }
        self.move_sorted(sorted).await
    }

    /// Cleans those of some segments that recovery needs no more (`nilfs_xreclaim_segment`). If there is
    /// less to win of them than asked for, they are only marked as looked at now.
    pub(crate) async fn reclaim(
        &self,
        segments: &[u64],
        period_s: u64,
        min_reclaimable_percent: u64,
    ) -> Result<Reclaimed, Errno> {
        let _work = self.sim.work("cleaning of segments");
        let protected = self.protected_checkpoint(period_s).await?;
        let snapshots = self.snapshots().await?;
        let mut sorted = Sorted::default();
        for segment in segments {
            if let Some(found) = self.sort_segment(*segment, protected, &snapshots).await? {
                sorted.extend(found);
            }
        }
        if sorted.segments.is_empty() {
            return Ok(Reclaimed::Protected);
        }
        let all = self.geometry.blocks_per_segment * sorted.segments.len() as u64;
        if self.reclaimable_blocks(&sorted) * 100 < all * min_reclaimable_percent {
            let _alone = self.transactions.write().await;
            for segment in sorted.segments {
                let usage = self.segment_usage(segment).await?;
                let now_s = self.now_s();
                self.count_segment_blocks(segment, usage.blocks, Some(now_s)).await?;
            }
            return Ok(Reclaimed::Deferred);
        }
        self.move_sorted(sorted).await.map(|_| Reclaimed::Cleaned)
    }

    /// Blocks that nothing shows of segments that are to be cleaned.
    fn reclaimable_blocks(&self, sorted: &Sorted) -> u64 {
        let all = self.geometry.blocks_per_segment * sorted.segments.len() as u64;
        all.saturating_sub(sorted.live.len() as u64)
    }

    async fn move_sorted(&self, sorted: Sorted) -> Result<Cleaned, Errno> {
        if sorted.segments.is_empty() {
            return Ok(Cleaned::default());
        }
        // A segment is reused only after the superblocks point past its logs. A construction for
        // the cleaner may therefore have to write one.
        self.check_superblock_age();
        self.move_blocks(sorted).await
    }

    /// First checkpoint that the protection period keeps.
    async fn protected_checkpoint(&self, period_s: u64) -> Result<u64, Errno> {
        let since = self.now_s().saturating_sub(period_s);
        let all = self.checkpoints().await?;
        let is_young =
            // A period of zero protects nothing, not even a checkpoint of this very second.
            |created: u64| if period_s == 0 { created > since } else { created >= since };
        let first = all.iter().find(|checkpoint| is_young(checkpoint.created));
        Ok(first.map_or(self.position.get().last_checkpoint, |checkpoint| checkpoint.number))
    }

    /// When they were written and numbers of the segments that hold logs and are not being written, the
    /// oldest first (`nilfs_suinfo_reclaimable`).
    pub(crate) async fn candidates(&self) -> Result<Vec<(u64, u64)>, Errno> {
        let mut found = Vec::new();
        let position = self.position.get();
        for segment in 0..self.geometry.segments {
            let usage = self.segment_usage(segment).await?;
            let is_active = segment == position.segment || segment == position.next_segment;
            if usage.is_dirty() && !usage.has_error() && !is_active {
                found.push((usage.modified, segment));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// What of a segment is in use; none if recovery may still need it.
    async fn sort_segment(
        &self,
        segment: u64,
        protected: u64,
        snapshots: &[u64],
    ) -> Result<Option<Sorted>, Errno> {
        let usage = self.segment_usage(segment).await?;
        let mut sorted = Sorted { segments: vec![segment], ..Sorted::default() };
        let (first, end) = self.geometry.segment_range(segment);
        let reader = LogReader::of_cleaner(self.medium.clone(), self.geometry);
        let failed = |error| self.failed(error);
        let mut start = first;
        let mut sequence = None;
        while start < first + u64::from(usage.blocks) && start < end {
            let head = reader.read(start..start + 1).await.map_err(failed)?;
            let Some(header) = LogHeader::decode(&head) else { break };
            // A mount after a cut begins at the log that the superblocks name, and walks from
            // there: these segments must keep their logs.
            if header.sequence >= self.position.get().protected_sequence {
                return Ok(None);
            }
            // The rest of the segment is from an earlier use of it.
            if *sequence.get_or_insert(header.sequence) != header.sequence {
                break;
            }
            let blocks = u64::from(header.blocks);
            if start + blocks > end + 1 {
                break;
            }
            let log = FoundLog { start, header };
            let files = reader.files(&log).await.map_err(failed)?;
            let (files, block) =
                files.map_err(|why| self.damaged(Code::DamagedLog, Place::Whole, why))?;
            self.sort_log(&files, block, protected, snapshots, &mut sorted).await?;
            start += blocks;
        }
        Ok(Some(sorted))
    }

    async fn sort_log(
        &self,
        files: &[FileInfo],
        mut block: u64,
        protected: u64,
        snapshots: &[u64],
        sorted: &mut Sorted,
    ) -> Result<(), Errno> {
        for file in files {
            for (index, info) in file.blocks.iter().enumerate() {
                let resident = Resident {
                    file: FileInfo { blocks: Vec::new(), ..file.clone() },
                    is_node: index >= file.data_blocks as usize,
                    info: *info,
                    block,
                };
                block += 1;
                // The DAT has no virtual numbers, so its map says whether a block is in use. Only
                // the newest DAT counts: the super root names no other.
                if file.inode == DAT_INODE {
                    if self.dat_block_at(&resident).await?.is_some() {
                        sorted.live.push(resident);
                    }
                    continue;
                }
                let entry = self.dat_entry(info.virtual_block).await?;
                if entry.block != resident.block {
                    // Another block has the number now, or a copy of this one.
                    continue;
                }
                let is_shown = |snapshot: &u64| (entry.start..entry.end).contains(snapshot);
                // A block with an end is still shown by checkpoints from `start` to before `end`:
                // it is needed if one of those is protected or a snapshot.
                let is_live = entry.end == NO_END
                    || (entry.start < entry.end
                        && (entry.end > protected || snapshots.iter().any(is_shown)));
                if is_live {
                    sorted.live.push(resident);
                } else {
                    sorted.freed.push(info.virtual_block);
                    // Equal numbers mark blocks that died within one checkpoint; no checkpoint
                    // shows them, so none is deleted.
                    if entry.start < entry.end {
                        sorted.periods.push((entry.start, entry.end));
                    }
                }
            }
        }
        Ok(())
    }

    /// The buffer of a block of the DAT, if the block is still that of the newest checkpoint.
    async fn dat_block_at(&self, resident: &Resident) -> Result<Option<Rc<Buffer>>, Errno> {
        let dat = &self.dat;
        if !resident.is_node {
            if self.map_lookup(dat, resident.info.offset).await? != Some(resident.block) {
                return Ok(None);
            }
            return self.data_block(dat, resident.info.offset).await;
        }
        let _lock = dat.map_lock.read().await;
        let level = resident.info.level;
        if !dat.map.borrow().is_tree() || crate::node::level(&dat.map.borrow().root) <= level {
            return Ok(None);
        }
        // A node block is found by its first key at the level above it
        // (`nilfs_bmap_lookup_at_level`).
        let (_, path) = self.tree_search(dat, resident.info.offset, level + 1).await?;
        if path.pointer(dat, level as usize + 1) != resident.block {
            return Ok(None);
        }
        self.node_block(dat, resident.block).await.map(Some)
    }

    /// Moves blocks in use by a checkpoint that also makes the segments clean.
    async fn move_blocks(&self, sorted: Sorted) -> Result<Cleaned, Errno> {
        let mut cleaned = Cleaned {
            segments: sorted.segments.len() as u64,
            moved_blocks: sorted.live.len() as u64,
            freed_blocks: sorted.freed.len() as u64,
            deleted_checkpoints: 0,
        };
        // Read before the lock is taken: writers go on while the device reads.
        let files = self.read_live(&sorted.live).await?;
        let _alone = self.transactions.write().await;
        let mut periods = sorted.periods;
        periods.sort_unstable();
        periods.dedup();
        // Checkpoints go first: an entry of the DAT may be freed only when no checkpoint shows its
        // block (`nilfs_ioctl_prepare_clean_segments`).
        for (start, end) in periods {
            cleaned.deleted_checkpoints += self.delete_checkpoints(start, end).await?;
        }
        for number in &sorted.freed {
            self.dat_free(*number).await?;
        }
        for resident in sorted.live.iter().filter(|resident| resident.file.inode == DAT_INODE) {
            // Looked up again under the lock: a construction since then may have moved the block.
            if let Some(buffer) = self.dat_block_at(resident).await? {
                self.dat.dirty(&buffer);
            }
        }
        // Blocks of users' files that changed meanwhile are in the same checkpoint; the place that
        // was read is theirs no more, and what was copied of it is never looked at.
        *self.cleaned_files.borrow_mut() = files;
        // The segments become clean with the checkpoint that holds the copies, never before: a cut
        // leaves either both or none.
        self.constructor.freed_segments.borrow_mut().clone_from(&sorted.segments);
        self.construct(Mode::Checkpoint).await?;
        debug_assert!(
            self.constructor.freed_segments.borrow().is_empty()
                && self.cleaned_files.borrow().is_empty(),
            "the checkpoint holds the copies, and made the segments clean"
        );
        // After the construction: the old blocks are void only when the new checkpoint is on the
        // medium (`nilfs_discard_segments`).
        if self.options.discards {
            for segment in sorted.segments {
                let (first, end) = self.geometry.segment_range(segment);
                self.medium.discard(first..end + 1);
            }
        }
        Ok(cleaned)
    }

    /// Copies of the blocks that are in use, in files that stand for the cleaned places. All reads are
    /// submitted before the first is waited for (`nilfs_ioctl_move_inode_block`).
    async fn read_live(&self, live: &[Resident]) -> Result<Vec<Rc<File>>, Errno> {
        let failed = |error| self.failed(error);
        let of_files = || live.iter().filter(|resident| resident.file.inode != DAT_INODE);
        let mut reads = Vec::new();
        for resident in of_files() {
            let read = self.medium.submit_read(resident.block, 1).await;
            reads.push(read.map_err(failed)?);
        }
        let mut files: Vec<Rc<File>> = Vec::new();
        for (resident, read) in of_files().zip(reads) {
            let (inode, checkpoint) = (resident.file.inode, resident.file.checkpoint);
            let is_it = |file: &&Rc<File>| {
                file.number == inode && file.cleaned_checkpoint == Some(checkpoint)
            };
            let file = files.iter().find(is_it).cloned().unwrap_or_else(|| {
                let file = File::for_cleaner(&self.sim, inode, checkpoint);
                files.push(file.clone());
                file
            });
            let data = read.await.map_err(failed)?;
            let virtual_block = resident.info.virtual_block;
            let key = if resident.is_node { virtual_block } else { resident.info.offset };
            let buffer = Buffer::new(key, data, resident.is_node);
            buffer.is_dirty.set(true);
            // The virtual number stays, only its place changes. The maps of the file need no
            // change, in no checkpoint.
            buffer.virtual_block.set(virtual_block);
            debug_assert_eq!(
                buffer.data.borrow().len() as u64,
                self.geometry.block_bytes,
                "a whole block is moved"
            );
            let buffers = if resident.is_node { &file.nodes } else { &file.data };
            buffers.borrow_mut().insert(key, buffer);
        }
        Ok(files)
    }
}
