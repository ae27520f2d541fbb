//! Where bytes come from: a file or standard input, plain or compressed.
//!
//! Compression is recognised by content, never by name. The first bytes are kept for detection.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use crate::error::{Fault, Kind};
use cancellation::Checked;

/// Bytes (after decompression) that detection may look at.
const HEAD_BYTES: u64 = 64 * 1024;

// A few hundred lines: a line that reaches over the end of a buffer is copied.
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 * 1024;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The name that stands for standard input.
const STANDARD_INPUT: &str = "-";

/// Bytes of a trace, decompressed.
pub(crate) type Bytes = Box<dyn BufRead + Send>;

/// An opened trace whose beginning is known.
pub(crate) struct Input {
    head: Vec<u8>,
    rest: Bytes,
    /// Whether the bytes of the trace are the bytes of a seekable file.
    pub(crate) is_plain_file: bool,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        if path == Path::new(STANDARD_INPUT) {
            return Self::from_reader(io::stdin(), false);
        }
        let file = File::open(path).map_err(|error| Fault::io(&error))?;
        if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
            return Err(Fault::new(Kind::Io, "this is a directory").suggest("name a trace file"));
        }
        Self::from_reader(file, true)
    }

    fn from_reader(reader: impl Read + Send + 'static, is_file: bool) -> Result<Self, Fault> {
        Self::sniffed(reader, is_file).map_err(|error| Fault::io(&error))
    }

    fn sniffed(mut reader: impl Read + Send + 'static, is_file: bool) -> io::Result<Self> {
        let mut magic = Vec::new();
        // The longer of both magics.
        reader.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut magic)?;
        let (is_gzip, is_zstd) = (magic.starts_with(&GZIP_MAGIC), magic == ZSTD_MAGIC);
        // Time goes into reading, so this is where an interruption is looked for.
        let raw = BufReader::with_capacity(BUFFER_BYTES, Checked(Cursor::new(magic).chain(reader)));
        let mut rest: Bytes = if is_gzip {
            // Members one behind the other are one stream, as `gzip -d` reads them.
            Box::new(BufReader::with_capacity(
                BUFFER_BYTES,
                flate2::bufread::MultiGzDecoder::new(raw),
            ))
        } else if is_zstd {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd::Decoder::with_buffer(raw)?))
        } else {
            Box::new(raw)
        };
        let mut head = Vec::new();
        rest.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(Self { head, rest, is_plain_file: is_file && !is_gzip && !is_zstd })
    }

    /// The first bytes of the trace.
    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    /// All bytes of the trace, from the first.
    pub(crate) fn into_bytes(self) -> Bytes {
        Box::new(Cursor::new(self.head).chain(self.rest))
    }
}
