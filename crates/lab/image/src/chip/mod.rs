//! Images of raw NAND: dumps of a chip, the chip behind one, and what a format says of both.

mod check;
mod detect;
mod dump;
mod image;
mod info;
mod load;
mod make;
mod opened;
mod tree;

pub(crate) use detect::{Found, assume, detect, is_blank, is_protected, pages, share};
pub(crate) use dump::{Dump, DumpForm, Prepared};
pub(crate) use image::ChipForm;
pub use image::{ChipImage, Form};
pub(crate) use info::{add_blocks, free_json, space_json};
pub(crate) use load::{load, load_without_chip};
pub(crate) use make::{BlockOrder, find_chip, make_chip};
pub(crate) use tree::{check_mounted, extract_mounted, list_mounted};
