//! Flat images of a chip, as `nanddump` writes and `nandwrite` reads them.
//!
//! With OOB a page is its data followed by its spare bytes (`nanddump --oob`); without, pages are
//! data only. Erased pages are 0xFF. A bad block shows as a mark byte other than 0xFF in the spare
//! area of its first page; on loading one in its second page counts as well, as data sheets ask.
//! Left out, as there is no place for it in a flat image: counters and wear, how often a page was
//! programmed, which pages are torn (their data is noise) and which blocks were torn in an erase.

use crate::{Chip, FaultSettings, NandError, PageAddress, Part, Storage};
use std::io::{Read, Write};
use thiserror::Error;

/// Whether an image holds spare areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageLayout {
    /// Data and spare bytes of every page.
    WithOob,
    /// Data bytes of every page, without spare areas.
    DataOnly,
}

/// Why an image could not be saved or loaded.
#[derive(Debug, Error)]
pub enum ImageError {
    /// Reading or writing failed.
    #[error("image: {0}")]
    Io(#[from] std::io::Error),
    /// The chip stores no bytes.
    #[error("image: {0}")]
    Chip(#[from] NandError),
    /// The length does not fit the part.
    #[error(
        "image: {length_bytes} bytes are not a whole number of {page_bytes}-byte pages, or more than the chip's {pages} pages; is the part or the OOB option right?"
    )]
    Length {
        /// Bytes that the image has.
        length_bytes: u64,
        /// Bytes of one page in this layout.
        page_bytes: u32,
        /// Pages of the chip.
        pages: u32,
    },
}

impl Chip {
    /// Writes the whole chip as a flat image.
    ///
    /// # Errors
    /// [`ImageError::Chip`] on a chip without byte storage; [`ImageError::Io`].
    pub fn save_image(
        &self,
        writer: &mut dyn Write,
        layout: ImageLayout,
    ) -> Result<(), ImageError> {
        if !self.stores_bytes() {
            return Err(NandError::NoStorage.into());
        }
        let geometry = self.geometry();
        let data_bytes = geometry.page_data_bytes as usize;
        let page_bytes = data_bytes + geometry.page_oob_bytes as usize;
        let erased = vec![0xff; page_bytes];
        let kept = match layout {
            ImageLayout::WithOob => page_bytes,
            ImageLayout::DataOnly => data_bytes,
        };
        for block in 0..geometry.blocks {
            for page in 0..geometry.pages_per_block {
                let bytes = self.page_bytes(PageAddress::new(block, page)).unwrap_or(&erased);
                // The mark is a flag of the chip and is written only here, so that the driver's
                // bytes stay as they were.
                if page == 0 && self.is_bad(block) {
                    let mut marked = bytes.to_vec();
                    marked[data_bytes + geometry.bad_mark_oob_offset as usize] = 0;
                    writer.write_all(&marked[..kept])?;
                } else {
                    writer.write_all(&bytes[..kept])?;
                }
            }
        }
        Ok(())
    }

    /// Makes a chip of `part` that holds a flat image; a shorter image leaves the rest erased.
    ///
    /// # Errors
    /// [`ImageError::Length`] if the image does not fit the part; [`ImageError::Io`].
    pub fn load_image(
        part: &Part,
        reader: &mut dyn Read,
        layout: ImageLayout,
    ) -> Result<Self, ImageError> {
        let mut chip = Self::new(part, Storage::Bytes, &FaultSettings::default());
        let geometry = part.geometry.clone();
        let data_bytes = geometry.page_data_bytes as usize;
        let oob_bytes =
            if layout == ImageLayout::WithOob { geometry.page_oob_bytes as usize } else { 0 };
        let mut page_bytes = vec![0; data_bytes + oob_bytes];
        let mut pages = 0;
        loop {
            let filled = fill(reader, &mut page_bytes)?;
            if filled == 0 {
                // An image may end early; the rest stays erased.
                return Ok(chip);
            }
            if filled < page_bytes.len() || pages == geometry.pages() {
                // Read to its end, so that the message names the length of the file.
                let rest_bytes = std::io::copy(reader, &mut std::io::sink())?;
                let length_bytes =
                    u64::from(pages) * page_bytes.len() as u64 + filled as u64 + rest_bytes;
                let page_bytes = page_bytes.len() as u32;
                return Err(ImageError::Length {
                    length_bytes,
                    page_bytes,
                    pages: geometry.pages(),
                });
            }
            let at = PageAddress::new(
                pages / geometry.pages_per_block,
                pages % geometry.pages_per_block,
            );
            let (data, oob) = page_bytes.split_at(data_bytes);
            // Erased pages need no state, so a sparse image loads quickly.
            if page_bytes.iter().any(|byte| *byte != 0xff) {
                let marked = oob
                    .get(geometry.bad_mark_oob_offset as usize)
                    .is_some_and(|byte| *byte != 0xff);
                // Makers mark the first or the second page of a bad block.
                if marked && at.page < 2 {
                    chip.load_bad(at.block);
                }
                chip.load_page(at, data, oob);
            }
            pages += 1;
        }
    }
}

/// Reads until the buffer is full or the input ends; the bytes read.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    // A pipe may give less than was asked for before its end, and `nanddump` writes to pipes.
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
