//! What a mount did.
//!
//! May use no other file of the crate.

/// Counts since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Nodes written on behalf of users.
    pub nodes_written: u64,
    /// Nodes written by the collector.
    pub nodes_collected: u64,
    /// Bytes of all nodes written.
    pub node_bytes: u64,
    /// Bytes that users wrote.
    pub user_bytes: u64,
    /// Passes of the collector.
    pub collector_passes: u64,
    /// Passes that a writer had to make itself.
    pub foreground_passes: u64,
    /// Inodes whose nodes were checked by the thread.
    pub inodes_checked: u64,
    /// Blocks whose erase was tried.
    pub blocks_erased: u64,
    /// Blocks marked bad after failed erases.
    pub blocks_bad: u64,
    /// Pages of the write-buffer written.
    pub pages_flushed: u64,
    /// Bytes of padding in them.
    pub padding_bytes: u64,
    /// Programs that failed, after which the nodes were written elsewhere.
    pub programs_recovered: u64,
    /// Reads whose ECC gave up.
    pub unreadable_reads: u64,
    /// Nodes marked obsolete where they stand.
    pub nodes_marked: u64,
    /// Summaries written at the end of blocks.
    pub summaries_written: u64,
    /// Blocks whose summary served the scan.
    pub summaries_read: u64,
}
