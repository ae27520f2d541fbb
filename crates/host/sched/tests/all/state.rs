//! What a scheduler keeps in memory for each request and for each process.

use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, SCHEDULERS, find_scheduler};
use std::collections::BTreeMap;

/// Bytes of state once so many requests are queued, of so many processes that take turns; reads and
/// writes, far from each other.
fn state_bytes(scheduler: &str, requests: u32, processes: u32) -> usize {
    let entry = find_scheduler(scheduler).expect("a scheduler");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults fit");
    let mut elevator = Elevator::new(
        entry,
        &settings,
        ElevatorOptions { merging: false, nr_requests: 10_000, ..ElevatorOptions::default() },
    );
    for number in 0..requests {
        let is_read = number % 2 == 0;
        let bio = Bio {
            pid: number / 2 % processes + 1,
            direction: if is_read { Direction::Read } else { Direction::Write },
            sync: is_read,
            noidle: false,
            class: Class::default(),
            level: 4,
            sector: u64::from(number) * 1000,
            sectors: 8,
        };
        elevator.insert(0, bio);
    }
    assert_eq!(elevator.waiting(), requests as usize, "{scheduler}");
    elevator.scheduler().state_bytes()
}

/// A scheduler, and its bytes for each request and for each process that has requests. A list costs two
/// numbers of requests, a place in a tree of sectors 52 bytes. Each queue of CFQ and BFQ has a table of all requests.
const COSTS: &[(&str, usize, usize)] = &[
    ("anticipatory", 68, 94),
    ("bfq-6.1", 76, 2615),
    ("bfq-6.12", 76, 2615),
    ("cfq-2.6.29", 68, 4614),
    ("cfq-2.6.32", 68, 4646),
    ("cfq-3.4", 68, 4614),
    ("deadline-2.6.32", 60, 0),
    ("deadline-3.4", 60, 0),
    ("kyber", 8, 0),
    ("mq-deadline-6.1", 60, 0),
    ("mq-deadline-6.12", 60, 0),
    ("none", 8, 0),
    ("noop", 8, 0),
    ("row", 9, 0),
    ("sfq", 20, 124),
    ("sfq-literal", 20, 124),
    ("sfq2", 20, 94),
];

#[test]
fn a_request_and_a_process_cost_what_their_tables_hold() {
    let names: Vec<&str> = SCHEDULERS.iter().map(|entry| entry.name).collect();
    let measured: Vec<(&str, usize, usize)> = names
        .iter()
        .map(|name| {
            let [few, many] = [1024, 2048].map(|requests| state_bytes(name, requests, 1));
            let [one, all] = [256, 512].map(|processes| state_bytes(name, 1024, processes));
            (*name, (many - few) / 1024, (all - one) / 256)
        })
        .collect();
    assert_eq!(measured, COSTS);
}
