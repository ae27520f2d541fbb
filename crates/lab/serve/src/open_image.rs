//! Opens an image, or makes a new one: the device is as it was when the server before ended.

use crate::carry_out::{Next, Stop, carry_out_next};
use crate::core::Core;
use crate::frame::{self, Frame};
use crate::header::{read_options, write_options};
use crate::image::another::difference;
use crate::image::state::{DIGEST_BYTES, Hashed, PART_BYTES_MAX};
use crate::image::{Image, ImageError, MAGIC, part_of, put_in_place};
use crate::record::{RecordWriter, read_u32, read_u64};
use crate::work::{CoreOptions, Failure};
use device::SavedPart;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
    // A link stays one: the file that it leads to is replaced.
    let real = std::fs::canonicalize(path);
    let path = real.as_deref().unwrap_or(path);
    let named = Named(path);
    let opened = OpenOptions::new().read(true).write(true).open(path);
    let (mut core, image) = match opened {
        Ok(file) => named.reopen(file, options)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => named.create(options)?,
        Err(error) => return Err(named.file(error)),
    };
    core.keep_in(image);
    match core.begin_session(options.cut_after) {
        Ok(()) => Ok(core),
        Err(Failure::File { reason, .. }) => Err(named.file(reason)),
        Err(failure) => Err(ImageError::Device(format!("{}: {failure}", named.shown()))),
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

    /// Locks the file of a name for as long as what is returned is held.
    fn lock(&self, file: &File, name: &Path) -> Result<File, ImageError> {
        let open = || ImageError::Open { path: self.shown() };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(open()),
            Err(TryLockError::Error(error)) => return Err(self.file(error)),
        }
        let place = |data: Metadata| (data.dev(), data.ino());
        let held = file.metadata().map(place).map_err(|error| self.file(error))?;
        let named = std::fs::metadata(name).map(place).map_err(|error| self.file(error))?;
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
        // Under a temporary name until it is whole: a server that is killed here leaves nothing in the way.
        let part = part_of(self.0);
        let made = File::options().read(true).write(true).create(true).truncate(false).open(&part);
        let mut file = made.map_err(|error| self.file(error))?;
        let lock = self.lock(&file, &part)?;
        let begun = file
            .set_len(0)
            .and_then(|()| write_options(&mut file, MAGIC, &options))
            .and_then(|()| file.write_all(&[0]))
            .and_then(|()| put_in_place(&file, &part, self.0));
        begun.map_err(|error| {
            let _ = std::fs::remove_file(&part);
            self.file(error)
        })?;
        let records = RecordWriter::with_frames(file);
        Ok((core, Image { path: self.0.to_owned(), options, records, _lock: lock }))
    }

    /// The device of an image as it was when the server before ended, however it ended.
    fn reopen(&self, mut file: File, given: &CoreOptions) -> Result<(Core, Image), ImageError> {
        let lock = self.lock(&file, self.0)?;
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
            1 => read_state(&mut input, &options).map_err(|reason| self.damaged(reason))?,
            other => return Err(self.damaged(format!("its state is of kind {other}"))),
        };
        let end = self.carry_out(&mut input, &mut core)?;
        // A record that a killed server began is no longer there when the next one is written.
        file.set_len(end)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(|error| self.file(error))?;
        let records = RecordWriter::with_frames(file);
        Ok((core, Image { path: self.0.to_owned(), options, records, _lock: lock }))
    }

    /// Carries out the calls behind the state; returns where the last whole one ends.
    fn carry_out<F: Read + Seek>(
        &self,
        input: &mut BufReader<F>,
        core: &mut Core,
    ) -> Result<u64, ImageError> {
        let mut record = Vec::new();
        loop {
            cancellation::check();
            let end = input.stream_position().map_err(|error| self.file(error))?;
            let damaged = |reason: &str| self.damaged(format!("at byte {end}: {reason}"));
            match frame::read(input, &mut record).map_err(|error| self.file(error))? {
                Frame::Whole => {}
                Frame::End => return Ok(end),
                Frame::Damaged(reason) => return Err(damaged(reason)),
            }
            match carry_out_next(&mut record.as_slice(), core) {
                Ok(Next::Done) => {}
                Ok(Next::NoEnd) | Err(Stop::CutShort) => {
                    return Err(damaged("a record is too short"));
                }
                Ok(Next::End(_)) => return Err(damaged("it ends as a log does")),
                Err(Stop::File(error)) => return Err(self.file(error)),
                Err(Stop::Wrong(reason)) => return Err(damaged(&reason)),
            }
        }
    }
}

/// Makes a device that holds what was written; it has no power.
///
/// # Errors
/// A sentence: what is damaged.
fn read_state(input: &mut impl Read, options: &CoreOptions) -> Result<Core, String> {
    let mut input = Hashed { inner: input, hash: blake3::Hasher::new() };
    let at_ns = read_u64(&mut input).map_err(|error| told(&error))?;
    let mut core = Core::without_power(options, at_ns)?;
    let mut bytes = Vec::new();
    for number in 1_u64.. {
        cancellation::check();
        let length = read_u32(&mut input).map_err(|error| told(&error))?;
        if length == 0 {
            break;
        }
        if length > PART_BYTES_MAX {
            return Err(format!("part {number} has {length} bytes"));
        }
        // As it comes: a length that is damaged must not ask for memory.
        bytes.clear();
        let taken = input
            .by_ref()
            .take(u64::from(length))
            .read_to_end(&mut bytes)
            .map_err(|error| told(&error))?;
        if taken < length as usize {
            return Err(told(&io::ErrorKind::UnexpectedEof.into()));
        }
        let part: SavedPart<'_> =
            postcard::from_bytes(&bytes).map_err(|error| format!("part {number}: {error}"))?;
        core.load(part).map_err(|error| format!("part {number}: {error}"))?;
    }
    let digest = input.hash.finalize();
    let mut recorded = [0; DIGEST_BYTES];
    input.inner.read_exact(&mut recorded).map_err(|error| told(&error))?;
    if digest == recorded { Ok(core) } else { Err("its digest is another one".into()) }
}

fn told(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file ends in the middle of it".into(),
        _ => error.to_string(),
    }
}
