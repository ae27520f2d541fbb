//! Blocks that a block device over raw NAND erases and writes back.

use nand::RawOperation;
use std::ops::Range;

/// Where such blocks are in memory alone: from the erase to the last program of each, by numbers of operations.
///
/// `write_cached_data` of `drivers/mtd/mtdblock.c` holds `cache_mutex` from the erase to the last program, so
/// operations of other blocks never come between.
#[derive(Debug, Default)]
pub(crate) struct Rewrites {
    ranges: Vec<Range<usize>>,
}

impl Rewrites {
    /// The rewrites of a journal.
    pub(crate) fn of(journal: &[RawOperation]) -> Self {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut open = None;
        for (at, operation) in journal.iter().enumerate() {
            match operation {
                RawOperation::Erase { block } => {
                    open = Some(*block);
                    ranges.push(at..at + 1);
                }
                RawOperation::PageProgram { at: page, .. } if open == Some(page.block) => {
                    let last = ranges.last_mut().expect("an erase came before");
                    last.end = at + 1;
                }
                _ => open = None,
            }
        }
        Self { ranges }
    }

    /// The rewrite that an operation is part of.
    pub(crate) fn around(&self, operation: usize) -> Option<&Range<usize>> {
        let after = self.ranges.partition_point(|range| range.end <= operation);
        self.ranges.get(after).filter(|range| range.contains(&operation))
    }
}

#[cfg(test)]
mod tests {
    use super::Rewrites;
    use nand::{PageAddress, RawOperation};

    fn program(block: u32, page: u32) -> RawOperation {
        let at = PageAddress::new(block, page);
        RawOperation::PageProgram { at, data: Box::default(), oob: Box::default() }
    }

    #[test]
    fn a_rewrite_reaches_from_the_erase_to_the_last_program_of_the_same_block() {
        let erase = |block| RawOperation::Erase { block };
        let journal = [
            program(0, 0),
            erase(1),
            program(1, 0),
            program(1, 1),
            program(2, 0),
            program(1, 2),
            erase(2),
            erase(3),
            program(3, 0),
        ];
        let rewrites = Rewrites::of(&journal);
        let around: Vec<Option<usize>> =
            (0..journal.len()).map(|at| rewrites.around(at).map(|range| range.start)).collect();
        let (one, two, three) = (Some(1), Some(6), Some(7));
        assert_eq!(around, [None, one, one, one, None, None, two, three, three]);
        assert_eq!(rewrites.around(journal.len()), None);
    }
}
