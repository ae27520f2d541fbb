//! What merging leaves of requests: where they start, how long they are, how old, and within what limits.

use sched::{
    Bio, Class, Direction, Elevator, ElevatorOptions, MergeSide, RequestId, find_scheduler,
};
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
/// Schedulers that know the neighbours of a request, so that two that touch are joined.
const SORTING: [&str; 3] = ["deadline-2.6.32", "deadline-3.4", "anticipatory"];

fn elevator(scheduler: &str, max_sectors: u32) -> Elevator {
    let entry = find_scheduler(scheduler).expect("a scheduler");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults fit");
    Elevator::new(entry, &settings, ElevatorOptions { max_sectors, ..ElevatorOptions::default() })
}

fn write(sector: u64, sectors: u32) -> Bio {
    Bio {
        pid: 1,
        direction: Direction::Write,
        sync: false,
        noidle: false,
        class: Class::default(),
        level: 4,
        sector,
        sectors,
    }
}

/// Start, length and time of making of a request.
fn shape(elevator: &Elevator, id: RequestId) -> (u64, u32, u64) {
    let request = &elevator.queue().requests[id];
    let start = request.start_jiffies - elevator.queue().jiffies(0);
    (request.bio.sector, request.bio.sectors, start)
}

#[test]
fn a_bio_before_a_request_moves_its_start() {
    for scheduler in ["noop", "deadline-2.6.32", "deadline-3.4", "anticipatory"] {
        let mut elevator = elevator(scheduler, 1024);
        let id = elevator.insert(7 * MS, write(100, 8));
        let merged = elevator.try_merge(9 * MS, &write(92, 8)).expect(scheduler);
        assert_eq!((merged.survivor, merged.side, merged.absorbed), (id, MergeSide::Front, None));
        assert_eq!(shape(&elevator, id), (92, 16, 7), "{scheduler}");
        // Both ends are where the next bios look for them.
        let merged = elevator.try_merge(9 * MS, &write(90, 2)).expect(scheduler);
        assert_eq!((merged.survivor, merged.side), (id, MergeSide::Front), "{scheduler}");
        let merged = elevator.try_merge(9 * MS, &write(108, 1)).expect(scheduler);
        assert_eq!((merged.survivor, merged.side), (id, MergeSide::Back), "{scheduler}");
        assert_eq!(shape(&elevator, id), (90, 19, 7), "{scheduler}");
        assert_eq!(elevator.next(10 * MS), Some(id), "{scheduler}");
        assert_eq!(elevator.complete(11 * MS, id).bio.sector, 90);
    }
}

/// A bio closes the gap between two requests: one is left, which begins where the first did and is as
/// old as the older of both.
#[test]
fn a_joined_request_starts_at_the_first_and_is_as_old_as_the_older() {
    for scheduler in SORTING {
        // The request merged last, at which a bio is tried first, is the one inserted first.
        for (first_sector, side) in [(100, MergeSide::Front), (84, MergeSide::Back)] {
            let other_sector = 184 - first_sector;
            let mut elevator = elevator(scheduler, 1024);
            let first = elevator.insert(5 * MS, write(first_sector, 8));
            let second = elevator.insert(8 * MS, write(other_sector, 8));
            let (lower, upper) =
                if first_sector < other_sector { (first, second) } else { (second, first) };
            let merged = elevator.try_merge(9 * MS, &write(92, 8)).expect(scheduler);
            assert_eq!((merged.survivor, merged.side), (lower, side), "{scheduler}");
            assert_eq!(merged.absorbed, Some(upper), "{scheduler}");
            assert_eq!(shape(&elevator, lower), (84, 24, 5), "{scheduler}");
            assert_eq!(elevator.waiting(), 1, "{scheduler}");
            // Its end is where the next bio looks for it.
            let merged = elevator.try_merge(9 * MS, &write(108, 4)).expect(scheduler);
            assert_eq!((merged.survivor, merged.side), (lower, MergeSide::Back), "{scheduler}");
            assert_eq!(shape(&elevator, lower), (84, 28, 5), "{scheduler}");
        }
    }
}

#[test]
fn a_request_grows_to_the_limit_and_not_beyond() {
    for scheduler in SORTING {
        let mut elevator = elevator(scheduler, 24);
        let id = elevator.insert(0, write(100, 8));
        assert!(elevator.try_merge(0, &write(108, 17)).is_none(), "{scheduler}: 25 sectors");
        assert!(elevator.try_merge(0, &write(83, 17)).is_none(), "{scheduler}: 25 sectors");
        assert!(elevator.try_merge(0, &write(108, 16)).is_some(), "{scheduler}: 24 sectors");
        assert!(elevator.try_merge(0, &write(124, 1)).is_none(), "{scheduler}: it is full");
        // Neighbours that would be too large together stay two.
        let next = elevator.insert(0, write(132, 8));
        let merged = elevator.try_merge(0, &write(140, 8)).expect(scheduler);
        assert_eq!((merged.survivor, merged.absorbed), (next, None), "{scheduler}");
        let merged = elevator.try_merge(0, &write(124, 8)).map(|merged| merged.absorbed);
        assert_eq!(merged, Some(None), "{scheduler}");
        assert_eq!(shape(&elevator, next), (124, 24, 0), "{scheduler}");
        assert_eq!(shape(&elevator, id), (100, 24, 0), "{scheduler}");
    }
}

#[test]
fn only_what_touches_in_the_same_direction_is_merged() {
    for scheduler in ["noop", "deadline-3.4"] {
        let mut elevator = elevator(scheduler, 1024);
        elevator.insert(0, write(100, 8));
        let read = Bio { direction: Direction::Read, sync: true, ..write(108, 8) };
        assert!(elevator.try_merge(0, &read).is_none(), "{scheduler}: a read");
        assert!(elevator.merge_behind(0, &read).is_none(), "{scheduler}: a read");
        for sector in [109, 107, 91, 93] {
            assert!(elevator.try_merge(0, &write(sector, 8)).is_none(), "{scheduler}: {sector}");
        }
        // A read beside a write that touches it is not joined with it, either.
        elevator.insert(0, read);
        let merged = elevator.try_merge(0, &Bio { sector: 116, ..read }).expect(scheduler);
        assert_eq!(merged.absorbed, None, "{scheduler}");
    }
}

/// What a plug hands over is appended to a request that it touches from behind, up to the limit.
#[test]
fn a_plug_s_request_is_appended_within_the_limit() {
    for scheduler in ["noop", "deadline-3.4"] {
        let mut elevator = elevator(scheduler, 24);
        let id = elevator.insert(3 * MS, write(100, 8));
        assert_eq!(elevator.merge_behind(4 * MS, &write(92, 8)), None, "{scheduler}: before it");
        assert_eq!(elevator.merge_behind(4 * MS, &write(109, 8)), None, "{scheduler}: a gap");
        assert_eq!(elevator.merge_behind(4 * MS, &write(108, 17)), None, "{scheduler}: too much");
        assert_eq!(elevator.merge_behind(4 * MS, &write(108, 8)), Some(id), "{scheduler}");
        assert_eq!(elevator.merge_behind(4 * MS, &write(116, 8)), Some(id), "{scheduler}");
        assert_eq!(elevator.merge_behind(4 * MS, &write(124, 1)), None, "{scheduler}: it is full");
        assert_eq!(shape(&elevator, id), (100, 24, 3), "{scheduler}");
    }
}

/// The neighbours of a request in noop are those in the order of arrival (`noop_former_request`,
/// `noop_latter_request` of `block/noop-iosched.c`): two that touch are joined if they came one after the
/// other, and not otherwise.
#[test]
fn noop_joins_requests_that_came_one_after_the_other() {
    for (between, joined) in [(false, true), (true, false)] {
        let mut elevator = elevator("noop", 1024);
        let lower = elevator.insert(0, write(84, 8));
        if between {
            elevator.insert(0, write(5000, 8));
        }
        let upper = elevator.insert(0, write(100, 8));
        // What was merged last is tried first: the upper one grows towards the lower.
        let merged = elevator.try_merge(0, &write(108, 4)).expect("behind it");
        assert_eq!((merged.survivor, merged.absorbed), (upper, None));
        let merged = elevator.try_merge(0, &write(92, 8)).expect("before it");
        assert_eq!(merged.side, MergeSide::Front);
        let expected = if joined { (lower, Some(upper)) } else { (upper, None) };
        assert_eq!((merged.survivor, merged.absorbed), expected, "{between}");
    }
}

/// `as_merged_request` sorts a request in again whose first sector changed: the next bio before it is
/// looked for at its new place.
#[test]
fn a_request_of_the_anticipatory_scheduler_grows_to_the_front_again_and_again() {
    let mut elevator = elevator("anticipatory", 1024);
    let sync = |sector| Bio { sync: true, ..write(sector, 8) };
    let id = elevator.insert(0, sync(100));
    for sector in [92, 84, 76] {
        // Another request is merged with in between, so that the one merged last is not this one.
        let other = elevator.insert(0, write(10_000 * sector, 8));
        let merged = elevator.try_merge(0, &write(10_000 * sector + 8, 8)).expect("behind it");
        assert_eq!(merged.survivor, other);
        let merged = elevator.try_merge(0, &sync(sector)).map(|merged| merged.survivor);
        assert_eq!(merged, Some(id), "before {}", sector + 8);
    }
    assert_eq!(shape(&elevator, id), (76, 32, 0));
}

#[test]
fn a_queue_without_requests_is_empty() {
    let mut elevator = elevator("noop", 1024);
    assert!(elevator.queue().requests.is_empty());
    let id = elevator.insert(0, write(100, 8));
    assert!(!elevator.queue().requests.is_empty() && elevator.queue().requests.len() == 1);
    assert_eq!(elevator.next(0), Some(id));
    assert!(!elevator.queue().requests.is_empty(), "it is with the device");
    elevator.complete(MS, id);
    assert!(elevator.queue().requests.is_empty());
    assert_eq!((elevator.queue().requests.len(), elevator.queue().requests.capacity()), (0, 1));
}
