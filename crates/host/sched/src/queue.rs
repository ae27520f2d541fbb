//! The part of a request queue that schedulers share: requests, dispatch list, merge caches.

use crate::list::{Links, List};
use crate::{Clock, QueueMap, RequestId, Requests};
use std::collections::VecDeque;

/// Chains of a queue at the beginning (`ELV_HASH_ENTRIES`, 1 << 6, of `block/elevator.c`).
const CHAINS: usize = 1 << 6;

/// What a scheduler may see and do of its request queue.
///
/// Models the fields of `struct request_queue` that `block/elevator.c` (2.6.29 to 3.4) works on.
#[derive(Clone, Debug)]
pub struct Queue {
    /// All requests of the queue.
    pub requests: Requests,
    /// The kernel's tick, by which schedulers measure their times.
    pub clock: Clock,
    /// False on flash: the queue flag `QUEUE_FLAG_NONROT`.
    pub rotational: bool,
    /// Limit of queued requests, which asynchronous depth limits are a share of (`nr_requests`).
    pub nr_requests: u32,
    /// Which hardware queue a process uses; one, unless schedulers of several run over several.
    pub map: QueueMap,
    /// Requests the driver holds.
    pub in_flight: u32,
    /// Set by a scheduler to have the queue run as soon as the current event is over
    /// (`kblockd_schedule_work`, `__blk_run_queue`).
    pub run_soon: bool,
    pub(crate) last_merge: Option<RequestId>,
    /// Chains of requests by the hash of the sector at which they end, the latest first. Their number is a power
    /// of two, and grows with the requests: a chain has few.
    by_end: Vec<List>,
    end_links: Links,
    hashed_under: Vec<u64>,
    dispatch: VecDeque<RequestId>,
    /// End of the request that the driver took last, where dispatch-sort wraps (`end_sector`).
    pub(crate) end_sector: u64,
    boundary: Option<RequestId>,
}

impl Queue {
    pub(crate) fn new(clock: Clock, rotational: bool, nr_requests: u32) -> Self {
        Self {
            requests: Requests::default(),
            clock,
            rotational,
            nr_requests,
            map: QueueMap::ONE,
            in_flight: 0,
            run_soon: false,
            last_merge: None,
            by_end: vec![List::default(); CHAINS],
            end_links: Links::default(),
            hashed_under: Vec::new(),
            dispatch: VecDeque::new(),
            end_sector: 0,
            boundary: None,
        }
    }

    /// The kernel's count of jiffies at a time of the simulation.
    #[inline]
    pub fn jiffies(&self, now_ns: u64) -> u64 {
        self.clock.jiffies(now_ns)
    }

    /// Sector after the last request the driver took.
    pub fn end_sector(&self) -> u64 {
        self.end_sector
    }

    /// Puts the head position elsewhere, for experiments that begin with a head that has moved.
    pub fn set_end_sector(&mut self, sector: u64) {
        self.end_sector = sector;
    }

    /// Appends a request to the dispatch list (`elv_dispatch_add_tail`).
    pub fn dispatch_tail(&mut self, id: RequestId) {
        self.leave_scheduler(id);
        // `elv_dispatch_add_tail` moves the boundary of the next sort to the request it appends.
        self.end_sector = self.requests[id].end();
        self.boundary = Some(id);
        self.dispatch.push_back(id);
    }

    /// Puts a request before all others of the dispatch list.
    pub fn dispatch_head(&mut self, id: RequestId) {
        self.leave_scheduler(id);
        self.boundary = Some(id);
        self.dispatch.push_front(id);
    }

    /// Inserts a request into the dispatch list in the order of a one-way sweep that began at the
    /// last request taken (`elv_dispatch_sort`). It never passes one of the other direction.
    pub fn dispatch_sort(&mut self, id: RequestId) {
        self.leave_scheduler(id);
        let request = &self.requests[id];
        let (sector, direction) = (request.sector(), request.bio.direction);
        let wraps = sector < self.end_sector;
        let stays_behind = |place: &&RequestId| {
            let other = &self.requests[**place];
            let other_wraps = other.sector() < self.end_sector;
            // The four reasons for which `elv_dispatch_sort` stops on its way from the tail.
            other.bio.direction != direction
                || other.started
                || (wraps && !other_wraps)
                || (wraps == other_wraps && sector >= other.sector())
        };
        let behind = self.dispatch.iter().rev().position(|place| stays_behind(&place));
        let place = behind.map_or(0, |from_tail| self.dispatch.len() - from_tail);
        self.dispatch.insert(place, id);
    }

    /// Requests on the dispatch list, first to last.
    pub fn dispatch_list(&self) -> impl Iterator<Item = RequestId> {
        self.dispatch.iter().copied()
    }

    pub(crate) fn dispatch_is_empty(&self) -> bool {
        self.dispatch.is_empty()
    }

    /// The driver takes the head of the dispatch list.
    pub(crate) fn take(&mut self) -> Option<RequestId> {
        let id = self.dispatch.pop_front()?;
        debug_assert!(!self.requests[id].sorted, "no bio is merged with what the driver takes");
        self.requests[id].started = true;
        // `blk_peek_request`: with a boundary set, only that request moves the position.
        if self.boundary.is_none_or(|boundary| boundary == id) {
            self.end_sector = self.requests[id].end();
            self.boundary = None;
        }
        self.in_flight += 1;
        Some(id)
    }

    /// The driver gives a request back, which it will take again before all others or after them.
    pub(crate) fn give_back(&mut self, id: RequestId, at_head: bool) {
        debug_assert!(self.requests[id].started, "the driver gives back what it has");
        self.requests[id].started = false;
        self.in_flight -= 1;
        // It has left the scheduler and the merge caches when it was dispatched.
        if at_head {
            self.dispatch_head(id);
        } else {
            self.leave_scheduler(id);
            self.dispatch.push_back(id);
        }
    }

    /// Checks the requests, the dispatch list and the hash by last sector.
    ///
    /// # Panics
    /// A rule is broken.
    pub(crate) fn audit(&self) {
        self.requests.audit(self.in_flight);
        for id in self.dispatch_list() {
            let request = &self.requests[id];
            assert!(!request.sorted, "no bio is merged with a dispatched request");
            assert!(!request.started, "a dispatched request is not with the driver");
        }
        let is_dispatched = |id: RequestId| self.dispatch.contains(&id);
        assert!(self.boundary.is_none_or(is_dispatched), "the boundary is on the dispatch list");
        self.by_end.iter().enumerate().for_each(|(place, chain)| self.audit_chain(place, *chain));
    }

    fn audit_chain(&self, place: usize, chain: List) {
        chain.audit(&self.end_links);
        for id in chain.iter(&self.end_links) {
            let end = self.requests[id].end();
            assert_eq!(self.hashed_under[id.index()], end, "a request is hashed under its end");
            assert_eq!(self.chain(end), place, "a request is in the chain of its end");
            assert!(self.requests[id].sorted, "a hashed request is with the scheduler");
        }
    }

    /// Sets the boundary of the next sort, for a test of [`Queue::audit`].
    #[cfg(test)]
    pub(crate) fn set_boundary(&mut self, id: RequestId) {
        self.boundary = Some(id);
    }

    /// Puts every chain at the place of another one, for a test of [`Queue::audit`].
    #[cfg(test)]
    pub(crate) fn rotate_chains(&mut self) {
        self.by_end.rotate_left(1);
    }

    /// Takes a request off the merge caches.
    fn leave_scheduler(&mut self, id: RequestId) {
        debug_assert!(!self.dispatch.contains(&id), "a request is dispatched once");
        debug_assert!(!self.requests[id].started, "the driver does not have the request yet");
        if self.last_merge == Some(id) {
            self.last_merge = None;
        }
        if self.requests[id].sorted {
            self.unhash(id);
            self.requests[id].sorted = false;
        }
    }

    /// A request that will never be dispatched.
    pub(crate) fn forget(&mut self, id: RequestId) {
        self.leave_scheduler(id);
        self.requests.remove(id);
    }

    pub(crate) fn hash(&mut self, id: RequestId) {
        debug_assert!(self.requests[id].sorted, "bios are merged with requests of the scheduler");
        let end = self.requests[id].end();
        if self.hashed_under.len() <= id.index() {
            self.hashed_under.resize(id.index() + 1, 0);
            self.add_chains();
        }
        self.hashed_under[id.index()] = end;
        let place = self.chain(end);
        // The newest first: `elv_rqhash_find` returns the one hashed last of several that end
        // there.
        self.by_end[place].push_front(&mut self.end_links, id);
    }

    pub(crate) fn unhash(&mut self, id: RequestId) {
        let place = self.chain(self.hashed_under[id.index()]);
        self.by_end[place].remove(&mut self.end_links, id);
    }

    /// Place of the chain of the requests that end at a sector.
    #[inline]
    fn chain(&self, end: u64) -> usize {
        // Multiplied by 2^64 over the golden ratio, so that ends in a row and ends that are far apart spread alike over
        // the upper bits, which are taken.
        let hash = end.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - self.by_end.len().trailing_zeros())) as usize
    }

    /// Makes as many chains as there may be requests, and spreads the requests over them.
    fn add_chains(&mut self) {
        let chains = self.hashed_under.len().next_power_of_two();
        if chains <= self.by_end.len() {
            return;
        }
        let before = std::mem::replace(&mut self.by_end, vec![List::default(); chains]);
        for mut chain in before {
            // The oldest first: those of one end were in one chain, and keep their order.
            while let Some(id) = chain.back() {
                chain.remove(&mut self.end_links, id);
                let place = self.chain(self.hashed_under[id.index()]);
                self.by_end[place].push_front(&mut self.end_links, id);
            }
        }
    }

    /// The request hashed last among those that end at `sector` (`elv_rqhash_find`).
    pub(crate) fn ending_at(&self, sector: u64) -> Option<RequestId> {
        let mut chain = self.by_end[self.chain(sector)].iter(&self.end_links);
        chain.find(|id| self.hashed_under[id.index()] == sector)
    }
}

#[cfg(test)]
mod tests {
    use super::{CHAINS, Queue};
    use crate::{Bio, Class, Clock, Direction, Request, RequestId};

    /// Beside a list of all that is searched from its latest entry.
    #[test]
    fn the_latest_request_of_an_end_is_found_however_many_chains_there_are() {
        let mut queue = Queue::new(Clock { hz: 100 }, false, 128);
        let mut hashed: Vec<(u64, RequestId)> = Vec::new();
        let mut draw = 1_u64;
        let mut number = |bound: u64| {
            // Knuth's multiplier (MMIX): the upper bits are random enough to choose a case.
            draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (draw >> 33) % bound
        };
        for step in 0..20_000 {
            // Grows to some hundred requests, then shrinks and grows again.
            let grows = step % 4000 < 2500;
            if number(8) < if grows { 6 } else { 3 } || hashed.is_empty() {
                let (pid, direction, class) = (1, Direction::Read, Class::BestEffort);
                let (sync, noidle, level, sectors) = (true, false, 4, 8);
                let sector = number(300);
                let bio = Bio { pid, direction, sync, noidle, class, level, sector, sectors };
                let request = Request { sorted: true, ..Request::new(bio) };
                let id = queue.requests.add(request);
                queue.hash(id);
                hashed.push((bio.end(), id));
            } else {
                let (_, id) = hashed.remove(number(hashed.len() as u64) as usize);
                queue.unhash(id);
                queue.requests.remove(id);
            }
            let end = number(310);
            let latest = hashed.iter().rev().find(|other| other.0 == end).map(|other| other.1);
            assert_eq!(queue.ending_at(end), latest, "step {step}, end {end}");
        }
        assert!(queue.by_end.len() > 4 * CHAINS, "the chains were spread anew");
        queue.audit();
    }
}
