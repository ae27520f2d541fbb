//! Data and spare bytes of a chip, kept by page and shared between clones until written.
//!
//! A program of a page copies that page alone, and of its block the references to the other pages. Whole
//! blocks were copied before: a crash test clones a chip for each cut and programs a few pages of it, and
//! a copy of 132 KiB for each of them took an eighth of its time.

use crate::{Geometry, PageAddress};
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A page of which bytes are held.
#[derive(Debug)]
struct Page {
    /// Data, then spare bytes.
    bytes: Arc<[u8]>,
    /// What a reader noted of the bytes; zero for nothing.
    ///
    /// Clones share it until one of them writes to the block, and threads may read clones side by side. All of
    /// them note the same of the same bytes, so that it does not matter which note is seen: `Relaxed`.
    note: AtomicU8,
}

impl Clone for Page {
    fn clone(&self) -> Self {
        let note = AtomicU8::new(self.note.load(Ordering::Relaxed));
        Self { bytes: self.bytes.clone(), note }
    }
}

/// Pages of a block; nothing is held of one that is erased. Those behind the last that stands here are erased: UBI
/// and JFFS2 put a header or a mark into the first page of every block of an empty chip, and such a block holds that
/// page alone.
type Block = Vec<Option<Page>>;

/// Bytes of every block that is not erased.
#[derive(Clone, Debug)]
pub(crate) struct PageBytes {
    // Shared between clones until written: a snapshot of a chip costs pointers.
    blocks: Vec<Option<Arc<Block>>>,
    data_bytes: usize,
    /// Bytes of a page, data and spare.
    stride: usize,
    pages_per_block: usize,
    /// Bytes of an erased page.
    erased_page: Arc<[u8]>,
}

impl PageBytes {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let data_bytes = geometry.page_data_bytes as usize;
        let stride = data_bytes + geometry.page_oob_bytes as usize;
        Self {
            blocks: vec![None; geometry.blocks as usize],
            data_bytes,
            stride,
            pages_per_block: geometry.pages_per_block as usize,
            erased_page: vec![0xff; stride].into(),
        }
    }

    /// Copies the start of a page's data and of its spare area; erased bytes read as 0xFF.
    pub(crate) fn read(&self, at: PageAddress, data: &mut [u8], oob: &mut [u8]) {
        self.assert_fits(data, oob);
        let Some(page) = self.page(at) else {
            data.fill(0xff);
            oob.fill(0xff);
            return;
        };
        let (page_data, page_oob) = page.split_at(self.data_bytes);
        data.copy_from_slice(&page_data[..data.len()]);
        oob.copy_from_slice(&page_oob[..oob.len()]);
    }

    /// Clears the bits of a page that are clear in `data` and `oob`.
    pub(crate) fn program(&mut self, at: PageAddress, data: &[u8], oob: &[u8]) {
        self.assert_fits(data, oob);
        let (page_data, page_oob) = self.page_mut(at);
        // Two plain loops become a few wide instructions; chained they would go byte by byte.
        page_data.iter_mut().zip(data).for_each(|(stored, new)| *stored &= new);
        page_oob.iter_mut().zip(oob).for_each(|(stored, new)| *stored &= new);
    }

    /// Data and spare bytes of a page, to be changed.
    pub(crate) fn page_mut(&mut self, at: PageAddress) -> (&mut [u8], &mut [u8]) {
        let number = at.page as usize;
        // `make_mut` copies what a clone still holds: here the references to pages, below the page.
        let block = Arc::make_mut(self.blocks[at.block as usize].get_or_insert_default());
        if block.len() <= number {
            // Room for the first page alone, or for all of them: a block that is written on is mostly
            // written full.
            let room = if number == 0 { 1 } else { self.pages_per_block };
            block.reserve_exact(room - block.len());
            block.resize(number + 1, None);
        }
        let erased = || Page { bytes: self.erased_page.clone(), note: AtomicU8::new(0) };
        let page = block[number].get_or_insert_with(erased);
        // What was noted is not true of the new bytes.
        *page.note.get_mut() = 0;
        Arc::make_mut(&mut page.bytes).split_at_mut(self.data_bytes)
    }

    pub(crate) fn erase_block(&mut self, block: u32) {
        // Dropped and not filled: erased blocks take no memory.
        self.blocks[block as usize] = None;
    }

    pub(crate) fn erase_page(&mut self, at: PageAddress) {
        if self.page(at).is_some() {
            let (data, oob) = self.page_mut(at);
            data.fill(0xff);
            oob.fill(0xff);
        }
    }

    /// Sets all bits of the data of a page; its spare area stays.
    pub(crate) fn erase_data(&mut self, at: PageAddress) {
        if self.page(at).is_some() {
            self.page_mut(at).0.fill(0xff);
        }
    }

    fn held(&self, at: PageAddress) -> Option<&Page> {
        self.blocks[at.block as usize].as_ref()?.get(at.page as usize)?.as_ref()
    }

    /// The bytes of a page to be held on to, or `None` if nothing is held of it because it is erased.
    pub(crate) fn shared_page(&self, at: PageAddress) -> Option<&Arc<[u8]>> {
        self.held(at).map(|page| &page.bytes)
    }

    /// Notes something of the bytes of a page, until they change. Of an erased page nothing is noted.
    pub(crate) fn note(&self, at: PageAddress, note: NonZeroU8) {
        if let Some(page) = self.held(at) {
            page.note.store(note.get(), Ordering::Relaxed);
        }
    }

    /// What was noted of the bytes of a page.
    pub(crate) fn noted(&self, at: PageAddress) -> Option<NonZeroU8> {
        NonZeroU8::new(self.held(at)?.note.load(Ordering::Relaxed))
    }

    /// The bytes of a page, or `None` if nothing is held of it because it is erased.
    pub(crate) fn page(&self, at: PageAddress) -> Option<&[u8]> {
        self.shared_page(at).map(|page| &**page)
    }

    /// The bytes of all pages of a block, or `None` if it is erased.
    pub(crate) fn pages(&self, block: u32) -> Option<impl Iterator<Item = &[u8]> + Clone> {
        let held = self.blocks[block as usize].as_ref()?;
        let erased = &*self.erased_page;
        let behind = std::iter::repeat_n(erased, self.pages_per_block - held.len());
        let held = held.iter().map(move |page| page.as_ref().map_or(erased, |page| &page.bytes));
        Some(held.chain(behind))
    }

    /// True if both show the same bytes, held or not; both are of one shape.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same_page = |(one, other): (&[u8], &[u8])| std::ptr::eq(one, other) || one == other;
        (0..).zip(self.blocks.iter().zip(&other.blocks)).all(|(number, pair)| match pair {
            (None, None) => true,
            (Some(one), Some(two)) if Arc::ptr_eq(one, two) => true,
            (Some(_), Some(_)) => {
                let (one, two) = (self.pages(number), other.pages(number));
                one.into_iter().flatten().zip(two.into_iter().flatten()).all(is_same_page)
            }
            (Some(_), None) => self.pages(number).into_iter().flatten().all(is_blank),
            (None, Some(_)) => other.pages(number).into_iter().flatten().all(is_blank),
        })
    }

    fn assert_fits(&self, data: &[u8], oob: &[u8]) {
        let oob_bytes = self.stride - self.data_bytes;
        assert!(
            data.len() <= self.data_bytes && oob.len() <= oob_bytes,
            "{} data and {} spare bytes do not fit a page",
            data.len(),
            oob.len()
        );
    }
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xff)
}

#[cfg(test)]
mod tests {
    use super::PageBytes;
    use crate::random::Stream;
    use crate::{PageAddress, find_part};
    use std::num::NonZeroU8;

    const BLOCKS: u32 = 3;
    const PAGES: u32 = 4;
    const PAGE_BYTES: usize = 512 + 16;

    fn blank() -> PageBytes {
        let mut part = find_part("published-small-block").expect("in the catalogue");
        (part.geometry.blocks, part.geometry.pages_per_block) = (BLOCKS, PAGES);
        PageBytes::new(&part.geometry)
    }

    /// All bytes, held or not.
    fn all(bytes: &PageBytes) -> Vec<u8> {
        let mut all = Vec::new();
        for block in 0..BLOCKS {
            for page in 0..PAGES {
                let (mut data, mut oob) = ([0; 512], [0; 16]);
                bytes.read(PageAddress::new(block, page), &mut data, &mut oob);
                all.extend(data.iter().chain(&oob));
            }
        }
        all
    }

    /// A note is true of some bytes: whatever changes them ends it, in the copy alone that was changed.
    #[test]
    fn a_note_lasts_until_the_bytes_of_its_page_change() {
        type Change = fn(&mut PageBytes, PageAddress);
        let changes: [Change; 4] = [
            |bytes, at| bytes.program(at, &[0x7f], &[]),
            |bytes, at| bytes.program(at, &[], &[0x7f]),
            PageBytes::erase_page,
            PageBytes::erase_data,
        ];
        let note = NonZeroU8::new(7);
        for change in changes {
            let (mut bytes, at) = (blank(), PageAddress::new(1, 2));
            bytes.note(at, note.expect("seven"));
            assert_eq!(bytes.noted(at), None, "an erased page");
            let neighbour = PageAddress::new(1, 3);
            for page in [at, neighbour] {
                bytes.program(page, &[0; 512], &[0; 16]);
                assert_eq!(bytes.noted(page), None);
                bytes.note(page, note.expect("seven"));
            }
            let copy = bytes.clone();
            change(&mut bytes, at);
            assert_eq!((bytes.noted(at), bytes.noted(neighbour)), (None, note));
            assert_eq!((copy.noted(at), copy.noted(neighbour)), (note, note));
            bytes.erase_block(1);
            assert_eq!(bytes.noted(neighbour), None);
        }
    }

    /// The same operations on a flat array, which holds every byte of every page.
    #[test]
    fn what_is_held_reads_as_a_whole_chip_does() {
        let (mut bytes, mut flat) =
            (blank(), vec![0xff_u8; (BLOCKS * PAGES) as usize * PAGE_BYTES]);
        let mut draw = Stream::new(1, "bytes");
        let (mut copy, mut flat_copy) = (bytes.clone(), flat.clone());
        let mut holds_one = 0;
        for number in 0..5000 {
            let at = PageAddress::new(draw.below(BLOCKS), draw.below(2) * draw.below(PAGES));
            let start = (at.block * PAGES + at.page) as usize * PAGE_BYTES;
            match draw.below(8) {
                0 | 1 => {
                    bytes.erase_block(at.block);
                    let block = (at.block * PAGES) as usize * PAGE_BYTES;
                    flat[block..block + PAGES as usize * PAGE_BYTES].fill(0xff);
                }
                2 => {
                    bytes.erase_page(at);
                    flat[start..start + PAGE_BYTES].fill(0xff);
                }
                3 => {
                    bytes.erase_data(at);
                    flat[start..start + 512].fill(0xff);
                }
                4 => (copy, flat_copy) = (bytes.clone(), flat.clone()),
                _ => {
                    let data: Vec<u8> =
                        (0..draw.below(513)).map(|_| draw.next_u64() as u8).collect();
                    let oob = [draw.next_u64() as u8; 7];
                    bytes.program(at, &data, &oob);
                    flat[start..].iter_mut().zip(&data).for_each(|(old, new)| *old &= new);
                    flat[start + 512..].iter_mut().zip(&oob).for_each(|(old, new)| *old &= new);
                }
            }
            assert_eq!(all(&bytes), flat, "operation {number}");
            assert_eq!(all(&copy), flat_copy, "operation {number}: a copy has changed");
            let pages = |block| bytes.pages(block).map(|pages| pages.flatten().copied().collect());
            for (block, expected) in (0..).zip(flat.chunks(PAGES as usize * PAGE_BYTES)) {
                let held: Option<Vec<u8>> = pages(block);
                let is_erased = held.is_none() && expected.iter().all(|byte| *byte == 0xff);
                assert!(is_erased || held.as_deref() == Some(expected), "operation {number}");
            }
            assert_eq!(
                bytes.is_same(&copy),
                flat == flat_copy,
                "operation {number}: the comparison"
            );
            assert_eq!(
                copy.is_same(&bytes),
                flat == flat_copy,
                "operation {number}: the comparison"
            );
            let held = bytes.blocks[at.block as usize].as_ref().map_or(0, |block| block.len());
            holds_one += u32::from(held == 1);
        }
        assert!(holds_one > 500, "{holds_one} times a block held its first page alone");
    }
}
