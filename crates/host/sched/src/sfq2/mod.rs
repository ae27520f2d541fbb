//! SFQ2: turns of processes as in SFQ, for storage of today.
//!
//! A queue for each process in each class, visited in turn, with four things that SFQ has not. Visits have weights.
//! What was idle is served at the next change of visits. Tags are kept for those who have none. Writes that nobody waits
//! for are held back while a device cleans.
//!
//! When to expect what: a process that waits for each of its requests is served at nearly every second visit beside any
//! number of deep queues of one other process. No stream of new processes delays an old one by more than one visit for
//! each visit it waits for. `docs/sfq2.md` derives the bounds of all waits.
//!
//! # Rules
//!
//! 1. *Queues.* A synchronous request goes to the FIFO of its process in its class, an asynchronous one to the FIFO of
//!    its class. Threads of a process share its queue. Every request also stands in the order of its expiry.
//! 2. *Credit.* A visit to a queue goes on while the queue has requests and its credit is above 0. A request costs
//!    [`FIXED_COST`] and its sectors, at most [`SECTORS_MAX`]. A queue gets `visit_cost` times its weight when it enters
//!    a ring, in place of what it had, and when a visit ends that used the credit up. The weight is 8 less the level.
//! 3. *Rings.* Each class has a list of queues that are new and one of those that are old. A queue that stands in neither
//!    enters the new list at its end with its next request. Visits to new and old queues alternate while both lists have
//!    any. A queue that is visited goes to the end of the old list, and leaves it if it has no requests when its next
//!    turn comes. An old queue without credit gets its credit instead of a visit. So a queue is new at most once a round.
//!    When the last synchronous request of a class is gone, its lists are emptied.
//! 4. *Asynchronous requests* of a class get one request after `sync_visits` visits, and all of them while no process of
//!    the class has requests. Their FIFO has the credit of level 4, and lets a turn pass to pay for large requests.
//! 5. *Classes.* Real-time before best-effort before idle. A class that has requests is passed over by at most
//!    `class_visits` visits to higher ones. The idle class waits until no request of a higher class that a process waits
//!    for is queued or in flight, and until `grace` has passed since the last one; being passed over ends that wait.
//! 6. *Expiry.* One request in `expired_interval` + 1 may be the one that expires first, if it has expired. Its queue is
//!    not charged: a queue that lives on expiry would get into a debt without end.
//! 7. *Asynchronous requests while processes wait* (as in rule 5) are sent at their turn only (rules 4 and 5), and no more
//!    than `async_depth` of them are in flight. A visit to a lower class counts for the turn of a class that has no others.
//!    The reason: the block layer of Linux takes one request more than the device has tags. A write that it takes then
//!    stands before the next request of the process that waits.
//! 8. *Cleaning.* See [`cleaning`]: while the device cleans and processes wait, no asynchronous request is sent, for at
//!    most `cleaning_hold`.
//! 9. *Tags.* A process that holds its share, `nr_requests` / (holders + 1), gets no more until one of its requests is
//!    complete. While nothing is queued it may exceed its share, as long as more than a share is free. Asynchronous
//!    requests get a quarter while a process holds any, else three quarters.
//! 10. *Merging.* A bio that a process waits for never joins an asynchronous request. Of two requests that are joined,
//!     the survivor inherits the earlier expiry and, in one queue, the earlier place.
//!
//! Sources: rules 2 and 3 are deficit round robin (Shreedhar and Varghese, 1995) with the new flows of `FQ-CoDel` (RFC
//! 8290, 4.2), which serves new flows first and not in turn; rule 9 and half of rule 10 are what `bfq_limit_depth` and
//! `bfq_allow_bio_merge` (`block/bfq-iosched.c`, Linux 6.12) do; rule 5's grace is that of `ionice(1)` for the idle class.
//! The rest is this project's own.

mod cleaning;
mod expiry;
mod queues;
mod tags;
#[cfg(test)]
mod tests;

use crate::{Bio, Class, Direction, MergeSide, Queue, RequestId, Scheduler, SchedulerEntry};
use cleaning::Cleaning;
use queues::Queues;
use settings::{Parameter, Settings};

const MILLISECOND_NS: u64 = 1_000_000;

/// Cost of any request. It equals that of 32 KiB: what flash takes for a command besides the transfer.
const FIXED_COST: i64 = 64;

/// Sectors beyond which a request costs no more, so that no debt lasts for many rounds.
const SECTORS_MAX: u32 = 1024;

/// Level that asynchronous requests are served at, whoever wrote: write-back has no level of its own.
const ASYNC_LEVEL: u8 = 4;

const fn number(
    name: &'static str,
    min: i64,
    default: &'static str,
    summary: &'static str,
) -> Parameter {
    // A million, as in the module (`SFQ2_NUMBER`): times in ms become ns without an overflow.
    Parameter::integer(name, (min, 1_000_000), default, summary)
}

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "sfq2",
    aliases: &[],
    summary: "processes in turn with weights and classes, tags kept for all, aware of cleaning",
    source: "this project; kernel/sfq/sfq2-iosched.c is the same for Linux 6.1 and 6.12",
    parameters: &[
        number("visit_cost", 1, "36", "credit of a visit for each point of weight"),
        number("sync_visits", 1, "3", "visits to processes for one asynchronous request"),
        number("class_visits", 1, "8", "visits to higher classes for one to a lower"),
        number("expired_interval", 1, "8", "requests between two that go first for their expiry"),
        number("read_expire", 0, "500", "age at which a read has expired, in ms"),
        number("write_expire", 0, "5000", "age at which a write has expired, in ms"),
        number("async_depth", 1, "4", "asynchronous requests in flight while processes wait"),
        number("grace", 0, "2", "quiet time before the idle class is served, in ms"),
        number("cleaning_factor", 0, "4", "times its median of a write while cleaning; 0: never"),
        number("cleaning_hold", 0, "100", "longest time that writes are held for cleaning, in ms"),
    ],
    build: &|settings, _| Box::new(Sfq2::new(settings)),
};

pub(super) struct Sfq2 {
    queues: Queues,
    cleaning: Cleaning,
    class_visits: u32,
    expired_interval: u32,
    async_depth: u32,
    grace_ns: u64,
    /// Visits to higher classes while this class had requests.
    passed_over: [u32; 3],
    /// Requests sent since one was sent for its expiry.
    since_expired: u32,
    /// Requests in flight that processes of the two higher classes wait for.
    waited_for: u32,
    async_in_flight: u32,
    /// End of the quiet time after the last of those requests.
    quiet_ns: u64,
    /// When each request in flight was sent, by its number.
    sent_ns: Vec<u64>,
    /// The last call for work sent nothing: all that is queued waits for its class or a quieter device.
    is_held: bool,
    /// Time of the last call: `timer_ns` is told none.
    last_ns: u64,
}

/// Place of a class in tables, most urgent first.
fn rank(class: Class) -> usize {
    match class {
        Class::RealTime => 0,
        Class::BestEffort => 1,
        Class::Idle => IDLE,
    }
}

const IDLE: usize = 2;

impl Sfq2 {
    fn new(settings: &Settings) -> Self {
        let count = |name: &str| settings.integer(name);
        Self {
            queues: Queues::new(settings),
            cleaning: Cleaning::new(
                count("cleaning_factor"),
                u64::from(count("cleaning_hold")) * MILLISECOND_NS,
            ),
            class_visits: count("class_visits"),
            expired_interval: count("expired_interval"),
            async_depth: count("async_depth"),
            grace_ns: u64::from(count("grace")) * MILLISECOND_NS,
            passed_over: [0; 3],
            since_expired: 0,
            waited_for: 0,
            async_in_flight: 0,
            quiet_ns: 0,
            sent_ns: Vec::new(),
            is_held: false,
            last_ns: 0,
        }
    }

    /// True while processes of the two higher classes wait for requests, or did a moment ago.
    fn processes_wait(&self, now_ns: u64) -> bool {
        self.waited_for > 0
            || self.queues.sync_len(0) + self.queues.sync_len(1) > 0
            // A process that thinks for less than `grace` sends its next request in this time.
            || now_ns < self.quiet_ns
    }

    /// True if asynchronous requests of the class may be sent: at their turn only while processes wait.
    fn sends_async(&self, class: usize, now_ns: u64) -> bool {
        !self.processes_wait(now_ns)
            || (self.async_in_flight < self.async_depth
                && !self.cleaning.is_holding(now_ns)
                && (self.is_due(class) || self.queues.is_async_turn(class)))
    }

    /// True if the class has a request that may be sent now.
    fn may_serve(&self, class: usize, now_ns: u64) -> bool {
        // Without the bound of `class_visits`, one busy process would stop the idle class for ever.
        if class == IDLE && !self.is_due(IDLE) && self.processes_wait(now_ns) {
            return false;
        }
        self.queues.sync_len(class) > 0
            || (self.queues.async_len(class) > 0 && self.sends_async(class, now_ns))
    }

    fn is_due(&self, class: usize) -> bool {
        self.passed_over[class] >= self.class_visits
    }

    /// The class to visit, and whether its asynchronous requests may be sent; none if all that is queued is held.
    fn select_class(&mut self, now_ns: u64) -> Option<(usize, bool)> {
        // Whoever was passed over too often goes first. The highest class never is.
        let due = (1..3).find(|class| self.is_due(*class) && self.may_serve(*class, now_ns));
        let class = due.or_else(|| (0..3).find(|class| self.may_serve(*class, now_ns)))?;
        // Before the count is reset: a class that is due may send what is asynchronous.
        let sends_async = self.sends_async(class, now_ns);
        self.passed_over[class] = 0;
        self.queues.count_held(class);
        for lower in class + 1..3 {
            // Only with requests: a class that comes must not find turns saved up.
            self.passed_over[lower] += u32::from(self.queues.len_of(lower) > 0);
        }
        Some((class, sends_async))
    }

    /// The request that goes first because of its expiry.
    fn expired(&self, now_ns: u64, queue: &Queue) -> Option<RequestId> {
        // A bound on expiry: with a backlog older than the limit, all would go by age, and deep queues would win.
        if self.since_expired < self.expired_interval {
            return None;
        }
        let first = self.queues.first_to_expire(queue)?;
        (queue.requests[first].deadline < now_ns).then_some(first)
    }

    /// The next request, and whether its queue is charged for it.
    fn next(&mut self, now_ns: u64, queue: &Queue) -> Option<(RequestId, bool)> {
        // Within a visit too, which goes on with the next call.
        if let Some(id) = self.expired(now_ns, queue) {
            self.since_expired = 0;
            return Some((id, false));
        }
        let of_this_visit = self.queues.next_of_visit();
        let next = of_this_visit.or_else(|| {
            self.queues.end_visit();
            let (class, sends_async) = self.select_class(now_ns)?;
            Some(self.queues.visit(class, sends_async))
        });
        // Held calls do not count: the share of expiry is one of requests sent.
        self.since_expired = self.since_expired.saturating_add(u32::from(next.is_some()));
        next.map(|id| (id, true))
    }

    fn send(&mut self, now_ns: u64, id: RequestId, is_charged: bool, queue: &mut Queue) {
        let bio = queue.requests[id].bio;
        self.queues.take(id, is_charged, queue);
        if self.sent_ns.len() <= id.index() {
            self.sent_ns.resize(id.index() + 1, 0);
        }
        self.sent_ns[id.index()] = now_ns;
        self.waited_for += u32::from(is_waited_for(&bio));
        // Those sent for their expiry count as well, so the limit may be exceeded by them but never by turns.
        self.async_in_flight += u32::from(!bio.sync);
        queue.dispatch_tail(id);
    }
}

/// True if a process of one of the two higher classes waits for the request.
fn is_waited_for(bio: &Bio) -> bool {
    bio.sync && bio.class != Class::Idle
}

/// What a request costs its queue.
fn cost(sectors: u32) -> i64 {
    FIXED_COST + i64::from(sectors.min(SECTORS_MAX))
}

impl Scheduler for Sfq2 {
    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        self.last_ns = now_ns;
        // What has come may be sent at once, so no wait is under way until the next call for work.
        self.is_held = false;
        self.queues.insert(now_ns, id, queue);
    }

    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        self.last_ns = now_ns;
        let mut moved = 0;
        self.is_held = false;
        while self.queues.len() > 0 {
            let next = self.next(now_ns, queue);
            // A change of the scheduler drains all, held or not.
            let forced = || Some((self.queues.first_to_expire(queue).filter(|_| force)?, false));
            let Some((id, is_charged)) = next.or_else(forced) else {
                self.is_held = true;
                break;
            };
            self.send(now_ns, id, is_charged, queue);
            moved += 1;
            // One request a call, as `dispatch_request` of blk-mq returns one.
            if !force {
                break;
            }
        }
        moved
    }

    fn is_multi_queue(&self) -> bool {
        true
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }

    fn allows_merge(&self, bio: &Bio, id: RequestId, queue: &Queue) -> bool {
        // Asynchronous requests are held back, and whoever waits for the bio would be held with them.
        !bio.sync || queue.requests[id].bio.sync
    }

    fn merged(&mut self, now_ns: u64, _id: RequestId, _side: MergeSide, _queue: &mut Queue) {
        self.last_ns = now_ns;
    }

    fn absorb(&mut self, now_ns: u64, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        self.last_ns = now_ns;
        self.queues.absorb(survivor, absorbed, queue);
    }

    // It has had its turn, and counts as in flight (`sfq2_insert_request` of the module).
    fn takes_back(&self) -> bool {
        true
    }

    fn sorts_by_sync(&self) -> bool {
        true
    }

    fn complete(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        self.last_ns = now_ns;
        let bio = queue.requests[id].bio;
        self.queues.release(id);
        // Synchronous writes tell of cleaning as well. Reads are served beside it by other chips.
        if bio.direction == Direction::Write {
            self.cleaning.learn(now_ns, now_ns - self.sent_ns[id.index()]);
        }
        self.async_in_flight -= u32::from(!bio.sync);
        if is_waited_for(&bio) {
            self.waited_for -= 1;
            self.quiet_ns = now_ns + self.grace_ns;
        }
    }

    fn depth_limit(&self, bio: &Bio, queue: &Queue) -> Option<u32> {
        Some(self.queues.tags_for(bio, queue.nr_requests))
    }

    fn timer_ns(&self) -> Option<u64> {
        // A completion asks for work anyway, so a timer is needed only for what ends with time alone.
        let ends = [self.quiet_ns, self.cleaning.hold_end_ns()];
        let next_ns = ends.into_iter().filter(|end_ns| *end_ns > self.last_ns).min();
        next_ns.filter(|_| self.is_held)
    }

    fn timer(&mut self, now_ns: u64, queue: &mut Queue) {
        self.last_ns = now_ns;
        queue.run_soon |= self.queues.len() > 0;
    }

    fn is_idling(&self) -> bool {
        self.is_held && self.queues.len() > 0
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.queues.heap_bytes() + self.sent_ns.capacity() * size_of::<u64>()
    }

    fn audit(&self, queue: &Queue) {
        self.queues.audit(queue);
        assert!(
            self.waited_for + self.async_in_flight <= self.queues.holding(),
            "in flight is held"
        );
    }
}
