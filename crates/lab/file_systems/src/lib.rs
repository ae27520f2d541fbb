//! The table of file systems: a row and an adaptor each.
//!
//! [`KINDS`] has a row for each file system. What a row says is told in [`mount::Kind`], what a mount gives in
//! [`mount::MountedFileSystem`]. Whoever works on any file system depends on this crate, and names none.

mod fat;
mod jffs2;
mod jffs2_block2mtd;
mod nilfs2;
#[cfg(feature = "toy")]
mod toyfs;
mod ubifs;
mod yaffs2;

pub use crate::fat::FatMount;
pub use crate::jffs2::Jffs2Mount;
pub use crate::jffs2_block2mtd::OverBlock;
pub use crate::nilfs2::Nilfs2Mount;
pub use crate::ubifs::{UbifsMount, mount_volume};
pub use crate::yaffs2::Yaffs2Mount;

use mount::{Kind, MountError};

/// All file systems, sorted by name. A constant would be compiled again, with all that it mounts, in every
/// crate that asks for it.
pub static KINDS: &[Kind] = &[
    crate::fat::KIND,
    crate::jffs2::KIND,
    crate::jffs2_block2mtd::KIND,
    crate::nilfs2::KIND,
    #[cfg(feature = "toy")]
    crate::toyfs::KIND,
    crate::ubifs::KIND,
    crate::yaffs2::KIND,
];

/// The file system of a name.
///
/// # Errors
/// [`MountError::UnknownKind`].
pub fn find_kind(name: &str) -> Result<&'static Kind, MountError> {
    KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let shown = KINDS.iter().filter(|kind| kind.is_shown);
        let known: Vec<&str> = shown.map(|kind| kind.name).collect();
        MountError::UnknownKind { name: name.into(), known: known.join(", ") }
    })
}
