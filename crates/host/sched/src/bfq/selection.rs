//! The dispatch call: which queue is served, and when a turn ends.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_select_queue`, `bfq_dispatch_rq_from_bfqq`,
//! `bfq_bfqq_expire`, `bfq_bfqq_is_slow`, `__bfq_set_in_service_queue`, `bfq_completed_request`.

use super::idling::MIN_IDLE_NS;
use super::{Bfq, Expiration};
use crate::queue_id::QueueId;
use crate::{Queue, RequestId, Requests};

impl Bfq {
    /// The time of the turn has passed (`bfq_bfqq_budget_timeout`).
    pub(super) fn is_turn_over(&self, id: QueueId) -> bool {
        // With equality: `time_is_before_eq_jiffies`.
        self.queues[id].budget_timeout <= self.jiffies
    }

    /// `bfq_may_expire_for_budg_timeout`: a queue that waits and has used most of its budget may go on.
    fn may_time_out(&self, id: QueueId) -> bool {
        let queue = &self.queues[id];
        // The end of its turn would set back a queue that waits (`activate_entity`). So only a slow one is ended,
        // which has a third of its budget left when the time is over.
        let has_most = queue.entity.left() >= queue.entity.budget / 3;
        (!queue.flags.waits || has_most) && self.is_turn_over(id)
    }

    /// The queue to take a request from; none while the device idles (`bfq_select_queue`).
    pub(super) fn select(&mut self, requests: &Requests) -> Option<QueueId> {
        let mut reason = Expiration::Timeout;
        let mut expires = false;
        if let Some(id) = self.in_service {
            // A queue that must be idled for keeps the device beyond its time: its share depends on that.
            expires = self.may_time_out(id) && !self.must_idle(id);
        }
        loop {
            if expires && let Some(id) = self.in_service {
                self.expire(id, false, reason, requests);
            }
            if self.in_service.is_none() {
                self.start_turn();
            }
            let id = self.in_service?;
            let queue = &self.queues[id];
            // The new queue goes through the same tests, except for the time: its turn has just begun.
            if queue.next.is_some() {
                if self.covers_next(id, requests) {
                    // A small request came that had not ended the wait (`request_came`).
                    if self.queues[id].flags.waits {
                        self.stop_waiting(id);
                    }
                    return Some(id);
                }
                reason = Expiration::Exhausted;
            } else if queue.flags.waits || (queue.dispatched > 0 && self.is_better_to_idle(id)) {
                return self.select_while_idle(id, requests);
            } else {
                reason = Expiration::NoMoreRequests;
            }
            expires = true;
        }
    }

    /// Another queue to serve while the one in service is empty.
    fn select_while_idle(&mut self, id: QueueId, requests: &Requests) -> Option<QueueId> {
        let can_serve =
            |id: &QueueId| self.queues[*id].flags.busy && self.covers_next(*id, requests);
        // In the order of `bfq_select_queue`: what the process itself may wait for goes first, what only fills the
        // gap last. The turn is not ended, so the shares stay.
        let queue = &self.queues[id];
        let process = queue.process;
        let own_async = process
            .and_then(|process| self.processes[process].queues[0])
            .filter(can_serve)
            .filter(|own| {
                // The queue is shared: its next request may be another process's, which would gain by this.
                let next = self.queues[*own].next;
                next.is_some_and(|next| Some(self.owner(next).process) == process)
            });
        let woken = || queue.wakers.woken.first().copied().filter(can_serve);
        let partner = own_async.or_else(|| queue.wakers.waker.filter(can_serve)).or_else(woken);
        if partner.is_some() {
            return partner;
        }
        let may_inject = !self.idling_boosts(id)
            && (queue.raising.factor == 1 || self.raised_busy > 1 || !queue.flags.short_think_time);
        if may_inject { self.choose_injected(id, requests) } else { None }
    }

    /// The next queue goes in service, if there is one.
    fn start_turn(&mut self) {
        let next = self.take_next_queue();
        if let Some(id) = next {
            self.queues[id].flags.fifo_checked = false;
            // A decaying count in fixed point: it tells early turns from later ones, and never overflows.
            self.budgets_assigned = (self.budgets_assigned * 7 + 256) / 8;
            // Before `budget_timeout` is set below: until then it says since when the queue waited.
            self.stretch_soft_real_time(id);
            self.turn_start_ns = self.now_ns;
            let jiffies = self.tunables.timeout * self.turn_factor(id);
            self.queues[id].budget_timeout = self.jiffies + jiffies;
        }
        self.in_service = next;
        // Until it dispatches, only requests near the start of the device count as close to it.
        self.in_service_position = 0;
    }

    /// Takes the next request of a queue (`bfq_dispatch_rq_from_bfqq`).
    pub(super) fn take_next(&mut self, id: QueueId, queue: &mut Queue) -> bool {
        let Some(request) = self.queues[id].next else { return false };
        let requests = &queue.requests;
        let charge = self.charge(request, id, requests);
        // Before the removal, which may empty the queue and compute its finish from the service.
        self.serve(id, charge);
        if self.in_service == Some(id) && self.awaits_dispatch {
            self.awaits_dispatch = false;
            self.waited_request = Some(request);
        }
        self.queues[id].dispatched += 1;
        self.observe_dispatch(id, request, requests);
        self.remove_request(request, requests);
        // A queue that was injected into the turn of another one is left as it is.
        if self.in_service == Some(id) {
            self.update_raising(id);
            // Idle processes get one request at a time beside others.
            if self.busy_queues() > 1 && self.queues[id].is_idle_class() {
                self.expire(id, false, Expiration::Exhausted, requests);
            }
        }
        self.in_driver += 1;
        queue.dispatch_tail(request);
        true
    }

    /// Ends the turn of the queue in service (`bfq_bfqq_expire`).
    pub(super) fn expire(
        &mut self,
        id: QueueId,
        idled: bool,
        reason: Expiration,
        requests: &Requests,
    ) {
        debug_assert_eq!(self.in_service, Some(id), "only a turn under way ends");
        // First, from the service of the turn, which a charge for time changes below.
        let (is_slow, milliseconds) = self.is_slow(id, idled);
        let entity = &self.queues[id].entity;
        let is_late = reason == Expiration::Timeout && entity.left() >= entity.budget / 3;
        // A raised queue is not punished: for a while latency goes before throughput.
        if self.queues[id].raising.factor == 1 && (is_slow || is_late) {
            self.charge_time(id, milliseconds);
        }
        if self.tunables.low_latency {
            let queue = &mut self.queues[id];
            if queue.raising.factor == 1 {
                queue.raising.last_start_or_end = self.jiffies;
            }
            if queue.is_empty() {
                // Soft real time is judged by when a batch is done: with requests in flight, `completed` does it.
                if queue.dispatched == 0 {
                    self.next_soft_real_time(id);
                } else {
                    queue.flags.soft_real_time_update = true;
                }
            }
        }
        // What was measured belongs to the turn.
        (self.injected, self.awaits_dispatch) = (false, false);
        self.waited_request = None;
        self.recalculate_budget(id, reason, requests);
        if self.end_turn(id, reason, requests) {
            return;
        }
        let queue = &mut self.queues[id];
        // Only a queue that ran empty before its time may come back with the rest of its budget.
        let is_used_up = matches!(reason, Expiration::Timeout | Expiration::Exhausted);
        if !queue.flags.busy && !is_used_up {
            queue.flags.may_resume = true;
        } else {
            queue.entity.service = 0;
        }
    }

    /// Takes a queue out of service; true if it is gone (`__bfq_bfqq_expire`).
    pub(super) fn end_turn(
        &mut self,
        id: QueueId,
        reason: Expiration,
        requests: &Requests,
    ) -> bool {
        let queue = &mut self.queues[id];
        // Shared by processes that work far from each other after all.
        if queue.flags.shared && queue.is_seeky() {
            queue.flags.to_split = true;
        }
        // Preempted while it was idled for: it counts as if it had requests, or it would lose its place by a pause
        // (`__bfq_bfqq_expire`).
        let keeps_place = || reason == Expiration::Preempted && self.idling_guarantees(id);
        if self.queues[id].is_empty() && !keeps_place() {
            let jiffies = self.jiffies;
            let queue = &mut self.queues[id];
            // With requests in flight it is not idle yet: their completion notes the time.
            if queue.dispatched == 0 {
                queue.budget_timeout = jiffies;
            }
            self.leave_busy(id, true);
        } else {
            self.requeue(id, true);
            if !self.nonrot_with_queueing && !self.queues[id].is_empty() {
                self.move_position(id, requests);
            }
        }
        // `__bfq_bfqd_reset_in_service`.
        self.stop_waiting(id);
        self.in_service = None;
        self.in_service_entity = None;
        // In no tree any more: the reference of the entity in service is given back here and not in `forget`.
        if self.queues[id].entity.is_counted {
            return false;
        }
        let is_last = self.queues[id].refs == 1;
        self.put_queue(id);
        is_last
    }

    /// Whether a queue uses the device badly, and the milliseconds of its turn (`bfq_bfqq_is_slow`).
    fn is_slow(&self, id: QueueId, idled: bool) -> (bool, i64) {
        let queue = &self.queues[id];
        if !queue.is_sync {
            return (false, 0);
        }
        // Time that the device idled in vain was not the queue's use of it.
        let end_ns = if idled { self.idling_start_ns } else { self.now_ns };
        let turn_us = end_ns.saturating_sub(self.turn_start_ns) / 1000;
        if turn_us < 1000 {
            // Too short to tell: a time is made up.
            let made_up = if self.rotational { 8 } else { MIN_IDLE_NS / 1_000_000 };
            return (queue.is_seeky(), made_up.cast_signed());
        }
        // Long enough to measure. Half of the device's budget, as the slow end of a disk has about half the rate of
        // the other (`bfq_bfqq_is_slow`).
        let is_slow = if turn_us > 20_000 {
            queue.entity.service < self.device_budget / 2
        } else {
            queue.is_seeky()
        };
        (is_slow, (turn_us / 1000).cast_signed())
    }

    /// The driver is done with a request of a queue (`bfq_completed_request`).
    pub(super) fn completed(&mut self, id: QueueId, request: RequestId, queue: &mut Queue) {
        if self.waited_request == Some(request) {
            self.update_injection(id);
        }
        // Both while the request still counts: the kernel samples before it counts down (`bfq_completed_request`).
        self.observe_depth();
        self.in_driver -= 1;
        let jiffies = self.jiffies;
        let own = &mut self.queues[id];
        own.dispatched -= 1;
        if own.dispatched == 0 && !own.flags.busy {
            // Idle from now on. Its weight counts until here and not only until it ran empty: its requests were
            // still served beside those of others.
            own.budget_timeout = jiffies;
            self.uncount_weight(id);
        }
        self.queues[id].think_time.last_end_ns = self.now_ns;
        // With the completion before, which is replaced just after.
        self.observe_completion();
        self.last_completion_ns = self.now_ns;
        // A shared queue could be woken by its own other process.
        self.last_completed = (!self.queues[id].flags.shared).then_some(id);
        let own = &self.queues[id];
        if own.flags.soft_real_time_update
            && own.dispatched == 0
            && own.is_empty()
            // An interactive start is no pattern of soft real time, however it looks.
            && own.raising.factor != super::weight_raising::INTERACTIVE
        {
            self.next_soft_real_time(id);
        }
        if self.in_service == Some(id) {
            let requests = &queue.requests;
            if self.must_idle(id) {
                if self.queues[id].dispatched == 0 {
                    self.arm_timer(id);
                }
                return;
            }
            let own = &self.queues[id];
            let (is_empty, dispatched) = (own.is_empty(), own.dispatched);
            if self.may_time_out(id) {
                self.expire(id, false, Expiration::Timeout, requests);
            } else if is_empty && (dispatched == 0 || !self.is_better_to_idle(id)) {
                self.expire(id, false, Expiration::NoMoreRequests, requests);
            }
        }
        // Nothing is left whose completion would ask for work.
        if self.in_driver == 0 {
            self.run_again(queue);
        }
    }
}
