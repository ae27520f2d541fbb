//! The queues of SFQ2: processes in the rings of their classes, asynchronous FIFOs, and the order of expiry.

use super::{ASYNC_LEVEL, MILLISECOND_NS, cost, rank};
use crate::{Bio, Links, List, Queue, RequestId};
use rustc_hash::FxHashMap;
use settings::Settings;
use std::collections::VecDeque;

/// Place of a process queue in the table of queues; reused when the queue is gone.
type Place = u32;

/// Home of asynchronous requests of the first class; those of the others follow.
const ASYNC: Place = u32::MAX - 3;

/// The requests of one process in one class.
#[derive(Clone, Copy, Default)]
struct Process {
    key: (usize, u32),
    fifo: List,
    credit: i64,
    /// Level of the request inserted last, which the weight follows from.
    level: u8,
    /// It stands in the new or the old list of its class.
    is_in_ring: bool,
    /// Requests that are queued or in flight.
    held: u32,
}

/// One class.
#[derive(Default)]
struct Ring {
    new: VecDeque<Place>,
    old: VecDeque<Place>,
    /// The visit before was to a queue of the new list.
    served_new: bool,
    /// Requests of processes.
    sync_len: usize,
    fifo: List,
    async_credit: i64,
    /// Visits to processes since the last turn of asynchronous requests.
    since_async: u32,
}

pub(super) struct Queues {
    processes: Vec<Process>,
    free: Vec<Place>,
    /// Only looked up.
    by_key: FxHashMap<(usize, u32), Place>,
    rings: [Ring; 3],
    visited: Option<Place>,
    links: Links,
    expiry: [List; 2],
    expiry_links: Links,
    /// Where each request is or was until it was sent, by its number.
    homes: Vec<Place>,
    len: usize,
    /// Processes that hold a request, and asynchronous requests held.
    holders: u32,
    async_held: u32,
    visit_cost: i64,
    sync_visits: u32,
    expire_ns: [u64; 2],
}

fn credit_of(visit_cost: i64, level: u8) -> i64 {
    visit_cost * i64::from(8 - level.min(7))
}

impl Queues {
    pub(super) fn new(settings: &Settings) -> Self {
        let count = |name: &str| settings.integer(name);
        let time_ns = |name: &str| u64::from(count(name)) * MILLISECOND_NS;
        let visit_cost = i64::from(count("visit_cost"));
        Self {
            processes: Vec::new(),
            free: Vec::new(),
            by_key: FxHashMap::default(),
            // The first turn is not lost, whatever tunables are set to later.
            rings: std::array::from_fn(|_| Ring { async_credit: 1, ..Ring::default() }),
            visited: None,
            links: Links::default(),
            expiry: [List::default(); 2],
            expiry_links: Links::default(),
            homes: Vec::new(),
            len: 0,
            holders: 0,
            async_held: 0,
            visit_cost,
            sync_visits: count("sync_visits"),
            expire_ns: [time_ns("read_expire"), time_ns("write_expire")],
        }
    }

    /// Requests queued.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Requests of processes in a class.
    pub(super) fn sync_len(&self, class: usize) -> usize {
        self.rings[class].sync_len
    }

    /// Asynchronous requests of a class.
    pub(super) fn async_len(&self, class: usize) -> usize {
        self.rings[class].fifo.len()
    }

    /// True if the asynchronous requests of a class have waited for their turn.
    pub(super) fn is_async_turn(&self, class: usize) -> bool {
        self.rings[class].since_async >= self.sync_visits
    }

    /// Counts a visit to `class` for the turns of higher classes that have only asynchronous requests, which are held.
    pub(super) fn count_held(&mut self, class: usize) {
        for ring in &mut self.rings[..class] {
            let has_held = ring.sync_len == 0 && !ring.fifo.is_empty();
            ring.since_async = ring.since_async.saturating_add(u32::from(has_held));
        }
    }

    /// Requests of a class.
    pub(super) fn len_of(&self, class: usize) -> usize {
        self.sync_len(class) + self.async_len(class)
    }

    /// Requests that are queued or in flight.
    pub(super) fn holding(&self) -> u32 {
        self.processes.iter().map(|process| process.held).sum::<u32>() + self.async_held
    }

    fn credit_of(&self, level: u8) -> i64 {
        credit_of(self.visit_cost, level)
    }

    pub(super) fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let bio = queue.requests[id].bio;
        queue.requests[id].deadline = now_ns + self.expire_ns[bio.direction as usize];
        self.expiry[bio.direction as usize].push_back(&mut self.expiry_links, id);
        self.len += 1;
        if self.homes.len() <= id.index() {
            self.homes.resize(id.index() + 1, ASYNC);
        }
        let class = rank(bio.class);
        if !bio.sync {
            self.homes[id.index()] = ASYNC + class as Place;
            self.rings[class].fifo.push_back(&mut self.links, id);
            self.async_held += 1;
            return;
        }
        let place = self.process_of(class, bio.pid);
        self.homes[id.index()] = place;
        let credit = self.credit_of(bio.level);
        let process = &mut self.processes[place as usize];
        process.level = bio.level;
        process.fifo.push_back(&mut self.links, id);
        self.holders += u32::from(process.held == 0);
        process.held += 1;
        let ring = &mut self.rings[class];
        ring.sync_len += 1;
        if !process.is_in_ring {
            process.is_in_ring = true;
            process.credit = credit;
            ring.new.push_back(place);
        }
    }

    fn process_of(&mut self, class: usize, pid: u32) -> Place {
        let key = (class, pid);
        if let Some(place) = self.by_key.get(&key) {
            return *place;
        }
        let fresh = Process { key, ..Process::default() };
        let place = if let Some(place) = self.free.pop() {
            self.processes[place as usize] = fresh;
            place
        } else {
            self.processes.push(fresh);
            self.processes.len() as Place - 1
        };
        self.by_key.insert(key, place);
        place
    }

    /// Forgets a queue that neither stands in a ring nor holds a request.
    fn free_if_gone(&mut self, place: Place) {
        let Process { key, is_in_ring, held, .. } = self.processes[place as usize];
        if !is_in_ring && held == 0 {
            self.by_key.remove(&key);
            self.free.push(place);
        }
    }

    /// The next request of the visit under way; none if it is over.
    pub(super) fn next_of_visit(&self) -> Option<RequestId> {
        let process = &self.processes[self.visited? as usize];
        process.fifo.front().filter(|_| process.credit > 0)
    }

    /// Ends the visit under way. A queue that has used its credit up gets its next.
    pub(super) fn end_visit(&mut self) {
        if let Some(place) = self.visited.take() {
            let credit = self.credit_of(self.processes[place as usize].level);
            let process = &mut self.processes[place as usize];
            if process.credit <= 0 {
                process.credit += credit;
            }
        }
    }

    /// Begins a visit to a class that has requests, and returns its first.
    pub(super) fn visit(&mut self, class: usize, sends_async: bool) -> RequestId {
        let turn_credit = self.credit_of(ASYNC_LEVEL);
        let ring = &mut self.rings[class];
        if let Some(id) = ring.fifo.front().filter(|_| sends_async) {
            if ring.sync_len == 0 {
                // Nobody waits for the turns that large requests cost.
                ring.since_async = 0;
                ring.async_credit = turn_credit;
                return id;
            }
            if ring.since_async >= self.sync_visits {
                ring.since_async = 0;
                if ring.async_credit > 0 {
                    return id;
                }
                ring.async_credit += turn_credit;
            }
        }
        ring.since_async = ring.since_async.saturating_add(1);
        let place = self.select(class);
        self.visited = Some(place);
        self.processes[place as usize].fifo.front().expect("a selected queue has requests")
    }

    /// The queue to visit, which goes to the end of the old list.
    fn select(&mut self, class: usize) -> Place {
        debug_assert!(self.rings[class].sync_len > 0, "a process of the class has requests");
        loop {
            let ring = &mut self.rings[class];
            let takes_new = !ring.new.is_empty() && (ring.old.is_empty() || !ring.served_new);
            let list = if takes_new { &mut ring.new } else { &mut ring.old };
            let place = list.pop_front().expect("whoever has requests stands in a list");
            let process = &mut self.processes[place as usize];
            if process.fifo.is_empty() && !takes_new {
                process.is_in_ring = false;
                self.free_if_gone(place);
                continue;
            }
            ring.old.push_back(place);
            if process.fifo.is_empty() {
                continue;
            }
            ring.served_new = takes_new;
            if process.credit > 0 {
                return place;
            }
            let level = process.level;
            let credit = self.credit_of(level);
            self.processes[place as usize].credit += credit;
        }
    }

    /// The queued request that expires first; of two alike the read.
    pub(super) fn first_to_expire(&self, queue: &Queue) -> Option<RequestId> {
        let fronts = self.expiry.iter().filter_map(List::front);
        fronts.min_by_key(|id| queue.requests[*id].deadline)
    }

    /// Takes a request to send it, and charges its queue if it is sent in its turn.
    pub(super) fn take(&mut self, id: RequestId, is_charged: bool, queue: &Queue) {
        let bio = queue.requests[id].bio;
        let charge = if is_charged { cost(bio.sectors) } else { 0 };
        if bio.sync {
            self.processes[self.homes[id.index()] as usize].credit -= charge;
        } else {
            self.rings[rank(bio.class)].async_credit -= charge;
        }
        self.unlink(id, &bio);
    }

    fn unlink(&mut self, id: RequestId, bio: &Bio) {
        let class = rank(bio.class);
        self.expiry[bio.direction as usize].remove(&mut self.expiry_links, id);
        self.len -= 1;
        let ring = &mut self.rings[class];
        if !bio.sync {
            ring.fifo.remove(&mut self.links, id);
            return;
        }
        self.processes[self.homes[id.index()] as usize].fifo.remove(&mut self.links, id);
        ring.sync_len -= 1;
        if ring.sync_len == 0 {
            self.empty_ring(class);
        }
    }

    /// Nobody of the class waits, so nobody is new or old.
    fn empty_ring(&mut self, class: usize) {
        let ring = &mut self.rings[class];
        ring.served_new = false;
        for place in std::mem::take(&mut ring.new).into_iter().chain(std::mem::take(&mut ring.old))
        {
            self.processes[place as usize].is_in_ring = false;
            self.visited.take_if(|visited| *visited == place);
            self.free_if_gone(place);
        }
    }

    /// `absorbed` has become part of `survivor`, which inherits what is earlier.
    pub(super) fn absorb(&mut self, survivor: RequestId, absorbed: RequestId, queue: &mut Queue) {
        let bio = queue.requests[absorbed].bio;
        let earlier = queue.requests[absorbed].deadline;
        if earlier < queue.requests[survivor].deadline {
            queue.requests[survivor].deadline = earlier;
            let expiry = &mut self.expiry[bio.direction as usize];
            expiry.remove(&mut self.expiry_links, survivor);
            expiry.insert_before(&mut self.expiry_links, absorbed, survivor);
            let home = self.homes[absorbed.index()];
            if home == self.homes[survivor.index()] {
                let fifo = if bio.sync {
                    &mut self.processes[home as usize].fifo
                } else {
                    &mut self.rings[rank(bio.class)].fifo
                };
                fifo.remove(&mut self.links, survivor);
                fifo.insert_before(&mut self.links, absorbed, survivor);
            }
        }
        self.unlink(absorbed, &bio);
        self.release(absorbed);
    }

    /// A request is complete, or part of another one.
    pub(super) fn release(&mut self, id: RequestId) {
        let place = self.homes[id.index()];
        if place >= ASYNC {
            self.async_held -= 1;
            return;
        }
        let process = &mut self.processes[place as usize];
        process.held -= 1;
        if process.held == 0 {
            self.holders -= 1;
            self.free_if_gone(place);
        }
    }

    /// Requests of the bio's kind from which it gets no more.
    pub(super) fn tags_for(&self, bio: &Bio, tags: u32) -> u32 {
        if !bio.sync {
            let share = if self.holders > 0 { tags / 4 } else { tags - tags / 4 };
            return share.max(1);
        }
        let place = self.by_key.get(&(rank(bio.class), bio.pid));
        let held = place.map_or(0, |place| self.processes[*place as usize].held);
        let share = (tags / (self.holders + 1)).max(1);
        // One is what it holds already: it waits for a completion of its own.
        if held >= share { 1 } else { tags }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let lists = self.rings.iter().map(|ring| ring.new.capacity() + ring.old.capacity());
        self.processes.capacity() * size_of::<Process>()
            + (self.free.capacity() + lists.sum::<usize>() + self.homes.capacity())
                * size_of::<Place>()
            + self.by_key.capacity() * size_of::<((usize, u32), Place)>()
            + self.links.bytes()
            + self.expiry_links.bytes()
    }

    /// Checks that the same requests stand in the order of expiry and in the queues, and who stands in the rings.
    pub(super) fn audit(&self, queue: &Queue) {
        for fifo in &self.expiry {
            fifo.audit(&self.expiry_links);
            let deadlines = fifo.iter(&self.expiry_links).map(|id| queue.requests[id].deadline);
            assert!(deadlines.is_sorted(), "requests are in the order of their expiry");
        }
        assert_eq!(self.expiry.iter().map(List::len).sum::<usize>(), self.len, "all expire");
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
        assert_eq!(holders, self.holders as usize, "processes that hold requests");
    }
}

#[cfg(test)]
impl Queues {
    /// Miscounts the requests, for a test of [`Queues::audit`].
    pub(super) fn break_len(&mut self) {
        self.len += 1;
    }
}
