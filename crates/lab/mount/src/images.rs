//! What a file system tells the tools about images of raw NAND: how one is recognised, checked and described.

use crate::{Counter, Finding};
use mtd::OobLayout;
use nand::Chip;

/// A form in which chips are dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageForm {
    /// Spare areas are in the image.
    pub has_oob: bool,
    /// Name of the layout of the spare area where pages have no ECC.
    pub layout: &'static str,
    /// The same, where they have.
    pub layout_with_ecc: &'static str,
}

/// The blocks of an image, behind a loaded chip.
pub struct ImageMedium<'i> {
    /// The chip, which may be larger than the image.
    pub chip: &'i Chip,
    /// Layout of its spare areas.
    pub layout: &'static OobLayout,
    /// Blocks of the image.
    pub blocks: u32,
}

impl ImageMedium<'_> {
    /// Data of a block, its ECC applied; none of a blank or bad one.
    pub fn block(&self, block: u32) -> Option<Vec<u8>> {
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        if self.chip.is_bad(block) {
            return None;
        }
        let stored = self.chip.block_pages(block)?;
        let page_bytes = self.chip.geometry().page_data_bytes as usize;
        let mut data = Vec::new();
        for page in stored {
            let (cells, spare) = page.split_at(page_bytes);
            let start = data.len();
            data.extend_from_slice(cells);
            // Bits that cannot be corrected stay as they are: checksums of the file system tell.
            self.layout.correct(&mut data[start..], spare);
        }
        Some(data)
    }
}

/// What the tools ask of a file system that lies on raw NAND itself.
///
/// Listing, extracting and making need nothing of this: the tools mount the image as any other chip.
pub trait ImageSupport: Sync + std::panic::RefUnwindSafe + std::fmt::Debug {
    /// Forms in which its images are stored, the likeliest first.
    fn forms(&self) -> &'static [ImageForm];

    /// Share of what is written in an image that its format explains, from 0 to 1. From 0.75 on an image is
    /// taken for one of this file system without a word of the user. `pages` are data and spare bytes.
    fn share(&self, pages: &mut dyn Iterator<Item = (&[u8], &[u8])>, pages_per_block: usize)
    -> f64;

    /// Checks the medium without a mount; findings of severity `Note` are what a power cut explains. The
    /// counters describe what is on it.
    fn check_medium(&self, medium: &ImageMedium<'_>) -> (Vec<Finding>, Vec<Counter>);
}
