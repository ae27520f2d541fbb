//! Why a call failed, and why a device cannot be attached. Uses numbers only.

use crate::numbers::{LebNumber, PebNumber};
use mtd::MtdError;
use thiserror::Error;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UbiError {
    /// The device is read-only: it was attached so, or errors made it so (`EROFS`).
    #[error("the UBI device is read-only")]
    ReadOnly,
    /// No free physical block is left (`ENOSPC`).
    #[error("no free erase blocks are left; remove a volume or use a larger chip")]
    NoSpace,
    /// The volume asked for does not fit (`ENOSPC`).
    #[error("{wanted} erase blocks are wanted, {available} are available; make the volume smaller")]
    VolumeTooLarge {
        /// Logical blocks that the volume would need.
        wanted: u64,
        /// Blocks that no volume has.
        available: u32,
    },
    /// The chip failed (`EIO`).
    #[error("{0}")]
    Io(MtdError),
    /// What was read cannot be right (`EIO`).
    #[error("erase block {peb}: {reason}")]
    Corrupt {
        /// Number of the physical block.
        peb: PebNumber,
        /// Which check failed, as a sentence.
        reason: String,
    },
    /// An argument does not fit the volume (`EINVAL`).
    #[error("{0}")]
    Invalid(String),
    /// No such volume (`ENODEV`).
    #[error("there is no volume {0}; `volumes` lists those there are")]
    NoVolume(String),
    /// A volume of that number or name is there already (`EEXIST`).
    #[error("a volume {0} is there already; choose another name or number")]
    Exists(String),
    /// The volume's update was interrupted, or its blocks are wrong (`EBADF`).
    #[error("volume {0} was not updated completely; write it anew")]
    Incomplete(String),
    /// A logical block that has a physical one was to be given one (`EBADMSG` of `ubi_leb_map`).
    #[error("logical erase block {0} is mapped already")]
    Mapped(LebNumber),
}

/// Why a device cannot be attached, or formatted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AttachError {
    /// The place of the volume identifier header is impossible.
    #[error(
        "a volume identifier header cannot stand at {header_offset}: {reason}; use 0 for the default, or the page size"
    )]
    Offset {
        /// The offset that was asked for, in bytes from the block's beginning.
        header_offset: u32,
        /// Why no header can stand there.
        reason: &'static str,
    },
    /// The image has its headers elsewhere.
    #[error(
        "erase block {peb} has its volume identifier header at {found} and data at {found_data}, not at {wanted} and {wanted_data}; attach with header offset {found}"
    )]
    OtherOffset {
        /// The first block with such a header.
        peb: PebNumber,
        /// Offset in the image.
        found: u32,
        /// Offset of data in the image.
        found_data: u32,
        /// Offset that the attach was to use.
        wanted: u32,
        /// Offset of data that goes with it.
        wanted_data: u32,
    },
    /// The device holds no image of UBI.
    #[error("the device holds no UBI image; format it first")]
    NotUbi,
    /// What is on the medium cannot be attached.
    #[error("{0}")]
    Medium(String),
    /// There are too few blocks.
    #[error("{available} erase blocks are available, {wanted} are needed; use a larger chip")]
    TooFewBlocks {
        /// Good blocks that the device has.
        available: u32,
        /// Blocks that volumes and UBI itself need.
        wanted: u32,
    },
    /// An operation failed on the way.
    #[error("{0}")]
    Operation(#[from] UbiError),
}

impl From<MtdError> for UbiError {
    fn from(error: MtdError) -> Self {
        Self::Io(error)
    }
}

impl UbiError {
    /// A failure of the chip, after which data may be moved elsewhere.
    pub(crate) fn is_io(&self) -> bool {
        matches!(self, Self::Io(_))
    }
}
