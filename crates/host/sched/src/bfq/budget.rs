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
const ENOUGH_BUDGETS: u64 = 194;

/// Factor of the charge of asynchronous requests (`bfq_async_charge_factor`).
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
        if self.budgets_assigned < ENOUGH_BUDGETS { DEFAULT_MAX_BUDGET } else { self.device_budget }
    }

    pub(super) fn min_budget(&self) -> i64 {
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
        let left = queue.entity.left();
        queue.entity.service = 0;
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
        let Some(next) = queue.next.filter(|_| self.in_service != Some(id)) else { return };
        let charge = self.charge(next, id, requests);
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
        let mut budget = if is_raised { 2 * min } else { queue.max_budget };
        if queue.is_sync && !is_raised {
            budget = match reason {
                Expiration::TooIdle if queue.dispatched > 0 => (budget * 2).min(device),
                Expiration::TooIdle if budget > 5 * min => budget - 4 * min,
                Expiration::TooIdle => min,
                Expiration::Timeout => (budget * 2).min(device),
                Expiration::Exhausted => (budget * 4).min(device),
                Expiration::NoMoreRequests => queue.entity.service.max(min),
                Expiration::Preempted => return,
            };
        } else if !queue.is_sync {
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
        let timeout_ms = self.clock_ms(u64::from(self.clock.hz / 8)).max(1);
        let for_time = self.device_budget * milliseconds.min(timeout_ms) / timeout_ms;
        let entity = &mut self.queues[id].entity;
        let total = for_time.max(entity.service);
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
