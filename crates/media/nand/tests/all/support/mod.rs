//! Small parts for tests.
#![allow(dead_code, reason = "each test file uses some of these")]

use nand::{Cell, Chip, FaultSettings, PageOrder, Part, Role, Storage, Tag};

/// Pages of a block of [`small_part`].
pub(crate) const PAGES: u32 = 8;
/// Blocks of [`small_part`].
pub(crate) const BLOCKS: u32 = 4;

/// An SLC part of four blocks of eight pages of 256 + 16 bytes, any order, NOP 2 and 3.
pub(crate) fn small_part() -> Part {
    let mut part = nand::find_part("published-small-block").expect("in the catalogue");
    part.geometry.page_data_bytes = 256;
    part.geometry.pages_per_block = PAGES;
    part.geometry.blocks = BLOCKS;
    part
}

/// The small part with an order of pages and two NOPs.
pub(crate) fn ruled_part(order: PageOrder, data_programs_max: u8, oob_programs_max: u8) -> Part {
    let mut part = small_part();
    part.geometry.page_order = order;
    part.geometry.data_programs_max = data_programs_max;
    part.geometry.oob_programs_max = oob_programs_max;
    part
}

/// The small part with another kind of cell and number of pages, in sequential order.
pub(crate) fn cell_part(cell: Cell, pages_per_block: u32) -> Part {
    let mut part = ruled_part(PageOrder::Sequential, 1, 1);
    part.geometry.cell = cell;
    part.geometry.pages_per_block = pages_per_block;
    part.check().expect("a sound part");
    part
}

/// A chip without faults that stores bytes.
pub(crate) fn byte_chip(part: &Part) -> Chip {
    Chip::new(part, Storage::Bytes, &FaultSettings::default())
}

/// A tag for logical page `lpn`.
pub(crate) fn tag(lpn: u32) -> Tag {
    Tag::new(lpn, u64::from(lpn) + 1, Role::Data)
}
