//! Requests of a queue: their order, and their way in and out.

use super::queue::{Flag, QueueId};
use super::{Cfq, Version, is_sync};
use crate::{Queue, RequestId};

impl<V: Version> Cfq<V> {
    /// The request that is better served first if the head is at `head`.
    ///
    /// Synchronous before asynchronous; then the nearer, where a way back counts
    /// `back_seek_penalty` times and one longer than `back_seek_max` begins a new sweep; of
    /// equally near ones the later.
    pub(super) fn choose(
        &self,
        first: Option<RequestId>,
        second: Option<RequestId>,
        head: u64,
        queue: &Queue,
    ) -> Option<RequestId> {
        let (Some(one), Some(two)) = (first, second) else { return first.or(second) };
        if one == two {
            return first;
        }
        let (a, b) = (&queue.requests[one], &queue.requests[two]);
        if is_sync(&a.bio) != is_sync(&b.bio) {
            return if is_sync(&a.bio) { first } else { second };
        }
        let (a, b) = (a.sector(), b.sector());
        let first_is_better = match (self.distance(head, a), self.distance(head, b)) {
            (Some(near), Some(other)) if near == other => a >= b,
            (Some(near), Some(other)) => near < other,
            (None, None) => a <= b,
            (near, _) => near.is_some(),
        };
        if first_is_better { first } else { second }
    }

    /// Cost of the way from the head to a sector, or nothing if it would be a new sweep.
    fn distance(&self, head: u64, sector: u64) -> Option<u64> {
        if sector >= head {
            Some(sector - head)
        } else if sector + self.tunables.back_seek_max_sectors >= head {
            Some((head - sector).saturating_mul(self.tunables.back_seek_penalty))
        } else {
            None
        }
    }

    /// The better neighbour of a waiting request; the first of the queue follows the last.
    pub(super) fn choose_neighbour(
        &self,
        id: QueueId,
        request: RequestId,
        head: u64,
        queue: &Queue,
    ) -> Option<RequestId> {
        let waiting = &self.queues[id].waiting;
        let wrapped = || waiting.first().filter(|first| *first != request);
        let next = waiting.next(request).or_else(wrapped);
        self.choose(next, waiting.previous(request), head, queue)
    }

    /// A request starts to wait in its queue, or waits under another sector from now on.
    pub(super) fn add_waiting(&mut self, now: u64, request: RequestId, queue: &mut Queue) {
        let id = self.owner(request).queue;
        let sector = queue.requests[request].sector();
        while V::ALIAS_IS_DISPATCHED
            && let Some(alias) = self.queues[id].waiting.find(sector)
        {
            self.move_to_dispatch(alias, queue);
        }
        self.queues[id].waiting.insert(&queue.requests, request);
        if !self.queues[id].is_busy() {
            self.become_busy(now, id, queue);
        }
        let before = self.queues[id].next;
        let next = self.choose(before, Some(request), self.head, queue);
        self.queues[id].next = next;
        if before != next {
            self.update_position(id, queue);
        }
    }

    /// Takes a waiting request out of its queue.
    pub(super) fn take_out(&mut self, request: RequestId, queue: &Queue) {
        let id = self.owner(request).queue;
        if self.queues[id].next == Some(request) {
            self.queues[id].next = self.choose_neighbour(id, request, self.head, queue);
        }
        let own = &mut self.queues[id];
        own.fifo.remove(&mut self.fifo_links, request);
        own.waiting.remove(request);
        let is_over = own.is_busy() && own.is_empty();
        self.waiting -= 1;
        if is_over {
            if V::LEAVES_WHEN_EMPTY {
                self.leave(id);
            } else {
                self.leave_position(id);
            }
        }
    }

    /// Moves a waiting request to the dispatch list.
    pub(super) fn move_to_dispatch(&mut self, request: RequestId, queue: &mut Queue) {
        let id = self.owner(request).queue;
        self.queues[id].next = V::next_after(self, id, request, queue);
        self.take_out(request, queue);
        let own = &mut self.queues[id];
        own.dispatched += 1;
        self.dispatched[usize::from(own.sync)] += 1;
        queue.dispatch_sort(request);
    }

    /// Moves the next request of a queue, which has one: the oldest if it has expired and this is
    /// the first of the turn, or the one next in order.
    pub(super) fn move_next(&mut self, now: u64, id: QueueId, queue: &mut Queue) {
        let Some(request) = self.expired_request(now, id, queue).or(self.queues[id].next) else {
            return;
        };
        self.move_to_dispatch(request, queue);
        if self.active_process.is_none() {
            let process = self.owner(request).process;
            self.processes.hold(process);
            self.active_process = Some(process);
        }
    }

    fn expired_request(&mut self, now: u64, id: QueueId, queue: &Queue) -> Option<RequestId> {
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
        if deadline >= queue.requests[survivor].deadline {
            return;
        }
        queue.requests[survivor].deadline = deadline;
        let fifo = &mut self.queues[self.owners[survivor.index()].queue].fifo;
        fifo.remove(&mut self.fifo_links, survivor);
        fifo.insert_before(&mut self.fifo_links, absorbed, survivor);
    }
}
