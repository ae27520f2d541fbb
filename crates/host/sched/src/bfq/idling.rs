//! When the device is kept idle for the next request of the queue in service.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_better_to_idle`,
//! `idling_boosts_thr_without_issues`, `idling_needed_for_service_guarantees`,
//! `bfq_asymmetric_scenario`, `bfq_arm_slice_timer`, `bfq_idle_slice_timer_body`.

use super::{Bfq, Expiration};
use crate::Queue;
use crate::queue_id::QueueId;

/// Idle time of a queue that seeks (`BFQ_MIN_TT`).
// Longer idling costs more than it gains where each request seeks anyway.
pub(super) const MIN_IDLE_NS: u64 = 2_000_000;

/// Least idle time of a raised queue.
// `bfq_arm_slice_timer` has the number, and says no reason for it.
const RAISED_IDLE_NS: u64 = 20_000_000;

impl Bfq {
    /// Queues differ in weight or class, so that only idling keeps their shares.
    // Groups with pending requests, the third reason, do not occur: 6.1 counts none but the root, and
    // 6.12 wants more than one.
    pub(super) fn is_asymmetric(&self, id: Option<QueueId>) -> bool {
        // A queue of the smallest weight loses nothing to others: its share is what any order leaves it.
        let smallest = self.weights.first().map(|(weight, _)| *weight);
        let own = id.and_then(|id| self.queues[id].counted_weight);
        let has_smallest = own.is_some() && own == smallest;
        let varied = !has_smallest && self.weights.len() > 1;
        varied || self.busy.iter().filter(|count| **count > 0).count() > 1
    }

    /// Idling keeps the throughput high, and takes no service from raised queues.
    pub(super) fn idling_boosts(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        // Without a process nothing can come. Beside raised queues idling would delay them.
        if queue.process_refs() == 0 || self.raised_busy > 0 {
            return false;
        }
        // -1, not known yet, counts as deep in the kernel's tests.
        let is_deep = self.depth.is_deep();
        let in_sequence = !queue.is_seeky() && queue.flags.io_bound && queue.flags.short_think_time;
        // A disk of depth 1 gains from any neighbour that comes. Else only a queue in sequence that comes back
        // soon is worth an idle device, and on deep flash none is.
        (self.rotational && !is_deep) || ((self.rotational || !is_deep) && in_sequence)
    }

    /// Without idling the queue would lose service it is entitled to.
    pub(super) fn idling_guarantees(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        if queue.process_refs() == 0 {
            return false;
        }
        // Four in the driver beyond its own: those delay a raised queue even if all busy ones are raised.
        let is_raised_alone = queue.raising.factor > 1
            && (self.raised_busy < self.busy_queues() || self.in_driver >= queue.dispatched + 4);
        // If the only busy queue were expired, one that comes would go before its next request.
        is_raised_alone || self.is_asymmetric(Some(id)) || self.busy_queues() == 1
    }

    pub(super) fn is_better_to_idle(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        if queue.process_refs() == 0 {
            return false;
        }
        if self.tunables.strict_guarantees {
            return true;
        }
        if self.tunables.slice_idle_ns == 0 || !queue.is_sync || queue.is_idle_class() {
            return false;
        }
        self.idling_boosts(id) || self.idling_guarantees(id)
    }

    /// `bfq_bfqq_must_idle`.
    pub(super) fn must_idle(&self, id: QueueId) -> bool {
        self.queues[id].is_empty() && self.is_better_to_idle(id)
    }

    /// The queue in service waits for its next request.
    pub(super) fn arm_timer(&mut self, id: QueueId) {
        debug_assert!(self.queues[id].is_empty(), "nothing is idled for that has requests");
        self.queues[id].flags.waits = true;
        let queue = &self.queues[id];
        let mut idle_ns = self.tunables.slice_idle_ns;
        // Shares and raised weights are promises, so the full time is kept for them.
        if queue.is_seeky() && queue.raising.factor == 1 && !self.is_asymmetric(Some(id)) {
            idle_ns = idle_ns.min(MIN_IDLE_NS);
        } else if queue.raising.factor > 1 {
            idle_ns = idle_ns.max(RAISED_IDLE_NS);
        }
        self.idling_start_ns = self.now_ns;
        self.idling_start = self.jiffies;
        self.timer_at_ns = Some(self.now_ns + idle_ns);
    }

    pub(super) fn stop_waiting(&mut self, id: QueueId) {
        self.queues[id].flags.waits = false;
        self.timer_at_ns = None;
    }

    /// The idle timer has fired.
    pub(super) fn idled_in_vain(&mut self, queue: &mut Queue) {
        self.timer_at_ns = None;
        // In a kernel the queue may leave service while the timer fires.
        let Some(id) = self.in_service else { return };
        self.queues[id].flags.waits = false;
        if self.is_turn_over(id) {
            self.expire(id, true, Expiration::Timeout, &queue.requests);
        } else if self.queues[id].queued == [0, 0] {
            // Else a small request has come, which does not end the wait (`request_came`): it is served now.
            self.expire(id, true, Expiration::TooIdle, &queue.requests);
        }
        self.run_again(queue);
    }

    /// `bfq_schedule_dispatch`.
    pub(super) fn run_again(&self, queue: &mut Queue) {
        // Only with work: a run of an empty queue would ask for nothing.
        if self.queued > 0 {
            queue.run_soon = true;
        }
    }
}
