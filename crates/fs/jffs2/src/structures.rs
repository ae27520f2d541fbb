//! What the state of a mount is made of: references to nodes, blocks, inode caches, entries.
//!
//! Source: `fs/jffs2/nodelist.h`, `jffs2_fs_sb.h`.
//!
//! May use: `nodes`.

use crate::nodes::{InodeNode, PAGE_BYTES};
use std::collections::BTreeSet;

/// Number of a reference to a node.
pub(crate) type NodeId = u32;

/// What is known of a node (`ref_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// Its data was not yet compared with its CRC.
    Unchecked,
    /// Replaced, removed or damaged; its bytes are dirt.
    Obsolete,
    /// Can be copied as it is.
    Pristine,
    /// Shares its page with others.
    Normal,
}

impl NodeState {
    /// State of a directory entry: a removal, which names no inode, has to be looked at before it is
    /// copied, other entries need not (`dirent_node_state`).
    pub(crate) fn of_entry(inode: u32) -> Self {
        if inode == 0 { Self::Normal } else { Self::Pristine }
    }

    /// State of a data node: whether the collector can copy it as it is.
    pub(crate) fn of_data(node: &InodeNode) -> Self {
        let is_to_the_end = node.offset.is_multiple_of(PAGE_BYTES)
            && node.offset.checked_add(node.data_bytes) == Some(node.file_bytes);
        // A whole page, or the end of the file: merging it with neighbours gains nothing
        // (`jffs2_write_dnode`).
        if node.data_bytes >= PAGE_BYTES || is_to_the_end { Self::Pristine } else { Self::Normal }
    }
}

/// Whose a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// No owner: markers, padding, dirt, summaries.
    None,
    Inode(u32),
    /// An extended attribute, by its number on the medium.
    Datum(u32),
    /// Reference to an extended attribute, by its number in memory.
    Reference(u32),
}

/// A reference to a node on the medium (`jffs2_raw_node_ref`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeRef {
    pub(crate) offset: u32,
    /// Bytes with padding to a multiple of four.
    pub(crate) length: u32,
    pub(crate) state: NodeState,
    pub(crate) owner: Owner,
}

/// Where a block is filed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum List {
    /// On none: the block being written, collected or erased.
    Nowhere,
    Clean,
    VeryDirty,
    Dirty,
    Erasable,
    ErasablePendingFlush,
    Erasing,
    ErasePending,
    EraseComplete,
    Free,
    Bad,
    BadUsed,
}

/// How many lists there are.
pub(crate) const LISTS: usize = 12;

/// An erase block (`jffs2_eraseblock`).
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) used: u32,
    pub(crate) dirty: u32,
    pub(crate) wasted: u32,
    pub(crate) free: u32,
    pub(crate) unchecked: u32,
    pub(crate) failures: u32,
    pub(crate) list: List,
    /// In the order of their offsets.
    pub(crate) nodes: Vec<NodeId>,
    /// Index in `nodes` where the collector goes on.
    pub(crate) collect_at: usize,
}

/// How far the data of an inode is known (`INO_STATE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeState {
    Unchecked,
    Checking,
    Present,
    CheckedAbsent,
    Collecting,
    Reading,
}

/// A directory entry in memory (`jffs2_full_dirent`).
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) node: NodeId,
    pub(crate) version: u32,
    /// Zero if the name was removed.
    pub(crate) inode: u32,
    pub(crate) kind: u8,
    pub(crate) name_hash: u32,
    pub(crate) name: Vec<u8>,
}

/// What stays in memory of every inode (`jffs2_inode_cache`).
#[derive(Clone, Debug)]
pub(crate) struct InodeCache {
    pub(crate) state: InodeState,
    /// Of a directory its parent, of others the number of names; zero if it is to be deleted.
    pub(crate) parent_or_links: u32,
    /// Oldest link first; obsolete ones stay until their block is erased.
    pub(crate) nodes: Vec<NodeId>,
    /// Entries found by the scan, until the tree is built.
    pub(crate) scanned: Vec<Entry>,
    /// References to extended attributes.
    pub(crate) references: Vec<u32>,
}

/// Sums over all blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) used: u64,
    pub(crate) dirty: u64,
    pub(crate) wasted: u64,
    pub(crate) free: u64,
    pub(crate) erasing: u64,
    pub(crate) bad: u64,
    pub(crate) unchecked: u64,
}

impl Sums {
    /// Bytes of all kinds together: those of the medium.
    pub(crate) fn total(&self) -> u64 {
        self.used + self.dirty + self.wasted + self.free + self.erasing + self.bad + self.unchecked
    }
}

/// The write-buffer: the page that is being filled.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteBuffer {
    /// Offset of the page; none if the next write decides.
    pub(crate) offset: Option<u32>,
    /// Bytes of the page so far.
    pub(crate) bytes: Vec<u8>,
    /// Inodes whose nodes are in it.
    pub(crate) inodes: BTreeSet<u32>,
}

/// Thresholds in blocks (`jffs2_calc_trigger_levels`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserve {
    pub(crate) deletion: u32,
    pub(crate) write: u32,
    pub(crate) collect_trigger: u32,
    pub(crate) merge: u32,
    pub(crate) collect_bad: u32,
    pub(crate) very_dirty_trigger: u32,
    /// Dirty bytes below which collecting is not worth it.
    pub(crate) dirty_bytes_min: u64,
}
