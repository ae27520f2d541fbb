//! Damaged traces: whatever the bytes, a reader ends with records or an error, soon and in bounds.
//!
//! The samples of every format are mutated by a seeded generator, so a failure can be repeated:
//! the message names the iteration. `NANDLAB_FUZZ_SECONDS` sets the processor time spent, 10 by default.
#![allow(clippy::disallowed_methods, reason = "the time to spend is the reader's choice")]
#![allow(clippy::print_stdout, reason = "the number of iterations is the point")]

#[path = "all/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use support::processor_time::Stopwatch;
use support::{Random, directory, file, sample};
use trace::{Columns, Event, FORMATS, Options, TimeUnit, convert};

/// Larger seeds would leave few iterations.
const SEED_BYTES_MAX: usize = 40_000;

/// No damaged sample may take longer to read, in processor time.
const LONGEST: Duration = Duration::from_secs(20);

/// All iterations together may not use more memory than this.
const MEMORY_KIB_MAX: u64 = 512 * 1024;

/// Numbers at which arithmetic tends to fail.
const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "1e9",
    "0.0000000000000000000001",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "36028797018963967",
    "99999999999999999999999999",
];

/// The samples, plain, and some of them compressed and as Parquet.
fn seeds(directory: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> =
        fs::read_dir(sample("")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut seeds = Vec::new();
    for path in &paths {
        let content = fs::read(path).unwrap();
        if content.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(content.as_slice());
            std::io::Read::read_to_end(&mut decoder, &mut plain).unwrap();
            plain.truncate(SEED_BYTES_MAX);
            seeds.push(plain);
        }
        seeds.push(content);
        let output = directory.join("seed.parquet");
        let time_unit = path.ends_with("sample.mqsim").then_some(TimeUnit::Nanoseconds);
        let options = Options { time_unit, ..Options::default() };
        convert(path, &options, &output, &std::collections::BTreeMap::new()).unwrap();
        seeds.push(fs::read(&output).unwrap());
    }
    let text = fs::read(sample("sample.spc")).unwrap();
    seeds.push(zstd::encode_all(text.as_slice(), 3).unwrap());
    seeds
}

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let position = random.below(bytes.len());
    match random.below(7) {
        0 => bytes[position] ^= 1 << random.below(8),
        1 => bytes[position] = random.byte(),
        2 => bytes.truncate(position),
        3 => {
            let other = &seeds[random.below(seeds.len())];
            let start = random.below(other.len());
            let piece = &other[start..other.len().min(start + 200)];
            bytes.splice(position..position, piece.iter().copied());
        }
        4 => {
            let end = bytes.len().min(position + random.below(50) + 1);
            bytes.drain(position..end);
        }
        5 => replace_number(bytes, position, NUMBERS[random.below(NUMBERS.len())]),
        // Bytes of a binary number at its limits.
        _ => bytes.iter_mut().skip(position).take(8).for_each(|byte| *byte = 0xff),
    }
}

/// Replaces the digits at or after a position.
fn replace_number(bytes: &mut Vec<u8>, position: usize, number: &str) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = bytes.iter().skip(position).position(is_digit) else { return };
    let start = position + start;
    let length = bytes[start..].iter().take_while(|byte| is_digit(byte)).count();
    bytes.splice(start..start + length, number.bytes());
}

fn any_options(random: &mut Random) -> Options {
    let units = [TimeUnit::Picoseconds, TimeUnit::Nanoseconds, TimeUnit::Microseconds];
    let is_named = random.below(8) == 0;
    Options {
        format: is_named.then(|| FORMATS[random.below(FORMATS.len())].name.to_owned()),
        time_unit: (random.below(4) == 0).then(|| units[random.below(3)]),
        event: if random.below(3) == 0 { Event::Queue } else { Event::Issue },
        skip_bad_lines: random.below(2) == 0,
        device: (random.below(8) == 0).then_some(0),
    }
}

/// Reads as a caller would; returns the number of records before the end or the error.
fn read_through(path: &Path, options: &Options, by_columns: bool) -> Result<u64, String> {
    let mut reader = trace::open(path, options).map_err(|error| error.to_string())?;
    if !by_columns {
        return trace::summarise(&mut reader)
            .map(|summary| summary.records)
            .map_err(|error| error.to_string());
    }
    let mut reader = reader.into_columns().map_err(|error| error.to_string())?;
    let (mut columns, mut count) = (Columns::default(), 0);
    while reader.next_columns(&mut columns).map_err(|error| error.to_string())? {
        count += columns.len() as u64;
    }
    Ok(count)
}

/// The largest memory this process has used, where the system tells.
fn peak_memory_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn damaged_traces_neither_panic_nor_hang() {
    let seconds = std::env::var("NANDLAB_FUZZ_SECONDS")
        .map_or(10, |text| text.parse().expect("NANDLAB_FUZZ_SECONDS is a number of seconds"));
    let directory = directory("fuzz");
    let seeds = seeds(&directory);
    let mut random = Random::new(20_251_120);
    let (start, mut iterations, mut complete) = (Stopwatch::of_process(), 0_u64, 0_u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(6) {
            mutate(&mut bytes, &seeds, &mut random);
        }
        let (options, by_columns) = (any_options(&mut random), random.below(2) == 0);
        let path = file(&directory, "trace", &bytes);
        let begun = Stopwatch::of_process();
        let outcome = std::panic::catch_unwind(|| read_through(&path, &options, by_columns));
        let outcome = outcome.unwrap_or_else(|_| panic!("iteration {iterations}: {options:?}"));
        assert!(begun.elapsed() < LONGEST, "iteration {iterations} took {:?}", begun.elapsed());
        complete += u64::from(outcome.is_ok());
        iterations += 1;
    }
    let memory = peak_memory_kib().unwrap_or(0);
    println!("{iterations} iterations, {complete} of them read to the end, {memory} KiB at most");
    assert!(memory < MEMORY_KIB_MAX, "{memory} KiB");
}
