//! Codes of what JFFS2 finds wrong with its medium.
//!
//! May use no other file of the crate.

fs_api::finding_codes! {
    /// What JFFS2 finds wrong with its medium.
    pub enum Code {
        /// A name leads to an inode without any node.
        NameWithoutInode = "jffs2-name-without-inode", Damage;
        /// A directory has two names: its rename was cut between them.
        TwoNames = "jffs2-two-names", Damage;
        /// An inode that the collector needs cannot be read.
        UnreadableInode = "jffs2-unreadable-inode", Damage;
        /// A node is in no list of its inode.
        StrayNode = "jffs2-stray-node", Damage;
        /// A node, or its header, has a wrong checksum.
        DamagedNode = "jffs2-damaged-node", Damage;
        /// A name that the summary of a block tells of has a wrong checksum. Older records of it count no more.
        DamagedName = "jffs2-damaged-name", Damage;
        /// An extended attribute has a wrong checksum.
        DamagedAttribute = "jffs2-damaged-attribute", Damage;
        /// The summary of a block has a wrong checksum.
        DamagedSummary = "jffs2-damaged-summary", Damage;
        /// The summary of a block names nodes where none can be.
        SenselessSummary = "jffs2-senseless-summary", Damage;
        /// A block is not blank after its erase.
        FailedErase = "jffs2-failed-erase", Failure;
        /// A block was marked bad.
        GivenUpBlock = "jffs2-given-up-block", Failure;
        /// An inode has names or data, and no node of its own.
        InodeWithoutNode = "jffs2-inode-without-node", Damage;
        /// A device or a symbolic link has no data left.
        LostData = "jffs2-lost-data", Damage;
        /// The target of a symbolic link is longer than any can be.
        BadTarget = "jffs2-bad-target", Damage;
        /// A node of an inode is gone from the medium since it was scanned.
        NoNodeOfInode = "jffs2-no-node-of-inode", Damage;
        /// A node that was sound can no longer be read.
        UnreadableNode = "jffs2-unreadable-node", Damage;
        /// A node of a type that is not known.
        UnknownNode = "jffs2-unknown-node", Note;
        /// A program of the medium failed.
        FailedWrite = "jffs2-failed-write", Failure;
        /// No block was left for the nodes of a page whose program failed.
        LostNodes = "jffs2-lost-nodes", Damage;
        /// The thread of the collector ended.
        EndedThread = "jffs2-ended-thread", Failure;
    }
}
