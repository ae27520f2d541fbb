//! `sfq`: the selected queue is visited for up to three requests before the next is selected.
//!
//! At a dispatch call with anything queued:
//!
//! 1. If a visit is under way and it may take another request (rule 3), it takes it.
//! 2. Otherwise the visit is over, and a queue that has requests is selected and visited. Visits to
//!    process queues since the last one to the async queue are counted.
//!    - If no process queue has requests: the async queue, and the count begins at 0.
//!    - If some have, and the count is below `sync_visits`: the first of them in the round.
//!    - If the count has got there and the async queue has requests: the async queue, and the count
//!      begins at 0.
//!    - If the count has got there and the async queue has none: the count begins at 0, and the
//!      first process queue of the round is visited, and counted.
//! 3. A visit takes at most `visit_requests` requests. A read is taken while fewer than
//!    `visit_reads` were; else a write while fewer than `visit_writes` were. What is left of the
//!    visit is filled: with `fill=both` by a write, else a read; with `writes` by writes only; with
//!    `none` by nothing. In each kind the oldest goes first.
//!
//! Each call takes one request, so that the starvation check can cut in and a request that arrives
//! for the visited queue before the visit is over is used by it. A visit thus stays open after its
//! queue has run empty until a call takes from another queue. It ends when its queue is removed.
//!
//! If all that the async queue has waits for zones, the visit to it is over, and the next queue is selected in the same
//! call; if no process has requests, nothing is taken.
//!
//! A queue that runs empty gives up its place in the round. With its next request it is as new there
//! as any other. So between two visits to a queue that stays busy no other is visited twice, and
//! none that became busy after the end of the first of the two.

use super::queues::{ASYNC, Members, Place, Queues};
use super::{Limits, Policy};
use crate::{Direction, Queue, RequestId};
use settings::Settings;

/// What may use the requests that the other kind leaves.
#[derive(Clone, Copy)]
enum Fill {
    Both,
    Writes,
    None,
}

pub(super) struct Visits {
    limits: Limits,
    fill: Fill,
    /// Visits to process queues since the last one to the async queue.
    since_async: u32,
    /// Requests of the visit under way, reads and writes.
    pub(super) taken: [u32; 2],
}

impl Visits {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            limits: Limits::new(settings),
            fill: match settings.word("fill") {
                "writes" => Fill::Writes,
                "none" => Fill::None,
                _ => Fill::Both,
            },
            since_async: 0,
            taken: [0, 0],
        }
    }

    /// The next request of a visit to a queue; none if the visit is over.
    fn next(&self, queues: &Queues, place: Place, queue: &Queue) -> Option<RequestId> {
        let [reads, writes] = self.taken;
        if reads + writes >= self.limits.visit_requests {
            return None;
        }
        // Both are asked for before the share decides: the oldest of each kind, whatever it is.
        let read = queues.front(place, Direction::Read, queue);
        let write = queues.front(place, Direction::Write, queue);
        let in_share = read
            .filter(|_| reads < self.limits.visit_reads)
            .or(write.filter(|_| writes < self.limits.visit_writes));
        // A read that does not fit into its share may still take what writes leave.
        in_share.or(match self.fill {
            Fill::Both => write.or(read),
            Fill::Writes => write,
            Fill::None => None,
        })
    }

    fn select(&mut self, queues: &mut Queues) -> Place {
        queues.end_turn();
        // The count goes on only with process queues; the async queue begins it anew.
        let is_async_turn = self.since_async >= self.limits.sync_visits;
        if is_async_turn || queues.sync_len() == 0 {
            self.since_async = 0;
        }
        if queues.sync_len() == 0 || (is_async_turn && queues.async_len() > 0) {
            return ASYNC;
        }
        self.since_async += 1;
        queues.first_of_round().expect("a process queue has requests, and is in the round")
    }
}

impl Visits {
    /// Begins the next visit, and returns its first request.
    fn visit(&mut self, queues: &mut Queues, queue: &Queue) -> Option<RequestId> {
        let place = self.select(queues);
        queues.visited = Some(place);
        self.taken = [0, 0];
        self.next(queues, place, queue)
    }
}

impl Policy for Visits {
    const MEMBERS: Members = Members::Busy;

    fn dispatch(&mut self, queues: &mut Queues, queue: &mut Queue) -> u32 {
        let mut next = queues.visited.and_then(|place| self.next(queues, place, queue));
        if next.is_none() {
            next = self.visit(queues, queue);
        }
        // All asynchronous writes wait for their zones (`sfq_choose` of the module).
        if next.is_none() && queues.sync_len() > 0 && queues.visited == Some(ASYNC) {
            next = self.visit(queues, queue);
        }
        let Some(id) = next else { return 0 };
        self.taken[queue.requests[id].bio.direction as usize] += 1;
        queues.send(id, queue);
        1
    }
}
