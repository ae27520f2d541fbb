//! Drives an elevator with a given sequence of arrivals over a device that is a function of time.
//!
//! The simplest driver there is: no processes, no plugging, no limit of requests. It is what
//! `nandlab schedule` prints, and what decisions of real kernels are compared with.

use crate::{Bio, Elevator, MergeSide, Request, RequestId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Something that reaches the block layer from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A bio is submitted.
    Submit(Bio),
    /// A process exits; what it has queued stays.
    Exit(u32),
}

/// The time of an arrival, or the completion it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At a time of the replay, in nanoseconds.
    At(u64),
    /// So long after another arrival, given by its place, was completed: a process that thinks.
    After {
        /// Place of the other arrival.
        arrival: usize,
        /// Nanoseconds after its completion.
        think_ns: u64,
    },
}

/// One line of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The bio or the exit.
    pub event: Event,
    /// The time at which it happens.
    pub when: When,
}

/// What happens first among events of the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Arrivals one by one, the queue run after each; then completions; then timers.
    #[default]
    ArrivalsFirst,
    /// Completions, then timers; then all arrivals are inserted, and the queue is run once.
    BatchedLast,
}

/// A request that was dispatched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatched {
    /// Places of the arrivals that were merged into it, in the order of sectors.
    pub arrivals: Vec<usize>,
    /// When the driver took it.
    pub dispatch_ns: u64,
    /// When the device was done.
    pub complete_ns: u64,
}

/// The outcome of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests in the order of dispatch.
    pub dispatched: Vec<Dispatched>,
    /// Arrivals that an orphan policy cancelled.
    pub cancelled: Vec<usize>,
    /// Arrivals still queued when nothing was left to happen: the scheduler lost or held them.
    pub stuck: Vec<usize>,
}

/// A device: takes the time and a request, and says when it will be done.
pub type Service<'a> = dyn FnMut(u64, &Request) -> u64 + 'a;

/// Replays `arrivals` through `elevator` to a device that holds `queue_depth` requests.
pub fn replay(
    elevator: &mut Elevator,
    arrivals: &[Arrival],
    queue_depth: u32,
    order: Order,
    service: &mut Service,
) -> Outcome {
    Replay::new(elevator, arrivals, queue_depth, service).run(order)
}

struct Replay<'a, 'b> {
    elevator: &'a mut Elevator,
    arrivals: &'a [Arrival],
    queue_depth: u32,
    service: &'a mut Service<'b>,
    /// Arrivals whose time is known, by time and place.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    /// Arrivals that wait for the completion of another.
    followers: BTreeMap<usize, Vec<usize>>,
    /// Requests with the device, by time of completion and order of dispatch.
    running: BinaryHeap<Reverse<(u64, usize, RequestId)>>,
    /// Arrivals merged into each request, by its number.
    members: Vec<Vec<usize>>,
    outcome: Outcome,
}

impl<'a, 'b> Replay<'a, 'b> {
    fn new(
        elevator: &'a mut Elevator,
        arrivals: &'a [Arrival],
        queue_depth: u32,
        service: &'a mut Service<'b>,
    ) -> Self {
        let mut due = BinaryHeap::new();
        let mut followers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, arrival) in arrivals.iter().enumerate() {
            match arrival.when {
                When::At(time_ns) => due.push(Reverse((time_ns, place))),
                When::After { arrival, .. } => followers.entry(arrival).or_default().push(place),
            }
        }
        Self {
            elevator,
            arrivals,
            queue_depth,
            service,
            due,
            followers,
            running: BinaryHeap::new(),
            members: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    fn run(mut self, order: Order) -> Outcome {
        while let Some(now_ns) = self.next_ns() {
            match order {
                Order::ArrivalsFirst => self.step_arrivals_first(now_ns),
                Order::BatchedLast => self.step_batched_last(now_ns),
            }
        }
        // What never left the elevator belongs to no dispatched request.
        let waiting = self.members.iter().flatten().copied();
        let mut stuck: Vec<usize> = waiting.collect();
        stuck.sort_unstable();
        self.outcome.stuck = stuck;
        self.outcome
    }

    /// The next time at which anything happens. A timer of a scheduler that has nothing left to do
    /// does not count: it would fire for ever.
    fn next_ns(&self) -> Option<u64> {
        let arrival = self.due.peek().map(|Reverse((time_ns, _))| *time_ns);
        let completion = self.running.peek().map(|Reverse((time_ns, ..))| *time_ns);
        let is_busy = arrival.is_some() || completion.is_some() || self.elevator.waiting() > 0;
        // A scheduler with nothing queued may keep its timer armed for ever, and the replay would
        // not end.
        let timer = self.elevator.timer_ns().filter(|_| is_busy);
        [arrival, completion, timer].into_iter().flatten().min()
    }

    fn step_arrivals_first(&mut self, now_ns: u64) {
        if let Some(place) = self.due_at(now_ns) {
            self.arrive(now_ns, place);
            self.run_queue(now_ns);
        } else if !self.complete_one(now_ns) {
            self.fire_timer(now_ns);
        }
        self.run_deferred(now_ns);
    }

    fn step_batched_last(&mut self, now_ns: u64) {
        if self.complete_one(now_ns) || self.fire_timer(now_ns) {
            self.run_deferred(now_ns);
            return;
        }
        while let Some(place) = self.due_at(now_ns) {
            self.arrive(now_ns, place);
        }
        self.run_queue(now_ns);
        self.run_deferred(now_ns);
    }

    fn due_at(&mut self, now_ns: u64) -> Option<usize> {
        let Reverse((time_ns, place)) = *self.due.peek()?;
        if time_ns > now_ns {
            return None;
        }
        self.due.pop();
        Some(place)
    }

    fn arrive(&mut self, now_ns: u64, place: usize) {
        match self.arrivals[place].event {
            Event::Submit(bio) => self.submit(now_ns, place, bio),
            Event::Exit(pid) => {
                for id in self.elevator.exit(now_ns, pid) {
                    let members = std::mem::take(&mut self.members[id.index()]);
                    self.outcome.cancelled.extend(members);
                }
            }
        }
    }

    fn submit(&mut self, now_ns: u64, place: usize, bio: Bio) {
        let Some(merged) = self.elevator.try_merge(now_ns, &bio) else {
            let id = self.elevator.insert(now_ns, bio);
            if self.members.len() <= id.index() {
                self.members.resize(id.index() + 1, Vec::new());
            }
            self.members[id.index()].push(place);
            return;
        };
        let survivor = merged.survivor.index();
        match (merged.side, merged.absorbed) {
            (MergeSide::Back, None) => self.members[survivor].push(place),
            (MergeSide::Front, None) => self.members[survivor].insert(0, place),
            (_, Some(absorbed)) => {
                let later = std::mem::take(&mut self.members[absorbed.index()]);
                self.members[survivor].push(place);
                self.members[survivor].extend(later);
            }
        }
    }

    /// Completes the earliest request that is done by now.
    fn complete_one(&mut self, now_ns: u64) -> bool {
        let Some(Reverse((time_ns, order, id))) = self.running.peek().copied() else {
            return false;
        };
        if time_ns > now_ns {
            return false;
        }
        self.running.pop();
        self.elevator.complete(now_ns, id);
        // Cloned, because starting the followers changes what the loop reads.
        for place in self.outcome.dispatched[order].arrivals.clone() {
            for follower in self.followers.remove(&place).unwrap_or_default() {
                if let When::After { think_ns, .. } = self.arrivals[follower].when {
                    self.due.push(Reverse((now_ns + think_ns, follower)));
                }
            }
        }
        self.run_queue(now_ns);
        true
    }

    fn fire_timer(&mut self, now_ns: u64) -> bool {
        let is_due = self.elevator.timer_ns().is_some_and(|time_ns| time_ns <= now_ns);
        if is_due {
            self.elevator.timer(now_ns);
        }
        is_due
    }

    /// Gives the device requests while it has room; true if it got any.
    fn run_queue(&mut self, now_ns: u64) -> bool {
        let before = self.outcome.dispatched.len();
        while (self.running.len() as u32) < self.queue_depth {
            let Some(id) = self.elevator.next(now_ns) else { break };
            let complete_ns = (self.service)(now_ns, &self.elevator.queue().requests[id]);
            self.running.push(Reverse((complete_ns, self.outcome.dispatched.len(), id)));
            let arrivals = std::mem::take(&mut self.members[id.index()]);
            let dispatched = Dispatched { arrivals, dispatch_ns: now_ns, complete_ns };
            self.outcome.dispatched.push(dispatched);
        }
        self.outcome.dispatched.len() > before
    }

    /// Runs the queue as often as the scheduler asks for it, and something comes of it.
    fn run_deferred(&mut self, now_ns: u64) {
        while self.elevator.take_run_soon() {
            if !self.run_queue(now_ns) {
                break;
            }
        }
    }
}
