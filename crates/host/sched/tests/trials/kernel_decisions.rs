//! Every decision that the original scheduler code of a kernel made must be made here too.
//!
//! `data/kernel-decisions` holds input and output tables; its README says how they were made.

use libtest_mimic::{Failed, Trial};
use sched::replay::{Arrival, Event, Order, When, replay};
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, Value, find_scheduler};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const MICROSECOND_NS: u64 = 1000;

pub(crate) fn trials() -> Vec<Trial> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kernel-decisions");
    let index = std::fs::read_to_string(folder.join("index.csv")).expect("the index is there");
    let mut lines = index.lines();
    let columns: Vec<&str> = lines.next().expect("a head line").split(',').collect();
    let cases = lines.map(|line| {
        let cells = line.split(',').map(str::to_owned);
        Case { row: columns.iter().map(|name| (*name).to_owned()).zip(cells).collect() }
    });
    cases
        .filter(|case| find_scheduler(case.scheduler()).is_some())
        .map(|case| {
            let folder = folder.clone();
            Trial::test(case.label(), move || case.check(&folder))
        })
        .collect()
}

struct Case {
    row: BTreeMap<String, String>,
}

impl Case {
    fn cell(&self, column: &str) -> &str {
        &self.row[column]
    }

    fn number(&self, column: &str) -> u32 {
        self.cell(column).parse().expect("a number")
    }

    fn label(&self) -> String {
        format!("{}/{}", self.cell("dir"), self.cell("case"))
    }

    fn scheduler(&self) -> &str {
        match self.cell("dir") {
            "noop-2.6.32" => "noop",
            "as-2.6.32" => "anticipatory",
            "row-android-4.1" => "row",
            same => same,
        }
    }

    fn path(&self, folder: &Path, kind: &str) -> PathBuf {
        folder.join(self.cell("dir")).join(format!("{}.{kind}.csv", self.cell("case")))
    }

    fn check(&self, folder: &Path) -> Result<(), Failed> {
        let input = std::fs::read_to_string(self.path(folder, "in"))?;
        let expected = std::fs::read_to_string(self.path(folder, "out"))?;
        let arrivals: Vec<Arrival> = input.lines().skip(1).map(|line| self.arrival(line)).collect();
        let entry = find_scheduler(self.scheduler()).expect("filtered before");
        let set = self.cell("tunables").split_whitespace();
        let given: BTreeMap<String, Value> = set
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        let settings = entry.settings(&given)?;
        let options = ElevatorOptions {
            hz: self.number("hz"),
            rotational: self.cell("nonrot") == "0",
            ..ElevatorOptions::default()
        };
        let mut elevator = Elevator::new(entry, &settings, options);
        let service_ns = u64::from(self.number("service_us")) * MICROSECOND_NS;
        let depth = self.number("queue_depth");
        let outcome =
            replay(&mut elevator, &arrivals, depth, Order::ArrivalsFirst, &mut |now_ns, _| {
                now_ns + service_ns
            });
        let mut printed = String::from("id,dispatch_us,complete_us\n");
        for request in &outcome.dispatched {
            let times = [request.dispatch_ns, request.complete_ns].map(|ns| ns / MICROSECOND_NS);
            for row in &request.arrivals {
                writeln!(printed, "{row},{},{}", times[0], times[1])?;
            }
        }
        compare(&printed, &expected)
    }

    fn arrival(&self, line: &str) -> Arrival {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |place: usize| cells[place].parse::<u64>().expect("a number");
        let pid = number(1) as u32;
        let direction = if cells[2] == "R" { Direction::Read } else { Direction::Write };
        let sync = cells[3] == "1";
        let bio = Bio {
            pid,
            direction,
            sync,
            noidle: sync && direction == Direction::Write && self.cell("sync_write_noidle") == "1",
            class: Class::default(),
            level: 4,
            sector: number(4),
            sectors: number(5) as u32,
        };
        let event = if cells[2] == "X" { Event::Exit(pid) } else { Event::Submit(bio) };
        Arrival { event, when: When::At(number(0) * MICROSECOND_NS) }
    }
}

fn compare(printed: &str, expected: &str) -> Result<(), Failed> {
    if printed == expected {
        return Ok(());
    }
    let pairs = printed.lines().zip(expected.lines()).enumerate();
    let first = pairs.into_iter().find(|(_, (ours, theirs))| ours != theirs);
    let (place, (ours, theirs)) = first.unwrap_or((0, ("fewer or more lines", "")));
    Err(format!("line {place}: `{ours}`, but the kernel did `{theirs}`").into())
}
