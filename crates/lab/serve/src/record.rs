//! Calls of the core as bytes: what a log and an image consist of.
//!
//! Integers are little-endian. A record begins with a byte for its kind and the simulated time in nanoseconds, u64:
//!
//! | kind | goes on with |
//! |---|---|
//! | 1 read, 4 zero, 5 zero with FUA, 6 discard | u64 sector, u32 sectors |
//! | 2 write, 3 write with FUA | u64 sector, u32 sectors, the bytes |
//! | 7 flush, 8 pass, 9 cut, 10 restore | nothing more |
//! | 11 end of a log | 64 letters: the digest of the chips |
//! | 12 session | u32 length, then [`CutAfter`] or null as JSON |

use crate::core::{Core, CutAfter, Failure, SECTOR_BYTES, Work};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};

/// Longest write of one record: the largest payload of a request.
const WRITE_SECTORS_MAX: u32 = nbd::MAXIMUM_PAYLOAD_BYTES / SECTOR_BYTES as u32;

/// Letters of a digest.
const DIGEST_LETTERS: usize = 64;

/// Longest description of a planned cut. Real ones have some ten bytes.
const CUT_AFTER_BYTES_MAX: u32 = 1 << 10;

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
const SESSION: u8 = 12;

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
    /// A server began, with a cut that was planned.
    Session { at_ns: u64, cut_after: Option<CutAfter> },
}

impl Record<'_> {
    /// True if something is durable once its reply has left.
    fn is_promise(&self) -> bool {
        let Self::Work { work, .. } = self else { return false };
        matches!(work, Work::Flush | Work::Write { fua: true, .. } | Work::Zero { fua: true, .. })
    }
}

/// Writes records to a file.
pub(crate) struct RecordWriter {
    file: BufWriter<File>,
    /// Of one record: it goes out whole or not at all, as far as the buffer behind it is concerned.
    record: Vec<u8>,
    /// A file that failed once takes nothing more: records after a gap would say something else.
    has_failed: bool,
    /// A record promises that something is durable, and is not on the host's medium yet.
    has_promise: bool,
}

impl RecordWriter {
    /// Writes behind what the file holds.
    pub(crate) fn new(file: File) -> Self {
        Self {
            file: BufWriter::new(file),
            record: Vec::new(),
            has_failed: false,
            has_promise: false,
        }
    }

    pub(crate) fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.record.clear();
        self.has_promise |= record.is_promise();
        match record {
            Record::Pass { at_ns } => self.front(PASS, *at_ns),
            Record::Cut { at_ns } => self.front(CUT, *at_ns),
            Record::Restore { at_ns } => self.front(RESTORE, *at_ns),
            Record::Session { at_ns, cut_after } => {
                self.front(SESSION, *at_ns);
                let told = serde_json::to_vec(cut_after)?;
                self.record.extend_from_slice(&(told.len() as u32).to_le_bytes());
                self.record.extend_from_slice(&told);
            }
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

    /// What was written reaches the host's medium, if some of it promised to be durable.
    pub(crate) fn keep_promises(&mut self) -> io::Result<()> {
        self.flush()?;
        if std::mem::take(&mut self.has_promise) {
            let kept = self.file.get_ref().sync_data();
            self.has_failed |= kept.is_err();
            return kept;
        }
        Ok(())
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

pub(crate) fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

pub(crate) fn read_u64(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// What comes next in a file of records.
pub(crate) enum Next {
    /// A record was carried out.
    Done,
    /// The log ends here, with this digest.
    End(String),
    /// The file ends here, between two records.
    NoEnd,
}

/// Why no further record is carried out.
pub(crate) enum Stop {
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

/// Carries the next record out.
pub(crate) fn carry_out_next(input: &mut impl Read, core: &mut Core) -> Result<Next, Stop> {
    let mut kind = [0];
    if input.read(&mut kind)? == 0 {
        return Ok(Next::NoEnd);
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
        SESSION => {
            let length = read_u32(input)?;
            if length > CUT_AFTER_BYTES_MAX {
                return Err(Stop::Wrong(format!("a planned cut of {length} bytes is too long")));
            }
            let mut told = vec![0; length as usize];
            input.read_exact(&mut told)?;
            let cut_after = serde_json::from_slice(&told);
            core.begin_session(cut_after.map_err(|error| Stop::Wrong(error.to_string()))?)
        }
        END => {
            let mut digest = [0; DIGEST_LETTERS];
            input.read_exact(&mut digest)?;
            return Ok(Next::End(String::from_utf8_lossy(&digest).into_owned()));
        }
        other => return Err(Stop::Wrong(format!("kind {other} is unknown"))),
    };
    match told {
        // What failed as it was recorded fails here, too.
        Ok(()) | Err(Failure::PowerLost | Failure::Device(_)) => Ok(Next::Done),
        Err(Failure::File { reason, .. }) => Err(Stop::File(reason)),
    }
}
