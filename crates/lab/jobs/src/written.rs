//! What a process has written and will read again (`verify` of fio).

use std::collections::{BTreeMap, VecDeque};

/// Reads of what a job wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verify {
    /// Writes after which they are read; 0 for after all of a pass (`verify_backlog`).
    pub backlog: u64,
    /// Reads at a time; 0 for as many as the backlog (`verify_backlog_batch`).
    pub batch: u64,
}

/// Pieces of the file that were written and not read again.
///
/// Source: `log_io_piece` and `get_next_verify` of fio (`iolog.c`, `verify.c`). Where a place may be written twice the
/// pieces are kept by place and the older one is dropped, else in the order of writing.
#[derive(Debug)]
pub(crate) enum Written {
    ByPlace(BTreeMap<u64, u64>),
    InOrder(VecDeque<(u64, u64)>),
}

impl Written {
    pub(crate) fn new(may_overlap: bool) -> Self {
        if may_overlap { Self::ByPlace(BTreeMap::new()) } else { Self::InOrder(VecDeque::new()) }
    }

    /// `bytes` at `offset_bytes` were written.
    pub(crate) fn add(&mut self, offset_bytes: u64, bytes: u64) {
        match self {
            Self::InOrder(pieces) => pieces.push_back((offset_bytes, bytes)),
            Self::ByPlace(pieces) => {
                // Those that begin within the new one, and the one before that reaches into it.
                while let Some((&place, &length)) = pieces.range(..offset_bytes + bytes).next_back()
                    && place + length > offset_bytes
                {
                    pieces.remove(&place);
                }
                // A piece that was written over in part is dropped whole, as in fio: its header is gone.
                pieces.insert(offset_bytes, bytes);
            }
        }
    }

    /// Number of pieces.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::ByPlace(pieces) => pieces.len(),
            Self::InOrder(pieces) => pieces.len(),
        }
    }

    /// The piece to read next: offset and bytes.
    pub(crate) fn take(&mut self) -> Option<(u64, u64)> {
        match self {
            Self::ByPlace(pieces) => pieces.pop_first(),
            Self::InOrder(pieces) => pieces.pop_front(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Written;

    fn all(mut written: Written) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| written.take()).collect()
    }

    #[test]
    fn pieces_come_by_place_without_those_that_were_written_over() {
        let mut written = Written::new(true);
        for (place, bytes) in [(20, 10), (0, 8), (8, 4), (5, 4), (40, 1), (22, 2)] {
            written.add(place, bytes);
        }
        // 5 to 9 reaches into 0 to 8 and into 8 to 12; 22 to 24 lies within 20 to 30.
        assert_eq!(all(written), [(5, 4), (22, 2), (40, 1)]);
    }

    #[test]
    fn pieces_come_in_the_order_of_writing() {
        let mut written = Written::new(false);
        for place in [3, 1, 2] {
            written.add(place, 1);
        }
        assert_eq!(written.len(), 3);
        assert_eq!(all(written), [(3, 1), (1, 1), (2, 1)]);
    }
}
