//! Kernel memory that a mount takes.
//!
//! Sizes are those of the structures of Linux 2.6.32 on 32-bit ARM, without debugging options.
//!
//! May use: `engine`.

use crate::engine::Engine;
use fs_api::Memory;

const INODE_CACHE_BYTES: u64 = 24;
/// References come in chunks of this many, with one more that leads to the next chunk.
const NODE_REFS_PER_CHUNK: u64 = 30;
const NODE_REF_BYTES: u64 = 8;
const CHUNK_BYTES: u64 = (NODE_REFS_PER_CHUNK + 1) * NODE_REF_BYTES;
const DATA_NODE_BYTES: u64 = 16;
const FRAGMENT_BYTES: u64 = 24;
const ENTRY_BYTES: u64 = 24;
const BLOCK_BYTES: u64 = 52;
const INODE_INFO_BYTES: u64 = 344;
const SUPER_BYTES: u64 = 308;
const OOB_BUFFER_BYTES: u64 = 4 * 38;
const DATUM_BYTES: u64 = 52;
const REFERENCE_BYTES: u64 = 28;

impl Engine {
    /// Structures and their bytes, by kind.
    pub(crate) fn memory_use(&self) -> Memory {
        let state = self.state.borrow();
        let chunks: u64 = state
            .blocks
            .iter()
            .map(|block| (block.nodes.len() as u64).div_ceil(NODE_REFS_PER_CHUNK))
            .sum();
        let (mut fragments, mut entries, mut entry_bytes) = (0, 0, 0);
        let (mut data_nodes, inodes) = (0, self.inodes.borrow().len() as u64);
        for inode in self.inodes.borrow().values() {
            let data = inode.data.borrow();
            fragments += data.fragments.len() as u64;
            data_nodes += data.fragments.shown_len() as u64 + u64::from(data.metadata.is_some());
            entries += data.entries.len() as u64;
            // Allocated by size: rounded up as the kernel's small caches are.
            entry_bytes += data
                .entries
                .iter()
                .map(|entry| (ENTRY_BYTES + entry.name.len() as u64 + 1).next_multiple_of(32))
                .sum::<u64>();
        }
        let buffers = u64::from(self.flash.page_bytes().is_some());
        let blocks = state.blocks.len() as u64;
        let caches = state.inodes.len() as u64;
        let buckets = self.inode_buckets();
        let (data, references, value_bytes) = state.attributes.memory();
        let summary = if self.has_summary { u64::from(self.block_bytes.min(65_536)) } else { 0 };
        let mut kinds = vec![
            ("eraseblock", blocks, blocks * BLOCK_BYTES),
            ("full_dirent", entries, entry_bytes),
            ("full_dnode", data_nodes, data_nodes * DATA_NODE_BYTES),
            ("inode_cache", caches, caches * INODE_CACHE_BYTES),
            ("inode_hash", buckets, buckets * 4),
            ("inode_info", inodes, inodes * INODE_INFO_BYTES),
            ("node_frag", fragments, fragments * FRAGMENT_BYTES),
            ("oobbuf", buffers, buffers * OOB_BUFFER_BYTES),
            ("raw_node_ref", state.node_count() as u64, chunks * CHUNK_BYTES),
            ("sb_info", 1, SUPER_BYTES),
            ("summary", u64::from(summary > 0), summary + state.summary.memory_bytes()),
            ("wbuf", buffers, buffers * u64::from(self.page_bytes)),
            ("xattr_datum", data, data * DATUM_BYTES + value_bytes),
            ("xattr_ref", references, references * REFERENCE_BYTES),
        ];
        kinds.sort_unstable();
        Memory { kinds }
    }

    /// Buckets of the table of inode caches (`calculate_inocache_hashsize`).
    fn inode_buckets(&self) -> u64 {
        let by_size = || {
            let mebibytes = self.flash.size_bytes() >> 20;
            (mebibytes * 2).clamp(128, 1024) & !1
        };
        self.options.profile.inode_buckets.map_or_else(by_size, u64::from)
    }
}
