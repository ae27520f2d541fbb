//! Bytes of a file, of which versions share the pages that are alike.
//!
//! A history keeps each version of each file. A file of megabytes that is written page by page has hundreds of
//! versions: whole copies of them would take gigabytes.

use fs_api::PAGE_BYTES;
use std::sync::Arc;

/// Bytes of a regular file. Comparing two of them passes over the pages that they share.
// Every page but the last has `PAGE_BYTES`, and none is empty: so equal contents have equal pages. `==` of `Arc<T: Eq>`
// looks at the pointers first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pages: Arc<[Page]>,
}

type Page = Arc<[u8]>;

impl Content {
    /// A content of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self::of_pages(bytes.chunks(PAGE_BYTES).map(Arc::from))
    }

    /// A content of these pages: `PAGE_BYTES` each, but for the last one.
    pub(crate) fn of_pages(pages: impl IntoIterator<Item = Arc<[u8]>>) -> Self {
        let pages: Arc<[Page]> = pages.into_iter().collect();
        debug_assert!(
            pages.iter().rev().skip(1).all(|page| page.len() == PAGE_BYTES),
            "pages before the last are whole"
        );
        debug_assert!(pages.iter().all(|page| !page.is_empty()), "a page has a byte at least");
        Self { pages }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE_BYTES + last.len())
    }

    /// True without any byte.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// True if both are one in memory; such are alike.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pages, &other.pages)
    }

    /// The pages in their order: `PAGE_BYTES` each, the last one what is left.
    pub fn pages(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.pages.iter().map(|page| &**page)
    }

    /// The bytes of a page; none behind the last one.
    pub fn page(&self, number: usize) -> &[u8] {
        self.pages.get(number).map_or(&[], |page| page)
    }

    /// A byte, if there is one at this place.
    pub fn byte(&self, at: usize) -> Option<u8> {
        self.page(at / PAGE_BYTES).get(at % PAGE_BYTES).copied()
    }

    /// All bytes, one after the other.
    pub fn bytes(&self) -> impl DoubleEndedIterator<Item = u8> {
        self.pages().flatten().copied()
    }

    /// All bytes in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pages.concat()
    }

    /// True if these bytes begin with all of the others.
    pub fn starts_with(&self, start: &Self) -> bool {
        let mut pages = start.pages.iter().zip(&*self.pages);
        start.pages.len() <= self.pages.len()
            && pages.all(|(start, page)| Arc::ptr_eq(start, page) || page.starts_with(start))
    }

    /// Its first bytes, at most this many.
    pub(crate) fn cut_to(&self, bytes: usize) -> Self {
        if bytes >= self.len() {
            return self.clone();
        }
        let (whole, rest) = (bytes / PAGE_BYTES, bytes % PAGE_BYTES);
        let mut pages = self.pages[..whole].to_vec();
        if rest > 0 {
            pages.push(Arc::from(&self.pages[whole][..rest]));
        }
        Self { pages: pages.into() }
    }

    /// It with zeros behind its end, up to this many bytes.
    pub(crate) fn grown_to(&self, bytes: usize) -> Self {
        let mut all = self.to_vec();
        all.resize(bytes.max(all.len()), 0);
        Self::new(&all)
    }

    /// It with other bytes, as many, in place of those of some pages.
    pub(crate) fn with_pages(&self, mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Self {
        let changed = |page: &Page| {
            change(page).map_or_else(
                || page.clone(),
                |other| {
                    debug_assert_eq!(other.len(), page.len(), "a page keeps its length");
                    other.into()
                },
            )
        };
        Self::of_pages(self.pages.iter().map(changed))
    }

    /// Uses the pages of an older version that are alike: they are in memory once.
    pub(crate) fn share(&mut self, older: &Self) {
        if self.is_shared_with(older) {
            return;
        }
        let mut shared = 0;
        let page = |(number, page): (usize, &Page)| match older.pages.get(number) {
            Some(old) if old == page => {
                shared += 1;
                old.clone()
            }
            _ => page.clone(),
        };
        let pages: Arc<[Page]> = self.pages.iter().enumerate().map(page).collect();
        let is_same = shared == pages.len() && shared == older.pages.len();
        *self = if is_same { older.clone() } else { Self { pages } };
    }
}

#[cfg(test)]
mod tests {
    use super::Content;
    use fs_api::PAGE_BYTES;
    use std::sync::Arc;

    fn counted(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8).collect()
    }

    /// Lengths at and around the ends of pages.
    const LENGTHS: [usize; 8] =
        [0, 1, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1, 2 * PAGE_BYTES, 9000, 3 * PAGE_BYTES];

    #[test]
    fn it_is_its_bytes() {
        for length in LENGTHS {
            let bytes = counted(length);
            let content = Content::new(&bytes);
            assert_eq!((content.len(), content.is_empty()), (length, length == 0));
            assert_eq!(content.to_vec(), bytes);
            assert!(content.bytes().eq(bytes.iter().copied()));
            for at in [0, 1, length.saturating_sub(1), length, PAGE_BYTES, usize::MAX] {
                assert_eq!(content.byte(at), bytes.get(at).copied());
            }
            for other in LENGTHS {
                let longer = counted(other);
                assert_eq!(Content::new(&longer).starts_with(&content), longer.starts_with(&bytes));
                let mut grown = bytes.clone();
                grown.resize(other.max(length), 0);
                assert_eq!(content.grown_to(other).to_vec(), grown);
                let cut = content.cut_to(other);
                assert_eq!(cut.to_vec(), bytes[..other.min(length)]);
                // A cut within a page, whose rest would be an empty page.
                assert_eq!(cut, Content::new(&bytes[..other.min(length)]));
            }
        }
    }

    #[test]
    fn versions_share_what_they_have_in_common() {
        let old = Content::new(&counted(9000));
        let mut bytes = counted(9000);
        bytes[PAGE_BYTES] ^= 1;
        let mut new = Content::new(&bytes);
        assert_ne!(new, old);
        new.share(&old);
        let is_shared: Vec<bool> =
            new.pages.iter().zip(&*old.pages).map(|(new, old)| Arc::ptr_eq(new, old)).collect();
        assert_eq!(is_shared, [true, false, true]);
        assert_eq!(new.to_vec(), bytes);
        let mut same = Content::new(&counted(9000));
        assert!(same == old && !same.is_shared_with(&old));
        same.share(&old);
        assert!(same.is_shared_with(&old));
    }
}
