//! SFQ, Simple Fairness Queuing: a queue for each process, visited in turn.
//!
//! Not Start-time Fair Queueing (virtual time; SFQ(D)) and not Stochastic Fairness Queueing (flows
//! hashed to queues): the three share nothing but the letters. Nothing is sorted by sector, none
//! is idled for, priorities and the direction of the head are ignored.
//!
//! When to expect what: processes with synchronous I/O get equal numbers of requests, whatever
//! their size and however many each has queued; the flusher, which is one queue for all buffered
//! writers together, gets one turn after three of theirs. It costs little processor time, and on a
//! disk it seeks.
//!
//! # Rules
//!
//! All rules but those for the choice of the next request hold for both versions, [`visits`]
//! (`sfq`) and [`literal`] (`sfq-literal`).
//!
//! 1. *Queues.* A synchronous request is appended to the read or the write FIFO of its process's
//!    queue; an asynchronous one to the read or the write FIFO of the one async queue. Each is also
//!    appended to the read or the write FIFO of the deadline queue. The request's own flag decides,
//!    not those of bios merged into it.
//! 2. *The round.* Process queues are selected in turn, from the front of a list. Whatever is new to
//!    the list is put at its end, and a queue goes there when its turn is over. So a queue waits for
//!    at most one turn of each of those that were in the round when it got its place. With `sfq` a
//!    queue is in the round while it has requests; with `sfq-literal` it enters with the first
//!    synchronous request of its process, and stays while it is empty.
//! 3. *Removal.* The queue of a process that has exited (an *orphan*) takes no more requests, and
//!    is removed as soon as it is empty: at the exit, or when its last request leaves it. A process
//!    that exits and issues again begins a new queue.
//! 4. *Orphans.* With `orphans=drain` what is queued is served in turn. With `move-to-async` it is
//!    appended at the exit to the FIFOs of the async queue, reads to reads and writes to writes, in
//!    order. With `cancel` it is given up at the exit and ends with an error. What is on the
//!    dispatch list already is served in any case.
//! 5. *Dispatch.* Requests go to the end of the dispatch list, one for each call. What the driver
//!    gives back goes there too, and before any visit. A call with
//!    nothing queued changes nothing: a block layer that does not ask an empty scheduler gets the
//!    same decisions. A forced call moves everything there is.
//! 6. *Starvation check.* A request expires `read_expire` or `write_expire` milliseconds after its
//!    insertion, in nanoseconds since the scheduler was made. At each multiple of
//!    `starvation_check` milliseconds since then, requests that have expired *before* that time are
//!    moved to the dispatch list, all reads in the order of insertion, then all writes, and the
//!    queue is run. Neither the counters nor the visit change (but for rule 3). The timer is
//!    lazy: it is armed for the first multiple at which any queued request will have expired, which
//!    is when a periodic check would first find something to do. A timer that fires late checks at
//!    the time it is.
//! 7. *Zones.* A write to a zone that takes one write at a time goes to the async queue, whoever waits for it, and never
//!    expires: its zone wants the order of submission. While another write has the zone, it is passed over. If nothing
//!    else is left in the async queue, its turn is over at once.
//! 8. *Merging* is the block layer's: the request merged last, front and back, and the hash of ends.
//!    A request absorbed by another leaves its FIFOs; the other keeps its place and its expiry.
//!
//! Source: the paper that proposes Simple Fairness Queuing for Linux 3.4.5, algorithms 1 to 3. It
//! leaves open the scope of its counters, where a new queue is put in its list, what becomes of
//! orphans' requests, and all times of the starvation check: those are choices of this model (expiry
//! as in the deadline scheduler). If the list were in the order of creation, a stream of new processes
//! would always lie ahead of the selection, and an old process would starve.

mod literal;
#[cfg(test)]
mod properties;
mod queues;
mod visits;

use crate::{Queue, RequestId, Scheduler, SchedulerEntry};
use literal::Literal;
use queues::{Members, Queues};
use settings::{Kind, Parameter, Settings};
use visits::Visits;

const fn count(name: &'static str, default: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Integer { min: 1, max: i32::MAX as i64 }, default, summary }
}

const fn milliseconds(
    name: &'static str,
    min: i64,
    default: &'static str,
    summary: &'static str,
) -> Parameter {
    Parameter { name, kind: Kind::Integer { min, max: u32::MAX as i64 }, default, summary }
}

/// The tunables of `sfq`; `sfq-literal` has all but the last.
const PARAMETERS: &[Parameter] = &[
    count("sync_visits", "3", "selections of process queues for one of the async queue"),
    count("visit_requests", "3", "requests of a visit"),
    count("visit_reads", "2", "reads of a visit, while there are writes"),
    count("visit_writes", "1", "writes of a visit, while there are reads"),
    milliseconds("starvation_check", 1, "100", "period of the search for expired requests, in ms"),
    milliseconds("read_expire", 0, "500", "age at which a read is starving, in ms"),
    milliseconds("write_expire", 0, "5000", "age at which a write is starving, in ms"),
    Parameter {
        name: "orphans",
        kind: Kind::Choice(&["drain", "move-to-async", "cancel"]),
        default: "drain",
        summary: "what becomes of the requests of a process that has exited",
    },
    Parameter {
        name: "fill",
        kind: Kind::Choice(&["both", "writes", "none"]),
        default: "both",
        summary: "what may use the part of a visit that the other kind leaves",
    },
];

const SOURCE: &str = "Simple Fairness Queuing (paper, Linux 3.4.5), algorithms 1 to 3";

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "sfq",
    aliases: &["simple-fairness-queuing"],
    summary: "a queue for each process, visited in turn for three requests",
    source: SOURCE,
    parameters: PARAMETERS,
    build: &|settings, _| Box::new(Sfq::new(settings, Visits::new(settings))),
};

pub(crate) const ENTRY_LITERAL: SchedulerEntry = SchedulerEntry {
    name: "sfq-literal",
    aliases: &[],
    summary: "SFQ as its pseudo-code is printed, which can stop while requests are queued",
    source: SOURCE,
    parameters: match PARAMETERS.split_last() {
        Some((_fill, others)) => others,
        None => &[],
    },
    build: &|settings, _| Box::new(Sfq::new(settings, Literal::new(settings))),
};

/// How many requests the queues may get, the same for both versions.
struct Limits {
    sync_visits: u32,
    visit_requests: u32,
    visit_reads: u32,
    visit_writes: u32,
}

impl Limits {
    fn new(settings: &Settings) -> Self {
        Self {
            sync_visits: settings.integer("sync_visits"),
            visit_requests: settings.integer("visit_requests"),
            visit_reads: settings.integer("visit_reads"),
            visit_writes: settings.integer("visit_writes"),
        }
    }
}

/// The choice of the next requests: what the two versions differ in.
trait Policy: Send {
    /// Process queues among which the selection goes round.
    const MEMBERS: Members;

    /// Moves what one dispatch call moves, and says how much that is. Something is queued.
    fn dispatch(&mut self, queues: &mut Queues, queue: &mut Queue) -> u32;
}

struct Sfq<P> {
    queues: Queues,
    policy: P,
}

impl<P: Policy> Sfq<P> {
    fn new(settings: &Settings, policy: P) -> Self {
        Self { queues: Queues::new(settings, P::MEMBERS), policy }
    }
}

impl<P: Policy> Scheduler for Sfq<P> {
    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        self.queues.insert(now_ns, id, queue);
    }

    fn dispatch(&mut self, _now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        while self.queues.len() > 0 {
            let of_this_call = self.policy.dispatch(&mut self.queues, queue);
            moved += of_this_call;
            if !force {
                break;
            }
            if of_this_call == 0 {
                moved += self.queues.send_expired(u64::MAX, queue);
            }
        }
        moved
    }

    fn queued(&self) -> usize {
        self.queues.len()
    }

    fn audit(&self, queue: &Queue) {
        self.queues.audit(queue);
    }

    fn absorb(
        &mut self,
        _now_ns: u64,
        _survivor: RequestId,
        absorbed: RequestId,
        queue: &mut Queue,
    ) {
        self.queues.remove(absorbed, queue);
    }

    // What the driver gives back has had its turn (`sfq_insert_request` of the module).
    fn takes_back(&self) -> bool {
        true
    }

    // A write has its zone to itself from its dispatch to its end, as in `sfq_dispatch_request`, `sfq_finish_request`
    // and, for one that comes back, `sfq_insert_request` of the module on Linux 6.1.
    fn activate(&mut self, _now_ns: u64, id: RequestId, queue: &mut Queue) {
        self.queues.lock_zone(queue.requests[id].zone);
    }

    fn complete(&mut self, _now_ns: u64, id: RequestId, queue: &mut Queue) {
        self.queues.unlock_zone(queue.requests[id].zone);
    }

    fn returned(&mut self, id: RequestId, queue: &mut Queue) {
        self.queues.unlock_zone(queue.requests[id].zone);
    }

    fn sorts_by_sync(&self) -> bool {
        true
    }

    fn exit(&mut self, _now_ns: u64, pid: u32, queue: &mut Queue) {
        self.queues.exit(pid, queue);
    }

    fn take_cancelled(&mut self) -> Vec<RequestId> {
        self.queues.take_cancelled()
    }

    fn timer_ns(&self) -> Option<u64> {
        self.queues.check_ns()
    }

    fn timer(&mut self, now_ns: u64, queue: &mut Queue) {
        queue.run_soon |= self.queues.send_expired(now_ns, queue) > 0;
    }

    fn state_bytes(&self) -> usize {
        size_of::<Self>() + self.queues.heap_bytes()
    }
}
