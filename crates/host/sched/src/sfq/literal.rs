//! `sfq-literal`: the pseudo-code as it is printed, for the study of what follows from that.
//!
//! At a dispatch call with anything queued, with one set of counters for all queues:
//!
//! 1. If fewer than `sync_visits` process queues were selected since the async queue was, and there
//!    is a process queue, empty or not, the first one of the round is selected, and the call takes
//!    requests from it (rule 3).
//! 2. Otherwise the async queue is selected, empty or not, the count of selections begins at 0, and
//!    the call takes requests from it.
//! 3. Over and over: if the counters of reads and writes add up to `visit_requests`, both are
//!    zeroed and the call ends. If the queue has a read and the counter of reads is below
//!    `visit_reads`, the read is taken and counted, and the call ends. If it has a write and the
//!    counter of writes is below `visit_writes`, the write is taken and counted. If neither is so,
//!    the call ends: without this guard the original would never return.
//!
//! So a call ends after one read although the visit is not over, the next goes on with another
//! queue and the same counters; calls move nothing while requests are queued, and the device stands
//! idle until something else happens; and when only writes are left and one is counted, or only
//! reads and two are, nothing is moved any more until the starvation check. A removed orphan does
//! not use up a selection, as it does in print: it is gone at once. A forced call that moves
//! nothing goes on with all reads, then all writes, in the order of insertion.

use super::queues::{ASYNC, Members, Place, Queues};
use super::{Limits, Policy};
use crate::{Direction, Queue};
use settings::Settings;

pub(super) struct Literal {
    limits: Limits,
    sync_selections: u32,
    reads: u32,
    writes: u32,
}

impl Literal {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { limits: Limits::new(settings), sync_selections: 0, reads: 0, writes: 0 }
    }

    fn select(&mut self, queues: &mut Queues) -> Place {
        queues.end_turn();
        let selected = if self.sync_selections < self.limits.sync_visits {
            queues.first_of_round()
        } else {
            None
        };
        // The visit is kept for the next call, which goes on with the counters and not with the
        // queue.
        queues.visited = selected;
        self.sync_selections = selected.map_or(0, |_| self.sync_selections + 1);
        selected.unwrap_or(ASYNC)
    }
}

impl Policy for Literal {
    const MEMBERS: Members = Members::All;

    fn dispatch(&mut self, queues: &mut Queues, queue: &mut Queue) -> u32 {
        let place = self.select(queues);
        let mut moved = 0;
        loop {
            // The printed algorithm zeroes both counters and returns before it takes anything.
            if self.reads + self.writes >= self.limits.visit_requests {
                (self.reads, self.writes) = (0, 0);
                return moved;
            }
            if self.reads < self.limits.visit_reads
                && let Some(id) = queues.front(place, Direction::Read, queue)
            {
                queues.send(id, queue);
                self.reads += 1;
                return moved + 1;
            }
            if self.writes < self.limits.visit_writes
                && let Some(id) = queues.front(place, Direction::Write, queue)
            {
                queues.send(id, queue);
                self.writes += 1;
                moved += 1;
            } else {
                return moved;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bio, Class, Direction, Elevator, ElevatorOptions, RequestId, find_scheduler};
    use std::collections::BTreeMap;

    /// G-SFQ-9: what each call moves, and where it stops for ever.
    #[test]
    fn the_literal_version_rests_on_requests_and_then_stops() {
        let entry = find_scheduler("sfq-literal").expect("registered");
        let settings = entry.settings(&BTreeMap::new()).expect("defaults");
        let options = ElevatorOptions { merging: false, ..ElevatorOptions::default() };
        let mut elevator = Elevator::new(entry, &settings, options);
        let mut names: BTreeMap<RequestId, String> = BTreeMap::new();
        let kinds = [("r1", Direction::Read), ("r2", Direction::Read), ("w1", Direction::Write)];
        let mut add = |name: String, pid: u32, direction: Direction, sync: bool| {
            let bio = Bio {
                pid,
                direction,
                sync,
                noidle: false,
                class: Class::default(),
                level: 4,
                sector: 0,
                sectors: 8,
            };
            names.insert(elevator.insert(0, bio), name);
        };
        for pid in 1..=3 {
            for (kind, direction) in kinds {
                add(format!("P{pid}{kind}"), pid, direction, true);
            }
        }
        add("Aw1".to_owned(), 9, Direction::Write, false);
        add("Aw2".to_owned(), 9, Direction::Write, false);
        let moved: Vec<&str> =
            (0..40).map(|_| elevator.next(0).map_or("-", |id| names[&id].as_str())).collect();
        let calls = "P1r1 P2r1 P3w1 Aw1 P1r2 P2r2 - Aw2 - - P3r1 - - - P3r2 - P1w1";
        let calls: Vec<&str> = calls.split(' ').collect();
        assert_eq!(moved[..calls.len()], calls);
        assert!(moved[calls.len()..].iter().all(|name| *name == "-"));
        assert_eq!(elevator.waiting(), 1);
        assert_eq!(elevator.timer_ns(), Some(5_100_000_000));
        elevator.timer(5_100_000_000);
        assert_eq!(elevator.next(5_100_000_000).map(|id| names[&id].as_str()), Some("P2w1"));
    }
}
