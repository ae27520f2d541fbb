//! The bytes that scripts write: named generators, the same on every machine.

use std::sync::Arc;

/// What the bytes are like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// `x`: no compressor makes them smaller.
    Incompressible,
    /// `t`: words, which compress well.
    Text,
    /// `r`: pages that differ in their first eight bytes only; each by itself cannot be compressed.
    Repeating,
    /// `z`: zeros, of which file systems may keep nothing.
    Zeros,
    /// `h`: these bytes, again and again. Shared, since a step may be copied for each file of `putn`.
    Given(Arc<[u8]>),
}

impl DataKind {
    /// The kind of a letter, of those that are drawn.
    pub fn from_letter(letter: &str) -> Option<Self> {
        Some(match letter {
            "x" => Self::Incompressible,
            "t" => Self::Text,
            "r" => Self::Repeating,
            "z" => Self::Zeros,
            _ => return None,
        })
    }
}

/// The generator under all kinds: 64-bit xorshift with shifts 13, 7, 17.
///
/// Source: Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
#[derive(Clone, Copy, Debug)]
pub struct Xorshift(u64);

impl Xorshift {
    /// The state of a seed: the seed times 2^64 divided by the golden ratio.
    pub fn new(seed: u64) -> Self {
        // The factor is odd, so different seeds give different states. Seed 0 gives 0, from which
        // all numbers are 0.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number of the generator.
    pub fn next_number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

// A power of two, so that each word is as likely as the others.
const WORDS: [&str; 32] = [
    "the", "of", "and", "flash", "block", "page", "erase", "read", "write", "node", "inode",
    "journal", "index", "commit", "garbage", "wear", "level", "buffer", "cache", "sector",
    "simulate", "device", "kernel", "mount", "recover", "power", "tree", "leaf", "branch",
    "checksum", "header", "log",
];
const WORDS_OF_A_LINE: u32 = 12;
// JFFS2 and UBIFS compress at most a page of 4096 bytes at once.
const REPEATED_BYTES: usize = 4096;
// One page for all streams of the kind; the seed of a line draws its first eight bytes.
const REPEATED_SEED: u64 = 7;

/// An endless stream of bytes.
#[derive(Clone, Debug)]
pub struct Data {
    kind: DataKind,
    numbers: Xorshift,
    /// Bytes made and not yet taken, and how many of them are taken.
    made: Vec<u8>,
    taken: usize,
    words: u32,
}

impl Data {
    /// The stream of a kind and a seed, from its first byte on.
    pub fn new(kind: DataKind, seed: u64) -> Self {
        let made = match kind {
            DataKind::Repeating => {
                let mut page = Self::new(DataKind::Incompressible, REPEATED_SEED);
                let mut bytes = vec![0; REPEATED_BYTES];
                page.fill(&mut bytes);
                bytes
            }
            _ => Vec::new(),
        };
        // Taken as a whole: the first call makes the first eight bytes.
        let taken = made.len();
        Self { kind, numbers: Xorshift::new(seed), made, taken, words: 0 }
    }

    /// Takes the next bytes of the stream.
    pub fn fill(&mut self, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            if self.kind == DataKind::Zeros {
                into[done..].fill(0);
                return;
            }
            if self.taken == self.made.len() {
                self.make();
            }
            debug_assert!(self.taken < self.made.len(), "bytes were made");
            let count = (into.len() - done).min(self.made.len() - self.taken);
            into[done..done + count].copy_from_slice(&self.made[self.taken..self.taken + count]);
            self.taken += count;
            done += count;
        }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }

    fn make(&mut self) {
        debug_assert_eq!(self.taken, self.made.len(), "no byte of the stream is left out");
        self.taken = 0;
        let number = self.numbers.next_number();
        match self.kind {
            DataKind::Zeros => {}
            DataKind::Given(ref bytes) => {
                self.made.clear();
                self.made.extend_from_slice(bytes);
            }
            DataKind::Repeating => self.made[..8].copy_from_slice(&number.to_le_bytes()),
            DataKind::Incompressible => {
                self.made.clear();
                self.made.extend_from_slice(&number.to_le_bytes());
            }
            DataKind::Text => {
                self.words += 1;
                self.made.clear();
                self.made
                    .extend_from_slice(WORDS[(number >> 32) as usize % WORDS.len()].as_bytes());
                let ends_line = self.words.is_multiple_of(WORDS_OF_A_LINE);
                self.made.push(if ends_line { b'\n' } else { b' ' });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Data, DataKind};

    #[test]
    fn a_stream_does_not_depend_on_how_it_is_taken() {
        for letter in ["x", "t", "r", "z"] {
            let kind = DataKind::from_letter(letter).expect("a kind");
            let mut whole = vec![0; 10_000];
            Data::new(kind.clone(), 42).fill(&mut whole);
            let mut pieces = vec![0; 10_000];
            let mut stream = Data::new(kind, 42);
            pieces.chunks_mut(77).for_each(|piece| stream.fill(piece));
            assert_eq!(whole, pieces, "{letter}");
        }
        assert_eq!(DataKind::from_letter("y"), None);
    }

    #[test]
    fn given_bytes_are_themselves_again_and_again() {
        let mut stream = Data::new(DataKind::Given([1, 2, 0xff].into()), 7);
        assert_eq!(stream.take(2), [1, 2]);
        assert_eq!(stream.take(5), [0xff, 1, 2, 0xff, 1]);
        assert_eq!(Data::new(DataKind::Given([].into()), 0).take(0), []);
    }

    #[test]
    fn text_is_words_in_lines_of_twelve() {
        let mut text = vec![0; 2000];
        Data::new(DataKind::Text, 1).fill(&mut text);
        let text = String::from_utf8(text).expect("words are ASCII");
        let (lines, _) = text.rsplit_once('\n').expect("several lines");
        assert!(lines.lines().all(|line| line.split(' ').count() == 12));
    }
}
