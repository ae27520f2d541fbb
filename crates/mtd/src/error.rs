//! Why an operation on raw NAND failed.

use nand::NandError;
use thiserror::Error;

/// Why an operation on raw NAND failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MtdError {
    /// The address or length does not fit the device, or the unit of the operation.
    #[error("offset {offset} and length {length} do not fit the device, or its pages")]
    Invalid {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// The block is marked bad.
    #[error("block {block} is bad")]
    BadBlock {
        /// Block number.
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
        match error {
            NandError::BadBlock { block } => Self::BadBlock { block },
            NandError::ProgramFailed { .. } | NandError::EraseFailed { .. } => Self::Failed(error),
            other => Self::Rule(other),
        }
    }
}
