//! What CFQ 3.4 learns from requests, and the queues it merges for it.

use super::{CLOSE_SECTORS, DEEP_REQUESTS, SEEK_SECTORS, SMALL_SECTORS, V34};
use crate::cfq::Cfq;
use crate::cfq::process::ContextId;
use crate::cfq::queue::Flag;
use crate::queue_id::QueueId;
use crate::{Queue, RequestId};

impl Cfq<V34> {
    pub(super) fn learn_think_time(&mut self, now: u64, process: ContextId, id: QueueId) {
        let own = &self.queues[id];
        if own.sync {
            let slice_idle = self.tunables.slice_idle;
            self.processes[process].think_time.sample(now, slice_idle);
            // The tree in which the queue stands, not the one its flags call for.
            let tree = own.current_tree();
            self.trees[tree].think_time.sample(now, slice_idle);
        }
    }

    pub(super) fn learn_seek(&mut self, id: QueueId, request: RequestId, queue: &Queue) {
        let request = &queue.requests[request];
        let own = &mut self.queues[id];
        let is_seek = if queue.rotational {
            let last = own.last_end_sector;
            // A position of 0 is none: the first request is no seek.
            last != 0 && request.sector().abs_diff(last) > SEEK_SECTORS
        } else {
            // On flash the cost lies in the number of requests, so small ones count in place of
            // distant ones.
            request.bio.sectors < SMALL_SECTORS
        };
        own.seek_history = own.seek_history << 1 | u32::from(is_seek);
    }

    pub(super) fn update_idle_window(&mut self, id: QueueId, process: ContextId, queue: &Queue) {
        let own = &mut self.queues[id];
        if !own.sync || own.is_idle_class() {
            return;
        }
        // Queued, not dispatched: what is with the driver does not count (`cfqq->queued`).
        if own.waiting.len() >= DEEP_REQUESTS {
            own.flags.set(Flag::Deep);
        }
        let slice_idle = self.tunables.slice_idle;
        // The next request of the queue and not the one that came: `cfqq->next_rq` is what would be
        // idled after.
        let is_last = own.next.is_some_and(|next| queue.requests[next].bio.noidle);
        // A deep seeker keeps its window: idling keeps its requests together, and the device may
        // reorder them.
        let hopeless = slice_idle == 0 || (own.is_seeky() && !own.has(Flag::Deep));
        let thinks = self.processes[process].think_time.known();
        if is_last || hopeless {
            own.flags.clear(Flag::IdleWindow);
        } else if let Some(mean) = thinks {
            own.flags.put(Flag::IdleWindow, mean <= slice_idle);
        }
    }
}

/// Queues that work side by side.
impl Cfq<V34> {
    /// Another queue that works close to the head, so that idling would only delay it.
    pub(super) fn close_cooperator(&self, id: QueueId, queue: &Queue) -> Option<QueueId> {
        let own = &self.queues[id];
        // `busy_queues` stands for the queues of the group: with one there is no neighbour to find.
        if own.is_idle_class() || !own.sync || own.is_seeky() || self.busy == 1 {
            return None;
        }
        let close = self.queue_at_head(own.level, CLOSE_SECTORS, queue)?;
        let other = &self.queues[close];
        // Merging a queue of another class would give its requests a priority they do not have.
        let fits = other.sync && !other.is_seeky() && other.is_real_time() == own.is_real_time();
        fits.then_some(close)
    }

    /// Plans to merge two queues, into the one that more processes use. Processes that move later
    /// find their references taken.
    pub(super) fn plan_merge(&mut self, id: QueueId, close: QueueId) {
        // `cfq_setup_merge`: the chain of plans of a queue without processes is not safe to follow.
        if self.queues[close].processes() == 0 {
            return;
        }
        let mut target = close;
        // Follows plans made before; a plan that leads back would be a cycle.
        while let Some(next) = self.queues[target].merges_into {
            if next == id {
                return;
            }
            target = next;
        }
        let (from, into) = (self.queues[id].processes(), self.queues[target].processes());
        if from == 0 || into == 0 {
            return;
        }
        // Fewer references move: the queue with fewer processes goes into the other.
        if into >= from {
            self.queues[id].merges_into = Some(target);
            // Taken in advance, one for each process that will follow; `put_cooperators` gives back
            // what is not used.
            self.queues[target].references += from;
        } else {
            self.queues[target].merges_into = Some(id);
            self.queues[id].references += into;
        }
    }

    /// Moves a process to the queue that its own is to be merged with.
    pub(super) fn merged_queue(
        &mut self,
        now: u64,
        process: ContextId,
        id: QueueId,
        queue: &mut Queue,
    ) -> QueueId {
        let Some(target) = self.queues[id].merges_into else { return id };
        // Only synchronous queues are merged, hence place 1.
        self.processes[process].queues[1] = Some(target);
        self.queues[target].flags.set(Flag::Cooperates);
        self.put_queue(now, id, queue);
        target
    }

    /// Takes a process out of a shared queue that is to be split; the last one keeps it. True if
    /// the process has no queue any more.
    pub(super) fn split(
        &mut self,
        now: u64,
        process: ContextId,
        id: QueueId,
        queue: &mut Queue,
    ) -> bool {
        let own = &mut self.queues[id];
        // Both marks: the queue is shared, and it was seeky when its turn ended.
        if !own.has(Flag::Cooperates) || !own.has(Flag::Splits) {
            return false;
        }
        // The last process keeps the queue, which is its own again (`split_cfqq`).
        if own.processes() == 1 {
            own.flags.clear(Flag::Cooperates);
            own.flags.clear(Flag::Splits);
            return false;
        }
        self.processes[process].queues[1] = None;
        self.put_cooperators(now, id, queue);
        self.put_queue(now, id, queue);
        true
    }
}
