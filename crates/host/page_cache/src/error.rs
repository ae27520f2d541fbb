//! Why a call on a file failed.

use device::DeviceError;
use fs_api::Errno;
use thiserror::Error;

/// Why a call on a file failed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FileError {
    /// The device could not carry out a read or write (`EIO`).
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The file system under the file could not.
    #[error(transparent)]
    FileSystem(#[from] Errno),
    /// Direct transfers begin and end at sectors (`EINVAL`).
    #[error("bytes {offset} to {end} are no whole sectors, which a direct transfer needs")]
    Misaligned {
        /// The first byte of the transfer.
        offset: u64,
        /// The byte after the last.
        end: u64,
    },
    /// The write begins where the file cannot grow (`ENOSPC`).
    #[error("byte {offset} is past the end of the device at {size}")]
    NoSpace {
        /// The first byte of the write.
        offset: u64,
        /// Bytes of the device.
        size: u64,
    },
}
