//! Golden scenarios, by label: small inputs whose output can be worked out by hand.
//!
//! Each file of `data/scenarios` holds the scenarios of one scheduler. A line of `requests` reads
//!
//! ```text
//! NAME OP SECTOR[+SECTORS] [at=MS] [pid=N] [sync=0|1] [noidle] [class=rt|be|idle] [level=N]
//!      [count=N] [stride=SECTORS] [think=MS]
//! ```
//!
//! OP is R or W; reads and, unless `sync=1`, writes are what they are by default: synchronous and
//! asynchronous. Without `at` it arrives at 0, without `pid` every line is a process of its own,
//! numbered from 1. `count` makes NAME1, NAME2 …, `stride` sectors apart (default: touching), all
//! at once, or with `think` each so long after the completion of the one before. `exit PID at=MS`
//! ends a process. `expect` lists what is dispatched, in order: `NAME@MS` with its time, `NAME`
//! without; `A1..A24@0..115` stands for names and times evenly spaced; `...` ends the comparison.
//! A request made of several bios is written `NAME+NAME` in the order of sectors.
//!
//! Time is in milliseconds, one request is with the device at a time and takes `service_ms`;
//! everything that arrives at one time is inserted before the first is dispatched, after
//! completions and timers of that time. Nothing is merged unless `merging = true`.

use libtest_mimic::{Failed, Trial};
use sched::replay::{Arrival, Event, Order, When, replay};
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, Value, find_scheduler};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

const MILLISECOND_NS: f64 = 1_000_000.0;

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    label: String,
    /// What a reader should know: how sure the expectation is, or why it is another one than printed.
    #[serde(default)]
    note: String,
    schedulers: Vec<String>,
    #[serde(default)]
    set: BTreeMap<String, toml::Value>,
    #[serde(default = "five")]
    service_ms: f64,
    #[serde(default = "one")]
    queue_depth: u32,
    #[serde(default = "thousand")]
    hz: u32,
    #[serde(default)]
    nonrot: bool,
    #[serde(default)]
    merging: bool,
    #[serde(default = "kilo")]
    max_sectors: u32,
    #[serde(default)]
    end_sector: u64,
    requests: String,
    expect: String,
}

#[derive(Deserialize)]
struct ScenarioFile {
    scenario: Vec<Scenario>,
}

const fn one() -> u32 {
    1
}
const fn five() -> f64 {
    5.0
}
const fn thousand() -> u32 {
    1000
}
const fn kilo() -> u32 {
    1024
}

pub(crate) fn trials() -> Vec<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the scenarios are there")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    files.sort();
    let mut trials = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let read: ScenarioFile =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for scenario in read.scenario {
            for scheduler in scenario.schedulers.clone() {
                let scenario = scenario.clone();
                let name = format!("{} {scheduler}", scenario.label);
                trials.push(Trial::test(name, move || check(&scenario, &scheduler)));
            }
        }
    }
    trials
}

fn check(scenario: &Scenario, scheduler: &str) -> Result<(), Failed> {
    let entry = find_scheduler(scheduler).ok_or_else(|| format!("no scheduler `{scheduler}`"))?;
    let given = scenario.set.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), Value::from(text.as_str()))
    });
    let settings = entry.settings(&given.collect())?;
    let options = ElevatorOptions {
        hz: scenario.hz,
        rotational: !scenario.nonrot,
        max_sectors: scenario.max_sectors,
        merging: scenario.merging,
        ..ElevatorOptions::default()
    };
    let mut elevator = Elevator::new(entry, &settings, options);
    elevator.queue_mut().set_end_sector(scenario.end_sector);
    let input = read_requests(&scenario.requests)?;
    let service_ns = (scenario.service_ms * MILLISECOND_NS) as u64;
    let outcome = replay(
        &mut elevator,
        &input.arrivals,
        scenario.queue_depth,
        Order::BatchedLast,
        &mut |now_ns, _| now_ns + service_ns,
    );
    let done: Vec<(String, f64)> = outcome
        .dispatched
        .iter()
        .map(|request| {
            let names: Vec<&str> =
                request.arrivals.iter().map(|place| input.names[*place].as_str()).collect();
            (names.join("+"), request.dispatch_ns as f64 / MILLISECOND_NS)
        })
        .collect();
    compare(&scenario.expect, &done)
        .map_err(|reason| format!("{reason}\ndone: {}\n{}", show(&done), scenario.note).into())
}

struct Input {
    arrivals: Vec<Arrival>,
    names: Vec<String>,
}

fn read_requests(text: &str) -> Result<Input, Failed> {
    let mut input = Input { arrivals: Vec::new(), names: Vec::new() };
    for (line, number) in text.lines().map(str::trim).filter(|line| !line.is_empty()).zip(1..) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value =
            |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let milliseconds = |key: &str| -> Result<Option<u64>, Failed> {
            let parsed = value(key).map(str::parse::<f64>).transpose()?;
            Ok(parsed.map(|ms| (ms * MILLISECOND_NS) as u64))
        };
        let at_ns = milliseconds("at")?.unwrap_or(0);
        if words[0] == "exit" {
            let event = Event::Exit(words[1].parse()?);
            input.arrivals.push(Arrival { event, when: When::At(at_ns) });
            input.names.push(line.to_owned());
            continue;
        }
        let [name, operation, place, ..] = words.as_slice() else {
            return Err(format!("`{line}` is no request").into());
        };
        let (sector, sectors) = place.split_once('+').unwrap_or((place, "8"));
        let (sector, sectors): (u64, u32) = (sector.parse()?, sectors.parse()?);
        let direction = if *operation == "R" { Direction::Read } else { Direction::Write };
        let stride: u64 =
            value("stride").map(str::parse).transpose()?.unwrap_or(u64::from(sectors));
        let think_ns = milliseconds("think")?;
        let count: usize = value("count").map(str::parse).transpose()?.unwrap_or(1);
        for place in 0..count {
            let bio = Bio {
                pid: value("pid").map(str::parse).transpose()?.unwrap_or(number),
                direction,
                sync: value("sync").map_or(direction == Direction::Read, |sync| sync == "1"),
                noidle: words.contains(&"noidle"),
                class: match value("class") {
                    Some("rt") => Class::RealTime,
                    Some("idle") => Class::Idle,
                    _ => Class::BestEffort,
                },
                level: value("level").map(str::parse).transpose()?.unwrap_or(4),
                sector: sector + place as u64 * stride,
                sectors,
            };
            let when = match think_ns {
                Some(think_ns) if place > 0 => {
                    When::After { arrival: input.arrivals.len() - 1, think_ns }
                }
                _ => When::At(at_ns),
            };
            input.arrivals.push(Arrival { event: Event::Submit(bio), when });
            let suffix =
                if value("count").is_some() { (place + 1).to_string() } else { String::new() };
            input.names.push(format!("{name}{suffix}"));
        }
    }
    Ok(input)
}

/// A name and, if it is stated, the time in milliseconds.
type Expected = (String, Option<f64>);

/// Names and times expected, and whether there may be more.
fn read_expected(text: &str) -> Result<(Vec<Expected>, bool), Failed> {
    let mut expected = Vec::new();
    for word in text.split_whitespace() {
        if word == "..." {
            return Ok((expected, true));
        }
        let (names, times) = word.split_once('@').map_or((word, None), |(n, t)| (n, Some(t)));
        let Some((first, last)) = names.split_once("..") else {
            expected.push((names.to_owned(), times.map(str::parse).transpose()?));
            continue;
        };
        let digits = first.find(|c: char| c.is_ascii_digit()).ok_or("a range needs numbers")?;
        let (stem, from) = (&first[..digits], first[digits..].parse::<u32>()?);
        let to = last.trim_start_matches(stem).parse::<u32>()?;
        let steps = f64::from(to - from).max(1.0);
        let (start, end) = match times {
            Some(times) => {
                let (start, end) = times.split_once("..").ok_or("a range needs two times")?;
                (Some(start.parse::<f64>()?), end.parse::<f64>()?)
            }
            None => (None, 0.0),
        };
        for number in from..=to {
            let share = f64::from(number - from) / steps;
            let time = start.map(|start| start + (end - start) * share);
            expected.push((format!("{stem}{number}"), time));
        }
    }
    Ok((expected, false))
}

fn compare(expect: &str, done: &[(String, f64)]) -> Result<(), String> {
    let (expected, open) = read_expected(expect).map_err(|error| format!("{error:?}"))?;
    for (place, (name, time)) in expected.iter().enumerate() {
        let Some((found, found_ms)) = done.get(place) else {
            return Err(format!("{name} is missing"));
        };
        let is_late = time.is_some_and(|time| (time - found_ms).abs() > 1e-6);
        if found != name || is_late {
            return Err(format!(
                "place {place}: {name}@{time:?} expected, {found}@{found_ms} found"
            ));
        }
    }
    if !open && done.len() > expected.len() {
        return Err(format!("{} was not expected", done[expected.len()].0));
    }
    Ok(())
}

fn show(done: &[(String, f64)]) -> String {
    done.iter().map(|(name, time)| format!("{name}@{time}")).collect::<Vec<_>>().join(" ")
}
