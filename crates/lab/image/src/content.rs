//! The bytes of an image: a file of the host, or memory.

use crate::error::ImageError;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The largest image that is read whole: sizes of raw NAND file systems end here.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// The bytes of an image. A file is read as it is needed.
pub(crate) enum Content {
    /// An open file of the host, and its length in bytes.
    File(File, u64),
    /// Bytes at hand.
    Memory(Vec<u8>),
}

impl Content {
    /// Opens a file of the host. A pipe would wait for a writer, and nothing else can be read from any place.
    ///
    /// # Errors
    /// [`ImageError::Io`]; [`ImageError::Content`] if it is no regular file.
    pub(crate) fn open(path: &Path) -> Result<Self, ImageError> {
        let failed = ImageError::io(path);
        // `NONBLOCK`: opening a pipe returns at once.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let file = File::from(file);
        let metadata = file.metadata().map_err(&failed)?;
        if !metadata.is_file() {
            let reason = "this is no file: copy what it holds to one, and name that";
            return Err(ImageError::content(path, reason));
        }
        Ok(Self::File(file, metadata.len()))
    }

    /// Bytes of the image.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::File(_, length) => *length,
            Self::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Reads from any place.
    ///
    /// # Errors
    /// `UnexpectedEof` behind the end of the image; of a file those of the host.
    pub(crate) fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.read_exact_at(into, offset),
            Self::Memory(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = from.saturating_add(into.len());
                let found = bytes.get(from..end).ok_or(io::ErrorKind::UnexpectedEof)?;
                into.copy_from_slice(found);
                Ok(())
            }
        }
    }
}

/// Reads a whole file.
///
/// # Errors
/// [`ImageError::Io`]; [`ImageError::Content`] if it is larger than raw NAND or than the memory.
pub(crate) fn read_whole(mut file: &File, length: u64, path: &Path) -> Result<Vec<u8>, ImageError> {
    /// Bytes between two looks whether to go on.
    const PIECE_BYTES: u64 = 1 << 24;
    let failed = ImageError::io(path);
    if length > FILE_BYTES_MAX {
        let reason = format!("{length} bytes are more than the 4 GiB of raw NAND");
        return Err(ImageError::content(path, reason));
    }
    // Room for the rest of the last page: memory is never needed twice.
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize + 4096).map_err(|_| {
        ImageError::content(path, format!("{length} bytes are more than there is memory for"))
    })?;
    loop {
        cancellation::check();
        let count = file.by_ref().take(PIECE_BYTES).read_to_end(&mut bytes).map_err(&failed)?;
        if count == 0 {
            return Ok(bytes);
        }
    }
}
