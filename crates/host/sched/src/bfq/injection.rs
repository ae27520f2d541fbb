//! Requests of other queues served while the queue in service is idled for.
//!
//! Quirks, all of the kernel (`block/bfq-iosched.c`, 6.1 and 6.12):
//! - The limit of one that should come into force after `slice_idle` of idling adds nanoseconds to
//!   jiffies, so that it practically never does (`bfq_choose_bfqq_for_injection`).
//! - 6.1 lets a large request of a flash device go only if the driver is empty, and refuses others by
//!   the limit of the queue in service; 6.12 passes over it if anything is in the driver.

use super::{Bfq, Version};
use crate::Requests;
use crate::queue_id::QueueId;

/// Requests of a flash device that are large (`BFQQ_SECT_THR_NONROT`).
// 32 KiB: one of them can hold the device up longer than several small ones.
const LARGE_SECTORS: u32 = 64;

impl Bfq {
    /// `bfq_reset_inject_limit`.
    pub(super) fn reset_injection(&mut self, id: QueueId) {
        self.waited_request = None;
        let queue = &mut self.queues[id];
        queue.injection.base_ns = 0;
        // With long pauses one other request disturbs little, and leaves the device less idle.
        queue.injection.limit = u32::from(!queue.flags.short_think_time);
        queue.injection.decreased = self.jiffies;
    }

    /// The only request of a process has come: decides whether its time is to be measured.
    pub(super) fn watch_injection(&mut self, id: QueueId) {
        let (jiffies, second, hundredth) =
            (self.jiffies, self.clock.from_milliseconds(1000), self.clock.from_milliseconds(10));
        // A second after the last decrease the work may have changed: the limit is learned anew.
        if self.queues[id].injection.decreased + second <= jiffies {
            self.reset_injection(id);
        }
        let injection = &self.queues[id].injection;
        // With others in the driver the time measures injection, without any the device alone. What lies between
        // would measure neither.
        let has_injected = injection.base_ns > 0 && self.injected && self.in_driver > 0;
        if self.in_service == Some(id)
            && (self.in_driver == 0 || has_injected)
            // Sooner, what the old limit let through may still be in the device.
            && injection.decreased + hundredth <= jiffies
        {
            self.occupied_ns = self.now_ns;
            self.awaits_dispatch = true;
            if self.in_driver == 0 {
                self.injected = false;
            }
        }
    }

    /// The watched request is complete, but still counted (`bfq_update_inject_limit`).
    pub(super) fn update_injection(&mut self, id: QueueId) {
        let total_ns = self.now_ns - self.occupied_ns;
        let (in_driver, max_in_driver) = (self.in_driver, self.depth.max_in_driver);
        let (jiffies, was_injected) = (self.jiffies, self.injected);
        let injection = &mut self.queues[id].injection;
        let old_limit = injection.limit;
        if injection.base_ns > 0 && was_injected {
            // Half more than without injection is what the process may lose (`bfq_update_inject_limit`).
            let threshold_ns = (injection.base_ns * 3) >> 1;
            if total_ns >= threshold_ns && old_limit > 0 {
                injection.limit -= 1;
                injection.decreased = jiffies;
            } else if total_ns < threshold_ns && old_limit <= max_in_driver {
                // No further than what the driver was seen to hold: beyond that the limit has no effect.
                injection.limit += 1;
            }
        }
        // The request itself still counts, so 1 means that it had the device for itself.
        if (injection.base_ns == 0 && in_driver == 1) || total_ns < injection.base_ns {
            if injection.base_ns == 0 {
                // From here on there is something to compare with, so one may be tried.
                injection.limit = old_limit.max(1);
            }
            injection.base_ns = total_ns;
        } else if !was_injected && in_driver == 1 {
            injection.base_ns = total_ns;
        }
        self.waited_request = None;
        self.injected = false;
    }

    /// A queue to be served while `served` waits for a request (`bfq_choose_bfqq_for_injection`).
    pub(super) fn choose_injected(
        &mut self,
        served: QueueId,
        requests: &Requests,
    ) -> Option<QueueId> {
        let queue = &self.queues[served];
        let mut limit = queue.injection.limit;
        // A raised queue that thinks shortly is disturbed by raised ones only.
        let always = queue.raising.factor == 1 || !queue.flags.short_think_time;
        if limit == 0
            && queue.injection.base_ns == 0
            && queue.flags.waits
            && self.idling_start + self.tunables.slice_idle_ns <= self.jiffies
        {
            limit = 1;
        }
        if self.in_driver >= limit {
            return None;
        }
        let own_limit = queue.injection.limit;
        // The list has the entity inserted last in front.
        let found = self.active_list.iter().rev().copied().find(|id| {
            let other = &self.queues[*id];
            let Some(next) = other.next.filter(|_| always || other.raising.factor > 1) else {
                return false;
            };
            // Not in service, it cannot be expired for a new budget: what it has left must do.
            if !self.covers_next(*id, requests) {
                return false;
            }
            let is_large = !self.rotational && requests[next].bio.sectors >= LARGE_SECTORS;
            match self.version {
                // Once a large request has lowered the limit, the next queue gets that of the
                // queue in service back.
                Version::V6_1 => {
                    limit = if is_large { limit.min(1) } else { own_limit };
                    self.in_driver < limit
                }
                Version::V6_12 => !is_large || self.in_driver == 0,
            }
        });
        self.injected |= found.is_some();
        found
    }
}
