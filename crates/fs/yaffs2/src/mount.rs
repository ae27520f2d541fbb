//! Mounting, cleaning up after it, syncing, unmounting.
//!
//! Source: `yaffs_guts.c` (`yaffs_guts_initialise`), `yaffs_vfs_multi.c` (`yaffs_flush_super`).
//!
//! May use: `collector`, `device`, `format`, `objects`, `statistics`.

use crate::collector::Collector;
use crate::device::Device;
use crate::format::{OBJECT_DELETED, OBJECT_LOST_AND_FOUND, OBJECT_ROOT, OBJECT_UNLINKED};
use crate::objects::Object;
use crate::statistics::{Finding, Statistics};
use fs_api::Errno;

impl Device {
    /// Whether the device can hold a file system at all.
    fn check_shape(&self) -> Result<(), Errno> {
        let blocks = self.blocks.count();
        // `yaffs_guts_initialise`: pages of 1,024 bytes at least, of which in-band tags take sixteen, and a
        // reserve from which collecting can copy one block while it erases another. It refuses
        // `internal_end_block <= internal_start_block + n_reserved_blocks + 2`, where the first block of a
        // device is numbered 1 and the last one like their count.
        let is_good = self.chunk_bytes >= 1008
            && self.options.reserved_blocks >= 2
            && blocks > self.options.reserved_blocks + 3;
        if is_good { Ok(()) } else { Err(Errno::Einval) }
    }

    /// Mounts: from the checkpoint if there is one, else by a scan.
    ///
    /// # Errors
    /// [`Errno::Einval`] if the device is too small.
    pub(crate) async fn mount(&mut self) -> Result<(), Errno> {
        self.check_shape()?;
        self.collector = Collector::start(&self.options.kept.collector.borrow());
        if self.restore_checkpoint().await {
            self.check_open_block();
            // A checkpoint leaves attributes in the headers. `yaffs_internal_read_super` makes the
            // root's inode, which loads its header; a scan has read it already.
            self.load(OBJECT_ROOT).await;
        } else {
            // A stream that failed half way has left blocks, objects and counts behind: the scan
            // starts from nothing.
            self.reset();
            self.scan().await;
        }
        if !self.is_read_only {
            // First of all: what was unlinked while open has no user after a mount, and its chunks
            // are the cheapest space there is.
            self.strip_deleted().await;
            // After that, so that objects on their way out are not saved.
            self.rehang_lost();
            if self.options.empties_lost_and_found {
                self.empty_lost_and_found().await;
            }
        }
        self.statistics = Statistics {
            is_from_checkpoint: self.statistics.is_from_checkpoint,
            tags_used: self.statistics.tags_used,
            summary_used: self.statistics.summary_used,
            ..Statistics::default()
        };
        if !self.checkpoint.is_current && self.checkpoint.blocks_in > 0 {
            self.invalidate_checkpoint().await;
        }
        self.pay().await;
        self.judge_accounts();
        Ok(())
    }

    /// Deletes what has no name.
    async fn strip_deleted(&mut self) {
        for directory in [OBJECT_UNLINKED, OBJECT_DELETED] {
            let children = self.objects.get(directory).map(Object::children).unwrap_or_default();
            for child in children {
                // A shadowed file goes under all its names, though the others stay.
                let links = self.objects.get(child).map(|object| object.links.clone());
                for link in links.unwrap_or_default() {
                    self.report(Finding::DanglingLink { object: link });
                }
                self.delete_object(child, false).await;
            }
        }
    }

    /// Moves what is not under the root to lost+found.
    fn rehang_lost(&mut self) {
        for number in self.objects.numbers() {
            if !self.is_rooted(number) {
                self.report(Finding::Lost { object: number });
                self.objects.move_to(number, OBJECT_LOST_AND_FOUND);
            }
        }
    }

    fn is_rooted(&self, number: u32) -> bool {
        /// The real one gives up after as many.
        const DEPTH_MAX: u32 = 100;
        let mut at = number;
        for _ in 0..DEPTH_MAX {
            if matches!(at, OBJECT_ROOT | OBJECT_UNLINKED | OBJECT_DELETED) {
                return true;
            }
            let Some(parent) = self.objects.get(at).and_then(|object| object.parent) else {
                return false;
            };
            at = parent;
        }
        false
    }

    async fn empty_lost_and_found(&mut self) {
        // Deepest first: a directory goes when it is empty.
        let mut found = vec![OBJECT_LOST_AND_FOUND];
        let mut next = 0;
        while let Some(directory) = found.get(next) {
            let children = self.objects.get(*directory).map(Object::children).unwrap_or_default();
            found.extend(children);
            next += 1;
        }
        for number in found.into_iter().skip(1).rev() {
            // What cannot go stays.
            let _ = self.unlink_object(number, false).await;
        }
    }

    /// Leaves behind what a later mount of the same device goes on with.
    pub(crate) fn keep_state(&self) {
        self.options.kept.alloc_finder.set(self.alloc_finder);
        self.options.kept.collector.replace(self.collector.clone());
    }

    /// Writes all that is only in memory; then a checkpoint, if one is wanted.
    pub(crate) async fn flush_all(&mut self, saves_checkpoint: bool) {
        if self.is_read_only {
            return;
        }
        if self.profile.syncs_inodes {
            for number in self.objects.numbers() {
                // What cannot be written now stays dirty.
                let _ = self.flush_file(number, false).await;
            }
        }
        // Inodes, then directories, then the cache, then the checkpoint: each step writes chunks
        // that the next one's state includes (`yaffs_flush_super`).
        self.update_dirty_directories().await;
        self.flush_cache().await;
        if saves_checkpoint {
            self.save_checkpoint().await;
        }
        self.pay().await;
    }
}
