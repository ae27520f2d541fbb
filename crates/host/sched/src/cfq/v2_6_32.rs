//! CFQ of Linux 2.6.32: what it decides on its own.
//!
//! - A dispatch call moves one request. A queue has at most `quantum` with the device, four times
//!   as many if it is the only busy one.
//! - Asynchronous requests wait while synchronous ones are with the device, and with `low_latency`
//!   no more of them are sent at once than 100 ms (`slice_sync`) have passed since the last
//!   synchronous completion, but one always. Queues worth idling for wait until no asynchronous
//!   request is with the device.
//! - What a slice has left is subtracted from the key of the next turn.
//! - When the active queue runs empty, another that works within its mean seek distance of the head
//!   goes first, instead of idling; once, until its regular turn.
//! - With `low_latency` seeky processes are waited for too, for 2 ms. A request flagged `NOIDLE` is
//!   not waited after.
//!
//! Source: `block/cfq-iosched.c` of Linux 2.6.32.

use super::process::{ContextId, Seeks};
use super::queue::Flag;
use super::service_tree::Place;
use super::tunables::{PARAMETERS_32, Tunables};
use super::v2_6_29::DepthProbe;
use super::{AfterIdling, Cfq, DEEP_QUEUE, PAGE_SECTORS, Version, is_sync};
use crate::queue_id::QueueId;
use crate::{Queue, RequestId, SchedulerEntry};

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "cfq-2.6.32",
    aliases: &[],
    summary: "fair slices of time for processes, close cooperators first",
    source: "Linux 2.6.32, block/cfq-iosched.c",
    parameters: PARAMETERS_32,
    build: &|settings, clock| {
        let mut tunables = Tunables::common(settings, clock);
        // `low_latency` came with 2.6.32 and is on by default.
        tunables.low_latency = settings.integer("low_latency") > 0;
        let own = V32 {
            depth: DepthProbe::starting(),
            // As if a synchronous request had just been done: asynchronous ones begin at a depth of
            // one.
            last_sync_end: clock.jiffies(0),
            dispatch_due: None,
        };
        Box::new(Cfq::new(clock, tunables, own))
    },
};

/// State of this version alone.
struct V32 {
    depth: DepthProbe,
    /// When a synchronous request was completed last.
    last_sync_end: u64,
    /// The kernel runs the queue while it inserts a request that was idled for, and marks the queue
    /// for a further dispatch only after that: the queue to be marked when all has been dispatched
    /// that can be.
    dispatch_due: Option<QueueId>,
}

impl Version for V32 {
    const TREES: usize = 1;
    const LEAVES_WHEN_EMPTY: bool = true;
    const ALIAS_IS_DISPATCHED: bool = true;
    const KNOWS_POSITIONS: bool = true;

    fn place(cfq: &mut Cfq<Self>, now: u64, id: QueueId, front: bool, _joins: bool) -> Place {
        let key = if cfq.queues[id].is_idle_class() {
            cfq.key_behind_all(now, 0, id)
        } else if front {
            // 2.6.29 uses key 0 for the front; here it is a second before the first key of the
            // tree.
            cfq.key_before_all(now, 0)
        } else {
            let rest = std::mem::take(&mut cfq.queues[id].slice_left);
            let offset = cfq.slice_offset(id, i64::from(cfq.busy) - 1);
            // 2.6.29 adds where this kernel subtracts: what is left moves the queue forward.
            now.saturating_add_signed(offset - rest)
        };
        Place { tree: 0, rank: cfq.queues[id].class as u8, key }
    }

    fn next_after(
        cfq: &Cfq<Self>,
        id: QueueId,
        request: RequestId,
        queue: &Queue,
    ) -> Option<RequestId> {
        // After a dispatch the head is still the last request that the driver took.
        cfq.choose_neighbour(id, request, cfq.head, queue)
    }

    fn absorbing(cfq: &mut Cfq<Self>, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        cfq.inherit_deadline(survivor, absorbed, queue);
    }

    fn enqueued(cfq: &mut Cfq<Self>, now: u64, request: RequestId, queue: &mut Queue) {
        let owner = cfq.owner(request);
        let (process, id) = (owner.process, owner.queue);
        cfq.learn_from(now, process, request, true, queue);
        cfq.update_idle_window(id, process);
        if cfq.active == Some(id) {
            if !cfq.queues[id].has(Flag::WaitsForRequest) {
                return;
            }
            // A larger request, or another busy queue, makes waiting pointless: go at once.
            if queue.requests[request].bio.sectors > PAGE_SECTORS || cfq.busy > 1 {
                cfq.timer_ns = None;
                queue.run_soon = true;
                // The kernel runs the queue from within, and sets `must_dispatch` after that; the
                // flag so survives the dispatch it was meant for and covers one more.
                cfq.own.dispatch_due = Some(id);
            } else {
                // A single small request does not run the queue from here, so that it may grow; it
                // is then served even if the slice is over.
                cfq.queues[id].flags.set(Flag::MustDispatch);
            }
        } else if cfq.should_preempt(now, id, request, queue) {
            cfq.preempt(now, id, queue);
            queue.run_soon = true;
        }
    }

    fn event(cfq: &mut Cfq<Self>) {
        if let Some(id) = cfq.own.dispatch_due.take() {
            cfq.queues[id].flags.set(Flag::MustDispatch);
        }
    }

    fn dispatch(cfq: &mut Cfq<Self>, now: u64, queue: &mut Queue) -> u32 {
        let Some(id) = cfq.select(now, queue).filter(|id| cfq.may_dispatch(now, *id)) else {
            // A call that dispatches nothing is one of those events after which the flag is set.
            Self::event(cfq);
            return 0;
        };
        cfq.move_next(now, id, queue);
        // Counted by the turn for asynchronous queues; the limit is `cfq_prio_to_maxrq`.
        cfq.queues[id].slice_dispatched += 1;
        cfq.queues[id].flags.clear(Flag::MustDispatch);
        let dispatched = cfq.queues[id].slice_dispatched;
        cfq.expire_if_served(now, id, dispatched, queue);
        1
    }

    fn completing(cfq: &mut Cfq<Self>, _now: u64, _id: QueueId, _queue: &Queue) {
        let in_driver = cfq.driver_depth();
        cfq.own.depth.see(in_driver);
        if cfq.waiting <= DEEP_QUEUE && in_driver <= DEEP_QUEUE {
            return;
        }
        // Sampling while the scheduler itself keeps the depth low would prove a device without
        // queueing.
        if !cfq.holds_depth_down(in_driver) {
            cfq.own.depth.sample();
        }
    }

    fn completed(cfq: &mut Cfq<Self>, now: u64, request: RequestId, queue: &mut Queue) {
        let id = cfq.owner(request).queue;
        let bio = queue.requests[request].bio;
        // Any synchronous completion counts, of any queue: the ramp protects readers in general
        // (`last_end_sync_rq`).
        if is_sync(&bio) {
            cfq.own.last_sync_end = now;
        }
        if cfq.active != Some(id) {
            return;
        }
        cfq.begin_slice(now, id);
        let own = &cfq.queues[id];
        if own.slice_is_used(now) || own.is_idle_class() {
            cfq.expire(now, id, true, queue);
        } else if own.is_empty()
            // No idling if a neighbour has work at the head: it is as good as the process's own
            // next request.
            && cfq.close_cooperator(id, queue).is_none()
            && is_sync(&bio)
            // `rq_noidle`: the submitter says that nothing follows closely, as `fsync` does for its
            // last write.
            && !bio.noidle
        {
            cfq.idle_for(now, id, queue);
        }
    }

    fn idled_in_vain(cfq: &mut Cfq<Self>, now: u64, id: QueueId) -> AfterIdling {
        let own = &cfq.queues[id];
        // The slice may be over, but a request came during the wait and is owed a dispatch.
        if own.has(Flag::MustDispatch) {
            AfterIdling::Run
        } else if own.slice_is_used(now) {
            AfterIdling::Expire
        } else if cfq.busy == 0 {
            AfterIdling::Rest
        } else if own.is_empty() {
            AfterIdling::Expire
        } else {
            AfterIdling::Run
        }
    }
}

impl Cfq<V32> {
    /// The queue to serve, or none if the device must wait.
    fn select(&mut self, now: u64, queue: &Queue) -> Option<QueueId> {
        let mut close = None;
        if let Some(id) = self.active {
            let own = &self.queues[id];
            // `must_dispatch` outlives the slice, or idling for a process would end without serving
            // it.
            if !own.slice_is_used(now) || own.has(Flag::MustDispatch) {
                if !own.is_empty() {
                    return Some(id);
                }
                close = self.close_cooperator(id, queue);
                let own = &self.queues[id];
                let is_waiting =
                    self.timer_ns.is_some() || (own.dispatched > 0 && own.has(Flag::IdleWindow));
                if let Some(close) = close {
                    // `coop` marks that the queue has jumped once, so that two queues cannot pass
                    // the turn to each other for ever.
                    self.queues[close].flags.set(Flag::Cooperates);
                } else if is_waiting {
                    return None;
                }
            }
            self.expire(now, id, false, queue);
        }
        let next = close.or_else(|| {
            let regular = self.first_queue()?;
            // A regular turn wipes the mark, except for a queue that preempted its way here: it
            // would jump twice.
            if !self.queues[regular].has(Flag::CooperatorPreempted) {
                self.queues[regular].flags.clear(Flag::Cooperates);
            }
            Some(regular)
        });
        if let Some(next) = next {
            self.queues[next].flags.clear(Flag::CooperatorPreempted);
        }
        self.set_active(next);
        next
    }

    /// True if the device may get another request of the queue.
    fn may_dispatch(&self, now: u64, id: QueueId) -> bool {
        let own = &self.queues[id];
        let [asynchronous, _] = self.in_driver;
        // Asynchronous requests are drained before idling queues are served, since they would be
        // between the process's reads.
        if own.has(Flag::IdleWindow) && asynchronous > 0 {
            return false;
        }
        if !own.sync && self.dispatched[1] > 0 {
            return false;
        }
        let mut most = if own.is_idle_class() { 1 } else { self.tunables.quantum };
        if own.dispatched >= most {
            // Only while others wait: a lone queue may fill the device up to four quanta.
            if own.is_idle_class() || self.busy > 1 {
                return false;
            }
            most = most.saturating_mul(4);
        }
        if !own.sync && self.tunables.low_latency {
            // `now` minus the last synchronous completion, in slices of `slice_sync`: the depth
            // grows by one every 100 ms.
            let ramp = self.async_ramp(now - self.own.last_sync_end, own.dispatched);
            most = most.min(ramp);
        }
        own.dispatched < most
    }

    fn update_idle_window(&mut self, id: QueueId, process: ContextId) {
        let own = &self.queues[id];
        if !own.sync || own.is_idle_class() {
            return;
        }
        let context = &self.processes[process];
        let is_seeker = context.seeks.is_seeky();
        let hopeless = self.tunables.slice_idle == 0
            // With `low_latency` a seeky process keeps its window even on a device that queues: 2
            // ms are less than the delay it would suffer.
            || (!self.tunables.low_latency && self.own.depth.device_queues && is_seeker);
        let thinks = context.think_time.known();
        let patience = if context.seeks.is_known() && is_seeker {
            self.short_think_time()
        } else {
            self.tunables.slice_idle
        };
        if hopeless {
            self.queues[id].flags.clear(Flag::IdleWindow);
        } else if let Some(mean) = thinks {
            self.queues[id].flags.put(Flag::IdleWindow, mean <= patience);
        }
    }

    fn should_preempt(
        &mut self,
        now: u64,
        new_id: QueueId,
        request: RequestId,
        queue: &Queue,
    ) -> bool {
        let Some(id) = self.active else { return false };
        let (own, new) = (&self.queues[id], &self.queues[new_id]);
        if own.slice_is_used(now) {
            return true;
        }
        if new.is_idle_class() {
            return false;
        }
        let is_more_urgent = own.is_idle_class()
            || (is_sync(&queue.requests[request].bio) && !own.sync)
            || (new.is_real_time() && !own.is_real_time());
        if is_more_urgent {
            return true;
        }
        let is_idling = self.active_process.is_some() && own.has(Flag::WaitsForRequest);
        // A queue that cooperated has had its jump, unless no other queue is busy.
        let may_jump = !new.has(Flag::Cooperates) || self.busy == 1;
        let preempts =
            is_idling && may_jump && self.distance_from_head(request, queue) <= self.seek_reach();
        if preempts {
            // Both marks at once: the second keeps the first through the turn that begins now.
            let flags = &mut self.queues[new_id].flags;
            flags.set(Flag::CooperatorPreempted);
            flags.set(Flag::Cooperates);
        }
        preempts
    }

    /// How far from the head a request is still close, by the seeks of the active process.
    fn seek_reach(&self) -> u64 {
        let seeks = self.active_process.map(|process| self.processes[process].seeks);
        // An unknown process is given the benefit of the doubt: `CIC_SEEK_THR`, 8192 sectors.
        seeks.filter(Seeks::is_known).map_or(Seeks::SEEKY_SECTORS, |seeks| seeks.mean)
    }

    /// Another queue of the same level that works close to the head and has not jumped yet.
    fn close_cooperator(&self, id: QueueId, queue: &Queue) -> Option<QueueId> {
        // Without a process of the turn there is no seek mean to measure by.
        self.active_process?;
        let close = self.queue_at_head(self.queues[id].level, self.seek_reach(), queue)?;
        (!self.queues[close].has(Flag::Cooperates)).then_some(close)
    }

    /// Waits for the next request of the active queue if that is worth while.
    fn idle_for(&mut self, now: u64, id: QueueId, queue: &Queue) {
        let seeks_freely = !queue.rotational && self.own.depth.device_queues;
        let is_wanted = self.tunables.slice_idle > 0 && self.queues[id].has(Flag::IdleWindow);
        if seeks_freely || !is_wanted || self.driver_depth() > 0 {
            return;
        }
        let Some(process) = self.active_process else { return };
        let context = &self.processes[process];
        let left = self.queues[id].slice_end.wrapping_sub(now);
        // The slice would end before the process answers: do not wait.
        if context.alive && context.think_time.known().is_none_or(|mean| left >= mean) {
            let jiffies = self.idle_jiffies(process);
            self.start_idling(now, jiffies);
        }
    }
}

/// What 2.6.32 and 3.4 share.
impl<V: Version> Cfq<V> {
    /// Key of a queue to be served next: a second before the first of the tree.
    pub(super) fn key_before_all(&self, now: u64, tree: usize) -> u64 {
        let first = self.trees[tree].first();
        // `rb_key = -HZ` plus the first key: before every queue of the tree.
        first.map_or(now, |(place, _)| place.key) - u64::from(self.clock.hz)
    }

    /// Asynchronous requests that may be with the device if synchronous ones matter no more since
    /// `quiet` jiffies.
    pub(super) fn async_ramp(&self, quiet: u64, dispatched: u32) -> u32 {
        let [_, slice] = self.tunables.slice;
        let steps = quiet / slice.unsigned_abs();
        // The depth never falls to zero while nothing is dispatched, or asynchronous writes would
        // starve under constant reads.
        let least = u64::from(dispatched == 0);
        u32::try_from(steps.max(least)).unwrap_or(u32::MAX)
    }

    /// True if the active queue has few requests because it is idled for: what the device holds
    /// says nothing about it.
    pub(super) fn holds_depth_down(&self, in_driver: u32) -> bool {
        let Some(id) = self.active else { return false };
        let own = &self.queues[id];
        let of_queue = own.dispatched as usize + own.waiting.len();
        own.has(Flag::IdleWindow) && of_queue < DEEP_QUEUE as usize && in_driver < DEEP_QUEUE
    }
}
