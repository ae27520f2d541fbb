//! Records of an image one by one, each with checksums, so that damage is told from a record that was never finished.
//!
//! A frame is u32 length, u32 CRC-32 of these four bytes, u32 CRC-32 of the record, and the record; little-endian.

use crate::record::RECORD_BYTES_MAX;
use std::io::{self, Read};

const HEAD_BYTES: usize = 12;

/// What stands before a record.
pub(crate) fn head(record: &[u8]) -> [u8; HEAD_BYTES] {
    let length = (record.len() as u32).to_le_bytes();
    let mut head = [0; HEAD_BYTES];
    head[0..4].copy_from_slice(&length);
    head[4..8].copy_from_slice(&crc32fast::hash(&length).to_le_bytes());
    head[8..12].copy_from_slice(&crc32fast::hash(record).to_le_bytes());
    head
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A whole record.
    Whole,
    /// The file ends here, or with a record that was never finished: a server was killed, or a host failed.
    End,
    /// Something else, with more behind it.
    Damaged(&'static str),
}

/// Reads the next record into `record`.
///
/// # Errors
/// Those of reading.
pub(crate) fn read(input: &mut impl Read, record: &mut Vec<u8>) -> io::Result<Frame> {
    record.clear();
    let mut head = Vec::with_capacity(HEAD_BYTES);
    input.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    if head.len() < HEAD_BYTES {
        return Ok(Frame::End);
    }
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let length = word(0);
    if crc32fast::hash(&head[0..4]) != word(4) || length > RECORD_BYTES_MAX {
        // A host that failed may have made the file longer without its bytes: they read as zeros.
        return if head.iter().all(|byte| *byte == 0) && is_zero(input)? {
            Ok(Frame::End)
        } else {
            Ok(Frame::Damaged("the length of a record is wrong"))
        };
    }
    input.by_ref().take(u64::from(length)).read_to_end(record)?;
    if record.len() < length as usize {
        return Ok(Frame::End);
    }
    if crc32fast::hash(record) == word(8) {
        return Ok(Frame::Whole);
    }
    // The last one may be what a failed host left of a write that nothing has promised to be durable.
    Ok(if is_zero(input)? {
        Frame::End
    } else {
        Frame::Damaged("a record is not what was written")
    })
}

/// True if nothing but zeros is left.
fn is_zero(input: &mut impl Read) -> io::Result<bool> {
    let mut bytes = [0; 4_096];
    loop {
        match input.read(&mut bytes)? {
            0 => return Ok(true),
            count if bytes[..count].iter().all(|byte| *byte == 0) => {}
            _ => return Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Frame, HEAD_BYTES, head, read};

    fn framed(records: &[&[u8]]) -> Vec<u8> {
        records.iter().flat_map(|record| [&head(record)[..], record].concat()).collect()
    }

    fn all(mut bytes: &[u8]) -> (Vec<Vec<u8>>, Frame) {
        let (mut found, mut record) = (Vec::new(), Vec::new());
        loop {
            match read(&mut bytes, &mut record).expect("memory") {
                Frame::Whole => found.push(record.clone()),
                last => return (found, last),
            }
        }
    }

    /// Wherever the file ends, the records before are there; wherever a bit is wrong, none before it is lost, and
    /// damage that has a record behind it is told.
    #[test]
    fn an_end_is_told_from_damage() {
        let records: [&[u8]; 3] = [b"one", &[7; 40], b"three"];
        let whole = framed(&records);
        let ends = [HEAD_BYTES + 3, 2 * HEAD_BYTES + 43, whole.len()];
        for length in 0..=whole.len() {
            let count = ends.iter().filter(|end| **end <= length).count();
            let (found, last) = all(&whole[..length]);
            assert_eq!((found.len(), last), (count, Frame::End), "{length} bytes");
            let (found, last) = all(&[&whole[..length], &[0; 9_000]].concat());
            assert_eq!(found.len(), count, "{length} bytes and zeros");
            assert!(last == Frame::End || length < whole.len(), "{length} bytes and zeros");
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let before = ends.iter().filter(|end| **end <= bit / 8).count();
            let (found, last) = all(&damaged);
            assert_eq!(found.len(), before, "bit {bit}");
            let is_last_record = before == 2 && bit / 8 >= ends[1] + 8;
            assert_eq!(last == Frame::End, is_last_record, "bit {bit}: {last:?}");
        }
    }
}
