//! mq-deadline: a sweep for each direction, deadlines at its stops, priority classes in strict order.
//!
//! Each class (real time, best effort, idle) has its own sweeps and FIFOs, but batch, starvation
//! count and current direction are common to all. A class is served only while none above it has a
//! request queued *or with the device*; requests of the two lower classes that are older than
//! `prio_aging_expire` go first of all.
//!
//! When to expect what: ascending sectors within a direction, reads before writes, writes at the
//! latest after `writes_starved` batches of reads. Unlike in the `deadline` schedulers, a sweep
//! survives the batches of the other direction. A single request of a higher class with the device
//! keeps the free slots of a deep queue empty.
//!
//! Quirks, all of the kernel:
//! - Linux 6.1 remembers the *request* at which a sweep goes on, 6.12 the *sector* where it is. So in
//!   6.12 a request that arrives ahead of the sweep joins it even if the sweep had ended, and a new
//!   queue begins as a batch of writes at sector 0: writes that are there go before reads, and the
//!   lowest sector before the oldest request.
//! - The look at aged requests makes the choice it would dispatch by before it tests their age: it
//!   may end a batch, turn the direction and change the count of starvation without dispatching
//!   anything. While a young write of a lower class waits, writes of a higher class can starve.
//! - Expired means *at* the deadline or after it.
//! - `async_depth` limits all but synchronous reads, and counts in each word of the tag bitmap; see
//!   `tag_depth.rs`. By default neither version limits anything.
//!
//! Left out: zones, insertion at the head (flushes), merging at insertion (it finds what merging at
//! submission finds, unless plugs are used), and the one request a driver without free tags holds
//! back from the scheduler.
//!
//! Source: Linux 6.1 and 6.12, `block/mq-deadline.c`; priorities in merging, `block/blk-merge.c`.

use crate::lane_audit::audit_lane;
use crate::tag_depth::TagPool;
use crate::{
    Bio, Class, Clock, Direction, Links, List, MergeSide, Queue, RequestId, Requests, Scheduler,
    SchedulerEntry, SectorTree, Settings,
};
use settings::Parameter;

/// The row of Linux 6.1, whose sweeps remember a request.
pub(crate) const ENTRY_6_1: SchedulerEntry = SchedulerEntry {
    name: "mq-deadline-6.1",
    aliases: &[],
    summary: "sweeps with deadlines and priority classes; a sweep goes on at a request",
    source: "Linux 6.1, block/mq-deadline.c",
    // 3/4 of 128; see `async_depth` for what a word of the bitmap makes of it.
    parameters: &parameters("96"),
    build: &|settings, clock| Box::new(MqDeadline::new(settings, clock, Version::V6_1)),
};

/// The row of Linux 6.12, whose sweeps remember a sector.
pub(crate) const ENTRY_6_12: SchedulerEntry = SchedulerEntry {
    name: "mq-deadline-6.12",
    aliases: &["mq-deadline"],
    summary: "sweeps with deadlines and priority classes; a sweep goes on at a sector",
    source: "Linux 6.12, block/mq-deadline.c",
    parameters: &parameters("128"),
    build: &|settings, clock| Box::new(MqDeadline::new(settings, clock, Version::V6_12)),
};

const LARGEST: i64 = i32::MAX as i64;

const fn parameters(async_depth: &'static str) -> [Parameter; 7] {
    [
        Parameter::integer(
            "async_depth",
            (1, LARGEST),
            async_depth,
            "requests of all but synchronous reads; by default 3/4 of nr_requests (6.1) or all",
        ),
        Parameter::integer("fifo_batch", (0, LARGEST), "16", "requests of a batch"),
        Parameter::integer("front_merges", (0, 1), "1", "1 to look for front merges by sector"),
        Parameter::integer(
            "prio_aging_expire",
            (0, LARGEST),
            "10000",
            "ms after which requests of lower classes go first",
        ),
        Parameter::integer("read_expire", (0, LARGEST), "500", "ms until a read is late"),
        Parameter::integer("write_expire", (0, LARGEST), "5000", "ms until a write is late"),
        Parameter::integer(
            "writes_starved",
            (0, LARGEST),
            "2",
            "batches of reads that may go before waiting writes",
        ),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V6_1,
    V6_12,
}

const DIRECTIONS: [Direction; 2] = [Direction::Read, Direction::Write];

/// Where a sweep over the sectors of one direction goes on.
enum Sweep {
    /// At this request, if there is one (6.1).
    Request(Option<RequestId>),
    /// At the first request from this sector on (6.12).
    Sector(u64),
}

/// Requests of one class and direction.
struct Lane {
    by_sector: SectorTree,
    by_age: List,
    sweep: Sweep,
}

impl Lane {
    fn new(version: Version) -> Self {
        let sweep = match version {
            Version::V6_1 => Sweep::Request(None),
            Version::V6_12 => Sweep::Sector(0),
        };
        Self { by_sector: SectorTree::default(), by_age: List::default(), sweep }
    }

    fn next(&self) -> Option<RequestId> {
        match self.sweep {
            Sweep::Request(next) => next,
            // `deadline_from_pos` of 6.12: the request after the sector, which may have come after
            // the sweep had ended.
            Sweep::Sector(sector) => self.by_sector.at_or_after(sector),
        }
    }

    fn remove(&mut self, links: &mut Links, id: RequestId) {
        if let Sweep::Request(next) = &mut self.sweep
            && *next == Some(id)
        {
            *next = self.by_sector.next(id);
        }
        self.by_sector.remove(id);
        self.by_age.remove(links, id);
    }

    /// Moves the sweep to a request that is about to be dispatched.
    fn advance(&mut self, id: RequestId, requests: &Requests) {
        self.sweep = match self.sweep {
            Sweep::Request(_) => Sweep::Request(Some(id)),
            Sweep::Sector(_) => Sweep::Sector(requests[id].sector()),
        };
    }
}

/// Requests of one priority class.
struct ClassQueue {
    lanes: [Lane; 2],
    /// Requests inserted and not yet completed.
    held: usize,
}

struct MqDeadline {
    classes: [ClassQueue; 3],
    links: Links,
    direction: Direction,
    /// Requests dispatched of the running batch.
    batching: u32,
    /// Times that reads were chosen while writes waited.
    starved: u32,
    version: Version,
    expire: [u64; 2],
    aging_expire: u64,
    fifo_batch: u32,
    writes_starved: u32,
    front_merges: bool,
    async_depth: Option<u32>,
}

impl MqDeadline {
    fn new(settings: &Settings, clock: Clock, version: Version) -> Self {
        let class = || ClassQueue { lanes: [Lane::new(version), Lane::new(version)], held: 0 };
        Self {
            classes: [class(), class(), class()],
            links: Links::default(),
            // `dd_init_sched` sets `last_dir` to `DD_WRITE`, and 6.12 a position of 0: a new queue
            // begins with its writes.
            direction: Direction::Write,
            batching: 0,
            starved: 0,
            version,
            expire: [
                clock.setting(settings, "read_expire", clock.hz / 2),
                clock.setting(settings, "write_expire", 5 * clock.hz),
            ],
            aging_expire: clock.setting(settings, "prio_aging_expire", 10 * clock.hz),
            fifo_batch: settings.integer("fifo_batch"),
            writes_starved: settings.integer("writes_starved"),
            front_merges: settings.integer("front_merges") == 1,
            async_depth: settings.given_integer("async_depth"),
        }
    }

    fn lane(&self, class: Class, direction: Direction) -> &Lane {
        &self.classes[class as usize].lanes[direction as usize]
    }

    fn lane_mut(&mut self, class: Class, direction: Direction) -> &mut Lane {
        &mut self.classes[class as usize].lanes[direction as usize]
    }

    fn lane_of(&self, id: RequestId, queue: &Queue) -> &Lane {
        let bio = &queue.requests[id].bio;
        self.lane(bio.class, bio.direction)
    }

    /// The request that a class would dispatch; ends the batch if that is not the next of it.
    fn choose(&mut self, class: Class, now: u64, requests: &Requests) -> Option<RequestId> {
        // `__dd_dispatch_request` goes by the direction of the last batch, whichever class that was
        // of.
        let next = self.lane(class, self.direction).next();
        if next.is_some() && self.batching < self.fifo_batch {
            return next;
        }
        let [has_reads, has_writes] =
            DIRECTIONS.map(|direction| !self.lane(class, direction).by_age.is_empty());
        let direction = match (has_reads, has_writes) {
            (false, false) => return None,
            (true, false) => Direction::Read,
            (false, true) => Direction::Write,
            (true, true) => {
                // Compared before it is counted, so two batches of reads pass.
                let is_enough = self.starved >= self.writes_starved;
                self.starved += 1;
                if is_enough { Direction::Write } else { Direction::Read }
            }
        };
        if direction == Direction::Write {
            self.starved = 0;
        }
        self.direction = direction;
        self.batching = 0;
        let lane = self.lane(class, direction);
        let oldest = lane.by_age.front()?;
        // `time_after_eq`, unlike `deadline`: late means at the deadline.
        let is_late = now >= requests[oldest].deadline;
        lane.next().filter(|_| !is_late).or(Some(oldest))
    }

    /// Dispatches a request of a class, if the one to dispatch was inserted by `newest`.
    fn dispatch_class(&mut self, class: Class, newest: u64, now: u64, queue: &mut Queue) -> bool {
        let Some(id) = self.choose(class, now, &queue.requests) else { return false };
        let request = &queue.requests[id];
        let direction = request.bio.direction;
        // `started_after`: the deadline less the expiry is the time of insertion, since nothing
        // else is stored.
        if request.deadline - self.expire[direction as usize] > newest {
            return false;
        }
        self.batching += 1;
        let lane = &mut self.classes[class as usize].lanes[direction as usize];
        // 6.1 moves the sweep to the request and on to its neighbour when that is removed; 6.12
        // keeps the sector.
        lane.advance(id, &queue.requests);
        lane.remove(&mut self.links, id);
        queue.dispatch_tail(id);
        true
    }

    fn dispatch_aged(&mut self, now: u64, queue: &mut Queue) -> bool {
        let newest = now - self.aging_expire;
        // With one class in use no request can be starved by another
        // (`dd_dispatch_prio_aged_requests`).
        self.classes.iter().filter(|class| class.held > 0).count() >= 2
            && [Class::BestEffort, Class::Idle]
                .into_iter()
                .any(|class| self.dispatch_class(class, newest, now, queue))
    }

    fn dispatch_by_class(&mut self, now: u64, queue: &mut Queue) -> bool {
        for class in [Class::RealTime, Class::BestEffort, Class::Idle] {
            if self.dispatch_class(class, now, now, queue) {
                return true;
            }
            // `dd_queued` counts until completion: a class with requests at the device blocks those
            // below.
            if self.classes[class as usize].held > 0 {
                break;
            }
        }
        false
    }

    fn drain(&mut self, now: u64, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        for class in [Class::RealTime, Class::BestEffort, Class::Idle] {
            while self.dispatch_class(class, now, now, queue) {
                moved += 1;
            }
        }
        moved
    }
}

fn same_priority(one: &Bio, other: &Bio) -> bool {
    (one.class, one.level) == (other.class, other.level)
}

impl Scheduler for MqDeadline {
    // One structure for the device (`dd_dispatch_request` asks `elevator_data` of the queue, whatever the hardware queue).
    fn is_multi_queue(&self) -> bool {
        true
    }

    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let now = queue.jiffies(now_ns);
        let request = &mut queue.requests[id];
        let Bio { class, direction, .. } = request.bio;
        request.deadline = now + self.expire[direction as usize];
        let class = &mut self.classes[class as usize];
        class.held += 1;
        let lane = &mut class.lanes[direction as usize];
        lane.by_sector.insert(&queue.requests, id);
        lane.by_age.push_back(&mut self.links, id);
    }

    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        let now = queue.jiffies(now_ns);
        if force {
            return self.drain(now, queue);
        }
        u32::from(self.dispatch_aged(now, queue) || self.dispatch_by_class(now, queue))
    }

    fn audit(&self, queue: &Queue) {
        for lane in self.classes.iter().flat_map(|class| &class.lanes) {
            if let Sweep::Request(Some(next)) = lane.sweep {
                let is_there = lane.by_sector.contains(next);
                assert!(is_there, "the sweep goes on at a request that waits");
            }
            audit_lane(&lane.by_sector, lane.by_age, &self.links, queue);
        }
        let held: usize = self.classes.iter().map(|class| class.held).sum();
        // Those that went past the scheduler are counted by the kernel too, but decide nothing in one class.
        let known = queue.requests.len() - queue.requests.bypassed();
        assert_eq!(held, known, "classes hold all requests until their end");
    }

    fn queued(&self) -> usize {
        self.classes.iter().flat_map(|class| &class.lanes).map(|lane| lane.by_age.len()).sum()
    }

    fn allows_merge(&self, bio: &Bio, id: RequestId, queue: &Queue) -> bool {
        same_priority(bio, &queue.requests[id].bio)
    }

    fn find_merge(&self, bio: &Bio, queue: &Queue) -> Option<(RequestId, MergeSide)> {
        if !self.front_merges {
            return None;
        }
        let id = self.lane(bio.class, bio.direction).by_sector.find(bio.end())?;
        self.allows_merge(bio, id, queue).then_some((id, MergeSide::Front))
    }

    fn merged(&mut self, _now_ns: u64, id: RequestId, side: MergeSide, queue: &mut Queue) {
        if side == MergeSide::Front {
            let Bio { class, direction, .. } = queue.requests[id].bio;
            let tree = &mut self.lane_mut(class, direction).by_sector;
            tree.remove(id);
            tree.insert(&queue.requests, id);
        }
    }

    fn absorb(&mut self, _: u64, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        let Bio { class, direction, .. } = queue.requests[absorbed].bio;
        let class = &mut self.classes[class as usize];
        // The merge frees the absorbed request, and `dd_finish_request` counts it as completed.
        class.held -= 1;
        let lane = &mut class.lanes[direction as usize];
        let deadline = queue.requests[absorbed].deadline;
        if deadline < queue.requests[survivor].deadline {
            queue.requests[survivor].deadline = deadline;
            lane.by_age.remove(&mut self.links, survivor);
            lane.by_age.insert_before(&mut self.links, absorbed, survivor);
        }
        lane.remove(&mut self.links, absorbed);
    }

    // At the head of the dispatch list of its class (`dd_insert_request`). There is one list for all classes here, so
    // this holds while all requests are of one class.
    fn takes_back(&self) -> bool {
        true
    }

    fn activate(&mut self, _now_ns: u64, id: RequestId, queue: &mut Queue) {
        // `dd_start_request` of 6.12 moves the sweep also to a request that came back. 6.1 moved it when the
        // request first left (`deadline_move_request`).
        if self.version == Version::V6_12 {
            let Bio { class, direction, .. } = queue.requests[id].bio;
            self.lane_mut(class, direction).advance(id, &queue.requests);
        }
    }

    fn former(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        let former = self.lane_of(id, queue).by_sector.previous(id)?;
        // Neighbours of another priority are not joined (`attempt_merge`), although they stand side
        // by side.
        self.allows_merge(&queue.requests[id].bio, former, queue).then_some(former)
    }

    fn latter(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        let latter = self.lane_of(id, queue).by_sector.next(id)?;
        self.allows_merge(&queue.requests[id].bio, latter, queue).then_some(latter)
    }

    fn complete(&mut self, _now_ns: u64, id: RequestId, queue: &mut Queue) {
        self.classes[queue.requests[id].bio.class as usize].held -= 1;
    }

    fn depth_limit(&self, bio: &Bio, queue: &Queue) -> Option<u32> {
        let pool = TagPool::new(queue.nr_requests);
        // Writes are limited even if they are synchronous (`dd_limit_depth`).
        if bio.direction == Direction::Read {
            return Some(queue.nr_requests);
        }
        let in_word = match self.version {
            // 6.1 takes the share of all tags for bits of a word, so 96 of 128 limits nothing where
            // words have 32.
            Version::V6_1 => self.async_depth.unwrap_or((3 * queue.nr_requests / 4).max(1)),
            Version::V6_12 => pool.depth_in_word(self.async_depth.unwrap_or(queue.nr_requests)),
        };
        Some(pool.within(in_word))
    }

    fn state_bytes(&self) -> usize {
        let trees = self.classes.iter().flat_map(|class| &class.lanes);
        size_of::<Self>()
            + self.links.bytes()
            + trees.map(|lane| lane.by_sector.bytes()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::{ENTRY_6_1, ENTRY_6_12, MqDeadline, Sweep, Version};
    use crate::tests::{CLOCK, defaults, filled, panics_with};
    use crate::{
        Bio, Class, Direction, Elevator, ElevatorOptions, Queue, RequestId, Scheduler,
        SchedulerEntry,
    };
    use settings::Value;
    use std::collections::BTreeMap;

    /// What breaks a count.
    type Break = fn(&mut MqDeadline, &mut Queue);

    fn elevator(entry: &SchedulerEntry, given: &[(&str, i64)], nr_requests: u32) -> Elevator {
        let given: BTreeMap<String, Value> = given
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::Integer(*value)))
            .collect();
        let settings = entry.settings(&given).expect("known settings");
        let options = ElevatorOptions { nr_requests, ..ElevatorOptions::default() };
        Elevator::new(entry, &settings, options)
    }

    fn bio(class: Class, direction: Direction, sector: u64) -> Bio {
        let sync = direction == Direction::Read;
        Bio { pid: 1, direction, sync, noidle: false, class, level: 4, sector, sectors: 8 }
    }

    #[test]
    fn async_depth_counts_in_words_and_limits_nothing_by_default() {
        let depth = |entry, given: &[(&str, i64)], nr_requests| {
            let elevator = elevator(entry, given, nr_requests);
            let write = bio(Class::BestEffort, Direction::Write, 0);
            let limit = |bio: &Bio| elevator.scheduler().depth_limit(bio, elevator.queue());
            assert_eq!(limit(&Bio { sync: true, ..write }), limit(&write), "no write is exempt");
            assert_eq!(limit(&bio(Class::BestEffort, Direction::Read, 0)), Some(nr_requests));
            limit(&write)
        };
        assert_eq!(depth(&ENTRY_6_1, &[], 128), Some(128));
        assert_eq!(depth(&ENTRY_6_12, &[], 128), Some(128));
        assert_eq!(depth(&ENTRY_6_1, &[("async_depth", 16)], 128), Some(64));
        assert_eq!(depth(&ENTRY_6_12, &[("async_depth", 16)], 128), Some(16));
        assert_eq!(depth(&ENTRY_6_12, &[("async_depth", 1)], 128), Some(4), "one in each word");
    }

    #[test]
    fn every_broken_count_is_seen() {
        let broken: [(&str, Break); 3] = [
            ("the same requests are sorted by sector and by age", |scheduler, _| {
                scheduler.classes[1].lanes[0].by_sector.remove(RequestId(1));
            }),
            ("the sweep goes on at a request that waits", |scheduler, queue| {
                scheduler.classes[1].lanes[0].sweep = Sweep::Request(Some(RequestId(2)));
                assert_eq!(queue.requests[RequestId(2)].bio.direction, Direction::Write);
            }),
            ("classes hold all requests until their end", |scheduler, _| {
                scheduler.classes[2].held += 1;
            }),
        ];
        for (message, break_it) in broken {
            let scheduler = MqDeadline::new(&defaults(&ENTRY_6_1), CLOCK, Version::V6_1);
            let (mut scheduler, mut queue) = filled(scheduler);
            break_it(&mut scheduler, &mut queue);
            panics_with(message, || scheduler.audit(&queue));
        }
    }

    #[test]
    fn a_joined_request_no_longer_blocks_lower_classes() {
        for entry in [&ENTRY_6_1, &ENTRY_6_12] {
            let mut elevator = elevator(entry, &[], 128);
            let real_time = |sector| bio(Class::RealTime, Direction::Write, sector);
            let first = elevator.insert(0, real_time(0));
            elevator.insert(0, real_time(16));
            let merged = elevator.try_merge(0, &real_time(8)).expect("it closes the gap");
            assert_eq!(merged.survivor, first);
            let idle = elevator.insert(0, bio(Class::Idle, Direction::Read, 500));
            assert_eq!((elevator.next(0), elevator.next(0)), (Some(first), None));
            elevator.complete(0, first);
            assert_eq!(elevator.next(0), Some(idle));
        }
    }

    #[test]
    fn a_sweep_by_request_outlives_the_absorption_of_its_next() {
        let mut elevator = elevator(&ENTRY_6_1, &[], 128);
        let read = |sector| bio(Class::BestEffort, Direction::Read, sector);
        let ids = [0, 116, 132].map(|sector| elevator.insert(0, read(sector)));
        assert_eq!(elevator.next(0), Some(ids[0]));
        let now_ns = 2_000_000;
        let late = elevator.insert(now_ns, read(50));
        let front = elevator.insert(now_ns, read(100));
        let merged = elevator.try_merge(now_ns, &read(108)).expect("it touches the next");
        assert_eq!((merged.survivor, merged.absorbed), (front, Some(ids[1])));
        assert_eq!(elevator.next(now_ns), Some(ids[2]), "the next but one is next");
        assert_eq!(elevator.next(now_ns), Some(front), "which took the place of the oldest");
        assert_eq!(elevator.next(now_ns), Some(late));
    }
}
