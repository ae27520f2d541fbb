//! Why a call failed.

use thiserror::Error;

/// Error numbers of POSIX and Linux that file systems return, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum Errno {
    /// The operation is not permitted.
    #[error("EPERM: operation not permitted")]
    Eperm,
    /// No such name, or no such inode.
    #[error("ENOENT: no such file or directory")]
    Enoent,
    /// The medium failed, or what it holds is damaged.
    #[error("EIO: input/output error")]
    Eio,
    /// No such device, or its other end is missing.
    #[error("ENXIO: no such device or address")]
    Enxio,
    /// No such open file, or one that was not opened for this.
    #[error("EBADF: bad file descriptor")]
    Ebadf,
    /// No memory is left.
    #[error("ENOMEM: out of memory")]
    Enomem,
    /// The device or resource is in use.
    #[error("EBUSY: device or resource busy")]
    Ebusy,
    /// The name exists already.
    #[error("EEXIST: file exists")]
    Eexist,
    /// A link to another file system.
    #[error("EXDEV: cross-device link")]
    Exdev,
    /// A component of the path is no directory.
    #[error("ENOTDIR: not a directory")]
    Enotdir,
    /// The path leads to a directory.
    #[error("EISDIR: is a directory")]
    Eisdir,
    /// An argument that makes no sense.
    #[error("EINVAL: invalid argument")]
    Einval,
    /// Larger than a file can be.
    #[error("EFBIG: file too large")]
    Efbig,
    /// No space is left, and cleaning cannot make any.
    #[error("ENOSPC: no space left on device")]
    Enospc,
    /// Mounted read-only, or made so by an error.
    #[error("EROFS: read-only file system")]
    Erofs,
    /// As many links as an inode can have.
    #[error("EMLINK: too many links")]
    Emlink,
    /// The name is too long.
    #[error("ENAMETOOLONG: file name too long")]
    Enametoolong,
    /// Symbolic links lead through too many others, perhaps in a ring.
    #[error("ELOOP: too many levels of symbolic links")]
    Eloop,
    /// The kernel has no such call.
    #[error("ENOSYS: function not implemented")]
    Enosys,
    /// The directory is not empty.
    #[error("ENOTEMPTY: directory not empty")]
    Enotempty,
    /// No such extended attribute.
    #[error("ENODATA: no data available")]
    Enodata,
    /// The result does not fit.
    #[error("ERANGE: result too large")]
    Erange,
    /// Not offered by this file system.
    #[error("EOPNOTSUPP: operation not supported")]
    Eopnotsupp,
}

impl Errno {
    /// All of them, by the numbers that Linux gives them.
    pub const ALL: [Self; 23] = [
        Self::Eperm,
        Self::Enoent,
        Self::Eio,
        Self::Enxio,
        Self::Ebadf,
        Self::Enomem,
        Self::Ebusy,
        Self::Eexist,
        Self::Exdev,
        Self::Enotdir,
        Self::Eisdir,
        Self::Einval,
        Self::Efbig,
        Self::Enospc,
        Self::Erofs,
        Self::Emlink,
        Self::Erange,
        Self::Enametoolong,
        Self::Enosys,
        Self::Enotempty,
        Self::Eloop,
        Self::Enodata,
        Self::Eopnotsupp,
    ];

    /// Its number in Linux (`include/uapi/asm-generic/errno-base.h` and `errno.h`), which most architectures
    /// have.
    pub fn number(self) -> i32 {
        match self {
            Self::Eperm => 1,
            Self::Enoent => 2,
            Self::Eio => 5,
            Self::Enxio => 6,
            Self::Ebadf => 9,
            Self::Enomem => 12,
            Self::Ebusy => 16,
            Self::Eexist => 17,
            Self::Exdev => 18,
            Self::Enotdir => 20,
            Self::Eisdir => 21,
            Self::Einval => 22,
            Self::Efbig => 27,
            Self::Enospc => 28,
            Self::Erofs => 30,
            Self::Emlink => 31,
            Self::Erange => 34,
            Self::Enametoolong => 36,
            Self::Enosys => 38,
            Self::Enotempty => 39,
            Self::Eloop => 40,
            Self::Enodata => 61,
            Self::Eopnotsupp => 95,
        }
    }

    /// Its name, such as `ENOSPC`.
    pub fn name(self) -> String {
        // The text of every one begins with its name.
        self.to_string().split(':').next().unwrap_or_default().to_owned()
    }

    /// The error of a name, such as `ENOSPC`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|errno| errno.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::Errno;

    #[test]
    fn every_errno_has_a_name_and_a_number_of_its_own() {
        assert!(Errno::ALL.is_sorted_by(|one, other| one.number() < other.number()));
        for errno in Errno::ALL {
            assert_eq!(Errno::from_name(&errno.name()), Some(errno));
            assert_eq!(errno.name(), format!("{errno:?}").to_uppercase());
        }
        assert_eq!(Errno::from_name("ENOWAY"), None);
    }
}
