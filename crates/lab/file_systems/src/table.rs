//! The table of file systems. [`mount::Kind`] is the contract of a row.

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
/// [`MountError::UnknownKind`], with the names that are known.
pub fn find_kind(name: &str) -> Result<&'static Kind, MountError> {
    KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let shown = KINDS.iter().filter(|kind| kind.is_shown);
        let known: Vec<&str> = shown.map(|kind| kind.name).collect();
        MountError::UnknownKind { name: name.into(), known: known.join(", ") }
    })
}
