//! Golden scenarios of the dispatch list, which only a drain shows: by label.

use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, find_scheduler};
use std::collections::BTreeMap;

fn bio(direction: Direction, sector: u64) -> Bio {
    let sync = direction == Direction::Read;
    Bio {
        pid: 1,
        direction,
        sync,
        noidle: false,
        class: Class::default(),
        level: 4,
        sector,
        sectors: 8,
    }
}

/// First sectors in the order of the dispatch list after a drain.
fn drained(scheduler: &str, end_sector: u64, bios: &[Bio]) -> Vec<u64> {
    let entry = find_scheduler(scheduler).expect("a scheduler");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults fit");
    let mut elevator = Elevator::new(entry, &settings, ElevatorOptions::default());
    elevator.queue_mut().set_end_sector(end_sector);
    for bio in bios {
        elevator.insert(0, *bio);
    }
    elevator.drain(0);
    assert_eq!(elevator.scheduler().queued(), 0, "a drain leaves nothing");
    let queue = elevator.queue();
    queue.dispatch_list().map(|id| queue.requests[id].sector()).collect()
}

#[test]
fn g_blk_8_dispatch_sort_goes_up_from_the_head_and_wraps() {
    let writes = [500, 100, 400].map(|sector| bio(Direction::Write, sector));
    for scheduler in ["noop", "anticipatory"] {
        assert_eq!(drained(scheduler, 300, &writes), [400, 500, 100], "{scheduler}");
    }
}

#[test]
fn g_blk_9_dispatch_sort_keeps_the_order_of_reads_and_writes() {
    let (read, write) = (Direction::Read, Direction::Write);
    let bios = [bio(write, 500), bio(read, 100), bio(write, 200)];
    assert_eq!(drained("noop", 0, &bios), [500, 100, 200]);
}

#[test]
fn deadline_drains_in_the_order_it_decides() {
    let writes = [500, 100, 400].map(|sector| bio(Direction::Write, sector));
    for scheduler in ["deadline-2.6.32", "deadline-3.4"] {
        assert_eq!(drained(scheduler, 300, &writes), [500, 100, 400], "{scheduler}");
    }
}

#[test]
fn anticipatory_drains_reads_first() {
    let (read, write) = (Direction::Read, Direction::Write);
    let bios = [bio(write, 500), bio(read, 9000), bio(read, 100)];
    assert_eq!(drained("anticipatory", 0, &bios), [100, 9000, 500]);
}
