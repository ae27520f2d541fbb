//! Kernel memory that a mount takes.
//!
//! Sizes are those of the structures of Linux 2.6.32 on 32-bit ARM, without debugging options. Places of
//! clusters are remembered in at most eight runs a file (`fat_cache`).
//!
//! May use: `boot`, `engine`.

use crate::boot::SECTOR_BYTES;
use crate::engine::Engine;
use fs_api::Memory;

const SUPER_BYTES: u64 = 696;
const INODE_INFO_BYTES: u64 = 416;
const CACHE_BYTES: u64 = 28;
const CACHES_MAX: usize = 8;
const BUFFER_HEAD_BYTES: u64 = 56;
/// Inodes of the file system's own: that of the tables and that of FSInfo.
const OWN_INODES: u64 = 2;

impl Engine {
    /// Structures and their bytes, by kind.
    pub(crate) fn memory_use(&self) -> Memory {
        let (buffers, dirty) = self.buffers.count();
        let inodes = self.inodes.borrow();
        let runs = |chain: &[u32]| chain.chunk_by(|one, next| one + 1 == *next).count();
        let caches: usize =
            inodes.values().map(|inode| runs(&inode.chain.borrow()).min(CACHES_MAX)).sum();
        let caches = caches as u64;
        let count = inodes.len() as u64 + OWN_INODES;
        let sector = SECTOR_BYTES as u64;
        let kinds = vec![
            ("buffer_head", buffers, buffers * BUFFER_HEAD_BYTES),
            ("clean_sectors", buffers - dirty, (buffers - dirty) * sector),
            ("dirty_sectors", dirty, dirty * sector),
            ("fat_cache", caches, caches * CACHE_BYTES),
            ("msdos_inode_info", count, count * INODE_INFO_BYTES),
            ("msdos_sb_info", 1, SUPER_BYTES),
        ];
        Memory { kinds }
    }
}
