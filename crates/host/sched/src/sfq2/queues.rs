//! The queues of SFQ2: processes in the rings of their classes, and asynchronous FIFOs.

mod audit;

#[cfg(test)]
pub(super) use audit::BREAKS;

use super::expiry::Expiry;
use super::tags::Tags;
use super::{ASYNC_LEVEL, cost, rank};
use crate::{Bio, Links, List, Queue, RequestId};
use rustc_hash::FxHashMap;
use settings::Settings;
use std::collections::VecDeque;

/// Place of a process queue in the table of queues; reused when the queue is gone.
type Place = u32;

/// Home of asynchronous requests of the first class; those of the others follow.
// At the end of the numbers, which no table of processes reaches.
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
    // Also while it is empty, until its next turn: so a process of one request at a time is new once a round.
    is_in_ring: bool,
    /// Requests that are queued or in flight.
    // The queue lives as long, so that its share of tags counts until the last is complete.
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
    expiry: Expiry,
    /// Where each request is or was until it was sent, by its number.
    // Not found by the bio: a process may change its class while a request is in flight.
    homes: Vec<Place>,
    len: usize,
    tags: Tags,
    visit_cost: i64,
    sync_visits: u32,
}

fn credit_of(visit_cost: i64, level: u8) -> i64 {
    // A level above 7 is none; it counts as the lowest, so no weight is 0.
    visit_cost * i64::from(8 - level.min(7))
}

impl Queues {
    pub(super) fn new(settings: &Settings) -> Self {
        let count = |name: &str| settings.integer(name);
        Self {
            processes: Vec::new(),
            free: Vec::new(),
            by_key: FxHashMap::default(),
            // The first turn is not lost, whatever tunables are set to later.
            rings: std::array::from_fn(|_| Ring { async_credit: 1, ..Ring::default() }),
            visited: None,
            links: Links::default(),
            expiry: Expiry::new(settings),
            homes: Vec::new(),
            len: 0,
            tags: Tags::default(),
            visit_cost: i64::from(count("visit_cost")),
            sync_visits: count("sync_visits"),
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
        // Only those without processes: in others a visit of their own class counts (`visit`).
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
        self.processes.iter().map(|process| process.held).sum::<u32>() + self.tags.asynchronous()
    }

    fn credit_of(&self, level: u8) -> i64 {
        credit_of(self.visit_cost, level)
    }

    pub(super) fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let bio = queue.requests[id].bio;
        self.expiry.insert(now_ns, id, queue);
        self.len += 1;
        if self.homes.len() <= id.index() {
            self.homes.resize(id.index() + 1, ASYNC);
        }
        let class = rank(bio.class);
        if !bio.sync {
            self.homes[id.index()] = ASYNC + class as Place;
            self.rings[class].fifo.push_back(&mut self.links, id);
            self.tags.hold_asynchronous();
            return;
        }
        let place = self.process_of(class, bio.pid);
        self.homes[id.index()] = place;
        let credit = self.credit_of(bio.level);
        let process = &mut self.processes[place as usize];
        // The latest request decides, so that `ionice` acts on a queue that is never empty.
        process.level = bio.level;
        process.fifo.push_back(&mut self.links, id);
        self.tags.hold(&mut process.held);
        let ring = &mut self.rings[class];
        ring.sync_len += 1;
        if !process.is_in_ring {
            process.is_in_ring = true;
            // No rest of before: a debt of an idle queue is forgiven, and credit cannot be saved up.
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
        // Above 0 and not the cost of the request: a visit may overdraw, which the next turns pay. So every
        // request is served some time, whatever it costs.
        process.fifo.front().filter(|_| process.credit > 0)
    }

    /// Ends the visit under way. A queue that has used its credit up gets its next.
    pub(super) fn end_visit(&mut self) {
        if let Some(place) = self.visited.take() {
            let credit = self.credit_of(self.processes[place as usize].level);
            let process = &mut self.processes[place as usize];
            // Here and not at the next visit: one that ends for want of requests keeps its rest and gets no more.
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
                // Also if the turn passes for credit: the next comes after as many visits.
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
            // In turn, and not new ones first as in RFC 8290: a stream of new processes would starve old ones.
            let takes_new = !ring.new.is_empty() && (ring.old.is_empty() || !ring.served_new);
            let list = if takes_new { &mut ring.new } else { &mut ring.old };
            let place = list.pop_front().expect("whoever has requests stands in a list");
            let process = &mut self.processes[place as usize];
            // Only an old one leaves: a new one that ran empty goes through the old list, or it could come back as
            // new at once (RFC 8290, 4.2).
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
            // Instead of a visit. Each round adds at least 1, so the loop ends.
            let level = process.level;
            let credit = self.credit_of(level);
            self.processes[place as usize].credit += credit;
        }
    }

    /// The queued request that expires first; of two alike the read.
    pub(super) fn first_to_expire(&self, queue: &Queue) -> Option<RequestId> {
        self.expiry.first(queue)
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
        self.expiry.remove(id, bio.direction);
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
        // Without this, who comes to an idle class would be old or new by what was there long ago.
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
        let home = self.homes[absorbed.index()];
        // The earlier place too, but only in one queue: in another it would overtake requests that are older.
        if self.expiry.inherit(survivor, absorbed, queue) && home == self.homes[survivor.index()] {
            let fifo = if bio.sync {
                &mut self.processes[home as usize].fifo
            } else {
                &mut self.rings[rank(bio.class)].fifo
            };
            fifo.remove(&mut self.links, survivor);
            fifo.insert_before(&mut self.links, absorbed, survivor);
        }
        // In this order: a queue that holds nothing is freed, and must be empty then.
        self.unlink(absorbed, &bio);
        self.release(absorbed);
    }

    /// A request is complete, or part of another one.
    pub(super) fn release(&mut self, id: RequestId) {
        let place = self.homes[id.index()];
        if place >= ASYNC {
            self.tags.let_go_asynchronous();
            return;
        }
        self.tags.let_go(&mut self.processes[place as usize].held);
        self.free_if_gone(place);
    }

    /// Requests of the bio's kind from which it gets no more.
    pub(super) fn tags_for(&self, bio: &Bio, tags: u32) -> u32 {
        if !bio.sync {
            return self.tags.limit_of_asynchronous(tags);
        }
        let place = self.by_key.get(&(rank(bio.class), bio.pid));
        let held = place.map_or(0, |place| self.processes[*place as usize].held);
        self.tags.limit_of_process(held, tags, self.len == 0)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let lists = self.rings.iter().map(|ring| ring.new.capacity() + ring.old.capacity());
        self.processes.capacity() * size_of::<Process>()
            + (self.free.capacity() + lists.sum::<usize>() + self.homes.capacity())
                * size_of::<Place>()
            + self.by_key.capacity() * size_of::<((usize, u32), Place)>()
            + self.links.bytes()
            + self.expiry.heap_bytes()
    }
}
