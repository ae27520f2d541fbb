//! A journal of what changes the medium, byte for byte, so that it can be done again on a copy.

use crate::{Chip, NandError, PageAddress};

/// An operation of a raw NAND driver that changes the medium. Reads change nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawOperation {
    /// A program of data and spare area ([`Chip::program_raw`]).
    PageProgram {
        /// The page that is programmed.
        at: PageAddress,
        /// Bytes of the data area.
        data: Box<[u8]>,
        /// Bytes of the spare area.
        oob: Box<[u8]>,
    },
    /// [`Chip::program_raw`] of the spare area alone.
    SpareProgram {
        /// The page whose spare area is programmed.
        at: PageAddress,
        /// Bytes of the spare area.
        oob: Box<[u8]>,
    },
    /// An erase of a whole block ([`Chip::erase`]).
    Erase {
        /// The block that is erased.
        block: u32,
    },
    /// A bad mark ([`Chip::mark_bad`]).
    MarkBad {
        /// The block that is marked.
        block: u32,
    },
}

impl std::fmt::Display for RawOperation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PageProgram { at, .. } => {
                write!(out, "program of block {} page {}", at.block, at.page)
            }
            Self::SpareProgram { at, .. } => {
                write!(out, "program of the spare area of block {} page {}", at.block, at.page)
            }
            Self::Erase { block } => write!(out, "erase of block {block}"),
            Self::MarkBad { block } => write!(out, "bad mark of block {block}"),
        }
    }
}

impl Chip {
    /// Does an operation of a journal.
    ///
    /// # Errors
    /// Those of [`Chip::program_raw`], [`Chip::erase`] or [`Chip::mark_bad`], as the operation is. On a copy
    /// of the chip as it was before the operation, they are the same as then.
    pub fn apply(&mut self, operation: &RawOperation) -> Result<(), NandError> {
        match operation {
            RawOperation::PageProgram { at, data, oob } => self.program_raw(*at, data, oob),
            RawOperation::SpareProgram { at, oob } => self.program_raw(*at, &[], oob),
            RawOperation::Erase { block } => self.erase(*block),
            RawOperation::MarkBad { block } => self.mark_bad(*block),
        }
    }
}
