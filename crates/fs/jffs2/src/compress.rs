//! Compressors: a table, and the loop that tries them.
//!
//! Source: `fs/jffs2/compr.c` (mode "priority": the first that fits the data into the room), `compr_zlib.c`,
//! `compr_rtime.c`, `compr_lzo.c`. Rubin is not offered: it was off by default in every kernel. What
//! zlib puts out differs from the kernel's bit for bit, not in format; LZO is the kernel's.
//!
//! May use no other file of the crate.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::cell::RefCell;

/// Stored as it is.
pub const NONE: u8 = 0;
/// A hole: nothing is stored.
pub const ZERO: u8 = 1;

/// Room that the end of a zlib stream may need (`STREAM_END_SPACE`).
const STREAM_END_BYTES: usize = 12;

/// Bytes that were taken, and what they became.
type Packed = Option<(usize, Vec<u8>)>;

/// A compressor that data nodes name by number.
pub struct Compressor {
    /// Number on the medium.
    pub id: u8,
    /// Name, as the kernel calls it.
    pub name: &'static str,
    /// The higher, the sooner it is tried.
    pub priority: u8,
    compress: fn(&[u8], usize) -> Packed,
    decompress: fn(&[u8], usize) -> Option<Vec<u8>>,
}

/// All compressors, by priority.
pub const COMPRESSORS: &[Compressor] = &[
    Compressor { id: 7, name: "lzo", priority: 80, compress: lzo, decompress: unlzo },
    Compressor { id: 6, name: "zlib", priority: 60, compress: zlib, decompress: unzlib },
    Compressor { id: 2, name: "rtime", priority: 50, compress: rtime, decompress: unrtime },
];

/// The compressor of a number on the medium.
pub fn find_compressor(id: u8) -> Option<&'static Compressor> {
    COMPRESSORS.iter().find(|compressor| compressor.id == id)
}

impl Compressor {
    /// Compresses a beginning of `data` into at most `room_bytes`: bytes taken and what they became;
    /// none if it does not pay.
    pub fn compress(&self, data: &[u8], room_bytes: usize) -> Option<(usize, Vec<u8>)> {
        (self.compress)(data, room_bytes)
    }

    /// Restores data of a known length; none if the bytes are damaged.
    pub fn decompress(&self, stored: &[u8], data_bytes: usize) -> Option<Vec<u8>> {
        (self.decompress)(stored, data_bytes)
    }
}

fn zlib(data: &[u8], room_bytes: usize) -> Option<(usize, Vec<u8>)> {
    let room = room_bytes.checked_sub(STREAM_END_BYTES).filter(|room| *room > 0)?;
    // Level 3 with a zlib header (`COMPR_LEVEL` of `compr_zlib.c`).
    let mut stream = Compress::new(Compression::new(3), true);
    let mut out = vec![0; room_bytes];
    loop {
        let (taken, put) = (stream.total_in() as usize, stream.total_out() as usize);
        if put >= room || taken >= data.len() {
            break;
        }
        // As the kernel does it: never more in than the room would hold uncompressed.
        let piece = (data.len() - taken).min(room - put);
        let input = &data[taken..taken + piece];
        stream.compress(input, &mut out[put..room], FlushCompress::Partial).ok()?;
        if (stream.total_in() as usize, stream.total_out() as usize) == (taken, put) {
            break;
        }
    }
    let put = stream.total_out() as usize;
    let status = stream.compress(&[], &mut out[put..], FlushCompress::Finish).ok()?;
    let (taken, put) = (stream.total_in() as usize, stream.total_out() as usize);
    // A stream that did not end cannot be restored, and one as long as its data saves nothing.
    if status != Status::StreamEnd || put >= taken {
        return None;
    }
    out.truncate(put);
    Some((taken, out))
}

thread_local! {
    /// A stream that is begun anew for each node: one of its own would take memory of 43 KiB each time.
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}

fn unzlib(stored: &[u8], data_bytes: usize) -> Option<Vec<u8>> {
    // The kernel skips a sane header and does not look at the checksum behind the stream.
    let is_plain = stored.len() > 2
        && stored[0] & 0x0f == 8
        && stored[0] >> 4 <= 7
        && stored[1] & 0x20 == 0
        && (u16::from(stored[0]) << 8 | u16::from(stored[1])) % 31 == 0;
    let input = if is_plain { &stored[2..] } else { stored };
    let mut out = vec![0; data_bytes];
    let restored_bytes = INFLATE.with_borrow_mut(|stream| {
        stream.reset(!is_plain);
        stream.decompress(input, &mut out, FlushDecompress::Finish).ok()?;
        Some(stream.total_out() as usize)
    })?;
    (restored_bytes == data_bytes).then_some(out)
}

fn rtime(data: &[u8], room_bytes: usize) -> Option<(usize, Vec<u8>)> {
    let mut positions = [0_u16; 256];
    let mut out = Vec::with_capacity(room_bytes);
    let mut at = 0;
    while at < data.len() && out.len() + 2 <= room_bytes {
        let value = data[at];
        out.push(value);
        at += 1;
        // The last place behind this byte value; zero at first, which is a valid place and matches
        // the kernel's table.
        let mut back = usize::from(positions[usize::from(value)]);
        positions[usize::from(value)] = at as u16;
        let mut run = 0;
        while back < at && at < data.len() && data[at] == data[back] && run < 255 {
            (at, back, run) = (at + 1, back + 1, run + 1);
        }
        out.push(run);
    }
    (out.len() < at).then_some((at, out))
}

fn unrtime(stored: &[u8], data_bytes: usize) -> Option<Vec<u8>> {
    let mut positions = [0_u16; 256];
    let mut out: Vec<u8> = Vec::with_capacity(data_bytes);
    let mut pairs = stored.chunks_exact(2);
    while out.len() < data_bytes {
        let pair = pairs.next()?;
        out.push(pair[0]);
        let back = usize::from(positions[usize::from(pair[0])]);
        positions[usize::from(pair[0])] = out.len() as u16;
        let run = usize::from(pair[1]);
        // Kernels before 6.13 do not test this; there a damaged stream writes behind its buffer.
        if run > data_bytes - out.len() {
            return None;
        }
        for step in 0..run {
            let byte = *out.get(back + step)?;
            out.push(byte);
        }
    }
    Some(out)
}

fn lzo(data: &[u8], room_bytes: usize) -> Option<(usize, Vec<u8>)> {
    let out = compress::lzo::compress(data);
    // As in the kernel, data that does not grow counts as compressed.
    (out.len() <= room_bytes).then_some((data.len(), out))
}

fn unlzo(stored: &[u8], data_bytes: usize) -> Option<Vec<u8>> {
    compress::lzo::decompress(stored, data_bytes)
}

#[cfg(test)]
mod tests {
    use super::{COMPRESSORS, find_compressor};

    #[test]
    fn data_comes_back_whole_and_in_parts() {
        let text: Vec<u8> =
            b"flash block page erase read write ".iter().copied().cycle().take(4096).collect();
        for compressor in COMPRESSORS {
            let (taken, stored) = compressor.compress(&text, 4096).expect("it shrinks");
            assert_eq!(taken, 4096, "{}", compressor.name);
            assert!(stored.len() < 4096);
            assert_eq!(compressor.decompress(&stored, taken).expect("sound"), text);
            assert_eq!(compressor.decompress(&stored[..stored.len() / 2], taken), None);
            if let Some((taken, stored)) = compressor.compress(&text, 60) {
                assert!(stored.len() <= 60);
                assert_eq!(compressor.decompress(&stored, taken).expect("sound"), text[..taken]);
            }
        }
        assert!(COMPRESSORS.is_sorted_by_key(|compressor| u8::MAX - compressor.priority));
    }

    /// The stream is used again, also after one that was damaged.
    #[test]
    fn what_was_restored_before_leaves_no_trace() {
        let zlib = find_compressor(6).expect("in the table");
        let texts: Vec<Vec<u8>> = (1..=40_u32)
            .map(|number| (0..4096).map(|at: u32| (at * number / 97) as u8).collect())
            .collect();
        for pair in texts.windows(2) {
            let stored = pair.iter().map(|text| zlib.compress(text, 4096).expect("it shrinks").1);
            let [first, second] = &stored.collect::<Vec<_>>()[..] else { panic!("two") };
            assert_eq!(zlib.decompress(&first[..first.len() / 2], 4096), None);
            assert_eq!(zlib.decompress(second, 4096).as_ref(), Some(&pair[1]));
            assert_eq!(zlib.decompress(first, 4096).as_ref(), Some(&pair[0]));
            // One with a wrong header goes the other way, and leaves none either.
            assert_eq!(zlib.decompress(&[0x78, 0x00, 0x03], 4096), None);
        }
    }

    #[test]
    fn noise_is_left_alone() {
        let mut state = 1_u64;
        let noise: Vec<u8> = (0..4096)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        for compressor in COMPRESSORS {
            assert!(compressor.compress(&noise, 4096).is_none(), "{}", compressor.name);
        }
        assert!(find_compressor(3).is_none());
    }
}
