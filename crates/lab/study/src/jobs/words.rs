//! Words of fio: times, bytes, sizes with their shares, priorities.

use super::plan::wrong;
use super::spec::JobSpec;
use crate::StudyError;
use ::jobs::{Distribution, Measure, Order, Sizes, SteadyState, Strides, Urgent, ZONES_MAX, Zones};
use process::Class;

/// Nanoseconds of a time with fio's suffixes; a bare number is seconds, as for `runtime` of fio.
pub(super) fn parse_time_ns(key: &str, text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ns: u64 = match &text[digits.len()..] {
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(format!("{key} is `{text}`, but must be a number with us, ms, s, m or h")),
    };
    let number: u64 = digits.parse().map_err(|_| {
        format!("{key} is `{text}`, but must be a whole number with us, ms, s, m or h")
    })?;
    number.checked_mul(unit_ns).ok_or_else(|| format!("{key} is `{text}`, which is too long"))
}

/// Times from one request to the next.
#[derive(Clone, Copy)]
pub(super) enum Intervals {
    /// Of reads and writes alike.
    Same(u64),
    /// Of reads, and of writes.
    OfEach([u64; 2]),
}

/// `rate_interval`: one time, or two with a comma between them.
pub(super) fn intervals_of(text: &str) -> Result<Intervals, String> {
    let time_ns = |text: &str| match parse_time_ns("rate_interval", text)? {
        0 => Err("rate_interval must be above 0".to_owned()),
        interval_ns => Ok(interval_ns),
    };
    match text.split_once(',') {
        None => time_ns(text).map(Intervals::Same),
        Some((reads, writes)) => Ok(Intervals::OfEach([time_ns(reads)?, time_ns(writes)?])),
    }
}

/// Bytes of `key` with fio's suffixes: k, m, g, in powers of 1024.
pub(super) fn parse_bytes(key: &str, text: &str) -> Result<u64, String> {
    let wrong = || format!("{key} is `{text}`, but must be a number with k, m or g");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    // `checked_shl` looks at the shift alone; the way back shows what was lost.
    number
        .checked_shl(shift)
        .filter(|bytes| bytes >> shift == number)
        .ok_or_else(|| format!("{key} is `{text}`, which is too large"))
}

/// The class of a number of `ioprio_set(2)`; none is best effort (`include/uapi/linux/ioprio.h`).
pub(super) fn class_of(place: &str, number: u8) -> Result<Class, StudyError> {
    match number {
        0 | 2 => Ok(Class::BestEffort),
        1 => Ok(Class::RealTime),
        3 => Ok(Class::Idle),
        _ => wrong(place, "prioclass and cmdprio_class must be 0 to 3"),
    }
}

/// Shares of `zoned`: percent of requests and of bytes, with a stroke between them. A size that is left out is what
/// is left.
fn zones_of(text: &str) -> Option<Zones> {
    let mut shares = Vec::new();
    let mut left = 100_u32;
    for part in text.split(':') {
        let (requests, bytes) = part.split_once('/').unwrap_or((part, ""));
        let bytes = if bytes.is_empty() { left } else { bytes.parse().ok()? };
        left = left.checked_sub(bytes)?;
        shares.push((requests.parse().ok()?, bytes));
    }
    Zones::new(&shares)
}

/// How random places are spread.
fn distribution_of(place: &str, text: &str) -> Result<Distribution, StudyError> {
    let (kind, number) = text.split_once(':').unwrap_or((text, ""));
    match (kind, number) {
        ("uniform", "") => Ok(Distribution::Uniform),
        ("zipf", number) => match number.parse() {
            Ok(theta) => Ok(Distribution::Zipf(theta)),
            Err(_) => wrong(place, format!("zipf:{number} needs a number")),
        },
        ("pareto", number) => match number.parse() {
            Ok(share) => Ok(Distribution::Pareto(share)),
            Err(_) => wrong(place, format!("pareto:{number} needs a number")),
        },
        ("zoned", shares) => match zones_of(shares) {
            Some(zones) => Ok(Distribution::Zoned(zones)),
            None => wrong(
                place,
                format!(
                    "zoned:{shares} needs up to {ZONES_MAX} pairs REQUESTS/BYTES in percent, whose requests are 100 together"
                ),
            ),
        },
        _ => wrong(
            place,
            "random_distribution is `uniform`, `zipf:theta`, `pareto:h` or `zoned:REQUESTS/BYTES:...`",
        ),
    }
}

/// What reads and writes each have: the text before the comma, and the one behind it or the same again.
fn by_direction(text: &str) -> [&str; 2] {
    let (reads, writes) = text.split_once(',').unwrap_or((text, text));
    // fio's third one is for trims.
    let writes = writes.split_once(',').map_or(writes, |(writes, _)| writes);
    [reads, if writes.is_empty() { reads } else { writes }]
}

/// Sizes and their percent; those without one share what the others leave (`bssplit_ddir` of fio's options.c).
fn split_of(text: &str) -> Result<Sizes, String> {
    let mut shares: Vec<(u64, Option<u32>)> = Vec::new();
    for part in text.split(':') {
        let (bytes, percent) = part.split_once('/').unwrap_or((part, ""));
        let percent = match percent {
            "" => None,
            given => Some(given.parse().map_err(|_| format!("bssplit: {given} is no percentage"))?),
        };
        shares.push((parse_bytes("bssplit", bytes)?, percent));
    }
    let given = shares.iter().filter_map(|(_, percent)| *percent).fold(0, u32::saturating_add);
    let mut left = 100_u32.saturating_sub(given);
    let mut open = shares.iter().filter(|(_, percent)| percent.is_none()).count() as u32;
    let mut filled = Vec::new();
    for (bytes, percent) in shares {
        let own = percent.unwrap_or_else(|| {
            // What the division leaves over goes to the last of them.
            let own = left / open;
            open -= 1;
            left -= own;
            own
        });
        filled.push((bytes, own));
    }
    Sizes::split(&filled)
        .ok_or_else(|| format!("bssplit: {text}: the percentages must be 100 together"))
}

/// A range of sizes, `4k-64k`.
fn range_of(text: &str) -> Result<Sizes, String> {
    let Some((from, to)) = text.split_once('-') else {
        return Err(format!("bsrange is `{text}`, but must be two sizes, such as 4k-64k"));
    };
    let (from, to) = (parse_bytes("bsrange", from)?, parse_bytes("bsrange", to)?);
    // One size needs no draw, so that such a job has the places of one with `bs`.
    Ok(if from == to { Sizes::One(from) } else { Sizes::Range(from, to) })
}

/// Sizes of reads and of writes. `bs` is the text with the values of the axes in it.
fn sizes_of(spec: &JobSpec, bs: &str) -> Result<[Sizes; 2], String> {
    let given: Vec<&str> =
        [bs, &spec.bsrange, &spec.bssplit].into_iter().filter(|text| !text.is_empty()).collect();
    let [text] = given.as_slice() else {
        return Err("give one of bs, bsrange and bssplit".into());
    };
    let read = |text: &str| {
        if !spec.bssplit.is_empty() {
            split_of(text)
        } else if !spec.bsrange.is_empty() {
            range_of(text)
        } else {
            parse_bytes("bs", text).map(Sizes::One)
        }
    };
    let [reads, writes] = by_direction(text);
    Ok([read(reads)?, read(writes)?])
}

/// The order of a job, and its share of reads; `rw` and `bs` are the texts with the values of the axes in them.
///
/// # Errors
/// Words that do not exist, with a suggestion; sizes that are none.
pub(super) fn order_of(spec: &JobSpec, rw: &str, bs: &str) -> Result<(Order, u32), StudyError> {
    let place = format!("job {}", spec.name);
    let distribution = distribution_of(&place, &spec.random_distribution)?;
    let (is_random, read_percent) = match rw {
        "read" => (false, 100),
        "write" => (false, 0),
        "rw" | "readwrite" => (false, spec.rwmixread),
        "randread" => (true, 100),
        "randwrite" => (true, 0),
        "randrw" => (true, spec.rwmixread),
        _ => {
            let known = ["read", "write", "rw", "randread", "randwrite", "randrw"];
            return Err(StudyError::unknown("rw", rw, known.into_iter()));
        }
    };
    let bytes =
        |key: &str, text: &str| parse_bytes(key, text).or_else(|reason| wrong(&place, reason));
    let sizes = sizes_of(spec, bs).or_else(|reason| wrong(&place, reason))?;
    let grid_bytes = if spec.blockalign.is_empty() {
        [sizes[0].min_bytes(), sizes[1].min_bytes()]
    } else {
        let [reads, writes] = by_direction(&spec.blockalign);
        [bytes("blockalign", reads)?, bytes("blockalign", writes)?]
    };
    let strides = match (spec.zonesize.as_str(), spec.zonerange.as_str(), spec.zoneskip.as_str()) {
        ("", "", "") => None,
        ("", ..) => return wrong(&place, "zonerange and zoneskip need zonesize"),
        (moved, part, skip) => Some(Strides {
            moved_bytes: bytes("zonesize", moved)?,
            // As in fio: the whole of a zone is moved before the next one.
            part_bytes: bytes("zonerange", if part.is_empty() { moved } else { part })?,
            skip_bytes: if skip.is_empty() { 0 } else { bytes("zoneskip", skip)? },
        }),
    };
    let order = Order {
        random_percent: if is_random { spec.percentage_random } else { 0 },
        distribution,
        sizes,
        grid_bytes,
        gap_bytes: spec.gap_bytes,
        has_map: spec.random_map && is_random,
        strides,
    };
    Ok((order, read_percent))
}

/// Requests with a priority of their own: reads, and writes.
///
/// # Errors
/// Two ways to name them; text that is none.
pub(super) fn urgent_of(spec: &JobSpec) -> Result<[Vec<Urgent>; 2], StudyError> {
    let place = format!("job {}", spec.name);
    let class = class_of(&place, spec.cmdprio_class)?;
    let level = spec.cmdprio;
    match (spec.cmdprio_percentage, spec.cmdprio_bssplit.as_str()) {
        (None, "") => Ok(Default::default()),
        (Some(percent), "") => {
            Ok(percent.map(|percent| vec![Urgent { bytes: None, percent, class, level }]))
        }
        (None, text) => {
            let [reads, writes] = by_direction(text).map(|text| -> Result<Vec<Urgent>, String> {
                text.split(':').map(|part| urgent_of_size(part, class, level)).collect()
            });
            let or_wrong = |found: Result<_, String>| found.or_else(|reason| wrong(&place, reason));
            Ok([or_wrong(reads)?, or_wrong(writes)?])
        }
        _ => wrong(&place, "cmdprio_percentage and cmdprio_bssplit exclude each other"),
    }
}

/// `SIZE/PERCENT` or `SIZE/PERCENT/CLASS/LEVEL`.
fn urgent_of_size(text: &str, class: Class, level: u8) -> Result<Urgent, String> {
    let fault = || {
        format!(
            "cmdprio_bssplit has `{text}`, but needs SIZE/PERCENT or SIZE/PERCENT/CLASS/LEVEL, with class 1 to 3"
        )
    };
    let parts: Vec<&str> = text.split('/').collect();
    let (class, level) = match parts.as_slice() {
        [_, _] => (class, level),
        [_, _, class, level] => {
            let number = class.parse().map_err(|_| fault())?;
            let class = class_of("", number).map_err(|_| fault())?;
            (class, level.parse().map_err(|_| fault())?)
        }
        _ => return Err(fault()),
    };
    Ok(Urgent {
        bytes: Some(parse_bytes("cmdprio_bssplit", parts[0])?),
        percent: parts[1].parse().map_err(|_| fault())?,
        class,
        level,
    })
}

/// When the job is steady; none if it does not end by that.
///
/// # Errors
/// Words that do not exist, with a suggestion; limits that are none.
pub(super) fn steady_of(spec: &JobSpec) -> Result<Option<SteadyState>, StudyError> {
    if spec.steadystate.is_empty() {
        return Ok(None);
    }
    let (kind, limit) = spec.steadystate.split_once(':').unwrap_or((&spec.steadystate, ""));
    let (measure, is_slope) = match kind {
        "iops" => (Measure::Requests, false),
        "iops_slope" => (Measure::Requests, true),
        "bw" => (Measure::Bytes, false),
        "bw_slope" => (Measure::Bytes, true),
        other => {
            let known = ["bw", "bw_slope", "iops", "iops_slope"];
            return Err(StudyError::unknown("steadystate", other, known.into_iter()));
        }
    };
    // A limit of 0 would never be met: fio compares with "less than".
    let number = limit.strip_suffix('%').unwrap_or(limit);
    let Some(limit_found) = number.parse().ok().filter(|limit: &f64| *limit > 0.0) else {
        let reason = format!("steadystate needs a limit above 0, such as {kind}:10%");
        return wrong(&format!("job {}", spec.name), reason);
    };
    Ok(Some(SteadyState {
        measure,
        is_slope,
        limit: limit_found,
        is_percent: limit.ends_with('%'),
        window_s: spec.ss_dur_s,
        ramp_s: spec.ss_ramp_s,
        is_shared: spec.ss_of_group,
    }))
}
