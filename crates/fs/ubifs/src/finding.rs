//! Codes of what UBIFS finds wrong with its medium. Uses nothing of the crate.

fs_api::finding_codes! {
    /// What UBIFS finds wrong with its medium.
    pub enum Code {
        /// A node is not what the index, or the log, names.
        DamagedNode = "ubifs-damaged-node", Damage;
        /// A block of a file cannot be restored from its node.
        DamagedData = "ubifs-damaged-data", Damage;
        /// A node of the index makes no sense.
        DamagedIndex = "ubifs-damaged-index", Damage;
        /// The log or the journal makes no sense.
        DamagedJournal = "ubifs-damaged-journal", Damage;
        /// A node of the tree of LEB properties makes no sense.
        DamagedProperties = "ubifs-damaged-properties", Damage;
        /// A LEB has more dirty space than it can have.
        BadSums = "ubifs-bad-sums", Damage;
        /// The fields of an inode contradict each other.
        BadInode = "ubifs-bad-inode", Damage;
        /// Directory entries are out of order, or have no name.
        BadNames = "ubifs-bad-names", Damage;
        /// The master node makes no sense, or cannot be read.
        BadMaster = "ubifs-bad-master", Damage;
        /// Damage that the recovery takes for no result of a power cut.
        NoPowerCut = "ubifs-no-power-cut", Damage;
        /// A LEB is needed, and none is left.
        NoRoom = "ubifs-no-room", Failure;
        /// The file system switched to read-only mode.
        ReadOnly = "ubifs-read-only", Failure;
        /// A feature that is not supported.
        Unsupported = "ubifs-unsupported", Note;
        /// The check found two places that contradict each other.
        Contradiction = "ubifs-contradiction", Damage;
    }
}
