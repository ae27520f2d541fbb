//! What follows when logs are on the medium: blocks and files are clean, the next log has its place.
//!
//! Source: `nilfs_segctor_complete_write`, `nilfs_segctor_drop_written_files` in
//! `fs/nilfs2/segment.c`.
//!
//! May use: `file`, `log`, `segment_writer`, `summary`.

use crate::file::File;
use crate::log::Log;
use crate::segment_writer::{Construction, Mode};
use crate::summary::{LOG_BEGIN, LOG_END};
use std::rc::Rc;

impl Construction<'_> {
    /// All logs are on the medium.
    pub(crate) fn complete(&self, logs: &[Log]) {
        let (engine, constructor) = (self.engine, &self.engine.constructor);
        assert_chain(logs);
        debug_assert!(
            logs[0].sequence >= engine.position.get().sequence,
            "sequence numbers rise from log to log"
        );
        for part in logs.iter().flat_map(|log| &log.files) {
            let file = &part.file;
            // Metadata and directories stay in memory; pages of users' files are kept by the layer
            // above.
            if file.cleaned_checkpoint.is_none() && file.keeps_blocks() {
                continue;
            }
            let mut data = file.data.borrow_mut();
            for buffer in part.blocks.iter().filter(|buffer| !buffer.is_node) {
                data.remove(&buffer.key.get());
            }
        }
        for log in logs {
            if log.flags & LOG_END != 0 {
                constructor.is_unclosed.set(false);
            } else if log.flags & LOG_BEGIN != 0 {
                constructor.is_unclosed.set(true);
            }
        }
        let total = constructor.written_blocks.get() + self.written_blocks;
        constructor.written_blocks.set(total);
        let last = logs.last().expect("one log at least");
        engine.update_position(|position| {
            position.segment = last.segment;
            position.next_segment = last.next_segment;
            position.offset = last.start + last.blocks() - last.segment_start;
            position.sequence = last.sequence;
            if self.cleaned.is_empty() {
                position.written = self.created;
            }
        });
        debug_assert!(
            engine.position.get().offset <= engine.geometry.blocks_per_segment,
            "the next log begins in the segment or behind it"
        );
        self.release_written_files();
        let is_checkpoint = self.mode == Mode::Checkpoint;
        constructor.made_checkpoint.set(is_checkpoint);
        if is_checkpoint {
            self.complete_checkpoint(last);
        }
    }

    /// Files whose data is written leave the list.
    fn release_written_files(&self) {
        let is_checkpoint = self.mode == Mode::Checkpoint;
        let taken = |file: &Rc<File>| self.files.iter().any(|other| Rc::ptr_eq(other, file));
        self.engine.dirty_files.borrow_mut().retain(|file| {
            // Until a checkpoint its map and attributes are only in memory.
            let stays = !taken(file) || !is_checkpoint;
            file.is_queued.set(stays);
            if !stays && file.is_forgotten.get() {
                self.engine.evictions.borrow_mut().push(file.clone());
            }
            stays
        });
    }

    fn complete_checkpoint(&self, last: &Log) {
        let (engine, constructor) = (self.engine, &self.engine.constructor);
        for file in [&engine.root.ifile, &engine.cpfile, &engine.sufile, &engine.dat] {
            file.is_dirty.set(false);
        }
        constructor.is_dirty.set(false);
        constructor.has_delta.set(false);
        // New logs are in the device's cache. The next `fsync` or superblock must flush it.
        constructor.is_device_flushed.set(false);
        constructor.freed_segments.borrow_mut().clear();
        engine.cleaned_files.borrow_mut().clear();
        for file in engine.root.files.borrow().values() {
            file.needs_checkpoint.set(false);
        }
        debug_assert!(last.super_root.is_some(), "a checkpoint ends with a super root");
        debug_assert!(
            last.checkpoint > engine.position.get().last_checkpoint,
            "numbers of checkpoints rise"
        );
        let was_dirty = constructor.is_superblock_dirty.get();
        engine.update_position(|position| {
            position.last_log = last.start;
            position.last_sequence = last.sequence;
            position.last_checkpoint = position.checkpoint;
            position.checkpoint += 1;
            // A superblock is due once per segment, not once per checkpoint: a mount finds newer
            // checkpoints of the same segment by itself (`nilfs_set_last_segment`).
            if was_dirty || position.previous_sequence != last.sequence {
                constructor.is_superblock_dirty.set(true);
                position.previous_sequence = last.sequence;
            }
        });
    }
}

/// Each log follows the one before it: directly, or in the segment that it names.
fn assert_chain(logs: &[Log]) {
    for pair in logs.windows(2) {
        let (log, next) = (&pair[0], &pair[1]);
        let is_behind = next.segment == log.segment && next.start == log.start + log.blocks();
        let is_next = next.segment == log.next_segment
            && next.start == next.segment_start
            && next.sequence == log.sequence + 1;
        debug_assert!(
            is_behind || is_next,
            "the log at block {} does not follow that at block {}",
            next.start,
            log.start
        );
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{Log, assert_chain};

    #[test]
    fn logs_follow_each_other_within_a_segment_and_into_the_next() {
        assert_chain(&[
            Log::of_two_blocks(3, 96, 7),
            Log::of_two_blocks(3, 98, 7),
            Log::of_two_blocks(4, 128, 8),
        ]);
    }

    #[test]
    #[should_panic(expected = "does not follow that at block 96")]
    fn a_gap_between_two_logs_ends_the_chain() {
        assert_chain(&[Log::of_two_blocks(3, 96, 7), Log::of_two_blocks(3, 99, 7)]);
    }

    #[test]
    #[should_panic(expected = "does not follow that at block 98")]
    fn a_segment_with_the_same_sequence_number_ends_the_chain() {
        assert_chain(&[Log::of_two_blocks(3, 98, 7), Log::of_two_blocks(4, 128, 7)]);
    }
}
