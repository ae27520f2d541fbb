//! The queues of SFQ: processes in a round, the async queue, and the deadline queue over all.
//!
//! The round is a list whose front is selected next. Whatever enters it goes to its end, and so does
//! the queue that was selected when its turn is over. A queue ahead of another one therefore stays
//! ahead until its own turn, and no stream of new processes gets between a waiting queue and its
//! visit. This is the list of active flows of deficit round robin (Shreedhar and Varghese, 1995).

use crate::{Direction, Links, List, Queue, RequestId};
use rustc_hash::FxHashMap;
use settings::Settings;

const MILLISECOND_NS: u64 = 1_000_000;

/// Place of a queue in [`Queues`]; that of a process is reused when the queue is removed.
pub(super) type Place = usize;

/// Place of the async queue, whose links serve as the head of the round of process queues.
pub(super) const ASYNC: Place = 0;

/// What becomes of the requests of a process that has exited.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Orphans {
    Drain,
    MoveToAsync,
    Cancel,
}

/// Which process queues stand in the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// Those that have requests: one that runs empty gives up its place.
    Busy,
    /// All of processes that live, so that empty ones are selected too.
    All,
}

/// A read and a write FIFO.
#[derive(Clone, Copy, Default)]
struct Fifos([List; 2]);

impl Fifos {
    fn of(&mut self, direction: Direction) -> &mut List {
        &mut self.0[direction as usize]
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(List::is_empty)
    }
}

#[derive(Default)]
struct IoQueue {
    fifos: Fifos,
    /// Neighbours in the round, while it stands there.
    previous: Place,
    next: Place,
    is_in_round: bool,
    /// Its process has exited.
    is_orphan: bool,
}

pub(super) struct Queues {
    /// The async queue, process queues, and free places.
    places: Vec<IoQueue>,
    free: Vec<Place>,
    /// Queues of living processes; only looked up.
    by_pid: FxHashMap<u32, Place>,
    members: Members,
    /// The queue selected last, whose turn it is, unless the queue was removed.
    pub(super) visited: Option<Place>,
    links: Links,
    deadline: Fifos,
    deadline_links: Links,
    /// Where each request is, by its number.
    homes: Vec<u32>,
    len: usize,
    async_len: usize,
    check_ns: Option<u64>,
    period_ns: u64,
    expire_ns: [u64; 2],
    orphans: Orphans,
    cancelled: Vec<RequestId>,
    /// Requests queued that need a zone, which are not in the deadline queue.
    zoned: usize,
    /// Zones that a write with the driver has to itself.
    // A few: as many as the device takes writes at once.
    locked_zones: Vec<u32>,
}

impl Queues {
    pub(super) fn new(settings: &Settings, members: Members) -> Self {
        let time_ns = |name: &str| u64::from(settings.integer(name)) * MILLISECOND_NS;
        Self {
            // An empty round: its head is its own neighbour.
            places: vec![IoQueue { previous: ASYNC, next: ASYNC, ..IoQueue::default() }],
            free: Vec::new(),
            by_pid: FxHashMap::default(),
            members,
            visited: None,
            links: Links::default(),
            deadline: Fifos::default(),
            deadline_links: Links::default(),
            homes: Vec::new(),
            len: 0,
            async_len: 0,
            check_ns: None,
            period_ns: time_ns("starvation_check"),
            expire_ns: [time_ns("read_expire"), time_ns("write_expire")],
            orphans: match settings.word("orphans") {
                "move-to-async" => Orphans::MoveToAsync,
                "cancel" => Orphans::Cancel,
                _ => Orphans::Drain,
            },
            cancelled: Vec::new(),
            zoned: 0,
            locked_zones: Vec::new(),
        }
    }

    /// Requests queued, in all queues together.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Requests in the queues of processes.
    pub(super) fn sync_len(&self) -> usize {
        self.len - self.async_len
    }

    /// Requests in the async queue.
    pub(super) fn async_len(&self) -> usize {
        self.async_len
    }

    /// The oldest request of a direction in a queue that may be sent: no other has its zone.
    pub(super) fn front(
        &self,
        place: Place,
        direction: Direction,
        queue: &Queue,
    ) -> Option<RequestId> {
        let fifo = &self.places[place].fifos.0[direction as usize];
        // Only the async queue has writes to zones.
        if place != ASYNC || self.locked_zones.is_empty() {
            return fifo.front();
        }
        let has_its_zone = |id: &RequestId| {
            queue.requests[*id].zone.is_none_or(|zone| !self.locked_zones.contains(&zone))
        };
        fifo.iter(&self.links).find(has_its_zone)
    }

    /// A write to the zone is with the driver.
    pub(super) fn lock_zone(&mut self, zone: Option<u32>) {
        let Some(zone) = zone else { return };
        debug_assert!(!self.locked_zones.contains(&zone), "a zone has one write at a time");
        self.locked_zones.push(zone);
    }

    /// The driver has no write to the zone any more.
    pub(super) fn unlock_zone(&mut self, zone: Option<u32>) {
        let Some(zone) = zone else { return };
        let place = self.locked_zones.iter().position(|locked| *locked == zone);
        debug_assert!(place.is_some(), "the zone of a write with the driver is locked");
        if let Some(place) = place {
            self.locked_zones.swap_remove(place);
        }
    }

    /// Ends the turn of the queue selected last, which goes to the end of the round if it still is
    /// in it: what came in during its turn has not been served yet, and goes before it.
    pub(super) fn end_turn(&mut self) {
        if let Some(place) = self.visited.take()
            && self.places[place].is_in_round
        {
            // Left and entered in one step: what arrived during the turn stands before it.
            self.leave_round(place);
            self.enter_round(place);
        }
    }

    /// The process queue at the front of the round; none if the round is empty.
    pub(super) fn first_of_round(&self) -> Option<Place> {
        Some(self.places[ASYNC].next).filter(|place| *place != ASYNC)
    }

    pub(super) fn insert(&mut self, now_ns: u64, id: RequestId, queue: &mut Queue) {
        let bio = queue.requests[id].bio;
        // The expiry counts from the insertion, and the deadline queue is in the order of
        // insertion, so its front expires first.
        queue.requests[id].deadline = now_ns + self.expire_ns[bio.direction as usize];
        let zone = queue.requests[id].zone;
        // An expired write would go before older ones to its zone.
        if zone.is_some() {
            self.zoned += 1;
        } else {
            self.deadline.of(bio.direction).push_back(&mut self.deadline_links, id);
        }
        self.len += 1;
        if self.homes.len() <= id.index() {
            self.homes.resize(id.index() + 1, 0);
        }
        // The flag of the request decides; what is merged into it later changes nothing.
        let place = if bio.sync && zone.is_none() { self.queue_of(bio.pid) } else { ASYNC };
        self.put(place, id, bio.direction);
        self.arm(queue);
    }

    fn put(&mut self, place: Place, id: RequestId, direction: Direction) {
        self.places[place].fifos.of(direction).push_back(&mut self.links, id);
        self.homes[id.index()] = place as u32;
        if place == ASYNC {
            self.async_len += 1;
        } else if !self.places[place].is_in_round {
            self.enter_round(place);
        }
    }

    /// Puts a process queue at the end of the round.
    fn enter_round(&mut self, place: Place) {
        debug_assert!(place != ASYNC && !self.places[place].is_in_round);
        let last = self.places[ASYNC].previous;
        self.places[last].next = place;
        self.places[ASYNC].previous = place;
        let entered = &mut self.places[place];
        (entered.previous, entered.next, entered.is_in_round) = (last, ASYNC, true);
    }

    fn leave_round(&mut self, place: Place) {
        let IoQueue { previous, next, is_in_round, .. } = self.places[place];
        debug_assert!(place != ASYNC && is_in_round);
        self.places[previous].next = next;
        self.places[next].previous = previous;
        self.places[place].is_in_round = false;
    }

    /// The queue of a living process, made if there is none.
    fn queue_of(&mut self, pid: u32) -> Place {
        if let Some(place) = self.by_pid.get(&pid) {
            return *place;
        }
        let place = self.free.pop().unwrap_or(self.places.len());
        if place == self.places.len() {
            self.places.push(IoQueue::default());
        } else {
            self.places[place] = IoQueue::default();
        }
        self.by_pid.insert(pid, place);
        place
    }

    /// Takes a request out of all its FIFOs, and its queue with it if that is an orphan that has
    /// no other.
    pub(super) fn remove(&mut self, id: RequestId, queue: &Queue) {
        let direction = queue.requests[id].bio.direction;
        let place = self.homes[id.index()] as Place;
        // All three FIFOs and both counts in one place: a request that is only half removed would
        // be dispatched twice.
        if queue.requests[id].zone.is_some() {
            self.zoned -= 1;
        } else {
            self.deadline.of(direction).remove(&mut self.deadline_links, id);
        }
        self.places[place].fifos.of(direction).remove(&mut self.links, id);
        self.len -= 1;
        self.async_len -= usize::from(place == ASYNC);
        self.leave_if_empty(place);
        self.arm(queue);
    }

    /// Moves a request to the end of the dispatch list.
    pub(super) fn send(&mut self, id: RequestId, queue: &mut Queue) {
        self.remove(id, queue);
        queue.dispatch_tail(id);
    }

    pub(super) fn exit(&mut self, pid: u32, queue: &Queue) {
        let Some(place) = self.by_pid.remove(&pid) else { return };
        self.places[place].is_orphan = true;
        // Drained requests stay where they are; both other policies empty the queue now.
        if self.orphans != Orphans::Drain {
            for direction in [Direction::Read, Direction::Write] {
                self.empty(place, direction);
            }
            self.arm(queue);
        }
        self.leave_if_empty(place);
    }

    /// Moves or cancels all requests of a direction in the queue of a process that has exited.
    fn empty(&mut self, place: Place, direction: Direction) {
        while let Some(id) = self.places[place].fifos.of(direction).pop_front(&mut self.links) {
            if self.orphans == Orphans::MoveToAsync {
                self.put(ASYNC, id, direction);
            } else {
                self.deadline.of(direction).remove(&mut self.deadline_links, id);
                self.len -= 1;
                self.cancelled.push(id);
            }
        }
    }

    /// A process queue that has run empty gives up its place in the round, and is removed if its process
    /// has exited.
    fn leave_if_empty(&mut self, place: Place) {
        let IoQueue { is_in_round, is_orphan, ref fifos, .. } = self.places[place];
        if place == ASYNC || !fifos.is_empty() {
            return;
        }
        // A queue without requests has no turn to wait for, and an orphan will never have any.
        if is_in_round && (is_orphan || self.members == Members::Busy) {
            self.leave_round(place);
        }
        if is_orphan {
            self.visited.take_if(|visited| *visited == place);
            self.free.push(place);
        }
    }

    pub(super) fn take_cancelled(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.cancelled)
    }

    /// When the starvation check finds something next.
    pub(super) fn check_ns(&self) -> Option<u64> {
        self.check_ns
    }

    /// Moves requests that expired before `now_ns` to the dispatch list, and says how many.
    pub(super) fn send_expired(&mut self, now_ns: u64, queue: &mut Queue) -> u32 {
        let mut moved = 0;
        for direction in [Direction::Read, Direction::Write] {
            // Reads first: a process waits for each of them.
            while let Some(id) = self.deadline.of(direction).front()
                && queue.requests[id].deadline < now_ns
            {
                self.send(id, queue);
                moved += 1;
            }
        }
        moved
    }

    /// Sets the check to the first multiple of the period after the earliest expiry. Both deadline
    /// FIFOs are in the order of expiry.
    fn arm(&mut self, queue: &Queue) {
        let fronts = self.deadline.0.iter().filter_map(List::front);
        let earliest_ns = fronts.map(|id| queue.requests[id].deadline).min();
        // The first check after the expiry is the first that can find anything; earlier ones would
        // not.
        self.check_ns = earliest_ns.map(|ns| (ns / self.period_ns + 1) * self.period_ns);
    }

    /// Checks that the same requests stand in the deadline queue and in the queues of the round.
    pub(super) fn audit(&self, queue: &Queue) {
        for fifo in &self.deadline.0 {
            fifo.audit(&self.deadline_links);
            let ids = fifo.iter(&self.deadline_links);
            let deadlines = ids.map(|id| queue.requests[id].deadline);
            assert!(deadlines.is_sorted(), "the deadline queue is in the order of expiry");
        }
        for (place, own) in self.places.iter().enumerate() {
            for fifo in &own.fifos.0 {
                fifo.audit(&self.links);
                let is_home = |id: RequestId| self.homes[id.index()] as Place == place;
                assert!(fifo.iter(&self.links).all(is_home), "a request is at home");
            }
        }
        self.audit_round();
        let lengths = |fifos: &Fifos| fifos.0.iter().map(List::len).sum::<usize>();
        let expiring = lengths(&self.deadline) + self.zoned;
        assert_eq!(expiring, self.len, "requests in the deadline queue and those that need a zone");
        let placed: usize = self.places.iter().map(|place| lengths(&place.fifos)).sum();
        assert_eq!(placed, self.len, "requests in queues of the round and the async queue");
        assert_eq!(lengths(&self.places[ASYNC].fifos), self.async_len, "asynchronous requests");
        assert!(
            self.places[1..].iter().all(|place| place.is_in_round || place.fifos.is_empty()),
            "a process that has requests stands in the round"
        );
    }

    /// Checks that the round is a ring through all places that stand in it.
    fn audit_round(&self) {
        let (mut place, mut standing) = (ASYNC, 0);
        loop {
            let next = self.places[place].next;
            assert_eq!(self.places[next].previous, place, "the round is linked both ways");
            if next == ASYNC {
                break;
            }
            place = next;
            standing += 1;
        }
        let in_round = self.places.iter().filter(|place| place.is_in_round).count();
        assert_eq!(standing, in_round, "the round goes through all that stand in it");
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.places.capacity() * size_of::<IoQueue>()
            + self.free.capacity() * size_of::<Place>()
            + self.by_pid.capacity() * size_of::<(u32, Place)>()
            + self.links.bytes()
            + self.deadline_links.bytes()
            + self.homes.capacity() * size_of::<u32>()
            + self.cancelled.capacity() * size_of::<RequestId>()
            + self.locked_zones.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ENTRY, Sfq, Visits};
    use super::{ASYNC, IoQueue, Queues};
    use crate::tests::{defaults, filled, panics_with};
    use crate::{Queue, RequestId, Scheduler};

    /// What breaks a count.
    type Break = fn(&mut Queues, &mut Queue);

    #[test]
    fn every_broken_lock_of_a_zone_is_seen() {
        let queues = || {
            let settings = defaults(&ENTRY);
            Sfq::new(&settings, Visits::new(&settings)).queues
        };
        panics_with("a zone has one write at a time", || {
            let mut queues = queues();
            queues.lock_zone(Some(3));
            queues.lock_zone(Some(3));
        });
        panics_with("the zone of a write with the driver is locked", || {
            let mut queues = queues();
            queues.lock_zone(Some(3));
            queues.unlock_zone(Some(4));
        });
    }

    #[test]
    fn every_broken_count_is_seen() {
        let broken: [(&str, Break); 8] = [
            ("the deadline queue is in the order of expiry", |queues, queue| {
                queue.requests[RequestId(0)].deadline += 1;
                assert!(queues.len > 1);
            }),
            ("a request is at home", |queues, _| queues.homes[0] = 7),
            ("the round is linked both ways", |queues, _| queues.places[1].previous = 1),
            ("the round goes through all", |queues, _| {
                queues.places.push(IoQueue { is_in_round: true, ..IoQueue::default() });
            }),
            ("requests in the deadline queue", |queues, _| queues.len += 1),
            ("requests in queues of the round", |queues, _| {
                let taken = queues.places[1].fifos.0[0].pop_front(&mut queues.links);
                assert!(taken.is_some());
            }),
            ("asynchronous requests", |queues, _| queues.async_len += 1),
            ("stands in the round", |queues, _| {
                assert_ne!(queues.first_of_round(), Some(ASYNC));
                queues.leave_round(1);
            }),
        ];
        for (message, break_it) in broken {
            let settings = defaults(&ENTRY);
            let (mut sfq, mut queue) = filled(Sfq::new(&settings, Visits::new(&settings)));
            break_it(&mut sfq.queues, &mut queue);
            panics_with(message, || sfq.audit(&queue));
        }
    }
}
