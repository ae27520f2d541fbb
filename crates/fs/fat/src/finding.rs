//! Codes of what FAT finds wrong with its medium.
//!
//! May use no other file of the crate.

fs_api::finding_codes! {
    /// What FAT finds wrong with its medium.
    pub enum Code {
        /// A chain of clusters leads nowhere, or is too short.
        BadChain = "fat-bad-chain", Damage;
        /// A directory does not end, or does not know its parent.
        BadDirectory = "fat-bad-directory", Damage;
        /// The volume was not unmounted.
        NotUnmounted = "fat-not-unmounted", Note;
        /// The block device failed.
        Unreadable = "fat-unreadable", Failure;
        /// Clusters are taken and no file has them.
        LostClusters = "fat-lost-clusters", Damage;
        /// Two files have the same cluster.
        CrossLinks = "fat-cross-links", Damage;
        /// The copies of the table differ.
        TableDifferences = "fat-table-differences", Damage;
        /// A file has more clusters than its size needs.
        LongChains = "fat-long-chains", Damage;
        /// A file has fewer clusters than its size needs.
        ShortChains = "fat-short-chains", Damage;
        /// Slots of a long name stand without a short one.
        StraySlots = "fat-stray-slots", Damage;
        /// A name stands twice in a directory.
        DoubleNames = "fat-double-names", Damage;
        /// FSInfo counts other free clusters than the table has.
        WrongFreeCount = "fat-wrong-free-count", Damage;
    }
}
