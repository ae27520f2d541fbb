//! Data and spare bytes of a chip, kept by block and shared between clones until written.

use crate::{Geometry, PageAddress};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of every block that is not erased: page after page, data then spare.
#[derive(Clone, Debug)]
pub(crate) struct PageBytes {
    // Shared between clones until written: a snapshot of a chip costs pointers.
    blocks: Vec<Option<Arc<[u8]>>>,
    data_bytes: usize,
    /// Bytes of a page, data and spare.
    stride: usize,
    block_bytes: usize,
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
        }
    }

    /// Copies the start of a page's data and of its spare area; erased bytes read as 0xFF.
    pub(crate) fn read(&self, at: PageAddress, data: &mut [u8], oob: &mut [u8]) {
        self.assert_fits(data, oob);
        // An erased block holds no bytes at all.
        let Some(block) = &self.blocks[at.block as usize] else {
            data.fill(0xff);
            oob.fill(0xff);
            return;
        };
        let (page_data, page_oob) = block[self.page(at.page)].split_at(self.data_bytes);
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
        let range = self.page(at.page);
        let block_bytes = self.block_bytes;
        let block =
            self.blocks[at.block as usize].get_or_insert_with(|| vec![0xff; block_bytes].into());
        // `make_mut` copies the block only if a clone still holds it.
        Arc::make_mut(block)[range].split_at_mut(self.data_bytes)
    }

    pub(crate) fn erase_block(&mut self, block: u32) {
        // Dropped and not filled: erased blocks take no memory.
        self.blocks[block as usize] = None;
    }

    pub(crate) fn erase_page(&mut self, at: PageAddress) {
        let range = self.page(at.page);
        if let Some(block) = &mut self.blocks[at.block as usize] {
            Arc::make_mut(block)[range].fill(0xff);
        }
    }

    /// The bytes of a block, or `None` if it is erased.
    pub(crate) fn block(&self, block: u32) -> Option<&Arc<[u8]>> {
        self.blocks[block as usize].as_ref()
    }

    /// Where the data of a page stands in its block.
    pub(crate) fn data_range(&self, page: u32) -> Range<usize> {
        let start = page as usize * self.stride;
        start..start + self.data_bytes
    }

    fn page(&self, page: u32) -> Range<usize> {
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
