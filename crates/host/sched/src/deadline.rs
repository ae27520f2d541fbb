//! Deadline: a one-way elevator for each direction, in batches, reads before writes; whoever has
//! waited too long begins the next batch.
//!
//! Each direction keeps its requests twice: sorted by sector, and in the order of arrival with a
//! deadline. A batch is up to `fifo_batch` requests of one direction in ascending order. Between
//! batches, and only there, the direction is chosen anew (reads, unless writes have waited for
//! `writes_starved` batches of reads) and deadlines are looked at: a batch begins with the oldest
//! request of its direction if that is overdue, if the last batch was of the other direction, or if
//! no request lies ahead of the last one; else the sweep goes on. Processes, classes, the
//! synchronous flag and the kind of device are ignored, and nothing is ever waited for.
//!
//! When to expect what: reads that overtake a backlog of writes, a bound on the wait of everything,
//! and no fairness between processes. On flash the sweep gains nothing; the preference for reads
//! and the bound are what is left.
//!
//! # How long a request can wait
//!
//! Deadlines are soft. Let a request of direction *d* become overdue at time *X*, the first tick
//! edge after its deadline: at most one tick more than `read_expire` or `write_expire` after its
//! insertion. Let *k* requests of its direction that were inserted before it be queued at that
//! moment, and let *B* = max(1, `fifo_batch`) and *W* = `writes_starved`. From *X* on each batch of
//! *d* takes the oldest request, so the batch after *k* others begins with this one. Before it go
//! what is left of the running batch (at most *B* - 1), *k* batches of its own direction, and as
//! many batches of the other one as the preference admits: of writes one before the first, and then
//! one after every *W*, of reads *W* before each. So the requests dispatched from *X* until this one
//! is dispatched are at most
//!
//! ```text
//! read:   N = (B - 1) + B * (k + ceil((k + 1) / W))     W = 0: no bound while writes are queued
//! write:  N = (B - 1) + B * (k + W * (k + 1))
//! ```
//!
//! and on a device that holds *D* requests and needs at most *S* for one, it is dispatched no later
//! than *X* + ceil((*N* + 1) / *D*) * *S*. Both are reached (`tests/all/deadline_bound.rs`). With *k* = 0
//! and the defaults that is the rest of a batch and one batch of writes for a read, and the rest of
//! a batch and two batches of reads for a write. In 2.6.32 each request that displaces another of
//! the same first sector adds one.
//!
//! Quirks. If a request begins at the sector at which a queued one begins, 2.6.32 sends the queued
//! one to the driver at once, whatever its turn, and goes on from there; 3.4 keeps both. When a sweep
//! ends it begins again at the oldest request, not at the lowest sector. A sysfs `writes_starved` below
//! zero is compared as an unsigned number and never lets a write pass: 2147483647 states that here.
//!
//! Source: Linux 2.6.32 (2.6.29 decides alike) and 3.4, `block/deadline-iosched.c`.

use crate::lane_audit::audit_lane;
use crate::{
    Bio, Clock, Direction, Links, List, MergeSide, Queue, RequestId, Scheduler, SchedulerEntry,
    SectorTree, Settings,
};
use settings::{Kind, Parameter};

pub(crate) const ENTRY_2_6_32: SchedulerEntry = SchedulerEntry {
    name: "deadline-2.6.32",
    aliases: &["deadline"],
    summary: "batches of ascending sectors, reads first, the overdue before the rest",
    source: "Linux 2.6.32 (2.6.29 alike), block/deadline-iosched.c",
    parameters: PARAMETERS,
    build: &|settings, clock| Box::new(Deadline::new(settings, clock, SameSector::Displaces)),
};

pub(crate) const ENTRY_3_4: SchedulerEntry = SchedulerEntry {
    name: "deadline-3.4",
    aliases: &[],
    summary: "as deadline-2.6.32, but requests of the same first sector may be queued together",
    source: "Linux 3.4, block/deadline-iosched.c",
    parameters: PARAMETERS,
    build: &|settings, clock| Box::new(Deadline::new(settings, clock, SameSector::Joins)),
};

const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "read_expire",
        kind: Kind::Integer { min: 0, max: i32::MAX as i64 },
        default: "500",
        summary: "a read is overdue after so many milliseconds",
    },
    Parameter {
        name: "write_expire",
        kind: Kind::Integer { min: 0, max: i32::MAX as i64 },
        default: "5000",
        summary: "a write is overdue after so many milliseconds",
    },
    Parameter {
        name: "writes_starved",
        kind: Kind::Integer { min: 0, max: i32::MAX as i64 },
        default: "2",
        summary: "batches of reads that may go before a batch of waiting writes",
    },
    Parameter {
        name: "fifo_batch",
        kind: Kind::Integer { min: 0, max: i32::MAX as i64 },
        default: "16",
        summary: "requests of a batch; 0 is taken for 1",
    },
    Parameter {
        name: "front_merges",
        kind: Kind::Integer { min: 0, max: 1 },
        default: "1",
        summary: "1 to look for requests that begin where a bio ends",
    },
];

/// What a request does to a queued one of the same direction and first sector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SameSector {
    /// The queued one is dispatched.
    Displaces,
    /// Both are queued, the newer behind the older.
    Joins,
}

/// The requests of one direction.
struct Lane {
    by_sector: SectorTree,
    by_age: List,
    /// Where the sweep goes on; at most one lane has it.
    next: Option<RequestId>,
    expire_jiffies: u64,
}

impl Lane {
    fn new(expire_jiffies: u64) -> Self {
        Self {
            by_sector: SectorTree::default(),
            by_age: List::default(),
            next: None,
            expire_jiffies,
        }
    }
}

struct Deadline {
    /// Lanes of reads and writes.
    lanes: [Lane; 2],
    age_links: Links,
    /// Requests of the running batch so far.
    batch_length: u32,
    /// Batches of reads begun while writes waited.
    writes_passed_over: u32,
    fifo_batch: u32,
    writes_starved: u32,
    front_merges: bool,
    same_sector: SameSector,
}

impl Deadline {
    fn new(settings: &Settings, clock: Clock, same_sector: SameSector) -> Self {
        let read_expire = clock.setting(settings, "read_expire", clock.hz / 2);
        let write_expire = clock.setting(settings, "write_expire", 5 * clock.hz);
        Self {
            lanes: [Lane::new(read_expire), Lane::new(write_expire)],
            age_links: Links::default(),
            batch_length: 0,
            writes_passed_over: 0,
            fifo_batch: settings.integer("fifo_batch"),
            writes_starved: settings.integer("writes_starved"),
            front_merges: settings.integer("front_merges") == 1,
            same_sector,
        }
    }

    fn lane(&mut self, id: RequestId, queue: &Queue) -> &mut Lane {
        // By direction, not by the synchronous flag: `deadline_add_request` reads `rq_data_dir`.
        &mut self.lanes[queue.requests[id].bio.direction as usize]
    }

    fn has(&self, direction: Direction) -> bool {
        !self.lanes[direction as usize].by_age.is_empty()
    }

    /// The request that continues the running batch, if that is not full.
    fn continuation(&self) -> Option<RequestId> {
        // `deadline_dispatch_requests` asks for the write first; at most one of the two is set.
        let next = self.lanes.iter().rev().find_map(|lane| lane.next);
        next.filter(|_| self.batch_length < self.fifo_batch)
    }

    /// Whose turn it is between two batches.
    fn choose_direction(&mut self) -> Option<Direction> {
        let writes_wait = self.has(Direction::Write);
        if self.has(Direction::Read) {
            if !writes_wait {
                return Some(Direction::Read);
            }
            let passed_over = self.writes_passed_over;
            // The old count is compared (`starved++ >= writes_starved`), so with `writes_starved` =
            // 0 waiting writes always go first.
            self.writes_passed_over = passed_over.wrapping_add(1);
            if passed_over < self.writes_starved {
                return Some(Direction::Read);
            }
        }
        if writes_wait {
            self.writes_passed_over = 0;
            return Some(Direction::Write);
        }
        None
    }

    /// The first request of a new batch.
    fn begin_batch(&mut self, now: u64, queue: &Queue) -> Option<RequestId> {
        let direction = self.choose_direction()?;
        self.batch_length = 0;
        // `time_after`: a request is overdue one jiffy after its deadline.
        let lane = &self.lanes[direction as usize];
        let oldest = lane.by_age.front()?;
        let overdue = now > queue.requests[oldest].deadline;
        Some(lane.next.filter(|_| !overdue).unwrap_or(oldest))
    }

    /// Sorts a request in by its first sector.
    fn sort_in(&mut self, id: RequestId, queue: &mut Queue) {
        // `elv_rb_add` of 2.6 returned the queued one, and `deadline_add_rq_rb` dispatched it to
        // make room.
        if self.same_sector == SameSector::Displaces {
            let sector = queue.requests[id].sector();
            if let Some(older) = self.lane(id, queue).by_sector.find(sector) {
                self.send(older, queue);
            }
        }
        self.lane(id, queue).by_sector.insert(&queue.requests, id);
    }

    /// Moves a request to the dispatch list, and the sweep to the one after it.
    fn send(&mut self, id: RequestId, queue: &mut Queue) {
        // `deadline_move_request` clears both sweeps before it sets its own, so a batch of the
        // other direction loses this one's place.
        for lane in &mut self.lanes {
            lane.next = None;
        }
        let lane = self.lane(id, queue);
        lane.next = lane.by_sector.next(id);
        self.take_out(id, queue);
        queue.dispatch_tail(id);
    }

    fn take_out(&mut self, id: RequestId, queue: &Queue) {
        let lane = &mut self.lanes[queue.requests[id].bio.direction as usize];
        if lane.next == Some(id) {
            lane.next = lane.by_sector.next(id);
        }
        lane.by_sector.remove(id);
        lane.by_age.remove(&mut self.age_links, id);
    }
}

impl Scheduler for Deadline {
    // The tree before the FIFO: an alias leaves both before the newcomer enters either.
    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        self.sort_in(id, queue);
        let now = queue.jiffies(now_ns);
        let lane = &mut self.lanes[queue.requests[id].bio.direction as usize];
        queue.requests[id].deadline = now + lane.expire_jiffies;
        lane.by_age.push_back(&mut self.age_links, id);
    }

    fn dispatch(&mut self, now_ns: u64, _force: bool, queue: &mut Queue) -> u32 {
        let now = queue.jiffies(now_ns);
        let Some(id) = self.continuation().or_else(|| self.begin_batch(now, queue)) else {
            return 0;
        };
        self.batch_length += 1;
        self.send(id, queue);
        1
    }

    fn audit(&self, queue: &Queue) {
        for lane in &self.lanes {
            let is_there = |next| lane.by_sector.contains(next);
            assert!(lane.next.is_none_or(is_there), "the sweep goes on at a request that waits");
            audit_lane(&lane.by_sector, lane.by_age, &self.age_links, queue);
        }
        assert!(
            self.lanes.iter().filter(|lane| lane.next.is_some()).count() <= 1,
            "one direction has the sweep"
        );
    }

    fn queued(&self) -> usize {
        self.lanes.iter().map(|lane| lane.by_age.len()).sum()
    }

    fn find_merge(&self, bio: &Bio, _queue: &Queue) -> Option<(RequestId, MergeSide)> {
        if !self.front_merges {
            return None;
        }
        let id = self.lanes[bio.direction as usize].by_sector.find(bio.end())?;
        Some((id, MergeSide::Front))
    }

    fn merged(&mut self, _now_ns: u64, id: RequestId, side: MergeSide, queue: &mut Queue) {
        if side == MergeSide::Front {
            self.lane(id, queue).by_sector.remove(id);
            self.sort_in(id, queue);
        }
    }

    fn absorb(
        &mut self,
        _now_ns: u64,
        survivor: RequestId,
        absorbed: RequestId,
        queue: &mut Queue,
    ) {
        let deadline = queue.requests[absorbed].deadline;
        // Strictly earlier in jiffies only (`deadline_merged_requests`): equal deadlines keep the
        // survivor's place.
        if deadline < queue.requests[survivor].deadline {
            queue.requests[survivor].deadline = deadline;
            let lane = &mut self.lanes[queue.requests[survivor].bio.direction as usize];
            lane.by_age.remove(&mut self.age_links, survivor);
            lane.by_age.insert_before(&mut self.age_links, absorbed, survivor);
        }
        self.take_out(absorbed, queue);
    }

    fn former(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        self.lanes[queue.requests[id].bio.direction as usize].by_sector.previous(id)
    }

    fn latter(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        self.lanes[queue.requests[id].bio.direction as usize].by_sector.next(id)
    }

    fn state_bytes(&self) -> usize {
        let trees: usize = self.lanes.iter().map(|lane| lane.by_sector.bytes()).sum();
        size_of::<Self>() + trees + self.age_links.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{Deadline, ENTRY_3_4, SameSector};
    use crate::tests::{CLOCK, defaults, filled, panics_with};
    use crate::{Direction, Queue, RequestId, Scheduler};

    /// What breaks a count.
    type Break = fn(&mut Deadline, &mut Queue);

    #[test]
    fn every_broken_count_is_seen() {
        let broken: [(&str, Break); 3] = [
            ("the same requests are sorted by sector and by age", |deadline, _| {
                deadline.lanes[0].by_sector.remove(RequestId(1));
            }),
            ("the sweep goes on at a request that waits", |deadline, queue| {
                deadline.lanes[0].next = Some(RequestId(2));
                assert_eq!(queue.requests[RequestId(2)].bio.direction, Direction::Write);
            }),
            ("one direction has the sweep", |deadline, _| {
                deadline.lanes[0].next = Some(RequestId(1));
                deadline.lanes[1].next = Some(RequestId(2));
            }),
        ];
        for (message, break_it) in broken {
            let deadline = Deadline::new(&defaults(&ENTRY_3_4), CLOCK, SameSector::Joins);
            let (mut deadline, mut queue) = filled(deadline);
            break_it(&mut deadline, &mut queue);
            panics_with(message, || deadline.audit(&queue));
        }
    }
}
