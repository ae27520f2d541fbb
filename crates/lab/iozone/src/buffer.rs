//! The bytes that IOzone writes.

use random::Stream;

/// IOzone's pattern, unless `-V` names another.
const PATTERN: u64 = 0xa5;
/// The host's pages, at whose beginnings the pattern stands.
const PAGE_BYTES: usize = units::PAGE_BYTES;
/// Name of the stream that random contents come from.
const STREAM: &str = "iozone contents";

/// What the records hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Eight bytes of pattern at the beginning of each page, else zeros; filled once, before the clock
    /// starts, and written again and again: the data set that `-+Z` calls old.
    Pattern,
    /// Bytes that no compressor makes smaller, made anew for each record (`-+w`); so many percent of
    /// each record are the same in all.
    Random {
        /// Percent of a record that is the same in all records.
        same_percent: u32,
    },
}

/// The buffer that records are written from.
pub(crate) struct Buffer {
    contents: Contents,
    numbers: Stream,
    bytes: Vec<u8>,
}

impl Buffer {
    pub(crate) fn new(contents: Contents, record_bytes: u64, seed: u64) -> Self {
        let mut bytes = vec![0; record_bytes as usize];
        let mut numbers = Stream::new(seed, STREAM);
        match contents {
            Contents::Pattern => {
                // A last page that is shorter than the pattern stays zero.
                for page in bytes.chunks_mut(PAGE_BYTES).filter(|page| page.len() >= 8) {
                    page[..8].copy_from_slice(&(PATTERN << 32 | PATTERN).to_le_bytes());
                }
            }
            Contents::Random { .. } => fill(&mut bytes, &mut numbers),
        }
        Self { contents, numbers, bytes }
    }

    /// Bytes that are made anew before each record, while the clock runs.
    pub(crate) fn bytes_made(&self) -> usize {
        match self.contents {
            Contents::Pattern => 0,
            Contents::Random { same_percent } => {
                self.bytes.len() - self.bytes.len() * same_percent as usize / 100
            }
        }
    }

    /// The bytes of the next record to write.
    pub(crate) fn next_record(&mut self) -> &[u8] {
        // What all records share stands at the front; only what is behind it is drawn again.
        let made = self.bytes_made();
        let start = self.bytes.len() - made;
        fill(&mut self.bytes[start..], &mut self.numbers);
        &self.bytes
    }
}

fn fill(bytes: &mut [u8], numbers: &mut Stream) {
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&numbers.next_u64().to_le_bytes()[..word.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffer, Contents};

    #[test]
    fn the_pattern_stands_at_the_head_of_each_page() {
        let mut buffer = Buffer::new(Contents::Pattern, 8192, 1);
        assert_eq!(buffer.bytes_made(), 0);
        let record = buffer.next_record().to_vec();
        assert_eq!(record, buffer.next_record());
        assert_eq!(record[..9], [0xa5, 0, 0, 0, 0xa5, 0, 0, 0, 0]);
        assert_eq!(record.iter().filter(|byte| **byte != 0).count(), 4);
    }

    #[test]
    fn random_records_differ_but_for_the_share_that_is_the_same() {
        let mut buffer = Buffer::new(Contents::Random { same_percent: 25 }, 8192, 1);
        let record = buffer.next_record().to_vec();
        let next = buffer.next_record();
        assert_eq!(record[..2048], next[..2048]);
        let same = record.iter().zip(next).skip(2048).filter(|(one, other)| one == other).count();
        assert!(same < 60, "{same}");
    }
}
