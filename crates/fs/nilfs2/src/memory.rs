//! Kernel memory that a mount takes.
//!
//! Sizes are those of the structures of Linux 2.6.32 on 32-bit ARM, without debugging options.
//!
//! May use: `engine`.

use crate::engine::Engine;
use fs_api::Memory;

const INODE_INFO_BYTES: u64 = 536;
const SUPER_BYTES: u64 = 80;
const NILFS_BYTES: u64 = 288;
const CONSTRUCTOR_BYTES: u64 = 208;
const METADATA_INFO_BYTES: u64 = 40;
const BUFFER_HEAD_BYTES: u64 = 64;
/// Files of the file system's own: DAT, its copy for the cleaner, cpfile, sufile, ifile.
const METADATA_FILES: u64 = 5;
/// Tables of the last checkpoints and of the DAT that stay in memory with the inode.
const PATH_BYTES: u64 = 840;

impl Engine {
    /// Structures and their bytes, by kind. Blocks of metadata are pages of the page cache; what
    /// stands here is what cannot be given back at once, and the clean ones beside it.
    pub(crate) fn memory_use(&self) -> Memory {
        let (mut blocks, mut dirty) = (0, 0);
        let files = self.root.files.borrow();
        let metadata = [&self.dat, &self.cpfile, &self.sufile, &self.root.ifile];
        for file in metadata.into_iter().chain(files.values()) {
            for buffers in [&file.data, &file.nodes] {
                let buffers = buffers.borrow();
                let waits = buffers.values().filter(|buffer| buffer.is_dirty.get()).count() as u64;
                dirty += waits;
                blocks += buffers.len() as u64;
            }
            for ahead in [&file.data_ahead, &file.nodes_ahead] {
                blocks += ahead.borrow().len() as u64;
            }
        }
        let inodes = files.len() as u64 + METADATA_FILES;
        let block_bytes = self.geometry.block_bytes;
        let mut kinds = vec![
            ("btree_path", 1, PATH_BYTES),
            ("buffer_head", blocks, blocks * BUFFER_HEAD_BYTES),
            ("clean_blocks", blocks - dirty, (blocks - dirty) * block_bytes),
            ("dirty_blocks", dirty, dirty * block_bytes),
            ("inode_info", inodes, inodes * INODE_INFO_BYTES),
            ("mdt_info", METADATA_FILES, METADATA_FILES * METADATA_INFO_BYTES),
            ("nilfs", 1, NILFS_BYTES),
            ("sb_info", 1, SUPER_BYTES),
            ("sc_info", 1, CONSTRUCTOR_BYTES),
        ];
        kinds.sort_unstable();
        Memory { kinds }
    }
}
