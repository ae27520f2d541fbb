//! The two units in which a host counts bytes: the page of its memory and the sector of its block devices.
//!
//! Both are constants of Linux on every processor that is modelled here, and no property of a chip or of a
//! device: the page of NAND (`nand::Geometry`) and the block of a file system are other sizes.
//!
//! Each unit has one size in two types. `PAGE_BYTES` and `SECTOR_BYTES` size and index buffers, so they are
//! `usize`. `PAGE_BYTES_U64` and `SECTOR_BYTES_U64` calculate with offsets in files and devices, which may be
//! larger than the memory of the machine that simulates. Indices and offsets are `u64` throughout.

/// Binary digits of an offset within a page (`PAGE_SHIFT` of `asm/page.h`).
const PAGE_SHIFT: u32 = 12;

/// Binary digits of an offset within a sector (`SECTOR_SHIFT` of `linux/blkdev.h`).
const SECTOR_SHIFT: u32 = 9;

/// Bytes of a page of the host's memory: the unit in which the page cache holds data of files.
pub const PAGE_BYTES: usize = 1 << PAGE_SHIFT;

/// [`PAGE_BYTES`] for calculations with offsets.
pub const PAGE_BYTES_U64: u64 = PAGE_BYTES as u64;

/// Bytes of a sector: the unit of addresses in the block layer, whatever the device's own blocks are.
pub const SECTOR_BYTES: usize = 1 << SECTOR_SHIFT;

/// [`SECTOR_BYTES`] for calculations with offsets.
pub const SECTOR_BYTES_U64: u64 = SECTOR_BYTES as u64;

/// Sectors of a page.
pub const PAGE_SECTORS: u64 = PAGE_BYTES_U64 / SECTOR_BYTES_U64;

/// Index of the page that holds the byte at an offset.
#[inline]
pub const fn page_of(offset_bytes: u64) -> u64 {
    offset_bytes >> PAGE_SHIFT
}

/// Offset of the first byte of a page.
///
/// # Panics
/// With debug assertions, if the offset has no place in 64 bits.
#[inline]
pub const fn page_start(page: u64) -> u64 {
    page * PAGE_BYTES_U64
}

/// Place of the byte at an offset within its page.
#[inline]
pub const fn within_page(offset_bytes: u64) -> usize {
    // Less than a page, so it fits whatever `usize` is.
    (offset_bytes % PAGE_BYTES_U64) as usize
}

/// Pages that hold so many bytes from the beginning of a file: the last one may hold fewer than it can.
#[inline]
pub const fn pages_for(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES_U64)
}

/// Index of the sector that holds the byte at an offset.
#[inline]
pub const fn sector_of(offset_bytes: u64) -> u64 {
    offset_bytes >> SECTOR_SHIFT
}

/// Offset of the first byte of a sector.
///
/// # Panics
/// With debug assertions, if the offset has no place in 64 bits.
#[inline]
pub const fn sector_start(sector: u64) -> u64 {
    sector * SECTOR_BYTES_U64
}

/// Index of the first sector of a page, where the pages of a device begin with its first sector.
#[inline]
pub const fn sector_of_page(page: u64) -> u64 {
    page * PAGE_SECTORS
}

/// Sectors that hold so many bytes: the last one may hold fewer than it can.
#[inline]
pub const fn sectors_for(bytes: u64) -> u64 {
    bytes.div_ceil(SECTOR_BYTES_U64)
}

/// True if bytes from `start` to `end` are whole sectors, as a direct transfer needs.
#[inline]
pub const fn are_whole_sectors(start: u64, end: u64) -> bool {
    start.is_multiple_of(SECTOR_BYTES_U64) && end.is_multiple_of(SECTOR_BYTES_U64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_sectors_are_those_of_linux() {
        assert_eq!((PAGE_BYTES, SECTOR_BYTES, PAGE_SECTORS), (4096, 512, 8));
        assert_eq!((PAGE_BYTES_U64, SECTOR_BYTES_U64), (4096, 512));
    }

    #[test]
    fn an_offset_is_a_page_and_a_place_within() {
        for offset in [0, 1, 4095, 4096, 4097, 8191, 1 << 40, u64::MAX] {
            assert_eq!(page_start(page_of(offset)) + within_page(offset) as u64, offset);
            assert!(sector_start(sector_of(offset)) <= offset);
            assert!(offset - sector_start(sector_of(offset)) < SECTOR_BYTES_U64);
            assert_eq!(sector_of_page(page_of(offset)), sector_of(page_start(page_of(offset))));
        }
    }

    #[test]
    fn a_part_of_a_unit_counts_whole() {
        let pages = [(0, 0), (1, 1), (4095, 1), (4096, 1), (4097, 2), (u64::MAX, 1 << 52)];
        for (bytes, count) in pages {
            assert_eq!(pages_for(bytes), count, "{bytes} bytes");
        }
        for (bytes, count) in [(0, 0), (1, 1), (512, 1), (513, 2), (u64::MAX, 1 << 55)] {
            assert_eq!(sectors_for(bytes), count, "{bytes} bytes");
        }
    }

    #[test]
    fn whole_sectors_begin_and_end_at_one() {
        assert!(are_whole_sectors(0, 0) && are_whole_sectors(512, 1536));
        assert!(!are_whole_sectors(1, 512) && !are_whole_sectors(0, 511));
    }
}
