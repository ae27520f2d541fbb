//! Places on the volume: a position within a logical eraseblock, and numbers within the main area.
//!
//! A format: uses the numbers of `ubi` only.

use fs_api::Place as FoundAt;
use std::fmt;
pub(crate) use ubi::LebNumber;

/// A position on the volume: an eraseblock, and an offset in it (`lnum` and `offs` in the kernel).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position {
    pub(crate) leb: LebNumber,
    /// Bytes from the beginning of the eraseblock.
    pub(crate) offset: u32,
}

impl Position {
    pub(crate) const fn new(leb: LebNumber, offset: u32) -> Self {
        Self { leb, offset }
    }

    /// The beginning of an eraseblock.
    pub(crate) const fn start_of(leb: LebNumber) -> Self {
        Self::new(leb, 0)
    }

    /// The position so many bytes further on in the same eraseblock.
    pub(crate) const fn plus(self, bytes: u32) -> Self {
        Self::new(self.leb, self.offset + bytes)
    }

    pub(crate) fn found(self) -> FoundAt {
        FoundAt::Leb(self.leb.get(), self.offset)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}:{}", self.leb, self.offset)
    }
}

/// Number of an eraseblock within the main area, counted from its first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct MainIndex(u32);

impl MainIndex {
    pub(crate) const fn new(index: u32) -> Self {
        Self(index)
    }

    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    /// The number as an index of a table of the whole main area.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}
