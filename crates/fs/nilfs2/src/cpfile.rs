//! The checkpoint file.
//!
//! Source: `fs/nilfs2/cpfile.c`.
//!
//! May use: `bytes`, `engine`, `file`, `finding`, `records`.

use crate::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::engine::Engine;
use crate::file::Buffer;
use crate::finding::Code;
use crate::records::{CHECKPOINT_BYTES, CHECKPOINT_INVALID, CHECKPOINT_SNAPSHOT, Checkpoint};
use fs_api::{Errno, Place};
use std::rc::Rc;

// `struct nilfs_cpfile_header` and `struct nilfs_checkpoint`: both embed a `struct
// nilfs_snapshot_list`.
/// Byte of the header's list of snapshots, next then previous; a checkpoint's stands at another.
const HEADER_LIST: usize = 16;
const CHECKPOINT_LIST: usize = 8;

/// What the file's header counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointCounts {
    pub(crate) checkpoints: u64,
    pub(crate) snapshots: u64,
}

impl Engine {
    fn checkpoints_per_block(&self) -> u64 {
        self.geometry.block_bytes / CHECKPOINT_BYTES as u64
    }

    /// Block of a checkpoint and its first byte there. The header takes slot 0, so numbers, which
    /// begin with 1, are slots.
    fn checkpoint_place(&self, number: u64) -> (u64, usize) {
        let per_block = self.checkpoints_per_block();
        (number / per_block, (number % per_block) as usize * CHECKPOINT_BYTES)
    }

    /// The block of a checkpoint, if there is one.
    async fn checkpoint_block(&self, number: u64) -> Result<Option<(Rc<Buffer>, usize)>, Errno> {
        let (block, at) = self.checkpoint_place(number);
        if number == 0 {
            return Ok(None);
        }
        Ok(self.data_block(&self.cpfile, block).await?.map(|buffer| (buffer, at)))
    }

    /// A checkpoint that can be shown.
    pub(crate) async fn checkpoint(&self, number: u64) -> Result<Option<Checkpoint>, Errno> {
        let Some((buffer, at)) = self.checkpoint_block(number).await? else { return Ok(None) };
        let checkpoint = Checkpoint::decode(&buffer.data.borrow()[at..]);
        // The number is compared because a hole in the file reads as zeros, which are a valid flag
        // word.
        let is_there = !checkpoint.is_invalid() && checkpoint.number == number;
        Ok(is_there.then_some(checkpoint))
    }

    /// All checkpoints, in order.
    pub(crate) async fn checkpoints(&self) -> Result<Vec<Checkpoint>, Errno> {
        let mut all = Vec::new();
        for block in self.map_keys(&self.cpfile).await? {
            let Some(buffer) = self.data_block(&self.cpfile, block).await? else { continue };
            let data = buffer.data.borrow();
            for slot in u64::from(block == 0)..self.checkpoints_per_block() {
                let checkpoint = Checkpoint::decode(&data[slot as usize * CHECKPOINT_BYTES..]);
                let number = block.wrapping_mul(self.checkpoints_per_block()).wrapping_add(slot);
                if !checkpoint.is_invalid() && checkpoint.number == number {
                    all.push(checkpoint);
                }
            }
        }
        Ok(all)
    }

    async fn checkpoint_header(&self) -> Result<Rc<Buffer>, Errno> {
        let found = self.data_block(&self.cpfile, 0).await?;
        found.ok_or_else(|| {
            self.damaged(Code::BadCheckpoints, Place::Whole, "the checkpoint file has no header")
        })
    }

    pub(crate) async fn checkpoint_counts(&self) -> Result<CheckpointCounts, Errno> {
        let header = self.checkpoint_header().await?;
        let data = header.data.borrow();
        Ok(CheckpointCounts { checkpoints: get_u64(&data, 0), snapshots: get_u64(&data, 8) })
    }

    async fn change_counts(&self, checkpoints: i64, snapshots: i64) -> Result<(), Errno> {
        let header = self.checkpoint_header().await?;
        let mut data = header.data.borrow_mut();
        let count = get_u64(&data, 0).saturating_add_signed(checkpoints);
        put_u64(&mut data, 0, count);
        let count = get_u64(&data, 8).saturating_add_signed(snapshots);
        put_u64(&mut data, 8, count);
        drop(data);
        self.cpfile.dirty(&header);
        Ok(())
    }

    /// Valid checkpoints of a block are counted in its first slot, but in the block of the header.
    fn count_in_block(buffer: &Buffer, change: i32) -> u32 {
        // The first slot of block 0 holds the header, so there is no place for a count; the block
        // is never removed.
        if buffer.key.get() == 0 {
            return 1;
        }
        let mut data = buffer.data.borrow_mut();
        let count = get_u32(&data, 4).saturating_add_signed(change);
        put_u32(&mut data, 4, count);
        count
    }

    /// A slot for a checkpoint that is being made.
    pub(crate) async fn create_checkpoint(&self, number: u64) -> Result<(), Errno> {
        let (block, at) = self.checkpoint_place(number);
        let invalid = |data: &mut [u8]| {
            for slot in data.chunks_exact_mut(CHECKPOINT_BYTES) {
                put_u32(slot, 0, CHECKPOINT_INVALID);
            }
        };
        // The kernel looks at the header first.
        self.checkpoint_header().await?;
        let buffer = self.data_block_or_new(&self.cpfile, block, invalid).await?;
        let flags = get_u32(&buffer.data.borrow(), at);
        // A construction that was repeated finds its slot made already, and must not count it
        // twice.
        if flags & CHECKPOINT_INVALID != 0 {
            put_u32(&mut buffer.data.borrow_mut(), at, flags & !CHECKPOINT_INVALID);
            Self::count_in_block(&buffer, 1);
            self.change_counts(1, 0).await?;
        }
        self.cpfile.dirty(&buffer);
        Ok(())
    }

    /// Fills the slot of the checkpoint that is being made; its place in the block's count stays.
    pub(crate) async fn fill_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), Errno> {
        let found = self.checkpoint_block(checkpoint.number).await?;
        let (buffer, at) = found.ok_or(Errno::Eio)?;
        let mut data = buffer.data.borrow_mut();
        let slot = &mut data[at..at + CHECKPOINT_BYTES];
        let valid_in_block = get_u32(slot, 4);
        Checkpoint { valid_in_block, ..checkpoint.clone() }.encode(slot);
        Ok(())
    }

    /// Deletes plain checkpoints from `first` to before `end`; snapshots stay.
    pub(crate) async fn delete_checkpoints(&self, first: u64, end: u64) -> Result<u64, Errno> {
        let mut deleted = 0_u64;
        let mut emptied = Vec::new();
        for number in first.max(1)..end {
            let Some((buffer, at)) = self.checkpoint_block(number).await? else { continue };
            let flags = get_u32(&buffer.data.borrow(), at);
            if flags & (CHECKPOINT_INVALID | CHECKPOINT_SNAPSHOT) != 0 {
                continue;
            }
            put_u32(&mut buffer.data.borrow_mut(), at, flags | CHECKPOINT_INVALID);
            self.cpfile.dirty(&buffer);
            deleted += 1;
            if Self::count_in_block(&buffer, -1) == 0 {
                emptied.push(buffer.key.get());
            }
        }
        // A block without valid checkpoints becomes a hole, or the file would grow for ever.
        for block in emptied {
            let _lock = self.cpfile.map_lock.write().await;
            self.map_delete(&self.cpfile, block).await?;
            self.cpfile.data.borrow_mut().remove(&block);
        }
        if deleted > 0 {
            self.change_counts(-deleted.cast_signed(), 0).await?;
        }
        Ok(deleted)
    }

    /// Next and previous of a snapshot, or of the list's head, which has number 0.
    async fn snapshot_links(&self, number: u64) -> Result<(Rc<Buffer>, usize), Errno> {
        if number == 0 {
            return Ok((self.checkpoint_header().await?, HEADER_LIST));
        }
        let found = self.checkpoint_block(number).await?;
        let (buffer, at) = found.ok_or_else(|| {
            self.damaged(
                Code::BadCheckpoints,
                Place::Whole,
                format!("snapshot {number} does not exist"),
            )
        })?;
        Ok((buffer, at + CHECKPOINT_LIST))
    }

    async fn set_link(&self, number: u64, is_previous: bool, to: u64) -> Result<(), Errno> {
        let (buffer, at) = self.snapshot_links(number).await?;
        let at = at + if is_previous { 8 } else { 0 };
        put_u64(&mut buffer.data.borrow_mut(), at, to);
        self.cpfile.dirty(&buffer);
        Ok(())
    }

    /// Numbers of all snapshots, in order.
    pub(crate) async fn snapshots(&self) -> Result<Vec<u64>, Errno> {
        let mut all = Vec::new();
        let mut number = 0;
        loop {
            let (buffer, at) = self.snapshot_links(number).await?;
            let next = get_u64(&buffer.data.borrow(), at);
            if next == 0 {
                return Ok(all);
            }
            // Numbers in the list only grow. A list that does not is damaged and could run in
            // circles.
            if next <= number {
                return Err(self.damaged(
                    Code::BadCheckpoints,
                    Place::Whole,
                    "the list of snapshots is out of order",
                ));
            }
            all.push(next);
            number = next;
        }
    }

    /// Makes a snapshot of a checkpoint, or a checkpoint of a snapshot (`chcp`).
    ///
    /// # Errors
    /// [`Errno::Enoent`] if there is no such checkpoint.
    pub(crate) async fn change_mode(&self, number: u64, is_snapshot: bool) -> Result<(), Errno> {
        let found = self.checkpoint_block(number).await?;
        let (buffer, at) = found.ok_or(Errno::Enoent)?;
        let flags = get_u32(&buffer.data.borrow(), at);
        if flags & CHECKPOINT_INVALID != 0 {
            return Err(Errno::Enoent);
        }
        if (flags & CHECKPOINT_SNAPSHOT != 0) == is_snapshot {
            return Ok(());
        }
        let others = self.snapshots().await?;
        let previous = others.iter().copied().rfind(|other| *other < number).unwrap_or(0);
        let next = others.iter().copied().find(|other| *other > number).unwrap_or(0);
        let (from_previous, from_next) = if is_snapshot {
            self.set_link(number, false, next).await?;
            self.set_link(number, true, previous).await?;
            (number, number)
        } else {
            self.set_link(number, false, 0).await?;
            self.set_link(number, true, 0).await?;
            (next, previous)
        };
        self.set_link(previous, false, from_previous).await?;
        self.set_link(next, true, from_next).await?;
        put_u32(&mut buffer.data.borrow_mut(), at, flags ^ CHECKPOINT_SNAPSHOT);
        self.cpfile.dirty(&buffer);
        self.change_counts(0, if is_snapshot { 1 } else { -1 }).await
    }
}
