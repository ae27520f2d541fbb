//! Anticipatory: a one-way elevator in timed batches of reads and of writes, which after a read
//! waits a few milliseconds for the next one of the same process, even if others have work.
//!
//! "Reads" are synchronous requests, "writes" asynchronous ones. A batch of reads runs for
//! `read_batch_expire`; a batch of writes for `write_batch_expire` or a number of requests that is
//! adjusted so that the two agree. Within a batch the nearest request is next; one behind the head
//! counts as twice as far, and not at all beyond 512 MiB. The head of the queue by age goes first
//! when it is overdue, but that is looked at only once in each `read_expire` or `write_expire`.
//!
//! In a batch of reads, before a request is dispatched that is not close to the last one, the
//! scheduler asks whether the process of the last read is worth waiting for: it has nothing queued,
//! and its mean think time is at most `antic_expire` (if it is unknown: that of other processes at
//! their second request, and how many of those never issued one). The wait begins when the last
//! read is completed and ends at the tick at which `antic_expire` is over, at once when the process
//! issues anything, or when another's request is close; what is close grows with every tick.
//!
//! When to expect what: on a disk, streams of dependent reads at full speed beside other traffic. On
//! flash the wait buys nothing: it also waits on devices flagged non-rotational, and the device
//! is idle meanwhile. Rare reads of others wait behind a stream for up to twice `read_expire`.
//!
//! Quirks, all the kernel's. `antic_expire` is `HZ`/150 in whole ticks: 6 ms at 1000 Hz, one tick at
//! 250 Hz (4 ms) and 100 Hz (10 ms). The search for front merges confuses reads with asynchronous
//! writes, so a read is merged in front of a request only if that was inserted or merged last. A
//! request that begins where a queued one begins sends that one to the driver and ends the wait. The
//! sizes of batches are set before tunables are, so the first ones follow the defaults. The window
//! of what is close is computed in 32 bits and overflows 18 ticks after a completion.
//!
//! Source: Linux 2.6.32 (2.6.29 decides alike), `block/as-iosched.c`; S. Iyer and P. Druschel,
//! Anticipatory scheduling, SOSP 2001.

mod process;
#[cfg(test)]
mod tests;

use crate::lane_audit::audit_lane;
use crate::{
    Bio, Clock, Direction, Links, List, MergeSide, Queue, Request, RequestId, Scheduler,
    SchedulerEntry, SectorTree, Settings,
};
use process::{Newcomers, ONE, Processes, Slot};
use settings::{Kind, Parameter};
use std::cmp::Reverse;

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "anticipatory",
    aliases: &[],
    summary: "timed batches of reads and writes; waits after a read for the next of the process",
    source: "Linux 2.6.32 (2.6.29 alike), block/as-iosched.c",
    parameters: &[
        milliseconds("read_expire", "125", "a read is overdue after so many milliseconds"),
        milliseconds("write_expire", "250", "a write is overdue after so many milliseconds"),
        milliseconds(
            "read_batch_expire",
            "500",
            "milliseconds of a batch of reads while writes are queued",
        ),
        milliseconds(
            "write_batch_expire",
            "125",
            "milliseconds of a batch of writes while reads are queued",
        ),
        milliseconds(
            "antic_expire",
            "6",
            "longest wait for a process in milliseconds; default HZ/150 ticks, at least one; 0 = never wait",
        ),
    ],
    build: &|settings, clock| Box::new(Anticipatory::new(settings, clock)),
};

const fn milliseconds(
    name: &'static str,
    default: &'static str,
    summary: &'static str,
) -> Parameter {
    Parameter { name, kind: Kind::Integer { min: 0, max: i32::MAX as i64 }, default, summary }
}

/// A request at most so many sectors behind the head may still be the nearest.
// `MAXBACK` of `as_choose_req`: 512 MiB in sectors.
const LONGEST_BACK_SEEK: u64 = 1024 * 1024;
const BACK_SEEK_PENALTY: u64 = 2;
/// Sectors within which a request is close to another that has just been completed.
// Signed, so that the shift below overflows as the kernel's `sector_t delta = 8192 << delay` of an
// `int` does.
const CLOSE_SECTORS: i32 = 8192;

/// The two kinds of requests that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Async,
    Sync,
}

impl Side {
    fn of(request: &Request) -> Self {
        if request.bio.sync || request.bio.direction == Direction::Read {
            Self::Sync
        } else {
            Self::Async
        }
    }
}

/// The requests of one side.
struct Lane {
    by_sector: SectorTree,
    by_age: List,
    /// The nearest request, as far as it is known: joining requests does not always update it.
    next: Option<RequestId>,
    /// End of the last request dispatched.
    last_sector: u64,
    last_age_check: u64,
    expire_jiffies: u64,
    batch_jiffies: u64,
}

impl Lane {
    fn new(expire_jiffies: u64, batch_jiffies: u64) -> Self {
        Self {
            by_sector: SectorTree::default(),
            by_age: List::default(),
            next: None,
            last_sector: 0,
            last_age_check: 0,
            expire_jiffies,
            batch_jiffies,
        }
    }

    fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// The nearer of two requests; of two equally near the one ahead.
    fn nearer(
        &self,
        first: Option<RequestId>,
        second: Option<RequestId>,
        queue: &Queue,
    ) -> Option<RequestId> {
        let rank = |id: &RequestId| {
            // `as_choose_req` in one key: wrapped requests last and by sector, others by distance,
            // equal ones by the higher sector.
            let sector = queue.requests[*id].sector();
            if sector >= self.last_sector {
                (false, sector - self.last_sector, Reverse(sector))
            } else if sector + LONGEST_BACK_SEEK >= self.last_sector {
                (false, (self.last_sector - sector) * BACK_SEEK_PENALTY, Reverse(sector))
            } else {
                (true, sector, Reverse(sector))
            }
        };
        first.into_iter().chain(second).min_by_key(rank)
    }

    /// The nearest of the neighbours of a request; after the last comes the first.
    fn nearest_to(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        // `as_find_next_rq` wraps to the first request of the tree, but not to the one it starts
        // from.
        let wrapped = || self.by_sector.first().filter(|first| *first != id);
        let following = self.by_sector.next(id).or_else(wrapped);
        self.nearer(following, self.by_sector.previous(id), queue)
    }

    /// The oldest request if it is overdue and it is time to look.
    fn overdue(&mut self, now: u64, queue: &Queue) -> Option<RequestId> {
        // `as_fifo_expired` looks once in each expiry interval: an overdue request can so wait for
        // almost two of them.
        if now.abs_diff(self.last_age_check) < self.expire_jiffies {
            return None;
        }
        self.last_age_check = now;
        self.by_age.front().filter(|oldest| now > queue.requests[*oldest].deadline)
    }
}

/// Whether the device is kept free for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Off,
    /// The last read of the process is still with the device.
    ForCompletion,
    /// It is completed, and the timer runs.
    ForNext,
    /// A wait is over and nothing has been dispatched since.
    Over,
}

/// How far the change to the running batch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Requests of the old batch are still with the device; nothing is dispatched.
    Changing,
    /// A batch of reads none of which has been completed: its time has not begun to count.
    FirstRead,
    Running,
}

/// What the scheduler does next.
enum Step {
    Dispatch(RequestId),
    Nothing,
    NewBatch,
}

struct Anticipatory {
    /// Lanes of asynchronous and synchronous requests.
    lanes: [Lane; 2],
    age_links: Links,

    /// The side of the running batch.
    side: Side,
    batch_expires: u64,
    phase: Phase,
    /// Requests of a batch of writes.
    write_batch_length: u32,
    /// Requests left in the running one.
    writes_left: u32,
    /// Reads did not contend with the batch of writes, so its time says nothing.
    writes_uncontended: bool,

    wait: Wait,
    timer_ns: Option<u64>,
    /// The process of the last request dispatched, if that was synchronous.
    awaited: Option<Slot>,
    /// That request, or another of the process, is completed.
    awaited_done: bool,
    /// Jiffy of the completion from which the wait counts (`antic_start`).
    wait_began: u64,
    longest_wait: u64,
    /// Longest wait at which the window of what is close still grows.
    widest_window: u64,
    longest_think: u64,

    processes: Processes,
    newcomers: Newcomers,
    /// The process of each request, by its number.
    owners: Vec<Option<Slot>>,
    /// Requests dispatched and not completed.
    in_service: u32,
}

impl Anticipatory {
    fn new(settings: &Settings, clock: Clock) -> Self {
        let hz = clock.hz;
        let tunable = |name: &str, default| clock.setting(settings, name, default);
        // `as_init_queue` computes batches from the defaults, before sysfs can set the tunables; so
        // do the two values here.
        let (read_batch, write_batch) = (hz / 2, hz / 8);
        Self {
            lanes: [
                Lane::new(
                    tunable("write_expire", hz / 4),
                    tunable("write_batch_expire", write_batch),
                ),
                Lane::new(tunable("read_expire", hz / 8), tunable("read_batch_expire", read_batch)),
            ],
            age_links: Links::default(),
            side: Side::Async,
            // As if a batch of reads had just begun; the first batch of writes is then judged by a
            // time that no request saw.
            batch_expires: clock.jiffies(0) + u64::from(read_batch),
            phase: Phase::Running,
            // `write_batch_count`: a tenth of the batch's jiffies, two at least.
            write_batch_length: (write_batch / 10).max(2),
            writes_left: 0,
            writes_uncontended: false,
            wait: Wait::Off,
            timer_ns: None,
            awaited: None,
            awaited_done: false,
            wait_began: 0,
            longest_wait: tunable("antic_expire", (hz / 150).max(1)),
            widest_window: u64::from(20 * hz / 1000),
            // `MAX_THINKTIME` is HZ / 50; one less is the longest think time that is counted
            // (`as_update_iohist`). At less than 50 Hz it wraps, as in the kernel.
            longest_think: u64::from(hz / 50).wrapping_sub(1),
            processes: Processes::default(),
            newcomers: Newcomers::default(),
            owners: Vec::new(),
            in_service: 0,
        }
    }

    fn lane(&self, side: Side) -> &Lane {
        &self.lanes[side as usize]
    }

    fn lane_of(&mut self, id: RequestId, queue: &Queue) -> &mut Lane {
        &mut self.lanes[Side::of(&queue.requests[id]) as usize]
    }

    fn owner(&self, id: RequestId) -> Slot {
        self.owners[id.index()].expect("every request has had an owner since it was inserted")
    }

    fn is_waiting(&self) -> bool {
        matches!(self.wait, Wait::ForCompletion | Wait::ForNext)
    }

    /// Begins the wait, or leaves it to the completion of the last read.
    fn begin_wait(&mut self, now_ns: u64, queue: &Queue) {
        if self.wait == Wait::Off {
            if self.awaited_done {
                self.wait_for_next(now_ns, queue);
            } else {
                self.wait = Wait::ForCompletion;
            }
        }
    }

    fn wait_for_next(&mut self, now_ns: u64, queue: &Queue) {
        let end = self.wait_began + self.longest_wait;
        self.timer_ns = Some(queue.clock.timer_ns(now_ns, end));
        self.wait = Wait::ForNext;
    }

    fn end_wait(&mut self, queue: &mut Queue) {
        // `as_antic_stop` marks the end of the wait, so that the next selection does not begin
        // another for the same process.
        if self.is_waiting() {
            self.timer_ns = None;
            self.wait = Wait::Over;
            queue.run_soon = true;
        }
    }

    /// True if there is no point in waiting (any longer) for `awaited`, given that `id` could be
    /// dispatched instead. To ask is to learn: a close request of another process is added to the
    /// history of the awaited one, and an exit is counted.
    fn should_not_wait(
        &mut self,
        awaited: Slot,
        id: Option<RequestId>,
        now: u64,
        queue: &Queue,
    ) -> bool {
        // What was waited for has come, be it a read or a write.
        if id.is_some_and(|id| self.owner(id) == awaited) {
            return true;
        }
        // The timer may be late by a tick: the jiffies decide.
        if self.awaited_done && now.abs_diff(self.wait_began) >= self.longest_wait {
            return true;
        }
        let process = self.processes[awaited];
        // The process has work of its own under way: nothing has to be waited for.
        if process.queued > 0 || process.dispatched > 0 {
            return true;
        }
        let close = id.map(|id| &queue.requests[id]).filter(|request| {
            Side::of(request) == Side::Sync && self.is_close(awaited, request, now)
        });
        // `as_can_break_anticipation` counts the exit of a process without history each time it is
        // asked, not once.
        if process.has_exited && process.think.is_unknown() {
            self.newcomers.count_exit();
        }
        if let Some(request) = close {
            if process.has_exited {
                self.newcomers.count_cooperation(false);
            }
            let newcomers = &mut self.newcomers;
            self.processes[awaited].learn(now, self.longest_think, request, newcomers);
            return true;
        }
        (process.has_exited && self.newcomers.exits_alone > ONE / 2)
            || process.thinks_too_long(self.longest_wait, &self.newcomers)
    }

    /// True if the request is as near the last one as those of the awaited process use to be, or
    /// within a window that doubles with every tick of the wait.
    fn is_close(&self, awaited: Slot, request: &Request, now: u64) -> bool {
        let waited = match self.wait {
            Wait::Off => 0,
            _ if !self.awaited_done => 0,
            _ => now - self.wait_began,
        };
        // `as_close_req`: beyond 20 ms or `antic_expire` any request is close.
        if waited > self.widest_window.min(self.longest_wait) {
            return true;
        }
        // `8192 << delay` in 32 bits: after 18 ticks it is negative, and the comparisons below take
        // it for a huge number.
        let window = i64::from(CLOSE_SECTORS.wrapping_shl(waited as u32)) as u64;
        let last = self.lane(self.side).last_sector;
        let sector = request.sector();
        // Half a window behind, a whole one ahead: a sweep goes forward.
        if last <= sector.wrapping_add(window / 2) && sector <= last.wrapping_add(window) {
            return true;
        }
        let seek = &self.processes[awaited].seek;
        let usual = if seek.is_unknown() { self.newcomers.seek_mean } else { seek.value };
        last.abs_diff(sector) < usual
    }

    fn batch_is_over(&self, now: u64) -> bool {
        let is_spent = self.side == Side::Async && self.writes_left == 0;
        self.phase == Phase::Running && (now > self.batch_expires || is_spent)
    }

    fn continue_batch(&mut self, now_ns: u64, queue: &Queue) -> Step {
        let now = queue.jiffies(now_ns);
        let has_reads = !self.lane(Side::Sync).is_empty();
        let has_writes = !self.lane(Side::Async).is_empty();
        if has_reads && has_writes && self.batch_is_over(now) {
            return Step::NewBatch;
        }
        let next = self.lane(self.side).next;
        // Anticipation serves reads alone; in a batch of writes the device is never held back.
        if self.side == Side::Sync && self.longest_wait > 0 {
            if let Some(id) = self.lanes[Side::Sync as usize].overdue(now, queue) {
                return Step::Dispatch(id);
            }
            if self.wait != Wait::Over
                && let Some(awaited) = self.awaited
                && !self.should_not_wait(awaited, next, now, queue)
            {
                self.begin_wait(now_ns, queue);
                return Step::Nothing;
            }
        }
        let Some(next) = next else { return Step::NewBatch };
        // A batch of reads without waiting writes does not run out (`as_dispatch_request`).
        if !has_writes {
            self.batch_expires = now + self.lane(Side::Sync).batch_jiffies;
        }
        Step::Dispatch(self.lanes[self.side as usize].overdue(now, queue).unwrap_or(next))
    }

    /// Turns to the other side if that has requests, and begins with the oldest. If requests of
    /// the old batch are with the device, the first of the new one waits for them.
    fn begin_batch(&mut self, now: u64) -> Step {
        let has_reads = !self.lane(Side::Sync).is_empty();
        let has_writes = !self.lane(Side::Async).is_empty();
        let reads_turn = has_reads && !(has_writes && self.side == Side::Sync);
        let side = if reads_turn { Side::Sync } else { Side::Async };
        let changes = side != self.side;
        self.side = side;
        // The first request of the new side waits until the device has finished the old one, or the
        // batch's time would be spent by others.
        if changes {
            self.phase = Phase::Changing;
        }
        if self.side == Side::Async {
            self.writes_left = self.write_batch_length;
            self.writes_uncontended = false;
        }
        let lane = &mut self.lanes[self.side as usize];
        lane.last_age_check = now;
        let Some(oldest) = lane.by_age.front() else { return Step::Nothing };
        if changes {
            if self.in_service > 0 {
                return Step::Nothing;
            }
            if self.side == Side::Async {
                self.batch_expires = now + lane.batch_jiffies;
            }
            self.phase = self.first_phase();
        }
        Step::Dispatch(oldest)
    }

    fn first_phase(&self) -> Phase {
        match self.side {
            Side::Async => Phase::Running,
            Side::Sync => Phase::FirstRead,
        }
    }

    /// Fits the length of a batch of writes to the time the last one took.
    fn resize_write_batch(&mut self, now: u64) {
        let target = self.lane(Side::Async).batch_jiffies;
        let taken = (now + target).saturating_sub(self.batch_expires);
        // `update_write_batch`: by half, by one or by twice, so that one odd batch does not change
        // much.
        let length = self.write_batch_length;
        if taken > target && !self.writes_uncontended {
            self.write_batch_length = if taken > 3 * target { length / 2 } else { length - 1 };
        } else if taken < target && self.writes_left == 0 {
            let is_short = target > 3 * taken;
            self.write_batch_length =
                if is_short { length.saturating_mul(2) } else { length.saturating_add(1) };
        }
        self.write_batch_length = self.write_batch_length.max(1);
    }

    /// Sorts a request in by its first sector; one that is queued there already is dispatched.
    fn sort_in(&mut self, id: RequestId, queue: &mut Queue) {
        let sector = queue.requests[id].sector();
        // `as_add_request` of 2.6.29 and 2.6.32: the older of two requests of one first sector goes
        // out at once and ends the wait.
        if let Some(older) = self.lane_of(id, queue).by_sector.find(sector) {
            self.send(older, queue);
        }
        self.lane_of(id, queue).by_sector.insert(&queue.requests, id);
    }

    /// Moves a request to the dispatch list.
    fn send(&mut self, id: RequestId, queue: &mut Queue) {
        self.end_wait(queue);
        self.wait = Wait::Off;
        let owner = self.owner(id);
        let side = Side::of(&queue.requests[id]);
        let awaited = (side == Side::Sync).then_some(owner);
        if side == Side::Async {
            self.writes_left = self.writes_left.saturating_sub(1);
        }
        if let Some(slot) = awaited {
            self.processes.refer(slot);
        }
        // The awaited process changes with each request; one that was waited for in vain loses its
        // reference here.
        if let Some(slot) = std::mem::replace(&mut self.awaited, awaited) {
            self.processes.unrefer(slot);
        }
        self.awaited_done = false;
        let lane = &mut self.lanes[side as usize];
        // `as_move_to_dispatch` sets the next request before the removal, which looks at
        // neighbours, too.
        lane.last_sector = queue.requests[id].end();
        lane.next = lane.nearest_to(id, queue);
        self.take_out(id, queue);
        queue.dispatch_sort(id);
        self.processes[owner].dispatched += 1;
        self.in_service += 1;
    }

    fn take_out(&mut self, id: RequestId, queue: &Queue) {
        let owner = self.owner(id);
        self.processes[owner].queued -= 1;
        let lane = &mut self.lanes[Side::of(&queue.requests[id]) as usize];
        if lane.next == Some(id) {
            lane.next = lane.nearest_to(id, queue);
        }
        lane.by_sector.remove(id);
        lane.by_age.remove(&mut self.age_links, id);
    }

    /// Dispatches everything, reads first. The side is reset to reads so that the length of the
    /// next batch of writes is not judged by this one.
    fn drain(&mut self, now: u64, queue: &mut Queue) -> u32 {
        self.side = Side::Sync;
        self.phase = Phase::Running;
        let mut moved = 0;
        for side in [Side::Sync, Side::Async] {
            while let Some(id) = self.lane(side).next.or(self.lane(side).by_age.front()) {
                self.send(id, queue);
                moved += 1;
            }
            self.lanes[side as usize].last_age_check = now;
        }
        moved
    }
}

impl Scheduler for Anticipatory {
    fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let now = queue.jiffies(now_ns);
        // `as_get_io_context` finds or makes the context; a process that exited and came back
        // begins as unknown.
        let request = queue.requests[id];
        let owner = self.processes.enter(request.bio.pid);
        self.processes.refer(owner);
        let process = &mut self.processes[owner];
        process.learn(now, self.longest_think, &request, &mut self.newcomers);
        process.queued += 1;
        if self.owners.len() <= id.index() {
            self.owners.resize(id.index() + 1, None);
        }
        self.owners[id.index()] = Some(owner);

        self.sort_in(id, queue);
        let lane = &mut self.lanes[Side::of(&request) as usize];
        queue.requests[id].deadline = now + lane.expire_jiffies;
        lane.by_age.push_back(&mut self.age_links, id);
        lane.next = lane.nearer(Some(id), lane.next, queue);
        // A request can end a wait for another process as well, if it is close.
        if self.is_waiting()
            && let Some(awaited) = self.awaited
            && self.should_not_wait(awaited, Some(id), now, queue)
        {
            self.end_wait(queue);
        }
    }

    fn dispatch(&mut self, now_ns: u64, force: bool, queue: &mut Queue) -> u32 {
        let now = queue.jiffies(now_ns);
        if force {
            return self.drain(now, queue);
        }
        let has_reads = !self.lane(Side::Sync).is_empty();
        let has_writes = !self.lane(Side::Async).is_empty();
        // `write_batch_idled`: without waiting reads the time of the batch says nothing about its
        // length.
        if self.side == Side::Async && !has_reads && (self.writes_left == 0 || !has_writes) {
            self.writes_uncontended = true;
        }
        if !(has_reads || has_writes) || self.is_waiting() || self.phase == Phase::Changing {
            return 0;
        }
        let step = match self.continue_batch(now_ns, queue) {
            Step::NewBatch => self.begin_batch(now),
            step => step,
        };
        let Step::Dispatch(id) = step else { return 0 };
        self.send(id, queue);
        1
    }

    fn audit(&self, queue: &Queue) {
        for lane in &self.lanes {
            audit_lane(&lane.by_sector, lane.by_age, &self.age_links, queue);
        }
    }

    fn queued(&self) -> usize {
        self.lanes.iter().map(|lane| lane.by_age.len()).sum()
    }

    fn find_merge(&self, bio: &Bio, queue: &Queue) -> Option<(RequestId, MergeSide)> {
        // The kernel's slip: `as_merge` indexes its trees by the bio's direction, and reads are 0,
        // where the asynchronous requests stand.
        let wrong_side = match bio.direction {
            Direction::Read => Side::Async,
            Direction::Write => Side::Sync,
        };
        let id = self.lane(wrong_side).by_sector.find(bio.end())?;
        (queue.requests[id].bio.direction == bio.direction).then_some((id, MergeSide::Front))
    }

    fn merged(&mut self, _now_ns: u64, id: RequestId, side: MergeSide, queue: &mut Queue) {
        if side == MergeSide::Front {
            self.lane_of(id, queue).by_sector.remove(id);
            self.sort_in(id, queue);
        }
    }

    fn absorb(&mut self, now_ns: u64, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        let side = Side::of(&queue.requests[absorbed]);
        let deadline = queue.requests[absorbed].deadline;
        if deadline < queue.requests[survivor].deadline {
            queue.requests[survivor].deadline = deadline;
            let list = &mut self.lanes[side as usize].by_age;
            list.remove(&mut self.age_links, survivor);
            list.insert_before(&mut self.age_links, absorbed, survivor);
        }
        self.take_out(absorbed, queue);
        self.processes.end_request(self.owner(absorbed), queue.jiffies(now_ns), side);
    }

    fn sorts_by_sync(&self) -> bool {
        true
    }

    fn former(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        self.lane(Side::of(&queue.requests[id])).by_sector.previous(id)
    }

    fn latter(&self, id: RequestId, queue: &Queue) -> Option<RequestId> {
        self.lane(Side::of(&queue.requests[id])).by_sector.next(id)
    }

    fn activate(&mut self, _now_ns: u64, id: RequestId, _queue: &mut Queue) {
        let owner = self.owner(id);
        self.processes[owner].dispatched -= 1;
    }

    fn complete(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let now = queue.jiffies(now_ns);
        let side = Side::of(&queue.requests[id]);
        let owner = self.owner(id);
        // The last request of the old batch is done: only now does the time of the new one begin.
        if self.phase == Phase::Changing && self.in_service == 1 {
            self.phase = self.first_phase();
            self.batch_expires = now + self.lane(self.side).batch_jiffies;
            queue.run_soon = true;
        }
        self.in_service -= 1;
        if self.phase == Phase::FirstRead && side == Side::Sync {
            self.resize_write_batch(now);
            self.batch_expires = now + self.lane(Side::Sync).batch_jiffies;
            self.phase = Phase::Running;
        }
        if self.awaited == Some(owner) {
            self.wait_began = now;
            self.awaited_done = true;
            // The wait that a selection asked for begins with the completion (`as_antic_waitnext`).
            if self.wait == Wait::ForCompletion {
                self.wait_for_next(now_ns, queue);
            }
        }
        self.processes.end_request(owner, now, side);
    }

    fn must_queue(&mut self, pid: u32, _bio: &Bio, _queue: &Queue) -> bool {
        self.is_waiting() && self.awaited == self.processes.find(pid)
    }

    fn exit(&mut self, _now_ns: u64, pid: u32, _queue: &mut Queue) {
        self.processes.exit(pid);
    }

    fn timer_ns(&self) -> Option<u64> {
        self.timer_ns
    }

    fn timer(&mut self, _now_ns: u64, queue: &mut Queue) {
        self.timer_ns = None;
        let Some(awaited) = self.awaited.filter(|_| self.is_waiting()) else { return };
        self.end_wait(queue);
        let process = &self.processes[awaited];
        if process.think.is_unknown() {
            self.newcomers.count_exit();
        }
        if process.has_exited {
            self.newcomers.count_cooperation(true);
        }
    }

    fn is_idling(&self) -> bool {
        self.is_waiting()
    }

    fn state_bytes(&self) -> usize {
        let trees: usize = self.lanes.iter().map(|lane| lane.by_sector.bytes()).sum();
        let owners = self.owners.capacity() * size_of::<Option<Slot>>();
        size_of::<Self>() + trees + self.age_links.bytes() + owners + self.processes.bytes()
    }
}
