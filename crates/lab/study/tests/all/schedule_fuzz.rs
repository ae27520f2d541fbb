//! Damaged tables of requests and of recorded events: whatever the text, `schedule` answers or
//! refuses, soon and in bounds.
//!
//! Good tables are mutated by a seeded generator, so a failure can be repeated: the message names
//! the iteration. `NANDLAB_FUZZ_SECONDS` sets the processor time spent, 5 by default.
#![allow(clippy::disallowed_methods, reason = "the time to spend is the reader's choice")]
#![allow(clippy::print_stdout, reason = "the number of iterations is the point")]

use crate::processor_time::Stopwatch;
use nand::random::Stream;
use std::fmt::Write as _;
use std::time::Duration;
use study::{ScheduleOptions, schedule, schedule_events};

/// No table may take longer, in processor time.
const LONGEST: Duration = Duration::from_secs(20);

/// Numbers at which arithmetic tends to fail, and words of the format.
const VALUES: [&str; 18] = [
    "0",
    "1",
    "-1",
    "8",
    "1024",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9223372036854775807",
    "18446744073709551615",
    "1e9",
    "0.5",
    "",
    "X",
    "W",
    "R",
];

fn requests(draw: &mut Stream) -> String {
    let mut text = String::from("time_us,pid,op,sync,sector,sectors\n");
    let mut time_us = 0;
    for _ in 0..=draw.below(40) {
        time_us += draw.below(20_000);
        let pid = 1 + draw.below(4);
        let _ = match draw.below(20) {
            0 => writeln!(text, "{time_us},{pid},X,0,0,0"),
            kind => {
                let op = if kind % 2 == 0 { "R" } else { "W" };
                let (sync, sector) = (draw.below(2), draw.below(1000) * 8);
                writeln!(text, "{time_us},{pid},{op},{sync},{sector},8")
            }
        };
    }
    text
}

/// A recording of a queue that is NOOP's.
fn events(draw: &mut Stream) -> String {
    let mut text =
        String::from("time_us,event,id,pid,op,sync,sector,sectors,absorbed,place,mergeable,zone\n");
    for number in 0..=draw.below(20) {
        let (at, sector) = (number * 1000, draw.below(1 << 20) * 8);
        let pid = 1 + draw.below(4);
        if draw.below(4) == 0 {
            // A neighbour that was there, one that comes, and the two that are joined.
            let (behind, end) = (sector + 8, sector + 16);
            let _ = writeln!(text, "{at},insert,s{number},{pid},W,0,{behind},8,,,1,");
            let _ = writeln!(text, "{at},insert,r{number},{pid},W,0,{sector},8,,,,7");
            let _ = writeln!(text, "{at},join,s{number},{pid},W,0,{end},8,,,,");
            let _ = writeln!(text, "{at},absorb,r{number},,,,,,s{number},,,");
        } else {
            let _ = writeln!(text, "{at},insert,r{number},{pid},R,1,{sector},8,,,,");
        }
        let _ = writeln!(text, "{at},dispatch,r{number},,,,,,,,,");
        if draw.below(3) == 0 {
            let _ = writeln!(text, "{at},requeue,r{number},,,,,,,head,,");
            let _ = writeln!(text, "{at},dispatch,r{number},,,,,,,,,");
        }
        let _ = writeln!(text, "{},complete,r{number},,,,,,,,,", at + 500);
    }
    text
}

fn mutate(text: &str, draw: &mut Stream) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return String::new();
    }
    let count = lines.len() as u32;
    let line = draw.below(count) as usize;
    match draw.below(8) {
        0 => drop(lines.remove(line)),
        1 => lines.swap(line, draw.below(count) as usize),
        2 => {
            let cut = draw.below(lines[line].len() as u32 + 1) as usize;
            lines[line].truncate(cut);
        }
        _ => {
            let mut cells: Vec<&str> = lines[line].split(',').collect();
            let cell = draw.below(cells.len() as u32) as usize;
            cells[cell] = VALUES[draw.below(VALUES.len() as u32) as usize];
            lines[line] = cells.join(",");
        }
    }
    lines.join("\n")
}

fn options(draw: &mut Stream) -> ScheduleOptions {
    let names: Vec<&str> = sched::scheduler_names().collect();
    let pick = |draw: &mut Stream, words: &[&str]| {
        words[draw.below(words.len() as u32) as usize].to_owned()
    };
    ScheduleOptions {
        scheduler: pick(draw, &names),
        hz: [100, 250, 300, 1000][draw.below(4) as usize],
        service_us: u64::from(draw.below(3)) * 700,
        device: (draw.below(8) == 0).then(|| pick(draw, &["emmc-4.5-64gb", "disk-7200"])),
        queue_depth: (draw.below(2) == 0).then(|| 1 + draw.below(8)),
        plug: pick(draw, &["none", "queue", "task"]),
        nonrot: draw.below(2) == 0,
        sync_write_noidle: draw.below(2) == 0,
        harness: pick(draw, &["kernel", "scenario"]),
        ..ScheduleOptions::default()
    }
}

#[test]
fn damaged_tables_are_refused_or_answered() {
    let seconds =
        std::env::var("NANDLAB_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
    let (begun, seconds) = (Stopwatch::of_thread(), Duration::from_secs(seconds));
    let (mut iterations, mut accepted) = (0_u64, 0_u64);
    while begun.elapsed() < seconds {
        let mut draw = Stream::new(iterations, "schedule fuzz");
        let is_recording = draw.below(3) == 0;
        let mut text = if is_recording { events(&mut draw) } else { requests(&mut draw) };
        for _ in 0..draw.below(4) {
            text = mutate(&text, &mut draw);
        }
        let options = options(&mut draw);
        let started = Stopwatch::of_thread();
        let outcome = std::panic::catch_unwind(|| {
            if is_recording {
                schedule_events("fuzzed.csv", &text, &options)
            } else {
                schedule("fuzzed.csv", &text, &options)
            }
        });
        let Ok(outcome) = outcome else {
            panic!("iteration {iterations} panicked on {options:?} and:\n{text}")
        };
        if let Err(error) = &outcome {
            assert!(!error.to_string().is_empty());
        }
        assert!(
            started.elapsed() < LONGEST,
            "iteration {iterations} took {:?} on {options:?} and:\n{text}",
            started.elapsed()
        );
        accepted += u64::from(outcome.is_ok());
        iterations += 1;
    }
    println!("{iterations} tables, {accepted} of them accepted");
    assert!(iterations < 100 || accepted > iterations / 10, "{accepted} of {iterations} accepted");
}
