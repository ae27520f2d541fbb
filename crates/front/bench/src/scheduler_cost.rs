//! What a request costs in each scheduler: processor time and memory.
//!
//! Processes submit again as soon as a request is complete, so a fixed number of requests is always queued;
//! the device takes a constant time. The time includes the elevator's part, which is the same for
//! all: merging, the hash of request ends, the dispatch list.

use crate::ALLOCATOR;
use crate::processor_time::Stopwatch;
use nand::random::Stream;
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, RequestId, SCHEDULERS};
use std::collections::{BTreeMap, VecDeque};

const PROCESSES: u32 = 16;
/// Requests of each process under way.
const DEPTH: u32 = 8;
const DRIVER_DEPTH: usize = 2;
const SERVICE_NS: u64 = 100_000;
const REQUESTS: u64 = 200_000;
const ROUNDS: usize = 3;
/// Requests that are queued to see how much memory they take.
const QUEUED: u32 = 16_384;
const SECTORS: u32 = 1 << 27;

pub(crate) struct SchedulerCost {
    pub(crate) name: &'static str,
    pub(crate) ns_per_request: f64,
    pub(crate) ratio_to_noop: f64,
    pub(crate) bytes_per_request: f64,
}

/// All schedulers, in the order of their table.
pub(crate) fn measure() -> Vec<SchedulerCost> {
    let best_ns = |entry| (0..ROUNDS).map(|_| processor_ns(entry)).fold(f64::MAX, f64::min);
    let times: Vec<f64> = SCHEDULERS.iter().map(|entry| best_ns(entry)).collect();
    let noop = SCHEDULERS.iter().position(|entry| entry.name == "noop").expect("in the table");
    let costs = SCHEDULERS.iter().zip(&times).map(|(entry, ns_per_request)| SchedulerCost {
        name: entry.name,
        ns_per_request: *ns_per_request,
        ratio_to_noop: ns_per_request / times[noop],
        bytes_per_request: bytes_per_request(entry),
    });
    costs.collect()
}

fn elevator(entry: &sched::SchedulerEntry) -> Elevator {
    let settings = entry.settings(&BTreeMap::new()).expect("defaults");
    let options = ElevatorOptions {
        hz: 1000,
        rotational: false,
        nr_requests: 2 * QUEUED,
        max_sectors: 1024,
        merging: true,
    };
    Elevator::new(entry, &settings, options)
}

/// Half of the processes read, a quarter write synchronously, a quarter asynchronously.
fn bio(pid: u32, stream: &mut Stream) -> Bio {
    let writes = pid.is_multiple_of(2);
    Bio {
        pid: 100 + pid,
        direction: if writes { Direction::Write } else { Direction::Read },
        sync: !pid.is_multiple_of(4),
        noidle: false,
        class: Class::BestEffort,
        level: 4,
        sector: u64::from(stream.below(SECTORS / 8)) * 8,
        sectors: 8,
    }
}

/// Processor time of a request from its insertion to its completion.
fn processor_ns(entry: &sched::SchedulerEntry) -> f64 {
    let mut elevator = elevator(entry);
    let mut stream = Stream::new(1, "scheduler cost");
    let mut now_ns = 0;
    let submit = |elevator: &mut Elevator, now_ns: u64, bio: Bio| {
        if elevator.try_merge(now_ns, &bio).is_none() {
            elevator.insert(now_ns, bio);
        }
    };
    for pid in (0..DEPTH).flat_map(|_| 0..PROCESSES) {
        submit(&mut elevator, now_ns, bio(pid, &mut stream));
    }
    let mut driver: VecDeque<(RequestId, u32)> = VecDeque::with_capacity(DRIVER_DEPTH);
    let start = Stopwatch::start();
    let mut completed = 0;
    while completed < REQUESTS {
        while driver.len() < DRIVER_DEPTH {
            let Some(id) = elevator.next(now_ns) else { break };
            let pid = elevator.queue().requests[id].bio.pid - 100;
            driver.push_back((id, pid));
        }
        if let Some((id, pid)) = driver.pop_front() {
            now_ns += SERVICE_NS;
            elevator.complete(now_ns, id);
            submit(&mut elevator, now_ns, bio(pid, &mut stream));
            completed += 1;
        } else {
            // It idles: the next thing to happen is its timer.
            now_ns = elevator.timer_ns().unwrap_or(now_ns + SERVICE_NS).max(now_ns);
            elevator.timer(now_ns);
        }
        if elevator.timer_ns().is_some_and(|timer_ns| timer_ns <= now_ns) {
            elevator.timer(now_ns);
        }
    }
    start.seconds() * 1e9 / REQUESTS as f64
}

/// Heap that a queued request takes, with everything the scheduler keeps about it.
fn bytes_per_request(entry: &sched::SchedulerEntry) -> f64 {
    let mut elevator = elevator(entry);
    let mut stream = Stream::new(1, "scheduler memory");
    let before = ALLOCATOR.current_usage();
    for number in 0..QUEUED {
        elevator.insert(0, bio(number % PROCESSES, &mut stream));
    }
    (ALLOCATOR.current_usage() - before) as f64 / f64::from(QUEUED)
}
