//! Shape of a part and the programming rules that its data sheet states.
//!
//! Left out: dies and channels (a device above the chip has them), parts whose blocks differ in size.

use serde::{Deserialize, Serialize};

/// Bits a cell stores; it decides page order, pairing of pages and endurance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// One bit a cell.
    Slc,
    /// Two bits: pages of a word line are paired.
    Mlc,
    /// Three bits a cell.
    Tlc,
    /// Four bits a cell.
    Qlc,
}

impl Cell {
    /// Bits per cell, which is the number of pages that share a word line.
    pub fn bits(self) -> u32 {
        match self {
            Self::Slc => 1,
            Self::Mlc => 2,
            Self::Tlc => 3,
            Self::Qlc => 4,
        }
    }
}

/// Order in which the pages of a block may be programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageOrder {
    /// Any order (small-block SLC).
    Any,
    /// Ascending; pages may be left out.
    Ascending,
    /// Ascending order; no page may be left out.
    Sequential,
}

/// Shape and rules of a chip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Bytes of the data area of a page.
    pub page_data_bytes: u32,
    /// Bytes of the spare (OOB) area of a page.
    pub page_oob_bytes: u32,
    /// Pages in an erase block.
    pub pages_per_block: u32,
    /// Erase blocks in the chip.
    pub blocks: u32,
    /// Planes; block `b` lies in plane `b mod planes`.
    pub planes: u32,
    /// Bits that a cell stores.
    pub cell: Cell,
    /// Order in which pages of a block may be programmed.
    pub page_order: PageOrder,
    /// Programs of the data area of a page between erases (NOP, main array).
    pub data_programs_max: u8,
    /// Programs of the spare area of a page between erases (NOP, spare array).
    pub oob_programs_max: u8,
    /// Byte of the spare area that holds the factory bad-block mark.
    pub bad_mark_oob_offset: u32,
    /// Consecutive pages that the array reads and programs in one operation.
    ///
    /// 1 on a part as it is. A device whose layer maps parts of a page divides each array page into so many
    /// pages here; see [`Geometry::divided`].
    // No key of part files: a driver of raw NAND programs page by page.
    #[serde(skip, default = "one")]
    pub pages_per_program: u32,
}

/// Most pages that one operation of the array covers.
// A page of 64 KiB, all planes together, in units of 4 KiB.
pub const PAGES_PER_PROGRAM_MAX: u32 = 16;

fn one() -> u32 {
    1
}

impl Geometry {
    /// Pages of the whole chip.
    pub fn pages(&self) -> u32 {
        self.blocks * self.pages_per_block
    }

    /// The same chip with each array page divided into `units` pages of equal size, which are still read and
    /// programmed together: the mapping units of a layer that maps less than a page.
    #[must_use]
    pub fn divided(mut self, units: u32) -> Self {
        self.page_data_bytes /= units;
        self.page_oob_bytes /= units;
        self.pages_per_block *= units;
        self.pages_per_program *= units;
        // The mark stays within the spare area of the first unit.
        self.bad_mark_oob_offset = self.bad_mark_oob_offset.min(self.page_oob_bytes - 1);
        self
    }

    /// Number of the array page within its block that holds a page.
    #[inline]
    pub fn array_page(&self, page: u32) -> u32 {
        page / self.pages_per_program
    }

    /// Array pages of an erase block.
    pub fn array_pages_per_block(&self) -> u32 {
        self.pages_per_block / self.pages_per_program
    }

    /// Bytes of data that one program writes.
    pub fn program_bytes(&self) -> u64 {
        u64::from(self.page_data_bytes) * u64::from(self.pages_per_program)
    }

    /// Bytes of all data areas.
    pub fn capacity_bytes(&self) -> u64 {
        u64::from(self.pages()) * u64::from(self.page_data_bytes)
    }

    /// Bytes of one erase block, data areas only.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.pages_per_block) * u64::from(self.page_data_bytes)
    }

    /// The same shape with another number of blocks.
    #[must_use]
    pub fn with_blocks(mut self, blocks: u32) -> Self {
        self.blocks = blocks;
        self
    }

    /// Checks that this computer has the memory that the state of such a chip, and of a layer on it,
    /// takes. An allocation that fails later ends the process.
    ///
    /// # Errors
    /// A sentence with the pages and the MiB that are too much; it advises fewer blocks.
    pub fn check_memory(&self) -> Result<(), String> {
        /// State of a page on the chip, and the tables of a translation layer or file system over it.
        const PAGE_STATE_BYTES: u64 = 24;
        let bytes = u64::from(self.pages()) * PAGE_STATE_BYTES;
        // Asked for without touching it: an allocation that fails later could not be reported.
        let reserved = usize::try_from(bytes)
            .is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
        if reserved {
            return Ok(());
        }
        Err(format!(
            "the state of a chip of {} pages takes {} MiB of memory, which this computer does not \
             give: take fewer blocks",
            self.pages(),
            bytes >> 20
        ))
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence that names the key of `geometry` outside its range, and the permitted values.
    pub fn check(&self) -> Result<(), String> {
        let bits = self.cell.bits();
        if !(1..=PAGES_PER_PROGRAM_MAX).contains(&self.pages_per_program)
            || !self.pages_per_block.is_multiple_of(self.pages_per_program)
        {
            return Err(format!(
                "geometry.pages_per_program must be 1 to {PAGES_PER_PROGRAM_MAX} and divide pages_per_block"
            ));
        }
        let array_pages = self.array_pages_per_block();
        // Numbers of programs are kept in four bits.
        let nop = 1..=15;
        let rules = [
            (
                (256..=1 << 20).contains(&self.page_data_bytes),
                "page_data_bytes must be 256 to 1048576",
            ),
            // A tag takes ten bytes, and the bad-block mark of a large page two.
            ((12..=1 << 16).contains(&self.page_oob_bytes), "page_oob_bytes must be 12 to 65536"),
            ((2..=1 << 14).contains(&self.pages_per_block), "pages_per_block must be 2 to 16384"),
            (
                bits != 2 || (array_pages >= 8 && array_pages.is_multiple_of(4)),
                "pages_per_block must be a multiple of 4, at least 8, with cell = \"mlc\"",
            ),
            (
                array_pages.is_multiple_of(bits),
                "pages_per_block must be a multiple of the pages of a word line (tlc 3, qlc 4)",
            ),
            (self.blocks >= 2, "blocks must be at least 2"),
            (
                // Maps of layers pack block and page in 32 bits, and all ones is no page.
                u64::from(self.blocks) * u64::from(self.pages_per_block) < 1 << 31,
                "blocks × pages_per_block must stay below 2^31 pages",
            ),
            (self.planes >= 1 && self.planes <= self.blocks, "planes must be 1 to geometry.blocks"),
            (nop.contains(&self.data_programs_max), "data_programs_max must be 1 to 15"),
            (nop.contains(&self.oob_programs_max), "oob_programs_max must be 1 to 15"),
            (
                self.bad_mark_oob_offset < self.page_oob_bytes,
                "bad_mark_oob_offset must lie inside the spare area",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, sentence)) => Err(format!("geometry.{sentence}")),
            None => Ok(()),
        }
    }
}
