//! Finding the newest checkpoint, and rolling forward what was made durable after it.
//!
//! Source: `fs/nilfs2/recovery.c`.
//!
//! May use: `engine`, `finding`, `records`, `summary`.

use crate::engine::{Engine, Geometry, LogPosition};
use crate::finding::Code;
use crate::records::{IFILE_INODE, SuperRoot};
use crate::summary::{
    FileInfo, LOG_BEGIN, LOG_DATA_SYNC, LOG_END, LOG_SUPER_ROOT, LogHeader, decode_files,
};
use block_medium::{BlockMedium, MediumError};
use fs_api::{Errno, Place};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// Blocks that are read around one that is looked at through a mapping of the device (`VM_MAX_READAHEAD`).
const READ_AROUND_BLOCKS: u64 = 32;

/// Reads logs: behind the read-ahead of whole segments that a mount issues (`sb_breadahead`), or, as the
/// cleaner does, through a mapping of the device, which reads around what is looked at.
pub(crate) struct LogReader {
    medium: Rc<dyn BlockMedium>,
    geometry: Geometry,
    /// Reads are those of a mapping of the device, as of the cleaner.
    reads_around: bool,
    /// The segment, or the piece of it, that was read ahead of last.
    ahead: Cell<Option<u64>>,
}

/// A log that was found intact.
#[derive(Clone, Debug)]
pub(crate) struct FoundLog {
    pub(crate) start: u64,
    pub(crate) header: LogHeader,
}

/// What a search for the newest checkpoint found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) position: LogPosition,
    pub(crate) super_root: SuperRoot,
    /// The first log of the checkpoint is not there, only one with its super root in a later segment.
    pub(crate) is_split: bool,
    /// Complete logs behind the checkpoint: first, its sequence number, last.
    pub(crate) forward: Option<(u64, u64, u64)>,
    /// Newest log, its sequence number, segment and next segment.
    pub(crate) last: (u64, u64, u64),
    /// Segments that logs behind the checkpoint use.
    pub(crate) used_segments: Vec<u64>,
}

impl LogReader {
    pub(crate) fn new(medium: Rc<dyn BlockMedium>, geometry: Geometry) -> Self {
        Self { medium, geometry, reads_around: false, ahead: Cell::new(None) }
    }

    /// A reader as the cleaner has it.
    pub(crate) fn of_cleaner(medium: Rc<dyn BlockMedium>, geometry: Geometry) -> Self {
        Self { medium, geometry, reads_around: true, ahead: Cell::new(None) }
    }

    /// Bytes of blocks inside a segment. What is read ahead of is not waited for, only the blocks
    /// themselves are.
    pub(crate) async fn read(&self, blocks: Range<u64>) -> Result<Vec<u8>, MediumError> {
        let block = blocks.start;
        let (first, end) = self.geometry.segment_range(self.geometry.segment_of(block));
        let ahead = if self.reads_around {
            let around = block / READ_AROUND_BLOCKS * READ_AROUND_BLOCKS;
            around.max(first)..(around + READ_AROUND_BLOCKS).min(end + 1)
        } else {
            first..end + 1
        };
        if self.ahead.replace(Some(ahead.start)) != Some(ahead.start) {
            self.read_ahead(ahead);
        }
        let mut bytes = Vec::new();
        let mut at = block;
        while at < blocks.end {
            let count = (blocks.end - at).min(self.medium.bio_blocks_max().into()) as u32;
            bytes.extend(self.medium.read_buffers(at, count).await?);
            at += u64::from(count);
        }
        Ok(bytes)
    }

    fn read_ahead(&self, blocks: Range<u64>) {
        let mut at = blocks.start;
        while at < blocks.end {
            let count = (blocks.end - at).min(self.medium.bio_blocks_max().into()) as u32;
            self.medium.read_ahead(at, count);
            at += u64::from(count);
        }
    }

    /// The log that begins at a block, if it is intact and of its segment's sequence.
    pub(crate) async fn log(
        &self,
        start: u64,
        sequence: u64,
    ) -> Result<Option<FoundLog>, MediumError> {
        let (_, end) = self.geometry.segment_range(self.geometry.segment_of(start));
        let first = self.read(start..start + 1).await?;
        let Some(header) = LogHeader::decode(&first) else { return Ok(None) };
        let blocks = u64::from(header.blocks);
        // All logs of a segment carry its number. A lower one is left over from an earlier use of
        // the segment.
        if header.sequence != sequence || blocks > end + 1 - start {
            return Ok(None);
        }
        // The whole log is read for its checksum: nothing else tells a torn log from a complete
        // one.
        let bytes = self.read(start..start + blocks).await?;
        let is_intact = header.is_intact(&bytes, self.geometry.checksum_seed);
        let next_is_there = self.geometry.segment_of(header.next) < self.geometry.segments;
        Ok((is_intact && next_is_there).then_some(FoundLog { start, header }))
    }

    /// Files of a log, with the block of the device where the payload begins.
    pub(crate) async fn files(
        &self,
        log: &FoundLog,
    ) -> Result<Result<(Vec<FileInfo>, u64), String>, MediumError> {
        let block_bytes = self.geometry.block_bytes as usize;
        let blocks = u64::from(log.header.summary_blocks(block_bytes));
        let summary = self.read(log.start..log.start + blocks).await?;
        let files = decode_files(&log.header, &summary, block_bytes);
        Ok(files.map(|files| (files, log.start + blocks)))
    }
}

/// Walks the logs from where a superblock points, and on if the mount before did not end in an orderly
/// way; the newest intact super root wins (`nilfs_search_super_root`). The error says why none is found:
/// the kernel begins at the older superblock then.
pub(crate) async fn find_checkpoint(
    reader: &LogReader,
    from: LogPosition,
    is_valid: bool,
) -> Result<Result<Found, String>, MediumError> {
    // One function, as `nilfs_search_super_root` is: place, sequence number and misses go on
    // together from log to log, and no part of the loop has a meaning alone.
    let geometry = &reader.geometry;
    let (mut start, mut sequence) = (from.last_log, from.last_sequence);
    let mut checkpoint = from.last_checkpoint;
    let mut segment = geometry.segment_of(start);
    let mut next_segment = 0;
    let mut misses = 0;
    let mut found: Option<Found> = None;
    let (mut forward_start, mut used) = (None, Vec::new());
    // The superblock names the log with the super root, and was written once the device had flushed all of them.
    let mut is_begun = true;
    loop {
        let log = reader.log(start, sequence).await?;
        if let Some(log) = log {
            misses = 0;
            let header = &log.header;
            let blocks = u64::from(header.blocks);
            next_segment = geometry.segment_of(header.next);
            // `nilfs_search_super_root` reads the next segment ahead when a log begins a segment.
            if start == geometry.segment_range(segment).0 {
                let (first, end) = geometry.segment_range(next_segment);
                reader.read_ahead(first..end + 1);
            }
            is_begun |= header.flags & LOG_BEGIN != 0;
            if header.flags & LOG_SUPER_ROOT != 0 {
                let end = start + blocks;
                let block = reader.read(end - 1..end).await?;
                let super_root = match SuperRoot::decode(&block, geometry.checksum_seed) {
                    Ok(super_root) => super_root,
                    Err(why) => return Ok(Err(why)),
                };
                let offset = start + blocks - geometry.segment_range(segment).0;
                found = Some(Found {
                    position: LogPosition {
                        segment,
                        next_segment,
                        offset,
                        sequence,
                        checkpoint: checkpoint + 1,
                        last_log: start,
                        last_sequence: sequence,
                        last_checkpoint: checkpoint,
                        protected_sequence: from.last_sequence,
                        previous_sequence: from.last_sequence,
                        written: super_root.written,
                    },
                    super_root,
                    // The kernel does not ask: it takes any log with a super root.
                    is_split: !is_begun,
                    forward: None,
                    last: (sequence, segment, next_segment),
                    used_segments: Vec::new(),
                });
                // Super roots do not store the number of their checkpoint; it follows from counting
                // on from the superblock's.
                checkpoint += 1;
                (forward_start, used) = (None, Vec::new());
                if is_valid {
                    break;
                }
            } else if let Some(found) = &mut found {
                if forward_start.is_none() && header.flags & LOG_BEGIN != 0 {
                    forward_start = Some((start, sequence));
                }
                if header.flags & LOG_END != 0
                    && let Some((first, first_sequence)) = forward_start
                {
                    found.forward = Some((first, first_sequence, start));
                }
                found.last = (sequence, segment, next_segment);
            } else {
                return Ok(Err("the superblock points to a log without a super root".into()));
            }
            is_begun &= header.flags & LOG_END == 0;
            start += blocks;
            // Less than, though the last block belongs to the segment: a log has two blocks at
            // least.
            if start < geometry.segment_range(segment).1 {
                continue;
            }
        } else if found.is_none() {
            return Ok(Err(format!("no intact log at block {start}, where the superblock points")));
        }
        // One miss may be the end of a segment that was left early; the next segment decides. Two
        // in a row end the search (`empty_seg`).
        if misses > 0 {
            break;
        }
        misses += 1;
        used.push(segment);
        sequence += 1;
        segment = next_segment;
        start = geometry.segment_range(segment).0;
    }
    let mut found = found.expect("the loop ends after one was found");
    found.used_segments = used;
    Ok(Ok(found))
}

impl Engine {
    /// Puts data of complete data-sync logs behind the checkpoint into their files; gives the number
    /// of blocks (`nilfs_do_roll_forward`).
    pub(crate) async fn roll_forward(
        &self,
        reader: &LogReader,
        found: &Found,
    ) -> Result<u64, Errno> {
        let Some((mut start, mut sequence, last)) = found.forward else { return Ok(0) };
        let geometry = &self.geometry;
        let failed = |error| self.failed(error);
        let mut segment = geometry.segment_of(start);
        let (mut next_segment, mut misses, mut salvaged) = (segment, 0, 0);
        let mut gathered: Option<Vec<(FileInfo, u64)>> = None;
        loop {
            if let Some(log) = reader.log(start, sequence).await.map_err(failed)? {
                misses = 0;
                next_segment = geometry.segment_of(log.header.next);
                let flags = log.header.flags;
                // Blocks count only when the logical segment is closed: a cut may have kept its
                // first logs only.
                if flags & LOG_BEGIN != 0 && flags & LOG_DATA_SYNC != 0 {
                    gathered = Some(Vec::new());
                }
                if flags & LOG_DATA_SYNC == 0 {
                    gathered = None;
                } else if let Some(parts) = &mut gathered {
                    let files = reader.files(&log).await.map_err(failed)?;
                    let (files, mut block) =
                        files.map_err(|why| self.damaged(Code::DamagedLog, Place::Whole, why))?;
                    for file in files {
                        let blocks = file.blocks.len() as u64;
                        parts.push((file, block));
                        block += blocks;
                    }
                    if flags & LOG_END != 0 {
                        for (file, block) in gathered.take().unwrap_or_default() {
                            salvaged += self.salvage(reader, &file, block).await?;
                        }
                    }
                }
                if start == last {
                    return Ok(salvaged);
                }
                start += u64::from(log.header.blocks);
                if start < geometry.segment_range(segment).1 {
                    continue;
                }
            }
            if misses > 0 {
                return Ok(salvaged);
            }
            misses += 1;
            sequence += 1;
            segment = next_segment;
            start = geometry.segment_range(segment).0;
        }
    }

    /// Blocks of one file in a data-sync log. Files that the checkpoint does not have are left out.
    async fn salvage(
        &self,
        reader: &LogReader,
        info: &FileInfo,
        first_block: u64,
    ) -> Result<u64, Errno> {
        // Metadata never stands in data-sync logs, and a file that the checkpoint lacks has no
        // inode to hang the data on.
        if info.inode <= IFILE_INODE || !self.has_entry(&self.root.ifile, info.inode).await? {
            return Ok(0);
        }
        let Ok(file) = self.file(info.inode).await else { return Ok(0) };
        let mut salvaged = 0;
        for (index, block) in info.blocks.iter().take(info.data_blocks as usize).enumerate() {
            let at = first_block + index as u64;
            let bytes = reader.read(at..at + 1).await;
            let bytes = bytes.map_err(|error| self.failed(error))?;
            self.put_data(&file, block.offset, bytes).await?;
            self.write_inode(&file).await?;
            salvaged += 1;
        }
        Ok(salvaged)
    }

    /// Takes the segments that rolled-forward logs used out of use, and begins a new one
    /// (`nilfs_prepare_segment_for_recovery`).
    pub(crate) async fn prepare_segments(&self, found: &Found) -> Result<(), Errno> {
        let position = self.position.get();
        let (sequence, last_segment, last_next) = found.last;
        self.free_segment(position.next_segment).await?;
        let mut scrapped = vec![position.next_segment, last_segment, last_next];
        scrapped.extend(&found.used_segments);
        scrapped.retain(|segment| *segment != position.segment);
        scrapped.sort_unstable();
        scrapped.dedup();
        for segment in &scrapped {
            self.scrap_segment(*segment).await?;
        }
        let segment = self.allocate_segment().await?;
        debug_assert!(
            !scrapped.contains(&segment),
            "segment {segment} holds logs that a second recovery needs"
        );
        self.update_position(|position| {
            position.segment = segment;
            position.next_segment = segment;
            position.offset = 0;
            // Two ahead, so that no old log, not even one behind those found, can carry the number
            // of a new segment.
            position.sequence = sequence + 2;
        });
        Ok(())
    }
}
