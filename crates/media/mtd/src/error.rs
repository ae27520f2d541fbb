//! Why an operation on raw NAND failed.

use nand::NandError;
use thiserror::Error;

/// Why an operation on raw NAND failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MtdError {
    /// The address or length does not fit the device, or the unit of the operation.
    #[error("offset {offset} and length {length} do not fit the device, or its pages")]
    Invalid {
        /// The first byte of the operation.
        offset: u64,
        /// Bytes of the operation.
        length: u64,
    },
    /// The block is marked bad.
    #[error("block {block} is bad")]
    BadBlock {
        /// Number of the block, over the whole chip.
        block: u32,
    },
    /// The chip reported a failed program or erase (`EIO`).
    #[error("{0}")]
    Failed(NandError),
    /// A rule of the part was broken: a mistake of the caller.
    #[error("{0}")]
    Rule(NandError),
}

impl From<NandError> for MtdError {
    fn from(error: NandError) -> Self {
        // Broken rules are the caller's mistakes, and no file system may take them for an I/O
        // error.
        match error {
            NandError::BadBlock { block } => Self::BadBlock { block },
            NandError::ProgramFailed { .. } | NandError::EraseFailed { .. } => Self::Failed(error),
            other => Self::Rule(other),
        }
    }
}
