//! Weight raising: queues of interactive and soft real-time processes get a large weight for a while.
//!
//! A queue is judged when it becomes busy. After two seconds without I/O it counts as interactive, and
//! its weight times 30 holds as long as a large program takes to start on this device. A queue that
//! comes back no earlier than a stream of 7000 sectors a second would counts as soft real time: its
//! weight times 3000 holds for 300 ms, and is renewed each time.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_bfqq_handle_idle_busy_switch`,
//! `bfq_update_bfqq_wr_on_rq_arrival`, `bfq_update_wr_data`, `bfq_wr_duration`.

use super::{Bfq, Expiration};
use crate::Requests;
use crate::queue_id::QueueId;

/// Factor of an interactive queue (`bfq_wr_coeff`).
pub(super) const INTERACTIVE: u32 = 30;

/// Factor of a soft real-time queue (`BFQ_SOFTRT_WEIGHT_FACTOR`).
// A hundred times more: a program that starts must not make a player stutter.
const SOFT_REAL_TIME: u32 = INTERACTIVE * 100;

/// Sectors a second of a soft real-time process (`bfq_wr_max_softrt_rate`).
// 3.6 MB/s: what the playback or the recording of compressed video takes.
const SOFT_REAL_TIME_RATE: u64 = 7000;

/// Sectors after which an interactive queue is no longer raised (`max_service_from_wr`).
// A large program reads some 110000 while it starts. Whoever takes more copies a file.
const MAX_SERVICE: i64 = 120_000;

/// The weight of a process that asked for none.
// `40` in `bfq_bfqq_handle_idle_busy_switch`: whoever has chosen a weight gets that and no raised one.
const DEFAULT_WEIGHT: u32 = 40;

/// What becomes of a queue that becomes busy.
#[expect(clippy::struct_excessive_bools, reason = "four judgements, each by its own name")]
#[derive(Clone, Copy)]
struct Judged {
    interactive: bool,
    in_burst: bool,
    soft_real_time: bool,
    deserves: bool,
}

impl Bfq {
    pub(super) fn soft_real_time_jiffies(&self) -> u64 {
        self.clock.from_milliseconds(300)
    }

    fn two_seconds(&self) -> u64 {
        self.clock.from_milliseconds(2000)
    }

    fn is_soft_real_time(&self, id: QueueId) -> bool {
        self.queues[id].raising.max_time == self.soft_real_time_jiffies()
    }

    /// How long an interactive queue is raised: longer on a slow device.
    pub(super) fn raising_jiffies(&self) -> u64 {
        let (reference, jiffies) = if self.rotational {
            (super::peak_rate::REFERENCE[0], self.clock.from_milliseconds(7000))
        } else {
            (super::peak_rate::REFERENCE[1], self.clock.from_milliseconds(2500))
        };
        // The reference device took that long to start a large program; this one as much longer as it is slower.
        let duration = u64::from(reference) * jiffies / u64::from(self.rate.peak);
        // Bounds of `bfq_wr_duration`: 23 s were seen on the slowest disk, and less than 3 s are too short anywhere.
        let [shortest, longest] = [3000, 25_000].map(|ms| self.clock.from_milliseconds(ms));
        duration.clamp(shortest, longest)
    }

    /// `switch_back_to_interactive_wr`.
    pub(super) fn switch_to_interactive(&mut self, id: QueueId) {
        let max_time = self.raising_jiffies();
        let raising = &mut self.queues[id].raising;
        raising.factor = INTERACTIVE;
        raising.max_time = max_time;
        // The time in soft real time counts, too: the period is not begun again.
        raising.last_start_or_end = raising.interactive_start;
    }

    /// A queue becomes busy; returns whether it counts as interactive.
    pub(super) fn switch_to_busy(
        &mut self,
        id: QueueId,
        is_owned: bool,
        old_factor: u32,
        requests: &Requests,
    ) -> bool {
        let (jiffies, two_seconds) = (self.jiffies, self.two_seconds());
        let queue = &self.queues[id];
        let idle_long = queue.dispatched == 0 && queue.budget_timeout + two_seconds < jiffies;
        // Three idle times: somewhat later than the idling would have lasted still counts as its own wait.
        let in_time = self.now_ns <= queue.think_time.last_end_ns + 3 * self.tunables.slice_idle_ns;
        let has_default_weight = queue.entity.new_weight == DEFAULT_WEIGHT;
        let in_burst = queue.flags.in_large_burst;
        // Requests in flight would mean that it did not wait for its last batch, as such processes do.
        let soft_real_time = !queue.is_totally_seeky()
            && !in_burst
            && queue.raising.soft_real_time_next < jiffies
            && queue.dispatched == 0
            && has_default_weight;
        let interactive = !in_burst && idle_long && has_default_weight;
        let deserves = self.tunables.low_latency
            && (queue.raising.factor > 1
                || (queue.is_sync && is_owned && (interactive || soft_real_time)));
        // After the judgements: it resets the service.
        let wants_to_preempt = self.budget_of_activation(id, in_time, requests);
        let ten_seconds = self.clock.from_milliseconds(10_000);
        let queue = &mut self.queues[id];
        // Ten seconds idle: the burst that it was part of is over.
        if !queue.flags.just_created && idle_long && queue.budget_timeout + ten_seconds < jiffies {
            queue.flags.in_large_burst = false;
            self.leave_burst_list(id);
        }
        self.queues[id].flags.just_created = false;
        // Not after a split, which gave the queue the raising that was saved.
        if self.tunables.low_latency && self.queues[id].split + two_seconds < jiffies {
            let judged = Judged { interactive, in_burst, soft_real_time, deserves };
            self.raise_on_arrival(id, old_factor, judged);
            let queue = &mut self.queues[id];
            if queue.raising.factor != old_factor {
                queue.entity.has_new_priority = true;
            }
        }
        let queue = &mut self.queues[id];
        queue.last_busy = jiffies;
        queue.service_since_busy = 0;
        queue.flags.soft_real_time_update = false;
        self.become_busy(id);
        if let Some(served) = self.in_service {
            let factor = self.queues[served].raising.factor;
            if ((wants_to_preempt && self.queues[id].raising.factor >= factor)
                || self.is_of_higher_class_or_weight(id, served)
                || !self.is_better_to_idle(served))
                // Preempted for the same queue, a turn would end for nothing.
                && self.next_in_service != self.in_service_entity
            {
                self.expire(served, false, Expiration::Preempted, requests);
            }
        }
        interactive
    }

    fn is_of_higher_class_or_weight(&self, id: QueueId, served: QueueId) -> bool {
        let (queue, served) = (&self.queues[id], &self.queues[served]);
        queue.class < served.class || queue.entity.weight > served.entity.weight
    }

    fn raise_on_arrival(&mut self, id: QueueId, old_factor: u32, judged: Judged) {
        let (jiffies, duration) = (self.jiffies, self.raising_jiffies());
        let (soft_time, min_budget) = (self.soft_real_time_jiffies(), self.min_budget());
        let queue = &mut self.queues[id];
        let raising = &mut queue.raising;
        if old_factor == 1 && judged.deserves {
            if judged.interactive {
                raising.service = 0;
                raising.factor = INTERACTIVE;
                raising.max_time = duration;
            } else {
                raising.interactive_start = 0;
                raising.factor = SOFT_REAL_TIME;
                raising.max_time = soft_time;
            }
            // So that the queue does not keep the device for long the first time.
            queue.entity.budget = queue.entity.budget.min(2 * min_budget);
        } else if old_factor > 1 {
            if judged.interactive {
                raising.factor = INTERACTIVE;
                raising.max_time = duration;
            } else if judged.in_burst {
                raising.factor = 1;
            } else if judged.soft_real_time {
                if raising.max_time != soft_time {
                    // Where the interactive period goes on when soft real time ends.
                    raising.interactive_start = raising.last_start_or_end;
                    raising.max_time = soft_time;
                    raising.factor = SOFT_REAL_TIME;
                }
                raising.last_start_or_end = jiffies;
            }
        }
    }

    /// An asynchronous request for a busy queue that was not raised for half a second.
    pub(super) fn raise_async(&mut self, id: QueueId) {
        let half_second = self.clock.from_milliseconds(500);
        if self.queues[id].raising.last_start_or_end + half_second >= self.jiffies {
            return;
        }
        let max_time = self.raising_jiffies();
        let queue = &mut self.queues[id];
        queue.raising.factor = INTERACTIVE;
        queue.raising.max_time = max_time;
        queue.entity.has_new_priority = true;
        self.raised_busy += 1;
    }

    /// `bfq_bfqq_end_wr`.
    fn end_raising(&mut self, id: QueueId) {
        let was_soft = self.is_soft_real_time(id);
        let queue = &mut self.queues[id];
        // An interactive start says nothing of a rate, so soft real time may be judged from now on.
        if !was_soft {
            queue.raising.soft_real_time_next = self.jiffies;
        }
        // Before the factor changes: the count is of busy queues whose factor is above 1.
        if queue.flags.busy {
            self.raised_busy -= 1;
        }
        queue.raising.factor = 1;
        queue.raising.max_time = 0;
        queue.raising.last_start_or_end = self.jiffies;
        queue.entity.has_new_priority = true;
    }

    /// True if the interactive period that soft real time interrupted is over, too.
    fn interactive_is_over(&self, id: QueueId) -> bool {
        self.queues[id].raising.interactive_start + self.raising_jiffies() < self.jiffies
    }

    /// Ends soft real time, back to the interactive period if any of that is left.
    fn end_soft_real_time(&mut self, id: QueueId) {
        if self.interactive_is_over(id) {
            self.end_raising(id);
        } else {
            self.switch_to_interactive(id);
            self.queues[id].entity.has_new_priority = true;
        }
    }

    /// A raised queue that does nothing but seek is no soft real-time process.
    pub(super) fn end_raising_of_seeks(&mut self, id: QueueId) {
        let queue = &self.queues[id];
        if queue.raising.factor > 1 && self.is_soft_real_time(id) && queue.is_totally_seeky() {
            self.end_soft_real_time(id);
        }
    }

    /// The queue in service has dispatched a request (`bfq_update_wr_data`).
    pub(super) fn update_raising(&mut self, id: QueueId) {
        if self.queues[id].raising.factor > 1 {
            let raising = &self.queues[id].raising;
            if self.queues[id].flags.in_large_burst {
                self.end_raising(id);
            } else if raising.last_start_or_end + raising.max_time < self.jiffies {
                if self.is_soft_real_time(id) {
                    self.end_soft_real_time(id);
                } else {
                    self.end_raising(id);
                }
            }
            let raising = &self.queues[id].raising;
            // Looked at anew: soft real time may just have become interactive.
            if raising.factor > 1 && !self.is_soft_real_time(id) && raising.service > MAX_SERVICE {
                self.end_raising(id);
            }
        }
        // The weight alone: a change of class waits until the queue is scheduled again.
        let queue = &self.queues[id];
        if (queue.entity.weight > queue.entity.own_weight) != (queue.raising.factor > 1) {
            self.update_priority(queue.class, id, false);
        }
    }

    /// A raised queue in soft real time goes in service: the time it waited does not count.
    pub(super) fn stretch_soft_real_time(&mut self, id: QueueId) {
        let jiffies = self.jiffies;
        let is_soft = self.is_soft_real_time(id);
        let queue = &mut self.queues[id];
        let raising = &mut queue.raising;
        if raising.last_start_or_end < jiffies
            && raising.factor > 1
            && is_soft
            && queue.budget_timeout < jiffies
        {
            if queue.budget_timeout > raising.last_start_or_end {
                raising.last_start_or_end += jiffies - queue.budget_timeout;
            } else {
                raising.last_start_or_end = jiffies;
            }
        }
    }

    /// Factor of the time of a turn (`bfq_set_budget_timeout`).
    pub(super) fn turn_factor(&self, id: QueueId) -> u64 {
        let entity = &self.queues[id].entity;
        // Raised 30 times, a queue gets 30 times as long: its program is to start at once. Soft real time has
        // little to do, and would hold others up for minutes.
        if self.is_soft_real_time(id) { 1 } else { u64::from(entity.weight / entity.own_weight) }
    }

    /// `bfq_bfqq_softrt_next_start`.
    pub(super) fn next_soft_real_time(&mut self, id: QueueId) {
        let hz = u64::from(self.clock.hz);
        let queue = &self.queues[id];
        let at_rate = queue.last_busy + hz * queue.service_since_busy as u64 / SOFT_REAL_TIME_RATE;
        // At least the idle time and four jiffies: a greedy process comes back sooner. `nsecs_to_jiffies` rounds
        // down.
        let idle = self.jiffies + self.tunables.slice_idle_ns * hz / 1_000_000_000 + 4;
        let next = queue.raising.soft_real_time_next.max(at_rate).max(idle);
        self.queues[id].raising.soft_real_time_next = next;
    }
}
