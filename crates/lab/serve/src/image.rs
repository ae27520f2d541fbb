//! The image of a device: what it holds outlives the server.
//!
//! A file of these parts, integers little-endian:
//!
//! | part | holds |
//! |---|---|
//! | magic | `nandlab image 1` and a newline |
//! | options | u32 length, then [`CoreOptions`] as JSON |
//! | state | 0, or 1 and what the device held without power (see [`mod@state`]) |
//! | records | the calls since then (see [`crate::record`]) |
//!
//! A server writes each call behind the others before it carries it out, so one that is killed loses nothing that it
//! answered: the next one carries the calls out again. What FLUSH and FUA promise is on the host's medium before the
//! reply. A server that stops in order writes a new file, with the state and no calls, under a temporary name,
//! and puts it in the place of the old one. So the file is whole at any moment.

mod another;
mod state;

use crate::core::{Core, CoreOptions};
use crate::log::{read_options, write_options};
use crate::record::{Next, RecordWriter, Stop, carry_out_next};
use another::difference;
use device::StoredDevice;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

const MAGIC: &[u8] = b"nandlab image 1\n";

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
    path: PathBuf,
    options: CoreOptions,
    pub(crate) records: RecordWriter,
    /// Held as long as the server runs: two would write between each other's records.
    _lock: File,
}

/// The device that an image holds; none if there is no such file.
///
/// # Errors
/// [`ImageError`].
pub fn image_options(path: &Path) -> Result<Option<CoreOptions>, ImageError> {
    let named = Named(path);
    match File::open(path) {
        Ok(file) => named.options(&mut BufReader::new(file)).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named.file(error)),
    }
}

/// Opens the image at `path`, or makes a new one of the device of `options`; the device has power afterwards.
///
/// An image has its own device, seed and contents: `options` must name the same device, and only the planned cut
/// counts.
///
/// # Errors
/// [`ImageError`].
pub(crate) fn open(path: &Path, options: &CoreOptions) -> Result<Core, ImageError> {
    let named = Named(path);
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let (mut core, image) = match opened {
        Ok(file) => named.reopen(file, options)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => named.create(options)?,
        Err(error) => return Err(named.file(error)),
    };
    core.keep_in(image);
    core.begin_session(options.cut_after).map_err(|failure| named.damaged(failure.to_string()))?;
    Ok(core)
}

impl Image {
    /// Makes the image hold the state of a device without power, instead of calls.
    pub(crate) fn replace(self, at_ns: u64, device: &dyn StoredDevice) -> io::Result<()> {
        let mut name = self.path.clone().into_os_string();
        name.push(".part");
        let part = PathBuf::from(name);
        let written = (|| {
            let mut to = BufWriter::new(File::create(&part)?);
            write_options(&mut to, MAGIC, &self.options)?;
            to.write_all(&[1])?;
            state::write(&mut to, at_ns, device)?;
            let file = to.into_inner()?;
            // On the medium before its name is: a host that fails in between would find an empty file.
            file.sync_all()?;
            std::fs::rename(&part, &self.path)
        })();
        if written.is_err() {
            let _ = std::fs::remove_file(&part);
            return written;
        }
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// A file by its name, for messages.
struct Named<'path>(&'path Path);

impl Named<'_> {
    fn shown(&self) -> String {
        self.0.display().to_string()
    }

    fn file(&self, reason: io::Error) -> ImageError {
        ImageError::File { path: self.shown(), reason }
    }

    fn damaged(&self, reason: impl Into<String>) -> ImageError {
        ImageError::Damaged { path: self.shown(), reason: reason.into() }
    }

    fn options(&self, input: &mut impl Read) -> Result<CoreOptions, ImageError> {
        read_options(input, MAGIC)
            .map_err(|reason| ImageError::NoImage { path: self.shown(), reason })
    }

    /// Locks the file for as long as what is returned is held.
    fn lock(&self, file: &File) -> Result<File, ImageError> {
        let open = || ImageError::Open { path: self.shown() };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(open()),
            Err(TryLockError::Error(error)) => return Err(self.file(error)),
        }
        let place = |data: Metadata| (data.dev(), data.ino());
        let held = file.metadata().map(place).map_err(|error| self.file(error))?;
        let named = std::fs::metadata(self.0).map(place).map_err(|error| self.file(error))?;
        // The server before put a new file in its place since this one was opened: it is of no name any more.
        if held != named {
            return Err(open());
        }
        file.try_clone().map_err(|error| self.file(error))
    }

    /// A new image, of a device that is made anew.
    fn create(&self, options: &CoreOptions) -> Result<(Core, Image), ImageError> {
        let options = CoreOptions { cut_after: None, ..options.clone() };
        let core = Core::new(&options).map_err(ImageError::Device)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(self.0)
            .map_err(|error| self.file(error))?;
        let lock = self.lock(&file)?;
        let begun = write_options(&mut file, MAGIC, &options)
            .and_then(|()| file.write_all(&[0]))
            .and_then(|()| file.sync_all());
        begun.map_err(|error| {
            // It holds no device, and would be in the way of the next try.
            let _ = std::fs::remove_file(self.0);
            self.file(error)
        })?;
        let records = RecordWriter::new(file);
        Ok((core, Image { path: self.0.to_owned(), options, records, _lock: lock }))
    }

    /// The device of an image as it was when the server before ended, however it ended.
    fn reopen(&self, mut file: File, given: &CoreOptions) -> Result<(Core, Image), ImageError> {
        let lock = self.lock(&file)?;
        let mut input = BufReader::new(&mut file);
        let mut options = self.options(&mut input)?;
        options.bytes_in.clone_from(&given.bytes_in);
        if let Some(difference) = difference(&options.device, &given.device) {
            return Err(ImageError::Another { path: self.shown(), difference });
        }
        let mut has_state = [0];
        input.read_exact(&mut has_state).map_err(|error| self.file(error))?;
        let mut core = match has_state[0] {
            0 => Core::new(&options).map_err(ImageError::Device)?,
            1 => state::read(&mut input, &options).map_err(|reason| self.damaged(reason))?,
            other => return Err(self.damaged(format!("its state is of kind {other}"))),
        };
        let end = self.carry_out(&mut input, &mut core)?;
        // A record that a killed server began is no longer there when the next one is written.
        file.set_len(end)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(|error| self.file(error))?;
        let records = RecordWriter::new(file);
        Ok((core, Image { path: self.0.to_owned(), options, records, _lock: lock }))
    }

    /// Carries out the calls behind the state; returns where the last whole one ends.
    fn carry_out<F: Read + Seek>(
        &self,
        input: &mut BufReader<F>,
        core: &mut Core,
    ) -> Result<u64, ImageError> {
        loop {
            cancellation::check();
            let end = input.stream_position().map_err(|error| self.file(error))?;
            match carry_out_next(input, core) {
                Ok(Next::Done) => {}
                Ok(Next::NoEnd) | Err(Stop::CutShort) => return Ok(end),
                Ok(Next::End(_)) => return Err(self.damaged("it ends as a log does")),
                Err(Stop::File(error)) => return Err(self.file(error)),
                Err(Stop::Wrong(reason)) => {
                    return Err(self.damaged(format!("at byte {end}: {reason}")));
                }
            }
        }
    }
}
