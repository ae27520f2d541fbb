//! Processes that go on while they are served, over a device that takes a fixed time for a request.

use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, RequestId, find_scheduler};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// One process, or one after another, which keep so many requests under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub direction: Direction,
    pub sync: bool,
    pub class: Class,
    pub level: u8,
    /// Requests under way at a time.
    pub depth: u32,
    pub sectors: u32,
    /// From the end of a request to the next.
    pub think_ns: u64,
    /// Each request is the only one of a new process.
    pub is_short_lived: bool,
}

impl Stream {
    /// Reads of 4 KiB of one best-effort process, which goes on after 100 us.
    pub(crate) const READER: Self = Self {
        direction: Direction::Read,
        sync: true,
        class: Class::BestEffort,
        level: 4,
        depth: 1,
        sectors: 8,
        think_ns: 100_000,
        is_short_lived: false,
    };

    /// Writes that no process waits for.
    pub(crate) const WRITE_BACK: Self =
        Self { direction: Direction::Write, sync: false, depth: 300, ..Self::READER };
}

/// A device, and the requests that a scheduler may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Requests that it carries out at a time, each in `service_ns`.
    pub slots: u32,
    pub service_ns: u64,
    pub tags: u32,
    pub duration_ns: u64,
}

impl Machine {
    /// A depth of 1 and 5 ms a request, as in the table of `docs/sfq2.md`.
    pub(crate) const TABLE: Self =
        Self { slots: 1, service_ns: 5_000_000, tags: 256, duration_ns: 20_000_000_000 };
}

/// How the requests of a stream fared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fared {
    /// Requests that are complete.
    pub done: u64,
    /// The longest time from the submission to the end, or so far.
    pub longest_ns: u64,
    /// The longest time from the insertion to the end, or so far: without the wait for a tag.
    pub longest_inserted_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Complete(RequestId),
    Submit { stream: usize },
}

#[derive(Clone, Copy)]
struct Request {
    stream: usize,
    submit_ns: u64,
    insert_ns: u64,
    sync: bool,
}

struct Run<'a> {
    streams: &'a [Stream],
    machine: Machine,
    elevator: Elevator,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    events_made: u64,
    waiting_for_tags: VecDeque<(usize, u64, Bio)>,
    requests: BTreeMap<RequestId, Request>,
    /// Requests that exist, asynchronous and synchronous.
    allocated: [u32; 2],
    in_flight: u32,
    bios_made: u32,
    fared: Vec<Fared>,
}

/// Lets the streams go on for the duration of the machine.
pub(crate) fn run(scheduler: &str, machine: Machine, streams: &[Stream]) -> Vec<Fared> {
    let entry = find_scheduler(scheduler).expect("a scheduler");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults fit");
    let options = ElevatorOptions {
        rotational: false,
        nr_requests: machine.tags,
        merging: false,
        ..ElevatorOptions::default()
    };
    let mut run = Run {
        streams,
        machine,
        elevator: Elevator::new(entry, &settings, options),
        events: BinaryHeap::new(),
        events_made: 0,
        waiting_for_tags: VecDeque::new(),
        requests: BTreeMap::new(),
        allocated: [0; 2],
        in_flight: 0,
        bios_made: 0,
        fared: vec![Fared::default(); streams.len()],
    };
    for (stream, of) in streams.iter().enumerate() {
        (0..of.depth).for_each(|chain| run.at(u64::from(chain) * 1000, Event::Submit { stream }));
    }
    run.go_on();
    run.fared
}

impl Run<'_> {
    fn at(&mut self, time_ns: u64, event: Event) {
        self.events_made += 1;
        self.events.push(Reverse((time_ns, self.events_made, event)));
    }

    fn go_on(&mut self) {
        loop {
            let event_ns = self.events.peek().map(|Reverse((time_ns, ..))| *time_ns);
            let timer_ns = self.elevator.timer_ns();
            let Some(now_ns) = event_ns.into_iter().chain(timer_ns).min() else { break };
            if now_ns > self.machine.duration_ns {
                break;
            }
            if event_ns == Some(now_ns) {
                let Some(Reverse((_, _, event))) = self.events.pop() else { break };
                match event {
                    Event::Complete(id) => self.complete(now_ns, id),
                    Event::Submit { stream } => self.submit(now_ns, stream),
                }
            } else {
                self.elevator.timer(now_ns);
                self.give_work(now_ns);
            }
        }
        // Who waits for ever has no end of a request to show for it.
        for request in self.requests.clone().into_values() {
            self.note(self.machine.duration_ns, request);
        }
        for (stream, submit_ns, _) in std::mem::take(&mut self.waiting_for_tags) {
            let waited_ns = self.machine.duration_ns - submit_ns;
            self.fared[stream].longest_ns = self.fared[stream].longest_ns.max(waited_ns);
        }
    }

    fn submit(&mut self, now_ns: u64, stream: usize) {
        let of = self.streams[stream];
        self.bios_made += 1;
        let pid = if of.is_short_lived { 1000 + self.bios_made } else { stream as u32 + 1 };
        let bio = Bio {
            pid,
            direction: of.direction,
            sync: of.sync,
            noidle: false,
            class: of.class,
            level: of.level,
            sector: u64::from(self.bios_made) * 10_000,
            sectors: of.sectors,
        };
        self.waiting_for_tags.push_back((stream, now_ns, bio));
        self.grant_tags(now_ns);
        self.give_work(now_ns);
    }

    /// Gives requests to whoever may have one, first come, first served.
    fn grant_tags(&mut self, now_ns: u64) {
        for _ in 0..self.waiting_for_tags.len() {
            let Some((stream, submit_ns, bio)) = self.waiting_for_tags.pop_front() else { break };
            let limit = self.elevator.scheduler().depth_limit(&bio, self.elevator.queue());
            let of_the_kind = self.allocated[usize::from(bio.sync)];
            let is_limited = limit.is_some_and(|limit| of_the_kind >= limit);
            if is_limited || self.requests.len() >= self.machine.tags as usize {
                self.waiting_for_tags.push_back((stream, submit_ns, bio));
                continue;
            }
            self.allocated[usize::from(bio.sync)] += 1;
            let id = self.elevator.insert(now_ns, bio);
            let request = Request { stream, submit_ns, insert_ns: now_ns, sync: bio.sync };
            self.requests.insert(id, request);
        }
    }

    fn give_work(&mut self, now_ns: u64) {
        while self.in_flight < self.machine.slots {
            let Some(id) = self.elevator.next(now_ns) else { break };
            self.in_flight += 1;
            self.at(now_ns + self.machine.service_ns, Event::Complete(id));
        }
        self.elevator.take_run_soon();
    }

    fn complete(&mut self, now_ns: u64, id: RequestId) {
        self.elevator.complete(now_ns, id);
        self.in_flight -= 1;
        // The device gets its next request before the process that waited can make one.
        self.give_work(now_ns);
        let request = self.requests.remove(&id).expect("it was inserted");
        self.allocated[usize::from(request.sync)] -= 1;
        self.note(now_ns, request);
        self.fared[request.stream].done += 1;
        let think_ns = self.streams[request.stream].think_ns;
        self.at(now_ns + think_ns, Event::Submit { stream: request.stream });
        self.grant_tags(now_ns);
        self.give_work(now_ns);
    }

    fn note(&mut self, now_ns: u64, request: Request) {
        let fared = &mut self.fared[request.stream];
        fared.longest_ns = fared.longest_ns.max(now_ns - request.submit_ns);
        fared.longest_inserted_ns = fared.longest_inserted_ns.max(now_ns - request.insert_ns);
    }
}
