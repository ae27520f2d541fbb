//! The number of a logical block, which block-mapped and hybrid layers map as a whole.

use std::fmt::{Display, Formatter};
use std::ops::Range;

/// As many logical pages in a row as a block of the chip holds for data, from a multiple of that number on.
///
/// Blocks of the chip are numbers too. A type of its own keeps a logical block from standing where a
/// physical or virtual one is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogicalBlock(u32);

impl LogicalBlock {
    /// The logical block with this number.
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    // The number of pages is passed in: it differs between layers, since Mitsubishi keeps space pages in each
    // block, and an entry of a map stays four bytes.
    /// The logical block of page `lpn`, and the page's place in it, where each has `pages` pages.
    #[inline]
    pub(crate) fn of(lpn: u32, pages: u32) -> (Self, u32) {
        (Self(lpn / pages), lpn % pages)
    }

    /// Its first logical page, where each has `pages` pages.
    #[inline]
    pub(crate) fn first_lpn(self, pages: u32) -> u32 {
        self.0 * pages
    }

    /// All its logical pages, where each has `pages` pages.
    #[inline]
    pub(crate) fn lpns(self, pages: u32) -> Range<u32> {
        let first = self.first_lpn(pages);
        first..first + pages
    }

    /// Its place in a table of all logical blocks.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl Display for LogicalBlock {
    fn fmt(&self, formatter: &mut Formatter) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}
