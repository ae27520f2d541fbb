//! The cleaner: a daemon that makes segments clean by moving what is still in use.
//!
//! Which segments, when, and what of them is in use follows `nilfs_cleanerd` of nilfs-utils 2.2 (policy
//! "timestamp"); moving follows `nilfs_clean_segments` and `nilfs_ioctl_*` of `fs/nilfs2`.

use crate::collect::Mode;
use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::file_system::Nilfs2;
use crate::profile::Profile;
use crate::records::{DAT_INODE, NO_END};
use crate::recovery::{FoundLog, LogReader};
use crate::summary::{BlockInfo, FileInfo, LogHeader};
use medium::Submitter;
use posix::Errno;
use std::rc::Rc;

/// Settings of the daemon (`nilfs_cleanerd.conf`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanerSettings {
    /// Checkpoints younger than this are kept, seconds.
    pub protection_period_s: u64,
    /// Cleaning begins below so many clean segments, percent; always if zero.
    pub min_clean_percent: u64,
    /// Cleaning ends at so many clean segments, percent.
    pub max_clean_percent: u64,
    /// Time between looks at the number of clean segments, seconds.
    pub clean_check_interval_s: u64,
    /// Segments cleaned at once.
    pub segments_per_clean: usize,
    /// Time between cleanings, seconds.
    pub cleaning_interval_s: u64,
    /// Segments cleaned at once when clean segments are below the minimum.
    pub urgent_segments_per_clean: usize,
    /// Time between cleanings then, seconds.
    pub urgent_cleaning_interval_s: u64,
    /// Segments of which less can be won are left alone, percent.
    pub min_reclaimable_percent: u64,
    /// The same when clean segments are below the minimum.
    pub urgent_min_reclaimable_percent: u64,
}

impl Default for CleanerSettings {
    fn default() -> Self {
        Self {
            protection_period_s: 3600,
            min_clean_percent: 10,
            max_clean_percent: 20,
            clean_check_interval_s: 10,
            segments_per_clean: 2,
            cleaning_interval_s: 5,
            urgent_segments_per_clean: 4,
            urgent_cleaning_interval_s: 1,
            min_reclaimable_percent: 10,
            urgent_min_reclaimable_percent: 1,
        }
    }
}

impl CleanerSettings {
    /// The daemon of a kernel's time.
    pub fn of(profile: &Profile) -> Self {
        let settings = Self::default();
        if profile.cleaner_has_limits {
            return settings;
        }
        // The first daemons cleaned two segments every five seconds, whatever there was to win.
        Self {
            min_clean_percent: 0,
            max_clean_percent: 100,
            min_reclaimable_percent: 0,
            urgent_min_reclaimable_percent: 0,
            ..settings
        }
    }
}

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

impl Nilfs2 {
    /// Cleans so many segments once.
    ///
    /// # Errors
    /// The file system's.
    pub async fn clean(
        &self,
        settings: &CleanerSettings,
        segments: usize,
        min_reclaimable_percent: u64,
    ) -> Result<Cleaned, Errno> {
        self.engine.may_write()?;
        self.engine.clean(settings, segments, min_reclaimable_percent).await
    }

    /// The daemon; it ends with the mount or an error.
    pub async fn run_cleaner(&self, settings: CleanerSettings) -> Result<(), Errno> {
        let engine = &self.engine;
        let total = engine.geometry.segments;
        let mut is_cleaning = settings.min_clean_percent == 0;
        loop {
            let clean_percent = engine.clean_segments.get() * 100 / total;
            let is_urgent = clean_percent < settings.min_clean_percent;
            is_cleaning |= is_urgent;
            if clean_percent >= settings.max_clean_percent && settings.min_clean_percent > 0 {
                is_cleaning = false;
            }
            let (segments, percent, interval_s) = if is_urgent {
                (
                    settings.urgent_segments_per_clean,
                    settings.urgent_min_reclaimable_percent,
                    settings.urgent_cleaning_interval_s,
                )
            } else {
                (
                    settings.segments_per_clean,
                    settings.min_reclaimable_percent,
                    settings.cleaning_interval_s,
                )
            };
            let mut pause_s = settings.clean_check_interval_s;
            if is_cleaning {
                self.clean(&settings, segments, percent).await?;
                pause_s = interval_s;
            }
            engine.sim.sleep(pause_s * 1_000_000_000).await;
        }
    }
}

impl Engine {
    async fn clean(
        &self,
        settings: &CleanerSettings,
        segments: usize,
        min_reclaimable_percent: u64,
    ) -> Result<Cleaned, Errno> {
        let protected = self.protected_checkpoint(settings.protection_period_s).await?;
        let candidates = self.candidates().await?;
        let snapshots = self.snapshots().await?;
        let mut sorted = Sorted::default();
        let per_segment = self.geometry.blocks_per_segment;
        for segment in candidates {
            if sorted.segments.len() >= segments {
                break;
            }
            if let Some(found) = self.sort_segment(segment, protected, &snapshots).await? {
                let reclaimable = per_segment.saturating_sub(found.live.len() as u64);
                if reclaimable * 100 < per_segment * min_reclaimable_percent {
                    continue;
                }
                sorted.segments.push(segment);
                sorted.live.extend(found.live);
                sorted.freed.extend(found.freed);
                sorted.periods.extend(found.periods);
            }
        }
        if sorted.segments.is_empty() {
            return Ok(Cleaned::default());
        }
        self.check_superblock_age();
        self.move_blocks(sorted).await
    }

    /// First checkpoint that the protection period keeps.
    async fn protected_checkpoint(&self, period_s: u64) -> Result<u64, Errno> {
        let since = self.now_s().saturating_sub(period_s);
        let all = self.checkpoints().await?;
        let is_young =
            |created: u64| if period_s == 0 { created > since } else { created >= since };
        let first = all.iter().find(|checkpoint| is_young(checkpoint.created));
        Ok(first.map_or(self.position.get().last_checkpoint, |checkpoint| checkpoint.number))
    }

    /// Segments that hold logs and are not being written, the oldest first.
    async fn candidates(&self) -> Result<Vec<u64>, Errno> {
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
        Ok(found.into_iter().map(|(_, segment)| segment).collect())
    }

    /// What of a segment is in use; none if recovery may still need it.
    async fn sort_segment(
        &self,
        segment: u64,
        protected: u64,
        snapshots: &[u64],
    ) -> Result<Option<Sorted>, Errno> {
        let usage = self.segment_usage(segment).await?;
        let mut sorted = Sorted::default();
        let (first, end) = self.geometry.segment_range(segment);
        let reader = LogReader::new(self.medium.clone(), self.geometry);
        let failed = |error| self.failed(error);
        let mut start = first;
        let mut sequence = None;
        while start < first + u64::from(usage.blocks) && start < end {
            let head = reader.read(start, 1).await.map_err(failed)?;
            let Some(header) = LogHeader::decode(&head) else { break };
            if header.sequence >= self.position.get().protected_sequence {
                return Ok(None);
            }
            if *sequence.get_or_insert(header.sequence) != header.sequence {
                break;
            }
            let blocks = u64::from(header.blocks);
            if start + blocks > end + 1 {
                break;
            }
            let log = FoundLog { start, header };
            let files = reader.files(&log).await.map_err(failed)?;
            let (files, block) = files.map_err(|why| self.damaged(why))?;
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
                let is_live = entry.end == NO_END
                    || (entry.start < entry.end
                        && (entry.end > protected || snapshots.iter().any(is_shown)));
                if is_live {
                    sorted.live.push(resident);
                } else {
                    sorted.freed.push(info.virtual_block);
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
        let mut files: Vec<Rc<File>> = Vec::new();
        for resident in sorted.live.iter().filter(|resident| resident.file.inode != DAT_INODE) {
            let (inode, checkpoint) = (resident.file.inode, resident.file.checkpoint);
            let is_it = |file: &&Rc<File>| {
                file.number == inode && file.cleaned_checkpoint == Some(checkpoint)
            };
            let file = files.iter().find(is_it).cloned().unwrap_or_else(|| {
                let file = File::for_cleaner(&self.sim, inode, checkpoint);
                files.push(file.clone());
                file
            });
            let read = self.medium.read(resident.block, 1, Submitter::Cleaner).await;
            let data = read.map_err(|error| self.failed(error))?;
            let virtual_block = resident.info.virtual_block;
            let key = if resident.is_node { virtual_block } else { resident.info.offset };
            let buffer = Buffer::new(key, data, resident.is_node);
            buffer.is_dirty.set(true);
            buffer.virtual_block.set(virtual_block);
            let buffers = if resident.is_node { &file.nodes } else { &file.data };
            buffers.borrow_mut().insert(key, buffer);
        }
        let _alone = self.transactions.write().await;
        let mut periods = sorted.periods;
        periods.sort_unstable();
        periods.dedup();
        for (start, end) in periods {
            cleaned.deleted_checkpoints += self.delete_checkpoints(start, end).await?;
        }
        for number in &sorted.freed {
            self.dat_free(*number).await?;
        }
        for resident in sorted.live.iter().filter(|resident| resident.file.inode == DAT_INODE) {
            if let Some(buffer) = self.dat_block_at(resident).await? {
                self.dat.dirty(&buffer);
            }
        }
        // Blocks of users' files that changed meanwhile are in the same checkpoint; the place that
        // was read is theirs no more, and what was copied of it is never looked at.
        *self.cleaned_files.borrow_mut() = files;
        self.constructor.freed_segments.borrow_mut().clone_from(&sorted.segments);
        self.construct(Mode::Checkpoint, Submitter::Cleaner).await?;
        if self.options.discards {
            for segment in sorted.segments {
                let (first, end) = self.geometry.segment_range(segment);
                self.medium.discard(first, end + 1 - first);
            }
        }
        Ok(cleaned)
    }
}
