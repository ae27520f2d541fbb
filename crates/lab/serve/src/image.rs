//! The image of a device: what it holds outlives the server.
//!
//! A file of these parts, integers little-endian:
//!
//! | part | holds |
//! |---|---|
//! | magic | `nandlab image 1` and a newline |
//! | options | u32 length, then [`CoreOptions`] as JSON |
//! | state | 0, or 1 and what the device held without power (see [`mod@state`]) |
//! | records | the calls since then, each in a frame (see [`crate::record`] and [`crate::frame`]) |
//!
//! A server writes each call behind the others before it carries it out, so one that is killed loses nothing that it
//! answered: the next one carries the calls out again. What FLUSH and FUA promise is on the host's medium before the
//! reply. A server that stops in order writes a new file, with the state and no calls, under a temporary name,
//! and puts it in the place of the old one. So the file is whole at any moment.

pub(crate) mod another;
pub(crate) mod state;

use crate::header::write_options;
use crate::record::RecordWriter;
use crate::work::CoreOptions;
use device::StoredDevice;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

pub(crate) const MAGIC: &[u8] = b"nandlab image 1\n";

/// Why an image cannot be had.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The file cannot be made or read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        reason: io::Error,
    },
    /// Another server has it.
    #[error("{path}: another server has this image open: stop that one, or choose another file")]
    Open {
        /// The file.
        path: String,
    },
    /// It is no image, or a damaged one.
    #[error("{path}: this is no image of `nandlab serve`, or one of another version: {reason}")]
    NoImage {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// It holds a part that is damaged.
    #[error("{path}: the image is damaged: {reason}")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// It holds another device.
    #[error(
        "{path}: the image holds another device: {difference}: leave the options of the device out, or choose another file"
    )]
    Another {
        /// The file.
        path: String,
        /// How they differ.
        difference: String,
    },
    /// The device cannot be made.
    #[error("{0}")]
    Device(String),
}

/// The file that keeps a device.
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) options: CoreOptions,
    pub(crate) records: RecordWriter,
    /// Held as long as the server runs: two would write between each other's records.
    pub(crate) _lock: File,
}

impl Image {
    /// Makes the image hold the state of a device without power, instead of calls.
    pub(crate) fn replace(self, at_ns: u64, device: &dyn StoredDevice) -> io::Result<()> {
        let part = part_of(&self.path);
        let written = File::create(&part).and_then(|file| {
            let mut to = BufWriter::new(file);
            write_options(&mut to, MAGIC, &self.options)?;
            to.write_all(&[1])?;
            state::write(&mut to, at_ns, device)?;
            put_in_place(&to.into_inner()?, &part, &self.path)
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        written
    }
}

/// The temporary name of a file.
pub(crate) fn part_of(path: &Path) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(".part");
    name.into()
}

/// Gives a whole file its name.
pub(crate) fn put_in_place(file: &File, part: &Path, path: &Path) -> io::Result<()> {
    // On the medium before its name is: a host that fails in between would find an empty file.
    file.sync_all()?;
    std::fs::rename(part, path)?;
    // The name, too: what a client flushes later is in no other file.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
