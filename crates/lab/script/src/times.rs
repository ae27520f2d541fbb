//! Times with units, as blocks and `sleep` have them.

/// Units of time and their milliseconds.
pub const TIME_UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Milliseconds of a whole number with a unit; none for anything else.
pub(crate) fn duration_of(word: &str) -> Option<u64> {
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = word.split_at(digits);
    let (_, milliseconds) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*milliseconds)
}

#[cfg(test)]
mod tests {
    use super::duration_of;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        let known = [("7ms", 7), ("10s", 10_000), ("2m", 120_000), ("1h", 3_600_000)];
        for (word, milliseconds) in known {
            assert_eq!(duration_of(word), Some(milliseconds), "{word}");
        }
        assert_eq!(duration_of("3d"), Some(3 * 86_400_000));
        for word in ["", "7", "s", "7 s", "-1s", "1.5h", "7us", "99999999999999999999d"] {
            assert_eq!(duration_of(word), None, "{word}");
        }
    }
}
