//! Queues that wake each other: a process whose requests follow those of another is its woken one.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_check_waker`, `bfq_waker_bfqq`.

use super::Bfq;
use crate::queue_id::QueueId;

/// Most time between the completion of the waker and the request of the woken.
// `bfq_check_waker` has the number: what comes later is not caused by that completion.
const SOON_NS: u64 = 4_000_000;

/// Detections that make a waker.
// Fewer happen by chance: any queue may be the one that completed last.
const DETECTIONS: u32 = 3;

impl Bfq {
    /// A process with no other request issues one: was it woken by the queue that completed last?
    pub(super) fn check_waker(&mut self, id: QueueId) {
        let Some(last) = self.last_completed.filter(|last| *last != id) else { return };
        let queue = &mut self.queues[id];
        // A process that goes on at once waits for its own requests and not for another process.
        if queue.flags.short_think_time || self.now_ns - self.last_completion_ns >= SOON_NS {
            return;
        }
        // About a second by default: three detections far apart are chance.
        let span_ns = 128 * self.tunables.slice_idle_ns;
        let wakers = &mut queue.wakers;
        if wakers.candidate != Some(last) || self.now_ns > wakers.detection_start_ns + span_ns {
            wakers.candidate = Some(last);
            wakers.detections = 1;
            wakers.detection_start_ns = self.now_ns;
        } else {
            wakers.detections += 1;
        }
        if wakers.detections == DETECTIONS {
            wakers.candidate = None;
            self.set_waker(id, Some(last));
        }
    }

    /// Makes `waker` the waker of a queue, and lists the queue first among those it wakes.
    pub(super) fn set_waker(&mut self, id: QueueId, waker: Option<QueueId>) {
        // The list of the waker before, which is found through the field that changes now.
        self.leave_woken_list(id);
        self.queues[id].wakers.waker = waker;
        if let Some(waker) = waker {
            self.queues[waker].wakers.woken.insert(0, id);
            self.queues[id].wakers.is_listed = true;
        }
    }

    fn leave_woken_list(&mut self, id: QueueId) {
        if !std::mem::take(&mut self.queues[id].wakers.is_listed) {
            return;
        }
        if let Some(waker) = self.queues[id].wakers.waker {
            self.queues[waker].wakers.woken.retain(|other| *other != id);
        }
    }

    /// A queue ends: it wakes no other and is woken by none.
    pub(super) fn end_waking(&mut self, id: QueueId) {
        self.leave_woken_list(id);
        // Numbers of queues are used again: none may be left that names this one.
        while let Some(woken) = self.queues[id].wakers.woken.pop() {
            let wakers = &mut self.queues[woken].wakers;
            wakers.waker = None;
            wakers.is_listed = false;
        }
        if self.last_completed == Some(id) {
            self.last_completed = None;
        }
    }

    /// The waker of a queue that is about to be split, if that will live on.
    pub(super) fn lasting_waker(&self, id: QueueId) -> Option<QueueId> {
        let waker = self.queues[id].wakers.waker?;
        let mut next = self.queues[id].merges_into;
        while let Some(other) = next {
            if other == waker {
                // With the reference of this process alone it ends with the split.
                return (self.queues[waker].process_refs() != 1).then_some(waker);
            }
            next = self.queues[other].merges_into;
        }
        (self.queues[waker].process_refs() != 0).then_some(waker)
    }
}
