//! The table of file systems: a row and an adaptor each.
//!
//! [`KINDS`] in `table.rs` has a row for each file system. The contract of a row is [`mount::Kind`], that of
//! a mount [`mount::MountedFileSystem`]. Programs that work on any file system depend on this crate, and name
//! none.

mod fat;
mod jffs2;
mod jffs2_block2mtd;
mod nilfs2;
mod over_block;
mod table;
#[cfg(feature = "toy")]
mod toyfs;
mod ubifs;
mod yaffs2;

pub use crate::fat::FatMount;
pub use crate::jffs2::Jffs2Mount;
pub use crate::nilfs2::Nilfs2Mount;
pub use crate::over_block::OverBlock;
pub use crate::table::{KINDS, find_kind};
pub use crate::ubifs::{UbifsMount, mount_volume};
pub use crate::yaffs2::Yaffs2Mount;
