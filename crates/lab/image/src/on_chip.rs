//! Images that go to a chip as a tool writes them: dumps with spare areas, and images without, whose pages get their
//! codes when they are written.

use crate::error::ImageError;
use mount::{Driver, run};
use mtd::OobLayout;
use nand::{Chip, FaultSettings, Geometry, ImageLayout, Part, Storage};
use std::path::Path;

/// Magic number of the erase counter header of UBI (`UBI_EC_HDR_MAGIC` of `drivers/mtd/ubi/ubi-media.h`).
const UBI_MAGIC: &[u8] = b"UBI#";
/// Where that header holds the offset of the volume identifier header (`struct ubi_ec_hdr`).
const UBI_HEADER_OFFSET: std::ops::Range<usize> = 16..20;
/// A FAT volume's boot sector ends with these bytes.
const BOOT_MAGIC: &[u8] = &[0x55, 0xaa];
const BOOT_MAGIC_OFFSET: usize = 510;
/// The superblock of NILFS2 and its magic number (`NILFS_SUPER_MAGIC`, `s_magic`).
const NILFS2_MAGIC: &[u8] = &[0x34, 0x34];
const NILFS2_MAGIC_OFFSET: usize = 1024 + 6;

/// An image that a chip can hold.
#[derive(Debug)]
pub struct ImageOnChip {
    bytes: Vec<u8>,
    /// Data and spare area of every page are in the file.
    has_spare: bool,
    /// Blocks of the chip that it fills; the last one maybe in part.
    pub blocks: u32,
    /// Where UBI's volume identifier headers stand, if it is an image of UBI.
    pub ubi_header_offset: Option<u32>,
}

impl ImageOnChip {
    /// Reads an image for chips of this geometry.
    ///
    /// # Errors
    /// [`ImageError::Io`] of the file; [`ImageError::Content`] if it is no whole number of blocks and no disk image.
    pub fn read(path: &Path, geometry: &Geometry) -> Result<Self, ImageError> {
        let bytes = std::fs::read(path).map_err(ImageError::io(path))?;
        let page_bytes = geometry.page_data_bytes as usize;
        let plain_block = page_bytes * geometry.pages_per_block as usize;
        let spare_block =
            plain_block + geometry.page_oob_bytes as usize * geometry.pages_per_block as usize;
        // Every block of an attached device begins with this header (`ubi_io_read_ec_hdr`).
        let is_ubi = bytes.starts_with(UBI_MAGIC);
        // A length can be whole both ways; then the second header of UBI tells where a block begins.
        let is_plain_ubi = is_ubi
            && bytes.len().is_multiple_of(plain_block)
            && bytes.get(plain_block..).is_none_or(|rest| rest.starts_with(UBI_MAGIC));
        let has_spare =
            !bytes.is_empty() && bytes.len().is_multiple_of(spare_block) && !is_plain_ubi;
        let is_whole = bytes.len().is_multiple_of(plain_block) && !bytes.is_empty();
        if !has_spare && !is_whole && !is_disk_image(&bytes) {
            return Err(ImageError::content(
                path,
                format!(
                    "{} bytes are no whole number of blocks of {spare_block} bytes, as `nanddump --oob` writes \
                     them, nor of {plain_block} bytes, as `ubinize` does, and no disk image of FAT or NILFS2",
                    bytes.len()
                ),
            ));
        }
        // A disk image may end within a block, whose rest stays erased.
        let blocks = bytes.len().div_ceil(if has_spare { spare_block } else { plain_block });
        let blocks = u32::try_from(blocks).map_err(|_| {
            ImageError::content(path, format!("{} bytes are more than a chip has", bytes.len()))
        })?;
        // Big endian, as all numbers of UBI.
        let header = bytes.get(UBI_HEADER_OFFSET).and_then(|bytes| bytes.try_into().ok());
        let ubi_header_offset = header.filter(|_| is_ubi).map(u32::from_be_bytes);
        Ok(Self { bytes, has_spare, blocks, ubi_header_offset })
    }

    /// Bytes of a disk image, as a card would hold them.
    ///
    /// # Errors
    /// [`ImageError::Content`] for a dump with spare areas: no card has any.
    pub fn disk_bytes(&self, path: &Path) -> Result<&[u8], ImageError> {
        if self.has_spare {
            let reason =
                "a dump of a raw chip does not fit on a card: give an image without spare areas";
            return Err(ImageError::content(path, reason));
        }
        Ok(&self.bytes)
    }

    /// A chip of this part that holds the image; the rest is erased. Pages of an image without spare areas are
    /// written by the driver, blank ones left out, as `nandwrite` and `ubiformat` do.
    ///
    /// # Errors
    /// [`ImageError::Content`] if it is larger than the chip.
    pub fn chip(
        &self,
        path: &Path,
        part: &Part,
        layout: &'static OobLayout,
    ) -> Result<Chip, ImageError> {
        if self.has_spare {
            let loaded = Chip::load_image(part, &mut &self.bytes[..], ImageLayout::WithOob);
            return loaded.map_err(|error| ImageError::content(path, error.to_string()));
        }
        if self.blocks > part.geometry.blocks {
            let (wanted, has) = (self.blocks, part.geometry.blocks);
            return Err(ImageError::content(
                path,
                format!("{wanted} blocks, and the chip has {has}"),
            ));
        }
        let blank = Chip::new(part, Storage::Bytes, &FaultSettings::default());
        let (bytes, page_bytes) = (self.bytes.clone(), part.geometry.page_data_bytes as usize);
        let outcome = run(blank, &Driver::of_tool(layout), 0, async move |machine| {
            for (number, page) in bytes.chunks(page_bytes).enumerate() {
                // A page of ones is left erased: UBI and UBIFS write it later, and no page twice.
                if page.iter().any(|byte| *byte != 0xff) {
                    let mut whole = page.to_vec();
                    whole.resize(page_bytes, 0xff);
                    machine.mtd.write((number * page_bytes) as u64, &whole).await?;
                }
            }
            Ok::<(), mtd::MtdError>(())
        });
        outcome
            .value
            .expect("the power is not cut")
            .map_err(|error| ImageError::content(path, error.to_string()))?;
        Ok(outcome.chip)
    }
}

/// True of the first sectors of FAT or NILFS2: such an image may end within a block.
fn is_disk_image(bytes: &[u8]) -> bool {
    let has = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
    bytes.len().is_multiple_of(units::SECTOR_BYTES)
        && (has(BOOT_MAGIC_OFFSET, BOOT_MAGIC) || has(NILFS2_MAGIC_OFFSET, NILFS2_MAGIC))
}
