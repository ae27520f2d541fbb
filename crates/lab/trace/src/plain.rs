//! Lines in their plainest form, read in one pass over the bytes.
//!
//! Nearly every line of a text trace has one separator between its fields, plain digits, and values that are far
//! from their limits. Such a line needs no check of its encoding, no list of fields and no search for its end. A
//! format says with [`Plain`] what its plainest line is. Whatever is not exactly that is left to the
//! format's [`parse`](crate::lines::LineParser::parse), which alone decides what is wrong with a line. A line that
//! both understand must give the same record: the tests below compare them on lines with random faults.

use crate::lines::check_range;
use crate::number::SECTOR_BYTES;
use crate::record::Record;

/// Digits that a `u64` holds whatever they are: 10^19 - 1 is below 2^64.
const SAFE_DIGITS: usize = 19;

/// Digits that are converted together, one in each byte of a word.
const WORD_DIGITS: usize = 8;

/// Powers of ten up to the digits of a second.
const POWERS_OF_TEN: [u64; 10] =
    [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// The bytes of a trace from the beginning of a line on, and how far they are read.
///
/// Every method reads on, or returns `None` if what follows is not plain: the place is worthless then.
pub(crate) struct Plain<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Plain<'a> {
    /// Bytes that begin with a line; others may follow it.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// One or more digits, as many as fit in any case: the number, and how many digits it has.
    #[inline]
    fn digits(&mut self) -> Option<(u64, usize)> {
        let (mut value, mut count) = (0_u64, 0);
        while let Some(word) = self.bytes[self.at + count..].first_chunk::<WORD_DIGITS>() {
            let (part, digits) = leading_digits(u64::from_le_bytes(*word));
            // Before the product, which could pass the end of a `u64`.
            if count + digits > SAFE_DIGITS {
                return None;
            }
            value = value * POWERS_OF_TEN[digits] + part;
            count += digits;
            if digits < WORD_DIGITS {
                return self.after_digits(value, count);
            }
        }
        // The end of what is in memory is less than a word away.
        while let Some(digit) = self.bytes.get(self.at + count).filter(|byte| byte.is_ascii_digit())
        {
            if count == SAFE_DIGITS {
                return None;
            }
            value = value * 10 + u64::from(digit - b'0');
            count += 1;
        }
        self.after_digits(value, count)
    }

    #[inline]
    fn after_digits(&mut self, value: u64, count: usize) -> Option<(u64, usize)> {
        self.at += count;
        (count > 0).then_some((value, count))
    }

    /// Reads exactly this byte.
    #[inline]
    pub(crate) fn byte(&mut self, expected: u8) -> Option<()> {
        let found = self.bytes.get(self.at) == Some(&expected);
        self.at += 1;
        found.then_some(())
    }

    /// Reads exactly these bytes; false, and nothing is read, if others follow.
    #[inline]
    pub(crate) fn word(&mut self, expected: &[u8]) -> bool {
        let found = self.bytes[self.at..].starts_with(expected);
        self.at += if found { expected.len() } else { 0 };
        found
    }

    /// A letter or another single byte.
    #[inline]
    pub(crate) fn any(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    /// A field without meaning here, and the separator behind it.
    #[inline]
    pub(crate) fn skip(&mut self, separator: u8) -> Option<()> {
        self.name(separator).map(|_| ())
    }

    /// A field of printable ASCII without a blank, and the separator behind it.
    #[inline]
    pub(crate) fn name(&mut self, separator: u8) -> Option<&'a str> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|byte| *byte == separator || !byte.is_ascii_graphic())?;
        self.at += end + 1;
        let name = std::str::from_utf8(&rest[..end]).ok()?;
        (rest[end] == separator && end > 0).then_some(name)
    }

    /// A whole number.
    #[inline]
    pub(crate) fn integer(&mut self) -> Option<u64> {
        self.digits().map(|(value, _)| value)
    }

    /// A whole number of 32 bits.
    #[inline]
    pub(crate) fn integer_u32(&mut self) -> Option<u32> {
        u32::try_from(self.integer()?).ok()
    }

    /// A whole number, times `factor`.
    #[inline]
    pub(crate) fn scaled(&mut self, factor: u64) -> Option<u64> {
        self.integer()?.checked_mul(factor)
    }

    /// A number of sectors, as bytes of an address.
    #[inline]
    pub(crate) fn sector_address(&mut self) -> Option<u64> {
        self.scaled(SECTOR_BYTES)
    }

    /// A number of sectors, as bytes of a length.
    #[inline]
    pub(crate) fn sector_length(&mut self) -> Option<u32> {
        u32::try_from(self.scaled(SECTOR_BYTES)?).ok()
    }

    /// A number in units of 10^`digits` nanoseconds with at most `digits` digits behind the point, as nanoseconds.
    #[inline]
    pub(crate) fn decimal_ns(&mut self, digits: usize) -> Option<u64> {
        let whole = self.digits()?.0.checked_mul(POWERS_OF_TEN[digits])?;
        if self.bytes.get(self.at) != Some(&b'.') {
            return Some(whole);
        }
        self.at += 1;
        let (fraction, count) = self.digits()?;
        // Longer fractions are cut, which is left to the other way.
        let missing = digits.checked_sub(count)?;
        whole.checked_add(fraction * POWERS_OF_TEN[missing])
    }

    /// True if nothing but the end of the line follows.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        matches!(self.bytes.get(self.at), Some(b'\r' | b'\n'))
    }

    /// The end of the line, of Unix or of Windows.
    #[inline]
    pub(crate) fn end(&mut self) -> Option<()> {
        if self.bytes.get(self.at) == Some(&b'\r') {
            self.at += 1;
        }
        self.byte(b'\n')
    }

    /// The record of a line that was read to its end, and the bytes of the line; none if its range has no end.
    #[inline]
    pub(crate) fn finish(self, record: Record) -> Option<(Record, usize)> {
        debug_assert_eq!(self.bytes.get(self.at - 1), Some(&b'\n'), "a plain line has an end");
        check_range(&record).is_ok().then_some((record, self.at))
    }
}

/// The digits with which a word of eight characters begins, the first in its lowest byte: their value and number.
#[inline]
fn leading_digits(characters: u64) -> (u64, usize) {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    // 0x76 = 0x80 - 10: added to a digit's value it leaves the top bit of the byte clear, and to any larger value
    // below 0x80 it sets it. A carry leaves a byte only where that byte was no digit, so the first one is exact.
    const TO_TOP_BIT: u64 = 0x7676_7676_7676_7676;
    const TOP_BITS: u64 = 0x8080_8080_8080_8080;
    let values = characters ^ ZEROS;
    let others = (values.wrapping_add(TO_TOP_BIT) | values) & TOP_BITS;
    let digits = others.trailing_zeros() as usize / 8;
    if digits == 0 {
        return (0, 0);
    }
    // Moved up so that the last digit is in the highest byte; what comes in below are zeros in front of the number.
    let values = values << (64 - 8 * digits as u32);
    // Neighbours become pairs, pairs fours, and fours the number: the lower of two is worth 10, 100 and 10,000 times
    // as much as the higher one.
    let pairs = (values & 0x00ff_00ff_00ff_00ff) * 10 + ((values >> 8) & 0x00ff_00ff_00ff_00ff);
    let fours = (pairs & 0x0000_ffff_0000_ffff) * 100 + ((pairs >> 16) & 0x0000_ffff_0000_ffff);
    ((fours & 0xffff_ffff) * 10_000 + (fours >> 32), digits)
}

#[cfg(test)]
mod tests {
    use super::{Plain, leading_digits};
    use crate::lines::LineParser;
    use crate::notes::Notes;
    use crate::number::{SECOND_DIGITS, decimal_ns};
    use crate::options::TimeUnit;
    use crate::record::{Operation, Record};
    use crate::{diskmon, disksim, fio_iolog, mqsim, msr, spc};
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    const LINES: usize = 200_000;

    /// Characters that mean something in some format.
    const CHARACTERS: &[u8] = b"0123456789 .,\t\r\n-+xaRrWwe/\x0b\x85\xc2\xa0";

    fn parsers() -> Vec<(Box<dyn LineParser>, &'static str)> {
        let mqsim = |unit| Box::new(mqsim::Parser::of_mqsim(Some(unit)).expect("a unit"));
        let mut iolog = fio_iolog::Parser::new(b"fio version 3 iolog\n").expect("a version");
        iolog.parse("0 /dev/x add", &mut Vec::new(), &mut Notes::default()).expect("a file");
        vec![
            (Box::new(msr::Parser), "128166372003061629,usr,0,Read,7014609920,24576,41286\n"),
            (Box::new(msr::Parser), "12816637200306162,usr,3,Write,0,4096,1\r\n"),
            (Box::new(spc::Parser), "1,303567,3584,w,0.026214\n"),
            (Box::new(spc::Parser), "1,303567,3584,R,12.5\r\n"),
            (Box::new(disksim::Parser), "1023.456789 0 303567 8 81\n"),
            (Box::new(disksim::Parser), "1023.5 2 303567 128 0\n"),
            (mqsim(TimeUnit::Picoseconds), "4826009863 0 1259648 64 1\n"),
            (mqsim(TimeUnit::Microseconds), "48260 7 1259648 64 0\r\n"),
            (Box::new(iolog), "12345 /dev/x write 1048576 4096\n"),
            (Box::new(diskmon::Parser), "17\t1.534217\t0.00002\t0\tRead\t303567\t8\n"),
        ]
    }

    fn below(numbers: &mut Xoshiro256PlusPlus, bound: usize) -> usize {
        (numbers.next_u64() % bound as u64) as usize
    }

    /// A line with up to three faults, and what may follow it.
    fn disturbed(line: &str, numbers: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let mut bytes = line.as_bytes().to_vec();
        for _ in 0..below(numbers, 4) {
            let place = below(numbers, bytes.len());
            let character = CHARACTERS[below(numbers, CHARACTERS.len())];
            match below(numbers, 4) {
                0 => drop(bytes.remove(place)),
                1 => bytes.insert(place, character),
                2 => (0..below(numbers, 20)).for_each(|_| bytes.insert(place, bytes[place])),
                _ => bytes[place] = character,
            }
            if bytes.is_empty() {
                bytes.push(b'\n');
            }
        }
        // With and without more bytes behind: the last digits are read in another way at the end.
        bytes.extend_from_slice(&line.as_bytes()[..below(numbers, line.len())]);
        bytes
    }

    /// A plain line gives what the whole parser makes of the same line, and ends where that line ends.
    #[test]
    fn a_plain_line_is_what_the_whole_parser_makes_of_it() {
        let mut numbers = Xoshiro256PlusPlus::seed_from_u64(1);
        for (mut parser, line) in parsers() {
            let (mut plain_lines, mut others) = (0, 0);
            for _ in 0..LINES / 10 {
                let bytes = disturbed(line, &mut numbers);
                let end =
                    bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
                let text = String::from_utf8_lossy(&bytes[..end]);
                let mut records = Vec::new();
                let whole = text.trim_end_matches(['\n', '\r']);
                let outcome = parser.parse(whole, &mut records, &mut Notes::default());
                let Some((record, length)) = parser.parse_plain(&bytes) else {
                    others += 1;
                    continue;
                };
                plain_lines += 1;
                assert!(outcome.is_ok(), "{text:?} is refused by the whole parser");
                assert_eq!((records.as_slice(), end), (&[record][..], length), "{text:?}");
            }
            // Otherwise one of the two ways was not compared.
            assert!(plain_lines > 3000 && others > 3000, "{line:?}: {plain_lines} {others}");
        }
    }

    #[test]
    #[should_panic(expected = "a plain line has an end")]
    fn a_line_that_is_not_read_to_its_end_is_seen() {
        let mut line = Plain::new(b"12\n");
        line.integer().expect("a number");
        line.finish(Record::new(0, Operation::Read, 0, 512));
    }

    #[test]
    fn the_usual_line_of_every_format_is_plain() {
        for (parser, line) in parsers() {
            let length = parser.parse_plain(line.as_bytes()).map(|(_, length)| length);
            assert_eq!(length, Some(line.len()), "{line:?}");
            // It ends where the bytes in memory do, so it may go on behind them.
            assert_eq!(parser.parse_plain(&line.as_bytes()[..line.len() - 1]), None, "{line:?}");
        }
    }

    #[test]
    fn digits_of_a_word_are_those_of_the_library() {
        let mut numbers = Xoshiro256PlusPlus::seed_from_u64(2);
        for _ in 0..LINES {
            let mut characters = [0; 8];
            for character in &mut characters {
                *character = match below(&mut numbers, 8) {
                    0 => numbers.next_u64() as u8,
                    // One more than a digit is the colon, the nearest character that is none.
                    1 => b'9' + 1,
                    _ => b'0' + (numbers.next_u64() >> 8) as u8 % 10,
                };
            }
            let count =
                characters.iter().take_while(|character| character.is_ascii_digit()).count();
            let text = std::str::from_utf8(&characters[..count]).expect("digits");
            let expected = (text.parse().unwrap_or(0), count);
            assert_eq!(leading_digits(u64::from_le_bytes(characters)), expected, "{characters:?}");
        }
    }

    #[test]
    fn numbers_of_any_length_are_those_of_the_other_way() {
        for count in 1..=25 {
            for (digit, tail) in [("1", ""), ("9", ""), ("1", " and more"), ("9", " and more")] {
                let digits = digit.repeat(count);
                let text = format!("{digits}{tail}");
                let expected = if count <= 19 { digits.parse().ok() } else { None };
                assert_eq!(Plain::new(text.as_bytes()).integer(), expected, "{text}");
                let text = format!("1.{digits}{tail}");
                let time_ns = decimal_ns("time", &format!("1.{digits}"), SECOND_DIGITS).ok();
                let expected = time_ns.filter(|_| count <= SECOND_DIGITS);
                assert_eq!(
                    Plain::new(text.as_bytes()).decimal_ns(SECOND_DIGITS),
                    expected,
                    "{text}"
                );
            }
        }
        assert_eq!(Plain::new(b"18446744073709551615").integer(), None, "it has twenty digits");
    }
}
