//! Bytes of a file that are zero, though no call wrote them.
//!
//! FAT has no holes: what lies between an old end and the place of a write behind it must be zero on the
//! medium. The kernel keeps those pages dirty in the page cache (`cont_expand_zero`); here they are
//! ranges, written with the inode, or by the page that is written over them.
//!
//! May use no other file of the crate.

use std::ops::Range;

/// Ranges of bytes, apart from each other, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zeros(Vec<Range<u64>>);

impl Zeros {
    /// Adds a range behind all others.
    pub(crate) fn push(&mut self, range: Range<u64>) {
        debug_assert!(
            range.is_empty() || self.0.last().is_none_or(|last| last.start <= range.start),
            "{range:?} begins before the last of {:?}",
            self.0
        );
        match self.0.last_mut() {
            _ if range.is_empty() => {}
            // Files grow at their end, so a new range lies behind all others or touches the last.
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => self.0.push(range),
        }
        self.assert_invariants();
    }

    /// Takes a range out.
    pub(crate) fn remove(&mut self, gone: &Range<u64>) {
        let rest = |range: &Range<u64>| {
            let before = range.start..range.end.min(gone.start);
            let after = range.start.max(gone.end)..range.end;
            [before, after].into_iter().filter(|part| !part.is_empty())
        };
        self.0 = self.0.iter().flat_map(rest).collect();
        self.assert_invariants();
    }

    /// Ranges hold bytes, stand in order and apart from each other.
    #[inline]
    #[track_caller]
    pub(crate) fn assert_invariants(&self) {
        debug_assert!(self.0.iter().all(|range| range.start < range.end), "{:?}", self.0);
        debug_assert!(
            self.0.windows(2).all(|pair| pair[0].end < pair[1].start),
            "ranges in order and apart: {:?}",
            self.0
        );
    }

    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.0.first().cloned()
    }

    /// Clears those of the bytes from `start` on that are zero.
    pub(crate) fn clear(&self, start: u64, bytes: &mut [u8]) {
        let end = start + bytes.len() as u64;
        for range in &self.0 {
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                bytes[(from - start) as usize..(to - start) as usize].fill(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Zeros;

    #[test]
    fn ranges_come_and_go() {
        let mut zeros = Zeros::default();
        zeros.push(10..20);
        zeros.push(20..30);
        zeros.push(40..50);
        zeros.push(60..60);
        assert_eq!(zeros.0, [10..30, 40..50]);
        zeros.remove(&(15..18));
        zeros.remove(&(45..100));
        assert_eq!(zeros.0, [10..15, 18..30, 40..45]);
        let mut bytes = [1; 20];
        zeros.clear(12, &mut bytes);
        assert_eq!(bytes, [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        zeros.remove(&(0..100));
        assert_eq!(zeros.first(), None);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "begins before the last of")]
    fn a_range_before_the_last_one_is_refused() {
        let mut zeros = Zeros::default();
        zeros.push(40..50);
        zeros.push(10..20);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "ranges in order and apart")]
    fn ranges_out_of_order_are_found() {
        Zeros(vec![40..50, 10..20]).assert_invariants();
    }
}
