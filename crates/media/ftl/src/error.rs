//! What a translation layer can answer.

use nand::NandError;
use thiserror::Error;

/// Why a request could not be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FtlError {
    /// The logical page does not exist.
    #[error("logical page {lpn} is outside the device of {logical_pages} pages")]
    OutOfRange {
        /// Logical page asked for.
        lpn: u32,
        /// Logical pages of the device.
        logical_pages: u32,
    },
    /// The data of the page was lost: it could not be read, now or when it was moved.
    #[error("the data of logical page {lpn} was lost")]
    Lost {
        /// The logical page whose data was lost.
        lpn: u32,
    },
    /// No free block is left: the device is at its end of life, or too small for its settings.
    #[error("no free block is left (bad blocks and settings leave too few)")]
    NoFreeBlock,
    /// The chip refused or failed in a way the layer cannot mend.
    #[error(transparent)]
    Nand(#[from] NandError),
}
