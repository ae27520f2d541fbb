//! Codes of what UBI finds wrong with its medium. Uses nothing of the crate.

fs_api::finding_codes! {
    /// What UBI finds wrong with its medium.
    pub enum Code {
        /// A fastmap is on the medium; all blocks were scanned.
        Fastmap = "ubi-fastmap", Note;
        /// A copy of the volume table is damaged, and written anew.
        DamagedTable = "ubi-damaged-table", Damage;
        /// Blocks of a volume that is not in the table.
        UnknownVolume = "ubi-unknown-volume", Damage;
        /// A static volume misses blocks.
        MissingBlocks = "ubi-missing-blocks", Damage;
        /// Fewer blocks than wanted are left for those that go bad.
        SmallReserve = "ubi-small-reserve", Failure;
        /// The last block of those that were kept for ones that go bad is used.
        UsedReserve = "ubi-used-reserve", Failure;
        /// A page of a mapped block cannot be read.
        UnreadableData = "ubi-unreadable-data", Damage;
        /// A block that wear-levelling would move cannot be read.
        UnreadableSource = "ubi-unreadable-source", Damage;
        /// A volume identifier header cannot be read.
        DamagedHeader = "ubi-damaged-header", Damage;
        /// The data of a block does not match its CRC.
        WrongCrc = "ubi-wrong-crc", Damage;
        /// A program of the medium failed, and another block is taken.
        FailedWrite = "ubi-failed-write", Failure;
        /// The device is read-only from now on.
        ReadOnly = "ubi-read-only", Failure;
        /// A block is bad, none is left to replace it, and the device is read-only.
        NoReserve = "ubi-no-reserve", Failure;
        /// A block was marked bad.
        BadBlock = "ubi-bad-block", Failure;
        /// A block that had failed stood the test of its cells.
        TestedBlock = "ubi-tested-block", Note;
        /// A block does not keep what is written to it.
        WornBlock = "ubi-worn-block", Failure;
        /// The erase counter of a block is lost.
        LostCounter = "ubi-lost-counter", Damage;
        /// A block of an internal volume that is left alone.
        AlienBlock = "ubi-alien-block", Note;
    }
}
