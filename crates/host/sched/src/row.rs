//! ROW, read over write: seven FIFO queues, served by class, with a quantum each and idling for
//! the next read.
//!
//! A request goes to one of seven queues by the priority class of its process (real time, best
//! effort, idle) and its kind (read, synchronous write, asynchronous write; an asynchronous write
//! is regular whatever its class). A more urgent class is served while it has requests, until
//! another has been passed over `reg_starv_limit` or `low_starv_limit` times. In a class, the first
//! queue that has requests and quantum left is served; if there is none, a new cycle begins and all
//! quanta are restored.
//!
//! - *Idling.* If reads reach a queue less than `rd_idle_data_freq` milliseconds apart, and the
//!   queue runs empty, nothing less urgent is served for `rd_idle_data` milliseconds; for high and
//!   for regular reads one after the other, if both came so.
//! - *Urgent requests.* The first high read after something else was served, and any read for a
//!   queue that did not use up its quantum in the cycle before and has not been served since, is
//!   dispatched next, idling or not. One at a time: there is none while one is pending or in
//!   flight. What the driver of that tree adds (it stops a running write for an urgent read) is
//!   not modelled.
//!
//! When to expect what: reads wait for little more than the request in service; writers get one
//! request for a hundred reads, and on a device that is fast against 5 ms idling costs a large part
//! of the throughput.
//!
//! Quirks of the original that are kept: every dispatch call on an empty scheduler that is to
//! idle restarts the idle timer; the flag to idle outlives the cancelling of the timer; no hook
//! joins neighbours, since the queues are not in the order of sectors. Tunables below 1 count as 1,
//! as in sysfs.
//!
//! Source: `block/row-iosched.c` of an Android 4.1.18 tree (The Linux Foundation, 2012 to 2014).
//! Other Android trees have other numbers (2014: quanta 100, 5, 75, 4, 4, 3, 2, idling 10 and 25
//! ms), which are settings here; trees of 2013 have no starvation limits.

use crate::{Class, Direction, Links, List, Queue, RequestId, Scheduler, SchedulerEntry};
use settings::{Kind, Parameter, Settings};
use std::ops::Range;

const MILLISECOND_NS: u64 = 1_000_000;

const UP_TO_INT_MAX: Kind = Kind::Integer { min: 0, max: i32::MAX as i64 };

const fn tunable(name: &'static str, default: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, kind: UP_TO_INT_MAX, default, summary }
}

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "row",
    aliases: &[],
    summary: "reads over writes: seven queues by class and kind, quanta, idling for reads",
    source: "Android 4.1.18, block/row-iosched.c",
    parameters: &[
        tunable("hp_read_quantum", "10", "real-time reads a cycle, in requests"),
        tunable("hp_swrite_quantum", "1", "real-time synchronous writes a cycle, in requests"),
        tunable("rp_read_quantum", "100", "best-effort reads a cycle, in requests"),
        tunable("rp_swrite_quantum", "1", "best-effort synchronous writes a cycle, in requests"),
        tunable("rp_write_quantum", "1", "asynchronous writes a cycle, in requests"),
        tunable("lp_read_quantum", "1", "idle-class reads a cycle, in requests"),
        tunable("lp_swrite_quantum", "1", "idle-class synchronous writes a cycle, in requests"),
        tunable("rd_idle_data", "5", "time to wait for the next read, in ms"),
        tunable("rd_idle_data_freq", "5", "reads closer than this are worth waiting for, in ms"),
        tunable("reg_starv_limit", "5000", "requests served while best effort waits"),
        tunable("low_starv_limit", "10000", "requests served while the idle class waits"),
    ],
    build: &|settings, _| Box::new(Row::new(settings)),
};

/// What a queue of the table does, but for its quantum, which is a tunable.
struct Rule {
    quantum: &'static str,
    /// The scheduler may idle for it, and it may have urgent requests.
    for_reads: bool,
}

/// The queues, in the order in which they are looked at.
const RULES: [Rule; 7] = [
    Rule { quantum: "hp_read_quantum", for_reads: true },
    Rule { quantum: "hp_swrite_quantum", for_reads: false },
    Rule { quantum: "rp_read_quantum", for_reads: true },
    Rule { quantum: "rp_swrite_quantum", for_reads: false },
    Rule { quantum: "rp_write_quantum", for_reads: false },
    Rule { quantum: "lp_read_quantum", for_reads: false },
    Rule { quantum: "lp_swrite_quantum", for_reads: false },
];

// An asynchronous write has no place of its own in the other classes.
const ASYNC_WRITES: usize = 4;

/// A class of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    High,
    Regular,
    Low,
}

impl Level {
    const fn places(self) -> Range<usize> {
        match self {
            Self::High => 0..2,
            Self::Regular => 2..5,
            Self::Low => 5..7,
        }
    }

    fn of(place: usize) -> Self {
        match place {
            0..2 => Self::High,
            2..5 => Self::Regular,
            _ => Self::Low,
        }
    }
}

#[derive(Default)]
struct RowQueue {
    fifo: List,
    quantum: u32,
    /// Requests dispatched in this cycle of the class.
    dispatched: u32,
    /// It got less than its quantum in an earlier cycle, and nothing since.
    unserved: bool,
    last_insert_ns: Option<u64>,
    /// The next read is expected soon.
    wants_idling: bool,
}

/// How long a class has been passed over.
struct Starvation {
    limit: u32,
    /// Requests of more urgent classes dispatched while this one had any.
    passed_over: u32,
}

impl Starvation {
    fn is_due(&self) -> bool {
        self.passed_over >= self.limit
    }
}

/// An armed idle timer.
struct Idling {
    expires_ns: u64,
    place: usize,
}

struct Row {
    queues: [RowQueue; 7],
    links: Links,
    /// Place of the queue each request is in, by its number.
    homes: Vec<u8>,
    queued: usize,
    idle_ns: u64,
    gap_ms: u64,
    idling: Option<Idling>,
    urgent: Option<RequestId>,
    urgent_in_flight: Option<RequestId>,
    last_served: Option<Level>,
    regular: Starvation,
    low: Starvation,
}

impl Row {
    fn new(settings: &Settings) -> Self {
        // A quantum or a limit below 1 counts as 1, as sysfs stores it.
        let number = |name: &str| settings.integer(name).max(1);
        let starvation = |name: &str| Starvation { limit: number(name), passed_over: 0 };
        Self {
            queues: RULES
                .map(|rule| RowQueue { quantum: number(rule.quantum), ..RowQueue::default() }),
            links: Links::default(),
            homes: Vec::new(),
            queued: 0,
            idle_ns: u64::from(number("rd_idle_data")) * MILLISECOND_NS,
            gap_ms: u64::from(number("rd_idle_data_freq")),
            idling: None,
            urgent: None,
            urgent_in_flight: None,
            last_served: None,
            regular: starvation("reg_starv_limit"),
            low: starvation("low_starv_limit"),
        }
    }

    fn has_requests(&self, level: Level) -> bool {
        self.queues[level.places()].iter().any(|queue| !queue.fifo.is_empty())
    }

    fn remove(&mut self, id: RequestId) -> usize {
        let place = usize::from(self.homes[id.index()]);
        self.queues[place].fifo.remove(&mut self.links, id);
        self.queued -= 1;
        place
    }

    /// Notes that a read came, and whether another may be expected soon.
    fn watch_reads(&mut self, now_ns: u64, place: usize) {
        // A read of that queue came: what the device was kept free for is here.
        self.idling.take_if(|idling| idling.place == place);
        let queue = &mut self.queues[place];
        queue.wants_idling = queue
            .last_insert_ns
            .is_some_and(|last_ns| (now_ns - last_ns) / MILLISECOND_NS < self.gap_ms);
        queue.last_insert_ns = Some(now_ns);
    }

    fn becomes_urgent(&self, place: usize, was_empty: bool) -> bool {
        if self.urgent.is_some() || self.urgent_in_flight.is_some() {
            return false;
        }
        let level = Level::of(place);
        // A read of the urgent class that finds its queue empty and another class served is
        // dispatched at once (`row_add_request`).
        let interrupts = level == Level::High && self.last_served != Some(level) && was_empty;
        interrupts || self.queues[place].unserved
    }

    /// Moves a request to the dispatch list and keeps the accounts.
    fn send(&mut self, id: RequestId, queue: &mut Queue) {
        let place = self.remove(id);
        if self.urgent == Some(id) {
            self.urgent = None;
            self.urgent_in_flight = Some(id);
        }
        // Sorted, although FIFO queues feed it: the dispatch list is the driver's
        // (`row_dispatch_insert`).
        queue.dispatch_sort(id);
        self.queues[place].dispatched += 1;
        self.queues[place].unserved = false;
        let level = Level::of(place);
        self.last_served = Some(level);
        match level {
            Level::High => {
                self.regular.passed_over += u32::from(self.has_requests(Level::Regular));
                self.low.passed_over += u32::from(self.has_requests(Level::Low));
            }
            Level::Regular => {
                self.regular.passed_over = 0;
                self.low.passed_over += u32::from(self.has_requests(Level::Low));
            }
            Level::Low => self.low.passed_over = 0,
        }
    }

    /// The class to serve now; none if there is nothing to serve, or the time to idle.
    fn level_to_serve(&mut self, now_ns: u64, force: bool) -> Option<Level> {
        // A class without requests cannot starve, whatever its count.
        let low_is_due = self.low.is_due() && self.has_requests(Level::Low);
        if self.has_requests(Level::High) {
            self.idling = None;
            return Some(if self.regular.is_due() && self.has_requests(Level::Regular) {
                Level::Regular
            } else if low_is_due {
                Level::Low
            } else {
                Level::High
            });
        }
        // While a timer runs nothing of the regular and the idle class is served.
        if self.queued > 0 && self.idling.is_some() {
            return None;
        }
        // On an empty scheduler each call restarts the timer; see the quirks above.
        if !force && let Some(place) = self.place_to_idle_for() {
            self.idling = Some(Idling { expires_ns: now_ns + self.idle_ns, place });
            return None;
        }
        if self.has_requests(Level::Regular) {
            return Some(if low_is_due { Level::Low } else { Level::Regular });
        }
        (self.queued > 0).then_some(Level::Low)
    }

    /// The queue, empty now, whose next read is worth waiting for before anything of its class or
    /// below is served. The high queues are empty when this is asked.
    fn place_to_idle_for(&self) -> Option<usize> {
        let idles = |place: &usize| RULES[*place].for_reads && self.queues[*place].wants_idling;
        Level::High.places().find(idles).or_else(|| {
            // Regular queues are asked in their order, and the first with requests ends the search:
            // a queue behind it must not be idled for.
            let mut empty =
                Level::Regular.places().take_while(|place| self.queues[*place].fifo.is_empty());
            empty.find(idles)
        })
    }

    /// The first request of the class's queue whose turn it is.
    fn next_of(&mut self, level: Level) -> Option<RequestId> {
        let queues = &mut self.queues[level.places()];
        let next = |queues: &[RowQueue]| {
            let mut with_quantum = queues.iter().filter(|queue| queue.dispatched < queue.quantum);
            with_quantum.find_map(|queue| queue.fifo.front())
        };
        // No queue of the class has quantum left: the cycle ends, and what was not used up marks
        // the queue (`row_mark_rq_unserved`).
        next(queues).or_else(|| {
            for queue in queues.iter_mut() {
                queue.unserved |= queue.dispatched < queue.quantum;
                queue.dispatched = 0;
            }
            next(queues)
        })
    }

    /// Moves one request; false if none was to be moved.
    fn send_next(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> bool {
        if force {
            self.idling = None;
        }
        let next = self.urgent.or_else(|| {
            let level = self.level_to_serve(now_ns, force);
            if level.is_none() {
                self.last_served = None;
            }
            self.next_of(level?)
        });
        if let Some(id) = next {
            self.send(id, queue);
        }
        next.is_some()
    }
}

impl Scheduler for Row {
    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let bio = queue.requests[id].bio;
        let place = match (bio.class, bio.direction, bio.sync) {
            (_, Direction::Write, false) => ASYNC_WRITES,
            (class, direction, _) => {
                let first = match class {
                    Class::RealTime => Level::High,
                    Class::BestEffort => Level::Regular,
                    Class::Idle => Level::Low,
                };
                // The kind selects the queue; a write is asynchronous only if its flag says so.
                first.places().start + usize::from(direction == Direction::Write)
            }
        };
        if self.homes.len() <= id.index() {
            self.homes.resize(id.index() + 1, 0);
        }
        self.homes[id.index()] = place as u8;
        let fifo = &mut self.queues[place].fifo;
        let was_empty = fifo.is_empty();
        fifo.push_back(&mut self.links, id);
        self.queued += 1;
        if RULES[place].for_reads {
            self.watch_reads(now_ns, place);
            if self.becomes_urgent(place, was_empty) {
                self.urgent = Some(id);
            }
        }
    }

    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        u32::from(self.send_next(now_ns, force, queue))
    }

    fn queued(&self) -> usize {
        self.queued
    }

    fn audit(&self, queue: &Queue) {
        for (place, own) in self.queues.iter().enumerate() {
            own.fifo.audit(&self.links);
            for id in own.fifo.iter(&self.links) {
                assert_eq!(usize::from(self.homes[id.index()]), place, "a request is at home");
                let may_wait = queue.requests[id].may_wait();
                assert!(may_wait, "a request that waits is with the scheduler");
            }
        }
        let waiting: usize = self.queues.iter().map(|queue| queue.fifo.len()).sum();
        assert_eq!(waiting, self.queued, "as many requests wait as are counted");
    }

    fn absorb(&mut self, _now_ns: u64, survivor: RequestId, absorbed: RequestId, _: &mut Queue) {
        self.remove(absorbed);
        if self.urgent == Some(absorbed) {
            // The absorbed request takes its urgency with it.
            self.urgent = Some(survivor);
        }
    }

    fn sorts_by_sync(&self) -> bool {
        true
    }

    fn complete(&mut self, _now_ns: u64, id: RequestId, _queue: &mut Queue) {
        self.urgent_in_flight.take_if(|urgent| *urgent == id);
    }

    fn timer_ns(&self) -> Option<u64> {
        self.idling.as_ref().map(|idling| idling.expires_ns)
    }

    fn timer(&mut self, _now_ns: u64, queue: &mut Queue) {
        if let Some(idling) = self.idling.take() {
            self.queues[idling.place].wants_idling = false;
            queue.run_soon |= self.queued > 0;
        }
    }

    fn is_idling(&self) -> bool {
        self.idling.is_some() && self.queued > 0
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.links.bytes() + self.homes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, Row};
    use crate::tests::{defaults, filled, panics_with};
    use crate::{Queue, RequestId, Scheduler};

    /// What breaks a count.
    type Break = fn(&mut Row, &mut Queue);

    #[test]
    fn every_broken_count_is_seen() {
        let broken: [(&str, Break); 3] = [
            ("as many requests wait as are counted", |row, _| row.queued += 1),
            ("a request is at home", |row, _| row.homes[1] = 0),
            ("a request that waits is with the scheduler", |_, queue| {
                queue.requests[RequestId(1)].sorted = false;
            }),
        ];
        for (message, break_it) in broken {
            let (mut row, mut queue) = filled(Row::new(&defaults(&ENTRY)));
            break_it(&mut row, &mut queue);
            panics_with(message, || row.audit(&queue));
        }
    }
}
