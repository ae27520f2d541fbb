//! Where headers and data stand in a block. Uses formats only.

use crate::error::{AttachError, UbiError};
use crate::headers::{Decoded, EraseCounterHeader, HEADER_BYTES};
use mtd::Mtd;

/// Where the volume identifier headers of an image stand, as the first good block with a sound erase
/// counter header says; none where no block has one: the device is not UBI's, or blank.
///
/// # Errors
/// [`UbiError::Io`] of the driver.
pub async fn find_header_offset(mtd: &Mtd) -> Result<Option<u32>, UbiError> {
    for peb in 0..mtd.geometry().blocks {
        if mtd.is_bad(peb).await? {
            continue;
        }
        let mut bytes = [0; HEADER_BYTES];
        mtd.read(u64::from(peb) * u64::from(mtd.block_bytes()), &mut bytes).await?;
        if let Decoded::Sound(header) = EraseCounterHeader::decode(&bytes) {
            return Ok(Some(header.header_offset));
        }
    }
    Ok(None)
}

/// Sizes and places, the same for all blocks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Physical blocks, bad ones included.
    pub peb_count: u32,
    /// Bytes of a physical block.
    pub peb_bytes: u32,
    /// Smallest unit of data that is written: a page.
    pub min_io_bytes: u32,
    /// Smallest unit of a header that is written: a sub-page, where the driver has them.
    pub header_io_bytes: u32,
    /// Where the volume identifier header stands.
    pub header_offset: u32,
    /// Where data begins: the first page behind both headers.
    pub data_offset: u32,
    /// Bytes of a logical block.
    pub leb_bytes: u32,
}

impl Layout {
    /// The layout on a device, with the volume identifier header at `header_offset`, or right
    /// after the erase counter header's unit (`io_init` of `drivers/mtd/ubi/build.c`).
    ///
    /// # Errors
    /// [`AttachError::Offset`].
    pub fn new(mtd: &Mtd, header_offset: Option<u32>) -> Result<Self, AttachError> {
        let geometry = mtd.geometry();
        Self::of_geometry(geometry, mtd.sub_page_bytes(), header_offset)
    }

    /// The layout on a chip of a geometry that is programmed in sub-pages of some bytes.
    ///
    /// # Errors
    /// [`AttachError::Offset`].
    pub fn of_geometry(
        geometry: &nand::Geometry,
        sub_page_bytes: u32,
        header_offset: Option<u32>,
    ) -> Result<Self, AttachError> {
        let min_io_bytes = geometry.page_data_bytes;
        let peb_bytes = min_io_bytes * geometry.pages_per_block;
        let header_bytes = HEADER_BYTES as u32;
        // The erase counter survives every erase, so its header is written right after one and
        // alone: the second header cannot share its unit.
        let first = header_bytes.next_multiple_of(sub_page_bytes);
        let header_offset = header_offset.unwrap_or(first);
        let refuse = |reason| Err(AttachError::Offset { header_offset, reason });
        if !header_offset.is_multiple_of(8) {
            return refuse("it is no multiple of 8");
        }
        if header_offset < first {
            return refuse("it lies in the unit of the erase counter header");
        }
        if header_offset > peb_bytes / 2 {
            return refuse("it lies in the second half of the block");
        }
        let unit_end = header_offset / sub_page_bytes * sub_page_bytes
            + header_bytes.next_multiple_of(sub_page_bytes);
        if header_offset + header_bytes > unit_end {
            return refuse("the header would cross the end of its unit");
        }
        // Data begins with a page of its own. With sub-pages both headers share the first page and
        // one page a block is won.
        let data_offset = (header_offset + header_bytes).next_multiple_of(min_io_bytes);
        // `io_init` compares with the end of the block as well.
        if data_offset >= peb_bytes {
            return refuse("no page is left for data behind it");
        }
        Ok(Self {
            peb_count: geometry.blocks,
            peb_bytes,
            min_io_bytes,
            header_io_bytes: sub_page_bytes,
            header_offset,
            data_offset,
            leb_bytes: peb_bytes - data_offset,
        })
    }

    /// Where the unit with the volume identifier header begins, and the bytes of the unit.
    pub(crate) fn header_unit(&self) -> (u32, u32) {
        let start = self.header_offset / self.header_io_bytes * self.header_io_bytes;
        (start, (HEADER_BYTES as u32).next_multiple_of(self.header_io_bytes))
    }

    /// Bytes of the unit with the erase counter header.
    pub(crate) fn counter_unit_bytes(&self) -> u32 {
        (HEADER_BYTES as u32).next_multiple_of(self.header_io_bytes)
    }

    /// Bytes of a block that a volume with this pad may use.
    pub(crate) fn usable_bytes(&self, data_pad: u32) -> u32 {
        self.leb_bytes - data_pad
    }
}

#[cfg(test)]
mod tests {
    use super::{AttachError, Layout};

    #[test]
    fn a_header_may_end_where_its_unit_ends() {
        let geometry = nand::find_part("nandsim-64MiB").expect("in the catalogue").geometry;
        // Units of 512 bytes, a header of 64: the last place in the second unit is 960.
        let layout = Layout::of_geometry(&geometry, 512, Some(960)).expect("a layout");
        assert_eq!((layout.header_offset, layout.data_offset), (960, 2048));
        for crossing in [968, 1016] {
            let refused = Layout::of_geometry(&geometry, 512, Some(crossing));
            assert!(matches!(refused, Err(AttachError::Offset { .. })), "{crossing}");
        }
        assert!(Layout::of_geometry(&geometry, 512, Some(1024)).is_ok());
    }
}
