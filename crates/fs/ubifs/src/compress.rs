//! Compressors of data nodes.
//!
//! Source: `fs/ubifs/compress.c`. What zlib and zstd put out differs from the kernel's bit for bit, not in
//! format; LZO is the kernel's. A format: uses nothing of the crate.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::cell::RefCell;
use zstd::bulk;

thread_local! {
    // Begun anew for each node: to make one takes longer than to restore a node with it.
    static ZSTD: RefCell<bulk::Decompressor<'static>> =
        RefCell::new(bulk::Decompressor::default());
    // None if the library refuses to make one: data is stored as it is then.
    static ZSTD_COMPRESS: RefCell<Option<bulk::Compressor<'static>>> =
        RefCell::new(bulk::Compressor::new(ZSTD_LEVEL).ok());
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}

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
            Self::Zstd => {
                ZSTD_COMPRESS.with_borrow_mut(|context| context.as_mut()?.compress(data).ok())
            }
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
            Self::Zstd => ZSTD.with_borrow_mut(|context| context.decompress(stored, bytes)).ok(),
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
    let restored_bytes = INFLATE.with_borrow_mut(|stream| {
        stream.reset(false);
        stream.decompress(stored, &mut out, FlushDecompress::Finish).ok()?;
        Some(stream.total_out() as usize)
    })?;
    (restored_bytes == bytes).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::Compressor;

    /// A context that was used before puts out what a new one does: what is on the medium does not depend
    /// on what a thread compressed before.
    #[test]
    fn what_was_compressed_before_leaves_no_trace() {
        let text = |number: u32, bytes: u32| -> Vec<u8> {
            (0..bytes).map(|at| (at.wrapping_mul(at) / (number + 3) % (number + 2)) as u8).collect()
        };
        for number in 0..300 {
            let data = text(number, 128 + number * 631 % 3969);
            let alone = zstd::bulk::compress(&data, super::ZSTD_LEVEL).expect("compressed");
            let (used, stored) = Compressor::Zstd.compress(&data);
            let pays = alone.len() + super::MIN_SAVED_BYTES <= data.len();
            assert_eq!(used == Compressor::Zstd, pays, "{number}");
            assert!(!pays || stored == alone, "{number}");
        }
    }

    /// Contexts are used again, also after a node that was damaged.
    #[test]
    fn what_was_restored_before_leaves_no_trace() {
        let texts: Vec<Vec<u8>> = (1..=40_u32)
            .map(|number| (0..4096).map(|at: u32| (at * number / 97) as u8).collect())
            .collect();
        for compressor in [Compressor::Zlib, Compressor::Zstd] {
            for pair in texts.windows(2) {
                let stored = pair.iter().map(|text| compressor.compress(text));
                let [first, second] = &stored.collect::<Vec<_>>()[..] else { panic!("two") };
                assert_eq!((first.0, second.0), (compressor, compressor));
                assert_eq!(compressor.decompress(&first.1[..first.1.len() / 2], 4096), None);
                assert_eq!(compressor.decompress(&second.1, 4096).as_ref(), Some(&pair[1]));
                assert_eq!(compressor.decompress(&first.1, 4096).as_ref(), Some(&pair[0]));
            }
        }
    }

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
