//! Formats of images: a file or a folder each.

pub(crate) mod jffs2;
pub(crate) mod nilfs2;
pub(crate) mod of_row;
pub(crate) mod ubifs;
pub(crate) mod yaffs2;
