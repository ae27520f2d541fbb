//! Which request of a queue is next, and what comes and goes with a request.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_choose_req`, `bfq_find_next_rq`,
//! `bfq_check_fifo`, `bfq_add_request`, `bfq_remove_request`, `bfq_update_io_intensity`,
//! `bfq_rq_enqueued`.

use super::{Bfq, Expiration};
use crate::best_next::neighbours;
use crate::queue_id::QueueId;
use crate::{RequestId, Requests};

/// A request below so many sectors does not end the wait of its queue by itself.
// A number within `bfq_rq_enqueued`: smaller ones are likely to grow by merging if the device waits.
const SMALL_SECTORS: u32 = 32;

impl Bfq {
    /// The request that is better served first if the head is at `head`.
    fn choose(
        &self,
        pair: [Option<RequestId>; 2],
        head: u64,
        requests: &Requests,
    ) -> Option<RequestId> {
        self.tunables.back_seek.choose(pair, head, requests, |bio| bio.sync)
    }

    /// The request after `last`, which leaves: the oldest if it has expired and this is the first look in
    /// the turn, or the nearer neighbour.
    fn find_next(
        &mut self,
        id: QueueId,
        last: RequestId,
        requests: &Requests,
    ) -> Option<RequestId> {
        let queue = &mut self.queues[id];
        // Once a turn: if all requests are late, the rest of the turn still goes by sector.
        if !std::mem::replace(&mut queue.flags.fifo_checked, true)
            && let Some(oldest) = queue.fifo.front()
            && oldest != last
            && self.now_ns >= requests[oldest].deadline
        {
            return Some(oldest);
        }
        // From the start of the request that leaves, not from the head: `bfq_find_next_rq` passes
        // `blk_rq_pos(last)` on.
        let pair = neighbours(&self.queues[id].waiting, last);
        self.choose(pair, requests[last].sector(), requests)
    }

    /// A new or moved request of a queue; sets the next one and returns the one before.
    fn offer(&mut self, id: QueueId, request: RequestId, requests: &Requests) -> Option<RequestId> {
        let before = self.queues[id].next;
        let next = self.choose([before, Some(request)], self.last_position, requests);
        self.queues[id].next = next;
        before
    }

    /// A request starts to wait in its queue (`bfq_add_request`).
    pub(super) fn add_request(&mut self, request: RequestId, requests: &Requests) {
        let id = self.owner(request).queue;
        let process = self.owner(request).process;
        // Before anything below raises the queue: what follows depends on whether it was raised before.
        let old_factor = self.queues[id].raising.factor;
        let is_sync = requests[request].bio.sync;
        self.queues[id].queued[usize::from(is_sync)] += 1;
        self.queued += 1;
        // The process has no other request, so it waited for something: an answer, or another process.
        if self.queues[id].is_sync && self.processes[process].requests <= 1 {
            self.check_waker(id);
            self.watch_injection(id);
        }
        // Before the request is in the tree: whether the queue was empty counts.
        if self.queues[id].is_sync {
            self.update_intensity(id);
        }
        self.queues[id].waiting.insert(requests, request);
        let before = self.offer(id, request, requests);
        let changes = before != self.queues[id].next;
        // Flash that queues requests gains nothing from neighbours, so it needs no positions.
        if !self.nonrot_with_queueing && changes {
            self.move_position(id, requests);
        }
        let mut interactive = false;
        if self.queues[id].flags.busy {
            // A busy synchronous queue was judged when it became busy; an asynchronous one may never become idle.
            if self.tunables.low_latency && old_factor == 1 && !is_sync {
                self.raise_async(id);
            }
            if changes {
                self.updated_next(id, requests);
            }
        } else {
            let is_owned =
                self.queues[id].process.is_some() || self.processes[process].stably_merged;
            interactive = self.switch_to_busy(id, is_owned, old_factor, requests);
        }
        // Also when raising has just begun, whose time runs from here.
        let raising = &mut self.queues[id].raising;
        if self.tunables.low_latency && (old_factor == 1 || raising.factor == 1 || interactive) {
            raising.last_start_or_end = self.jiffies;
        }
    }

    /// Takes a waiting request out of its queue (`bfq_remove_request`).
    pub(super) fn remove_request(&mut self, request: RequestId, requests: &Requests) {
        let id = self.owner(request).queue;
        // While the request is still in the tree, where its neighbours are found.
        if self.queues[id].next == Some(request) {
            self.queues[id].next = self.find_next(id, request, requests);
            self.updated_next(id, requests);
        }
        let is_sync = requests[request].bio.sync;
        let queue = &mut self.queues[id];
        queue.fifo.remove(&mut self.fifo_links, request);
        queue.queued[usize::from(is_sync)] -= 1;
        queue.waiting.remove(request);
        self.queued -= 1;
        if !queue.is_empty() {
            if !self.nonrot_with_queueing {
                self.move_position(id, requests);
            }
            return;
        }
        queue.next = None;
        // The queue in service stays busy: the device may be idled for its next request.
        if queue.flags.busy && self.in_service != Some(id) {
            self.leave_busy(id, false);
            // What it had left is nothing that it could go on with.
            let entity = &mut self.queues[id].entity;
            (entity.budget, entity.service) = (0, 0);
        }
        self.leave_position(id);
    }

    /// The first sector of a waiting request moved (`bfq_request_merged`).
    pub(super) fn request_moved(&mut self, request: RequestId, requests: &Requests) {
        let id = self.owner(request).queue;
        let sector = requests[request].sector();
        let waiting = &mut self.queues[id].waiting;
        let before = waiting.previous(request);
        waiting.remove(request);
        waiting.insert(requests, request);
        // The kernel leaves the request at its place, and the choice as it is, unless it is out of order.
        if before.is_none_or(|before| requests[before].sector() <= sector) {
            return;
        }
        let before = self.offer(id, request, requests);
        if before != self.queues[id].next {
            self.updated_next(id, requests);
            if !self.nonrot_with_queueing {
                self.move_position(id, requests);
            }
        }
    }

    /// Whether a queue keeps the device busy: less than a fifth of the time without requests.
    fn update_intensity(&mut self, id: QueueId) {
        let (now_ns, pause_ns) = (self.now_ns, self.pause_ns(id));
        let queue = &mut self.queues[id];
        let total_ns = now_ns - queue.io_start_ns;
        // Requests in flight are I/O, so the pause is idle time only without them.
        if queue.is_empty() && queue.dispatched == 0 {
            queue.idle_ns = queue.idle_ns.wrapping_add(pause_ns);
        }
        // A new queue has no history: it stays I/O-bound, as it was created.
        if queue.flags.just_created {
            return;
        }
        // Without a sign, as in the kernel: the first pause of 6.12 may be the longest there is (`pause_ns`).
        queue.flags.io_bound = queue.idle_ns.wrapping_mul(5) <= total_ns;
        // Both halved each 200 ms, so the ratio stays and what is old fades.
        if total_ns > 200_000_000 {
            queue.io_start_ns = now_ns - (total_ns >> 1);
            queue.idle_ns >>= 1;
        }
    }

    /// A request was added: ends the wait of its queue, unless more are likely to follow
    /// (`bfq_rq_enqueued`).
    pub(super) fn request_came(&mut self, request: RequestId, requests: &Requests) {
        let id = self.owner(request).queue;
        let bio = &requests[request].bio;
        // Here and not at dispatch: seeks are judged in the order in which the process made its requests.
        self.queues[id].last_end_sector = bio.end();
        if self.in_service != Some(id) || !self.queues[id].flags.waits {
            return;
        }
        let is_small =
            self.queues[id].queued[usize::from(bio.sync)] == 1 && bio.sectors < SMALL_SECTORS;
        let is_over = self.is_turn_over(id);
        // The wait goes on for a larger request, which the plug of the process may still hold.
        if is_small && !is_over && self.idling_boosts(id) {
            return;
        }
        self.stop_waiting(id);
        if is_over {
            self.expire(id, false, Expiration::Timeout, requests);
        }
    }
}
