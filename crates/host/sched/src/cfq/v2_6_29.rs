//! CFQ of Linux 2.6.29: what it decides on its own.
//!
//! - A dispatch call serves one queue after the other until it has to wait: up to `quantum`
//!   requests of each, which dispatch-sort then mixes on the dispatch list. What is on the list can
//!   be neither merged nor overtaken, so a queue that is alone is emptied at once.
//! - All classes share one service tree. What a slice has left is *added* to the key of the next
//!   turn, so a queue that gives time back waits longer.
//! - A process is seeky if its mean distance exceeds 8192 sectors; the first request counts from
//!   sector zero. With a device that queues, seeky processes are not waited for, else for 2 ms.
//! - Queueing of the device is assumed until measured.
//!
//! Source: `block/cfq-iosched.c` of Linux 2.6.29.

use super::process::{ContextId, Seeks};
use super::queue::Flag;
use super::service_tree::Place;
use super::tunables::{PARAMETERS_29, Tunables};
use super::{AfterIdling, Cfq, DEEP_QUEUE, DEPTH_SAMPLES, Version, is_sync};
use crate::queue_id::QueueId;
use crate::{Queue, RequestId, SchedulerEntry};

pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    name: "cfq-2.6.29",
    aliases: &[],
    summary: "fair slices of time for processes, in batches of `quantum` requests",
    source: "Linux 2.6.29, block/cfq-iosched.c",
    parameters: PARAMETERS_29,
    build: &|settings, clock| {
        Box::new(Cfq::new(clock, Tunables::common(settings, clock), V29::default()))
    },
};

/// State of this version alone.
struct V29 {
    depth: DepthProbe,
}

impl Default for V29 {
    fn default() -> Self {
        // `cfq_init_queue` sets `hw_tag` to 1: without samples the device counts as one that
        // queues.
        Self { depth: DepthProbe { device_queues: true, peak: 0, samples: 0 } }
    }
}

/// Measures whether the device takes several requests at once (`hw_tag`; 2.6.29 and 2.6.32).
///
/// Every 51 completions under load the answer is given anew.
pub(super) struct DepthProbe {
    pub device_queues: bool,
    peak: u32,
    samples: u32,
}

impl DepthProbe {
    pub(super) fn starting() -> Self {
        V29::default().depth
    }

    /// Takes note of the requests the driver has now.
    // The peak is taken at completions only, as in `cfq_update_hw_tag`, before the request is
    // counted out.
    pub(super) fn see(&mut self, in_driver: u32) {
        self.peak = self.peak.max(in_driver);
    }

    /// Counts a completion under load.
    pub(super) fn sample(&mut self) {
        self.samples += 1;
        if self.samples > DEPTH_SAMPLES {
            // Strictly greater: `hw_tag_samples++ < 50` skips fifty samples.
            self.device_queues = self.peak >= DEEP_QUEUE;
            // Measured anew each time: a device that never gets five requests at once becomes one
            // that does not queue, although only its load was low.
            self.samples = 0;
            self.peak = 0;
        }
    }
}

impl Version for V29 {
    const TREES: usize = 1;
    const LEAVES_WHEN_EMPTY: bool = true;
    const ALIAS_IS_DISPATCHED: bool = true;
    const KNOWS_POSITIONS: bool = false;

    fn place(cfq: &mut Cfq<Self>, now: u64, id: QueueId, front: bool, _joins: bool) -> Place {
        let key = if cfq.queues[id].is_idle_class() {
            cfq.key_behind_all(now, 0, id)
        } else if front {
            // Key 0 is the front (`add_front`); of several queues that preempt, the first stays
            // first.
            0
        } else {
            // `slice_resid` is spent once. `cfq_service_tree_add` of this kernel adds it, so a
            // queue that gives time back waits longer; 2.6.32 subtracts it.
            let rest = std::mem::take(&mut cfq.queues[id].slice_left);
            let offset = cfq.slice_offset(id, i64::from(cfq.busy) - 1);
            now.saturating_add_signed(offset + rest)
        };
        Place { tree: 0, rank: cfq.queues[id].class as u8, key }
    }

    /// Merging has given both requests the earlier start before their ages are compared, so the
    /// survivor keeps its place, but expires by the earlier start.
    fn expiry(cfq: &Cfq<Self>, id: QueueId, request: RequestId, queue: &Queue) -> u64 {
        // `cfq_check_fifo` reads `start_time`, not a stored deadline, and takes the expiry of the
        // queue's kind.
        let expire = cfq.tunables.fifo_expire[usize::from(cfq.queues[id].sync)];
        queue.requests[request].start_jiffies + expire
    }

    fn next_after(
        cfq: &Cfq<Self>,
        id: QueueId,
        _request: RequestId,
        _queue: &Queue,
    ) -> Option<RequestId> {
        // The kernel calls `cfq_find_next_rq` in `cfq_remove_request` only if the next request is
        // the one that leaves.
        cfq.queues[id].next
    }

    fn enqueued(cfq: &mut Cfq<Self>, now: u64, request: RequestId, queue: &mut Queue) {
        let owner = cfq.owner(request);
        let (process, id) = (owner.process, owner.queue);
        // `false`: 2.6.29 counts the first distance from sector 0, so a process that starts far out
        // looks seeky for some thirty requests.
        cfq.learn_from(now, process, request, false, queue);
        cfq.update_idle_window(id, process);
        if cfq.active == Some(id) {
            if cfq.queues[id].has(Flag::WaitsForRequest) {
                // The timer stops, and the queue runs within the insertion, so what was waited for
                // goes out alone and cannot be merged (`cfq_rq_enqueued`).
                cfq.timer_ns = None;
                queue.run_soon = true;
            }
        } else if cfq.should_preempt(now, id, request, queue) {
            // The kernel runs the queue from `cfq_rq_enqueued` itself (`blk_start_queueing`).
            cfq.preempt(now, id, queue);
            queue.run_soon = true;
        }
    }

    fn dispatch(cfq: &mut Cfq<Self>, now: u64, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        // `cfq_dispatch_requests` loops until a queue refuses, so one call can serve several
        // queues.
        while let Some(id) = cfq.select(now, queue) {
            let own = &cfq.queues[id];
            let most = if own.is_idle_class() { 1 } else { cfq.tunables.quantum };
            // `quantum` bounds what a queue has with the driver only while another queue is busy.
            let is_full = own.dispatched >= most && cfq.busy > 1;
            // `sync_flight`: asynchronous requests do not go to a device that still holds
            // synchronous ones.
            let waits_for_sync = cfq.dispatched[1] > 0 && !own.sync;
            if is_full || waits_for_sync {
                break;
            }
            // The wait is over with a dispatch, whichever queue it was for.
            cfq.queues[id].flags.clear(Flag::WaitsForRequest);
            cfq.timer_ns = None;
            moved += cfq.serve(now, id, most, queue);
        }
        moved
    }

    fn completing(cfq: &mut Cfq<Self>, _now: u64, _id: QueueId, _queue: &Queue) {
        let in_driver = cfq.driver_depth();
        cfq.own.depth.see(in_driver);
        // Idle moments say nothing about the depth a device could take; the load must exceed
        // `CFQ_HW_QUEUE_MIN`.
        if cfq.waiting > DEEP_QUEUE || in_driver > DEEP_QUEUE {
            cfq.own.depth.sample();
        }
    }

    fn completed(cfq: &mut Cfq<Self>, now: u64, request: RequestId, queue: &mut Queue) {
        let id = cfq.owner(request).queue;
        if cfq.active != Some(id) {
            return;
        }
        // Before the test below, because the first completion is what gives the slice its end.
        cfq.begin_slice(now, id);
        let own = &cfq.queues[id];
        // The idle class gets one request for each turn, so a process of a real class waits for one
        // at most.
        if own.slice_is_used(now) || own.is_idle_class() {
            cfq.expire(now, id, true, queue);
        } else if is_sync(&queue.requests[request].bio) && own.is_empty() {
            // `cfq_arm_slice_timer` is reached only for a synchronous request: an asynchronous
            // writer does not depend on its own completions.
            cfq.idle_for(now, id, queue);
        }
    }

    fn idled_in_vain(cfq: &mut Cfq<Self>, now: u64, id: QueueId) -> AfterIdling {
        let own = &cfq.queues[id];
        // `cfq_idle_slice_timer` in its order: used slices end first, and without another queue the
        // turn stays open.
        if own.slice_is_used(now) {
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

impl Cfq<V29> {
    /// The queue to serve, or none if the device must wait.
    fn select(&mut self, now: u64, queue: &Queue) -> Option<QueueId> {
        if let Some(id) = self.active {
            let own = &self.queues[id];
            let mut keeps_rest = false;
            // A used slice ends without a rest: the time is spent.
            if !own.slice_is_used(now) {
                // Real time preempts at the next selection and keeps what the other queue has left.
                if !own.is_real_time() && self.busy_real_time > 0 {
                    keeps_rest = true;
                } else if !own.is_empty() {
                    return Some(id);
                } else if self.timer_ns.is_some()
                    || (own.dispatched > 0 && own.has(Flag::IdleWindow))
                // The process may send more when what is with the device is done; until then the
                // device is kept for it.
                {
                    return None;
                }
            }
            self.expire(now, id, keeps_rest, queue);
        }
        let next = self.first_queue();
        self.set_active(next);
        next
    }

    /// Moves up to `most` requests of a queue; fewer if a real-time queue waits.
    fn serve(&mut self, now: u64, id: QueueId, most: u32, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        loop {
            self.move_next(now, id, queue);
            moved += 1;
            let own = &self.queues[id];
            // `select` has chosen a real-time queue if one is busy, so this ends a batch only when
            // the count of them has drifted.
            let is_overtaken = !own.is_real_time() && self.busy_real_time > 0;
            if own.is_empty() || is_overtaken || moved >= most {
                break;
            }
        }
        // Counts the requests of this call alone: with a quantum of 4 the limit of
        // `cfq_prio_to_maxrq` is reached at level 7 only.
        self.expire_if_served(now, id, moved, queue);
        moved
    }

    fn update_idle_window(&mut self, id: QueueId, process: ContextId) {
        let own = &self.queues[id];
        if !own.sync || own.is_idle_class() {
            return;
        }
        let context = &self.processes[process];
        // With a device that queues, seeks of several processes overlap, and idling for one would
        // leave the others' seeks undone (`cfq_update_idle_window`).
        let hopeless = self.tunables.slice_idle == 0
            || (self.own.depth.device_queues && context.seeks.is_seeky());
        let thinks = context.think_time.known();
        if hopeless {
            self.queues[id].flags.clear(Flag::IdleWindow);
        } else if let Some(mean) = thinks {
            let is_short = mean <= self.tunables.slice_idle;
            self.queues[id].flags.put(Flag::IdleWindow, is_short);
        }
    }

    fn should_preempt(&self, now: u64, new: QueueId, request: RequestId, queue: &Queue) -> bool {
        let Some(id) = self.active else { return false };
        let (own, new) = (&self.queues[id], &self.queues[new]);
        // Before the idle class is looked at: `cfq_should_preempt` tests the used slice first, so
        // even an idle queue preempts one.
        if own.slice_is_used(now) {
            return true;
        }
        if new.is_idle_class() {
            return false;
        }
        let is_more_urgent = own.is_idle_class()
            || (is_sync(&queue.requests[request].bio) && !own.sync)
            || (new.is_real_time() && !own.is_real_time());
        // A wait for a process ends for any request as near as those of that process use to be.
        is_more_urgent || (own.has(Flag::WaitsForRequest) && self.is_close(request, queue))
    }

    /// True if a request is as near as what the active process is expected to send.
    fn is_close(&self, request: RequestId, queue: &Queue) -> bool {
        self.active_process.is_some_and(|process| {
            let seeks = &self.processes[process].seeks;
            // The mean of an unknown process is not used: its first samples may be outliers.
            seeks.is_known() && self.distance_from_head(request, queue) <= seeks.mean
        })
    }

    /// Waits for the next request of the active queue if that is worth while.
    fn idle_for(&mut self, now: u64, id: QueueId, queue: &Queue) {
        // Without seeks and with queueing, idling costs bandwidth and saves nothing.
        let seeks_freely = !queue.rotational && self.own.depth.device_queues;
        let is_wanted = self.tunables.slice_idle > 0 && self.queues[id].has(Flag::IdleWindow);
        // Requests with the driver will complete and bring the scheduler back here; a timer is not
        // needed before.
        if seeks_freely || !is_wanted || self.driver_depth() > 0 {
            return;
        }
        // A wait needs a live process (`nr_tasks`): the context outlives its process while requests
        // are with the device.
        let Some(process) = self.active_process else { return };
        if self.processes[process].alive {
            let jiffies = self.idle_jiffies(process);
            self.start_idling(now, jiffies);
        }
    }
}

/// What 2.6.29 and 2.6.32 share.
impl<V: Version> Cfq<V> {
    /// Key of a queue of the idle class: after the last of the tree.
    pub(super) fn key_behind_all(&self, now: u64, tree: usize, id: QueueId) -> u64 {
        let last = self.trees[tree].last().filter(|(_, last)| *last != id);
        // `CFQ_IDLE_DELAY` of HZ / 5 behind the last key, so an idle queue never gets before one
        // that is busy now.
        last.map_or(now, |(place, _)| place.key) + u64::from(self.clock.hz / 5)
    }

    /// Takes a request into account for the think time and the seeks of its process.
    pub(super) fn learn_from(
        &mut self,
        now: u64,
        process: ContextId,
        request: RequestId,
        first_is_near: bool,
        queue: &Queue,
    ) {
        let request = &queue.requests[request];
        let context = &mut self.processes[process];
        context.think_time.sample(now, self.tunables.slice_idle);
        let Seeks { last_end_sector, .. } = context.seeks;
        // 2.6.32 counts the first request of a process as near (`last_request_pos` of 0), which
        // 2.6.29 does not.
        let is_near = first_is_near && last_end_sector == 0;
        let distance = if is_near { 0 } else { request.sector().abs_diff(last_end_sector) };
        context.seeks.sample(distance);
        context.seeks.last_end_sector = request.end();
    }

    /// Begins the slice of the active queue with its first completion.
    pub(super) fn begin_slice(&mut self, now: u64, id: QueueId) {
        if self.queues[id].has(Flag::SliceNew) {
            // `cfq_set_prio_slice`: the length follows from the priority at the first completion,
            // not from that at selection.
            self.queues[id].slice_end = now.saturating_add_signed(self.slice(id));
            self.queues[id].flags.clear(Flag::SliceNew);
        }
    }

    /// How long to wait for a process: not long if it seeks.
    pub(super) fn idle_jiffies(&self, process: ContextId) -> u64 {
        let seeks = &self.processes[process].seeks;
        // `CFQ_MIN_TT`: a seeky process gets 2 ms, enough if it answers at once, too short to cost
        // much.
        if seeks.is_known() && seeks.is_seeky() {
            self.tunables.slice_idle.min(self.short_think_time())
        } else {
            self.tunables.slice_idle
        }
    }

    /// A think time that counts as none: 2 ms.
    pub(super) fn short_think_time(&self) -> u64 {
        // `msecs_to_jiffies(CFQ_MIN_TT)`; 3.4 takes the same constant for a number of jiffies.
        self.clock.from_milliseconds(2)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MILLISECOND_NS, bio, elevator, run, thinking_reads, turns};
    use super::{Cfq, ENTRY, Tunables, V29};
    use crate::replay::{Arrival, Event, When};
    use crate::{Direction, SchedulerEntry};

    /// With a device that is known to serve one request at a time.
    const WITHOUT_QUEUEING: SchedulerEntry = SchedulerEntry {
        build: &|settings, clock| {
            let mut own = V29::default();
            own.depth.device_queues = false;
            Box::new(Cfq::new(clock, Tunables::common(settings, clock), own))
        },
        ..ENTRY
    };

    /// Worked out by hand as scenario G-CFQ-7: slices of 18 reads, one process after the other.
    #[test]
    fn two_readers_take_turns_if_the_device_does_not_queue() {
        let mut arrivals = thinking_reads(1, 0, 60, 0);
        arrivals.extend(thinking_reads(2, 1_000_000, 60, 60));
        let outcome = run(&mut elevator(&WITHOUT_QUEUEING), &arrivals);
        let turns = turns(&outcome, &arrivals);
        assert_eq!(turns[..3], [(1, 18, 0), (2, 18, 107), (1, 18, 214)]);
    }

    /// Worked out by hand as scenario G-CFQ-12: a batch of 12 writes between slices of 18 reads.
    #[test]
    fn writes_are_dumped_while_the_reader_thinks() {
        let write = |place: u64| Event::Submit(bio(1, Direction::Write, 1_000_000 + 8 * place));
        let mut arrivals: Vec<Arrival> =
            (0..30_u64).map(|place| Arrival { event: write(place), when: When::At(0) }).collect();
        arrivals.extend(thinking_reads(2, 0, 60, 30));
        let outcome = run(&mut elevator(&WITHOUT_QUEUEING), &arrivals);
        let turns = turns(&outcome, &arrivals);
        assert_eq!(turns[..3], [(1, 12, 0), (2, 18, 60), (1, 18, 167)]);
        let last_write = &outcome.dispatched[47];
        assert_eq!(last_write.dispatch_ns, 252 * MILLISECOND_NS);
    }
}
