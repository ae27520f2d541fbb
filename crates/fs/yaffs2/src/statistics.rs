//! Counts of what was done, and what was found amiss.
//!
//! May use no other file of the crate.

use fs_api::Place;

/// Counters of a mount, with the names of `struct yaffs_dev` where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Chunks or tags read.
    pub page_reads: u64,
    /// Programs that were begun: chunks, summaries, checkpoints.
    pub page_writes: u64,
    /// Erases that were begun, whether they worked or not.
    pub erasures: u64,
    /// Erases that the driver reported as failed.
    pub erase_failures: u64,
    /// Chunks copied by collecting.
    pub gc_copies: u64,
    /// Steps of collecting, each of up to a block's chunks.
    pub all_gcs: u64,
    /// Those of them that were not pressed for space.
    pub passive_gcs: u64,
    /// Victims that a search chose; refreshed blocks are counted apart.
    pub gc_blocks: u64,
    /// Those chosen in the background.
    pub background_gcs: u64,
    /// Blocks chosen because they were the oldest dirty ones.
    pub oldest_dirty_gcs: u64,
    /// Blocks chosen to be refreshed.
    pub refreshes: u64,
    /// Writes that were tried again.
    pub retried_writes: u64,
    /// Blocks taken out of use because of errors.
    pub retired_blocks: u64,
    /// Chunks read with corrected bits.
    pub fixed_chunks: u64,
    /// Chunks that could not be read.
    pub unfixed_chunks: u64,
    /// Calls that freed a chunk in use.
    pub deletions: u64,
    /// Accesses served by the cache.
    pub cache_hits: u64,
    /// Tags that a scan read from spare areas.
    pub tags_used: u64,
    /// Tags that a scan took from summaries.
    pub summary_used: u64,
    /// Checkpoints that were written to their end, the sum included.
    pub checkpoints_written: u64,
    /// The mount came from a checkpoint.
    pub is_from_checkpoint: bool,
}

fs_api::finding_codes! {
    /// What YAFFS2 finds wrong with its medium, without the place.
    pub enum FindingCode {
        /// A chunk has more wrong bits than its code corrects: [`Finding::Unreadable`].
        Unreadable = "yaffs2-unreadable", Damage;
        /// Tags that make no sense: [`Finding::BadTags`].
        BadTags = "yaffs2-bad-tags", Damage;
        /// A block that was given up half written: [`Finding::PartlyWritten`].
        PartlyWritten = "yaffs2-partly-written", Note;
        /// A sequence number that no block has: [`Finding::BadSequence`].
        BadSequence = "yaffs2-bad-sequence", Damage;
        /// Headers and data of two kinds: [`Finding::KindMismatch`].
        KindMismatch = "yaffs2-kind-mismatch", Damage;
        /// A parent that is no directory: [`Finding::BadParent`].
        BadParent = "yaffs2-bad-parent", Damage;
        /// A hard link to nothing: [`Finding::DanglingLink`].
        DanglingLink = "yaffs2-dangling-link", Damage;
        /// An object without a way to the root: [`Finding::Lost`].
        Lost = "yaffs2-lost", Damage;
        /// A checkpoint that cannot be used: [`Finding::BadCheckpoint`].
        BadCheckpoint = "yaffs2-bad-checkpoint", Damage;
        /// A block that was taken out of use: [`Finding::Retired`].
        Retired = "yaffs2-retired", Failure;
        /// A page that should be erased and is not: [`Finding::NotErased`].
        NotErased = "yaffs2-not-erased", Damage;
    }
}

impl From<&Finding> for fs_api::Finding {
    fn from(finding: &Finding) -> Self {
        use FindingCode as Code;
        let page = |chunk: u32| Place::Page(chunk.into());
        let block = |block: u32| Place::Block(block.into());
        let inode = |object: u32| Place::Inode(object.into());
        let (code, place) = match *finding {
            Finding::Unreadable { chunk } => (Code::Unreadable, page(chunk)),
            Finding::BadTags { chunk } => (Code::BadTags, page(chunk)),
            Finding::PartlyWritten { block: number } => (Code::PartlyWritten, block(number)),
            Finding::BadSequence { block: number } => (Code::BadSequence, block(number)),
            Finding::KindMismatch { object } => (Code::KindMismatch, inode(object)),
            Finding::BadParent { object } => (Code::BadParent, inode(object)),
            Finding::DanglingLink { object } => (Code::DanglingLink, inode(object)),
            Finding::Lost { object } => (Code::Lost, inode(object)),
            Finding::BadCheckpoint { .. } => (Code::BadCheckpoint, Place::Whole),
            Finding::Retired { block: number } => (Code::Retired, block(number)),
            Finding::NotErased { chunk } => (Code::NotErased, page(chunk)),
        };
        code.at(place, finding.to_string())
    }
}

/// What a mount, or the work on it, found amiss; `Display` tells it in a sentence.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A chunk has more wrong bits than its code corrects.
    #[error("chunk {chunk} cannot be read")]
    Unreadable {
        /// Chunk, counted from block 1.
        chunk: u32,
    },
    /// Tags that make no sense.
    #[error("the tags of chunk {chunk} make no sense")]
    BadTags {
        /// Number of the chunk, counted from block 1.
        chunk: u32,
    },
    /// A block that was given up half written.
    #[error("block {block} was given up half written")]
    PartlyWritten {
        /// Block, counted from 1.
        block: u32,
    },
    /// A sequence number that no block has.
    #[error("block {block} has a sequence number that cannot be")]
    BadSequence {
        /// Number of the block, counted from 1.
        block: u32,
    },
    /// A header of another kind than the object.
    #[error("object {object}: its headers and data are of two kinds")]
    KindMismatch {
        /// Number of the object that the header names.
        object: u32,
    },
    /// The parent is no directory.
    #[error("object {object}: its parent is no directory")]
    BadParent {
        /// Number of the object, which went to lost+found.
        object: u32,
    },
    /// A hard link to nothing.
    #[error("object {object}: the hard link leads nowhere")]
    DanglingLink {
        /// Number of the link.
        object: u32,
    },
    /// The object was moved to lost+found.
    #[error("object {object} hangs on nothing")]
    Lost {
        /// Number of the object that had no way to the root.
        object: u32,
    },
    /// A checkpoint that could not be used; the device was scanned.
    #[error("the checkpoint cannot be used: {reason}")]
    BadCheckpoint {
        /// The first check that failed.
        reason: &'static str,
    },
    /// A block was retired.
    #[error("block {block} is given up")]
    Retired {
        /// Number of the block, counted from 1.
        block: u32,
    },
    /// A page that should have been erased was not.
    #[error("chunk {chunk} is not blank, though it was erased")]
    NotErased {
        /// Number of the chunk, counted from block 1.
        chunk: u32,
    },
}
