//! Compressors of data nodes.
//!
//! Source: `fs/ubifs/compress.c`. What zlib and zstd put out differs from the kernel's bit for bit, not in
//! format; LZO is the kernel's. A format: uses nothing of the crate.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// A compressor, by its number on the medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compressor {
    /// Data is stored as it is.
    #[default]
    None,
    /// LZO1X-1, with the kernel's compressor bit for bit.
    Lzo,
    /// Deflate without the header and checksum of zlib.
    Zlib,
    /// Zstandard frames, default of newer kernels.
    Zstd,
}

/// Less data than this is stored as it is (`UBIFS_MIN_COMPR_LEN`).
const MIN_BYTES: usize = 128;
/// Compression that saves less is undone (`UBIFS_MIN_COMPRESS_DIFF`).
const MIN_SAVED_BYTES: usize = 64;
/// Level of the kernel's zstd (`ZSTD_DEF_LEVEL`).
const ZSTD_LEVEL: i32 = 3;

impl Compressor {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] =
        [("none", Self::None), ("lzo", Self::Lzo), ("zlib", Self::Zlib), ("zstd", Self::Zstd)];

    /// The compressor of a number on the medium.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).map(|(_, compressor)| *compressor)
    }

    /// The compressor of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, compressor)| *compressor)
    }

    /// Number on the medium.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// What to store of data, and how it was made: as it is where compression saves too little.
    pub(crate) fn compress(self, data: &[u8]) -> (Self, Vec<u8>) {
        let as_it_is = || (Self::None, data.to_vec());
        if data.len() < MIN_BYTES {
            return as_it_is();
        }
        let stored = match self {
            Self::None => None,
            Self::Lzo => Some(compress::lzo::compress(data)),
            Self::Zlib => deflate(data),
            Self::Zstd => zstd::bulk::compress(data, ZSTD_LEVEL).ok(),
        };
        match stored {
            Some(stored) if stored.len() + MIN_SAVED_BYTES <= data.len() => (self, stored),
            _ => as_it_is(),
        }
    }

    /// Restores data of exactly `bytes` bytes; none if it is damaged or of another length.
    pub(crate) fn decompress(self, stored: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let data = match self {
            Self::None => Some(stored.to_vec()),
            Self::Lzo => compress::lzo::decompress(stored, bytes),
            Self::Zlib => inflate(stored, bytes),
            Self::Zstd => zstd::bulk::decompress(stored, bytes).ok(),
        };
        data.filter(|data| data.len() == bytes)
    }
}

fn deflate(data: &[u8]) -> Option<Vec<u8>> {
    // The kernel allows growth (`WORST_COMPR_FACTOR`) and drops the result later. A result that
    // does not fit here is dropped at once, with the same outcome.
    let mut out = vec![0; data.len()];
    // Level 6 without a zlib header: `DEFLATE_DEF_LEVEL` of `crypto/deflate.c`.
    let mut stream = Compress::new(Compression::new(6), false);
    let status = stream.compress(data, &mut out, FlushCompress::Finish).ok()?;
    out.truncate(stream.total_out() as usize);
    (status == Status::StreamEnd).then_some(out)
}

fn inflate(stored: &[u8], bytes: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; bytes];
    let mut stream = Decompress::new(false);
    stream.decompress(stored, &mut out, FlushDecompress::Finish).ok()?;
    (stream.total_out() as usize == bytes).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::Compressor;

    #[test]
    fn data_comes_back_and_noise_stays() {
        let text: Vec<u8> = b"flash block page erase ".iter().copied().cycle().take(4096).collect();
        for (name, compressor) in Compressor::ALL {
            let (used, stored) = compressor.compress(&text);
            assert_eq!(used, compressor, "{name}");
            assert_eq!(used.decompress(&stored, text.len()), Some(text.clone()), "{name}");
            assert_eq!(compressor.compress(&text[..127]).0, Compressor::None, "{name}");
            if used != Compressor::None {
                assert!(stored.len() < 1000, "{name}");
                assert_eq!(used.decompress(&stored[..stored.len() / 2], 4096), None, "{name}");
            }
        }
    }
}
