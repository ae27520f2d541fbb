//! What a device did. Uses nothing of the crate.

/// Counts since the attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Erases that were begun, repeated and torturing ones included.
    pub erases: u64,
    /// Logical blocks written atomically.
    pub changes: u64,
    /// Blocks moved for the sake of wear.
    pub blocks_levelled: u64,
    /// Blocks moved because bits had to be corrected.
    pub blocks_scrubbed: u64,
    /// Moves that were given up.
    pub moves_cancelled: u64,
    /// Blocks whose cells were tested because of an error.
    pub blocks_tortured: u64,
    /// Blocks marked bad since the attach.
    pub blocks_bad: u64,
    /// Programs that failed, after which the data was written elsewhere.
    pub programs_recovered: u64,
    /// Reads that needed the ECC.
    pub corrected_reads: u64,
    /// Reads whose ECC gave up.
    pub unreadable_reads: u64,
    /// Times that a writer had to erase a block itself.
    pub foreground_works: u64,
}
