//! What the tests of the block layer share.

use block::{BioTimes, Observer, Plugging, PoolRules, QueueOptions};
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, find_scheduler};
use std::collections::BTreeMap;

pub(crate) const MS: u64 = 1_000_000;

/// Keeps what it sees.
#[derive(Default)]
pub(crate) struct CompletedBios(pub(crate) Vec<BioTimes>);

impl Observer for CompletedBios {
    fn completed(&mut self, times: &BioTimes) {
        self.0.push(*times);
    }
}

/// Eight sectors; reads are synchronous, writes are not.
pub(crate) fn bio(pid: u32, direction: Direction, sector: u64) -> Bio {
    Bio {
        pid,
        direction,
        sync: direction == Direction::Read,
        noidle: false,
        class: Class::BestEffort,
        level: 4,
        sector,
        sectors: 8,
    }
}

pub(crate) fn elevator(rotational: bool, nr_requests: u32) -> Elevator {
    elevator_of("noop", rotational, nr_requests)
}

pub(crate) fn elevator_of(scheduler: &str, rotational: bool, nr_requests: u32) -> Elevator {
    let entry = find_scheduler(scheduler).expect("in the table");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults");
    let options = ElevatorOptions { rotational, nr_requests, ..ElevatorOptions::default() };
    Elevator::new(entry, &settings, options)
}

pub(crate) fn options(plugging: Plugging) -> QueueOptions {
    QueueOptions {
        plugging,
        pool: PoolRules::PerDirection,
        max_sectors: 1024,
        queue_depth: 1,
        cores: 1,
    }
}
