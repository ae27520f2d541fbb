//! Codes of what NILFS2 finds wrong with its medium.
//!
//! May use no other file of the crate.

fs_api::finding_codes! {
    /// What NILFS2 finds wrong with its medium.
    pub enum Code {
        /// The map of a file, or a virtual block number, leads nowhere.
        BadMap = "nilfs2-bad-map", Damage;
        /// A directory makes no sense.
        BadDirectory = "nilfs2-bad-directory", Damage;
        /// An inode makes no sense.
        BadInode = "nilfs2-bad-inode", Damage;
        /// A table of entries has not the one that is asked for.
        BadTable = "nilfs2-bad-table", Damage;
        /// The file of checkpoints makes no sense.
        BadCheckpoints = "nilfs2-bad-checkpoints", Damage;
        /// A segment that cannot be.
        BadSegment = "nilfs2-bad-segment", Damage;
        /// The summary of a log makes no sense.
        DamagedLog = "nilfs2-damaged-log", Damage;
        /// The newest checkpoint begins in a log that is missing: the device kept a later one and lost it.
        SplitCheckpoint = "nilfs2-split-checkpoint", Damage;
        /// The block device failed.
        Unreadable = "nilfs2-unreadable", Failure;
        /// A mount took over blocks that were written after the checkpoint.
        RolledForward = "nilfs2-rolled-forward", Note;
        /// Something was to be freed that was free.
        FreeAlready = "nilfs2-free-already", Note;
        /// The check found two places that contradict each other.
        Contradiction = "nilfs2-contradiction", Damage;
    }
}
