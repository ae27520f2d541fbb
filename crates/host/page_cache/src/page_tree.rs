//! The pages of one file, by index.
//!
//! Chunks of 64 slots, each with one bit a slot for every tag: the leaves of the kernel's radix tree
//! (`include/linux/radix-tree.h`). Chunks are found by hash; for every tag those that hold it are
//! known in order.

use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

// 64 as `RADIX_TREE_MAP_SIZE`, and a tag's bits fit into a word.
const SLOTS: u64 = 64;

/// What pages can be looked for by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// The page is in the cache.
    Present,
    /// It differs from the medium.
    Dirty,
    /// It is being written.
    WriteBack,
}

const TAGS: [Tag; 3] = [Tag::Present, Tag::Dirty, Tag::WriteBack];

struct Chunk {
    frames: [u32; SLOTS as usize],
    tags: [u64; TAGS.len()],
}

/// The pages of one file: numbers of frames, by index.
#[derive(Default)]
pub(crate) struct PageTree {
    chunks: FxHashMap<u64, Box<Chunk>>,
    /// Chunks that hold a tag.
    tagged: [BTreeSet<u64>; TAGS.len()],
}

impl PageTree {
    #[inline]
    pub(crate) fn get(&self, index: u64) -> Option<u32> {
        let chunk = self.chunks.get(&(index / SLOTS))?;
        let slot = index % SLOTS;
        (chunk.tags[Tag::Present as usize] >> slot & 1 == 1).then(|| chunk.frames[slot as usize])
    }

    pub(crate) fn insert(&mut self, index: u64, frame: u32) {
        let empty = || Box::new(Chunk { frames: [0; SLOTS as usize], tags: [0; TAGS.len()] });
        let chunk = self.chunks.entry(index / SLOTS).or_insert_with(empty);
        chunk.frames[(index % SLOTS) as usize] = frame;
        self.set(index, Tag::Present, true);
    }

    pub(crate) fn remove(&mut self, index: u64) {
        for tag in TAGS {
            self.set(index, tag, false);
        }
        let number = index / SLOTS;
        if self.chunks.get(&number).is_some_and(|chunk| chunk.tags[Tag::Present as usize] == 0) {
            self.chunks.remove(&number);
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, index: u64, tag: Tag, is_set: bool) {
        let number = index / SLOTS;
        let Some(chunk) = self.chunks.get_mut(&number) else { return };
        let bits = &mut chunk.tags[tag as usize];
        let before = *bits;
        if is_set {
            *bits |= 1 << (index % SLOTS);
        } else {
            *bits &= !(1 << (index % SLOTS));
        }
        // Only the first and the last page of a chunk change the set, so setting a tag is cheap.
        match (before, *bits) {
            (0, 1..) => {
                self.tagged[tag as usize].insert(number);
            }
            (1.., 0) => {
                self.tagged[tag as usize].remove(&number);
            }
            _ => {}
        }
    }

    /// The first page from `from` on that has the tag.
    pub(crate) fn next(&self, tag: Tag, from: u64) -> Option<u64> {
        let first = |number: u64, mask: u64| {
            let bits = self.chunks.get(&number)?.tags[tag as usize] & mask;
            (bits != 0).then(|| number * SLOTS + u64::from(bits.trailing_zeros()))
        };
        let number = from / SLOTS;
        first(number, u64::MAX << (from % SLOTS)).or_else(|| {
            let later = self.tagged[tag as usize].range(number + 1..).next()?;
            first(*later, u64::MAX)
        })
    }

    /// Whether a page has a tag.
    pub(crate) fn has(&self, index: u64, tag: Tag) -> bool {
        let chunk = self.chunks.get(&(index / SLOTS));
        chunk.is_some_and(|chunk| chunk.tags[tag as usize] >> (index % SLOTS) & 1 == 1)
    }

    /// Pages that have a tag.
    pub(crate) fn count(&self, tag: Tag) -> u64 {
        let bits =
            |number: &u64| self.chunks.get(number).map_or(0, |chunk| chunk.tags[tag as usize]);
        // Chunks without the tag add nothing; `audit` checks that none is missing here.
        self.tagged[tag as usize].iter().map(|number| u64::from(bits(number).count_ones())).sum()
    }

    /// Checks the bits of every chunk, and that each set holds exactly the chunks with its tag.
    ///
    /// # Panics
    /// A rule is broken.
    pub(crate) fn audit(&self) {
        for (tag, chunks) in TAGS.iter().zip(&self.tagged) {
            let of =
                |number: &u64| self.chunks.get(number).map_or(0, |chunk| chunk.tags[*tag as usize]);
            assert!(chunks.iter().all(|number| of(number) != 0), "a chunk in a set has the tag");
            // The order of the map does not matter to a count.
            let tagged =
                self.chunks.values().filter(|chunk| chunk.tags[*tag as usize] != 0).count();
            assert_eq!(tagged, chunks.len(), "a chunk with the tag is in the set");
        }
        let has_pages = |chunk: &Chunk| chunk.tags[Tag::Present as usize] != 0;
        let are_pages = |chunk: &Chunk| {
            let [present, dirty, write_back] = chunk.tags;
            (dirty | write_back) & !present == 0
        };
        let mut chunks = self.chunks.values();
        assert!(chunks.all(|chunk| has_pages(chunk)), "a chunk without pages is freed");
        let mut chunks = self.chunks.values();
        assert!(chunks.all(|chunk| are_pages(chunk)), "a page with a tag is in memory");
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

    /// A tree with a dirty page and a clean one in chunks of their own, with a fault.
    fn audited(fault: impl FnOnce(&mut PageTree)) {
        let mut tree = PageTree::default();
        tree.insert(1, 0);
        tree.insert(100, 1);
        tree.set(1, Tag::Dirty, true);
        tree.audit();
        assert_eq!((tree.count(Tag::Present), tree.count(Tag::Dirty)), (2, 1));
        assert!(
            tree.has(1, Tag::Dirty) && !tree.has(100, Tag::Dirty) && !tree.has(2, Tag::Present)
        );
        fault(&mut tree);
        tree.audit();
    }

    #[test]
    #[should_panic(expected = "a chunk in a set has the tag")]
    fn a_chunk_in_a_set_without_the_tag_is_found() {
        audited(|tree| assert!(tree.tagged[Tag::Dirty as usize].insert(1)));
    }

    #[test]
    #[should_panic(expected = "a chunk with the tag is in the set")]
    fn a_chunk_missing_from_a_set_is_found() {
        audited(|tree| tree.tagged[Tag::Dirty as usize].clear());
    }

    #[test]
    #[should_panic(expected = "a chunk without pages is freed")]
    fn a_chunk_without_pages_is_found() {
        audited(|tree| tree.set(100, Tag::Present, false));
    }

    #[test]
    #[should_panic(expected = "a page with a tag is in memory")]
    fn a_tag_without_a_page_is_found() {
        audited(|tree| tree.set(2, Tag::Dirty, true));
    }
}
