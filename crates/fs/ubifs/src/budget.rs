//! Budgets: what an operation may write at most, and what is promised to all of them.
//!
//! Source: `fs/ubifs/budget.c`. A state: uses formats only.

use crate::layout::Layout;
use crate::nodes::{INODE_BYTES, MAX_DATA_NODE_BYTES, MAX_ENTRY_NODE_BYTES, aligned};
use crate::position::{LebNumber, Position};
use crate::superblock::MIN_INDEX_LEBS;

/// What an operation will write at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one node more, as the kernel counts")]
pub(crate) struct Request {
    pub(crate) new_page: bool,
    pub(crate) dirtied_page: bool,
    pub(crate) new_entry: bool,
    pub(crate) changed_entry: bool,
    pub(crate) new_inode: bool,
    /// Bytes within the new inode.
    pub(crate) new_inode_bytes: usize,
    pub(crate) dirtied_inodes: u32,
    /// Bytes within the dirtied inodes.
    pub(crate) dirtied_inode_bytes: usize,
}

/// Space that is set aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) index: u64,
    pub(crate) data: u64,
    pub(crate) dirty: u64,
}

impl Budget {
    /// The worst case of an operation (`ubifs_budget_space`).
    pub(crate) fn of(request: &Request, layout: &Layout) -> Self {
        let when = |is: bool, bytes: usize| if is { bytes as u64 } else { 0 };
        let (page, entry) = (MAX_DATA_NODE_BYTES, aligned(MAX_ENTRY_NODE_BYTES));
        // Only new nodes need a new branch in the index; a node that replaces another takes its
        // branch over (`calc_idx_growth`).
        let nodes = [request.new_inode, request.new_page, request.new_entry];
        let new_nodes = nodes.into_iter().filter(|is| *is).count() as u64;
        let mut dirty = when(request.dirtied_page, page) + when(request.changed_entry, entry);
        if request.dirtied_inodes > 0 {
            // The shift is that of `calc_dd_growth` (`fs/ubifs/budget.c`) up to Linux 6.2. Later
            // kernels multiply, which differs for three inodes only.
            dirty += (INODE_BYTES as u64) << (request.dirtied_inodes - 1);
        }
        Self {
            index: new_nodes * u64::from(layout.max_index_node.next_multiple_of(8)),
            data: when(request.new_inode, INODE_BYTES)
                + when(request.new_page, page)
                + when(request.new_entry, entry)
                + aligned(request.new_inode_bytes) as u64,
            dirty: dirty + aligned(request.dirtied_inode_bytes) as u64,
        }
    }

    /// What a dirty inode with so many bytes of data needs.
    pub(crate) fn of_inode(data_bytes: usize) -> Self {
        Self { dirty: (INODE_BYTES + aligned(data_bytes)) as u64, ..Self::default() }
    }
}

/// Space that was promised, and what the index may grow to.
#[derive(Debug, Default)]
pub(crate) struct Space {
    pub(crate) promised: Budget,
    /// Index that is dirty in memory.
    pub(crate) uncommitted_index_bytes: u64,
    /// Index on the medium.
    pub(crate) committed_index_bytes: u64,
    /// Eraseblocks that are kept for the index.
    pub(crate) min_index_lebs: u32,
    /// There was no space, and nothing has become free since.
    pub(crate) is_full: bool,
    pub(crate) is_full_for_root: bool,
    /// Eraseblock that the collector has in reserve.
    pub(crate) gc_leb: Option<LebNumber>,
    /// Where the index is written on.
    pub(crate) index_head: Position,
}

impl Space {
    /// Thrice the index, so that it can always be written (`ubifs_calc_min_idx_lebs`).
    pub(crate) fn index_lebs_for(&self, layout: &Layout) -> u32 {
        let bytes = self.committed_index_bytes + self.promised.index + self.uncommitted_index_bytes;
        let lebs = (bytes * 3).div_ceil(layout.index_leb_bytes.into()) as u32;
        // The head of the index has no gaps to fill.
        (lebs + 1).max(MIN_INDEX_LEBS)
    }
}
