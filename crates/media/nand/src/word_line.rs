//! Which pages of a block share a word line, and in which order they are programmed.
//!
//! Two-bit parts interleave word lines, as the paired-page tables of two-bit data sheets print it:
//! lower pages 0 1 2 3 6 7 10 11 …, upper pages 4 5 8 9 …, the last two pages upper. Parts with
//! more bits are taken to program a word line in one go, page after page. Left out: the other
//! orders that makers use, and coupling between neighbouring word lines.

use crate::Geometry;
use std::ops::Range;

impl Geometry {
    /// Position of a page in its word line: 0 is the lower page.
    ///
    /// The pages of one program share its position.
    pub fn word_line_position(&self, page: u32) -> u32 {
        let (page, pages) = (self.array_page(page), self.array_pages_per_block());
        match self.cell.bits() {
            1 => 0,
            // Lower pages are 0 to 3 and then the upper two of every four; the last two of a block
            // are upper pages.
            2 => u32::from((page >= 4 && page % 4 < 2) || page + 2 >= pages),
            bits => page % bits,
        }
    }

    /// Lower pages of the word line of `page`: what a torn program of it destroys besides.
    pub fn paired_pages(&self, page: u32) -> Range<u32> {
        let position = self.word_line_position(page);
        let (page, pages) = (self.array_page(page), self.array_pages_per_block());
        let lower = match self.cell.bits() {
            _ if position == 0 => page..page,
            2 => {
                // Four pages apart at both ends of the block, six in between.
                let distance = if page < 6 || page + 2 >= pages { 4 } else { 6 };
                let lower = page.saturating_sub(distance);
                lower..lower + 1
            }
            _ => page - position..page,
        };
        lower.start * self.pages_per_program..lower.end * self.pages_per_program
    }
}
