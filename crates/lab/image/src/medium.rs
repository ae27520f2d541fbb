//! The pages of an image with their ECC judged, without a file system.

use mtd::{Ecc, OobLayout};
use nand::Chip;

/// Bytes of data under one code of the Hamming ECC of Linux, and bytes of the code.
const STEP_BYTES: usize = 256;
const CODE_BYTES: usize = 3;
/// Steps of a sub-page of 512 bytes, the least that is programmed at once.
const SUB_PAGE_STEPS: usize = 2;

/// What the ECC says of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    /// Data and code are erased.
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
    pub(crate) chip: &'i Chip,
    layout: &'static OobLayout,
    /// Blocks of the image.
    pub blocks: u32,
    /// Bytes of data of a page.
    pub page_bytes: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
}

impl<'i> Medium<'i> {
    /// The first blocks of a chip, which an image filled.
    pub(crate) fn new(chip: &'i Chip, layout: &'static OobLayout, blocks: u32) -> Self {
        let geometry = chip.geometry();
        Self {
            chip,
            layout,
            blocks,
            page_bytes: geometry.page_data_bytes,
            pages_per_block: geometry.pages_per_block,
        }
    }

    /// Layout of the spare area.
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
        let stored = self.chip.block_pages(block)?;
        let page_bytes = self.page_bytes as usize;
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        let mut read = BlockData { data: Vec::new(), spare: Vec::new(), pages: Vec::new() };
        for page in stored {
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
    let is_empty = data.iter().all(|byte| *byte == 0xff);
    // Kept as they are, to be compared with what the code makes of them.
    let cells = data.to_vec();
    let (corrected, lost) = layout.correct(data, spare);
    match (is_empty, lost, corrected) {
        (true, 0, 0) => PageState::Blank,
        (false, 0, 0) => PageState::Sound,
        (false, ..) if layout.ecc == Ecc::Hamming && has_torn_step(layout, &cells, data, spare) => {
            PageState::TornProgram
        }
        // A code that stayed beside erased data may differ from its code as that of one wrong bit does. The ECC
        // "corrects" a bit of the erased step then, as a kernel's driver does, too.
        (true, 0, _) if data.iter().any(|byte| *byte != 0xff) => PageState::TornErase,
        (_, 0, bits) => PageState::Corrected(bits),
        (true, ..) => PageState::TornErase,
        (false, steps, _) => PageState::Lost(steps),
    }
}

/// Whether a program that was cut short explains the page: steps without any code, and no step that is
/// lost beside its code. UBI programs its two headers into parts of one page, so other steps may be
/// whole, with their codes.
///
/// A step with an odd number of set bits differs from a code that was never written in one parity of
/// each pair, which is what a single wrong bit does: the ECC "corrects" such a step, and only one with an
/// even number is lost. So it is no sign of a whole program that all steps could be corrected.
fn has_torn_step(layout: &OobLayout, cells: &[u8], corrected: &[u8], spare: &[u8]) -> bool {
    let has_code = |step: usize| {
        let mut code = layout.codes().skip(step * CODE_BYTES).take(CODE_BYTES);
        code.any(|place| spare[place] != 0xff)
    };
    let mut is_torn = false;
    let steps = cells.chunks(STEP_BYTES).zip(corrected.chunks(STEP_BYTES));
    for (number, (step, corrected)) in steps.enumerate() {
        match layout.check_step(step, number, spare) {
            (0, 0) => {}
            (_, 1) if has_code(number) => return false,
            (_, 1) => is_torn = true,
            // Nothing smaller than a sub-page is programmed, so its other step has no code, either. Zeros
            // and blank bytes often have the very code of erased flash (`hamming_code`): a wrong bit there
            // is just that.
            _ => {
                let first = number / SUB_PAGE_STEPS * SUB_PAGE_STEPS;
                let is_bare = !(first..first + SUB_PAGE_STEPS).any(has_code);
                is_torn |= is_bare && corrected.iter().any(|byte| !matches!(byte, 0 | 0xff));
            }
        }
    }
    is_torn
}
