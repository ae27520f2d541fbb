//! CFQ of Linux 3.4: what it decides on its own.
//!
//! - Busy queues stand in *workloads*: for each of the real-time and best-effort class one of
//!   asynchronous queues, one of synchronous queues not worth idling for, one of those that are;
//!   and one of the idle class. The workload whose first queue is due first gets a part of
//!   `target_latency` in proportion to its queues; while it has time and queues, it is kept.
//!   Queues not worth idling for are idled for together: only after the last of them.
//! - A queue keeps its place in its workload until its turn ends, even if empty.
//! - With `low_latency` slices shrink so that all queues of the class, by a running mean of their
//!   number, get a turn in `target_latency`; and no more asynchronous requests are sent at once
//!   than 100 ms (`slice_sync`) have passed since a synchronous one was late, but one always.
//! - A queue is seeky if more than 4 of its last 32 requests came more than 800 sectors from the
//!   one before; without a rotating disk, if they had less than 32 KiB. Seekers that had four
//!   requests at once are idled for all the same, unless that fails.
//! - Two queues that work within 8192 sectors of each other are merged, and split again when their
//!   common queue becomes seeky.
//! - The last queue of all is given a little more time when its slice ends, so that it need not be
//!   expired only to be chosen again.
//! - Queueing of the device is assumed until measured, and for ever once five requests were with it
//!   after the measurement.
//!
//! Source: `block/cfq-iosched.c` of Linux 3.4 without `CONFIG_CFQ_GROUP_IOSCHED`.

mod learning;
mod workloads;

use super::process::{ContextId, ThinkTime};
use super::queue::{Flag, TurnQueue};
use super::service_tree::Place;
use super::tunables::{PARAMETERS_34, Tunables};
use super::{AfterIdling, Cfq, DEEP_QUEUE, DEPTH_SAMPLES, PAGE_SECTORS, Version, is_sync};
use crate::queue_id::QueueId;
use crate::{Bio, Class, Queue, RequestId, SchedulerEntry};

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "cfq-3.4",
    aliases: &["cfq"],
    summary: "fair slices of time for processes, sorted by kind of work",
    source: "Linux 3.4, block/cfq-iosched.c",
    parameters: PARAMETERS_34,
    build: &|settings, clock| {
        let mut tunables = Tunables::common(settings, clock);
        tunables.low_latency = settings.integer("low_latency") > 0;
        tunables.group_idle = clock.setting(settings, "group_idle", 0);
        tunables.target_latency = clock.setting(settings, "target_latency", clock.hz * 3 / 10);
        // `cfq_target_latency`, HZ * 3 / 10; sysfs stores 1 ms at least.
        tunables.target_latency = tunables.target_latency.max(1);
        let now = clock.jiffies(0);
        let mut cfq = Cfq::new(clock, tunables, V34::starting(now, u64::from(clock.hz)));
        // Trees count as if they had completed a request when they were made (`CFQ_RB_ROOT`).
        for tree in &mut cfq.trees {
            tree.think_time = ThinkTime::starting(now);
        }
        Box::new(cfq)
    },
};

/// Kinds of queues, which are served each for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    /// Asynchronous queues, which are never idled for.
    Async,
    /// Synchronous, not worth idling for one by one.
    SyncNoIdle,
    /// Synchronous, worth idling for.
    Sync,
}

// The order of `enum wl_type_t`, in which `cfq_choose_wl` compares: equal keys go to the earlier
// one.
const WORKLOADS: [Workload; 3] = [Workload::Async, Workload::SyncNoIdle, Workload::Sync];

/// Tree of the idle class, behind three of best effort and three of real time.
// The idle class is not divided by kind: it is served one request at a time anyway.
const IDLE_TREE: usize = 6;

/// Requests further apart than this are a seek.
// `CFQQ_SEEK_THR`: 800 sectors are 400 KiB.
const SEEK_SECTORS: u64 = 8 * 100;

/// Requests no further from the head than this are close.
// `CFQQ_CLOSE_THR`, 4 MiB, in place of the seek means of earlier kernels.
const CLOSE_SECTORS: u64 = 8 * 1024;

/// Without a rotating disk, smaller requests count as seeks.
// `CFQQ_SECT_THR_NONROT`: without seeks, requests of less than 32 KiB take the part of distant
// ones.
const SMALL_SECTORS: u32 = 2 * 32;

/// A queue with more seeks in its history is seeky.
// `CFQQ_SEEKY` tests the weight of 32 bits against 32 / 8.
const SEEKS_OF_SEEKER: u32 = 4;

/// As many waiting requests make a queue deep.
// `cfq_update_idle_window` marks a queue deep at four requests: it works in parallel, and idling
// keeps its batch together.
const DEEP_REQUESTS: usize = 4;

/// Least time of a workload, in jiffies.
// `CFQ_MIN_TT`.
const LEAST_WORKLOAD_JIFFIES: u64 = 2;

/// State of this version alone.
struct V34 {
    serving_class: Class,
    serving: Workload,
    workload_ends: u64,
    /// What the workload had left when its last turn ended.
    saved: Option<Saved>,
    /// Running means of the numbers of busy queues: best effort, real time.
    busy_mean: [u64; 2],
    /// Whether the device queues, once measured.
    device_queues: Option<bool>,
    peak_in_driver: u32,
    depth_samples: u32,
    /// When a synchronous request was completed that had been made longer ago than it may wait.
    last_late_sync: u64,
}

#[derive(Clone, Copy, Debug)]
struct Saved {
    jiffies: u64,
    class: Class,
    workload: Workload,
}

impl V34 {
    /// As if no synchronous request had been late for a second.
    fn starting(now: u64, second: u64) -> Self {
        Self {
            // The values a zeroed `cfq_data` begins with: `BE_WORKLOAD` is 0 and `ASYNC_WORKLOAD`
            // is 0.
            serving_class: Class::BestEffort,
            serving: Workload::Async,
            workload_ends: 0,
            saved: None,
            busy_mean: [0; 2],
            device_queues: None,
            peak_in_driver: 0,
            depth_samples: 0,
            // `cfq_init_queue`: `jiffies - HZ`, so the ramp of asynchronous requests starts at ten.
            last_late_sync: now - second,
        }
    }

    /// Queueing is assumed until measured.
    fn may_queue(&self) -> bool {
        // `hw_tag` is -1 until known, which is true for C: a device is taken for one that queues,
        // to find out.
        self.device_queues != Some(false)
    }
}

fn tree_of(class: Class, workload: Workload) -> usize {
    match class {
        Class::BestEffort => workload as usize,
        Class::RealTime => WORKLOADS.len() + workload as usize,
        Class::Idle => IDLE_TREE,
    }
}

impl TurnQueue {
    fn workload(&self) -> Workload {
        if !self.sync {
            Workload::Async
        } else if self.has(Flag::IdleWindow) {
            Workload::Sync
        } else {
            Workload::SyncNoIdle
        }
    }

    fn tree(&self) -> usize {
        tree_of(self.class, self.workload())
    }

    /// The tree it stands in, or would.
    // A queue stays where it was placed even if it lost its idle window since; `cfqq_type` and
    // `service_tree` then differ, and the kernel uses both.
    fn current_tree(&self) -> usize {
        self.place.map_or_else(|| self.tree(), |place| place.tree)
    }

    fn is_seeky(&self) -> bool {
        self.seek_history.count_ones() > SEEKS_OF_SEEKER
    }
}

impl Version for V34 {
    const TREES: usize = IDLE_TREE + 1;
    const LEAVES_WHEN_EMPTY: bool = false;
    const ALIAS_IS_DISPATCHED: bool = false;
    const KNOWS_POSITIONS: bool = true;

    /// A queue that joins is not among those busy yet when its key is made.
    fn place(cfq: &mut Cfq<Self>, now: u64, id: QueueId, front: bool, joins: bool) -> Place {
        let tree = cfq.queues[id].tree();
        let key = if cfq.queues[id].is_idle_class() {
            cfq.key_behind_all(now, tree, id)
        } else if front {
            // One tree for the class, so the key behind all of that tree suffices.
            cfq.key_before_all(now, tree)
        } else {
            let rest = std::mem::take(&mut cfq.queues[id].slice_left);
            // `cfq_slice_offset` reads `nr_cfqq` of the group, which counts a newcomer only after
            // it is placed.
            let others = i64::from(cfq.busy) - i64::from(joins) - 1;
            now.saturating_add_signed(cfq.slice_offset(id, others) - rest)
        };
        Place { tree, rank: 0, key }
    }

    fn next_after(
        cfq: &Cfq<Self>,
        id: QueueId,
        request: RequestId,
        queue: &Queue,
    ) -> Option<RequestId> {
        // The sweep goes on from the request that leaves, where the earlier kernels take the head
        // (`cfq_find_next_rq` with `blk_rq_pos(last)`).
        cfq.choose_neighbour(id, request, queue.requests[request].sector(), queue)
    }

    fn queue_for(
        cfq: &mut Cfq<Self>,
        now: u64,
        process: ContextId,
        bio: &Bio,
        queue: &mut Queue,
    ) -> QueueId {
        // Sharing concerns synchronous queues alone, but asynchronous ones pass here too: they
        // never cooperate and are returned as they are.
        let place = usize::from(is_sync(bio));
        if let Some(shared) = cfq.processes[process].queues[place]
            && !cfq.split(now, process, shared, queue)
        {
            return cfq.merged_queue(now, process, shared, queue);
        }
        cfq.own_queue(process, is_sync(bio))
    }

    fn absorbing(cfq: &mut Cfq<Self>, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        cfq.inherit_deadline(survivor, absorbed, queue);
        let id = cfq.owner(survivor).queue;
        // `cfq_merged_requests`: the next request must not be one that is about to be forgotten.
        if cfq.queues[id].next == Some(absorbed) {
            cfq.queues[id].next = Some(survivor);
        }
    }

    fn enqueued(cfq: &mut Cfq<Self>, now: u64, request: RequestId, queue: &mut Queue) {
        let owner = cfq.owner(request);
        let (process, id) = (owner.process, owner.queue);
        cfq.learn_think_time(now, process, id);
        cfq.learn_seek(id, request, queue);
        cfq.update_idle_window(id, process, queue);
        // After the history is updated: the distance is measured from the end of the request
        // before.
        cfq.queues[id].last_end_sector = queue.requests[request].end();
        if cfq.active == Some(id) {
            if !cfq.queues[id].has(Flag::WaitsForRequest) {
                return;
            }
            if queue.requests[request].bio.sectors > PAGE_SECTORS || cfq.busy > 1 {
                cfq.timer_ns = None;
                // The flag goes with the timer, so a second request of the same burst does not run
                // the queue again.
                cfq.queues[id].flags.clear(Flag::WaitsForRequest);
                queue.run_soon = true;
            } else {
                cfq.queues[id].flags.set(Flag::MustDispatch);
            }
        } else if let Some(active) = cfq.active
            && cfq.should_preempt(now, active, id, request, queue)
        {
            // The type before the expiry: expiring may move the queue to another tree.
            let old = cfq.queues[active].workload();
            cfq.preempt_with(now, id, old, queue);
            queue.run_soon = true;
        }
    }

    fn unbegun_slice(cfq: &mut Cfq<Self>, id: QueueId) -> Option<i64> {
        // `__cfq_slice_expired` of 3.4 leaves a preempted queue whose slice never began all of it,
        // so a seek that was in vain is not charged.
        Some(cfq.scaled_slice(id))
    }

    /// An empty queue leaves only now. The workload keeps the time it has left.
    fn turn_over(cfq: &mut Cfq<Self>, now: u64, id: QueueId) {
        // A shared queue that turned seeky gains nothing from its merge: it is split when the next
        // request of one of its processes arrives.
        if cfq.queues[id].has(Flag::Cooperates) && cfq.queues[id].is_seeky() {
            cfq.queues[id].flags.set(Flag::Splits);
        }
        let own = &cfq.own;
        // `cfq_group_served`: without a rest the workload is chosen anew at the next selection.
        cfq.own.saved = (own.workload_ends > now).then(|| Saved {
            jiffies: own.workload_ends - now,
            class: own.serving_class,
            workload: own.serving,
        });
        // `cfq_del_cfqq_rr` in `__cfq_slice_expired`: until here an empty queue counted as busy.
        if cfq.queues[id].is_busy() && cfq.queues[id].is_empty() {
            cfq.leave_workload(id);
        }
    }

    fn dispatch(cfq: &mut Cfq<Self>, now: u64, queue: &mut Queue) -> u32 {
        let Some(id) = cfq.select(now, queue).filter(|id| cfq.may_dispatch(now, *id, queue)) else {
            return 0;
        };
        cfq.move_next(now, id, queue);
        cfq.queues[id].slice_dispatched += 1;
        cfq.queues[id].flags.clear(Flag::MustDispatch);
        let dispatched = cfq.queues[id].slice_dispatched;
        cfq.expire_if_served(now, id, dispatched, queue);
        1
    }

    fn completing(cfq: &mut Cfq<Self>, _now: u64, _id: QueueId, _queue: &Queue) {
        let in_driver = cfq.driver_depth();
        let holds_down = cfq.holds_depth_down(in_driver);
        let is_loaded = cfq.waiting > DEEP_QUEUE || in_driver > DEEP_QUEUE;
        let own = &mut cfq.own;
        own.peak_in_driver = own.peak_in_driver.max(in_driver);
        // 1 is final: a device that held five requests once is one that queues. 0 may still become
        // 1.
        if own.device_queues == Some(true) || !is_loaded || holds_down {
            return;
        }
        // Saturates where the kernel's counter would wrap.
        own.depth_samples = own.depth_samples.saturating_add(1);
        if own.depth_samples > DEPTH_SAMPLES {
            own.device_queues = Some(own.peak_in_driver >= DEEP_QUEUE);
        }
    }

    fn completed(cfq: &mut Cfq<Self>, now: u64, request: RequestId, queue: &mut Queue) {
        let id = cfq.owner(request).queue;
        let sync = is_sync(&queue.requests[request].bio);
        if sync {
            // The tree learns as well, because the last queue of a tree is idled for on behalf of
            // all of them.
            let tree = cfq.queues[id].current_tree();
            cfq.trees[tree].think_time.last_end = now;
            // A request was late if it lived longer than `fifo_expire_sync`; only then are
            // asynchronous requests held back (`last_delayed_sync`).
            if queue.requests[request].start_jiffies + cfq.tunables.fifo_expire[1] <= now {
                cfq.own.last_late_sync = now;
            }
        }
        if cfq.active != Some(id) {
            return;
        }
        if cfq.queues[id].has(Flag::SliceNew) {
            // `cfq_scaled_cfqq_slice` updates the running mean of busy queues each time it is
            // called.
            let slice = cfq.scaled_slice(id);
            let own = &mut cfq.queues[id];
            own.slice_start = now;
            own.slice_end = now.saturating_add_signed(slice);
            own.flags.clear(Flag::SliceNew);
        }
        // Extends the slice before the test below would end it (`cfq_should_wait_busy`).
        if cfq.should_wait_busy(now, id) {
            let Tunables { slice_idle, group_idle, .. } = cfq.tunables;
            let more = if slice_idle > 0 { slice_idle } else { group_idle };
            cfq.queues[id].slice_end = now + more;
            cfq.queues[id].flags.set(Flag::WaitsBusy);
        }
        let own = &cfq.queues[id];
        if own.slice_is_used(now) || own.is_idle_class() {
            cfq.expire(now, id, true, queue);
        } else if sync && own.is_empty() && cfq.close_cooperator(id, queue).is_none() {
            // The flag of the request that completes decides, not that of the queue.
            cfq.idle_for(now, id, queue);
        }
    }

    fn idled_in_vain(cfq: &mut Cfq<Self>, now: u64, id: QueueId) -> AfterIdling {
        let own = &mut cfq.queues[id];
        if own.has(Flag::MustDispatch) {
            AfterIdling::Run
        } else if own.slice_is_used(now) {
            AfterIdling::Expire
        } else if cfq.busy == 0 {
            AfterIdling::Rest
        } else if own.is_empty() {
            // The queue was idled for because it was deep, and the wait was in vain: the next time
            // it counts as the seeker it is.
            own.flags.clear(Flag::Deep);
            AfterIdling::Expire
        } else {
            AfterIdling::Run
        }
    }
}

/// Which queue has the device, and for how long.
impl Cfq<V34> {
    /// The queue to serve, or none if the device must wait.
    fn select(&mut self, now: u64, queue: &Queue) -> Option<QueueId> {
        let mut close = None;
        if let Some(id) = self.active {
            if self.waiting == 0 {
                // Requests may be with the driver, but none waits: expiring now would lose the turn
                // of a queue that is idled for.
                return None;
            }
            match self.judge_active(now, id, queue) {
                Verdict::Serve => return Some(id),
                Verdict::Wait => return None,
                Verdict::Expire => {}
                Verdict::Yield(to) => close = Some(to),
            }
            self.expire(now, id, false, queue);
        }
        // A cooperator goes on within the workload and its time.
        if close.is_none() {
            self.choose_workload(now);
        }
        let due = || self.served_tree().first().map(|(_, id)| id).filter(|_| self.waiting > 0);
        // The kernel tests `rq_queued` in `cfq_get_next_queue`: a busy queue may be empty here.
        let next = close.or_else(due);
        self.set_active(next);
        next
    }

    /// What becomes of the turn of the active queue.
    fn judge_active(&mut self, now: u64, id: QueueId, queue: &Queue) -> Verdict {
        let own = &self.queues[id];
        let is_empty = own.is_empty();
        // The extension was given to receive a request; it came, and the slice was over long ago.
        if own.has(Flag::WaitsBusy) && !is_empty {
            return Verdict::Expire;
        }
        if own.slice_is_used(now) && !own.has(Flag::MustDispatch) {
            // The last queue of all keeps its turn while its requests are with the device, since
            // ending it would only choose it again.
            let is_last = self.busy == 1 && is_empty && own.dispatched > 0;
            if is_last && self.should_idle(id, queue) {
                return Verdict::Wait;
            }
            return self.wait_for_group();
        }
        if !is_empty {
            return Verdict::Serve;
        }
        if let Some(close) = self.close_cooperator(id, queue) {
            // A plan is made once; the turn passes to the neighbour in either case.
            if self.queues[id].merges_into.is_none() {
                self.plan_merge(id, close);
            }
            return Verdict::Yield(close);
        }
        if self.timer_ns.is_some() {
            return Verdict::Wait;
        }
        // More of the slice is left than was used: a deep seeker has run empty early, so the device
        // is faster than it.
        let own = &mut self.queues[id];
        let used = now.wrapping_sub(own.slice_start);
        let is_fast = own.has(Flag::SliceNew) || own.slice_end.wrapping_sub(now) > used;
        if own.is_seeky() && own.has(Flag::IdleWindow) && is_fast {
            own.flags.clear(Flag::Deep);
            own.flags.clear(Flag::IdleWindow);
        }
        // Its own requests are with the device: their completions decide.
        if self.queues[id].dispatched > 0 && self.should_idle(id, queue) {
            return Verdict::Wait;
        }
        self.wait_for_group()
    }

    /// With `group_idle`, the only busy queue keeps its turn while anything is on its way.
    fn wait_for_group(&self) -> Verdict {
        let on_way = self.dispatched[0] + self.dispatched[1];
        // `cfq_io_thinktime_big` for the group never holds without `CONFIG_CFQ_GROUP_IOSCHED`: its
        // samples stay at zero.
        if self.tunables.group_idle > 0 && self.busy == 1 && on_way > 0 {
            Verdict::Wait
        } else {
            Verdict::Expire
        }
    }

    /// True if the device may get another request of the queue.
    fn may_dispatch(&self, now: u64, id: QueueId, queue: &Queue) -> bool {
        let own = &self.queues[id];
        // Reads that are idled for would stand behind writes that the device took before.
        if self.dispatched[0] > 0 && self.should_idle(id, queue) {
            return false;
        }
        if !own.sync && self.dispatched[1] > 0 {
            return false;
        }
        let quantum = self.tunables.quantum;
        // Half the quantum first, the whole only if there is time left: less is then outstanding
        // when another queue's turn comes.
        let mut most = if own.is_idle_class() { 1 } else { (quantum / 2).max(1) };
        if own.dispatched >= most {
            if own.is_idle_class() {
                return false;
            }
            // One synchronous queue among asynchronous ones is not limited: the others wait for it
            // anyway.
            let is_only_sync = own.sync && self.busy_sync == 1;
            if self.busy > 1 && !is_only_sync && self.slice_ends_soon(now, id) {
                return false;
            }
            most = if self.busy == 1 || is_only_sync { u32::MAX } else { quantum };
        }
        if !own.sync && self.tunables.low_latency {
            // The ramp starts from the last late request: without one the depth is large and limits
            // nothing.
            most = most.min(self.async_ramp(now - self.own.last_late_sync, own.dispatched));
        }
        own.dispatched < most
    }

    /// True if what is with the device may take as long as the slice does.
    fn slice_ends_soon(&self, now: u64, id: QueueId) -> bool {
        let own = &self.queues[id];
        // `cfq_slice_used_soon`: `slice_idle` stands for the time of one request.
        let soon = now + self.tunables.slice_idle * u64::from(own.dispatched);
        // A slice without an end counts as one that ends soon, since nothing of it was completed
        // yet.
        own.has(Flag::SliceNew) || soon > own.slice_end
    }

    /// True if the queue is worth idling for: on its own, or as the last of its workload.
    fn should_idle(&self, id: QueueId, queue: &Queue) -> bool {
        let own = &self.queues[id];
        if self.tunables.slice_idle == 0 || own.is_idle_class() {
            return false;
        }
        // A window of one's own counts except on a device without seeks that queues, where only the
        // last of a tree is idled for.
        if own.has(Flag::IdleWindow) && (queue.rotational || !self.own.may_queue()) {
            return true;
        }
        let tree = &self.trees[own.current_tree()];
        // Queues of one tree are idled for together, by waiting after the last of them
        // (`cfq_should_idle`).
        tree.len() == 1 && own.sync && !self.thinks_long(&tree.think_time)
    }

    fn thinks_long(&self, think_time: &ThinkTime) -> bool {
        think_time.known().is_some_and(|mean| mean > self.tunables.slice_idle)
    }

    /// Waits for the next request of the active queue if that is worth while.
    fn idle_for(&mut self, now: u64, id: QueueId, queue: &Queue) {
        // Never on flash with queueing, although `should_idle` may say yes: the select above waits
        // then without a timer, for a completion.
        if !queue.rotational && self.own.may_queue() {
            return;
        }
        let for_queue = self.should_idle(id, queue);
        let group_idle = self.tunables.group_idle;
        let own = &self.queues[id];
        // A request of its own is with the driver: its completion comes back here.
        if (!for_queue && group_idle == 0) || own.dispatched > 0 {
            return;
        }
        let Some(process) = self.active_process else { return };
        let context = &self.processes[process];
        let left = own.slice_end.wrapping_sub(now);
        let thinks_longer = context.think_time.known().is_some_and(|mean| left < mean);
        // Waiting for the group makes sense only for its last queue.
        if !context.alive || thinks_longer || (!for_queue && self.busy > 1) {
            return;
        }
        let jiffies = if for_queue { self.tunables.slice_idle } else { group_idle };
        self.start_idling(now, jiffies);
    }

    /// True if the only busy queue is empty and its slice may end before its next request comes.
    fn should_wait_busy(&self, now: u64, id: QueueId) -> bool {
        let own = &self.queues[id];
        if !own.is_empty() || self.busy > 1 {
            return false;
        }
        let left = own.slice_end.wrapping_sub(now);
        let mean =
            self.active_process.and_then(|process| self.processes[process].think_time.known());
        // A think time below a jiffy has the mean 0; the last jiffy then counts as too short.
        own.slice_is_used(now) || mean.is_some_and(|mean| left < mean) || left == 1
    }

    /// True if a request of another queue is to end the turn of the active one.
    fn should_preempt(
        &self,
        now: u64,
        active: QueueId,
        new: QueueId,
        request: RequestId,
        queue: &Queue,
    ) -> bool {
        let (own, new) = (&self.queues[active], &self.queues[new]);
        if new.is_idle_class() {
            return false;
        }
        // The idle class yields before real time and used slices are looked at.
        if own.is_idle_class() {
            return true;
        }
        // Real time does not lose its turn to others even when its slice is used.
        if own.is_real_time() && !new.is_real_time() {
            return false;
        }
        if is_sync(&queue.requests[request].bio) && !own.sync {
            return true;
        }
        // Only while the tree of seekers is served, the newcomer makes two of them, and the active
        // one is empty: what was idled for has come, from another queue.
        let joins_seekers = self.own.serving == Workload::SyncNoIdle
            && new.workload() == Workload::SyncNoIdle
            && self.trees[new.current_tree()].len() == 2
            && own.is_empty();
        let is_more_urgent = new.is_real_time() && !own.is_real_time();
        if own.slice_is_used(now) || joins_seekers || is_more_urgent {
            return true;
        }
        // The reason for which the turn was kept is gone.
        if own.is_empty() && !self.should_idle(active, queue) {
            return true;
        }
        self.active_process.is_some()
            // The only wait that closeness may end is one that was begun with the timer.
            && own.has(Flag::WaitsForRequest)
            && self.distance_from_head(request, queue) <= CLOSE_SECTORS
    }

    /// Gives the turn to a queue, and the time to its workload.
    fn preempt_with(&mut self, now: u64, id: QueueId, old: Workload, queue: &Queue) {
        self.expire_active(now, true, queue);
        // The workload must change with the queue; a saved rest would bring back the old one.
        if old != self.queues[id].workload() {
            self.own.saved = None;
        }
        self.give_place(now, id, true);
        self.queues[id].slice_end = 0;
        self.queues[id].flags.set(Flag::SliceNew);
    }
}

/// What becomes of a turn.
enum Verdict {
    Serve,
    Wait,
    Expire,
    /// It ends in favour of a queue that works close to the head.
    Yield(QueueId),
}

#[cfg(test)]
mod tests;
