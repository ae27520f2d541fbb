//! The Hamming code that Linux keeps for every 256 bytes of a page: one bit corrected, two detected.
//!
//! Three bytes: sixteen line parities, high byte first, then six column parities above two set bits;
//! all inverted, so that the code of erased bytes is that of erased flash.
//!
//! Source: `Documentation/mtd/nand_ecc.txt` (how the parities are formed); the order of the bytes is
//! checked against pages written by Linux 6.12.

/// Bytes that one code covers.
const STEP_BYTES: usize = 256;

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
/// Eight bytes go at a time. Bits 0 to 2 of a byte's index are its place in its word, bits 3 to 7
/// the number of the word, so the parity of the bytes at which a bit of the index is set is that of
/// some bytes of all words, or of all bytes of some words.
fn parities(data: &[u8]) -> (u16, u8) {
    let mut whole = 0_u64;
    let mut by_word_bit = [0_u64; 5];
    for (number, bytes) in data.chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        whole ^= word;
        for (bit, sum) in by_word_bit.iter_mut().enumerate() {
            // All ones where the bit of the number is set.
            *sum ^= word & (number as u64 >> bit & 1).wrapping_neg();
        }
    }
    // A parity is the lowest bit of a count of ones.
    let odd = |word: u64| word.count_ones() as u8 & 1;
    let within_word = [0xff00_ff00_ff00_ff00, 0xffff_0000_ffff_0000, 0xffff_ffff_0000_0000];
    let low =
        within_word.iter().enumerate().fold(0, |set, (bit, mask)| set | odd(whole & mask) << bit);
    let odd_lines =
        by_word_bit.iter().enumerate().fold(low, |set, (bit, sum)| set | odd(*sum) << (bit + 3));
    // With an odd number of ones in all, the even lines are the complement of the odd ones, else
    // both are equal.
    let even_lines = if odd(whole) == 1 { !odd_lines } else { odd_lines };
    let mut lines = 0;
    for bit in 0..8 {
        lines |= u16::from(even_lines >> bit & 1) << (2 * bit);
        lines |= u16::from(odd_lines >> bit & 1) << (2 * bit + 1);
    }
    let half = whole ^ whole >> 32;
    let quarter = half ^ half >> 16;
    let all = (quarter ^ quarter >> 8) as u8;
    let parity = |mask: u8| (all & mask).count_ones() as u8 & 1;
    let masks = [0x55, 0xaa, 0x33, 0xcc, 0x0f, 0xf0];
    let columns = masks.iter().enumerate().fold(0, |set, (bit, mask)| set | parity(*mask) << bit);
    (lines, columns)
}

/// The code of up to 256 bytes; missing ones count as zero.
pub fn hamming_code(data: &[u8]) -> [u8; 3] {
    debug_assert!(data.len() <= STEP_BYTES);
    let (lines, columns) = parities(data);
    let [high, low] = (!lines).to_be_bytes();
    // Two lowest bits set, as `nand_calculate_ecc` leaves them, so that the code of erased bytes is
    // 0xff.
    [high, low, !(columns << 2)]
}

/// Compares data with the code stored beside it and corrects a single wrong bit.
pub fn hamming_correct(data: &mut [u8], stored: [u8; 3]) -> Correction {
    let computed = hamming_code(data);
    // Equal bits cancel: what is left are the parities that a wrong bit has turned.
    let difference: [u8; 3] = std::array::from_fn(|at| computed[at] ^ stored[at]);
    let lines = u16::from_be_bytes([difference[0], difference[1]]);
    let columns = difference[2] >> 2;
    if lines == 0 && columns == 0 {
        return Correction::Clean;
    }
    // A wrong bit of the data turns one parity of every pair around.
    let is_pairwise =
        (lines ^ lines >> 1) & 0x5555 == 0x5555 && (columns ^ columns >> 1) & 0x15 == 0x15;
    if is_pairwise {
        let odd = |bits: u16, count: u16| {
            (0..count).fold(0, |set, bit| set | (bits >> (2 * bit + 1) & 1) << bit)
        };
        let (byte, bit) = (odd(lines, 8) as usize, odd(columns.into(), 3));
        return match data.get_mut(byte) {
            Some(byte) => {
                *byte ^= 1 << bit;
                Correction::Data
            }
            // Missing bytes count as zero in the code, but there is none of them to correct.
            None => Correction::Uncorrectable,
        };
    }
    // A single turned parity is a wrong bit of the code itself.
    if lines.count_ones() + columns.count_ones() == 1 {
        Correction::Code
    } else {
        Correction::Uncorrectable
    }
}

#[cfg(test)]
mod tests {
    use super::{Correction, STEP_BYTES, hamming_code, hamming_correct};
    use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

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
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_single_bit_is_corrected(seed in any::<u64>(), at in 0..STEP_BYTES, bit in 0..8, code_bit in 0..22_usize) {
            let original: Vec<u8> =
                (0..STEP_BYTES).map(|index| (seed.rotate_left(index as u32) >> 3) as u8 ^ index as u8).collect();
            let code = hamming_code(&original);
            let mut damaged = original.clone();
            prop_assert_eq!(hamming_correct(&mut damaged, code), Correction::Clean);
            damaged[at] ^= 1_u8 << bit;
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
