//! Numbers of the format that stand on media.
//!
//! Source: `yaffs_guts.h` of YAFFS2, checked against images.
//!
//! May use no other file of the crate.

/// Object number of the root directory.
pub(crate) const OBJECT_ROOT: u32 = 1;
/// Where objects without a parent go.
pub(crate) const OBJECT_LOST_AND_FOUND: u32 = 2;
/// Parent of files that have no name but are in use.
pub(crate) const OBJECT_UNLINKED: u32 = 3;
/// Parent of deleted objects.
pub(crate) const OBJECT_DELETED: u32 = 4;
/// Pretended object whose chunks are block summaries.
pub(crate) const OBJECT_SUMMARY: u32 = 0x10;
/// Greatest object number (`YAFFS_MAX_OBJECT_ID`).
pub(crate) const OBJECT_MAX: u32 = 0x3_ffff;
/// Lists in which objects are kept by their number; numbers below it are the format's own.
pub(crate) const BUCKETS: u32 = 256;

/// Lowest sequence number of a block of data.
pub(crate) const FIRST_SEQUENCE: u32 = 0x1000;
/// End of the sequence numbers of data blocks; higher ones mean something else.
pub(crate) const LAST_SEQUENCE: u32 = 0xefff_ff00;
/// In the tags of checkpoints.
pub(crate) const SEQUENCE_CHECKPOINT: u32 = 0x21;
/// In the tags of a bad block that could not be marked.
pub(crate) const SEQUENCE_BAD: u32 = 0xffff_0000;

/// Bytes of a name.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Bytes of the target of a symbolic link.
pub(crate) const ALIAS_BYTES_MAX: usize = 159;
/// Bytes of a name that is kept in memory.
pub(crate) const SHORT_NAME_BYTES: usize = 15;
/// Name of the directory of lost objects.
pub(crate) const LOST_AND_FOUND_NAME: &[u8] = b"lost+found";
/// Begins the made-up names of objects whose header was not found.
pub(crate) const LOST_PREFIX: &str = "obj";
/// Magic number in the markers of a checkpoint.
pub(crate) const MAGIC: u32 = 0x5941_ff53;

/// A chunk of a file, as opposed to the place of a chunk on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileChunk {
    /// Number of the file's object.
    pub(crate) object: u32,
    /// Number of the chunk in the file, from 1 on.
    pub(crate) number: u32,
}

/// Kinds of objects, with their numbers on media.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// Not known yet; no header has this kind.
    Unknown,
    /// A regular file, the only kind with data chunks.
    File,
    /// A symbolic link, whose target stands in its header.
    Symlink,
    /// A directory: only a header, for each child names its parent.
    Directory,
    /// Another name of an object.
    HardLink,
    /// Device, pipe or socket.
    Special,
}

impl ObjectKind {
    /// The number on media.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The kind of a number.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Unknown,
            1 => Self::File,
            2 => Self::Symlink,
            3 => Self::Directory,
            4 => Self::HardLink,
            5 => Self::Special,
            _ => return None,
        })
    }
}
