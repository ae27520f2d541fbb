//! Dispatch calls of BFQ, SFQ and SFQ2 in running kernels: each request that they chose must be chosen here.
//!
//! `data/bfq-decisions` holds what the recorder of `kernel/sfq/tests` saw, `data/sfq2-decisions` and
//! `data/kind-decisions` what the modules themselves did; their READMEs say how they were made. Calls are compared up to the first one that is decided
//! otherwise: from there on two histories have parted. Which recordings part, and what decided it, is listed.

use libtest_mimic::{Failed, Trial};
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, Joins, Value, find_scheduler};
use std::collections::BTreeMap;
use std::path::Path;

/// Workloads recorded of each kernel.
const WORKLOADS: usize = 22;

/// The least share of all dispatch calls of a kernel that must be alike.
// What the change log says of BFQ. 97.2 % are alike on 6.1, 99.3 % on 6.12.
const LEAST_ALIKE: f64 = 0.97;

/// Recordings that part from what is decided here, the line at which they do, and the reason.
const PARTED: &[(&str, &str, usize, &str)] = &[
    ("bfq", "6.1-15", 400, "a turn ends with its tick, which the kernel counted 27 us later"),
    (
        "bfq",
        "6.12-19",
        1083,
        "a budget of 127 sectors is what a charge for time, in milliseconds, left over",
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |scheduler: &'static str, series: &'static str| {
        Trial::test(format!("{scheduler} decides as Linux {series} does"), move || {
            check(scheduler, series)
        })
    };
    let pairs = ["bfq", "sfq2"].into_iter().flat_map(|name| [(name, "6.1"), (name, "6.12")]);
    pairs.map(|(scheduler, series)| trial(scheduler, series)).chain(kinds()).collect()
}

/// Recordings of what plain reads and writes do not show, by the kind of their workloads.
const KINDS_FOLDER: &str = "kind-decisions";

/// Replays the recordings of `data/kind-decisions`, which are named by series, kind and scheduler.
fn kinds() -> Vec<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(KINDS_FOLDER);
    let entries = std::fs::read_dir(folder).expect("the folder of the recordings");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let recordings =
        paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "txt"));
    let mut trials = Vec::new();
    for path in recordings {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (name, of) = (stem.clone(), path.clone());
        trials
            .push(Trial::test(format!("{stem} is decided alike"), move || check_kind(&name, &of)));
        trials.push(Trial::test(format!("{stem} shows a wrong answer"), move || {
            check_wrong(&stem, &path)
        }));
    }
    trials
}

/// What makes a kind of recordings what it is, and what stands there instead in a wrong one. A `\n` is the line's begin.
const WRONG: &[(&str, &str, &str)] = &[
    // The request that is gone would be sent, and the one that comes back would still be with the driver.
    ("joined", "\na ", ""),
    ("returned", "\nr ", ""),
    ("flushed", " place=head", " "),
    ("zones", " zone=", " nowhere="),
];

/// A recording without its kind's events must be decided otherwise.
fn check_wrong(stem: &str, path: &Path) -> Result<(), Failed> {
    let mut words = stem.splitn(3, '-').skip(1);
    let (kind, scheduler) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let text = std::fs::read_to_string(path)?;
    for (_, event, instead) in WRONG.iter().filter(|(of, ..)| *of == kind) {
        let mut wrong = String::new();
        for line in text.lines() {
            let begun = format!("\n{line}");
            // What a kernel does not show (see `kernel_kinds.py`) cannot be wrong.
            if !begun.contains(event) {
                wrong += line;
                wrong.push('\n');
            } else if !event.starts_with('\n') {
                wrong += &line.replace(event, instead);
                wrong.push('\n');
            }
        }
        if wrong != text
            && follow(&wrong, scheduler).is_ok_and(|followed| followed.parted.is_none())
        {
            return Err(format!("nothing differs without `{}`", event.trim()).into());
        }
    }
    Ok(())
}

fn check_kind(stem: &str, path: &Path) -> Result<(), Failed> {
    let scheduler = stem.split('-').nth(2).ok_or("a name says series, kind and scheduler")?;
    let followed = follow(&std::fs::read_to_string(path)?, scheduler)?;
    match followed.parted {
        Some((line, reason)) => Err(format!("parts at line {line}: {reason}").into()),
        // The beginning of a workload with deep queues is mostly inserts.
        None if followed.calls < 50 => Err(format!("only {} calls", followed.calls).into()),
        None => Ok(()),
    }
}

fn check(scheduler: &str, series: &str) -> Result<(), Failed> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let folder = data.join(format!("{scheduler}-decisions"));
    // There is one SFQ2 for all kernels.
    let simulated =
        if scheduler == "sfq2" { scheduler.to_owned() } else { format!("{scheduler}-{series}") };
    let mut names: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let stem = name.strip_suffix(".txt").unwrap_or_default();
        if stem.rsplit_once('-').is_some_and(|(found, _)| found == series) {
            names.push(stem.to_owned());
        }
    }
    names.sort();
    if names.len() != WORKLOADS {
        return Err(format!("{} recordings of {series}", names.len()).into());
    }
    let (mut alike, mut calls) = (0, 0);
    for name in names {
        let text = std::fs::read_to_string(folder.join(format!("{name}.txt")))?;
        let followed = follow(&text, &simulated)?;
        let known = PARTED
            .iter()
            .find(|(other, file, ..)| (*other, *file) == (scheduler, name.as_str()))
            .map(|(_, _, line, _)| *line);
        let found = followed.parted.as_ref().map(|(line, _)| *line);
        if found != known {
            let reason = followed.parted.map_or(String::new(), |(_, reason)| reason);
            return Err(format!("{name} parts at {found:?}, not at {known:?}: {reason}").into());
        }
        (alike, calls) = (alike + followed.alike, calls + followed.calls);
    }
    if f64::from(alike) < LEAST_ALIKE * f64::from(calls) {
        return Err(format!("{alike} of {calls} calls are alike").into());
    }
    Ok(())
}

/// How far a recording was followed.
struct Followed {
    alike: u32,
    calls: u32,
    /// The line of the first event that is decided otherwise, and how.
    parted: Option<(usize, String)>,
}

fn follow(text: &str, scheduler: &str) -> Result<Followed, Failed> {
    let mut lines = text.lines().zip(1..);
    let (head, _) = lines.next().ok_or("a recording has a head line")?;
    let mut given = BTreeMap::new();
    let mut rotational = false;
    for (name, value) in head.split_whitespace().filter_map(|word| word.split_once('=')) {
        if name == "rotational" {
            rotational = value == "1";
        } else {
            given.insert(name.to_owned(), Value::from(value));
        }
    }
    let entry = find_scheduler(scheduler).ok_or("the scheduler is in the table")?;
    let settings = entry.settings(&given)?;
    let options =
        ElevatorOptions { hz: 250, rotational, nr_requests: 256, ..ElevatorOptions::default() };
    let mut elevator = Elevator::new(entry, &settings, options);
    let mut names = BTreeMap::new();
    let mut now_ns = 0;
    let mut followed = Followed { alike: 0, calls: 0, parted: None };
    for (line, number) in lines {
        let cells: Vec<&str> = line.split(' ').collect();
        let is_call = cells[0] == "d";
        followed.calls += u32::from(is_call);
        if followed.parted.is_some() {
            continue;
        }
        now_ns += cells[1].parse::<u64>()?;
        while let Some(due_ns) = elevator.timer_ns().filter(|due_ns| *due_ns <= now_ns) {
            elevator.timer(due_ns);
        }
        let found = event(&mut elevator, &mut names, now_ns, &cells)?;
        match found {
            None => followed.alike += u32::from(is_call),
            Some(reason) => followed.parted = Some((number, reason)),
        }
    }
    Ok(followed)
}

/// Carries an event out; says what was decided otherwise.
fn event(
    elevator: &mut Elevator,
    names: &mut BTreeMap<String, sched::RequestId>,
    now_ns: u64,
    cells: &[&str],
) -> Result<Option<String>, Failed> {
    let known = |names: &BTreeMap<String, sched::RequestId>| {
        names.get(cells[2]).copied().ok_or_else(|| format!("no request {}", cells[2]))
    };
    match cells[0] {
        "i" => {
            let more = |name: &str| {
                let mut words = cells[8..].iter().filter_map(|word| word.split_once('='));
                words.find(|(found, _)| *found == name).map(|(_, value)| value)
            };
            let bio = bio(cells)?;
            let id = if more("place") == Some("head") {
                elevator.insert_at_head(now_ns, bio)
            } else {
                let joins =
                    if more("mergeable") == Some("0") { Joins::Nothing } else { joins(cells) };
                let zone = more("zone").map(str::parse).transpose()?;
                elevator.insert_of(now_ns, bio, joins, zone)
            };
            names.insert(cells[2].to_owned(), id);
        }
        "j" => {
            let into = known(names)?;
            if elevator.merge_behind_of(now_ns, &bio(cells)?, joins(cells)) != Some(into) {
                return Ok(Some("a request of a plug is not joined".to_owned()));
            }
        }
        "a" => {
            let into = known(names)?;
            let absorbed = names.remove(cells[3]).ok_or("no request is absorbed")?;
            if elevator.join_behind(now_ns, absorbed) != Some(into) {
                return Ok(Some("two queued requests are not joined".to_owned()));
            }
        }
        "r" => {
            let id = known(names)?;
            if !elevator.queue().requests[id].started {
                return Ok(Some("a request that was not chosen comes back".to_owned()));
            }
            elevator.requeue(now_ns, id, cells[3] == "head");
        }
        "m" => {
            let into = known(names)?;
            let bio = bio(cells)?;
            if let Some(merged) = elevator.try_merge_of(now_ns, &bio, joins(cells)) {
                if merged.survivor != into && merged.absorbed != Some(into) {
                    return Ok(Some("a merge with another request".to_owned()));
                }
                names.retain(|_, id| Some(*id) != merged.absorbed);
            } else if elevator.merge_behind(now_ns, &bio) != Some(into) {
                // Not a whole request from a plug either.
                return Ok(Some("no merge".to_owned()));
            }
        }
        "d" => {
            let chosen = elevator.next(now_ns);
            // A tag of no request is an error: taken for no request it would equal a call that chose none.
            let recorded = if cells[2] == "-" { None } else { Some(known(names)?) };
            if chosen != recorded {
                let show = |id: Option<sched::RequestId>| {
                    let bio = id.map(|id| elevator.queue().requests[id].bio);
                    bio.map_or("none".to_owned(), |bio| format!("{} of {}", bio.sector, bio.pid))
                };
                return Ok(Some(format!("{}, recorded {}", show(chosen), show(recorded))));
            }
        }
        "c" => {
            let id = known(names)?;
            if !elevator.queue().requests[id].started {
                return Ok(Some("a request that was not chosen is complete".to_owned()));
            }
            elevator.complete(now_ns, id);
            names.remove(cells[2]);
        }
        "x" => {
            elevator.exit(now_ns, cells[2].parse()?);
        }
        other => return Err(format!("`{other}` is no event").into()),
    }
    Ok(None)
}

fn joins(cells: &[&str]) -> Joins {
    if cells[4] == "D" { Joins::Discards } else { Joins::Data }
}

fn bio(cells: &[&str]) -> Result<Bio, Failed> {
    let direction = if cells[4] == "R" { Direction::Read } else { Direction::Write };
    let priority = cells.iter().skip(8).find_map(|word| word.strip_prefix("ioprio="));
    let (class, level) = match priority.map(|priority| priority.split_once('/')) {
        None => (Class::BestEffort, 4),
        Some(Some(("rt", level))) => (Class::RealTime, level.parse()?),
        Some(Some(("be", level))) => (Class::BestEffort, level.parse()?),
        Some(Some(("idle", level))) => (Class::Idle, level.parse()?),
        Some(_) => return Err(format!("{priority:?} is no priority").into()),
    };
    Ok(Bio {
        pid: cells[3].parse()?,
        direction,
        sync: cells[5] == "1",
        noidle: false,
        class,
        level,
        sector: cells[6].parse()?,
        sectors: cells[7].parse()?,
    })
}
