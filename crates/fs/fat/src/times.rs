//! Times as directory entries keep them: two seconds fine, from 1980 to 2107.
//!
//! Source: `fat_time_fat2unix` and `fat_time_unix2fat` of `fs/fat/misc.c`, with `tz=UTC`.
//!
//! May use no other file of the crate.

use fs_api::Time;

const DAY_S: i64 = 86_400;
/// The earliest time that fits: 1980-01-01.
const FIRST_S: i64 = 315_532_800;
/// The latest time that fits: 2107-12-31 23:59:58.
const LAST_S: i64 = 4_354_819_198;

/// Day number since 1970 of a date, by the rule of the Gregorian calendar.
fn day_of(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a day number.
fn date_of(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day - era * 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Date and time words of a directory entry.
pub(crate) fn encode(time: Time) -> (u16, u16) {
    let seconds = time.seconds.clamp(FIRST_S, LAST_S);
    let (year, month, day) = date_of(seconds.div_euclid(DAY_S));
    let of_day = seconds.rem_euclid(DAY_S);
    let date = (year - 1980) << 9 | month << 5 | day;
    let time = (of_day / 3600) << 11 | (of_day / 60 % 60) << 5 | (of_day % 60 / 2);
    (date as u16, time as u16)
}

/// The time of the words of a directory entry; whatever they hold makes some time.
pub(crate) fn decode(date: u16, time: u16) -> Time {
    let (date, time) = (i64::from(date), i64::from(time));
    // Media hold zeros for a day that was never set; the kernel takes them for the first as well
    // (`fat_time_fat2unix`).
    let (month, day) = ((date >> 5 & 15).max(1), (date & 31).max(1));
    let days = day_of(1980 + (date >> 9), month, day);
    let of_day = (time >> 11) * 3600 + (time >> 5 & 63) * 60 + (time & 31) * 2;
    Time::from_seconds(days * DAY_S + of_day)
}

/// A time as it is after it was written and read again.
pub(crate) fn truncated(time: Time) -> Time {
    let (date, time) = encode(time);
    decode(date, time)
}

/// The same of a time of last access, of which only the day is kept.
pub(crate) fn truncated_to_day(time: Time) -> Time {
    decode(encode(time).0, 0)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode, truncated, truncated_to_day};
    use fs_api::Time;

    #[test]
    fn times_keep_two_seconds() {
        // 2023-11-14 22:13:20.
        let time = Time { seconds: 1_700_000_001, nanoseconds: 5 };
        assert_eq!(truncated(time), Time::from_seconds(1_700_000_000));
        assert_eq!(truncated_to_day(time), Time::from_seconds(1_699_920_000));
        assert_eq!(encode(time), ((43 << 9) + (11 << 5) + 14, (22 << 11) + (13 << 5) + 10));
    }

    #[test]
    fn every_day_comes_back() {
        for day in 3652..50_000 {
            let time = Time::from_seconds(day * 86_400 + 4242);
            assert_eq!(truncated(time), time);
        }
        assert_eq!(truncated(Time::default()), Time::from_seconds(315_532_800));
        assert_eq!(decode(0, 0), Time::from_seconds(315_532_800));
        let _ = decode(u16::MAX, u16::MAX);
    }
}
