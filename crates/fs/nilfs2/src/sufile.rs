//! The segment usage file.
//!
//! Source: `fs/nilfs2/sufile.c`.
//!
//! May use: `bytes`, `engine`, `file`, `finding`, `records`.

use crate::bytes::{get_u64, put_u64};
use crate::engine::Engine;
use crate::file::Buffer;
use crate::finding::Code;
use crate::records::{SEGMENT_DIRTY, SEGMENT_USAGE_BYTES, SegmentUsage};
use fs_api::{Errno, Place};
use std::rc::Rc;

/// Slots that the header takes.
const HEADER_SLOTS: u64 = 2;

/// What the file's header counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentCounts {
    pub(crate) clean: u64,
    pub(crate) dirty: u64,
    pub(crate) last_allocated: u64,
}

impl Engine {
    /// The block of a segment's usage; those behind it are read ahead, unless a missing one is made anyway.
    async fn usage_block(&self, segment: u64, is_made: bool) -> Result<(Rc<Buffer>, usize), Errno> {
        if segment >= self.geometry.segments {
            return Err(self.damaged(
                Code::BadSegment,
                Place::Block(segment),
                format!("there is no segment {segment}"),
            ));
        }
        let per_block = self.geometry.block_bytes / SEGMENT_USAGE_BYTES as u64;
        let slot = segment + HEADER_SLOTS;
        let block = slot / per_block;
        if !is_made {
            self.data_block(&self.sufile, block).await?;
        }
        let buffer = self.data_block_or_new(&self.sufile, block, |_| {}).await?;
        Ok((buffer, (slot % per_block) as usize * SEGMENT_USAGE_BYTES))
    }

    async fn header_block(&self) -> Result<Rc<Buffer>, Errno> {
        self.data_block(&self.sufile, 0).await?;
        self.data_block_or_new(&self.sufile, 0, |_| {}).await
    }

    /// State of a segment.
    pub(crate) async fn segment_usage(&self, segment: u64) -> Result<SegmentUsage, Errno> {
        let (buffer, at) = self.usage_block(segment, false).await?;
        Ok(SegmentUsage::decode(&buffer.data.borrow()[at..]))
    }

    async fn set_segment_usage(&self, segment: u64, usage: SegmentUsage) -> Result<(), Errno> {
        let (buffer, at) = self.usage_block(segment, true).await?;
        usage.encode(&mut buffer.data.borrow_mut()[at..at + SEGMENT_USAGE_BYTES]);
        self.sufile.dirty(&buffer);
        Ok(())
    }

    pub(crate) async fn segment_counts(&self) -> Result<SegmentCounts, Errno> {
        let header = self.header_block().await?;
        let data = header.data.borrow();
        Ok(SegmentCounts {
            clean: get_u64(&data, 0),
            dirty: get_u64(&data, 8),
            last_allocated: get_u64(&data, 16),
        })
    }

    async fn set_segment_counts(&self, counts: SegmentCounts) -> Result<(), Errno> {
        let header = self.header_block().await?;
        let mut data = header.data.borrow_mut();
        put_u64(&mut data, 0, counts.clean);
        put_u64(&mut data, 8, counts.dirty);
        put_u64(&mut data, 16, counts.last_allocated);
        drop(data);
        self.sufile.dirty(&header);
        // Cached because every allocation of users is compared with it (`ncleansegs` of `struct
        // nilfs_sufile_info`).
        self.clean_segments.set(counts.clean);
        Ok(())
    }

    /// Takes the next clean segment after the one that was taken last.
    pub(crate) async fn allocate_segment(&self) -> Result<u64, Errno> {
        let mut counts = self.segment_counts().await?;
        let segments = self.geometry.segments;
        for step in 1..=segments {
            // In turn over the whole device: that is all the wear levelling that NILFS2 has.
            let segment = (counts.last_allocated + step) % segments;
            let (buffer, at) = self.usage_block(segment, true).await?;
            let mut usage = SegmentUsage::decode(&buffer.data.borrow()[at..]);
            if usage.is_clean() {
                // Dirty from the allocation on, before a log is in it: a crash then costs a segment
                // for a while, never a log.
                usage.flags |= SEGMENT_DIRTY;
                self.set_segment_usage(segment, usage).await?;
                counts.clean = counts.clean.saturating_sub(1);
                counts.dirty += 1;
                counts.last_allocated = segment;
                self.set_segment_counts(counts).await?;
                return Ok(segment);
            }
        }
        Err(Errno::Enospc)
    }

    /// The segment's usage changes with the log that is being made.
    ///
    /// # Errors
    /// [`Errno::Eio`] for a segment that cannot be written, where the profile refuses it.
    pub(crate) async fn mark_segment_dirty(&self, segment: u64) -> Result<(), Errno> {
        let mut usage = self.segment_usage(segment).await?;
        // Only the segment that is being filled and the one after it can be erroneous here: no other
        // is allocated (`nilfs_sufile_mark_dirty` of `sufile.c`).
        if usage.has_error() && self.options.profile.refuses_erroneous_segments {
            return Err(self.damaged(
                Code::BadSegment,
                Place::Block(segment),
                format!("active segment {segment} is erroneous"),
            ));
        }
        let was_clean = usage.is_clean();
        // The mark of an error stays (`nilfs_segment_usage_set_dirty` sets a bit), or the segment would
        // be allocated again after it was cleaned.
        usage.flags |= SEGMENT_DIRTY;
        self.set_segment_usage(segment, usage).await?;
        if was_clean {
            let mut counts = self.segment_counts().await?;
            counts.clean = counts.clean.saturating_sub(1);
            counts.dirty += 1;
            self.set_segment_counts(counts).await?;
        }
        Ok(())
    }

    /// What logs take of a segment.
    pub(crate) async fn count_segment_blocks(
        &self,
        segment: u64,
        blocks: u32,
        modified: Option<u64>,
    ) -> Result<(), Errno> {
        let mut usage = self.segment_usage(segment).await?;
        usage.blocks = blocks;
        if let Some(modified) = modified {
            usage.modified = modified;
        }
        self.set_segment_usage(segment, usage).await
    }

    /// A segment is clean again.
    pub(crate) async fn free_segment(&self, segment: u64) -> Result<(), Errno> {
        let usage = self.segment_usage(segment).await?;
        if usage.is_clean() {
            self.note(
                Code::FreeAlready,
                Place::Block(segment),
                format!("segment {segment} was clean already"),
            );
            return Ok(());
        }
        self.set_segment_usage(segment, SegmentUsage::default()).await?;
        let mut counts = self.segment_counts().await?;
        counts.clean += 1;
        counts.dirty = counts.dirty.saturating_sub(u64::from(usage.is_dirty()));
        self.set_segment_counts(counts).await
    }

    /// A segment holds logs that a recovery used up: it is dirty without blocks in use.
    pub(crate) async fn scrap_segment(&self, segment: u64) -> Result<(), Errno> {
        let usage = self.segment_usage(segment).await?;
        let scrapped = SegmentUsage { modified: 0, blocks: 0, flags: SEGMENT_DIRTY };
        if usage == scrapped {
            return Ok(());
        }
        self.set_segment_usage(segment, scrapped).await?;
        let mut counts = self.segment_counts().await?;
        counts.clean = counts.clean.saturating_sub(u64::from(usage.is_clean()));
        counts.dirty += u64::from(!usage.is_dirty());
        self.set_segment_counts(counts).await
    }
}
