//! Why a medium cannot be mounted.
//!
//! May use no other file of the crate.

use fs_api::Errno;
use mtd::MtdError;
use thiserror::Error;

/// Why a medium could not be mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MountError {
    /// Something is on the medium, but not one node: the kernel refuses to erase it.
    #[error("no valid node, but the medium is not blank: this is no JFFS2, or the layout is wrong")]
    NoNodes,
    /// A node that must be understood is of an unknown type.
    #[error("the node at {offset:#x} has type {node_type:#x}, which no modelled kernel reads")]
    Incompatible {
        /// Node type with its compatibility bits.
        node_type: u16,
        /// Offset on the medium.
        offset: u32,
    },
    /// A node of unknown type allows reading only.
    #[error("the node at {offset:#x} of type {node_type:#x} allows a read-only mount only")]
    ReadOnlyCompatible {
        /// Node type with its compatibility bits.
        node_type: u16,
        /// Offset on the medium.
        offset: u32,
    },
    /// The device does not fit the file system.
    #[error("{0}")]
    Device(&'static str),
    /// The device could not be read.
    #[error("{0}")]
    Medium(MtdError),
    /// Reading the root directory or the first nodes failed.
    #[error("{0}")]
    Call(#[from] Errno),
}
