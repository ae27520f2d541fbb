//! The pages of one file, by index.
//!
//! A sorted map of chunks of 64 slots, each chunk with one bit a slot for every tag: the shape of
//! the kernel's radix tree (`include/linux/radix-tree.h`), flattened to one level over the map.

use std::collections::BTreeMap;

const SLOTS: u64 = 64;

/// What pages can be looked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// It is there.
    Present,
    /// It differs from the medium.
    Dirty,
    /// It is being written.
    WriteBack,
}

struct Chunk {
    frames: [u32; SLOTS as usize],
    tags: [u64; 3],
}

/// The pages of one file: numbers of frames, by index.
#[derive(Default)]
pub(crate) struct PageTree {
    chunks: BTreeMap<u64, Box<Chunk>>,
}

impl PageTree {
    pub(crate) fn get(&self, index: u64) -> Option<u32> {
        let chunk = self.chunks.get(&(index / SLOTS))?;
        let slot = index % SLOTS;
        (chunk.tags[Tag::Present as usize] >> slot & 1 == 1).then(|| chunk.frames[slot as usize])
    }

    pub(crate) fn insert(&mut self, index: u64, frame: u32) {
        let empty = || Box::new(Chunk { frames: [0; SLOTS as usize], tags: [0; 3] });
        let chunk = self.chunks.entry(index / SLOTS).or_insert_with(empty);
        let slot = index % SLOTS;
        chunk.frames[slot as usize] = frame;
        chunk.tags[Tag::Present as usize] |= 1 << slot;
    }

    pub(crate) fn remove(&mut self, index: u64) {
        let Some(chunk) = self.chunks.get_mut(&(index / SLOTS)) else { return };
        for tag in &mut chunk.tags {
            *tag &= !(1 << (index % SLOTS));
        }
        if chunk.tags[Tag::Present as usize] == 0 {
            self.chunks.remove(&(index / SLOTS));
        }
    }

    pub(crate) fn set(&mut self, index: u64, tag: Tag, is_set: bool) {
        let Some(chunk) = self.chunks.get_mut(&(index / SLOTS)) else { return };
        let bit = 1 << (index % SLOTS);
        if is_set {
            chunk.tags[tag as usize] |= bit;
        } else {
            chunk.tags[tag as usize] &= !bit;
        }
    }

    /// The first page from `from` on that has the tag.
    pub(crate) fn next(&self, tag: Tag, from: u64) -> Option<u64> {
        for (number, chunk) in self.chunks.range(from / SLOTS..) {
            let mut bits = chunk.tags[tag as usize];
            if *number == from / SLOTS {
                bits &= u64::MAX << (from % SLOTS);
            }
            if bits != 0 {
                return Some(number * SLOTS + u64::from(bits.trailing_zeros()));
            }
        }
        None
    }

    /// Pages in a row that are there, from `from` upwards; at most `most` are counted.
    pub(crate) fn present_from(&self, from: u64, most: u64) -> u64 {
        (0..most).take_while(|step| self.get(from + step).is_some()).count() as u64
    }

    /// Pages in a row that are there just before `end`; at most `most` are counted.
    pub(crate) fn present_before(&self, end: u64, most: u64) -> u64 {
        (1..=most.min(end)).take_while(|step| self.get(end - step).is_some()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{PageTree, Tag};

    #[test]
    fn pages_are_found_by_tag_and_in_rows() {
        let mut tree = PageTree::default();
        for index in [3, 63, 64, 65, 1000] {
            tree.insert(index, index as u32 * 2);
        }
        tree.set(64, Tag::Dirty, true);
        tree.set(1000, Tag::Dirty, true);
        assert_eq!(tree.get(65), Some(130));
        assert_eq!(tree.get(66), None);
        assert_eq!(tree.next(Tag::Dirty, 0), Some(64));
        assert_eq!(tree.next(Tag::Dirty, 65), Some(1000));
        assert_eq!(tree.next(Tag::WriteBack, 0), None);
        assert_eq!((tree.present_from(63, 32), tree.present_from(63, 2)), (3, 2));
        assert_eq!((tree.present_before(66, 32), tree.present_before(3, 32)), (3, 0));
        tree.remove(64);
        assert_eq!(tree.next(Tag::Dirty, 0), Some(1000));
        assert_eq!(tree.next(Tag::Present, 64), Some(65));
    }
}
