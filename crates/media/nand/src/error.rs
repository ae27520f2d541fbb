//! What a chip can answer instead of carrying an operation out.

use thiserror::Error;

/// Why a chip operation did not do what was asked.
///
/// The first group are rules of the part: meeting one is a bug of the caller. The second group
/// are conditions of the silicon that a translation layer or file system must live with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NandError {
    /// The address is outside the chip.
    #[error("block {block} page {page} is outside the chip")]
    OutOfRange {
        /// Block number asked for.
        block: u32,
        /// Page number asked for.
        page: u32,
    },
    /// The page already holds data and its block was not erased since.
    #[error("block {block} page {page} is programmed and was not erased since")]
    NotErased {
        /// Block of the page.
        block: u32,
        /// Page within the block.
        page: u32,
    },
    /// The part demands ascending page order within a block.
    #[error("block {block} page {page} breaks the page order: the next page is {next}")]
    OutOfOrder {
        /// Block of the page.
        block: u32,
        /// Page within the block.
        page: u32,
        /// Lowest page that may be programmed now.
        next: u32,
    },
    /// The number of partial programs (NOP) of the page is used up.
    #[error("block {block} page {page} was programmed as often as the part allows (NOP)")]
    ProgramLimit {
        /// Block of the page.
        block: u32,
        /// Page within the block.
        page: u32,
    },
    /// The block is marked bad.
    #[error("block {block} is marked bad")]
    BadBlock {
        /// Number of the block.
        block: u32,
    },
    /// The last erase of the block was interrupted; it must be erased again before use.
    #[error("block {block} looks erased but its last erase was interrupted")]
    Unstable {
        /// Number of the block.
        block: u32,
    },
    /// Data bytes were asked of a chip that does not store them.
    #[error("this chip was made without byte storage")]
    NoStorage,
    /// The status register reported a failed program.
    #[error("program of block {block} page {page} failed")]
    ProgramFailed {
        /// Block of the page.
        block: u32,
        /// Page within the block.
        page: u32,
    },
    /// The status register reported a failed erase.
    #[error("erase of block {block} failed")]
    EraseFailed {
        /// Number of the block.
        block: u32,
    },
    /// More bit errors than the part's ECC corrects.
    #[error("block {block} page {page} has more bit errors than the ECC corrects")]
    Uncorrectable {
        /// Block of the page.
        block: u32,
        /// Page within the block.
        page: u32,
    },
    /// The supply failed; nothing works until `power_on`.
    #[error("the chip has no power")]
    PowerLost,
}
