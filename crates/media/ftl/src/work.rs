//! What a layer made its chip do, page by page: what a device above needs to place it in time.

use nand::{Chip, Counters};
use std::ops::Sub;

/// Operations of a chip and the time that its page programs took in the array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Operations of the chip, by kind.
    pub counters: Counters,
    /// Array time of the page programs: the pages of a word line differ in it. Nanoseconds.
    pub program_ns: u64,
    /// Array time of the reads beyond that of as many reads of lower pages. Nanoseconds.
    pub extra_read_ns: u64,
    /// Pages that were copied together with others: they cross the channel one by one.
    pub moved_pages: u64,
}

impl Work {
    /// All work of a chip since its counters were set to zero.
    #[inline]
    pub fn of(chip: &Chip) -> Self {
        let counters = chip.counters();
        let program_ns = match chip.timing().program_ns.as_slice() {
            // One time for all pages needs no count by position.
            [one] => one * counters.page_programs,
            several => several
                .iter()
                .zip(chip.programs_by_position())
                .map(|(program_ns, count)| program_ns * count)
                .sum(),
        };
        let (extra_read_ns, moved_pages) = (chip.extra_read_ns(), chip.moved_pages());
        Self { counters, program_ns, extra_read_ns, moved_pages }
    }
}

impl Sub for Work {
    type Output = Self;

    #[inline]
    fn sub(self, earlier: Self) -> Self {
        Self {
            counters: self.counters - earlier.counters,
            program_ns: self.program_ns - earlier.program_ns,
            extra_read_ns: self.extra_read_ns - earlier.extra_read_ns,
            moved_pages: self.moved_pages - earlier.moved_pages,
        }
    }
}

/// Work for one page of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageWork {
    /// Everything, cleaning and merges included.
    pub total: Work,
    /// Array time of the program that the page itself needs; zero for a read.
    pub own_program_ns: u64,
    /// What the read of the page itself takes longer than one of a lower page; zero for a write.
    pub own_extra_read_ns: u64,
}

/// What one step of cleaning between requests came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanStep {
    /// Nothing is to be done: enough blocks are free, or cleaning would win nothing.
    Idle,
    /// A page was moved; the block is not free yet.
    Moved,
    /// A block was erased and is free.
    Freed,
}

/// Array time of a program of page `page` of any block.
pub(crate) fn program_array_ns(chip: &Chip, page: u32) -> u64 {
    let times = &chip.timing().program_ns;
    // Pages of a word line take different times; a part that lists fewer times repeats the last.
    let position = chip.geometry().word_line_position(page) as usize;
    times[position.min(times.len() - 1)]
}
