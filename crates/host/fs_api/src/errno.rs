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
