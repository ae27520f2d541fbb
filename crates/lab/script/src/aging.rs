//! Durations and temperatures of `age`.

/// The temperature at which parts state their retention, in degrees Celsius (JESD218).
pub(crate) const RATED_CELSIUS: i32 = 40;

/// Lowest and highest temperature: that of industrial parts, and that of a bake.
const CELSIUS: std::ops::RangeInclusive<i32> = -40..=150;

const DAY_MS: u64 = 86_400_000;

// A Julian year has 365.25 days, as in the error model of the chip.
const YEAR_MS: u64 = 31_557_600_000;

/// Units of `age` and their milliseconds: those of blocks, and the words for them.
const UNITS: [(&str, u64); 18] = [
    ("ms", 1),
    ("s", 1000),
    ("second", 1000),
    ("seconds", 1000),
    ("m", 60_000),
    ("min", 60_000),
    ("minute", 60_000),
    ("minutes", 60_000),
    ("h", 3_600_000),
    ("hour", 3_600_000),
    ("hours", 3_600_000),
    ("d", DAY_MS),
    ("day", DAY_MS),
    ("days", DAY_MS),
    ("week", 7 * DAY_MS),
    ("weeks", 7 * DAY_MS),
    ("year", YEAR_MS),
    ("years", YEAR_MS),
];

/// Milliseconds of a whole number of a unit.
pub(crate) fn aged_milliseconds(number: &str, unit: &str) -> Result<u64, String> {
    let Some((_, milliseconds)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        // A word of one letter is near to every other.
        let names = UNITS.iter().map(|(name, _)| *name).filter(|name| name.len() > 2);
        let hint = suggestion::hint(unit, names);
        return Err(format!(
            "the unit is `{unit}`, but must be ms, s, min, h, days, weeks or years{hint}"
        ));
    };
    let wrong = || format!("the duration is `{number}` {unit}, but must be a smaller whole number");
    let duration = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*milliseconds));
    duration.ok_or_else(wrong)
}

/// Degrees Celsius of a word such as `55C`.
pub(crate) fn celsius_of(word: &str) -> Result<i32, String> {
    let degrees = word.strip_suffix('C').and_then(|number| number.parse().ok());
    degrees.filter(|celsius| CELSIUS.contains(celsius)).ok_or_else(|| {
        let (low, high) = (CELSIUS.start(), CELSIUS.end());
        let hint = match word.parse::<i32>() {
            Ok(number) => format!("; did you mean `{number}C`?"),
            Err(_) => String::new(),
        };
        format!("the temperature is `{word}`, but must be {low}C to {high}C, a whole number{hint}")
    })
}

#[cfg(test)]
mod tests {
    use crate::{ControlLine, Step, parse};

    fn aged(text: &str) -> (u64, i32) {
        let script = parse(text).expect("a script");
        match script.samples().next().expect("a line").step {
            Step::Control(ControlLine::Age { milliseconds, celsius }) => (milliseconds, celsius),
            step => panic!("{step:?}"),
        }
    }

    fn refused(text: &str) -> String {
        parse(text).expect_err("refused").to_string()
    }

    #[test]
    fn durations_and_temperatures_are_written_as_users_write_them() {
        assert_eq!(aged("age 3 years at 55C"), (3 * 31_557_600_000, 55));
        assert_eq!(aged("age 90d"), (90 * 86_400_000, 40));
        assert_eq!(aged("age 2 days at -20C"), (2 * 86_400_000, -20));
        assert_eq!(aged("age 5min"), (300_000, 40));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_what_may_be_meant() {
        let unit = refused("sync\nage 3 yeers at 55C");
        assert!(unit.starts_with("line 2, column 7: the unit is `yeers`"), "{unit}");
        assert!(unit.ends_with("did you mean `years`?"), "{unit}");
        let kelvin = refused("age 3 years at 328K");
        assert!(kelvin.starts_with("line 1, column 16: the temperature is `328K`"), "{kelvin}");
        assert!(refused("age 3 years at 55").ends_with("did you mean `55C`?"));
        assert!(refused("age 3 years at 200C").contains("-40C to 150C"));
        assert!(refused("age 99999999999999 years").contains("a smaller whole number"));
        assert!(refused("age 3").contains("the unit of the duration is missing"));
        assert!(refused("age 3 years in 55C").contains("where `at` must"));
        assert!(refused("wear often").contains("the number of cycles"));
        assert!(refused("concurrent {\nage 3 years\n}").contains("makes system calls and sleeps"));
    }
}
