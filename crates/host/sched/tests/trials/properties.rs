//! What holds for every scheduler, on random input.
//!
//! Each property is tried with each row of the table of schedulers. Inputs are made from a fixed
//! seed; one that fails is shrunk to the smallest that still does, which the message shows.

use libtest_mimic::{Failed, Trial};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use sched::replay::{Arrival, Event, Order, Outcome, When, replay};
use sched::{
    Bio, Class, Direction, Elevator, ElevatorOptions, Kind, Parameter, Request, RequestId,
    SCHEDULERS, SchedulerEntry, Settings, Value,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write;

const MICROSECOND_NS: u64 = 1000;
const MILLISECOND_NS: u64 = 1_000_000;
const CASES: u32 = 200;

type Verdict = Result<(), TestCaseError>;
type Property = fn(&'static SchedulerEntry, &Case) -> Verdict;

const PROPERTIES: &[(&str, Property)] = &[
    ("each request is dispatched once, after it arrived", is_dispatched_once),
    ("no exit loses a request", survives_exits),
    ("the same input gives the same order", repeats_itself),
    ("a forced drain leaves nothing", drains),
    ("the device idles only while the scheduler waits for more", conserves_work),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for entry in SCHEDULERS.iter().copied() {
        for (name, property) in PROPERTIES.iter().copied() {
            let title = format!("{}: {name}", entry.name);
            trials.push(Trial::test(title, move || try_cases(entry, property)));
        }
        for promise in promises(entry.name).iter().copied() {
            let title = format!("{}: {} waits a bounded time", entry.name, promise.who);
            trials.push(Trial::test(title, move || promise.check(entry)));
        }
    }
    trials.push(Trial::test("the random inputs reach every kind of event", inputs_are_varied));
    trials
}

fn runner() -> TestRunner {
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

fn try_cases(entry: &'static SchedulerEntry, property: Property) -> Result<(), Failed> {
    runner().run(&any_case(), |case| property(entry, &case)).map_err(|error| match error {
        TestError::Fail(reason, case) => format!("{reason}\n{}", case.show(entry)).into(),
        TestError::Abort(reason) => format!("{reason}").into(),
    })
}

// ---------------------------------------------------------------------------------------- inputs

/// One random input.
#[derive(Clone, Debug)]
struct Case {
    lines: Vec<Line>,
    hz: u32,
    rotational: bool,
    merging: bool,
    max_sectors: u32,
    depth: u32,
    order: Order,
    /// Time a request takes the device, and for each sector.
    service_us: (u64, u64),
    /// For each tunable in turn: which of its interesting values, or the default.
    picks: Vec<Option<u8>>,
}

/// One arrival.
#[derive(Clone, Debug)]
struct Line {
    /// Time since the arrival before, or since the completion it waits for.
    gap_us: u64,
    /// How many arrivals back is the one whose completion it waits for.
    after: Option<usize>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Submit {
        pid: u32,
        write: bool,
        sync: bool,
        noidle: bool,
        sector: u64,
        sectors: u32,
    },
    /// A request like one some places back, before or behind it on the disk, with a gap or without.
    Near {
        back: usize,
        before: bool,
        gap: u32,
        sectors: u32,
    },
    Exit {
        pid: u32,
    },
}

fn any_case() -> impl Strategy<Value = Case> {
    let queue = (
        prop_oneof![Just(100), Just(250), Just(300), Just(1000), Just(1024)],
        any::<bool>(),
        proptest::bool::weighted(0.75),
        prop_oneof![Just(1024), Just(64), Just(16)],
        prop_oneof![3 => Just(1), 1 => 2_u32..=32],
        prop_oneof![Just(Order::ArrivalsFirst), Just(Order::BatchedLast)],
        (prop_oneof![1 => 1_u64..100, 3 => 500_u64..6000], prop_oneof![Just(0), 1_u64..50]),
    );
    let picks = vec(proptest::option::weighted(0.4, any::<u8>()), 40);
    (vec(any_line(), 1..60), queue, picks).prop_map(|(lines, queue, picks)| {
        let (hz, rotational, merging, max_sectors, depth, order, service_us) = queue;
        Case { lines, hz, rotational, merging, max_sectors, depth, order, service_us, picks }
    })
}

fn any_line() -> impl Strategy<Value = Line> {
    let gap_us = prop_oneof![
        4 => Just(0_u64),
        3 => 1_u64..300,
        3 => 300_u64..12_000,
        1 => 12_000_u64..400_000,
        1 => 400_000_u64..6_000_000,
    ];
    let after = proptest::option::weighted(0.25, 1_usize..6);
    let sector = prop_oneof![4 => 0_u64..16, 1 => 0_u64..4_000_000].prop_map(|page| page * 8);
    let pages = prop_oneof![2 => Just(1_u32), 1 => 2_u32..5];
    let write = proptest::bool::weighted(0.6);
    let gap = prop_oneof![2 => Just(0_u32), 1 => Just(8)];
    let near =
        (1_usize..4, any::<bool>(), gap, pages.clone()).prop_map(|(back, before, gap, pages)| {
            What::Near { back, before, gap, sectors: pages * 8 }
        });
    let submit = (1_u32..=5, write, any::<bool>(), any::<bool>(), sector, pages).prop_map(
        |(pid, write, sync, noidle, sector, pages)| What::Submit {
            pid,
            write,
            sync,
            noidle,
            sector,
            sectors: pages * 8,
        },
    );
    let exit = (1_u32..=5).prop_map(|pid| What::Exit { pid });
    let what = prop_oneof![8 => submit, 5 => near, 1 => exit];
    (gap_us, after, what).prop_map(|(gap_us, after, what)| Line { gap_us, after, what })
}

impl Case {
    fn arrivals(&self) -> Vec<Arrival> {
        let mut now_ns = 0;
        let mut arrivals: Vec<Arrival> = Vec::new();
        for (place, line) in self.lines.iter().enumerate() {
            let gap_ns = line.gap_us * MICROSECOND_NS;
            let awaited = line
                .after
                .and_then(|back| place.checked_sub(back))
                .filter(|awaited| matches!(arrivals[*awaited].event, Event::Submit(_)));
            let when = if let Some(arrival) = awaited {
                When::After { arrival, think_ns: gap_ns }
            } else {
                now_ns += gap_ns;
                When::At(now_ns)
            };
            arrivals.push(Arrival { event: line.what.event(&arrivals), when });
        }
        arrivals
    }

    /// The tunables this input sets; extreme values only if asked for.
    fn given(&self, entry: &SchedulerEntry, extremes: bool) -> BTreeMap<String, Value> {
        entry
            .tunables()
            .zip(&self.picks)
            .filter_map(|(parameter, pick)| {
                let values = interesting_values(parameter, extremes);
                let value = values[usize::from((*pick)?) % values.len()].clone();
                Some((parameter.name.to_owned(), value))
            })
            .collect()
    }

    fn elevator(&self, entry: &SchedulerEntry, settings: &Settings) -> Elevator {
        let options = ElevatorOptions {
            hz: self.hz,
            rotational: self.rotational,
            merging: self.merging,
            max_sectors: self.max_sectors,
            ..ElevatorOptions::default()
        };
        Elevator::new(entry, settings, options)
    }

    fn settings(&self, entry: &SchedulerEntry, extremes: bool) -> Settings {
        entry.settings(&self.given(entry, extremes)).expect("interesting values are valid")
    }

    fn done_ns(&self, now_ns: u64, request: &Request) -> u64 {
        let (base, per_sector) = self.service_us;
        now_ns + (base + per_sector * u64::from(request.bio.sectors)) * MICROSECOND_NS
    }

    fn replay(&self, entry: &SchedulerEntry, settings: &Settings) -> Outcome {
        let mut elevator = self.elevator(entry, settings);
        replay(&mut elevator, &self.arrivals(), self.depth, self.order, &mut |now_ns, request| {
            self.done_ns(now_ns, request)
        })
    }

    fn show(&self, entry: &SchedulerEntry) -> String {
        let mut text = format!(
            "HZ {}, rotational {}, merging {}, at most {} sectors, depth {}, {:?}, {:?} us\n{:?}\n",
            self.hz,
            self.rotational,
            self.merging,
            self.max_sectors,
            self.depth,
            self.order,
            self.service_us,
            self.given(entry, true)
        );
        for (place, arrival) in self.arrivals().iter().enumerate() {
            writeln!(text, "{place}: {:?} {:?}", arrival.when, arrival.event)
                .expect("text can be written");
        }
        text
    }
}

impl What {
    fn event(&self, before: &[Arrival]) -> Event {
        match *self {
            Self::Exit { pid } => Event::Exit(pid),
            Self::Near { back, before: is_before, gap, sectors } => {
                let bios = before.iter().filter_map(|arrival| match arrival.event {
                    Event::Submit(bio) => Some(bio),
                    Event::Exit(_) => None,
                });
                let other = bios.rev().take(back).last().unwrap_or_else(|| bio(3, true, true));
                let gap = u64::from(gap);
                let sector = if is_before {
                    other.sector.saturating_sub(gap + u64::from(sectors))
                } else {
                    other.end() + gap
                };
                Event::Submit(Bio { sector, sectors, ..other })
            }
            Self::Submit { pid, write, sync, noidle, sector, sectors } => {
                let sync = !write || sync;
                let noidle = noidle && sync && write;
                Event::Submit(Bio { noidle, sector, sectors, ..bio(pid, write, sync) })
            }
        }
    }
}

/// A request at the start of the disk, with the priority that the process has.
fn bio(pid: u32, write: bool, sync: bool) -> Bio {
    let (class, level) = match pid {
        1 => (Class::RealTime, 2),
        2 => (Class::Idle, 7),
        5 => (Class::BestEffort, 0),
        _ => (Class::BestEffort, 4),
    };
    let direction = if write { Direction::Write } else { Direction::Read };
    Bio { pid, direction, sync, noidle: false, class, level, sector: 0, sectors: 8 }
}

/// Ends of the range, small numbers and multiples of the default; every word; both states.
fn interesting_values(parameter: &Parameter, extremes: bool) -> Vec<Value> {
    match parameter.kind {
        Kind::Switch => vec![Value::Switch(false), Value::Switch(true)],
        Kind::Choice(words) | Kind::Policy { names: words, .. } => {
            words.iter().map(|word| Value::Word((*word).to_owned())).collect()
        }
        Kind::Integer { min, max } => {
            let default: i64 = parameter.default.parse().expect("a whole number");
            let wanted = [min, 1, 2, default / 2, default * 2, default.saturating_mul(10)];
            let largest = extremes.then_some(max);
            let inside = |value: i64| Value::Integer(value.clamp(min, max));
            wanted.into_iter().chain(largest).map(inside).collect()
        }
    }
}

fn inputs_are_varied() -> Result<(), Failed> {
    let seen = std::cell::RefCell::new([0_u32; 5]);
    let ran = runner().run(&any_case(), |case| {
        let entry = sched::find_scheduler("mq-deadline-6.1").expect("it is in the table");
        let outcome = case.replay(entry, &case.settings(entry, false));
        let arrivals = case.arrivals();
        let is_exit = |arrival: &Arrival| matches!(arrival.event, Event::Exit(_));
        let mut seen = seen.borrow_mut();
        let kinds = [
            arrivals.iter().any(is_exit),
            arrivals.iter().any(|arrival| matches!(arrival.when, When::After { .. })),
            outcome.dispatched.iter().any(|request| request.arrivals.len() == 2),
            outcome.dispatched.iter().any(|request| request.arrivals.len() > 2),
            case.depth > 1,
        ];
        seen.iter_mut().zip(kinds).for_each(|(count, kind)| *count += u32::from(kind));
        Ok(())
    });
    ran.map_err(|error| error.to_string())?;
    let seen = seen.into_inner();
    if seen.iter().any(|count| *count < CASES / 20) {
        return Err(format!("exits, followers, merges, bridges, deep queues: {seen:?}").into());
    }
    Ok(())
}

// ------------------------------------------------------------------------------------ properties

fn is_dispatched_once(entry: &'static SchedulerEntry, case: &Case) -> Verdict {
    let outcome = case.replay(entry, &case.settings(entry, true));
    let arrivals = case.arrivals();
    prop_assert_eq!(&outcome.stuck, &Vec::<usize>::new(), "stuck");
    let mut done_ns: Vec<Option<u64>> = vec![None; arrivals.len()];
    for request in &outcome.dispatched {
        prop_assert!(request.complete_ns >= request.dispatch_ns);
        for place in &request.arrivals {
            prop_assert_eq!(done_ns[*place], None, "arrival {} is dispatched twice", place);
            done_ns[*place] = Some(request.complete_ns);
        }
    }
    for place in &outcome.cancelled {
        prop_assert_eq!(done_ns[*place], None, "arrival {} is dispatched and cancelled", place);
    }
    let mut arrived_ns: Vec<Option<u64>> = vec![None; arrivals.len()];
    for (place, arrival) in arrivals.iter().enumerate() {
        arrived_ns[place] = match arrival.when {
            When::At(time_ns) => Some(time_ns),
            When::After { arrival, think_ns } => done_ns[arrival].map(|time_ns| time_ns + think_ns),
        };
        let is_request = matches!(arrival.event, Event::Submit(_));
        let is_done = done_ns[place].is_some() || outcome.cancelled.contains(&place);
        let should_be = is_request && arrived_ns[place].is_some();
        prop_assert_eq!(is_done, should_be, "arrival {}: done, arrived", place);
    }
    for request in &outcome.dispatched {
        for place in &request.arrivals {
            prop_assert!(
                arrived_ns[*place].is_some_and(|time_ns| time_ns <= request.dispatch_ns),
                "arrival {} is dispatched before it arrives",
                place
            );
        }
        let is_on_device = |other: &&sched::replay::Dispatched| {
            other.dispatch_ns <= request.dispatch_ns && other.complete_ns > request.dispatch_ns
        };
        let load = outcome.dispatched.iter().filter(is_on_device).count();
        prop_assert!(load <= case.depth as usize, "{} requests on the device", load);
    }
    Ok(())
}

/// With the default policies nothing is cancelled.
fn survives_exits(entry: &'static SchedulerEntry, case: &Case) -> Verdict {
    let settings = entry.settings(&BTreeMap::new()).expect("defaults fit");
    let outcome = case.replay(entry, &settings);
    let requests = case.lines.iter().filter(|line| !matches!(line.what, What::Exit { .. }));
    let done: usize = outcome.dispatched.iter().map(|request| request.arrivals.len()).sum();
    prop_assert_eq!((&outcome.cancelled, &outcome.stuck), (&vec![], &vec![]));
    prop_assert_eq!(done, requests.count());
    Ok(())
}

fn repeats_itself(entry: &'static SchedulerEntry, case: &Case) -> Verdict {
    let settings = case.settings(entry, true);
    prop_assert_eq!(case.replay(entry, &settings), case.replay(entry, &settings));
    Ok(())
}

/// Stops somewhere in the middle, drains, and takes what there is.
fn drains(entry: &'static SchedulerEntry, case: &Case) -> Verdict {
    let settings = case.settings(entry, true);
    let mut device = Device::new(case, case.elevator(entry, &settings));
    device.run(case.lines.len() / 2, &mut |_, _| Ok(()))?;
    let now_ns = device.now_ns;
    for arrival in &case.arrivals()[case.lines.len() / 2..] {
        device.arrive(now_ns, arrival.event);
    }
    let waiting = device.elevator.waiting();
    device.elevator.drain(now_ns);
    prop_assert_eq!(device.elevator.scheduler().queued(), 0, "the scheduler kept some");
    let mut taken = Vec::new();
    while let Some(id) = device.elevator.next(now_ns) {
        prop_assert!(!taken.contains(&id), "{:?} is dispatched twice", id);
        taken.push(id);
    }
    prop_assert_eq!(taken.len(), waiting);
    prop_assert_eq!(device.elevator.waiting(), 0);
    Ok(())
}

/// Why a scheduler leaves the device idle although requests wait.
struct Pause {
    /// Beginning of the scheduler's name.
    scheduler: &'static str,
    /// Tunables in milliseconds, or in microseconds if they are called so, that it lasts, together, at
    /// most; and two ticks.
    tunables: &'static [&'static str],
    /// Milliseconds that come to that.
    more_ms: u64,
    /// Whether the scheduler says so: true if it waits for something better, false if its rules find
    /// nothing to do until a periodic check.
    is_told: bool,
}

/// A pause that the scheduler tells of, and that its tunables alone bound.
const fn told(scheduler: &'static str, tunables: &'static [&'static str]) -> Pause {
    Pause { scheduler, tunables, more_ms: 0, is_told: true }
}

/// All others keep the device busy.
const PAUSES: &[Pause] = &[
    told("anticipatory", &["antic_expire"]),
    // A queue of raised weight is idled for 20 ms, `strict_guarantees` wants 8 ms.
    Pause { more_ms: 20, ..told("bfq", &["slice_idle", "slice_idle_us"]) },
    told("cfq-3.4", &["slice_idle", "group_idle"]),
    told("cfq-2.6", &["slice_idle"]),
    // It waits for urgent reads first, then for regular ones.
    told("row", &["rd_idle_data", "rd_idle_data"]),
    Pause {
        is_told: false,
        ..told(
            "sfq-literal",
            &["read_expire", "write_expire", "starvation_check", "starvation_check"],
        )
    },
    // What is queued is asynchronous or of the idle class, and a process may go on.
    told("sfq2", &["grace"]),
];

fn conserves_work(entry: &'static SchedulerEntry, case: &Case) -> Verdict {
    let settings = case.settings(entry, false);
    let reason = PAUSES.iter().find(|pause| entry.name.starts_with(pause.scheduler));
    let milliseconds = |name: &&str| {
        let value = u64::from(settings.integer(name));
        if name.ends_with("_us") { value.div_ceil(1000) } else { value }
    };
    let ticks_ms = 2 * 1000_u64.div_ceil(u64::from(case.hz));
    let longest_ns = reason.map_or(0, |pause| {
        let tunables_ms = pause.tunables.iter().map(milliseconds).sum::<u64>();
        (tunables_ms + pause.more_ms + ticks_ms) * MILLISECOND_NS
    });
    let mut device = Device::new(case, case.elevator(entry, &settings));
    let mut idle_since_ns = None;
    device.run(usize::MAX, &mut |device, now_ns| {
        let (elevator, scheduler) = (&device.elevator, device.elevator.scheduler());
        let listed = elevator.queue().dispatch_list().count();
        prop_assert_eq!(elevator.waiting(), scheduler.queued() + listed, "requests that wait");
        if elevator.waiting() == 0 || !device.running.is_empty() {
            idle_since_ns = None;
            return Ok(());
        }
        let is_told = reason.is_some_and(|pause| !pause.is_told || scheduler.is_idling());
        prop_assert!(is_told, "idle at {} ns for no stated reason", now_ns);
        let Some(end_ns) = elevator.timer_ns() else {
            return Err(TestCaseError::fail(format!("idle at {now_ns} ns for ever")));
        };
        // A scheduler that stalls does so for each request, one that waits for all.
        let since_ns = match reason {
            Some(Pause { is_told: false, .. }) => now_ns,
            _ => *idle_since_ns.get_or_insert(now_ns),
        };
        prop_assert!(end_ns <= since_ns + longest_ns, "idle from {} to {} ns", since_ns, end_ns);
        Ok(())
    })?;
    prop_assert_eq!(device.elevator.waiting(), 0, "left over");
    Ok(())
}

/// A device driver that shows its state after every event, unlike the library's replay.
struct Device<'a> {
    case: &'a Case,
    elevator: Elevator,
    running: BinaryHeap<Reverse<(u64, RequestId)>>,
    now_ns: u64,
}

impl<'a> Device<'a> {
    fn new(case: &'a Case, elevator: Elevator) -> Self {
        Self { case, elevator, running: BinaryHeap::new(), now_ns: 0 }
    }

    /// Serves the first `count` arrivals, each so long after the one before, and all that follows
    /// from them; `check` sees the state whenever nothing more happens at once.
    fn run(&mut self, count: usize, check: &mut dyn FnMut(&Self, u64) -> Verdict) -> Verdict {
        let case = self.case;
        let arrivals = case.arrivals();
        let mut lines = case.lines.iter().zip(&arrivals).take(count).peekable();
        let mut due_ns = lines.peek().map_or(0, |(line, _)| line.gap_us * MICROSECOND_NS);
        let ends_here = count < case.lines.len();
        for _ in 0..100_000 {
            let arrival = lines.peek().map(|_| due_ns);
            if ends_here && arrival.is_none() {
                return Ok(());
            }
            let completion = self.running.peek().map(|Reverse((time_ns, _))| *time_ns);
            let is_busy = arrival.is_some() || completion.is_some() || self.elevator.waiting() > 0;
            let timer = self.elevator.timer_ns().filter(|_| is_busy);
            let Some(next_ns) = [arrival, completion, timer].into_iter().flatten().min() else {
                return Ok(());
            };
            self.now_ns = self.now_ns.max(next_ns);
            let now_ns = self.now_ns;
            if completion == Some(next_ns) {
                let Reverse((_, id)) = self.running.pop().expect("it was peeked at");
                self.elevator.complete(now_ns, id);
                self.fill();
            } else if timer == Some(next_ns) {
                self.elevator.timer(now_ns);
            } else if let Some((_, arrival)) = lines.next() {
                self.arrive(now_ns, arrival.event);
                due_ns += lines.peek().map_or(0, |(line, _)| line.gap_us * MICROSECOND_NS);
                self.fill();
            }
            while self.elevator.take_run_soon() && self.fill() {}
            check(self, now_ns)?;
        }
        Err(TestCaseError::fail("timers fire for ever"))
    }

    fn arrive(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Submit(bio) => {
                if self.elevator.try_merge(now_ns, &bio).is_none() {
                    self.elevator.insert(now_ns, bio);
                }
            }
            Event::Exit(pid) => {
                self.elevator.exit(now_ns, pid);
            }
        }
    }

    fn fill(&mut self) -> bool {
        let before = self.running.len();
        while self.running.len() < self.case.depth as usize {
            let Some(id) = self.elevator.next(self.now_ns) else { break };
            let request = &self.elevator.queue().requests[id];
            self.running.push(Reverse((self.case.done_ns(self.now_ns, request), id)));
        }
        self.running.len() > before
    }
}

// --------------------------------------------------------------------------------------- waiting

/// A promise that a lone request is served although others keep the device busy for ever.
#[derive(Clone, Copy)]
struct Promise {
    who: &'static str,
    /// The request that waits.
    victim: Kindness,
    /// What the others do.
    others: Kindness,
    /// Longest time it waits, at 1 ms a request and default tunables.
    within_ms: u64,
}

/// What requests of a promise are.
#[derive(Clone, Copy)]
struct Kindness {
    direction: Direction,
    sync: bool,
    class: Class,
}

const READ: Kindness =
    Kindness { direction: Direction::Read, sync: true, class: Class::BestEffort };
const WRITE: Kindness = Kindness { direction: Direction::Write, sync: false, ..READ };
const IDLE_READ: Kindness = Kindness { class: Class::Idle, ..READ };
const IDLE_WRITE: Kindness = Kindness { class: Class::Idle, ..WRITE };
const URGENT_READ: Kindness = Kindness { class: Class::RealTime, ..READ };

/// Processes that keep the device busy; each submits its next request when one is done.
const OTHERS: u32 = 8;

/// Sectors from one request of the others to the next.
const STRIDE: u64 = 1000;

const fn promise(who: &'static str, victim: Kindness, others: Kindness, within_ms: u64) -> Promise {
    Promise { who, victim, others, within_ms }
}

/// What a scheduler promises by its rules; the bounds are those of the rules, rounded up.
fn promises(scheduler: &str) -> &'static [Promise] {
    const WRITE_BEHIND_READS: &str = "a write behind endless reads";
    const READ_BEHIND_READS: &str = "a read behind an endless sweep of reads";
    const WRITE_BEHIND_WRITES: &str = "a write behind an endless sweep of writes";
    const READ_BEHIND_WRITES: &str = "a read behind endless writes";
    /// Three batches of 16; 500 or 5000 ms and the rest of a batch of 16; a batch of 16.
    const DEADLINE: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 50),
        promise(READ_BEHIND_READS, READ, READ, 520),
        promise(WRITE_BEHIND_WRITES, WRITE, WRITE, 5020),
        promise(READ_BEHIND_WRITES, READ, WRITE, 18),
    ];
    /// The same, and the aging of lower classes.
    const MQ_DEADLINE: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 50),
        promise(READ_BEHIND_READS, READ, READ, 520),
        promise(WRITE_BEHIND_WRITES, WRITE, WRITE, 5020),
        promise(READ_BEHIND_WRITES, READ, WRITE, 18),
        promise("an idle read behind endless real-time reads", IDLE_READ, URGENT_READ, 10_020),
        promise("an idle write behind endless reads", IDLE_WRITE, READ, 10_020),
    ];
    /// A batch of the other domain; all that are queued.
    const KYBER: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 18),
        promise(READ_BEHIND_READS, READ, READ, 10),
        promise(WRITE_BEHIND_WRITES, WRITE, WRITE, 10),
        promise(READ_BEHIND_WRITES, READ, WRITE, 10),
    ];
    const NOOP: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 10),
        promise(READ_BEHIND_READS, READ, READ, 10),
        promise(WRITE_BEHIND_WRITES, WRITE, WRITE, 10),
        promise(READ_BEHIND_WRITES, READ, WRITE, 10),
    ];
    /// A round of visits of three to each process and, after each third, to asynchronous requests.
    const SFQ: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 12),
        promise(READ_BEHIND_READS, READ, READ, 30),
        promise(WRITE_BEHIND_WRITES, WRITE, WRITE, 12),
        promise(READ_BEHIND_WRITES, READ, WRITE, 8),
    ];
    /// A turn of each other process, two requests; one turn of four; one visit of nine.
    const SFQ2: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 8),
        promise(READ_BEHIND_READS, READ, READ, 20),
        promise(WRITE_BEHIND_WRITES, WRITE, WRITE, 12),
        promise(READ_BEHIND_WRITES, READ, WRITE, 4),
        promise("an idle read behind endless real-time reads", IDLE_READ, URGENT_READ, 20),
        promise("an idle write behind endless reads", IDLE_WRITE, READ, 20),
    ];
    /// Its starvation checker alone: 500 or 5000 ms, a check every 100 ms.
    const SFQ_LITERAL: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 5130),
        promise(READ_BEHIND_READS, READ, READ, 630),
        promise(READ_BEHIND_WRITES, READ, WRITE, 630),
    ];
    /// A hundred reads to a write and as many idle times; the others at once.
    const ROW: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 700),
        promise(READ_BEHIND_READS, READ, READ, 10),
        promise(READ_BEHIND_WRITES, READ, WRITE, 10),
    ];
    /// A batch of reads of 500 ms, and as long again for anticipation.
    const ANTICIPATORY: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 1000),
        promise(READ_BEHIND_READS, READ, READ, 1000),
        promise(READ_BEHIND_WRITES, READ, WRITE, 1000),
    ];
    /// A slice of 100 ms and its idle time for each process, twice round; asynchronous last.
    const CFQ_2_6: &[Promise] = &[
        promise(WRITE_BEHIND_READS, WRITE, READ, 3000),
        promise(READ_BEHIND_READS, READ, READ, 2000),
        promise(READ_BEHIND_WRITES, READ, WRITE, 1000),
    ];
    /// Among synchronous requests none: one that arrives while the queue in turn is empty and not
    /// worth idling for takes the turn and the first place, so two processes that do not think may
    /// alternate for ever.
    const CFQ_3_4: &[Promise] = &[promise(READ_BEHIND_WRITES, READ, WRITE, 1000)];
    const TABLE: &[(&str, &[Promise])] = &[
        ("anticipatory", ANTICIPATORY),
        ("cfq-2.6", CFQ_2_6),
        ("cfq-3.4", CFQ_3_4),
        ("deadline-", DEADLINE),
        ("kyber", KYBER),
        ("mq-deadline-", MQ_DEADLINE),
        // First in, first out, as noop.
        ("none", NOOP),
        ("noop", NOOP),
        ("row", ROW),
        ("sfq-literal", SFQ_LITERAL),
        ("sfq2", SFQ2),
        ("sfq", SFQ),
    ];
    TABLE.iter().find(|(name, _)| scheduler.starts_with(name)).map_or(&[], |(_, row)| row)
}

impl Promise {
    /// The others sweep upwards from sector 1 000 000; the victim is behind them, at sector 8, and
    /// comes a second after they began.
    fn check(self, entry: &'static SchedulerEntry) -> Result<(), Failed> {
        let settings = entry.settings(&BTreeMap::new())?;
        let mut elevator = Elevator::new(entry, &settings, ElevatorOptions::default());
        let victim_ns = 1000 * MILLISECOND_NS + MILLISECOND_NS / 3;
        let mut arrivals = vec![Arrival {
            event: Event::Submit(self.victim.bio(100, 8)),
            when: When::At(victim_ns),
        }];
        let rounds = (2 * self.within_ms + 3000) / u64::from(OTHERS);
        for round in 0..rounds {
            for other in 0..OTHERS {
                let sector = 1_000_000 + (round * u64::from(OTHERS) + u64::from(other)) * STRIDE;
                let when = match arrivals.len().checked_sub(OTHERS as usize) {
                    Some(arrival) if round > 0 => When::After { arrival, think_ns: 0 },
                    _ => When::At(0),
                };
                let event = Event::Submit(self.others.bio(other + 1, sector));
                arrivals.push(Arrival { event, when });
            }
        }
        let mut service = |now_ns: u64, _: &Request| now_ns + MILLISECOND_NS;
        let outcome = replay(&mut elevator, &arrivals, 1, Order::ArrivalsFirst, &mut service);
        let place = outcome.dispatched.iter().position(|request| request.arrivals == [0]);
        let Some(place) = place else { return Err("it was never served".into()) };
        let waited_ns = outcome.dispatched[place].dispatch_ns - victim_ns;
        if place + OTHERS as usize >= outcome.dispatched.len() {
            return Err("it was served when the others were through".into());
        }
        if waited_ns > self.within_ms * MILLISECOND_NS {
            return Err(format!("it waited {} us", waited_ns / MICROSECOND_NS).into());
        }
        Ok(())
    }
}

impl Kindness {
    fn bio(self, pid: u32, sector: u64) -> Bio {
        Bio {
            pid,
            direction: self.direction,
            sync: self.sync,
            noidle: false,
            class: self.class,
            level: 4,
            sector,
            sectors: 8,
        }
    }
}
