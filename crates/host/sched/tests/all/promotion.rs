//! Asynchronous writes that a task begins to wait for.

use process::Process;
use sched::{
    Bio, Class, Direction, Elevator, ElevatorOptions, QUASI_ASYNC, RequestId, SCHEDULERS,
    SchedulerEntry, Value, find_scheduler,
};
use std::collections::BTreeMap;

const MILLISECOND_NS: u64 = 1_000_000;

/// The flusher, and a task that waits.
const FLUSHER: u32 = 900;
const WAITER: Process = Process::new(7);

/// Time of a request: 5 ms.
const SERVICE_NS: u64 = 5 * MILLISECOND_NS;

fn elevator(entry: &'static SchedulerEntry, merging: bool) -> Elevator {
    let settings = entry.settings(&BTreeMap::new()).expect("defaults");
    let options = ElevatorOptions { rotational: false, merging, ..ElevatorOptions::default() };
    Elevator::new(entry, &settings, options)
}

fn bio(pid: u32, direction: Direction, sync: bool, sector: u64) -> Bio {
    Bio {
        pid,
        direction,
        sync,
        noidle: false,
        class: Class::BestEffort,
        level: 4,
        sector,
        sectors: 8,
    }
}

/// What happens in a scenario, and when, in milliseconds.
#[derive(Clone, Copy)]
enum Event {
    /// The flusher sends the write `wN`.
    Write(u64),
    /// A reader sends the read `rN`.
    Read(u64),
    /// The task begins to wait for the write `wN`.
    Wait(u64),
}

/// Runs events on a device with one command at a time; what was sent when, as `w1@0 w7@5`.
fn sent(scheduler: &str, events: &[(u64, Event)]) -> String {
    let mut elevator = elevator(find_scheduler(scheduler).expect("in the table"), false);
    let mut names: BTreeMap<RequestId, String> = BTreeMap::new();
    let mut by_number: BTreeMap<u64, RequestId> = BTreeMap::new();
    let mut running: Option<(u64, RequestId)> = None;
    let mut sent = Vec::new();
    let mut events = events.iter().peekable();
    loop {
        let arrival = events.peek().map(|(ms, _)| ms * MILLISECOND_NS);
        let done = running.map(|(done_ns, _)| done_ns);
        let timer = elevator.timer_ns().filter(|_| elevator.waiting() > 0);
        let Some(now_ns) = [done, timer, arrival].into_iter().flatten().min() else { break };
        if done == Some(now_ns) {
            elevator.complete(now_ns, running.take().expect("it runs").1);
        } else if timer == Some(now_ns) {
            elevator.timer(now_ns);
        }
        // All that arrives at one time arrives before the scheduler is asked.
        while let Some((_, event)) = events.next_if(|(ms, _)| ms * MILLISECOND_NS == now_ns) {
            let (name, new) = match event {
                // 4 MiB apart: neither a sweep nor a near request decides.
                Event::Write(n) => ("w", bio(FLUSHER, Direction::Write, false, n * 8192)),
                Event::Read(n) => ("r", bio(3, Direction::Read, true, (100 + n) * 8192)),
                Event::Wait(n) => {
                    elevator.promote(now_ns, by_number[n], WAITER);
                    continue;
                }
            };
            let (Event::Write(n) | Event::Read(n) | Event::Wait(n)) = event;
            let id = elevator.insert(now_ns, new);
            names.insert(id, format!("{name}{n}"));
            by_number.insert(*n, id);
        }
        elevator.take_run_soon();
        if running.is_none()
            && let Some(id) = elevator.next(now_ns)
        {
            sent.push(format!("{}@{}", names[&id], now_ns / MILLISECOND_NS));
            running = Some((now_ns + SERVICE_NS, id));
        }
    }
    sent.join(" ")
}

/// Writes `w1` to `w10` at the beginning, then what else happens.
fn ten_writes_and(more: &[(u64, Event)]) -> Vec<(u64, Event)> {
    (1..=10).map(|n| (0, Event::Write(n))).chain(more.iter().copied()).collect()
}

/// Compares with what was worked out by hand, and shows that another answer would be seen.
fn check(scheduler: &str, more: &[(u64, Event)], by_hand: &str, planted: &str) {
    let found = sent(scheduler, &ten_writes_and(more));
    assert_ne!(by_hand, planted);
    assert!(found.starts_with(by_hand), "{scheduler}: {found}");
    assert!(!found.starts_with(planted), "{scheduler}: the planted answer passes: {found}");
    assert_eq!(found.split(' ').count(), ten_writes_and(more).len() - waits(more));
}

fn waits(events: &[(u64, Event)]) -> usize {
    events.iter().filter(|(_, event)| matches!(event, Event::Wait(_))).count()
}

/// G-QAS-1: `w1` is with the device when the task begins to wait. CFQ preempts the asynchronous turn, so `w7`
/// is next. SFQ ends its visit of three asynchronous requests first.
#[test]
fn what_a_task_waits_for_goes_before_older_writes() {
    let wait = [(1, Event::Wait(7))];
    let at_once = "w1@0 w7@5 w2@10 w3@15 w4@20 w5@25 w6@30 w8@35 w9@40 w10@45";
    let unmoved = "w1@0 w2@5 w3@10 w4@15";
    for scheduler in ["cfq-2.6.32", "cfq-3.4", "row"] {
        check(scheduler, &wait, at_once, unmoved);
    }
    check("sfq", &wait, "w1@0 w2@5 w3@10 w7@15 w4@20 w5@25 w6@30 w8@35", unmoved);
    // The grace after a synchronous request: 2 ms, in which the process may go on.
    check("sfq2", &wait, "w1@0 w7@5 w2@12 w3@17", at_once);
    // CFQ of 2.6.29 has moved all ten to the dispatch list at once: the wait comes too late.
    check("cfq-2.6.29", &wait, "w1@0 w2@5 w3@10 w4@15 w5@20 w6@25 w7@30 w8@35", at_once);
}

/// G-QAS-3: within a queue of CFQ the sweep decides and not the order of the waits; SFQ and ROW keep that order.
#[test]
fn two_waits_are_served_in_the_order_of_their_queue() {
    let waits = [(1, Event::Wait(7)), (2, Event::Wait(3))];
    check("cfq-3.4", &waits, "w1@0 w3@5 w7@10 w2@15 w4@20", "w1@0 w7@5 w3@10");
    check("row", &waits, "w1@0 w7@5 w3@10 w2@15 w4@20", "w1@0 w3@5 w7@10");
    check("sfq", &waits, "w1@0 w2@5 w4@10 w7@15 w3@20 w5@25", "w1@0 w2@5 w3@10");
}

/// G-QAS-4: what the device has is not moved, and no other request either.
#[test]
fn a_wait_for_what_is_with_the_device_changes_nothing() {
    let without = "w1@0 w2@5 w3@10 w4@15 w5@20 w6@25 w7@30 w8@35 w9@40 w10@45";
    for scheduler in SCHEDULERS.iter().filter(|entry| entry.name != "sfq-literal") {
        check(scheduler.name, &[(1, Event::Wait(1))], without, "w1@0 w7@5");
    }
}

/// G-QAS-5: a promoted write competes as a synchronous one, and a read that came before it goes before it.
#[test]
fn an_older_read_goes_first() {
    let more = [(1, Event::Read(11)), (2, Event::Wait(7))];
    check("cfq-3.4", &more, "w1@0 r11@5 w7@10 w2@15 w3@20", "w1@0 w7@5 r11@10");
    check("sfq", &more, "w1@0 w2@5 w3@10 r11@15 w7@20 w4@25", "w1@0 w2@5 w3@10 w7@15");
}

/// Without a place for synchronous writes there is nothing to gain, and the place in the FIFO is kept.
#[test]
fn schedulers_that_tell_no_synchronous_write_keep_its_place() {
    let without = "w1@0 w2@5 w3@10 w4@15 w5@20 w6@25 w7@30 w8@35 w9@40 w10@45";
    for scheduler in
        ["deadline-2.6.32", "deadline-3.4", "kyber", "mq-deadline-6.12", "none", "noop"]
    {
        // To insert it again would put it last.
        let last = "w1@0 w2@5 w3@10 w4@15 w5@20 w6@25 w8@30";
        check(scheduler, &[(1, Event::Wait(7))], without, last);
    }
}

#[test]
fn only_an_asynchronous_write_that_waits_is_promoted_and_only_once() {
    for entry in SCHEDULERS {
        let mut elevator = elevator(entry, false);
        let read = elevator.insert(0, bio(3, Direction::Read, true, 0));
        let sync_write = elevator.insert(0, bio(4, Direction::Write, true, 8192));
        let write = elevator.insert(0, bio(FLUSHER, Direction::Write, false, 16384));
        assert!(!elevator.promote(1, read, WAITER), "{}: a read", entry.name);
        assert!(!elevator.promote(1, sync_write, WAITER), "{}: a synchronous write", entry.name);
        assert!(elevator.promote(1, write, WAITER), "{}", entry.name);
        assert!(!elevator.promote(1, write, WAITER), "{}: twice", entry.name);
        let promoted = elevator.queue().requests[write].bio;
        assert!(promoted.sync && promoted.noidle, "{}", entry.name);
        let owner = if elevator.scheduler().sorts_by_sync() { WAITER.pid } else { FLUSHER };
        assert_eq!(promoted.pid, owner, "{}", entry.name);
        elevator.drain(2);
        assert!(!elevator.promote(2, write, WAITER), "{}: dispatched", entry.name);
    }
}

/// A generator of numbers: Knuth's multiplier (MMIX), whose upper bits are random enough to choose.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Random requests, merges, waits, exits and completions; what was sent in which order, and how many were promoted.
fn random_run(entry: &'static SchedulerEntry, seed: u64, with_waits: bool) -> (Vec<u64>, u32) {
    let mut draw = Draw(seed);
    let mut elevator = elevator(entry, seed.is_multiple_of(2));
    let (mut now_ns, mut promoted) = (0, 0);
    let mut running: Vec<RequestId> = Vec::new();
    let mut waiting: Vec<RequestId> = Vec::new();
    let mut sent = Vec::new();
    let (mut inserted, mut completed, mut cancelled) = (0_u64, 0_u64, 0_u64);
    for step in 0..3000 {
        now_ns += draw.below(4) * 700_000;
        if let Some(timer_ns) = elevator.timer_ns().filter(|timer_ns| *timer_ns <= now_ns) {
            elevator.timer(timer_ns.max(now_ns));
        }
        match draw.below(10) {
            0..4 => {
                let direction = if draw.below(3) == 0 { Direction::Read } else { Direction::Write };
                let sync = direction == Direction::Read || draw.below(4) == 0;
                let pid = if sync { 1 + draw.below(5) as u32 } else { FLUSHER };
                let new = bio(pid, direction, sync, 8 * draw.below(200));
                if let Some(merged) = elevator.try_merge(now_ns, &new) {
                    let absorbed = merged.absorbed;
                    inserted -= u64::from(absorbed.is_some());
                    waiting.retain(|id| Some(*id) != absorbed);
                } else {
                    waiting.push(elevator.insert(now_ns, new));
                    inserted += 1;
                }
            }
            4..6 if !waiting.is_empty() => {
                let id = waiting[draw.below(waiting.len() as u64) as usize];
                let waiter = Process::new(1 + draw.below(5) as u32);
                promoted += u32::from(with_waits && elevator.promote(now_ns, id, waiter));
            }
            6 if step % 50 == 7 => {
                let gone = elevator.exit(now_ns, 1 + draw.below(5) as u32);
                cancelled += gone.len() as u64;
                waiting.retain(|id| !gone.contains(id));
            }
            7.. if !running.is_empty() => {
                elevator.complete(
                    now_ns,
                    running.swap_remove(draw.below(running.len() as u64) as usize),
                );
                completed += 1;
            }
            _ => {}
        }
        while running.len() < 2
            && let Some(id) = elevator.next(now_ns)
        {
            sent.push(elevator.queue().requests[id].sector());
            waiting.retain(|other| *other != id);
            running.push(id);
        }
    }
    // Whatever was held back goes, and nothing was lost or sent twice.
    elevator.drain(now_ns);
    for id in running.drain(..) {
        elevator.complete(now_ns, id);
        completed += 1;
    }
    while let Some(id) = elevator.next(now_ns) {
        elevator.complete(now_ns, id);
        completed += 1;
    }
    assert_eq!((completed + cancelled, elevator.waiting()), (inserted, 0), "{} {seed}", entry.name);
    (sent, promoted)
}

/// In debug builds the elevator and the scheduler check all their counts after every call.
#[test]
fn every_scheduler_keeps_its_counts_while_requests_are_promoted() {
    for entry in SCHEDULERS {
        for seed in 1..=20 {
            let (sent, promoted) = random_run(entry, seed, true);
            assert!(promoted > 50, "{} {seed}: {promoted} promoted", entry.name);
            let again = random_run(entry, seed, true);
            assert_eq!(again, (sent, promoted), "{} {seed}: the same run differs", entry.name);
        }
        let differs = |seed| random_run(entry, seed, true).0 != random_run(entry, seed, false).0;
        let sorts = elevator(entry, false).scheduler().sorts_by_sync();
        assert!(!sorts || (1..=20).any(differs), "{}: a promotion changes nothing", entry.name);
    }
}

#[test]
fn every_scheduler_takes_each_way_and_refuses_others() {
    for entry in SCHEDULERS {
        assert!(entry.tunables().any(|tunable| tunable.name == "quasi_async"), "{}", entry.name);
        let with = |word: &str| {
            let given = BTreeMap::from([("quasi_async".to_owned(), Value::from(word))]);
            entry.settings(&given).map(|settings| {
                Elevator::new(entry, &settings, ElevatorOptions::default()).quasi_async().name
            })
        };
        for way in QUASI_ASYNC {
            assert_eq!(with(way.name), Ok(way.name), "{}", entry.name);
        }
        let error = with("wait").expect_err("no such way").to_string();
        assert!(error.contains("quasi_async") && error.contains("waits-and-throttling"), "{error}");
        let by_default = elevator(entry, false).quasi_async().name;
        assert_eq!(by_default, "asynchronous", "{}: published runs do not change", entry.name);
    }
}
