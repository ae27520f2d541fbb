//! The pages of an image with their ECC judged, without a file system.

use crate::Image;
use mtd::{Ecc, OobLayout};
use nand::Chip;

/// Bytes of data under one code of the Hamming ECC of Linux, and bytes of the code.
const STEP_BYTES: usize = 256;
const CODE_BYTES: usize = 3;

/// What the ECC says of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Erased.
    Blank,
    /// As it was written, or nothing that could tell.
    Sound,
    /// So many wrong bits were corrected.
    Corrected(u32),
    /// A program that was cut short: data without its code.
    TornProgram,
    /// An erase that was cut short: a code without its data.
    TornErase,
    /// So many steps of 256 bytes have more wrong bits than are corrected.
    Lost(u32),
}

/// A block with its data corrected.
pub struct BlockData {
    /// Data of all pages.
    pub data: Vec<u8>,
    /// Spare areas of all pages.
    pub spare: Vec<u8>,
    /// What the ECC says of each page.
    pub pages: Vec<PageState>,
}

impl BlockData {
    /// Nothing was ever written, beside marks in the spare area.
    pub fn is_blank(&self) -> bool {
        self.pages.iter().all(|page| *page == PageState::Blank)
    }

    /// The first page is blank though others are not: its erase was cut short.
    pub fn is_half_erased(&self) -> bool {
        self.pages[0] == PageState::Blank && !self.is_blank()
            || self.pages.contains(&PageState::TornErase)
    }
}

/// The blocks of an image.
pub struct Medium<'i> {
    chip: &'i Chip,
    layout: &'static OobLayout,
    /// Blocks of the image.
    pub blocks: u32,
    /// Bytes of data of a page.
    pub page_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

impl<'i> Medium<'i> {
    /// The blocks of an image.
    pub fn new(image: &'i Image) -> Self {
        let geometry = image.chip.geometry();
        Self {
            chip: &image.chip,
            layout: image.layout,
            blocks: image.blocks,
            page_bytes: geometry.page_data_bytes,
            pages_per_block: geometry.pages_per_block,
        }
    }

    /// Spare area.
    pub fn layout(&self) -> &'static OobLayout {
        self.layout
    }

    /// Bytes of data of a block.
    pub fn block_bytes(&self) -> u32 {
        self.page_bytes * self.pages_per_block
    }

    /// The block has a bad mark.
    pub fn is_bad(&self, block: u32) -> bool {
        self.chip.is_bad(block)
    }

    /// A block with its data corrected; none if all of it is erased.
    pub fn block(&self, block: u32) -> Option<BlockData> {
        cancellation::check();
        let stored = self.chip.block_bytes(block)?;
        let (page_bytes, oob_bytes) = (self.page_bytes as usize, self.layout.oob_bytes as usize);
        let mut read = BlockData { data: Vec::new(), spare: Vec::new(), pages: Vec::new() };
        for page in stored.chunks_exact(page_bytes + oob_bytes) {
            let (data, spare) = page.split_at(page_bytes);
            let start = read.data.len();
            read.data.extend_from_slice(data);
            read.spare.extend_from_slice(spare);
            read.pages.push(judge(self.layout, &mut read.data[start..], spare));
        }
        Some(read)
    }

    /// A place as messages name it.
    pub fn place(&self, offset: u32) -> String {
        let page = offset / self.page_bytes;
        let (block, page) = (page / self.pages_per_block, page % self.pages_per_block);
        format!("block {block} page {page} offset {offset:#x}")
    }
}

fn judge(layout: &OobLayout, data: &mut [u8], spare: &[u8]) -> PageState {
    let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0xff);
    let is_empty = is_blank(data);
    let (corrected, lost) = layout.correct(data, spare);
    match (is_empty, lost, corrected) {
        (true, 0, 0) => PageState::Blank,
        (false, 0, 0) => PageState::Sound,
        (_, 0, bits) => PageState::Corrected(bits),
        (true, ..) => PageState::TornErase,
        (false, ..)
            if layout.ecc == Ecc::Hamming && has_no_code_where_lost(layout, data, spare) =>
        {
            PageState::TornProgram
        }
        (false, steps, _) => PageState::Lost(steps),
    }
}

/// Whether all steps that are lost have no code at all: what a program that was cut short leaves. UBI
/// programs its two headers into parts of one page, so the other steps may be whole, with their codes.
fn has_no_code_where_lost(layout: &OobLayout, data: &[u8], spare: &[u8]) -> bool {
    data.chunks(STEP_BYTES).enumerate().all(|(number, step)| {
        let (_, lost) = layout.check_step(step, number, spare);
        let mut code = layout.codes().skip(number * CODE_BYTES).take(CODE_BYTES);
        lost == 0 || code.all(|place| spare[place] == 0xff)
    })
}
