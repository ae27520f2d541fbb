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

use crate::frame;
use crate::work::{CutAfter, SECTOR_BYTES, Work};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};

/// Longest write of one record: the largest payload of a request.
pub(crate) const WRITE_SECTORS_MAX: u32 = nbd::MAXIMUM_PAYLOAD_BYTES / SECTOR_BYTES as u32;

/// Longest record: a write with its kind, time, place and length.
pub(crate) const RECORD_BYTES_MAX: u32 = nbd::MAXIMUM_PAYLOAD_BYTES + 64;

/// Letters of a digest.
pub(crate) const DIGEST_LETTERS: usize = 64;

/// Longest description of a planned cut. Real ones have some ten bytes.
pub(crate) const CUT_AFTER_BYTES_MAX: u32 = 1 << 10;

pub(crate) const READ: u8 = 1;
pub(crate) const WRITE: u8 = 2;
pub(crate) const WRITE_FUA: u8 = 3;
pub(crate) const ZERO: u8 = 4;
pub(crate) const ZERO_FUA: u8 = 5;
pub(crate) const DISCARD: u8 = 6;
pub(crate) const FLUSH: u8 = 7;
pub(crate) const PASS: u8 = 8;
pub(crate) const CUT: u8 = 9;
pub(crate) const RESTORE: u8 = 10;
pub(crate) const END: u8 = 11;
pub(crate) const SESSION: u8 = 12;

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
    /// Each record has a frame: those of an image do.
    has_frames: bool,
}

impl RecordWriter {
    /// Writes behind what the file holds.
    pub(crate) fn new(file: File) -> Self {
        Self {
            file: BufWriter::new(file),
            record: Vec::new(),
            has_failed: false,
            has_promise: false,
            has_frames: false,
        }
    }

    /// As [`RecordWriter::new`], each record in a frame.
    pub(crate) fn with_frames(file: File) -> Self {
        Self { has_frames: true, ..Self::new(file) }
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
        let head = if self.has_frames { &frame::head(&self.record)[..] } else { &[] };
        let put = self.file.write_all(head).and_then(|()| self.file.write_all(&self.record));
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
