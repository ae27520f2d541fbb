//! What holds of all queues of SFQ2 together, checked in debug builds.

use super::Queues;
use crate::{Queue, RequestId};

impl Queues {
    /// Checks that the same requests stand in the order of expiry and in the queues, and who stands in the rings.
    pub(in crate::sfq2) fn audit(&self, queue: &Queue) {
        self.expiry.audit(queue);
        assert_eq!(self.expiry.len(), self.len, "all expire");
        let mut placed = 0;
        for (place, process) in self.processes.iter().enumerate() {
            process.fifo.audit(&self.links);
            placed += process.fifo.len();
            let is_home = |id: RequestId| self.homes[id.index()] as usize == place;
            assert!(process.fifo.iter(&self.links).all(is_home), "a request is at home");
            assert!(process.fifo.is_empty() || process.is_in_ring, "who waits stands in a ring");
            assert!(process.fifo.len() <= process.held as usize, "what is queued is held");
        }
        for (class, ring) in self.rings.iter().enumerate() {
            ring.fifo.audit(&self.links);
            placed += ring.fifo.len();
            let waiting: usize = (self.processes.iter())
                .filter(|process| process.key.0 == class)
                .map(|process| process.fifo.len())
                .sum();
            assert_eq!(waiting, ring.sync_len, "requests of the processes of a class");
            let standing = (self.processes.iter())
                .filter(|process| process.key.0 == class && process.is_in_ring)
                .count();
            assert_eq!(ring.new.len() + ring.old.len(), standing, "each stands in one list");
        }
        assert_eq!(placed, self.len, "every request is in a queue");
        let holders = self.processes.iter().filter(|process| process.held > 0).count();
        assert_eq!(holders, self.tags.holders() as usize, "processes that hold requests");
        let held: u32 = self.processes.iter().map(|process| process.held).sum();
        assert_eq!(held, self.tags.synchronous(), "requests that processes hold");
    }
}

/// What breaks an account.
#[cfg(test)]
type Break = fn(&mut Queues);

/// What breaks an account, and what [`Queues::audit`] says of it.
#[cfg(test)]
pub(in crate::sfq2) const BREAKS: [(&str, Break); 8] = [
    ("all expire", |queues| queues.len += 1),
    ("a request is at home", |queues| queues.homes[0] += 1),
    ("who waits stands in a ring", |queues| queues.processes[0].is_in_ring = false),
    ("what is queued is held", |queues| queues.processes[0].held = 0),
    ("requests of the processes of a class", |queues| queues.rings[1].sync_len += 1),
    ("each stands in one list", |queues| queues.rings[1].old.push_back(0)),
    ("processes that hold requests", |queues| queues.tags.hold(&mut 0)),
    ("requests that processes hold", |queues| queues.tags.hold(&mut 1)),
];
