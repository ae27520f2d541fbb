//! What a mount has done. Uses nothing of the crate.

/// Counts since the mount began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Commits that wrote something.
    pub commits: u64,
    /// Nodes of the index that commits wrote.
    pub index_nodes_written: u64,
    /// Eraseblocks of the index whose gaps were filled.
    pub gap_lebs: u64,
    /// Times the collector was called.
    pub collections: u64,
    /// Eraseblocks that the collector worked on.
    pub collected_lebs: u64,
    /// Bytes of nodes that the collector moved.
    pub moved_bytes: u64,
    /// Bytes of padding that synchronous writes cost.
    pub padding_bytes: u64,
    /// Data nodes that were written.
    pub data_nodes: u64,
    /// Bytes of files in the data nodes that were written.
    pub data_bytes: u64,
    /// Nodes of the journal that the mount replayed.
    pub replayed_nodes: u64,
    /// Eraseblocks whose torn end the mount dropped.
    pub recovered_lebs: u64,
    /// Inodes whose size the mount mended.
    pub recovered_sizes: u64,
    /// Orphans that the mount removed.
    pub orphans_removed: u64,
    /// Nodes of the index that the shrinker freed.
    pub shrunk_nodes: u64,
}
