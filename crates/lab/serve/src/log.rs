//! The log of a run: every call of the core, in order, with its simulated time and the bytes written.
//!
//! A file of these parts, integers little-endian:
//!
//! | part | holds |
//! |---|---|
//! | magic | `nandlab serve 1` and a newline |
//! | options | u32 length, then [`CoreOptions`] as JSON |
//! | records | u8 kind, u64 simulated time in ns; then by kind |
//! | read, discard, zero, zero with FUA | u64 sector, u32 sectors |
//! | write, write with FUA | u64 sector, u32 sectors, the bytes |
//! | flush, pass, cut, restore | nothing more |
//! | end | 64 letters: the digest of the chips |
//!
//! The magic names the version: another layout gets another number.

use crate::core::{Core, CoreOptions, Failure, SECTOR_BYTES, Work};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use thiserror::Error;

const MAGIC: &[u8] = b"nandlab serve 1\n";

/// Longest description of a device that is read. Real ones have some kilobytes.
const OPTIONS_BYTES_MAX: u32 = 1 << 20;

/// Longest write of one record: the largest payload of a request.
const WRITE_SECTORS_MAX: u32 = nbd::MAXIMUM_PAYLOAD_BYTES / SECTOR_BYTES as u32;

/// Letters of a digest.
const DIGEST_LETTERS: usize = 64;

const READ: u8 = 1;
const WRITE: u8 = 2;
const WRITE_FUA: u8 = 3;
const ZERO: u8 = 4;
const ZERO_FUA: u8 = 5;
const DISCARD: u8 = 6;
const FLUSH: u8 = 7;
const PASS: u8 = 8;
const CUT: u8 = 9;
const RESTORE: u8 = 10;
const END: u8 = 11;

/// A call of the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'bytes> {
    /// A request.
    Work { at_ns: u64, work: Work<'bytes> },
    /// Time passed.
    Pass { at_ns: u64 },
    /// The supply failed.
    Cut { at_ns: u64 },
    /// The supply came back.
    Restore { at_ns: u64 },
}

/// Writes a log.
pub struct LogWriter {
    file: BufWriter<File>,
    /// Of one record: it goes out whole or not at all, as far as the buffer behind it is concerned.
    record: Vec<u8>,
    /// A log that failed once takes nothing more: records after a gap would say something else.
    has_failed: bool,
}

impl LogWriter {
    /// Begins a log.
    ///
    /// # Errors
    /// Those of writing.
    pub fn begin(file: File, options: &CoreOptions) -> io::Result<Self> {
        let mut file = BufWriter::new(file);
        let told = serde_json::to_vec(options)?;
        file.write_all(MAGIC)?;
        file.write_all(&(told.len() as u32).to_le_bytes())?;
        file.write_all(&told)?;
        // A server that is killed at once leaves a log of no records.
        file.flush()?;
        Ok(Self { file, record: Vec::new(), has_failed: false })
    }

    pub(crate) fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.record.clear();
        match record {
            Record::Pass { at_ns } => self.front(PASS, *at_ns),
            Record::Cut { at_ns } => self.front(CUT, *at_ns),
            Record::Restore { at_ns } => self.front(RESTORE, *at_ns),
            Record::Work { at_ns, work } => match *work {
                Work::Flush => self.front(FLUSH, *at_ns),
                Work::Read { sector, sectors } => self.place(READ, *at_ns, sector, sectors),
                Work::Discard { sector, sectors } => self.place(DISCARD, *at_ns, sector, sectors),
                Work::Zero { sector, sectors, fua } => {
                    self.place(if fua { ZERO_FUA } else { ZERO }, *at_ns, sector, sectors);
                }
                Work::Write { sector, bytes, fua } => {
                    let sectors = (bytes.len() as u64 / SECTOR_BYTES) as u32;
                    self.place(if fua { WRITE_FUA } else { WRITE }, *at_ns, sector, sectors);
                    self.record.extend_from_slice(bytes);
                }
            },
        }
        self.put()
    }

    fn front(&mut self, kind: u8, at_ns: u64) {
        self.record.push(kind);
        self.record.extend_from_slice(&at_ns.to_le_bytes());
    }

    fn place(&mut self, kind: u8, at_ns: u64, sector: u64, sectors: u32) {
        self.front(kind, at_ns);
        self.record.extend_from_slice(&sector.to_le_bytes());
        self.record.extend_from_slice(&sectors.to_le_bytes());
    }

    /// Hands the record at hand to the file.
    fn put(&mut self) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("it failed before"));
        }
        let put = self.file.write_all(&self.record);
        self.has_failed |= put.is_err();
        put
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.has_failed |= flushed.is_err();
        flushed
    }

    pub(crate) fn end(mut self, at_ns: u64, digest: &str) -> io::Result<()> {
        debug_assert_eq!(digest.len(), DIGEST_LETTERS, "32 bytes in hexadecimal");
        self.record.clear();
        self.front(END, at_ns);
        self.record.extend_from_slice(digest.as_bytes());
        self.put()?;
        self.flush()
    }
}

/// Why a log cannot be carried out again.
#[derive(Debug, Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        reason: io::Error,
    },
    /// It is no log.
    #[error("{path}: this is no log of `nandlab serve`, or one of another version: {reason}")]
    NoLog {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A record that no server writes.
    #[error("{path}: record {number}: {reason}")]
    Record {
        /// The file.
        path: String,
        /// Number of the record; the first is number 1.
        number: u64,
        /// What is wrong.
        reason: String,
    },
    /// The device of the log cannot be made.
    #[error("{path}: {reason}")]
    Device {
        /// The file.
        path: String,
        /// What does not fit.
        reason: String,
    },
}

/// What came of carrying a log out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogReport {
    /// Records that were carried out.
    pub records: u64,
    /// Power cuts among them.
    pub cuts: u64,
    /// Simulated time of the last one, nanoseconds.
    pub end_ns: u64,
    /// The digest of the chips now.
    pub digest: String,
    /// The digest that the log ends with; none if the server was killed.
    pub recorded_digest: Option<String>,
    /// The log has no end, as after a server was killed. A record that is incomplete was left out.
    pub is_cut_short: bool,
}

/// Carries a log out again, on a device made as the log says.
///
/// # Errors
/// [`LogError`].
pub fn replay_log(path: &Path) -> Result<(Core, LogReport), LogError> {
    let shown = path.display().to_string();
    let file_error = |reason| LogError::File { path: shown.clone(), reason };
    let mut input = BufReader::new(File::open(path).map_err(file_error)?);
    let options = read_options(&mut input)
        .map_err(|reason| LogError::NoLog { path: shown.clone(), reason })?;
    let mut core =
        Core::new(&options).map_err(|reason| LogError::Device { path: shown.clone(), reason })?;
    let mut report = LogReport {
        records: 0,
        cuts: 0,
        end_ns: 0,
        digest: String::new(),
        recorded_digest: None,
        is_cut_short: false,
    };
    loop {
        // Ctrl-C: nothing is left half-done, since the device is in memory.
        cancellation::check();
        match carry_out_next(&mut input, &mut core, &mut report) {
            Ok(true) => report.records += 1,
            Ok(false) => break,
            Err(Stop::CutShort) => {
                report.is_cut_short = true;
                break;
            }
            Err(Stop::File(reason)) => return Err(file_error(reason)),
            Err(Stop::Wrong(reason)) => {
                let number = report.records + 1;
                return Err(LogError::Record { path: shown, number, reason });
            }
        }
    }
    (report.cuts, report.end_ns, report.digest) = (core.cuts(), core.now_ns(), core.digest());
    Ok((core, report))
}

fn read_options(input: &mut impl Read) -> Result<CoreOptions, String> {
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic).map_err(|error| error.to_string())?;
    if magic != MAGIC {
        return Err("it begins with something else".into());
    }
    let length = read_u32(input).map_err(|error| error.to_string())?;
    if length > OPTIONS_BYTES_MAX {
        return Err(format!("its options take {length} bytes"));
    }
    let mut told = vec![0; length as usize];
    input.read_exact(&mut told).map_err(|error| error.to_string())?;
    serde_json::from_slice(&told).map_err(|error| error.to_string())
}

fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn read_u64(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Why no further record is carried out.
enum Stop {
    /// The file ends within a record.
    CutShort,
    File(io::Error),
    Wrong(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::CutShort,
            _ => Self::File(error),
        }
    }
}

/// Carries the next record out; false at the end of the log.
fn carry_out_next(
    input: &mut impl Read,
    core: &mut Core,
    report: &mut LogReport,
) -> Result<bool, Stop> {
    let mut kind = [0];
    if input.read(&mut kind)? == 0 {
        // A log that a server ended has an end; another one is whole up to here.
        report.is_cut_short = true;
        return Ok(false);
    }
    let at_ns = read_u64(input)?;
    // The same calls in the same order: a request that failed is one of them, for it may have changed the device.
    let told = match kind[0] {
        PASS => core.pass_time(at_ns),
        CUT => core.cut(at_ns),
        RESTORE => core.restore(at_ns).map(drop),
        FLUSH => core.submit(at_ns, &Work::Flush).map(drop),
        READ | WRITE | WRITE_FUA | ZERO | ZERO_FUA | DISCARD => {
            let (sector, sectors) = (read_u64(input)?, read_u32(input)?);
            let is_write = matches!(kind[0], WRITE | WRITE_FUA);
            if is_write && sectors > WRITE_SECTORS_MAX {
                return Err(Stop::Wrong(format!("a write of {sectors} sectors is too long")));
            }
            let length = if is_write { sectors as usize * SECTOR_BYTES as usize } else { 0 };
            let mut bytes = vec![0; length];
            input.read_exact(&mut bytes)?;
            let work = match kind[0] {
                READ => Work::Read { sector, sectors },
                DISCARD => Work::Discard { sector, sectors },
                ZERO | ZERO_FUA => Work::Zero { sector, sectors, fua: kind[0] == ZERO_FUA },
                _ => Work::Write { sector, bytes: &bytes, fua: kind[0] == WRITE_FUA },
            };
            core.submit(at_ns, &work).map(drop)
        }
        END => {
            let mut digest = [0; DIGEST_LETTERS];
            input.read_exact(&mut digest)?;
            report.recorded_digest = Some(String::from_utf8_lossy(&digest).into_owned());
            return Ok(false);
        }
        other => return Err(Stop::Wrong(format!("kind {other} is unknown"))),
    };
    match told {
        // What failed as it was recorded fails here, too.
        Ok(()) | Err(Failure::PowerLost | Failure::Device(_)) => Ok(true),
        Err(Failure::Log(error)) => Err(Stop::File(error)),
    }
}
