//! What holds for all versions, and tools for tests of one.

use crate::replay::{Arrival, Event, Order, Outcome, When, replay};
use crate::{
    Bio, Class, Direction, Elevator, ElevatorOptions, RequestId, SchedulerEntry, find_scheduler,
};
use std::collections::BTreeMap;

pub(super) const MILLISECOND_NS: u64 = 1_000_000;
const SERVICE_NS: u64 = 5 * MILLISECOND_NS;
const VERSIONS: [&str; 3] = ["cfq-2.6.29", "cfq-2.6.32", "cfq-3.4"];

pub(super) fn bio(pid: u32, direction: Direction, sector: u64) -> Bio {
    Bio {
        pid,
        direction,
        sync: direction == Direction::Read,
        noidle: false,
        class: Class::default(),
        level: 4,
        sector,
        sectors: 8,
    }
}

/// Sequential reads of a process, all at once.
pub(super) fn queued_reads(pid: u32, sector: u64, count: u64) -> Vec<Arrival> {
    let read = |place| Event::Submit(bio(pid, Direction::Read, sector + 8 * place));
    (0..count).map(|place| Arrival { event: read(place), when: When::At(0) }).collect()
}

/// Sequential reads of a process that thinks for 1 ms after each; `first` is the place of the
/// first among all arrivals.
pub(super) fn thinking_reads(pid: u32, sector: u64, count: u64, first: usize) -> Vec<Arrival> {
    let mut reads = queued_reads(pid, sector, count);
    for (place, read) in reads.iter_mut().enumerate().skip(1) {
        read.when = When::After { arrival: first + place - 1, think_ns: MILLISECOND_NS };
    }
    reads
}

pub(super) fn elevator(entry: &SchedulerEntry) -> Elevator {
    let settings = entry.settings(&BTreeMap::new()).expect("defaults are valid");
    Elevator::new(entry, &settings, ElevatorOptions { merging: false, ..Default::default() })
}

/// Replays arrivals with 5 ms a request, one at a time.
pub(super) fn run(elevator: &mut Elevator, arrivals: &[Arrival]) -> Outcome {
    replay(elevator, arrivals, 1, Order::BatchedLast, &mut |now_ns, _| now_ns + SERVICE_NS)
}

/// Runs of dispatches of one process: process, number, time of the first in ms.
pub(super) fn turns(outcome: &Outcome, arrivals: &[Arrival]) -> Vec<(u32, usize, u64)> {
    let mut turns: Vec<(u32, usize, u64)> = Vec::new();
    for request in &outcome.dispatched {
        let Event::Submit(bio) = arrivals[request.arrivals[0]].event else { continue };
        match turns.last_mut() {
            Some((pid, count, _)) if *pid == bio.pid => *count += 1,
            _ => turns.push((bio.pid, 1, request.dispatch_ns / MILLISECOND_NS)),
        }
    }
    turns
}

#[test]
fn equal_processes_get_equal_time() {
    const READS: u64 = 6000;
    for version in VERSIONS {
        let entry = find_scheduler(version).expect("is registered");
        for processes in [2, 3, 5, 8] {
            let far = |pid: u32| u64::from(pid) * 100_000_000;
            let arrivals: Vec<Arrival> =
                (1..=processes).flat_map(|pid| queued_reads(pid, far(pid), READS)).collect();
            let outcome = run(&mut elevator(entry), &arrivals);
            // While all processes still have requests, the device's time is counted in requests.
            let contested = (READS * u64::from(processes) * 4 / 5) as usize;
            let mut served = BTreeMap::new();
            for request in &outcome.dispatched[..contested] {
                let Event::Submit(bio) = arrivals[request.arrivals[0]].event else { continue };
                *served.entry(bio.pid).or_insert(0_u32) += 1;
            }
            let (least, most) = (served.values().min(), served.values().max());
            let (least, most) = (least.copied().unwrap_or(0), most.copied().unwrap_or(0));
            assert_eq!(served.len(), processes as usize);
            assert!(most - least <= most / 100, "{version}, {processes}: {served:?}");
        }
    }
}

/// Serves `count` requests of an elevator one by one from time zero.
pub(super) fn serve(elevator: &mut Elevator, now_ns: &mut u64, count: usize) -> Vec<RequestId> {
    let mut served = Vec::new();
    for _ in 0..count {
        let id = elevator.next(*now_ns).expect("there is a request");
        *now_ns += SERVICE_NS;
        elevator.complete(*now_ns, id);
        served.push(id);
    }
    served
}

#[test]
fn the_process_waited_for_gets_one_request_above_the_limit() {
    for version in VERSIONS {
        let mut elevator = elevator(find_scheduler(version).expect("is registered"));
        let (mine, other) = (bio(1, Direction::Read, 0), bio(2, Direction::Read, 1_000_000));
        elevator.insert(0, mine);
        elevator.insert(0, other);
        let mut now_ns = 0;
        assert!(!elevator.scheduler().is_idling());
        serve(&mut elevator, &mut now_ns, 1);
        assert!(elevator.scheduler().is_idling(), "{version} waits for process 1");
        assert_eq!(elevator.next(now_ns), None, "{version}");
        assert_eq!(elevator.timer_ns(), Some(now_ns + 8 * MILLISECOND_NS), "{version}");
        assert!(!elevator.must_queue(&other), "{version}");
        assert!(!elevator.must_queue(&Bio { pid: 3, ..mine }), "{version}");
        let write = Bio { direction: Direction::Write, sync: false, ..mine };
        assert!(!elevator.must_queue(&write), "{version}");
        assert!(elevator.must_queue(&mine), "{version}");
        assert!(!elevator.must_queue(&mine), "{version}: once a turn");
        elevator.timer(13 * MILLISECOND_NS);
        assert!(!elevator.scheduler().is_idling(), "{version}");
        assert!(elevator.next(13 * MILLISECOND_NS).is_some(), "{version}");
    }
}

#[test]
fn exit_ends_the_waiting() {
    for version in VERSIONS {
        let mut elevator = elevator(find_scheduler(version).expect("is registered"));
        elevator.insert(0, bio(1, Direction::Read, 0));
        elevator.insert(0, bio(2, Direction::Read, 1_000_000));
        let mut now_ns = 0;
        serve(&mut elevator, &mut now_ns, 1);
        elevator.take_run_soon();
        assert_eq!(elevator.next(now_ns), None, "{version}");
        elevator.exit(now_ns, 1);
        assert!(elevator.take_run_soon(), "{version}");
        assert_eq!(elevator.timer_ns(), None, "{version}");
        assert!(elevator.next(now_ns).is_some(), "{version}");
    }
}

#[test]
fn a_bio_joins_only_requests_of_its_own_queue() {
    for version in VERSIONS {
        let entry = find_scheduler(version).expect("is registered");
        let settings = entry.settings(&BTreeMap::new()).expect("defaults are valid");
        let mut elevator = Elevator::new(entry, &settings, ElevatorOptions::default());
        let write = |pid, sector| bio(pid, Direction::Write, sector);
        let first = elevator.insert(0, write(1, 100));
        assert_eq!(elevator.try_merge(0, &write(2, 108)), None, "{version}: 2 has no queue yet");
        elevator.insert(0, write(2, 5000));
        let merged = elevator.try_merge(0, &write(2, 108)).map(|merged| merged.survivor);
        assert_eq!(merged, Some(first), "{version}: writes of one priority share a queue");
        let sync = Bio { sync: true, ..write(2, 116) };
        assert_eq!(elevator.try_merge(0, &sync), None, "{version}");
        let other = Bio { level: 7, ..write(2, 9000) };
        elevator.insert(0, other);
        assert_eq!(elevator.try_merge(0, &write(2, 116)), None, "{version}: another priority");
    }
}

/// `cfq_completed_request`: a queue whose slice is over when its last request is done is not waited for
/// (`cfq_slice_used` is asked before `cfq_arm_slice_timer`).
#[test]
fn a_process_that_used_up_its_slice_is_not_waited_for() {
    for version in VERSIONS {
        let after_ms = |last_ms: u64| {
            let mut elevator = elevator(find_scheduler(version).expect("is registered"));
            for place in 0..2 {
                elevator.insert(0, bio(1, Direction::Read, 8 * place));
            }
            elevator.insert(0, bio(2, Direction::Read, 1_000_000));
            let mut now_ns = 0;
            serve(&mut elevator, &mut now_ns, 1);
            let last = elevator.next(now_ns).expect("the slice has begun");
            now_ns += last_ms * MILLISECOND_NS;
            assert_eq!(elevator.complete(now_ns, last).bio.pid, 1, "{version}");
            elevator.next(now_ns).map(|id| elevator.queue().requests[id].bio.pid)
        };
        assert_eq!(after_ms(5), None, "{version}: the slice of 100 ms goes on");
        assert_eq!(after_ms(200), Some(2), "{version}: it is over");
    }
}
