//! Writing the superblocks.
//!
//! Source: `nilfs_prepare_super`, `nilfs_commit_super`, `nilfs_sync_super` and `nilfs_cleanup_super`
//! in `fs/nilfs2/super.c`.
//!
//! May use: `engine`, `superblock`.

use crate::engine::{Engine, Superblocks};
use crate::superblock::{STATE_VALID, SUPERBLOCK_BYTES, Superblock};
use block_medium::WriteFlags;
use fs_api::Errno;

/// A superblock is brought up to date at most this often, seconds.
const INTERVAL_S: u64 = 10;
/// Of so many writes in a row these do not change places, so that both places get old in turn.
const TURNS: u64 = 16;
const TURNS_KEPT: [u64; 2] = [8, 15];

impl Superblocks {
    fn newest(&self) -> &Superblock {
        &self.pair[0].1
    }
}

impl Engine {
    pub(crate) fn superblock_is_old(&self) -> bool {
        self.now_s() > self.superblocks.borrow().written_s + INTERVAL_S
    }

    /// The superblock points to the newest checkpoint (`nilfs_set_log_cursor`).
    pub(crate) async fn write_log_pointer(&self) -> Result<(), Errno> {
        let _lock = self.superblock_lock.lock().await;
        self.take_turns();
        self.set_log_pointer();
        let interval = self.options.profile.second_superblock_interval_s;
        let both = interval.is_some_and(|interval_s| {
            let pair = &self.superblocks.borrow().pair;
            pair.get(1).is_some_and(|(_, second)| self.now_s() > second.written + interval_s)
        });
        if both {
            self.copy_to_second();
        }
        self.write_superblocks(both).await
    }

    /// Brings a superblock that is out of date up to date, and makes all durable (`nilfs_sync_fs`).
    pub(crate) async fn sync_superblock(&self) -> Result<(), Errno> {
        if self.constructor.is_superblock_dirty.get() {
            self.write_log_pointer().await?;
        }
        self.flush_device().await
    }

    /// A mount that writes begins (`nilfs_setup_super`).
    pub(crate) async fn begin_superblocks(&self) -> Result<(), Errno> {
        let _lock = self.superblock_lock.lock().await;
        let now = self.now_s();
        {
            let mut all = self.superblocks.borrow_mut();
            let first = &mut all.pair[0].1;
            first.mounts = first.mounts.saturating_add(1);
            first.mounted = now;
            // From the first write on a cut must lead to a search for newer logs.
            first.state &= !STATE_VALID;
        }
        self.copy_to_second();
        self.write_superblocks(true).await
    }

    /// The mount ends: the superblocks are valid again (`nilfs_cleanup_super`).
    pub(crate) async fn end_superblocks(&self) -> Result<(), Errno> {
        let _lock = self.superblock_lock.lock().await;
        self.set_log_pointer();
        let both = {
            let mut all = self.superblocks.borrow_mut();
            let (state, last) = (all.newest().state | STATE_VALID, all.newest().last_checkpoint);
            let mut both = false;
            for (index, (_, superblock)) in all.pair.iter_mut().enumerate() {
                // Only a superblock that names the last log may call it valid
                // (`nilfs_cleanup_super`).
                if superblock.last_checkpoint == last {
                    superblock.state = state;
                    both |= index == 1;
                }
            }
            both
        };
        self.write_superblocks(both).await
    }

    /// Newer kernels write the two places in turn (`nilfs_sb_will_flip`).
    fn take_turns(&self) {
        let mut all = self.superblocks.borrow_mut();
        let alternates = self.options.profile.second_superblock_interval_s.is_none();
        if alternates && all.pair.len() == 2 && !TURNS_KEPT.contains(&(all.writes % TURNS)) {
            all.pair.swap(0, 1);
        }
    }

    fn set_log_pointer(&self) {
        let position = self.position.get();
        let free_blocks = self.clean_segments.get() * self.geometry.blocks_per_segment;
        let first = &mut self.superblocks.borrow_mut().pair[0].1;
        first.last_log = position.last_log;
        first.last_sequence = position.last_sequence;
        first.last_checkpoint = position.last_checkpoint;
        first.free_blocks = free_blocks;
    }

    fn copy_to_second(&self) {
        let mut all = self.superblocks.borrow_mut();
        let first = all.newest().clone();
        if let Some((_, second)) = all.pair.get_mut(1) {
            *second = first;
        }
    }

    async fn write_superblocks(&self, both: bool) -> Result<(), Errno> {
        let now = self.now_s();
        let writes: Vec<(u64, Superblock)> = {
            let mut all = self.superblocks.borrow_mut();
            all.writes += 1;
            all.written_s = now;
            let count = if both { 2 } else { 1 };
            all.pair.iter_mut().take(count).for_each(|(_, superblock)| superblock.written = now);
            all.pair.iter().take(count).cloned().collect()
        };
        self.constructor.is_superblock_dirty.set(false);
        for (index, (offset, superblock)) in writes.iter().enumerate() {
            // One flush before the first is enough: it covers the logs that either superblock
            // names.
            let flushes = index == 0 && self.options.profile.flushes && self.options.has_barrier;
            let flags = WriteFlags {
                is_sync: true,
                flushes_before: flushes,
                is_durable: flushes,
                ..WriteFlags::default()
            };
            self.write_superblock(*offset, superblock, flags).await?;
            if index == 0 {
                self.constructor.is_device_flushed.set(true);
            }
        }
        self.constructor.needs_superblock.set(false);
        // The older of the two decides what the cleaner may take: a mount may have to begin there.
        let oldest = self.superblocks.borrow().pair.last().map(|(_, last)| last.last_sequence);
        self.update_position(|position| {
            position.protected_sequence = oldest.unwrap_or(position.protected_sequence);
        });
        Ok(())
    }

    /// A superblock shares its block with what stands before and behind it.
    async fn write_superblock(
        &self,
        offset: u64,
        superblock: &Superblock,
        flags: WriteFlags,
    ) -> Result<(), Errno> {
        let block_bytes = self.geometry.block_bytes;
        let (block, at) = (offset / block_bytes, (offset % block_bytes) as usize);
        debug_assert!(
            at + SUPERBLOCK_BYTES <= block_bytes as usize,
            "the superblock at byte {offset} is in one block"
        );
        let known = self.superblocks.borrow().buffers.get(&block).cloned();
        let mut bytes = if let Some(bytes) = known {
            bytes
        } else {
            // It could not be read by the mount.
            let read = self.medium.read(block, 1).await;
            read.map_err(|error| self.failed(error))?
        };
        bytes[at..at + SUPERBLOCK_BYTES].copy_from_slice(&superblock.encode());
        self.superblocks.borrow_mut().buffers.insert(block, bytes.clone());
        let taken = self.medium.write(block, bytes, flags).await;
        let pending = taken.map_err(|error| self.failed(error))?;
        pending.await.map_err(|error| self.failed(error))
    }
}
