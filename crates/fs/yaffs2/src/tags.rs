//! Tags: what the spare area says of a chunk ("packed tags 2"), and the code that protects it.
//!
//! Sixteen bytes, little endian: sequence number of the block, object, chunk, bytes. A header has no
//! use for the last two, and keeps there what a scan would else read from the page ("extra
//! info"). Twelve bytes of error-correcting code may follow.
//!
//! Source: `yaffs_packedtags2.c` and `yaffs_ecc.c` of YAFFS2 for what the fields mean; vectors in
//! the tests were written by mkyaffs2image and by the direct library.
//!
//! May use: `format`.

use crate::format::{
    FIRST_SEQUENCE, LAST_SEQUENCE, OBJECT_MAX, OBJECT_SUMMARY, ObjectKind, SEQUENCE_CHECKPOINT,
};

/// Tags of a chunk as a summary holds them: object, chunk, bytes.
pub(crate) type SummaryEntry = [u32; 3];

/// Bytes of the tags alone.
pub const TAGS_BYTES: usize = 16;
/// Bytes of the tags with their code.
pub const TAGS_ECC_BYTES: usize = 28;

const EXTRA: u32 = 1 << 31;
const EXTRA_SHRINK: u32 = 1 << 30;
const EXTRA_SHADOWS: u32 = 1 << 29;
const PARENT_MASK: u32 = (1 << 28) - 1;
const KIND_SHIFT: u32 = 28;

/// What a header's tags say of the object, so that a scan need not read the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraInfo {
    /// Directory that holds the object.
    pub parent: u32,
    /// Kind of object, as stored: a number of no kind if the tags are damaged.
    pub kind: u32,
    /// The header shrinks the file, or deletes it.
    pub is_shrink: bool,
    /// The header shadows another object.
    pub shadows: bool,
    /// Bytes of a file, object that a hard link names, else zero.
    pub size_or_equivalent: u32,
}

/// Tags of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// Sequence number of the block.
    pub sequence: u32,
    /// Number of the object that the chunk belongs to.
    pub object: u32,
    /// Chunk of the file from 1 on; zero for a header.
    pub chunk: u32,
    /// Bytes of data in the chunk.
    pub bytes: u32,
    /// Of a header, if there.
    pub extra: Option<ExtraInfo>,
}

impl Tags {
    /// Tags of a chunk of data; the sequence number is the allocator's to give.
    pub fn data(object: u32, chunk: u32, bytes: u32) -> Self {
        Self { sequence: 0, object, chunk, bytes, extra: None }
    }

    /// Tags of a header.
    pub fn header(object: u32, extra: Option<ExtraInfo>) -> Self {
        let bytes = if extra.is_some() { 0 } else { 0xffff };
        Self { sequence: 0, object, chunk: 0, bytes, extra }
    }

    /// Tags of a chunk that holds nothing.
    pub fn is_unused(&self) -> bool {
        self.sequence == u32::MAX
    }

    /// Whether the numbers make sense in a block of that sequence number, for chunks of `chunk_bytes`.
    pub fn is_sane(&self, sequence: u32, chunk_bytes: u32) -> bool {
        self.object <= OBJECT_MAX
            && self.object != OBJECT_SUMMARY
            && self.chunk <= 0x000f_ffff
            && (self.chunk == 0 || self.bytes <= chunk_bytes)
            && self.sequence == sequence
    }

    /// Whether the sequence number is one that blocks of data have.
    pub fn has_data_sequence(&self) -> bool {
        (FIRST_SEQUENCE..LAST_SEQUENCE).contains(&self.sequence)
    }

    /// Whether the chunk is part of a checkpoint.
    pub fn is_checkpoint(&self) -> bool {
        self.sequence == SEQUENCE_CHECKPOINT
    }

    /// The three numbers after the sequence number, as stored.
    pub fn packed(&self) -> [u32; 3] {
        match self.extra {
            Some(extra) if self.chunk == 0 => [
                self.object | extra.kind << KIND_SHIFT,
                EXTRA
                    | extra.parent & PARENT_MASK
                    | if extra.is_shrink { EXTRA_SHRINK } else { 0 }
                    | if extra.shadows { EXTRA_SHADOWS } else { 0 },
                extra.size_or_equivalent,
            ],
            _ => [self.object, self.chunk, self.bytes],
        }
    }

    /// The tags of three stored numbers.
    pub fn from_packed(sequence: u32, [object, chunk, bytes]: [u32; 3]) -> Self {
        // An erased page has the extra bit set as well: the sequence number decides first.
        if sequence == u32::MAX || chunk & EXTRA == 0 {
            return Self { sequence, object, chunk, bytes, extra: None };
        }
        let extra = ExtraInfo {
            parent: chunk & PARENT_MASK & !(EXTRA_SHADOWS | EXTRA_SHRINK),
            kind: object >> KIND_SHIFT,
            is_shrink: chunk & EXTRA_SHRINK != 0,
            shadows: chunk & EXTRA_SHADOWS != 0,
            size_or_equivalent: bytes,
        };
        Self { sequence, object: object & PARENT_MASK, chunk: 0, bytes: 0, extra: Some(extra) }
    }

    /// The sixteen bytes as they are stored, without their code.
    pub fn to_bytes(&self) -> [u8; TAGS_BYTES] {
        let [object, chunk, bytes] = self.packed();
        let mut out = [0; TAGS_BYTES];
        for (place, word) in out.chunks_exact_mut(4).zip([self.sequence, object, chunk, bytes]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// The tags of sixteen bytes.
    pub fn from_bytes(bytes: &[u8; TAGS_BYTES]) -> Self {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Self::from_packed(word(0), [word(4), word(8), word(12)])
    }

    /// The 28 bytes with the code; padding is zero.
    pub fn to_bytes_with_ecc(&self) -> [u8; TAGS_ECC_BYTES] {
        let tags = self.to_bytes();
        let code = TagsCode::of(&tags);
        let mut out = [0; TAGS_ECC_BYTES];
        out[..16].copy_from_slice(&tags);
        out[16] = code.columns;
        out[20..24].copy_from_slice(&code.lines.to_le_bytes());
        out[24..].copy_from_slice(&code.lines_inverse.to_le_bytes());
        out
    }

    /// The tags of 28 bytes, corrected, and how that went.
    pub fn from_bytes_with_ecc(bytes: &[u8; TAGS_ECC_BYTES]) -> (Self, EccResult) {
        let mut tags = [0; TAGS_BYTES];
        tags.copy_from_slice(&bytes[..16]);
        // No code is asked for on a page that looks erased: all bits set are no valid code word,
        // and each erased page would be reported.
        if tags[..4] == [0xff; 4] {
            return (Self::from_bytes(&tags), EccResult::Clean);
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let stored = TagsCode { columns: bytes[16], lines: word(20), lines_inverse: word(24) };
        let result = stored.correct(&mut tags);
        (Self::from_bytes(&tags), result)
    }
}

/// What an error-correcting code said of a chunk or its tags; the worse the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EccResult {
    /// No bit was wrong.
    Clean,
    /// One bit was, and is right now.
    Fixed,
    /// More bits were wrong than the code corrects.
    Unfixed,
}

/// The code over tags: for every byte of odd parity, its index in the line parities; the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TagsCode {
    columns: u8,
    lines: u32,
    lines_inverse: u32,
}

/// Columns of each bit of a byte: the code is linear in them.
const COLUMNS: [u8; 8] = [0x55, 0x59, 0x65, 0x69, 0x95, 0x99, 0xa5, 0xa9];

/// Bytes whose index has bit n set, for each n: a bit a byte.
const INDEX_BITS: [u16; 4] = [0xaaaa, 0xcccc, 0xf0f0, 0xff00];

/// Bytes of odd parity: a bit a byte.
fn odd_bytes(bytes: u128) -> u16 {
    let half = bytes ^ bytes >> 4;
    let quarter = half ^ half >> 2;
    let parities = (quarter ^ quarter >> 1) & (u128::MAX / 0xff);
    // The factor moves the lowest bit of byte n of eight to bit n of the highest; no two bits meet.
    let gathered = |half: u64| half.wrapping_mul(0x0102_0408_1020_4080) >> 56;
    (gathered(parities as u64) | gathered((parities >> 64) as u64) << 8) as u16
}

impl TagsCode {
    fn of(tags: &[u8; TAGS_BYTES]) -> Self {
        // Every tag that is read is compared with its code, so all bytes are taken at once: the columns of
        // bytes that are added without carry are the sum of their columns.
        let all = u128::from_le_bytes(*tags);
        let halves = all as u64 ^ (all >> 64) as u64;
        let quarters = halves as u32 ^ (halves >> 32) as u32;
        let eighths = quarters as u16 ^ (quarters >> 16) as u16;
        let sum = eighths as u8 ^ (eighths >> 8) as u8;
        let columns = (0..8).filter(|bit| sum >> bit & 1 != 0);
        let columns = columns.fold(0, |columns, bit| columns ^ COLUMNS[bit]);
        let odd = odd_bytes(all);
        // Bit n of the lines is the parity of the odd bytes whose index has bit n set.
        let lines = INDEX_BITS
            .iter()
            .zip(0..)
            .fold(0, |lines, (mask, bit)| lines | ((odd & mask).count_ones() % 2) << bit);
        // An even number of complements leaves none.
        let inverted = if odd.count_ones() % 2 == 1 { u32::MAX } else { 0 };
        Self { columns: columns >> 2 & 0x3f, lines, lines_inverse: lines ^ inverted }
    }

    fn correct(self, tags: &mut [u8; TAGS_BYTES]) -> EccResult {
        let computed = Self::of(tags);
        let columns = (self.columns ^ computed.columns) & 0x3f;
        let lines = self.lines ^ computed.lines;
        let inverse = self.lines_inverse ^ computed.lines_inverse;
        if columns == 0 && lines == 0 && inverse == 0 {
            return EccResult::Clean;
        }
        // One wrong bit of data changes each pair of column parities in exactly one half, and the
        // index with its inverse; anything else is either one bit of the code itself or too much.
        if lines == !inverse && (columns ^ columns >> 1) & 0x15 == 0x15 {
            let bit = columns >> 5 & 1;
            let bit = bit << 2 | (columns >> 3 & 1) << 1 | columns >> 1 & 1;
            return match tags.get_mut(lines as usize) {
                Some(byte) => {
                    *byte ^= 1 << bit;
                    EccResult::Fixed
                }
                None => EccResult::Unfixed,
            };
        }
        if columns.count_ones() + lines.count_ones() + inverse.count_ones() == 1 {
            return EccResult::Fixed;
        }
        EccResult::Unfixed
    }
}

/// The kind that tags or a header name, if any.
pub(crate) fn kind_of(number: u32) -> Option<ObjectKind> {
    ObjectKind::from_number(number)
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, EccResult, ExtraInfo, TAGS_BYTES, TAGS_ECC_BYTES, Tags, TagsCode};
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    fn bytes(text: &str) -> [u8; TAGS_ECC_BYTES] {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let mut out = [0; TAGS_ECC_BYTES];
        for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).expect("digits");
            *byte = u8::from_str_radix(pair, 16).expect("digits");
        }
        out
    }

    /// Sequence, object, chunk, bytes, extra info; and the bytes that real tools wrote.
    #[test]
    fn tags_are_those_of_real_tools() {
        let extra = |parent, kind, is_shrink, size_or_equivalent| {
            Some(ExtraInfo { parent, kind, is_shrink, shadows: false, size_or_equivalent })
        };
        let vectors = [
            (
                (0x1000, 0x101, 0, 0xffff, None),
                "00100000 01010000 00000000 ffff0000 25000000 00000000 ffffffff",
            ),
            (
                (0x1000, 0x102, 0, 0xffff, None),
                "00100000 02010000 00000000 ffff0000 26000000 00000000 ffffffff",
            ),
            (
                (0x1000, 0x102, 1, 6, None),
                "00100000 02010000 01000000 06000000 3c000000 08000000 08000000",
            ),
            (
                (0x1000, 0x106, 2, 2048, None),
                "00100000 06010000 02000000 00080000 33000000 01000000 01000000",
            ),
            (
                (0x1000, 0x106, 3, 904, None),
                "00100000 06010000 03000000 88030000 0f000000 04000000 04000000",
            ),
            (
                (0x1001, 0x101, 0, 0, extra(1, 3, false, 0)),
                "01100000 01010030 01000080 00000000 0c000000 03000000 03000000",
            ),
            (
                (0x1001, 0x102, 0, 0, extra(0x101, 1, false, 5000)),
                "01100000 02010010 01010080 88130000 2a000000 00000000 ffffffff",
            ),
            (
                (0x1001, 0x104, 0, 0, extra(1, 4, false, 0x103)),
                "01100000 04010040 01000080 03010000 3c000000 09000000 09000000",
            ),
            (
                (0x1001, 0x105, 0, 0, extra(4, 1, true, 0)),
                "01100000 05010010 040000c0 00000000 16000000 0b000000 f4ffffff",
            ),
        ];
        for ((sequence, object, chunk, count, extra), text) in vectors {
            let tags = Tags { sequence, object, chunk, bytes: count, extra };
            let stored = bytes(text);
            assert_eq!(Tags::from_bytes_with_ecc(&stored), (tags, EccResult::Clean), "{text}");
            assert_eq!(tags.to_bytes_with_ecc()[..16], stored[..16], "{text}");
            assert_eq!(tags.to_bytes_with_ecc(), stored, "{text}");
        }
    }

    /// The code by its definition, byte by byte (`yaffs_ecc_calc_other`).
    fn code_by_definition(tags: &[u8; TAGS_BYTES]) -> TagsCode {
        let mut code = TagsCode { columns: 0, lines: 0, lines_inverse: 0 };
        for (index, byte) in (0_u32..).zip(tags) {
            let columns = COLUMNS.iter().enumerate().filter(|(bit, _)| byte >> bit & 1 != 0);
            code.columns = columns.fold(code.columns, |sum, (_, columns)| sum ^ columns);
            if byte.count_ones() % 2 == 1 {
                code.lines ^= index;
                code.lines_inverse ^= !index;
            }
        }
        TagsCode { columns: code.columns >> 2 & 0x3f, ..code }
    }

    #[test]
    fn erased_spare_bytes_are_unused_tags() {
        let (tags, result) = Tags::from_bytes_with_ecc(&[0xff; TAGS_ECC_BYTES]);
        assert!(tags.is_unused());
        assert_eq!(result, EccResult::Clean);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn the_code_is_that_of_its_definition(tags in any::<[u8; TAGS_BYTES]>()) {
            prop_assert_eq!(TagsCode::of(&tags), code_by_definition(&tags));
        }

        #[test]
        fn one_wrong_bit_is_corrected_and_two_are_seen(
            object in 1..0x3ffff_u32, chunk in 0..0xfffff_u32, count in 0..2048_u32,
            first in 0..128_usize, second in 0..128_usize, kind in any::<bool>(),
        ) {
            let extra = kind.then_some(ExtraInfo {
                parent: chunk, kind: 1, is_shrink: false, shadows: true, size_or_equivalent: count,
            });
            let tags = Tags {
                sequence: 0x1234, object,
                chunk: if kind { 0 } else { chunk },
                bytes: if kind { 0 } else { count },
                extra,
            };
            let mut stored = tags.to_bytes_with_ecc();
            stored[first / 8] ^= 1 << (first % 8);
            prop_assert_eq!(Tags::from_bytes_with_ecc(&stored), (tags, EccResult::Fixed));
            if first != second {
                stored[second / 8] ^= 1 << (second % 8);
                prop_assert_eq!(Tags::from_bytes_with_ecc(&stored).1, EccResult::Unfixed);
            }
        }
    }
}
