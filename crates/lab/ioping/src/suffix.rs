//! Numbers with units: how the tool reads and prints them.

use crate::profile::Printing;

/// A unit and its size, in the unit that is left out.
type Unit = (&'static str, u64);

const SECOND_NS: u64 = 1_000_000_000;

/// Units of times on the command line, in nanoseconds; a bare number is seconds.
const TIMES: &[Unit] = &[
    ("", SECOND_NS),
    ("ns", 1),
    ("nsec", 1),
    ("us", 1_000),
    ("usec", 1_000),
    ("ms", 1_000_000),
    ("msec", 1_000_000),
    ("s", SECOND_NS),
    ("sec", SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("min", 60 * SECOND_NS),
    ("h", 3600 * SECOND_NS),
    ("hour", 3600 * SECOND_NS),
];

/// Units of sizes on the command line; all are powers of two, as the tool has them.
const SIZES: &[Unit] = &[
    ("", 1),
    ("b", 1),
    ("sector", 512),
    ("page", 4096),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tb", 1 << 40),
    ("tib", 1 << 40),
];

/// Units of counts on the command line.
const COUNTS: &[Unit] =
    &[("", 1), ("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000), ("t", 1_000_000_000_000)];

/// Units that times are printed in, from the largest on; in nanoseconds.
const PRINTED_TIMES: &[Unit] = &[
    ("hour", 3600 * SECOND_NS),
    ("min", 60 * SECOND_NS),
    ("s", SECOND_NS),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The same in microseconds, for a clock that has no more; such versions have days, too.
const PRINTED_MICROSECONDS: &[Unit] = &[
    ("day", 86_400_000_000),
    ("hour", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// Units that sizes are printed in since 0.8.
const PRINTED_SIZES: &[Unit] = &[
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

/// Units that sizes are printed in by 0.7.
const PRINTED_OLD_SIZES: &[Unit] =
    &[("tb", 1 << 40), ("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10), ("b", 1)];

/// Units that counts are printed in.
const PRINTED_COUNTS: &[Unit] =
    &[("T", 1_000_000_000_000), ("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000), ("", 1)];

/// Reads a number, with decimals or without, and its unit.
fn parse(text: &str, units: &[Unit]) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let Some((_, size)) = units.iter().find(|(name, _)| *name == unit) else {
        let known: Vec<&str> = units.iter().map(|(name, _)| *name).skip(1).collect();
        return Err(format!("`{text}` has an unknown unit; known: {}", known.join(", ")));
    };
    // Whole numbers stay exact; decimals are multiplied and cut off, as the tool does.
    let whole = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(*size));
    let decimal = || {
        let number: f64 = digits.parse().ok()?;
        let product = number * *size as f64;
        (number.is_finite() && (0.0..9e18).contains(&product) && digits.contains('.'))
            .then_some(product as u64)
    };
    whole.or_else(decimal).ok_or_else(|| format!("`{text}` is no number that fits"))
}

/// Nanoseconds of a time.
pub(crate) fn parse_time_ns(text: &str) -> Result<u64, String> {
    parse(text, TIMES)
}

/// Bytes of a size.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    parse(text, SIZES)
}

/// A count, in thousands and so on.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    parse(text, COUNTS)
}

/// Prints a value in the largest unit that is no larger than the value.
fn print(value: u64, units: &[Unit], printing: Printing) -> String {
    // Zero is less than every unit, and is shown in the smallest.
    let (name, size) =
        units.iter().find(|(_, size)| *size <= value).or(units.last()).expect("units");
    let decimals = match printing {
        Printing::UpToTwoDecimals if value.is_multiple_of(*size) => 0,
        Printing::UpToTwoDecimals if value < *size * 10 => 2,
        // A value in the smallest unit is whole, whatever the version.
        Printing::Milliseconds | Printing::OneDecimal if *size == 1 => 0,
        _ => 1,
    };
    let number = format!("{:.decimals$}", value as f64 / *size as f64);
    if name.is_empty() { number } else { format!("{number} {name}") }
}

/// A time in nanoseconds, as a version with a clock of `clock_ns` prints it.
pub(crate) fn print_time(value_ns: u64, clock_ns: u64, printing: Printing) -> String {
    match clock_ns {
        1 => print(value_ns, PRINTED_TIMES, printing),
        // Such a version has whole microseconds, and cuts off what a mean has beyond them.
        _ => print(value_ns / 1_000, PRINTED_MICROSECONDS, printing),
    }
}

/// A size in bytes; `is_old` for the units of 0.7.
pub(crate) fn print_bytes(bytes: u64, is_old: bool, printing: Printing) -> String {
    print(bytes, if is_old { PRINTED_OLD_SIZES } else { PRINTED_SIZES }, printing)
}

/// A count in thousands, millions and so on.
pub(crate) fn print_count(count: u64, printing: Printing) -> String {
    print(count, PRINTED_COUNTS, printing)
}

#[cfg(test)]
mod tests {
    use super::{parse_bytes, parse_count, parse_time_ns, print_bytes, print_count, print_time};
    use crate::profile::Printing::{OneDecimal, UpToTwoDecimals};

    #[test]
    fn units_are_read_in_upper_and_lower_case() {
        assert_eq!(parse_bytes("4k"), Ok(4096));
        assert_eq!(parse_bytes("1.5MiB"), Ok(1536 << 10));
        assert_eq!(parse_bytes("3sector"), Ok(1536));
        assert_eq!(parse_time_ns("2"), Ok(2_000_000_000));
        assert_eq!(parse_time_ns("0.5ms"), Ok(500_000));
        assert_eq!(parse_count("2k"), Ok(2000));
        assert!(parse_bytes("4x").unwrap_err().contains("unknown unit"));
        for wrong in ["", "k", "-1", "1e3", "99999999999999999999", "99999999t", "inf", "nan"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_printed_in_the_largest_unit_that_fits() {
        assert_eq!(print_time(1_234_567, 1, UpToTwoDecimals), "1.23 ms");
        assert_eq!(print_time(12_345_678, 1, UpToTwoDecimals), "12.3 ms");
        assert_eq!(print_time(3_000_000, 1, UpToTwoDecimals), "3 ms");
        assert_eq!(print_time(999, 1, UpToTwoDecimals), "999 ns");
        assert_eq!(print_time(0, 1, UpToTwoDecimals), "0 ns");
        assert_eq!(print_time(1_234_999, 1_000, OneDecimal), "1.2 ms");
        assert_eq!(print_time(999_999, 1_000, OneDecimal), "999 us");
        assert_eq!(print_time(90_000_000_000, 1_000, OneDecimal), "1.5 min");
        assert_eq!(print_bytes(4096, false, UpToTwoDecimals), "4 KiB");
        assert_eq!(print_bytes(4096, true, OneDecimal), "4.0 kb");
        assert_eq!(print_count(999, UpToTwoDecimals), "999");
        assert_eq!(print_count(1_234_567, UpToTwoDecimals), "1.23 M");
    }
}
