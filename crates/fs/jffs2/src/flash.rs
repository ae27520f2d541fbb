//! What a mount stands on: raw NAND, or a device whose bytes can be written over again.
//!
//! Source: the cases of `fs/jffs2/os-linux.h` and `wbuf.c`, Linux 2.6.29 to 6.12. On NAND nodes are gathered
//! in a write-buffer of a page, and a block says in its spare area that it was erased. A device of the kind
//! `MTD_RAM` has neither pages nor spare areas: nodes go to it as they are, and the mark of a clean block is
//! a node.
//!
//! May use: `nodes`.

use crate::nodes::{CLEANMARKER, HEADER_BYTES, Header};
use fs_api::Errno;
use mtd::{Mtd, OobMode, RamMtd};
use std::rc::Rc;

/// Bytes of the mark of a clean block in the spare area: a header without its CRC.
const SPARE_MARKER: [u8; 8] = [0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0];

/// Pages whose spare areas are looked at before a block is called empty (`NR_OOB_SCAN_PAGES`).
const SPARE_SCAN_PAGES: u32 = 4;

/// What a mount stands on.
#[derive(Clone)]
pub enum Flash {
    /// Raw NAND under its driver.
    Nand(Rc<Mtd>),
    /// Bytes that can be written over again (`MTD_CAP_RAM`).
    Ram(Rc<dyn RamMtd>),
}

/// The bytes of an erase block of a device without spare areas that was erased and marked clean, as
/// `flash_erase -j` of mtd-utils leaves it.
pub fn clean_block(block_bytes: u32) -> Vec<u8> {
    let mut bytes = Header::new(CLEANMARKER, HEADER_BYTES as u32).to_bytes().to_vec();
    bytes.resize(block_bytes as usize, 0xff);
    bytes
}

impl From<Rc<Mtd>> for Flash {
    fn from(mtd: Rc<Mtd>) -> Self {
        Self::Nand(mtd)
    }
}

impl From<Rc<dyn RamMtd>> for Flash {
    fn from(mtd: Rc<dyn RamMtd>) -> Self {
        Self::Ram(mtd)
    }
}

impl Flash {
    pub(crate) fn size_bytes(&self) -> u64 {
        match self {
            Self::Nand(mtd) => mtd.size_bytes(),
            Self::Ram(mtd) => mtd.size_bytes(),
        }
    }

    pub(crate) fn block_bytes(&self) -> u32 {
        match self {
            Self::Nand(mtd) => mtd.block_bytes(),
            Self::Ram(mtd) => mtd.block_bytes(),
        }
    }

    pub(crate) fn takes_time(&self) -> bool {
        match self {
            Self::Nand(mtd) => mtd.takes_time(),
            Self::Ram(mtd) => mtd.takes_time(),
        }
    }

    /// Bytes that are written at once, of which the write-buffer holds as many; none where nodes are
    /// written as they are (`jffs2_is_writebuffered`).
    pub(crate) fn page_bytes(&self) -> Option<u32> {
        match self {
            Self::Nand(mtd) => Some(mtd.geometry().page_data_bytes),
            Self::Ram(_) => None,
        }
    }

    /// Reads bytes; false if the device reports that they cannot be corrected.
    pub(crate) async fn read(&self, offset: u32, into: &mut [u8]) -> Result<bool, Errno> {
        match self {
            Self::Nand(mtd) => {
                let status = mtd.read(offset.into(), into).await.map_err(|_| Errno::Eio)?;
                Ok(status.is_readable())
            }
            Self::Ram(mtd) => {
                mtd.read(offset.into(), into).await.map_err(|_| Errno::Eio)?;
                Ok(true)
            }
        }
    }

    /// Writes bytes: whole pages of NAND.
    ///
    /// # Errors
    /// The sentence of the device: a program that failed, a page that is not erased, a bad block.
    pub(crate) async fn write(&self, offset: u32, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Nand(mtd) => {
                mtd.write(offset.into(), bytes).await.map_err(|error| error.to_string())
            }
            Self::Ram(mtd) => {
                mtd.write(offset.into(), bytes).await.map_err(|error| error.to_string())
            }
        }
    }

    /// Erases a block; false if that failed.
    pub(crate) async fn erase(&self, block: u32) -> bool {
        match self {
            Self::Nand(mtd) => mtd.erase(block).await.is_ok(),
            Self::Ram(mtd) => mtd.erase(block).await.is_ok(),
        }
    }

    /// Waits until the medium has what was written; NAND always has (`mtd_sync`).
    pub(crate) async fn sync(&self) -> Result<(), Errno> {
        match self {
            Self::Nand(_) => Ok(()),
            Self::Ram(mtd) => mtd.sync().await.map_err(|_| Errno::Eio),
        }
    }

    /// Marks a block bad, where blocks can be.
    pub(crate) async fn mark_bad(&self, block: u32) {
        if let Self::Nand(mtd) = self {
            // A mark that cannot be written changes nothing here: the block is on no list of use.
            let _ = mtd.mark_bad(block).await;
        }
    }

    /// Whether a block has its mark in the spare area (`jffs2_check_nand_cleanmarker`).
    pub(crate) async fn has_spare_marker(&self, block: u32) -> Result<bool, Errno> {
        let Self::Nand(mtd) = self else { return Ok(false) };
        // Layouts with fewer free bytes hold the beginning of the mark (`oobavail` in
        // `jffs2_nand_flash_setup`).
        let length = SPARE_MARKER.len().min(mtd.layout().free_bytes());
        let mut oob = vec![0; length];
        let page = block * mtd.geometry().pages_per_block;
        let read = mtd.read_oob(page, None, &mut oob, 0, OobMode::Auto).await;
        read.map_err(|_| Errno::Eio)?;
        Ok(oob == SPARE_MARKER[..length])
    }

    /// Writes the mark of a block into the spare area; false if that failed
    /// (`jffs2_write_nand_cleanmarker`).
    pub(crate) async fn write_spare_marker(&self, block: u32) -> bool {
        let Self::Nand(mtd) = self else { return false };
        let length = SPARE_MARKER.len().min(mtd.layout().free_bytes());
        let page = block * mtd.geometry().pages_per_block;
        let mark = &SPARE_MARKER[..length];
        mtd.write_oob(page, None, mark, 0, OobMode::Auto).await.is_ok()
    }

    /// Whether the spare areas of a block are blank beside its mark (`jffs2_check_oob_empty`).
    ///
    /// The kernel looks at the free bytes alone. Here the bytes of the ECC are looked at, too: an
    /// erase that was torn may have left them, and the chip would refuse to program the page.
    pub(crate) async fn is_spare_blank(&self, block: u32, has_marker: bool) -> Result<bool, Errno> {
        let Self::Nand(mtd) = self else { return Ok(true) };
        let geometry = mtd.geometry();
        let first = block * geometry.pages_per_block;
        let mut marker = vec![0xff; geometry.page_oob_bytes as usize];
        if has_marker {
            let length = SPARE_MARKER.len().min(mtd.layout().free_bytes());
            mtd.layout().scatter(&SPARE_MARKER[..length], 0, &mut marker);
        }
        let mut is_blank = true;
        for page in 0..SPARE_SCAN_PAGES.min(geometry.pages_per_block) {
            let mut oob = vec![0; marker.len()];
            let read = mtd.read_oob(first + page, None, &mut oob, 0, OobMode::Place).await;
            read.map_err(|_| Errno::Eio)?;
            is_blank &= oob == marker;
            // Only the first page carries the mark.
            marker.fill(0xff);
        }
        Ok(is_blank)
    }
}
