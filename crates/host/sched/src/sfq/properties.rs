//! What must hold of SFQ whatever arrives: turns, lengths of visits, starvation, nothing lost.

use super::literal::Literal;
use super::visits::Visits;
use super::{ENTRY, ENTRY_LITERAL, Policy, Sfq};
use crate::{Bio, Class, Clock, Direction, Queue, Request, RequestId, Scheduler, SchedulerEntry};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use settings::{Settings, Value};
use std::collections::BTreeMap;

const MILLISECOND_NS: u64 = 1_000_000;
const PERIOD_NS: u64 = 20 * MILLISECOND_NS;
const EXPIRE_NS: [u64; 2] = [70 * MILLISECOND_NS, 150 * MILLISECOND_NS];

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive { pid: u32, direction: Direction, sync: bool },
    Dispatch,
    Pass { microseconds: u64 },
    Exit { pid: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let direction = prop_oneof![Just(Direction::Read), Just(Direction::Write)];
    let arrive = (0..5u32, direction, prop::bool::weighted(0.8))
        .prop_map(|(pid, direction, sync)| Step::Arrive { pid, direction, sync });
    let step = prop_oneof![
        8 => arrive,
        8 => Just(Step::Dispatch),
        1 => (0..30_000u64).prop_map(|microseconds| Step::Pass { microseconds }),
        1 => (0..5u32).prop_map(|pid| Step::Exit { pid }),
    ];
    vec(step, 1..300)
}

fn given() -> impl Strategy<Value = BTreeMap<String, Value>> {
    let fill = prop_oneof![Just("both"), Just("writes"), Just("none")];
    (1..5i64, 1..6i64, 1..4i64, 1..4i64, fill).prop_map(
        |(visits, requests, reads, writes, fill)| {
            let numbers = [
                ("sync_visits", visits),
                ("visit_requests", requests),
                ("visit_reads", reads),
                ("visit_writes", writes),
                ("starvation_check", 20),
                ("read_expire", 70),
                ("write_expire", 150),
            ];
            let numbers = numbers.map(|(name, number)| (name.to_owned(), Value::Integer(number)));
            numbers.into_iter().chain([("fill".to_owned(), Value::from(fill))]).collect()
        },
    )
}

fn settings(entry: &SchedulerEntry, given: &BTreeMap<String, Value>) -> Settings {
    let known = |name: &str| entry.parameters.iter().any(|parameter| parameter.name == name);
    let given = given.iter().filter(|(name, _)| known(name));
    let given = given.map(|(name, value)| (name.clone(), value.clone()));
    entry.settings(&given.collect()).expect("values in range")
}

/// A queue in the model of the test: a process and how often one of that number has exited; or async.
type Key = Option<(u32, u32)>;

#[derive(Clone, Copy, Debug)]
struct Held {
    key: Key,
    direction: Direction,
    expires_ns: u64,
}

/// A scheduler, and an account of what it holds that is kept beside it.
struct Rig<P> {
    sfq: Sfq<P>,
    queue: Queue,
    now_ns: u64,
    generations: BTreeMap<u32, u32>,
    held: BTreeMap<RequestId, Held>,
    /// Requests seen on the dispatch list, and which call moved each one there.
    sent: usize,
}

impl<P: Policy> Rig<P> {
    fn new(settings: &Settings, policy: P) -> Self {
        Self {
            sfq: Sfq::new(settings, policy),
            queue: Queue::new(Clock { hz: 1000 }, true, 128),
            now_ns: 0,
            generations: BTreeMap::new(),
            held: BTreeMap::new(),
            sent: 0,
        }
    }

    fn arrive(&mut self, pid: u32, direction: Direction, sync: bool) -> Key {
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
        let request = Request { insert_ns: self.now_ns, ..Request::new(bio) };
        let id = self.queue.requests.add(request);
        self.sfq.insert(self.now_ns, id, &mut self.queue);
        let generation = self.generations.get(&pid).copied().unwrap_or(0);
        let key = sync.then_some((pid, generation));
        let expires_ns = self.now_ns + EXPIRE_NS[direction as usize];
        self.held.insert(id, Held { key, direction, expires_ns });
        key
    }

    fn exit(&mut self, pid: u32) {
        self.sfq.exit(self.now_ns, pid, &mut self.queue);
        *self.generations.entry(pid).or_default() += 1;
    }

    fn holds(&self, key: Key) -> bool {
        self.held.values().any(|held| held.key == key)
    }

    /// Takes what was moved to the dispatch list since the last time off the account. Of each kind
    /// in each queue the oldest must go first.
    fn take_sent(&mut self) -> Result<Vec<Held>, TestCaseError> {
        let ids: Vec<RequestId> = self.queue.dispatch_list().skip(self.sent).collect();
        self.sent += ids.len();
        let mut taken = Vec::new();
        for id in ids {
            let of = self.held.remove(&id);
            prop_assert!(of.is_some(), "{:?} was sent twice", id);
            let of = of.expect("just seen");
            let mut older = self.held.range(..id);
            prop_assert!(!older.any(|(_, o)| (o.key, o.direction) == (of.key, of.direction)));
            taken.push(of);
        }
        prop_assert_eq!(self.sfq.queued(), self.held.len());
        Ok(taken)
    }

    /// Lets time pass, with checks when they are due.
    fn pass(&mut self, ns: u64) -> Result<(), TestCaseError> {
        let end_ns = self.now_ns + ns;
        while let Some(check_ns) = self.sfq.timer_ns().filter(|check_ns| *check_ns <= end_ns) {
            prop_assert!(check_ns > self.now_ns && check_ns % PERIOD_NS == 0);
            self.now_ns = check_ns;
            self.sfq.timer(check_ns, &mut self.queue);
            let taken = self.take_sent()?;
            prop_assert!(!taken.is_empty(), "a check that is armed finds something");
            prop_assert!(std::mem::take(&mut self.queue.run_soon));
            prop_assert!(taken.iter().all(|held| held.expires_ns < check_ns));
            prop_assert!(taken.is_sorted_by_key(|held| (held.direction, held.expires_ns)));
        }
        self.now_ns = end_ns;
        let checked_ns = end_ns / PERIOD_NS * PERIOD_NS;
        let starves = |held: &Held| held.expires_ns < checked_ns;
        prop_assert!(!self.held.values().any(starves), "a check was missed");
        Ok(())
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        let held = self.held.len();
        let moved = self.sfq.dispatch(self.now_ns, true, &mut self.queue);
        prop_assert_eq!(moved as usize, held);
        prop_assert_eq!(self.take_sent()?.len(), held);
        prop_assert_eq!(self.sfq.timer_ns(), None);
        Ok(())
    }
}

/// When visits ended and since when each queue has had requests, in steps.
#[derive(Default)]
struct Turns {
    visit_under_way: Option<Key>,
    visit_ended: BTreeMap<Key, usize>,
    busy_since: BTreeMap<Key, usize>,
    /// Visits to processes since the async queue was visited or, if that is later, began to wait.
    sync_visits_past_async: u32,
}

impl Turns {
    /// Since when a process queue that has requests waits for its turn; none if it has no requests.
    fn waits_since(&self, key: Key) -> Option<usize> {
        let busy_since = self.busy_since.get(&key)?;
        Some(self.visit_ended.get(&key).map_or(*busy_since, |ended| *ended.max(busy_since)))
    }

    /// A visit begins; `async_waits` if the async queue has requests.
    ///
    /// No process queue has waited longer than the one that is visited. Hence between two visits to
    /// a queue that stays busy every other one is visited at most once, and no process that came
    /// later at all: the number of those that were busy bounds how many visits a queue waits for.
    fn begin(&mut self, step: usize, key: Key, limit: u32, async_waits: bool) {
        if let Some(before) = self.visit_under_way.replace(key) {
            self.visit_ended.insert(before, step);
        }
        if key.is_none() {
            self.sync_visits_past_async = 0;
        } else {
            let own = self.waits_since(key);
            let mut others = self.busy_since.keys().filter(|other| other.is_some());
            let passed_over =
                others.find(|other| **other != key && self.waits_since(**other) < own);
            assert_eq!(passed_over, None, "{key:?} was visited before it");
            self.sync_visits_past_async += u32::from(async_waits);
            assert!(self.sync_visits_past_async <= limit);
        }
    }

    fn forget_empty<P: Policy>(&mut self, rig: &Rig<P>) {
        self.busy_since.retain(|key, _| rig.holds(*key));
        if !rig.holds(None) {
            self.sync_visits_past_async = 0;
        }
    }
}

/// No more requests of a kind than its share and what `fill` lets it have beside.
fn check_lengths(settings: &Settings, [reads, writes]: [u32; 2]) {
    assert!(reads + writes <= settings.integer("visit_requests"));
    let fill = settings.word("fill");
    assert!(fill == "both" || reads <= settings.integer("visit_reads"));
    assert!(fill != "none" || writes <= settings.integer("visit_writes"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn turns_are_fair_and_nothing_waits_for_ever(given in given(), steps in steps()) {
        let settings = settings(&ENTRY, &given);
        let mut rig = Rig::new(&settings, Visits::new(&settings));
        let mut turns = Turns::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Arrive { pid, direction, sync } => {
                    let key = rig.arrive(pid, direction, sync);
                    turns.busy_since.entry(key).or_insert(number);
                }
                Step::Dispatch => {
                    let async_waits = rig.holds(None);
                    let is_idle = rig.held.is_empty();
                    let moved = rig.sfq.dispatch(rig.now_ns, false, &mut rig.queue);
                    prop_assert_eq!(moved, u32::from(!is_idle), "it never rests on requests");
                    let taken = rig.take_sent()?;
                    let of_visit = rig.sfq.policy.taken;
                    check_lengths(&settings, of_visit);
                    if of_visit.iter().sum::<u32>() == 1 && moved == 1 {
                        let limit = settings.integer("sync_visits");
                        turns.begin(number, taken[0].key, limit, async_waits);
                    }
                }
                Step::Pass { microseconds } => rig.pass(microseconds * 1000)?,
                Step::Exit { pid } => rig.exit(pid),
            }
            turns.forget_empty(&rig);
        }
        rig.drain()?;
    }

    #[test]
    fn even_the_literal_version_serves_every_process(given in given(), steps in steps()) {
        let settings = settings(&ENTRY_LITERAL, &given);
        let mut rig = Rig::new(&settings, Literal::new(&settings));
        for step in steps {
            match step {
                Step::Arrive { pid, direction, sync } => {
                    rig.arrive(pid, direction, sync);
                }
                Step::Dispatch => {
                    let moved = rig.sfq.dispatch(rig.now_ns, false, &mut rig.queue);
                    prop_assert_eq!(rig.take_sent()?.len(), moved as usize);
                }
                Step::Pass { microseconds } => rig.pass(microseconds * 1000)?,
                Step::Exit { pid } => rig.exit(pid),
            }
        }
        rig.drain()?;
    }
}
