//! Requests of a queue: their order, and their way in and out.

use super::queue::Flag;
use super::{Cfq, Version, is_sync};
use crate::best_next::neighbours;
use crate::queue_id::QueueId;
use crate::{Queue, RequestId};

impl<V: Version> Cfq<V> {
    /// The request that is better served first if the head is at `head` ([`BackSeek::choose`]).
    ///
    /// [`BackSeek::choose`]: crate::best_next::BackSeek::choose
    fn choose(&self, pair: [Option<RequestId>; 2], head: u64, queue: &Queue) -> Option<RequestId> {
        self.tunables.back_seek.choose(pair, head, &queue.requests, is_sync)
    }

    /// The better neighbour of a waiting request; the first of the queue follows the last.
    pub(super) fn choose_neighbour(
        &self,
        id: QueueId,
        request: RequestId,
        head: u64,
        queue: &Queue,
    ) -> Option<RequestId> {
        self.choose(neighbours(&self.queues[id].waiting, request), head, queue)
    }

    /// A request starts to wait in its queue, or waits under another sector from now on.
    pub(super) fn add_waiting(&mut self, now: u64, request: RequestId, queue: &mut Queue) {
        let id = self.owner(request).queue;
        let sector = queue.requests[request].sector();
        // A sorted tree of 2.6 held one request for each sector. The older one goes out at once,
        // whatever its turn: `while`, because `cfq_add_rq_rb` loops over `elv_rb_add`.
        while V::ALIAS_IS_DISPATCHED
            && let Some(alias) = self.queues[id].waiting.find(sector)
        {
            self.move_to_dispatch(alias, queue);
        }
        self.queues[id].waiting.insert(&queue.requests, request);
        // Before the next request is chosen: `cfq_add_rq_rb` puts the queue on the round robin
        // first, and its key does not depend on the request.
        if !self.queues[id].is_busy() {
            self.become_busy(now, id, queue);
        }
        let before = self.queues[id].next;
        let next = self.choose([before, Some(request)], self.head, queue);
        self.queues[id].next = next;
        // `cfq_add_rq_rb` moves the queue in the position tree only when its best request changed.
        if before != next {
            self.update_position(id, queue);
        }
    }

    /// Takes a waiting request out of its queue.
    pub(super) fn take_out(&mut self, request: RequestId, queue: &Queue) {
        let id = self.owner(request).queue;
        // `cfq_remove_request` chooses a successor only if the request that leaves was the next
        // one.
        if self.queues[id].next == Some(request) {
            self.queues[id].next = self.choose_neighbour(id, request, self.head, queue);
        }
        // The neighbours must be known before the request leaves its tree.
        let own = &mut self.queues[id];
        own.fifo.remove(&mut self.fifo_links, request);
        own.waiting.remove(request);
        let is_over = own.is_busy() && own.is_empty();
        self.waiting -= 1;
        if is_over {
            // 2.6.29 and 2.6.32 give the place up here; with a place of its own an empty queue
            // would be selected.
            if V::LEAVES_WHEN_EMPTY {
                self.leave(id);
            } else {
                // 3.4 keeps the place, but an empty queue has no position: its next request is
                // none.
                self.leave_position(id);
            }
        }
    }

    /// Moves a waiting request to the dispatch list.
    pub(super) fn move_to_dispatch(&mut self, request: RequestId, queue: &mut Queue) {
        let id = self.owner(request).queue;
        // `cfq_dispatch_insert` sets the next request before the removal in 2.6.32 and 3.4, even if
        // another one was next: after a FIFO expiry the sweep goes on from the expired request.
        self.queues[id].next = V::next_after(self, id, request, queue);
        self.take_out(request, queue);
        let own = &mut self.queues[id];
        own.dispatched += 1;
        self.dispatched[usize::from(own.sync)] += 1;
        // Not at the tail: the driver's list may hold requests of an earlier turn
        // (`elv_dispatch_sort`).
        queue.dispatch_sort(request);
    }

    /// Moves the next request of a queue, which has one: the oldest if it has expired and this is
    /// the first of the turn, or the one next in order.
    pub(super) fn move_next(&mut self, now: u64, id: QueueId, queue: &mut Queue) {
        let Some(request) = self.expired_request(now, id, queue).or(self.queues[id].next) else {
            return;
        };
        self.move_to_dispatch(request, queue);
        // `active_cic` is the context of the first request of the turn, not of the queue: a shared
        // queue is judged by the process that was served first.
        if self.active_process.is_none() {
            let process = self.owner(request).process;
            self.processes.hold(process);
            self.active_process = Some(process);
        }
    }

    fn expired_request(&mut self, now: u64, id: QueueId, queue: &Queue) -> Option<RequestId> {
        // `fifo_expire` is a flag of the turn: the FIFO is looked at once, so a turn never degrades
        // to arrival order even if everything is late.
        if self.queues[id].has(Flag::FifoChecked) {
            return None;
        }
        self.queues[id].flags.set(Flag::FifoChecked);
        let oldest = self.queues[id].fifo.front()?;
        (now >= V::expiry(self, id, oldest, queue)).then_some(oldest)
    }

    /// Takes the place of `absorbed` in the FIFO if that expires earlier.
    pub(super) fn inherit_deadline(
        &mut self,
        survivor: RequestId,
        absorbed: RequestId,
        queue: &mut Queue,
    ) {
        let deadline = queue.requests[absorbed].deadline;
        // `cfq_merged_requests` swaps only if the absorbed request expires strictly earlier.
        if deadline >= queue.requests[survivor].deadline {
            return;
        }
        queue.requests[survivor].deadline = deadline;
        let fifo = &mut self.queues[self.owners[survivor.index()].queue].fifo;
        fifo.remove(&mut self.fifo_links, survivor);
        fifo.insert_before(&mut self.fifo_links, absorbed, survivor);
    }
}
