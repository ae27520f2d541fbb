//! Sectors that tasks wait for, and the promotion of asynchronous writes to them.
//!
//! A kernel's waits for write-back (`wait_on_page_writeback`) reach no block layer, and it has no way from a page to
//! its request. Here whoever keeps the pages says which sectors a task waits for. As long as it does, an
//! asynchronous write to one of them is synchronous for the scheduler: those that are queued now, those that lie
//! in a plug or wait for a request when they come, and those that are yet to be submitted.
//!
//! Source: see `sched`'s table of what becomes of such requests.

use super::state::State;
use super::{RequestQueue, Shared};
use process::Process;
use sched::{Bio, Direction, QuasiAsync, RequestId};
use std::ops::Range;
use std::rc::Rc;

/// What a task waits for.
struct Wait {
    number: u64,
    /// Sectors, in ascending order and apart.
    runs: Vec<Range<u64>>,
    waiter: Process,
}

/// All that tasks wait for now, the one first that began first.
#[derive(Default)]
pub(super) struct Waits {
    list: Vec<Wait>,
    begun: u64,
    /// Requests promoted so far.
    promoted: u64,
}

impl Waits {
    /// Who began first to wait for a sector of the request.
    fn waiter_for(&self, bio: &Bio) -> Option<Process> {
        let touches = |wait: &&Wait| {
            let next = wait.runs.partition_point(|run| run.end <= bio.sector);
            wait.runs.get(next).is_some_and(|run| run.start < bio.end())
        };
        self.list.iter().find(touches).map(|wait| wait.waiter)
    }
}

/// A task waits for sectors as long as this lives.
#[must_use]
pub struct Awaited {
    queue: Rc<Shared>,
    number: u64,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let waits = &mut self.queue.state.borrow_mut().waits;
        waits.list.retain(|wait| wait.number != self.number);
    }
}

impl RequestQueue {
    /// What becomes of asynchronous requests that a task has begun to wait for.
    pub fn quasi_async(&self) -> &'static QuasiAsync {
        self.elevator().quasi_async()
    }

    /// Requests that were promoted because a task waited for them.
    pub fn promoted_requests(&self) -> u64 {
        self.0.state.borrow().waits.promoted
    }

    /// A task waits for writes to these sectors, which are in ascending order and apart, until what is returned is
    /// dropped. The caller asks [`RequestQueue::quasi_async`] first whether such writes are promoted.
    pub fn await_sectors(&self, runs: Vec<Range<u64>>, waiter: Process) -> Awaited {
        debug_assert!(
            runs.iter().all(|run| run.start < run.end)
                && runs.windows(2).all(|pair| pair[0].end <= pair[1].start),
            "runs of sectors are in order and apart"
        );
        let number = {
            let now_ns = self.0.sim.now();
            let state = &mut *self.0.state.borrow_mut();
            state.waits.begun += 1;
            let number = state.waits.begun;
            state.waits.list.push(Wait { number, runs, waiter });
            state.promote_queued(now_ns);
            state.run(now_ns);
            number
        };
        self.after_run();
        Awaited { queue: self.0.clone(), number }
    }
}

impl State {
    /// Promotes what is queued and waited for.
    fn promote_queued(&mut self, now_ns: u64) {
        let requests = &self.elevator.queue().requests;
        let is_queued = |id: &RequestId| !self.members[id.index()].is_empty();
        let all = (0..self.members.len() as u32).map(RequestId).filter(is_queued);
        let mut found: Vec<(u64, RequestId)> = all
            .filter(|id| self.waits.waiter_for(&requests[*id].bio).is_some())
            .map(|id| (requests[id].sector(), id))
            .collect();
        // As `fsync` would have sent them, which writes pages in order.
        found.sort_unstable();
        for (_, id) in found {
            self.promote_if_awaited(now_ns, id);
        }
    }

    /// Promotes a request if a task waits for one of its sectors; all of its bios go with it.
    pub(super) fn promote_if_awaited(&mut self, now_ns: u64, id: RequestId) {
        if self.waits.list.is_empty() {
            return;
        }
        let bio = self.elevator.queue().requests[id].bio;
        if bio.sync || bio.direction == Direction::Read {
            return;
        }
        let Some(waiter) = self.waits.waiter_for(&bio) else { return };
        if self.elevator.promote(now_ns, id, waiter) {
            self.waits.promoted += 1;
            // A synchronous bio lifts the plug of the queue; so does a task that waits for a page
            // (`sync_page` of 2.6.29).
            self.unplug_queue();
        }
    }
}
