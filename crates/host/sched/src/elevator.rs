//! What stands around a scheduler: merging, the dispatch list, the order of calls.
//!
//! Models `elv_merge`, `attempt_merge`, `elv_next_request` and `elv_completed_request` of Linux
//! 2.6.29 to 3.4 (`block/elevator.c`, `block/blk-merge.c`). Left out: segments, barriers, discards.

use crate::quasi_async::{QuasiAsync, quasi_async};
use crate::{
    Bio, Clock, Direction, Joins, MergeSide, Queue, Request, RequestId, Scheduler, SchedulerEntry,
    Settings,
};
use process::Process;

/// Requests up to which a queue is checked after every call.
///
/// A check looks at every request a few times. Scenarios of single decisions have fewer than 64 requests, so a
/// fault is found by the call that makes it. A larger queue is checked once in as many calls as it has had
/// requests at one time, so the cost of a call does not grow with the queue.
const CHECKED_AT_ONCE: usize = 64;

/// Most sectors of a discard, whatever the limit of requests with data.
// `UINT_MAX >> 9`, which drivers without a limit set (`max_discard_sectors`, `drivers/block/null_blk/main.c`).
const DISCARD_SECTORS_MAX: u32 = u32::MAX >> 9;

/// Properties of the queue that a scheduler serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElevatorOptions {
    /// Ticks a second of the kernel (`CONFIG_HZ`).
    pub hz: u32,
    /// False on flash (`/sys/block/*/queue/rotational`).
    pub rotational: bool,
    /// Requests a direction or class may have queued (`nr_requests`).
    pub nr_requests: u32,
    /// Most sectors of a request (`max_sectors_kb`, in sectors).
    pub max_sectors: u32,
    /// False to keep every bio a request of its own (`nomerges` = 2).
    pub merging: bool,
}

impl Default for ElevatorOptions {
    fn default() -> Self {
        Self { hz: 1000, rotational: true, nr_requests: 128, max_sectors: 1024, merging: true }
    }
}

/// Where a bio went that was merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The request that holds the bio now.
    pub survivor: RequestId,
    /// The end of the request the bio was merged to, before neighbours were joined.
    pub side: MergeSide,
    /// A neighbour that was joined because the bio closed the gap. After a back merge it is the
    /// later one; after a front merge the request that the bio was merged to, and the survivor is
    /// the earlier one. It no longer exists.
    pub absorbed: Option<RequestId>,
}

/// A scheduler with its request queue.
pub struct Elevator {
    scheduler: Box<dyn Scheduler>,
    queue: Queue,
    max_sectors: u32,
    merging: bool,
    quasi_async: &'static QuasiAsync,
    /// Time of the last call, which no later call precedes.
    last_ns: u64,
    /// Calls since the last check of the whole queue, in debug builds.
    unchecked_calls: usize,
}

impl Elevator {
    /// An empty queue at time zero.
    pub fn new(entry: &SchedulerEntry, settings: &Settings, options: ElevatorOptions) -> Self {
        let clock = Clock { hz: options.hz };
        Self {
            scheduler: (entry.build)(settings, clock),
            queue: Queue::new(clock, options.rotational, options.nr_requests),
            max_sectors: options.max_sectors,
            merging: options.merging,
            quasi_async: quasi_async(settings.word("quasi_async")),
            last_ns: 0,
            unchecked_calls: 0,
        }
    }

    /// Takes note of the time of a call: schedulers subtract times, so none may go back.
    #[inline]
    fn advance(&mut self, now_ns: u64) {
        debug_assert!(
            now_ns >= self.last_ns,
            "a call at {now_ns} ns comes after one at {} ns",
            self.last_ns
        );
        self.last_ns = now_ns;
    }

    /// The requests, and what else a scheduler sees.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// As [`Elevator::queue`], to set the scene of an experiment.
    pub fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// The scheduler under the elevator.
    pub fn scheduler(&self) -> &dyn Scheduler {
        self.scheduler.as_ref()
    }

    /// Merges a bio with a queued request, if there is one it may be merged with.
    ///
    /// Tried in this order: the request inserted or merged last, back and front; the request hashed
    /// under the sector the bio starts at; the scheduler's own search. The first that touches
    /// decides: if the result would be too large, no other is tried.
    pub fn try_merge(&mut self, now_ns: u64, bio: &Bio) -> Option<Merged> {
        self.try_merge_of(now_ns, bio, Joins::Data)
    }

    /// As [`Elevator::try_merge`], with the requests that the bio may be joined with.
    pub fn try_merge_of(&mut self, now_ns: u64, bio: &Bio, joins: Joins) -> Option<Merged> {
        self.advance(now_ns);
        let merged = self.merge(now_ns, bio, joins);
        self.changed();
        merged
    }

    fn merge(&mut self, now_ns: u64, bio: &Bio, joins: Joins) -> Option<Merged> {
        if !self.merging || joins == Joins::Nothing {
            return None;
        }
        self.scheduler.before_merge(now_ns, bio, &self.queue);
        let (id, side) = self.find_merge(bio, joins)?;
        let sectors = self.queue.requests[id].bio.sectors + bio.sectors;
        // The limits are the driver's (`ll_back_merge_fn`) and are asked after `elv_merge` has
        // chosen: a refusal ends the search.
        if sectors > self.sectors_max(joins) {
            return None;
        }
        let request = &mut self.queue.requests[id].bio;
        debug_assert!(
            match side {
                MergeSide::Back => request.end() == bio.sector,
                MergeSide::Front => bio.end() == request.sector,
            },
            "a bio is merged where it touches the request"
        );
        request.sectors = sectors;
        if side == MergeSide::Front {
            request.sector = bio.sector;
        }
        // A back merge may close the gap to the next request, a front merge the one to the request
        // before (`attempt_back_merge`, `attempt_front_merge`).
        let pair = match side {
            MergeSide::Back => self.scheduler.latter(id, &self.queue).map(|next| (id, next)),
            MergeSide::Front => self.scheduler.former(id, &self.queue).map(|former| (former, id)),
        };
        if let Some((survivor, absorbed)) = pair
            && self.join(now_ns, survivor, absorbed)
        {
            return Some(Merged { survivor, side, absorbed: Some(absorbed) });
        }
        self.scheduler.merged(now_ns, id, side, &mut self.queue);
        if self.scheduler.uses_merge_caches() {
            // The hash is by end sector, which only a back merge moves (`elv_rqhash_reposition`).
            if side == MergeSide::Back {
                self.queue.unhash(id);
                self.queue.hash(id);
            }
            self.queue.last_merge = Some(id);
        }
        Some(Merged { survivor: id, side, absorbed: None })
    }

    /// Most sectors of a request.
    fn sectors_max(&self, joins: Joins) -> u32 {
        if joins == Joins::Discards { DISCARD_SECTORS_MAX } else { self.max_sectors }
    }

    /// Appends a whole request, made elsewhere, to a queued one that it touches from behind.
    ///
    /// What a plug does with its requests when it is flushed (`elv_attempt_insert_merge`, Linux
    /// 3.4): the request merged last, then the hash. [`Elevator::join_behind`] goes on from there.
    pub fn merge_behind(&mut self, now_ns: u64, request: &Bio) -> Option<RequestId> {
        self.merge_behind_of(now_ns, request, Joins::Data)
    }

    /// As [`Elevator::merge_behind`], with the requests that the request may be joined with.
    pub fn merge_behind_of(
        &mut self,
        now_ns: u64,
        request: &Bio,
        joins: Joins,
    ) -> Option<RequestId> {
        self.advance(now_ns);
        if !self.merging || !self.scheduler.uses_merge_caches() || joins == Joins::Nothing {
            return None;
        }
        let queue = &self.queue;
        let fits = |id: &RequestId| {
            let other = &queue.requests[*id];
            other.bio.direction == request.direction
                && other.joins == joins
                && other.end() == request.sector
                && other.bio.sectors + request.sectors <= self.sectors_max(joins)
                && self.scheduler.allows_request_merge(request, *id, queue)
        };
        let id = queue.last_merge.filter(fits).or(queue.ending_at(request.sector).filter(fits))?;
        // No hook for the request that is absorbed: it comes from a plug and was never in the
        // scheduler.
        self.queue.requests[id].bio.sectors += request.sectors;
        self.scheduler.merged(now_ns, id, MergeSide::Back, &mut self.queue);
        self.queue.unhash(id);
        self.queue.hash(id);
        self.queue.last_merge = Some(id);
        self.changed();
        Some(id)
    }

    /// Joins a queued request, to which one has just been appended, to the queued one that it touches from behind.
    ///
    /// The second and later rounds of the loop in `elv_attempt_insert_merge` (Linux 3.4 to 6.12): the request of the hash
    /// that ends at its first sector survives, and nothing is asked of the scheduler. None if there is no such request.
    pub fn join_behind(&mut self, now_ns: u64, absorbed: RequestId) -> Option<RequestId> {
        self.advance(now_ns);
        let Request { bio, sorted, .. } = self.queue.requests[absorbed];
        // What has left the scheduler has left the merge caches, too.
        if !self.merging || !sorted {
            return None;
        }
        let survivor = self.queue.ending_at(bio.sector)?;
        let is_joined = survivor != absorbed && self.join(now_ns, survivor, absorbed);
        self.changed();
        is_joined.then_some(survivor)
    }

    /// A call is complete: checks the whole queue if it is small, or if a check is due.
    #[inline]
    fn changed(&mut self) {
        if cfg!(debug_assertions) {
            self.unchecked_calls += 1;
            let size = self.queue.requests.capacity();
            if size <= CHECKED_AT_ONCE || self.unchecked_calls >= size {
                self.unchecked_calls = 0;
                self.audit();
            }
        }
    }

    /// Checks that every request is at one place: with the scheduler, on the dispatch list or with the
    /// driver.
    ///
    /// # Panics
    /// A rule is broken.
    fn audit(&self) {
        let queue = &self.queue;
        let dispatched = queue.dispatch_list().count();
        assert_eq!(
            self.scheduler.queued() + dispatched + queue.in_flight as usize,
            queue.requests.len(),
            "{} with the scheduler, {dispatched} dispatched, {} with the driver: not all there are",
            self.scheduler.queued(),
            queue.in_flight
        );
        assert!(
            queue.last_merge.is_none_or(|id| queue.requests[id].sorted),
            "the last merge is of a request that the scheduler has"
        );
        queue.audit();
        self.scheduler.audit(queue);
    }

    fn find_merge(&self, bio: &Bio, joins: Joins) -> Option<(RequestId, MergeSide)> {
        let queue = &self.queue;
        let fits = |id: RequestId| {
            queue.requests[id].bio.direction == bio.direction
                && queue.requests[id].joins == joins
                && self.scheduler.allows_merge(bio, id, queue)
        };
        if let Some(last) = queue.last_merge.filter(|last| fits(*last)) {
            let request = &queue.requests[last];
            // Back before front, as `elv_try_merge` tests them.
            if request.end() == bio.sector {
                return Some((last, MergeSide::Back));
            }
            if request.sector() == bio.end() {
                return Some((last, MergeSide::Front));
            }
        }
        // The hash holds ends alone, so it finds back merges; a front merge is left to the
        // scheduler's tree.
        if let Some(id) = queue.ending_at(bio.sector).filter(|id| fits(*id)) {
            return Some((id, MergeSide::Back));
        }
        self.scheduler.find_merge(bio, queue).filter(|(id, _)| queue.requests[*id].joins == joins)
    }

    /// Joins two neighbours if they touch and may be one request.
    fn join(&mut self, now_ns: u64, survivor: RequestId, absorbed: RequestId) -> bool {
        let (first, second) = (self.queue.requests[survivor], self.queue.requests[absorbed]);
        let sectors = first.bio.sectors + second.bio.sectors;
        if first.bio.direction != second.bio.direction
            || first.joins != second.joins
            || first.zone != second.zone
            || first.end() != second.sector()
            || sectors > self.sectors_max(first.joins)
        {
            return false;
        }
        let request = &mut self.queue.requests[survivor];
        // The survivor answers for the older of the two (`start_time`).
        request.start_jiffies = first.start_jiffies.min(second.start_jiffies);
        request.bio.sectors = sectors;
        self.scheduler.absorb(now_ns, survivor, absorbed, &mut self.queue);
        if self.scheduler.uses_merge_caches() {
            self.queue.unhash(survivor);
            self.queue.hash(survivor);
            self.queue.unhash(absorbed);
            self.queue.last_merge = Some(survivor);
        }
        self.queue.requests.remove(absorbed);
        true
    }

    /// Makes a request of a bio and hands it to the scheduler.
    pub fn insert(&mut self, now_ns: u64, bio: Bio) -> RequestId {
        self.insert_of(now_ns, bio, Joins::Data, None)
    }

    /// As [`Elevator::insert`], with what the request may be joined with, and the zone that it needs for itself.
    pub fn insert_of(
        &mut self,
        now_ns: u64,
        bio: Bio,
        joins: Joins,
        zone: Option<u32>,
    ) -> RequestId {
        self.advance(now_ns);
        // `rq_mergeable` is asked before a request comes into the merge caches.
        let sorted = self.scheduler.uses_merge_caches() && joins != Joins::Nothing;
        let id = self.make(now_ns, bio, joins);
        self.queue.requests[id].sorted = sorted;
        self.queue.requests[id].zone = zone;
        if sorted {
            self.queue.hash(id);
            // An insertion sets `last_merge` only if it is empty (`elv_insert`).
            self.queue.last_merge.get_or_insert(id);
        }
        self.scheduler.insert(now_ns, id, &mut self.queue);
        self.changed();
        id
    }

    fn make(&mut self, now_ns: u64, bio: Bio, joins: Joins) -> RequestId {
        self.queue.requests.add(Request {
            start_jiffies: self.queue.jiffies(now_ns),
            insert_ns: now_ns,
            joins,
            ..Request::new(bio)
        })
    }

    /// Makes a request that the driver gets before all others. It is in no queue of the scheduler, and joined with nothing.
    ///
    /// The data of a flush, when the flush before it is done (`BLK_MQ_INSERT_AT_HEAD`, `block/blk-flush.c`, Linux 6.12).
    pub fn insert_at_head(&mut self, now_ns: u64, bio: Bio) -> RequestId {
        self.advance(now_ns);
        let id = self.make(now_ns, bio, Joins::Nothing);
        self.queue.requests[id].bypassed = true;
        self.queue.dispatch_head(id);
        self.changed();
        id
    }

    /// The driver gives a request back: it goes to the head or the tail of the dispatch list, and before any choice.
    ///
    /// Models what `blk_mq_requeue_work` (`block/blk-mq.c`) hands to a scheduler whose
    /// [`Scheduler::takes_back`] is true.
    ///
    /// # Panics
    /// The scheduler takes none back, or in debug builds, the driver does not have the request.
    pub fn requeue(&mut self, now_ns: u64, id: RequestId, at_head: bool) {
        self.advance(now_ns);
        assert!(self.scheduler.takes_back(), "the scheduler takes back what the driver gives back");
        if !self.queue.requests[id].bypassed {
            self.scheduler.returned(id, &mut self.queue);
        }
        self.queue.give_back(id, at_head);
        self.changed();
    }

    /// What becomes of asynchronous requests that a task has begun to wait for.
    pub fn quasi_async(&self) -> &'static QuasiAsync {
        self.quasi_async
    }

    /// A task begins to wait for an asynchronous write: from now on it is the synchronous write that the task
    /// would have sent itself. False if it is none, or has left the scheduler: then it is too late.
    ///
    /// The request keeps its sectors and the time at which it was made. Its age in the scheduler, and so its
    /// expiry, begins anew; its place in the limit of requests stays that of an asynchronous one.
    pub fn promote(&mut self, now_ns: u64, id: RequestId, waiter: Process) -> bool {
        self.advance(now_ns);
        let Request { bio, started, .. } = self.queue.requests[id];
        // What is on the dispatch list goes in its order, whatever it is (`elv_next_request`).
        let has_left = started || self.queue.dispatch_list().any(|other| other == id);
        if bio.sync || bio.direction == Direction::Read || has_left {
            return false;
        }
        // `WRITE_SYNC` carries `REQ_NOIDLE`: nothing follows what `fsync` waits for.
        let promoted = Bio { sync: true, noidle: true, ..bio };
        if self.scheduler.sorts_by_sync() {
            self.scheduler.take_out(now_ns, id, &mut self.queue);
            // The waiter's I/O context, as if its `fsync` had found the page dirty: its own queue, priority and
            // share pay for the write.
            let Process { pid, class, level } = waiter;
            self.queue.requests[id].bio = Bio { pid, class, level, ..promoted };
            self.scheduler.insert(now_ns, id, &mut self.queue);
        } else {
            // The owner stays: where it is kept may depend on it.
            self.queue.requests[id].bio = promoted;
        }
        self.changed();
        true
    }

    /// The driver asks for work: the head of the dispatch list, or what the scheduler moves there.
    pub fn next(&mut self, now_ns: u64) -> Option<RequestId> {
        self.next_for(0, now_ns)
    }

    /// As [`Elevator::next`], asked for a hardware queue. A scheduler with one structure for the device may answer with a
    /// request of another one.
    pub fn next_for(&mut self, hardware_queue: usize, now_ns: u64) -> Option<RequestId> {
        self.advance(now_ns);
        while self.queue.dispatch_is_empty() {
            // A scheduler may move nothing and still hold requests: to the driver a wait looks like
            // an empty queue.
            if self.scheduler.dispatch_to(hardware_queue, now_ns, &mut self.queue) == 0 {
                return None;
            }
        }
        let id = self.queue.take()?;
        if !self.queue.requests[id].bypassed {
            self.scheduler.activate(now_ns, id, &mut self.queue);
        }
        self.changed();
        Some(id)
    }

    /// Moves everything to the dispatch list, as before a change of scheduler.
    pub fn drain(&mut self, now_ns: u64) {
        self.advance(now_ns);
        while self.scheduler.dispatch(now_ns, true, &mut self.queue) > 0 {}
        debug_assert_eq!(self.scheduler.queued(), 0, "a forced dispatch leaves nothing");
        self.changed();
    }

    /// The device is done with a request, which exists no longer.
    pub fn complete(&mut self, now_ns: u64, id: RequestId) -> Request {
        self.advance(now_ns);
        debug_assert!(self.queue.requests[id].started, "the driver has what it completes");
        debug_assert!(self.queue.in_flight > 0, "the driver has a request");
        self.queue.in_flight -= 1;
        if !self.queue.requests[id].bypassed {
            self.scheduler.complete(now_ns, id, &mut self.queue);
        }
        let request = self.queue.requests[id];
        self.queue.requests.remove(id);
        self.changed();
        request
    }

    /// True if a bio must get a request although the pool is used up.
    pub fn must_queue(&mut self, bio: &Bio) -> bool {
        self.scheduler.must_queue(bio.pid, bio, &self.queue)
    }

    /// The process is gone. Returns requests that the scheduler's policy cancels for that reason.
    pub fn exit(&mut self, now_ns: u64, pid: u32) -> Vec<RequestId> {
        self.advance(now_ns);
        self.scheduler.exit(now_ns, pid, &mut self.queue);
        let cancelled = self.scheduler.take_cancelled();
        for id in &cancelled {
            self.queue.forget(*id);
        }
        self.changed();
        cancelled
    }

    /// When [`Elevator::timer`] is to be called next; none if the scheduler has armed no timer.
    #[inline]
    pub fn timer_ns(&self) -> Option<u64> {
        self.scheduler.timer_ns()
    }

    /// The time of [`Elevator::timer_ns`] has come.
    pub fn timer(&mut self, now_ns: u64) {
        self.advance(now_ns);
        self.scheduler.timer(now_ns, &mut self.queue);
        self.changed();
    }

    /// True once after the scheduler asked for the queue to be run soon.
    #[inline]
    pub fn take_run_soon(&mut self) -> bool {
        std::mem::take(&mut self.queue.run_soon)
    }

    /// Requests that are not with the driver.
    pub fn waiting(&self) -> usize {
        self.queue.requests.len() - self.queue.in_flight as usize
    }
}

#[cfg(test)]
mod tests {
    use super::{Elevator, ElevatorOptions};
    use crate::tests::{defaults, panics_with};
    use crate::{Bio, Class, Direction, RequestId, noop};

    /// What breaks a count.
    type Break = fn(&mut Elevator);

    /// One read with the driver and one with the scheduler.
    fn filled() -> Elevator {
        let options = ElevatorOptions::default();
        let mut elevator = Elevator::new(&noop::ENTRY, &defaults(&noop::ENTRY), options);
        for sector in [0, 100] {
            let (direction, class) = (Direction::Read, Class::BestEffort);
            let (pid, sync, noidle, level, sectors) = (1, true, false, 4, 8);
            elevator.insert(0, Bio { pid, direction, sync, noidle, class, level, sector, sectors });
        }
        assert_eq!(elevator.next(0), Some(RequestId(0)));
        elevator
    }

    #[test]
    fn a_small_queue_is_checked_at_each_call_and_a_large_one_in_turn() {
        for more in [0, super::CHECKED_AT_ONCE] {
            let mut elevator = filled();
            for number in 0..more as u64 {
                let bio = elevator.queue.requests[RequestId(1)].bio;
                elevator.insert(0, Bio { sector: 1000 + 100 * number, ..bio });
            }
            (elevator.unchecked_calls, elevator.queue.in_flight) = (0, 2);
            let calls = (1..1000).find(|_| {
                let call = std::panic::AssertUnwindSafe(|| elevator.timer(0));
                std::panic::catch_unwind(call).is_err()
            });
            assert_eq!(calls, Some(if more == 0 { 1 } else { more + 2 }));
        }
    }

    #[test]
    fn every_broken_place_of_a_request_is_seen() {
        let broken: [(&str, Break); 8] = [
            ("the driver holds the requests that are started", |elevator| {
                elevator.queue.requests[RequestId(1)].started = true;
            }),
            ("a number is free once", |elevator| elevator.queue.requests.free_twice()),
            ("no bio is merged with a dispatched request", |elevator| {
                elevator.drain(0);
                elevator.queue.requests[RequestId(1)].sorted = true;
            }),
            ("a dispatched request is not with the driver", |elevator| {
                elevator.drain(0);
                elevator.queue.requests[RequestId(0)].started = false;
                elevator.queue.requests[RequestId(1)].started = true;
            }),
            ("the boundary is on the dispatch list", |elevator| {
                elevator.queue.set_boundary(RequestId(0));
            }),
            ("a request is in the chain of its end", |elevator| {
                elevator.queue.rotate_chains();
            }),
            ("a request is hashed under its end", |elevator| {
                elevator.queue.requests[RequestId(1)].bio.sectors = 16;
            }),
            ("a hashed request is with the scheduler", |elevator| {
                elevator.queue.last_merge = None;
                elevator.queue.requests[RequestId(1)].sorted = false;
            }),
        ];
        for (message, break_it) in broken {
            let mut elevator = filled();
            elevator.audit();
            break_it(&mut elevator);
            panics_with(message, || elevator.audit());
        }
    }

    #[test]
    fn every_request_that_is_nowhere_or_twice_is_seen() {
        let broken: [(&str, Break); 12] = [
            ("a queue of the device asks", |elevator| {
                elevator.next_for(1, 0);
            }),
            ("comes after one at 5 ns", |elevator| {
                elevator.next(5);
                elevator.next(4);
            }),
            ("not all there are", |elevator| {
                elevator.queue.in_flight += 1;
                elevator.audit();
            }),
            ("the last merge is of a request", |elevator| {
                elevator.queue.last_merge = Some(RequestId(1));
                elevator.queue.requests[RequestId(1)].sorted = false;
                elevator.audit();
            }),
            ("the driver has what it completes", |elevator| {
                elevator.complete(0, RequestId(1));
            }),
            ("the driver has a request", |elevator| {
                elevator.queue.in_flight = 0;
                elevator.complete(0, RequestId(0));
            }),
            ("a request is dispatched once", |elevator| {
                elevator.drain(0);
                elevator.queue.dispatch_tail(RequestId(1));
            }),
            ("the driver does not have the request yet", |elevator| {
                elevator.queue.dispatch_tail(RequestId(0));
            }),
            ("bios are merged with requests of the scheduler", |elevator| {
                elevator.queue.hash(RequestId(0));
            }),
            ("the scheduler takes back what the driver gives back", |elevator| {
                elevator.requeue(0, RequestId(0), true);
            }),
            ("the driver gives back what it has", |elevator| {
                elevator.queue.give_back(RequestId(1), true);
            }),
            ("a request ends once", |elevator| {
                elevator.complete(0, RequestId(0));
                elevator.queue.requests.remove(RequestId(0));
            }),
        ];
        for (message, break_it) in broken {
            let mut elevator = filled();
            panics_with(message, || break_it(&mut elevator));
        }
    }
}
