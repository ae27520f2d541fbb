//! Kernel memory that a mount takes.
//!
//! Sizes are those of the structures of Linux 2.6.32 on 32-bit ARM, without debugging options.
//! A part of the engine: uses the engine and its states.

use crate::engine::Engine;
use fs_api::Memory;

const SUPER_BYTES: u64 = 2272;
const ZNODE_BYTES: u64 = 32;
const BRANCH_BYTES: u64 = 24;
const NNODE_BYTES: u64 = 72;
const PNODE_BYTES: u64 = 120;
const INODE_BYTES: u64 = 392;
const WRITE_BUFFER_BYTES: u64 = 128;
const JOURNAL_HEAD_BYTES: u64 = 136;
const BUD_BYTES: u64 = 32;
const ORPHAN_BYTES: u64 = 44;
const OLD_INDEX_BYTES: u64 = 20;
const HEAP_BYTES: u64 = 4 * 256 * 4;
const RESERVED_BYTES: u64 = 8192;

impl Engine {
    /// Structures and their bytes, by kind.
    pub(crate) fn memory_use(&self) -> Memory {
        let (tnc, lpt) = (self.tnc.borrow(), self.lpt.borrow());
        let znode = ZNODE_BYTES + self.layout.fanout as u64 * BRANCH_BYTES;
        let (leaves, leaf_bytes) = tnc.leaves();
        let znodes = tnc.dirty + tnc.clean;
        let inodes = self.inodes.borrow().len() as u64;
        let journal = self.journal.borrow();
        let buds = (journal.buds.len() + journal.old_buds.len()) as u64;
        let orphans = self.orphans.borrow().len() as u64;
        let old = tnc.old.len() as u64;
        let heads = self.heads.len() as u64;
        let buffer = WRITE_BUFFER_BYTES + u64::from(self.layout.max_write);
        let leb = u64::from(self.layout.leb_bytes);
        let (nnodes, pnodes) = (u64::from(lpt.nnodes_loaded), u64::from(lpt.pnodes_loaded));
        // Scanning, collecting in gaps, orphans, LEB properties: one eraseblock each.
        let buffers = if self.is_read_only() { 1 } else { 4 };
        let one = |name, bytes| (name, 1, bytes);
        let of = |name, count: u64, bytes: u64| (name, count, count * bytes);
        let bulk_buffers = u64::from(self.options.has_bulk_read);
        let mut kinds = vec![
            of("bud", buds, BUD_BYTES),
            of("bulk-read buffer", bulk_buffers, self.bulk_buffer_bytes().into()),
            of("inode", inodes, INODE_BYTES),
            of("journal head", heads, JOURNAL_HEAD_BYTES),
            of("leb buffer", buffers, leb),
            ("leaf node", leaves, leaf_bytes),
            of("lprops heap", 1, HEAP_BYTES),
            of("nnode", nnodes, NNODE_BYTES),
            of("old index", old, OLD_INDEX_BYTES),
            of("orphan", orphans, ORPHAN_BYTES),
            of("pnode", pnodes, PNODE_BYTES),
            one("super", SUPER_BYTES),
            of("write-buffer", heads, buffer),
            one("write reserve", RESERVED_BYTES),
            of("znode", znodes, znode),
        ];
        kinds.sort_unstable();
        Memory { kinds }
    }
}
