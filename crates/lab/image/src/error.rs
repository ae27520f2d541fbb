//! Why an image could not be worked with.

use fs_api::Errno;
use mount::MountError;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why an image could not be worked with.
#[derive(Debug, Error)]
pub enum ImageError {
    /// A file or directory of the host.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory of the host.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// An option makes no sense.
    #[error("{option}: {reason}")]
    Option {
        /// The option as the command line has it.
        option: &'static str,
        /// What would be right.
        reason: String,
    },
    /// What the file holds is not understood.
    #[error("{}: {reason}", path.display())]
    Content {
        /// The file that holds the image.
        path: PathBuf,
        /// What was looked for.
        reason: String,
    },
    /// Something is found, but not enough to be believed; or the bytes were rearranged.
    #[error("{}: {reason}", path.display())]
    Uncertain {
        /// The file that holds the image.
        path: PathBuf,
        /// What was found, and what to do.
        reason: String,
    },
    /// It does not mount.
    #[error("{}: {source}", path.display())]
    Mount {
        /// The file that holds the image.
        path: PathBuf,
        /// Why the mount failed.
        source: Box<MountError>,
    },
    /// NILFS2 does not mount.
    #[error("{}: {source}", path.display())]
    Nilfs2 {
        /// The file that holds the image.
        path: PathBuf,
        /// Why the mount failed.
        source: nilfs2::MountError,
    },
    /// The file system refuses a file of the host.
    #[error("{name}: {errno}{hint}")]
    Make {
        /// Path within the image.
        name: String,
        /// Answer of the file system.
        errno: Errno,
        /// What would help, or nothing.
        hint: &'static str,
    },
}

impl ImageError {
    pub(crate) fn io(path: &Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path: path.clone(), source }
    }

    pub(crate) fn content(path: &Path, reason: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn uncertain(path: &Path, reason: impl Into<String>) -> Self {
        Self::Uncertain { path: path.to_owned(), reason: reason.into() }
    }
}
