//! Large bursts: many queues created together, as by a program that starts, get no raised weight.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_handle_burst`, `bfq_add_to_burst`,
//! `bfq_reset_burst_list`.

use super::Bfq;
use crate::queue_id::QueueId;

/// Queues of a large burst (`bfq_large_burst_thresh`).
// The start of an application creates fewer; services that fork at boot, or `git grep`, create more.
const LARGE: u32 = 8;

/// Queues that were created shortly after each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    /// Queues of a burst that is not large yet.
    pub list: Vec<QueueId>,
    pub size: u32,
    pub is_large: bool,
    last: u64,
}

impl Bfq {
    /// Longest time between two queues of a burst, in jiffies (`bfq_burst_interval`).
    pub(super) fn burst_jiffies(&self) -> u64 {
        self.clock.from_milliseconds(180)
    }

    /// A queue has just been created and gets its first request.
    pub(super) fn handle_burst(&mut self, id: QueueId) {
        let queue = &self.queues[id];
        // A queue that a split has just created is no new process.
        let split_until = queue.split + self.clock.from_milliseconds(10);
        if queue.in_burst_list || queue.flags.in_large_burst || split_until >= self.jiffies {
            return;
        }
        if self.burst.last + self.burst_jiffies() < self.jiffies {
            self.burst.is_large = false;
            self.restart_burst(id);
        } else if self.burst.is_large {
            self.queues[id].flags.in_large_burst = true;
        } else {
            self.add_to_burst(id);
        }
        // Each member prolongs the burst: 180 ms count from the last one and not from the first.
        self.burst.last = self.jiffies;
    }

    fn restart_burst(&mut self, id: QueueId) {
        self.empty_burst_list();
        // A burst begins on an idle device: a queue that comes to others does not begin one.
        self.burst.size = u32::from(self.busy_queues() == 0);
        if self.burst.size == 1 {
            self.join_burst_list(id);
        }
    }

    fn add_to_burst(&mut self, id: QueueId) {
        self.burst.size += 1;
        if self.burst.size != LARGE {
            self.join_burst_list(id);
            return;
        }
        // Now known for what they are: also those that came before the eighth.
        self.burst.is_large = true;
        for place in 0..self.burst.list.len() {
            let member = self.burst.list[place];
            self.queues[member].flags.in_large_burst = true;
        }
        self.queues[id].flags.in_large_burst = true;
        // Later ones are marked as they come, so the list has done its work.
        self.empty_burst_list();
    }

    fn empty_burst_list(&mut self) {
        // The size is left to the callers: `adopt` asks whether it is above 0.
        while let Some(member) = self.burst.list.pop() {
            self.queues[member].in_burst_list = false;
        }
    }

    pub(super) fn join_burst_list(&mut self, id: QueueId) {
        debug_assert!(!self.queues[id].in_burst_list, "a queue is in the list once");
        self.queues[id].in_burst_list = true;
        self.burst.list.push(id);
    }

    pub(super) fn leave_burst_list(&mut self, id: QueueId) {
        if std::mem::take(&mut self.queues[id].in_burst_list) {
            self.burst.list.retain(|other| *other != id);
        }
    }
}
