//! The disk address translation file: where virtual blocks are, and in which checkpoints they live.
//!
//! Source: `fs/nilfs2/dat.c`.
//!
//! May use: `engine`, `file`, `finding`, `records`.

use crate::engine::Engine;
use crate::file::EntryBlock;
use crate::finding::Code;
use crate::records::{DAT_ENTRY_BYTES, DatEntry, FIRST_CHECKPOINT, NO_END};
use fs_api::{Errno, Place};

impl Engine {
    async fn change_dat(
        &self,
        number: u64,
        change: impl FnOnce(&mut DatEntry),
    ) -> Result<DatEntry, Errno> {
        let (buffer, at) = self.known_entry_block(&self.dat, number).await?;
        let mut data = buffer.data.borrow_mut();
        let raw = &mut data[at..at + DAT_ENTRY_BYTES];
        let before = DatEntry::decode(raw);
        let mut entry = before;
        change(&mut entry);
        entry.encode(raw);
        drop(data);
        self.dat.dirty(&buffer);
        Ok(before)
    }

    /// What is known of a virtual block.
    pub(crate) async fn dat_entry(&self, number: u64) -> Result<DatEntry, Errno> {
        let (buffer, at) = self.known_entry_block(&self.dat, number).await?;
        Ok(DatEntry::decode(&buffer.data.borrow()[at..]))
    }

    /// Block of the device that holds a virtual block.
    pub(crate) async fn dat_translate(&self, number: u64) -> Result<u64, Errno> {
        let entry = self.dat_entry(number).await?;
        // A map leads to a number that no log has placed: its block must be in memory, so a read is
        // damage.
        if entry.block == 0 {
            return Err(self.damaged(
                Code::BadMap,
                Place::Block(number),
                format!("virtual block {number} is nowhere"),
            ));
        }
        Ok(entry.block)
    }

    /// Block of the device that holds a virtual block, if there is such a one.
    pub(crate) async fn dat_place(&self, number: u64) -> Result<Option<u64>, Errno> {
        let (block, at) = self.layout(&self.dat).entry(number);
        self.dat.asked_for(EntryBlock::Entries, block);
        let Some(buffer) = Box::pin(self.data_block(&self.dat, block)).await? else {
            return Ok(None);
        };
        let entry = DatEntry::decode(&buffer.data.borrow()[at..]);
        Ok((entry.block != 0).then_some(entry.block))
    }

    /// A new virtual block.
    pub(crate) async fn dat_allocate(&self, target: u64) -> Result<u64, Errno> {
        let number = self.allocate_entry(&self.dat, target).await?;
        let (buffer, at) = self.entry_block(&self.dat, number).await?;
        // Start and place follow with the log (`nilfs_dat_commit_alloc`).
        let entry = DatEntry { block: 0, start: FIRST_CHECKPOINT, end: NO_END };
        entry.encode(&mut buffer.data.borrow_mut()[at..at + DAT_ENTRY_BYTES]);
        self.dat.dirty(&buffer);
        Ok(number)
    }

    /// A virtual block gets its place in the log that is being made.
    pub(crate) async fn dat_start(&self, number: u64, block: u64) -> Result<(), Errno> {
        let checkpoint = self.position.get().checkpoint;
        let place = |entry: &mut DatEntry| (entry.start, entry.block) = (checkpoint, block);
        self.change_dat(number, place).await.map(|_| ())
    }

    /// A virtual block is not used any more from the next checkpoint on; if it `dies`, no checkpoint
    /// shows it. One that was never written is free at once.
    pub(crate) async fn dat_end(&self, number: u64, dies: bool) -> Result<(), Errno> {
        let checkpoint = self.position.get().checkpoint;
        let end = |entry: &mut DatEntry| {
            if entry.block == 0 {
                *entry = DatEntry { block: 0, start: FIRST_CHECKPOINT, end: FIRST_CHECKPOINT };
            } else {
                // An empty life: blocks of the checkpoint file and the usage file are shown by no
                // older checkpoint.
                entry.end = if dies { entry.start } else { checkpoint };
            }
        };
        let before = self.change_dat(number, end).await?;
        if before.block == 0 {
            self.free_entry(&self.dat, number).await?;
        }
        Ok(())
    }

    /// The cleaner moves a block.
    pub(crate) async fn dat_move(&self, number: u64, block: u64) -> Result<(), Errno> {
        self.change_dat(number, |entry| entry.block = block).await.map(|_| ())
    }

    /// The entry's block belongs to the next log.
    pub(crate) async fn dat_mark_dirty(&self, number: u64) -> Result<(), Errno> {
        let (buffer, _) = self.known_entry_block(&self.dat, number).await?;
        self.dat.dirty(&buffer);
        Ok(())
    }

    /// The cleaner gives the number of a dead block back.
    pub(crate) async fn dat_free(&self, number: u64) -> Result<(), Errno> {
        self.free_entry(&self.dat, number).await
    }
}
