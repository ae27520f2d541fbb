//! When metadata is written: the flusher, `fsync`, `sync`.
//!
//! Source: `wb_writeback` of `fs/fs-writeback.c`, `fat_file_fsync` of `fs/fat/file.c`, `fat_clusters_flush` of
//! `fs/fat/misc.c`, `fat_set_state` of `fs/fat/inode.c`. The device's page cache counts as one file: when
//! the first of its dirty sectors is old enough, all are written. That metadata counts against the
//! limits of dirty memory is not modelled.
//!
//! May use: `boot`, `buffers`, `engine`, `inode`, `profile`.

use crate::buffers::Owner;
use crate::engine::Engine;
use crate::inode::Inode;
use crate::profile::FsyncScope;
use fs_api::Errno;
use process::{Process, run_as};
use std::rc::{Rc, Weak};

impl Engine {
    /// Starts the flusher; it sleeps while nothing is dirty.
    pub(crate) fn start_flusher(self: &Rc<Self>) {
        if self.options.flusher_interval_ns == 0 || self.options.is_read_only {
            return;
        }
        let engine = self.clone();
        let own = self.sim.kernel_thread();
        self.sim.spawn_as(own, "FAT flusher", async move {
            loop {
                engine.timer.fired().await;
                engine.is_timer_armed.set(false);
                if engine.is_ended.get() {
                    return;
                }
                // Whoever waits for a file learns of its errors; others see findings.
                // Files and the sectors of the device have one thread (`bdi_writeback_task` of
                // `fs/fs-writeback.c`): where a page cache holds the files, its flusher writes both.
                let _ = run_as(engine.flusher().unwrap_or(own), engine.write_old()).await;
                let has_dirty =
                    !engine.dirty_inodes().is_empty() || engine.buffers.dirty_since_ns().is_some();
                if has_dirty {
                    engine.arm_flusher();
                }
            }
        });
    }

    /// The thread that writes the pages of files back, if there is one.
    fn flusher(&self) -> Option<Process> {
        let pages = self.cached_pages.borrow().as_ref().and_then(Weak::upgrade);
        pages.map(|pages| pages.flusher())
    }

    /// Something is dirty: the flusher looks in time.
    pub(crate) fn arm_flusher(&self) {
        let interval_ns = self.options.flusher_interval_ns;
        if interval_ns > 0 && !self.is_timer_armed.replace(true) {
            self.timer.arm(self.sim.now() + interval_ns);
        }
    }

    async fn write_old(&self) -> Result<(), Errno> {
        let _work = self.sim.work("write-back");
        let now_ns = self.sim.now();
        let is_old = |since_ns: u64| since_ns + self.options.flusher_expire_ns <= now_ns;
        let mut result = Ok(());
        for inode in self.dirty_inodes() {
            // After damage as well: neither the flusher nor `fat_write_inode` asks for `SB_RDONLY`.
            if inode.dirty_since_ns.get().is_some_and(is_old) {
                let written = self.write_inode(&inode, false).await;
                if written.is_err() && self.is_read_only.get() {
                    // One attempt. What cannot be written on a damaged volume will not be written
                    // later either, and the flusher would never come to rest.
                    inode.dirty_since_ns.set(None);
                }
                result = result.and(written);
            }
        }
        // FSInfo after the inodes, so that the counters include what they allocated.
        result = result.and(self.write_info().await);
        if self.buffers.dirty_since_ns().is_some_and(is_old) {
            result = result.and(self.write_buffers(false).await);
        }
        result
    }

    async fn write_buffers(&self, is_sync: bool) -> Result<(), Errno> {
        let written = self.buffers.write_all(is_sync).await;
        written.map_err(|error| self.failed(error))
    }

    /// Brings FAT32's FSInfo up to date, in memory (`fat_clusters_flush`).
    async fn write_info(&self) -> Result<(), Errno> {
        // In memory at every allocation, on the medium now and then: `fat_write_inode` of a
        // pretended inode does it.
        let is_dirty = self.is_info_dirty.replace(false);
        let Some(sector) = self.volume.info_sector.filter(|_| is_dirty) else { return Ok(()) };
        let buffer = self.buffer(sector.into()).await?;
        let is_info = crate::boot::decode_info(&buffer.bytes()).is_some();
        if is_info {
            self.buffers.change(&buffer, Owner::Unowned, |bytes| {
                if let Some(free) = self.free_clusters.get() {
                    bytes[488..492].copy_from_slice(&free.to_le_bytes());
                }
                bytes[492..496].copy_from_slice(&self.last_allocated.get().to_le_bytes());
            });
        }
        Ok(())
    }

    /// Makes a file durable whose pages were written (`fat_file_fsync`); `data_only` for `fdatasync`.
    pub(crate) async fn fsync(&self, inode: &Rc<Inode>, data_only: bool) -> Result<(), Errno> {
        let profile = self.options.profile;
        match profile.fsync {
            // `file_fsync` of 2.6.29 does not look at `datasync`.
            FsyncScope::Device => {
                self.write_inode(inode, false).await?;
                self.write_info().await?;
                self.write_buffers(true).await?;
            }
            FsyncScope::File => {
                // The order of `__generic_file_fsync` and `fat_file_fsync`: buffers of the file,
                // its inode, the tables. The entry comes before the chain that it leads to: a cut
                // in between leaves a size without clusters.
                let written = self.buffers.write_owned(Owner::Directory(inode.number)).await;
                written.map_err(|error| self.failed(error))?;
                // A new time alone is left for later by `fdatasync` (`I_DIRTY_DATASYNC` is not set).
                if !data_only || inode.leads_elsewhere() {
                    self.write_inode(inode, true).await?;
                }
                let written = self.buffers.write_owned(Owner::Tables).await;
                written.map_err(|error| self.failed(error))?;
            }
        }
        // The last step, for a cache that lost one of the writes before would make it worthless.
        if profile.fsync_flushes {
            let flushed = self.medium.flush().await;
            flushed.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }

    /// Writes all that is dirty (`sync`). The kernel does not flush the device then.
    ///
    /// On a volume that is read-only, inodes and FSInfo are left out (`sync_filesystem` and
    /// `sync_inodes_one_sb` of `fs/sync.c` return at once), but sectors belong to the block device and are
    /// written: by `sync_bdevs`, and at the unmount by `kill_block_super`.
    pub(crate) async fn sync(&self) -> Result<(), Errno> {
        if !self.is_read_only.get() {
            for inode in self.dirty_inodes() {
                self.write_inode(&inode, false).await?;
            }
            self.write_info().await?;
        }
        self.write_buffers(true).await
    }

    /// On a mount with `sync`, a call returns when what it changed is written.
    pub(crate) async fn write_if_synchronous(&self) -> Result<(), Errno> {
        if self.options.is_synchronous { self.sync().await } else { Ok(()) }
    }

    /// Notes in the boot sector that the volume is mounted, or is not (`fat_set_state`). One that
    /// was not unmounted before stays marked.
    pub(crate) async fn set_state(&self, is_mounted: bool) -> Result<(), Errno> {
        // A volume that was dirty stays so until a check clears it (`fat_set_state`).
        let is_told = self.options.profile.marks_dirty && !self.volume.is_dirty;
        if !is_told || self.is_read_only.get() {
            return Ok(());
        }
        let boot = self.buffer(0).await?;
        let set = |bytes: &mut [u8]| self.volume.set_dirty(bytes, is_mounted);
        self.buffers.change(&boot, Owner::Unowned, set);
        let written = self.buffers.write(&[boot], true).await;
        written.map_err(|error| self.failed(error))
    }
}
