//! Numbers of text traces, parsed exactly: every time is an integer, nothing passes through `f64`.

use crate::error::Fault;

/// Bytes in a sector, the unit of address in most formats.
pub(crate) const SECTOR_BYTES: u64 = units::SECTOR_BYTES_U64;

/// Decimal digits between a second and a nanosecond.
pub(crate) const SECOND_DIGITS: usize = 9;

/// Decimal digits between a millisecond and a nanosecond.
pub(crate) const MILLISECOND_DIGITS: usize = 6;

/// A whole number, which must fit in `T`.
pub(crate) fn integer<T: TryFrom<u64>>(name: &str, text: &str) -> Result<T, Fault> {
    parse_digits(name, text, 10)
}

/// A whole number in hexadecimal, with or without `0x`.
pub(crate) fn hexadecimal<T: TryFrom<u64>>(name: &str, text: &str) -> Result<T, Fault> {
    parse_digits(name, text.strip_prefix("0x").unwrap_or(text), 16)
}

fn parse_digits<T: TryFrom<u64>>(name: &str, text: &str, radix: u32) -> Result<T, Fault> {
    check_sign(name, text)?;
    // `from_str_radix` would take a plus sign.
    if !text.chars().all(|letter| letter.is_digit(radix)) {
        return Err(Fault::malformed(format!("the {name} is not a whole number")));
    }
    u64::from_str_radix(text, radix)
        .ok()
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| too_large(name))
}

/// A decimal number in units of 10^`digits` nanoseconds, as nanoseconds.
/// Digits below a nanosecond are dropped.
pub(crate) fn decimal_ns(name: &str, text: &str, digits: usize) -> Result<u64, Fault> {
    check_sign(name, text)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = (whole.len() + fraction.len() > 0)
        && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(Fault::malformed(format!("the {name} is not a decimal number")));
    }
    // Longer fractions are cut and shorter ones filled up: nothing is rounded.
    let padded = fraction.bytes().chain(std::iter::repeat(b'0')).take(digits);
    whole
        .bytes()
        .chain(padded)
        .try_fold(0_u64, |value, digit| {
            value.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0')))
        })
        .ok_or_else(|| too_large(name))
}

/// `value` in units of `factor`; an error if it overflows.
pub(crate) fn scaled(name: &str, value: u64, factor: u64) -> Result<u64, Fault> {
    value.checked_mul(factor).ok_or_else(|| too_large(name))
}

/// A number of sectors, as bytes of an address.
pub(crate) fn sector_address(name: &str, text: &str) -> Result<u64, Fault> {
    scaled(name, integer(name, text)?, SECTOR_BYTES)
}

/// A number of sectors, as bytes of a length.
pub(crate) fn sector_length(name: &str, text: &str) -> Result<u32, Fault> {
    u32::try_from(sector_address(name, text)?).map_err(|_| too_large(name))
}

fn too_large(name: &str) -> Fault {
    Fault::malformed(format!("the {name} is too large"))
}

fn check_sign(name: &str, text: &str) -> Result<(), Fault> {
    if text.is_empty() {
        return Err(Fault::malformed(format!("the {name} is missing")));
    }
    if text.starts_with('-') {
        return Err(Fault::malformed(format!("the {name} is negative")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_every_nanosecond() {
        let cases = [
            ("0.000000001", 9, 1),
            ("1456095145.133076001", 9, 1_456_095_145_133_076_001),
            ("1.5", 6, 1_500_000),
            ("3", 6, 3_000_000),
            (".25", 9, 250_000_000),
            ("7.", 9, 7_000_000_000),
            ("0.12345678999", 9, 123_456_789),
        ];
        for (text, digits, expected) in cases {
            assert_eq!(decimal_ns("time", text, digits).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn bad_numbers_are_named() {
        let cases = [
            ("", "the time is missing"),
            ("-1.0", "the time is negative"),
            (".", "the time is not a decimal number"),
            ("1e5", "the time is not a decimal number"),
            ("1.2.3", "the time is not a decimal number"),
            ("99999999999999999999", "the time is too large"),
        ];
        for (text, expected) in cases {
            let fault = decimal_ns("time", text, SECOND_DIGITS).unwrap_err();
            assert_eq!(fault.to_string(), expected);
        }
        assert!(integer::<u32>("size", "4294967296").is_err());
        assert!(integer::<u64>("size", "+5").is_err());
        assert_eq!(hexadecimal::<u32>("flags", "0x81").unwrap(), 0x81);
        assert!(hexadecimal::<u32>("flags", "xyz").is_err());
    }
}
