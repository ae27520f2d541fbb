//! Kernel memory of a mount, by the sizes of the kernel's structures.
//!
//! Sources: sizes of a 2.6.32 tree on 32-bit ARM; of the 64-bit builds they are estimates.
//!
//! May use: `device`, `tags`.

use crate::device::Device;
use crate::tags::TAGS_BYTES;
use fs_api::Memory;

/// `struct yaffs_dev` of a 2.6.32 tree on 32-bit ARM.
const DEVICE_BYTES: u64 = 3664;
/// `struct yaffs_cache` on 32-bit ARM, without its data.
const CACHE_ENTRY_BYTES: u64 = 28;
/// Page buffers that a mount allocates (`YAFFS_N_TEMP_BUFFERS`).
const BUFFERS: u64 = 6;
/// Objects and tree nodes are taken from the kernel by as many at a time
/// (`YAFFS_ALLOCATION_NOBJECTS`, `YAFFS_ALLOCATION_NTNODES`).
const BATCH: u64 = 100;
const SUMMARY_ENTRY_BYTES: u64 = 12;

impl Device {
    pub(crate) fn memory(&self) -> Memory {
        let page_bytes = u64::from(self.mtd.geometry().page_data_bytes);
        let blocks = u64::from(self.blocks.count());
        let caches = self.cache.len() as u64;
        let objects = u64::from(self.objects.count()).next_multiple_of(BATCH);
        let nodes = self.tree_nodes.next_multiple_of(BATCH);
        let (leaf_bytes, _) = self.leaf_shape();
        let spare_bytes = if self.chunk_bytes < page_bytes as u32 { TAGS_BYTES as u64 } else { 64 };
        let summaries = if self.profile.has_summaries { 2 * self.summary.len() as u64 } else { 0 };
        let mut kinds = vec![
            ("block bits", blocks, blocks * self.blocks.stride() as u64),
            ("block infos", blocks, blocks * 8),
            ("buffers", BUFFERS, BUFFERS * page_bytes + spare_bytes),
            ("cache", caches, caches * (CACHE_ENTRY_BYTES + page_bytes)),
            ("device", 1, DEVICE_BYTES),
            ("objects", objects, objects * u64::from(self.profile.object_bytes)),
            ("summary tags", summaries, summaries * SUMMARY_ENTRY_BYTES),
            ("tree nodes", nodes, nodes * leaf_bytes as u64),
        ];
        kinds.retain(|(_, count, _)| *count > 0);
        Memory { kinds }
    }
}
