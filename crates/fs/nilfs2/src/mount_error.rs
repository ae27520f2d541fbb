//! Why a medium is not mounted, or not from where its newer superblock points.
//!
//! May use no other file of the crate.

use block_medium::MediumError;
use thiserror::Error;

/// Why a medium is not mounted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MountError {
    /// Neither superblock can be used.
    #[error("no NILFS2 here: {0}")]
    NoSuperblock(String),
    /// The format is one that this engine does not read.
    #[error("this NILFS2 is not supported: {0}")]
    Unsupported(String),
    /// There is no log with a checkpoint where the superblock points.
    #[error("no usable checkpoint: {0}")]
    NoCheckpoint(String),
    /// The checkpoint that was asked for does not exist.
    #[error("there is no checkpoint {0}")]
    UnknownCheckpoint(u64),
    /// The device could not be read or written.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The first log of the newest checkpoint is missing: the device kept the one with the super root, in the
    /// next segment, and lost what was written before it.
    #[error("the first log of the newest checkpoint is missing: {0}")]
    SplitCheckpoint(String),
    /// What the checkpoint leads to is damaged.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(String),
}

/// Why a mount began at the older superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// What is wrong where the newer superblock points.
    pub why: String,
    /// A cut explains it. After an orderly unmount nothing is written to the log any more, so that only a
    /// cut of raw NAND under the device, which leaves blank pages, takes parts of it away.
    pub is_cut: bool,
}
