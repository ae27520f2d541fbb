//! Attributes of an inode: all that a file system keeps of it beside its data.

/// A time as inodes keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds; zero in file systems that keep seconds only.
    pub nanoseconds: u32,
}

impl Time {
    /// A time of whole seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanoseconds: 0 }
    }
}

/// Kinds of inodes, in the order of the type bits of `st_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileType {
    /// A named pipe (`S_IFIFO`).
    Fifo,
    /// A character device (`S_IFCHR`).
    CharacterDevice,
    /// A directory: names of other inodes (`S_IFDIR`).
    Directory,
    /// A block device (`S_IFBLK`).
    BlockDevice,
    /// A regular file (`S_IFREG`).
    Regular,
    /// A symbolic link (`S_IFLNK`).
    Symlink,
    /// A socket of the local domain (`S_IFSOCK`).
    Socket,
}

impl FileType {
    /// The type bits of `st_mode` (`S_IFMT`).
    pub const fn mode_bits(self) -> u32 {
        // The numbers of `include/linux/stat.h`.
        match self {
            Self::Fifo => 0o010_000,
            Self::CharacterDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The kind that `st_mode` encodes; none if its type bits are of no kind.
    pub const fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharacterDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::Regular,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }

    /// One letter, as manifests write it: f d l c b p s.
    pub const fn letter(self) -> char {
        match self {
            // The letters of `find -printf %y`.
            Self::Fifo => 'p',
            Self::CharacterDevice => 'c',
            Self::Directory => 'd',
            Self::BlockDevice => 'b',
            Self::Regular => 'f',
            Self::Symlink => 'l',
            Self::Socket => 's',
        }
    }

    /// True of the two kinds that have a device number.
    pub const fn is_device(self) -> bool {
        matches!(self, Self::CharacterDevice | Self::BlockDevice)
    }
}

/// The attributes that `stat` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Kind of the file.
    pub kind: FileType,
    /// Permission bits, with set-uid, set-gid and sticky (07777).
    pub permissions: u32,
    /// Names of the inode; for directories two and one for each directory in it, where the file system
    /// counts so.
    pub links: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Bytes; of a symbolic link those of its target; of directories what the file system says.
    pub size_bytes: u64,
    /// Time of the last access.
    pub accessed: Time,
    /// Last change of the data.
    pub modified: Time,
    /// Last change of the inode.
    pub changed: Time,
    /// Major and minor number of devices, else zero.
    pub device: (u32, u32),
}

/// What `chmod`, `chown`, `utime` and `truncate` change: what is none stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permission, set-uid, set-gid and sticky bits (07777).
    pub permissions: Option<u32>,
    /// Number of the new owner.
    pub uid: Option<u32>,
    /// Number of the new group.
    pub gid: Option<u32>,
    /// Length of a regular file.
    pub size_bytes: Option<u64>,
    /// New time of the last access.
    pub accessed: Option<Time>,
    /// Last change of the data.
    pub modified: Option<Time>,
}

/// Space and names, as `statfs` returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceUse {
    /// Unit of the numbers below.
    pub block_bytes: u32,
    /// Blocks of the file system.
    pub blocks: u64,
    /// Blocks that are free.
    pub free_blocks: u64,
    /// Free blocks for those who are not root (`f_bavail`).
    pub available_blocks: u64,
}
