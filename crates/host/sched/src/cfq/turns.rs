//! Turns: busy queues, their places, and the queue that has the device.

use super::queue::Flag;
use super::{Cfq, LEVELS, Version};
use crate::Queue;
use crate::queue_id::QueueId;

// The middle of eight levels; `CFQ_SLICE_SCALE` is the 5 below.
/// The levels by which a slice is longer or shorter: a fifth for each from here.
const NORMAL_LEVEL: i64 = 4;

impl<V: Version> Cfq<V> {
    /// Length of the slice of a level, in jiffies.
    pub(super) fn slice_of(&self, sync: bool, level: u8) -> i64 {
        let base = self.tunables.slice[usize::from(sync)];
        // The division comes first, as in `cfq_prio_slice`: the fifth is rounded down to whole
        // jiffies.
        base + base / 5 * (NORMAL_LEVEL - i64::from(level))
    }

    /// Length of the slice of a queue.
    pub(super) fn slice(&self, id: QueueId) -> i64 {
        let queue = &self.queues[id];
        self.slice_of(queue.sync, queue.level)
    }

    /// By how much a queue stands behind one of the longest slice, if `others` wait too.
    pub(super) fn slice_offset(&self, id: QueueId, others: i64) -> i64 {
        // `cfq_slice_offset`: a queue of the longest slice (level 0, synchronous) has offset zero,
        // all others are put back by what they lack, once for each queue that waits.
        others * (self.slice_of(true, 0) - self.slice(id))
    }

    /// Asynchronous requests in a turn while others wait.
    pub(super) fn async_requests(&self, id: QueueId) -> u32 {
        // `cfq_prio_to_maxrq`: 16 requests at level 4, 4 at level 7.
        let levels = (LEVELS - usize::from(self.queues[id].level)) as u32;
        self.tunables.slice_async_requests.saturating_mul(2 * levels)
    }

    /// Gives a queue a place in its service tree, or another place.
    pub(super) fn give_place(&mut self, now: u64, id: QueueId, front: bool) {
        let old = self.queues[id].place;
        let place = V::place(self, now, id, front, old.is_none());
        // `cfq_service_tree_add` returns early if tree and key are unchanged, which keeps the order
        // among equals.
        if old == Some(place) {
            return;
        }
        if let Some(old) = old {
            self.trees[old.tree].remove(old, id);
        }
        self.trees[place.tree].insert(place, id);
        self.queues[id].place = Some(place);
    }

    /// Gives a busy queue its place anew.
    fn resort(&mut self, now: u64, id: QueueId, queue: &Queue) {
        if self.queues[id].is_busy() {
            self.give_place(now, id, false);
            self.update_position(id, queue);
        }
    }

    pub(super) fn become_busy(&mut self, now: u64, id: QueueId, queue: &Queue) {
        // Counted before the place is given, because 2.6.29 and 2.6.32 read `busy_queues` for the
        // key; 3.4 subtracts the newcomer again in `place`.
        self.busy += 1;
        self.busy_sync += u32::from(self.queues[id].sync);
        self.busy_real_time += u32::from(self.queues[id].is_real_time());
        self.give_place(now, id, false);
        self.update_position(id, queue);
    }

    /// A queue that is busy, but empty, gives up its place.
    pub(super) fn leave(&mut self, id: QueueId) {
        self.leave_position(id);
        let Some(place) = self.queues[id].place.take() else { return };
        self.trees[place.tree].remove(place, id);
        self.busy -= 1;
        self.busy_sync -= u32::from(self.queues[id].sync);
        self.busy_real_time =
            // Saturating for the drift that a change of class leaves; see `busy_real_time`.
            self.busy_real_time.saturating_sub(u32::from(self.queues[id].is_real_time()));
    }

    /// The first queue of all trees, in the order of trees.
    pub(super) fn first_queue(&self) -> Option<QueueId> {
        // Best effort stands before real time in the trees of 3.4, so a forced drain serves it
        // first (`cfq_get_next_queue_forced`).
        self.trees.iter().find_map(|tree| tree.first().map(|(_, id)| id))
    }

    /// It is the turn of a queue, or of none.
    pub(super) fn set_active(&mut self, id: Option<QueueId>) {
        self.active = id;
        let Some(id) = id else { return };
        let own = &mut self.queues[id];
        // `__cfq_set_active_queue`. A slice of zero length is not used up while `SliceNew` is set.
        own.slice_start = 0;
        own.slice_end = 0;
        own.slice_dispatched = 0;
        own.flags.clear(Flag::WaitsForRequest);
        own.flags.clear(Flag::MustDispatch);
        own.flags.clear(Flag::OverLimitGranted);
        own.flags.clear(Flag::FifoChecked);
        own.flags.set(Flag::SliceNew);
        // A timer of an earlier turn must not end this one.
        self.timer_ns = None;
    }

    /// Ends the turn of a queue. With `keeps_rest` what is left of its slice counts for its next
    /// place.
    pub(super) fn expire(&mut self, now: u64, id: QueueId, keeps_rest: bool, queue: &Queue) {
        // The timer belongs to the queue that waits; without the flag it was stopped already.
        if self.queues[id].has(Flag::WaitsForRequest) {
            self.timer_ns = None;
        }
        self.queues[id].flags.clear(Flag::WaitsForRequest);
        self.queues[id].flags.clear(Flag::WaitsBusy);
        if keeps_rest {
            let own = &self.queues[id];
            let rest = if own.has(Flag::SliceNew) {
                V::unbegun_slice(self, id)
            } else {
                Some(own.slice_end.wrapping_sub(now).cast_signed())
            };
            // `slice_resid`: what was not used, or with a minus sign what was used too much. It is
            // spent at the next `place`, and how depends on the version.
            if let Some(rest) = rest {
                self.queues[id].slice_left = rest;
            }
        }
        // Before the queue is sorted anew: 3.4 may take it off its tree here.
        V::turn_over(self, now, id);
        self.resort(now, id, queue);
        if self.active == Some(id) {
            self.active = None;
        }
        // The reference of the turn; the process may be gone by now.
        if let Some(process) = self.active_process.take() {
            self.processes.release(process);
        }
    }

    /// Ends the turn of the active queue, if there is one.
    pub(super) fn expire_active(&mut self, now: u64, keeps_rest: bool, queue: &Queue) {
        if let Some(id) = self.active {
            self.expire(now, id, keeps_rest, queue);
        }
    }

    /// A queue that is busy takes the turn from the active one.
    pub(super) fn preempt(&mut self, now: u64, id: QueueId, queue: &Queue) {
        // `timed_out` is 1 in `cfq_preempt_queue`: the preempted queue keeps what is left of its
        // slice.
        self.expire_active(now, true, queue);
        self.give_place(now, id, true);
        self.queues[id].slice_end = 0;
        // The key is at the front, but the queue becomes active only at the next dispatch call,
        // when `first_queue` finds it.
        self.queues[id].flags.set(Flag::SliceNew);
    }

    /// Ends the turn after a dispatch: of asynchronous requests if the turn had enough of them, of
    /// the idle class always.
    pub(super) fn expire_if_served(
        &mut self,
        now: u64,
        id: QueueId,
        dispatched: u32,
        queue: &Queue,
    ) {
        let own = &self.queues[id];
        let is_served = !own.sync && dispatched >= self.async_requests(id);
        if self.busy > 1 && (is_served || own.is_idle_class()) {
            // The kernel makes the slice end a jiffy from now before it expires the queue, although
            // it does not keep the rest.
            self.queues[id].slice_end = now + 1;
            self.expire_active(now, false, queue);
        }
    }

    /// Moves everything to the dispatch list, queue by queue.
    pub(super) fn drain(&mut self, now: u64, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        // 3.4 expires first, so that the active queue is on its tree in the right place
        // (`cfq_forced_dispatch`).
        if !V::LEAVES_WHEN_EMPTY {
            self.expire_active(now, false, queue);
        }
        while let Some(id) = self.first_queue() {
            self.set_active(Some(id));
            // By next request and not by FIFO: even a forced drain goes in the order of the sweep.
            while let Some(request) = self.queues[id].next {
                self.move_to_dispatch(request, queue);
                moved += 1;
            }
            self.expire(now, id, false, queue);
        }
        self.expire_active(now, false, queue);
        moved
    }
}
