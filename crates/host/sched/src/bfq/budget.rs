//! Budgets: how many sectors a queue may be charged for in a turn.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_serv_to_charge`, `bfq_max_budget`,
//! `bfq_bfqq_update_budg_for_activation`, `__bfq_bfqq_recalc_budget`, `bfq_calc_max_budget`.

use super::{Bfq, Expiration};
use crate::queue_id::QueueId;
use crate::{RequestId, Requests};

/// Budget until the rate of the device is known (`bfq_default_max_budget`).
pub(super) const DEFAULT_MAX_BUDGET: i64 = 16 * 1024;

/// Selections in fixed point from which the rate decides (`bfq_stats_min_budgets`).
// `start_turn` counts (7 n + 256) / 8 each time, which reaches 194 with the eleventh selection.
const ENOUGH_BUDGETS: u64 = 194;

/// Factor of the charge of asynchronous requests (`bfq_async_charge_factor`).
// Writes return early into the cache of a device and would take the throughput of reads. Three was found by trial.
const ASYNC_CHARGE: i64 = 3;

impl Bfq {
    /// Sectors that a request is charged as.
    // Not more than its size where shares matter: an overcharge would change them.
    pub(super) fn charge(&self, request: RequestId, id: QueueId, requests: &Requests) -> i64 {
        let sectors = i64::from(requests[request].bio.sectors);
        let queue = &self.queues[id];
        if queue.is_sync || queue.raising.factor > 1 || self.is_asymmetric(Some(id)) {
            sectors
        } else {
            sectors * ASYNC_CHARGE
        }
    }

    /// True if a queue has a next request and the budget left covers it.
    // The kernel compares without signs: an overdrawn budget would cover anything.
    pub(super) fn covers_next(&self, id: QueueId, requests: &Requests) -> bool {
        let Some(next) = self.queues[id].next else { return false };
        let left = self.queues[id].entity.left();
        left < 0 || self.charge(next, id, requests) <= left
    }

    pub(super) fn max_budget(&self) -> i64 {
        // A rate from few samples may be far off, and a budget made from it would last for many turns.
        if self.budgets_assigned < ENOUGH_BUDGETS { DEFAULT_MAX_BUDGET } else { self.device_budget }
    }

    pub(super) fn min_budget(&self) -> i64 {
        // `bfq_min_budget`: the kernel says no reason for 32.
        self.max_budget() / 32
    }

    /// The budget of a queue that becomes busy; true if it goes on with what it had left.
    pub(super) fn budget_of_activation(
        &mut self,
        id: QueueId,
        in_time: bool,
        requests: &Requests,
    ) -> bool {
        let queue = &mut self.queues[id];
        // Before the service is reset, or the whole budget would seem to be left.
        let left = queue.entity.left();
        queue.entity.service = 0;
        // It waited for its own request only. What it had left comes back, and it may preempt, so that a
        // process of one request at a time loses nothing by its pauses.
        if queue.flags.may_resume && in_time && left > 0 {
            queue.entity.budget = left.min(queue.max_budget);
            return true;
        }
        let max_budget = queue.max_budget;
        let charge = queue.next.map_or(0, |next| self.charge(next, id, requests));
        let queue = &mut self.queues[id];
        queue.entity.budget = max_budget.max(charge);
        queue.flags.may_resume = false;
        false
    }

    /// The next request of a queue changed (`bfq_updated_next_req`).
    pub(super) fn updated_next(&mut self, id: QueueId, requests: &Requests) {
        let queue = &self.queues[id];
        // Not in service: its finish was computed from the budget, and another one would break the shares.
        let Some(next) = queue.next.filter(|_| self.in_service != Some(id)) else { return };
        let charge = self.charge(next, id, requests);
        // At least the next request, or the queue would be selected twice before it is served. At least the
        // service, or the budget left would be below zero.
        let budget = queue.max_budget.max(charge).max(queue.entity.service);
        if queue.entity.budget != budget {
            self.queues[id].entity.budget = budget;
            self.requeue(id, false);
        }
    }

    /// The budget of the next turn, by the reason for which this one ended.
    pub(super) fn recalculate_budget(
        &mut self,
        id: QueueId,
        reason: Expiration,
        requests: &Requests,
    ) {
        let (min, device) = (self.min_budget(), self.device_budget);
        let queue = &self.queues[id];
        let is_raised = queue.raising.factor > 1;
        // A raised queue comes back soon anyway: with small budgets it never holds others up for long.
        let mut budget = if is_raised { 2 * min } else { queue.max_budget };
        if queue.is_sync && !is_raised {
            budget = match reason {
                // It may wait for its own requests in the driver, so it is not known to think for long.
                Expiration::TooIdle if queue.dispatched > 0 => (budget * 2).min(device),
                // A small budget bounds the idling for it. In steps: one pause does not make a slow process.
                Expiration::TooIdle if budget > 5 * min => budget - 4 * min,
                Expiration::TooIdle => min,
                // Also a process in sequence meets the timeout, at the slow end of a disk: a larger budget helps it.
                Expiration::Timeout => (budget * 2).min(device),
                // It uses what it gets: longer turns, and fewer changes of queue.
                Expiration::Exhausted => (budget * 4).min(device),
                // What it used in this turn is what it needs in the next.
                Expiration::NoMoreRequests => queue.entity.service.max(min),
                // Nothing was learned of the queue.
                Expiration::Preempted => return,
            };
        } else if !queue.is_sync {
            // Nobody waits for these requests, and the factor of the charge bounds what they take.
            budget = device;
        }
        if self.budgets_assigned >= ENOUGH_BUDGETS && self.tunables.max_budget == 0 {
            budget = budget.min(device);
        }
        self.queues[id].max_budget = budget;
        if let Some(next) = self.queues[id].next {
            let charge = self.charge(next, id, requests);
            self.queues[id].entity.budget = budget.max(charge);
        }
    }

    /// Charges a queue for time instead of service: a slow one must not hold the device
    /// (`bfq_bfqq_charge_time`).
    pub(super) fn charge_time(&mut self, id: QueueId, milliseconds: i64) {
        // `bfq_timeout`, HZ / 8, and not `timeout_sync`: quirk of `bfq_bfqq_charge_time`, which reads the
        // constant even if the tunable was set.
        let timeout_ms = self.clock_ms(u64::from(self.clock.hz / 8)).max(1);
        let for_time = self.device_budget * milliseconds.min(timeout_ms) / timeout_ms;
        let entity = &mut self.queues[id].entity;
        // Never less than the service: that was charged already.
        let total = for_time.max(entity.service);
        // The budget must cover the charge, since a finish is computed from it.
        entity.budget = entity.budget.max(total);
        let more = total - entity.service;
        self.serve(id, more);
    }

    /// What the device transfers in `timeout_sync` (`bfq_calc_max_budget`).
    pub(super) fn budget_of_rate(&self) -> i64 {
        let timeout_ms = self.clock_ms(self.tunables.timeout) as u64;
        ((u64::from(self.rate.peak) * 1000 * timeout_ms) >> super::peak_rate::SHIFT).cast_signed()
    }

    /// Jiffies as milliseconds (`jiffies_to_msecs`).
    pub(super) fn clock_ms(&self, jiffies: u64) -> i64 {
        (jiffies * 1000 / u64::from(self.clock.hz)).cast_signed()
    }
}
