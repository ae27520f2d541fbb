//! The Hamming code that Linux keeps for every 256 bytes of a page: one bit corrected, two detected.
//!
//! Three bytes: sixteen line parities, high byte first, then six column parities above two set bits;
//! all inverted, so that the code of erased bytes is that of erased flash.
//!
//! Source: `Documentation/mtd/nand_ecc.txt` (how the parities are formed); the order of the bytes is
//! checked against pages written by Linux 6.12.

/// Bytes that one code covers.
pub const STEP_BYTES: usize = 256;

/// Bytes of a code.
pub(crate) const CODE_BYTES: usize = 3;

/// Words of eight bytes in a step.
const WORDS: usize = STEP_BYTES / size_of::<u64>();

/// Bits of the number of a word.
const WORD_BITS: usize = WORDS.ilog2() as usize;

/// For each set of eight bits, six parities: two for each bit of a bit's number, that of the bits
/// whose number has it clear before that of the bits whose number has it set.
///
/// The low six line parities are those of a set of bytes, the column parities those of a byte.
const PAIRS_OF_EIGHT: [u8; 256] = {
    let masks = [0x55, 0xaa, 0x33, 0xcc, 0x0f, 0xf0];
    let mut pairs = [0; 256];
    let mut set = 0;
    while set < pairs.len() {
        let mut at = 0;
        while at < masks.len() {
            pairs[set] |= ((set & masks[at]).count_ones() as u8 & 1) << at;
            at += 1;
        }
        set += 1;
    }
    pairs
};

/// The upper ten line parities, two for each bit of the number of a word, in the order of
/// [`PAIRS_OF_EIGHT`].
///
/// The index holds the parity of the words at which each bit is set, and above them that of all words.
const PAIRS_OF_WORDS: [u16; 2 << WORD_BITS] = {
    let mut pairs = [0; 2 << WORD_BITS];
    let mut set = 0;
    while set < pairs.len() {
        let mut bit = 0;
        while bit < WORD_BITS {
            let at_set = (set >> bit & 1) as u16;
            // Words at which the bit is clear and words at which it is set are all words.
            let at_clear = at_set ^ (set >> WORD_BITS) as u16;
            pairs[set] |= (at_clear | at_set << 1) << (2 * bit);
            bit += 1;
        }
        set += 1;
    }
    pairs
};

/// What the comparison of a code with its data gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Correction {
    /// Data and code agree.
    Clean,
    /// One bit of the data was wrong and is right now.
    Data,
    /// One bit of the code was wrong; the data is right.
    Code,
    /// More than one bit is wrong.
    Uncorrectable,
}

/// The parities of a step before they are inverted: line parities, column parities.
///
/// Bits 0 to 2 of a byte's number are its place in its word, bits 3 to 7 the number of the word. A line
/// parity is thus that of some bytes of all words, or of all bytes of some words.
fn parities(step: &[u8; STEP_BYTES]) -> (u16, u8) {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(step.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    // From bit 4 of the number of a word down to bit 0: each call leaves half of the words.
    let at_set_bit = [
        fold_upper_half::<16>(&mut words),
        fold_upper_half::<8>(&mut words),
        fold_upper_half::<4>(&mut words),
        fold_upper_half::<2>(&mut words),
        fold_upper_half::<1>(&mut words),
    ];
    let [all, ..] = words;
    let column = exclusive_or_of_bytes(all);
    let mut word_parities = parity(column) << WORD_BITS;
    for (bit, word) in at_set_bit.into_iter().rev().enumerate() {
        word_parities |= parity(exclusive_or_of_bytes(word)) << bit;
    }
    let upper_lines = PAIRS_OF_WORDS[usize::from(word_parities)];
    let lower_lines = PAIRS_OF_EIGHT[usize::from(byte_parities(all))];
    (upper_lines << 6 | u16::from(lower_lines), PAIRS_OF_EIGHT[usize::from(column)])
}

/// Adds the upper half of the first `2 * HALF` words to the lower half, bit by bit without carry; returns
/// the sum of the upper half.
///
/// Five calls fold 32 words into one. A plain loop over the words with a mask for each bit of their number
/// takes five times the operations.
#[inline]
fn fold_upper_half<const HALF: usize>(words: &mut [u64; WORDS]) -> u64 {
    let mut upper = 0;
    for at in 0..HALF {
        upper ^= words[at + HALF];
        words[at] ^= words[at + HALF];
    }
    upper
}

/// All bytes of a word added bit by bit without carry.
#[inline]
fn exclusive_or_of_bytes(word: u64) -> u8 {
    let half = word ^ word >> 32;
    let quarter = half ^ half >> 16;
    (quarter ^ quarter >> 8) as u8
}

/// The parity of a byte: on x86 a flag of the processor, which is why words are folded to bytes first.
#[inline]
fn parity(byte: u8) -> u8 {
    byte.count_ones() as u8 & 1
}

/// The parity of each byte of a word, that of its lowest byte in bit 0.
#[inline]
fn byte_parities(word: u64) -> u8 {
    let half = word ^ word >> 4;
    let quarter = half ^ half >> 2;
    let lowest_bits = (quarter ^ quarter >> 1) & 0x0101_0101_0101_0101;
    // The factor moves the lowest bit of byte n to bit n of the highest byte; no two bits meet.
    (lowest_bits.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// The code of up to 256 bytes; missing ones count as zero.
///
/// # Panics
/// If there are more than 256 bytes.
pub fn hamming_code(data: &[u8]) -> [u8; CODE_BYTES] {
    let (lines, columns) = if let Ok(step) = data.try_into() {
        parities(step)
    } else {
        assert!(data.len() < STEP_BYTES, "a code covers {STEP_BYTES} bytes, not {}", data.len());
        let mut step = [0; STEP_BYTES];
        step[..data.len()].copy_from_slice(data);
        parities(&step)
    };
    let [high, low] = (!lines).to_be_bytes();
    // Two lowest bits set, as `nand_calculate_ecc` leaves them, so that the code of erased bytes is
    // 0xff.
    [high, low, !(columns << 2)]
}

/// What a code says about the data that it was stored with.
enum Difference {
    /// The data has the code.
    None,
    /// This bit of the data is wrong.
    Data { byte: usize, bit: usize },
    /// A bit of the code is wrong.
    Code,
    /// More than one bit is wrong.
    Uncorrectable,
}

fn difference(data: &[u8], stored: [u8; CODE_BYTES]) -> Difference {
    let computed = hamming_code(data);
    // Equal bits cancel: what is left are the parities that a wrong bit has turned.
    let turned: [u8; CODE_BYTES] = std::array::from_fn(|at| computed[at] ^ stored[at]);
    let lines = u16::from_be_bytes([turned[0], turned[1]]);
    let columns = turned[2] >> 2;
    if lines == 0 && columns == 0 {
        return Difference::None;
    }
    // A wrong bit of the data turns one parity of every pair around.
    let is_pairwise =
        (lines ^ lines >> 1) & 0x5555 == 0x5555 && (columns ^ columns >> 1) & 0x15 == 0x15;
    if is_pairwise {
        let odd = |bits: u16, count: u16| {
            (0..count).fold(0, |set, bit| set | (bits >> (2 * bit + 1) & 1) << bit)
        };
        let (byte, bit) = (odd(lines, 8) as usize, odd(columns.into(), 3) as usize);
        // Missing bytes count as zero in the code, but there is none of them to correct.
        let is_there = byte < data.len();
        return if is_there { Difference::Data { byte, bit } } else { Difference::Uncorrectable };
    }
    // A single turned parity is a wrong bit of the code itself.
    if lines.count_ones() + columns.count_ones() == 1 {
        Difference::Code
    } else {
        Difference::Uncorrectable
    }
}

/// Compares data with the code stored beside it and corrects a single wrong bit.
///
/// # Panics
/// As [`hamming_code`].
pub fn hamming_correct(data: &mut [u8], stored: [u8; CODE_BYTES]) -> Correction {
    match difference(data, stored) {
        Difference::None => Correction::Clean,
        Difference::Data { byte, bit } => {
            data[byte] ^= 1 << bit;
            // The two lowest bits of the last byte are no parities, and damage may have turned them.
            debug_assert!(
                matches!(difference(data, stored), Difference::None),
                "the corrected data has the stored code"
            );
            Correction::Data
        }
        Difference::Code => Correction::Code,
        Difference::Uncorrectable => Correction::Uncorrectable,
    }
}

/// Compares data with the code stored beside it, and says what [`hamming_correct`] would do.
///
/// # Panics
/// As [`hamming_code`].
pub fn hamming_check(data: &[u8], stored: [u8; CODE_BYTES]) -> Correction {
    match difference(data, stored) {
        Difference::None => Correction::Clean,
        Difference::Data { .. } => Correction::Data,
        Difference::Code => Correction::Code,
        Difference::Uncorrectable => Correction::Uncorrectable,
    }
}

#[cfg(test)]
mod tests {
    use super::{Correction, STEP_BYTES, hamming_check, hamming_code, hamming_correct};
    use crate::tests::panics_with;
    use proptest::collection::vec;
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

    /// The code by its definition, bit by bit (`Documentation/mtd/nand_ecc.txt`): rp0 to rp15 are the
    /// parities of the bytes whose number has a bit clear or set, cp0 to cp5 those of the bits.
    fn code_by_definition(data: &[u8]) -> [u8; 3] {
        let (mut lines, mut columns) = (0_u16, 0_u8);
        for (number, byte) in data.iter().enumerate() {
            for place in (0..8).filter(|place| byte >> place & 1 == 1) {
                for bit in 0..8 {
                    lines ^= 1 << (2 * bit + (number >> bit & 1));
                }
                for bit in 0..3 {
                    columns ^= 1 << (2 * bit + (place >> bit & 1));
                }
            }
        }
        let [high, low] = (!lines).to_be_bytes();
        [high, low, !(columns << 2)]
    }

    #[test]
    fn a_step_of_257_bytes_is_refused() {
        panics_with("a code covers 256 bytes, not 257", || {
            hamming_code(&[0; STEP_BYTES + 1]);
        });
    }

    #[test]
    fn erased_bytes_have_the_code_of_erased_flash() {
        assert_eq!(hamming_code(&[0xff; STEP_BYTES]), [0xff; 3]);
        assert_eq!(hamming_code(&[0; STEP_BYTES]), [0xff; 3]);
    }

    /// Pages of a dump that Linux 6.12 wrote: 2048 bytes of data, 64 of OOB, the code at 40..64.
    #[test]
    fn codes_are_those_of_the_kernel() {
        let pages = include_bytes!("../tests/data/kernel-pages.bin");
        assert!(pages.len() >= 4 * 2112);
        for page in pages.chunks_exact(2112) {
            let (data, oob) = page.split_at(2048);
            for (step, stored) in data.chunks_exact(STEP_BYTES).zip(oob[40..].chunks_exact(3)) {
                assert_eq!(hamming_code(step), stored);
                assert_eq!(code_by_definition(step), stored);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn codes_are_those_of_the_definition(page in vec(any::<u8>(), 0..=2048)) {
            // The last step of a page may be a short one.
            for step in page.chunks(STEP_BYTES) {
                prop_assert_eq!(hamming_code(step), code_by_definition(step));
            }
        }

        #[test]
        fn any_single_bit_is_corrected(seed in any::<u64>(), at in 0..STEP_BYTES, bit in 0..8, code_bit in 0..22_usize) {
            let original: Vec<u8> =
                (0..STEP_BYTES).map(|index| (seed.rotate_left(index as u32) >> 3) as u8 ^ index as u8).collect();
            let code = hamming_code(&original);
            let mut damaged = original.clone();
            prop_assert_eq!(hamming_correct(&mut damaged, code), Correction::Clean);
            damaged[at] ^= 1_u8 << bit;
            prop_assert_eq!(hamming_check(&damaged, code), Correction::Data);
            prop_assert_eq!(hamming_correct(&mut damaged, code), Correction::Data);
            prop_assert_eq!(&damaged, &original);
            let mut wrong = code;
            // The two lowest bits of the last byte hold nothing.
            let place = if code_bit < 16 { code_bit } else { code_bit + 2 };
            wrong[place / 8] ^= 1 << (place % 8);
            prop_assert_eq!(hamming_correct(&mut damaged, wrong), Correction::Code);
            prop_assert_eq!(&damaged, &original);
            damaged[at] ^= 1_u8 << bit;
            damaged[(at + 7) % STEP_BYTES] ^= 1_u8 << ((bit + 3) % 8);
            prop_assert_eq!(hamming_correct(&mut damaged, code), Correction::Uncorrectable);
        }
    }
}
