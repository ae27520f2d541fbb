//! The order of expiry of all queued requests, whatever queue they stand in.

use super::MILLISECOND_NS;
use crate::{Direction, Links, List, Queue, RequestId};
use settings::Settings;

/// Queued requests by expiry, reads and writes apart.
///
/// Two lists are enough: requests of one direction wait equally long, so they expire as they came. The kernel
/// module has trees (`by_expiry`), since its tunables may change while requests wait.
pub(super) struct Expiry {
    lists: [List; 2],
    links: Links,
    after_ns: [u64; 2],
}

impl Expiry {
    pub(super) fn new(settings: &Settings) -> Self {
        let time_ns = |name: &str| u64::from(settings.integer(name)) * MILLISECOND_NS;
        Self {
            lists: [List::default(); 2],
            links: Links::default(),
            after_ns: [time_ns("read_expire"), time_ns("write_expire")],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lists.iter().map(List::len).sum()
    }

    pub(super) fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let direction = queue.requests[id].bio.direction as usize;
        queue.requests[id].deadline = now_ns + self.after_ns[direction];
        self.lists[direction].push_back(&mut self.links, id);
    }

    pub(super) fn remove(&mut self, id: RequestId, direction: Direction) {
        self.lists[direction as usize].remove(&mut self.links, id);
    }

    /// The queued request that expires first; of two alike the read.
    pub(super) fn first(&self, queue: &Queue) -> Option<RequestId> {
        // Reads stand in front, and of equal ones `min_by_key` takes the first.
        let fronts = self.lists.iter().filter_map(List::front);
        fronts.min_by_key(|id| queue.requests[*id].deadline)
    }

    /// `absorbed` becomes part of `survivor`: true if it was to expire earlier, which the survivor takes over.
    pub(super) fn inherit(
        &mut self,
        survivor: RequestId,
        absorbed: RequestId,
        queue: &mut Queue,
    ) -> bool {
        let earlier = queue.requests[absorbed].deadline;
        if earlier >= queue.requests[survivor].deadline {
            return false;
        }
        queue.requests[survivor].deadline = earlier;
        // Only requests of one direction are joined, so both stand in the same list.
        let list = &mut self.lists[queue.requests[absorbed].bio.direction as usize];
        list.remove(&mut self.links, survivor);
        // Behind all that expire at the same time, as a plug brings them: `rb_add_cached` of the module puts it there.
        let mut place = self.links.next(absorbed);
        while let Some(other) = place.filter(|other| queue.requests[*other].deadline <= earlier) {
            place = self.links.next(other);
        }
        match place {
            Some(later) => list.insert_before(&mut self.links, later, survivor),
            None => list.push_back(&mut self.links, survivor),
        }
        true
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.links.bytes()
    }

    /// Checks that each list is in the order of its expiry.
    pub(super) fn audit(&self, queue: &Queue) {
        for list in &self.lists {
            list.audit(&self.links);
            let deadlines = list.iter(&self.links).map(|id| queue.requests[id].deadline);
            assert!(deadlines.is_sorted(), "requests are in the order of their expiry");
        }
    }
}
