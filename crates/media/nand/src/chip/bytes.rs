//! Data and spare bytes of a chip, kept by block and shared between clones until written.
//!
//! A block of which only the first page was programmed holds that page alone: UBI and JFFS2 put a
//! header or a mark there into every block of an empty chip.

use crate::{Geometry, PageAddress};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of every block that is not erased: page after page, data then spare. Pages after the last
/// that is held are erased.
#[derive(Clone, Debug)]
pub(crate) struct PageBytes {
    // Shared between clones until written: a snapshot of a chip costs pointers.
    blocks: Vec<Option<Arc<[u8]>>>,
    data_bytes: usize,
    /// Bytes of a page, data and spare.
    stride: usize,
    block_bytes: usize,
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
            block_bytes: stride * geometry.pages_per_block as usize,
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
        let range = self.range(at.page);
        // The first page alone, or all of them: a block that is written on is mostly written full.
        let held_bytes = if at.page == 0 { self.stride } else { self.block_bytes };
        let slot = &mut self.blocks[at.block as usize];
        let held = slot.as_ref().map_or(&[][..], |block| block);
        if held.len() < range.end {
            let mut bytes = Vec::with_capacity(held_bytes);
            bytes.extend_from_slice(held);
            bytes.resize(held_bytes, 0xff);
            *slot = Some(bytes.into());
        }
        let block = slot.as_mut().expect("the page is held from here on");
        // `make_mut` copies the block only if a clone still holds it.
        Arc::make_mut(block)[range].split_at_mut(self.data_bytes)
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

    /// The bytes that are held of a block: all pages, the first one, or none if it is erased.
    pub(crate) fn block(&self, block: u32) -> Option<&Arc<[u8]>> {
        self.blocks[block as usize].as_ref()
    }

    /// The bytes of a page, or `None` if nothing is held of it because it is erased.
    pub(crate) fn page(&self, at: PageAddress) -> Option<&[u8]> {
        self.block(at.block)?.get(self.range(at.page))
    }

    /// The bytes of all pages of a block, or `None` if it is erased.
    pub(crate) fn pages(&self, block: u32) -> Option<impl Iterator<Item = &[u8]> + Clone> {
        let held = self.block(block)?;
        let erased_pages = (self.block_bytes - held.len()) / self.stride;
        let erased = std::iter::repeat_n(&*self.erased_page, erased_pages);
        Some(held.chunks_exact(self.stride).chain(erased))
    }

    /// Where the data of a page stands in its block.
    pub(crate) fn data_range(&self, page: u32) -> Range<usize> {
        let start = page as usize * self.stride;
        start..start + self.data_bytes
    }

    fn range(&self, page: u32) -> Range<usize> {
        let start = page as usize * self.stride;
        start..start + self.stride
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

#[cfg(test)]
mod tests {
    use super::PageBytes;
    use crate::random::Stream;
    use crate::{PageAddress, find_part};

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
                    bytes.page_mut(at).0.fill(0xff);
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
            let held = bytes.block(at.block).map_or(0, |block| block.len());
            holds_one += u32::from(held == PAGE_BYTES);
        }
        assert!(holds_one > 500, "{holds_one} times a block held its first page alone");
    }
}
