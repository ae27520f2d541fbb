//! Serving block requests by a translation layer, page by page, without time.
//!
//! A request that covers part of a page reads that page first if it was ever written, then programs
//! it. A trim drops the pages it covers whole. Writes of zeroes are writes.

use crate::StudyError;
use ftl::{Ftl, FtlError, MergeCounts};
use nand::Counters;
use trace::{AddressRule, Operation};

/// Requests, pages and bytes of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Requests of all kinds.
    pub requests: u64,
    /// Pages read, without those read to complete a partial write.
    pub read_pages: u64,
    /// Pages that host writes touch.
    pub write_pages: u64,
    /// Bytes that the host read.
    pub read_bytes: u64,
    /// Bytes that the host wrote.
    pub write_bytes: u64,
    /// Pages that trims cover whole.
    pub trim_pages: u64,
    /// Pages written in part, that had to be read first.
    pub partial_writes: u64,
    /// Requests shortened or left out because they lie past the end.
    pub clipped: u64,
    /// Reads of data that was lost.
    pub lost_reads: u64,
    /// Pages read that held nothing: never written, or trimmed. The chip does no work for them.
    pub unwritten_read_pages: u64,
}

/// Bits of a word of [`Written`].
const WORD_BITS: u32 = u64::BITS;

/// Which logical pages hold data, a bit each. A layer has the same state, but a look at it costs a
/// virtual call a page, and every read needs it.
#[derive(Clone, Debug)]
struct Written(Vec<u64>);

impl Written {
    fn none_of(pages: u32) -> Self {
        Self(vec![0; pages.div_ceil(WORD_BITS) as usize])
    }

    /// The words that hold pages `first..end`, each with the mask of those among them.
    fn words(first: u32, end: u32) -> impl Iterator<Item = (usize, u64)> {
        (first / WORD_BITS..end.div_ceil(WORD_BITS)).filter_map(move |word| {
            let begin = word * WORD_BITS;
            let from = first.max(begin) - begin;
            let to = (end - begin).min(WORD_BITS);
            // Both shifts are below the width: `from` is at most 63 and `to` at least 1.
            let mask = (u64::MAX >> (WORD_BITS - to)) & (u64::MAX << from);
            (from < to).then_some((word as usize, mask))
        })
    }

    fn set(&mut self, first: u32, end: u32) {
        for (word, mask) in Self::words(first, end) {
            self.0[word] |= mask;
        }
    }

    fn clear(&mut self, first: u32, end: u32) {
        for (word, mask) in Self::words(first, end) {
            self.0[word] &= !mask;
        }
    }

    /// Pages of `first..end` that hold nothing.
    fn missing(&self, first: u32, end: u32) -> u64 {
        let held: u32 =
            Self::words(first, end).map(|(word, mask)| (self.0[word] & mask).count_ones()).sum();
        u64::from(end - first - held)
    }
}

/// A device under replay.
pub struct Replay {
    ftl: Box<dyn Ftl>,
    page_bytes: u64,
    capacity_bytes: u64,
    address: AddressRule,
    host: HostCounters,
    written: Written,
    before: Before,
}

/// What was counted before the last reset.
///
/// The chip itself counts on: wear levelling goes by all erases of a block.
#[derive(Clone, Debug, Default)]
struct Before {
    counters: Counters,
    erase_counts: Vec<u32>,
    busy_ns: [u64; 3],
    merges: MergeCounts,
}

impl Replay {
    /// A replay on a device.
    pub fn new(ftl: Box<dyn Ftl>, address: AddressRule) -> Self {
        let page_bytes = u64::from(ftl.flash().geometry().page_data_bytes);
        let capacity_bytes = page_bytes * u64::from(ftl.logical_pages());
        let written = Written::none_of(ftl.logical_pages());
        let mut replay = Self {
            ftl,
            page_bytes,
            capacity_bytes,
            address,
            host: HostCounters::default(),
            written,
            before: Before::default(),
        };
        // What a layer does while it is built is not counted.
        replay.reset_counters();
        replay
    }

    /// The device with its layer.
    pub fn ftl(&self) -> &dyn Ftl {
        self.ftl.as_ref()
    }

    /// Counters since the start or the last reset.
    pub fn host(&self) -> HostCounters {
        self.host
    }

    /// Bytes the device offers.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Counts from zero again; contents and wear stay.
    pub fn reset_counters(&mut self) {
        self.host = HostCounters::default();
        let flash = self.ftl.flash();
        self.before = Before {
            counters: flash.chip().counters(),
            erase_counts: flash.chip().erase_counts().to_vec(),
            busy_ns: flash.chip().busy_ns(),
            merges: flash.merges,
        };
    }

    /// Wears every block by so many erases that are not carried out; no counter shows them.
    pub(crate) fn age(&mut self, erases: &[u32]) {
        self.ftl.flash_mut().age(erases);
    }

    /// Operations of the chip since the start or the last reset.
    #[inline]
    pub fn counters(&self) -> Counters {
        self.ftl.flash().chip().counters() - self.before.counters
    }

    /// Erases of every block since the start or the last reset.
    pub fn erase_counts(&self) -> impl Iterator<Item = u32> {
        let counts = self.ftl.flash().chip().erase_counts();
        counts.iter().zip(&self.before.erase_counts).map(|(now, before)| now - before)
    }

    /// Time spent in reads, programs and erases since the start or the last reset.
    pub fn busy_ns(&self) -> [u64; 3] {
        let now = self.ftl.flash().chip().busy_ns();
        std::array::from_fn(|kind| now[kind] - self.before.busy_ns[kind])
    }

    /// Merges since the start or the last reset.
    pub fn merges(&self) -> MergeCounts {
        let (now, before) = (self.ftl.flash().merges, self.before.merges);
        MergeCounts {
            switch: now.switch - before.switch,
            partial: now.partial - before.partial,
            full: now.full - before.full,
            cleaned: now.cleaned - before.cleaned,
        }
    }

    /// Builds the layer's tables anew, as after a power cut.
    ///
    /// # Errors
    /// [`StudyError::Ftl`] if the layer cannot write a page.
    pub(crate) fn rebuild(&mut self) -> Result<(), StudyError> {
        Ok(self.ftl.rebuild()?)
    }

    /// Writes every page of the device once, in order: what a user of a used device finds.
    ///
    /// # Errors
    /// The end of the device's life.
    pub fn fill(&mut self) -> Result<(), StudyError> {
        // In pieces of a few blocks, as a host writes it; the piece changes no count of any layer.
        const PIECE_PAGES: u32 = 1024;
        let pages = self.ftl.logical_pages();
        for first in (0..pages).step_by(PIECE_PAGES as usize) {
            self.ftl.write_pages(first..pages.min(first + PIECE_PAGES))?;
        }
        self.written.set(0, pages);
        Ok(())
    }

    /// Serves one request.
    ///
    /// # Errors
    /// An address past the end under [`AddressRule::Error`]; the end of the device's life.
    #[inline]
    pub fn serve(
        &mut self,
        operation: Operation,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Result<(), StudyError> {
        self.host.requests += 1;
        let length_bytes = u64::from(length_bytes);
        if operation == Operation::Flush {
            // A flush has no address, whatever stands in its fields.
            return Ok(self.ftl.flush()?);
        }
        if length_bytes == 0 {
            return Ok(());
        }
        // The usual request lies inside, and needs no look at the rule.
        if offset_bytes.checked_add(length_bytes).is_some_and(|end| end <= self.capacity_bytes) {
            return self.serve_range(operation, offset_bytes, length_bytes);
        }
        self.serve_outside(operation, offset_bytes, length_bytes)
    }

    #[cold]
    fn serve_outside(
        &mut self,
        operation: Operation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), StudyError> {
        let capacity = self.capacity_bytes;
        match self.address {
            AddressRule::Error => Err(StudyError::Request {
                number: self.host.requests,
                what: format!("{operation:?} of {length_bytes} bytes at byte {offset_bytes}")
                    .to_lowercase(),
                reason: format!(
                    "past the end of the device of {capacity} bytes; \
                     give the chip more blocks, or take a larger part"
                ),
            }),
            AddressRule::Clip => {
                self.host.clipped += 1;
                let length_bytes = capacity.saturating_sub(offset_bytes).min(length_bytes);
                if length_bytes == 0 {
                    Ok(())
                } else {
                    self.serve_range(operation, offset_bytes, length_bytes)
                }
            }
            AddressRule::Modulo => {
                let (mut offset_bytes, mut left) = (offset_bytes % capacity, length_bytes);
                while left > 0 {
                    let piece = left.min(capacity - offset_bytes);
                    self.serve_range(operation, offset_bytes, piece)?;
                    left -= piece;
                    offset_bytes = 0;
                }
                Ok(())
            }
        }
    }

    #[inline]
    fn serve_range(
        &mut self,
        operation: Operation,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(), StudyError> {
        let end_bytes = offset_bytes + length_bytes;
        debug_assert!(end_bytes <= self.capacity_bytes, "the rule of addresses was applied");
        let first = (offset_bytes / self.page_bytes) as u32;
        let end = end_bytes.div_ceil(self.page_bytes) as u32;
        match operation {
            Operation::Read => {
                self.host.read_bytes += length_bytes;
                self.host.read_pages += u64::from(end - first);
                self.host.unwritten_read_pages += self.written.missing(first, end);
                self.read(first, end - first)
            }
            Operation::Write | Operation::WriteZeroes => {
                self.host.write_bytes += length_bytes;
                self.host.write_pages += u64::from(end - first);
                if !offset_bytes.is_multiple_of(self.page_bytes)
                    || !end_bytes.is_multiple_of(self.page_bytes)
                {
                    self.read_partly_written(offset_bytes, end_bytes)?;
                }
                self.ftl.write_pages(first..end)?;
                self.written.set(first, end);
                Ok(())
            }
            Operation::Trim => {
                let first = offset_bytes.div_ceil(self.page_bytes) as u32;
                let end = (end_bytes / self.page_bytes) as u32;
                // A range within a page covers none whole: its `end` lies before its `first`.
                self.host.trim_pages += u64::from(end.saturating_sub(first));
                self.ftl.trim_pages(first..end)?;
                if first < end {
                    self.written.clear(first, end);
                }
                Ok(())
            }
            Operation::Flush => unreachable!("a flush has no range"),
        }
    }

    /// Reads pages; a lost one is a result, not the end of the replay.
    fn read(&mut self, first: u32, count: u32) -> Result<(), StudyError> {
        let end = first + count;
        let mut next = first;
        loop {
            match self.ftl.read_pages(next..end) {
                Ok(()) => return Ok(()),
                Err(FtlError::Lost { lpn }) => {
                    self.host.lost_reads += 1;
                    next = lpn + 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads the first and the last page of a range where it covers them in part.
    fn read_partly_written(&mut self, offset_bytes: u64, end_bytes: u64) -> Result<(), StudyError> {
        let first = (offset_bytes / self.page_bytes) as u32;
        let last = ((end_bytes - 1) / self.page_bytes) as u32;
        let starts_inside = !offset_bytes.is_multiple_of(self.page_bytes);
        let ends_inside = !end_bytes.is_multiple_of(self.page_bytes);
        // A range within one page reads it once.
        let pages =
            [(starts_inside, first), (ends_inside && !(starts_inside && first == last), last)];
        for (_, lpn) in pages.into_iter().filter(|(partial, _)| *partial) {
            // A page that holds nothing has nothing to keep.
            if self.ftl.locate(lpn).is_some() {
                self.host.partial_writes += 1;
                self.read(lpn, 1)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Written;

    /// Bounds that lie in words, at their edges and a word apart.
    const BOUNDS: [u32; 10] = [0, 1, 5, 63, 64, 65, 127, 128, 190, 200];

    fn ranges() -> impl Iterator<Item = (u32, u32)> {
        let pairs = BOUNDS.iter().flat_map(|first| BOUNDS.iter().map(move |end| (*first, *end)));
        pairs.filter(|(first, end)| first <= end)
    }

    #[test]
    fn written_pages_are_those_of_a_plain_list() {
        for (first, end) in ranges() {
            for (from, to) in ranges() {
                let (mut written, mut list) = (Written::none_of(200), [false; 200]);
                written.set(first, end);
                list[first as usize..end as usize].fill(true);
                written.clear(from, to);
                list[from as usize..to as usize].fill(false);
                for (one, other) in ranges() {
                    let held = &list[one as usize..other as usize];
                    let missing = held.iter().filter(|held| !**held).count();
                    assert_eq!(written.missing(one, other), missing as u64);
                }
            }
        }
    }
}
