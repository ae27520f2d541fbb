//! Requests that the driver gives back, that are joined while they wait, or that need a zone: what holds whatever comes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use sched::{
    Bio, Class, Direction, Elevator, ElevatorOptions, Joins, RequestId, SCHEDULERS, Settings,
    Value, find_scheduler,
};
use std::collections::BTreeMap;

const US: u64 = 1000;
const ZONE_SECTORS: u64 = 64;

fn elevator(scheduler: &str, given: &[(&str, i64)]) -> Elevator {
    let entry = find_scheduler(scheduler).expect("a scheduler");
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), Value::Integer(*value)));
    let settings: Settings = entry.settings(&given.collect()).expect("values in range");
    Elevator::new(entry, &settings, ElevatorOptions { hz: 250, ..ElevatorOptions::default() })
}

fn bio(pid: u32, direction: Direction, sync: bool, sector: u64) -> Bio {
    let (noidle, class, level, sectors) = (false, Class::BestEffort, 4, 8);
    Bio { pid, direction, sync, noidle, class, level, sector, sectors }
}

fn read(pid: u32, sector: u64) -> Bio {
    bio(pid, Direction::Read, true, sector)
}

/// Two neighbours of one process, the later on the disk first in its queue, then a third that joins them.
fn join_three(elevator: &mut Elevator, at_ns: [u64; 2]) -> [RequestId; 4] {
    // The request merged last is another one, or the third would find no second neighbour.
    let other = elevator.insert(at_ns[0], read(1, 900));
    let later = elevator.insert(at_ns[0], read(1, 8));
    let between = elevator.insert(at_ns[0], read(1, 300));
    let first = elevator.insert(at_ns[1], read(1, 0));
    assert_eq!(elevator.merge_behind(at_ns[1], &read(1, 16)), Some(later));
    assert_eq!(elevator.join_behind(at_ns[1], later), Some(first));
    assert_eq!(elevator.queue().requests[first].bio.sectors, 24);
    [other, later, between, first]
}

#[test]
fn a_survivor_of_sfq_keeps_its_place_and_its_expiry() {
    let mut elevator = elevator("sfq", &[]);
    let [other, _, between, first] = join_three(&mut elevator, [0, 5 * US]);
    assert_eq!(elevator.queue().requests[first].deadline, 500_000_000 + 5 * US);
    let order: Vec<_> = (0..4).map(|_| elevator.next(6 * US)).collect();
    assert_eq!(order, [Some(other), Some(between), Some(first), None]);
}

#[test]
fn a_survivor_of_sfq2_inherits_the_earlier_place_and_expiry() {
    let mut sfq2 = elevator("sfq2", &[]);
    let [other, _, between, first] = join_three(&mut sfq2, [0, 5 * US]);
    assert_eq!(sfq2.queue().requests[first].deadline, 500_000_000);
    let order: Vec<_> = (0..4).map(|_| sfq2.next(6 * US)).collect();
    assert_eq!(order, [Some(other), Some(first), Some(between), None]);
    // Of two that expire together neither is earlier.
    let mut sfq2 = elevator("sfq2", &[]);
    let [other, _, between, first] = join_three(&mut sfq2, [0, 0]);
    let order: Vec<_> = (0..3).map(|_| sfq2.next(0)).collect();
    assert_eq!(order, [Some(other), Some(between), Some(first)]);
}

/// With every second request sent for its expiry: of those that expire together the survivor is the last.
#[test]
fn a_survivor_of_sfq2_expires_behind_those_of_the_same_time() {
    let mut sfq2 = elevator("sfq2", &[("expired_interval", 1), ("read_expire", 0)]);
    let [other, _, between, first] = join_three(&mut sfq2, [0, 5 * US]);
    // The visit goes by the places in the queue, and the next by expiry.
    let order: Vec<_> = (0..3).map(|_| sfq2.next(6 * US)).collect();
    assert_eq!(order, [Some(other), Some(between), Some(first)]);
}

#[test]
fn what_comes_back_goes_before_the_visit_under_way() {
    for scheduler in ["sfq", "sfq2", "mq-deadline-6.1", "mq-deadline-6.12"] {
        let mut elevator = elevator(scheduler, &[]);
        for place in 0..4 {
            elevator.insert(0, read(1, 100 * place));
        }
        let sent: Vec<_> = (0..2).map(|_| elevator.next(0).expect(scheduler)).collect();
        elevator.requeue(1, sent[0], true);
        elevator.requeue(1, sent[1], false);
        let again: Vec<_> = (0..2).map(|_| elevator.next(1).expect(scheduler)).collect();
        assert_eq!(again, sent, "{scheduler}");
        elevator.requeue(2, sent[0], true);
        elevator.requeue(2, sent[1], true);
        assert_eq!(elevator.next(2), Some(sent[1]), "{scheduler}: the head is before the others");
    }
}

#[test]
fn what_goes_past_the_queues_is_first_and_counts_for_nothing() {
    for scheduler in ["sfq", "sfq2", "mq-deadline-6.12"] {
        let mut elevator = elevator(scheduler, &[]);
        let queued = elevator.insert(0, read(1, 0));
        let flush = elevator.insert_at_head(0, bio(2, Direction::Write, true, 8));
        assert_eq!(elevator.merge_behind(0, &bio(2, Direction::Write, true, 16)), None);
        assert_eq!(
            (elevator.next(0), elevator.next(0)),
            (Some(flush), Some(queued)),
            "{scheduler}"
        );
        elevator.complete(1, flush);
        elevator.complete(1, queued);
        assert!(elevator.queue().requests.is_empty());
    }
}

#[test]
fn a_write_waits_for_its_zone_and_others_pass_it() {
    let mut elevator = elevator("sfq", &[("write_expire", 0), ("starvation_check", 1)]);
    let write = |sector| bio(1, Direction::Write, true, sector);
    let insert = |elevator: &mut Elevator, sector, zone| {
        elevator.insert_of(0, write(sector), Joins::Data, Some(zone))
    };
    let first = insert(&mut elevator, 0, 1);
    let second = insert(&mut elevator, 100, 1);
    let other = insert(&mut elevator, 64, 2);
    assert_eq!(elevator.timer_ns(), None, "writes to zones never expire");
    assert_eq!((elevator.next(0), elevator.next(0)), (Some(first), Some(other)));
    assert_eq!(elevator.next(0), None, "its zone has a write with the driver");
    let reader = elevator.insert(0, read(2, 500));
    assert_eq!(elevator.next(0), Some(reader), "the turn of what waits for zones is over");
    elevator.requeue(0, first, true);
    assert_eq!((elevator.next(0), elevator.next(0)), (Some(first), None));
    elevator.complete(1, first);
    assert_eq!(elevator.next(1), Some(second));
}

#[test]
fn nothing_joins_what_is_not_to_be_joined() {
    let mut elevator = elevator("sfq", &[]);
    let write = |sector| bio(1, Direction::Write, true, sector);
    elevator.insert_of(0, write(0), Joins::Nothing, None);
    assert_eq!(elevator.try_merge(0, &write(8)), None);
    let discard = elevator.insert_of(0, write(100), Joins::Discards, None);
    assert_eq!(elevator.merge_behind(0, &write(108)), None);
    assert_eq!(elevator.merge_behind_of(0, &write(108), Joins::Nothing), None);
    assert_eq!(elevator.merge_behind_of(0, &write(108), Joins::Discards), Some(discard));
    // As long as a discard may be, far beyond the limit of requests with data.
    let long = Bio { sectors: 1 << 20, ..write(116) };
    assert_eq!(
        elevator.try_merge_of(0, &long, Joins::Discards).map(|it| it.survivor),
        Some(discard)
    );
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request from a plug: joined with what waits, or inserted.
    Arrive {
        pid: u32,
        write: bool,
        sync: bool,
        block: u64,
        joins: Joins,
    },
    AtHead {
        pid: u32,
        block: u64,
    },
    Dispatch,
    Requeue {
        which: usize,
        at_head: bool,
    },
    Complete {
        which: usize,
    },
    Pass {
        us: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let joins = prop_oneof![8 => Just(Joins::Data), 1 => Just(Joins::Nothing)];
    let arrive = (1..4_u32, any::<bool>(), any::<bool>(), 0..24_u64, joins).prop_map(
        |(pid, write, sync, block, joins)| Step::Arrive { pid, write, sync, block, joins },
    );
    let requeue =
        (0..8_usize, any::<bool>()).prop_map(|(which, at_head)| Step::Requeue { which, at_head });
    let step = prop_oneof![
        10 => arrive,
        1 => (1..4_u32, 0..24_u64).prop_map(|(pid, block)| Step::AtHead { pid, block }),
        6 => Just(Step::Dispatch),
        2 => requeue,
        3 => (0..8_usize).prop_map(|which| Step::Complete { which }),
        1 => (0..30_000_u64).prop_map(|us| Step::Pass { us }),
    ];
    vec(step, 1..200)
}

/// An elevator, and an account of what came and what is with the driver.
struct Rig {
    elevator: Elevator,
    has_zones: bool,
    now_ns: u64,
    in_flight: Vec<RequestId>,
    arrived_sectors: u64,
    completed_sectors: u64,
    absorbed: u32,
}

impl Rig {
    fn arrive(&mut self, bio: Bio, joins: Joins) -> Result<(), TestCaseError> {
        self.arrived_sectors += u64::from(bio.sectors);
        let Some(mut into) = self.elevator.merge_behind_of(self.now_ns, &bio, joins) else {
            let zone = (bio.sector / ZONE_SECTORS) as u32;
            let needs = self.has_zones && bio.direction == Direction::Write;
            self.elevator.insert_of(self.now_ns, bio, joins, needs.then_some(zone));
            return Ok(());
        };
        loop {
            let before = self.elevator.queue().requests[into];
            let Some(survivor) = self.elevator.join_behind(self.now_ns, into) else { break };
            let joined = &self.elevator.queue().requests[survivor];
            prop_assert_eq!(
                joined.end(),
                before.end(),
                "the survivor ends where the other one did"
            );
            prop_assert_eq!(joined.joins, before.joins);
            self.absorbed += 1;
            into = survivor;
        }
        Ok(())
    }

    fn dispatch(&mut self) -> Result<bool, TestCaseError> {
        let first = self.elevator.queue().dispatch_list().next();
        let chosen = self.elevator.next(self.now_ns);
        prop_assert!(
            first.is_none() || chosen == first,
            "the dispatch list goes before any choice"
        );
        if let Some(id) = chosen {
            let zone = self.elevator.queue().requests[id].zone;
            let mut others =
                self.in_flight.iter().map(|id| self.elevator.queue().requests[*id].zone);
            prop_assert!(
                zone.is_none() || !others.any(|other| other == zone),
                "one write to a zone"
            );
            self.in_flight.push(id);
        }
        Ok(chosen.is_some())
    }

    fn requeue(&mut self, which: usize, at_head: bool) -> Result<(), TestCaseError> {
        if self.in_flight.is_empty() {
            return Ok(());
        }
        let id = self.in_flight.swap_remove(which % self.in_flight.len());
        self.elevator.requeue(self.now_ns, id, at_head);
        let mut list = self.elevator.queue().dispatch_list();
        let end = if at_head { list.next() } else { list.last() };
        prop_assert_eq!(end, Some(id));
        Ok(())
    }

    fn complete(&mut self, which: usize) {
        if self.in_flight.is_empty() {
            return;
        }
        let id = self.in_flight.swap_remove(which % self.in_flight.len());
        let request = self.elevator.complete(self.now_ns, id);
        self.completed_sectors += u64::from(request.bio.sectors);
    }

    fn pass(&mut self, ns: u64) {
        self.now_ns += ns;
        while let Some(due_ns) = self.elevator.timer_ns().filter(|due_ns| *due_ns <= self.now_ns) {
            self.elevator.timer(due_ns);
            if self.elevator.timer_ns() == Some(due_ns) {
                break;
            }
        }
    }
}

fn run(scheduler: &str, has_zones: bool, steps: &[Step]) -> Result<u32, TestCaseError> {
    let mut rig = Rig {
        elevator: elevator(scheduler, &[("read_expire", 10), ("write_expire", 20)]),
        has_zones,
        now_ns: 0,
        in_flight: Vec::new(),
        arrived_sectors: 0,
        completed_sectors: 0,
        absorbed: 0,
    };
    for step in steps {
        rig.pass(US);
        match *step {
            Step::Arrive { pid, write, sync, block, joins } => {
                let direction = if write { Direction::Write } else { Direction::Read };
                rig.arrive(bio(pid, direction, sync || !write, 8 * block), joins)?;
            }
            Step::AtHead { pid, block } => {
                let bio = bio(pid, Direction::Write, true, 8 * block);
                rig.arrived_sectors += u64::from(bio.sectors);
                rig.elevator.insert_at_head(rig.now_ns, bio);
            }
            Step::Dispatch => {
                rig.dispatch()?;
            }
            Step::Requeue { which, at_head } => rig.requeue(which, at_head)?,
            Step::Complete { which } => rig.complete(which),
            Step::Pass { us } => rig.pass(us * US),
        }
    }
    // Everything ends, whatever was joined, returned or waited for a zone: 10 s is beyond any expiry.
    for _ in 0..10_000 {
        if rig.elevator.queue().requests.is_empty() {
            break;
        }
        rig.pass(1000 * US);
        if !rig.dispatch()? {
            rig.complete(0);
        }
    }
    prop_assert_eq!(rig.completed_sectors, rig.arrived_sectors, "no part is lost or done twice");
    Ok(rig.absorbed)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn nothing_is_lost_and_what_comes_back_goes_first(steps in steps()) {
        for entry in SCHEDULERS {
            let takes_back = elevator(entry.name, &[]).scheduler().takes_back();
            if takes_back && entry.parameters.iter().any(|parameter| parameter.name == "read_expire") {
                run(entry.name, false, &steps)?;
            }
        }
        run("sfq", true, &steps)?;
    }
}

/// The random steps join queued requests, so that the property says something of it.
#[test]
fn the_steps_join_queued_requests() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let absorbed: BTreeMap<&str, u32> = ["sfq", "sfq2", "mq-deadline-6.12"]
        .into_iter()
        .map(|name| {
            let cases = (0..50).map(|_| steps().new_tree(&mut runner).expect("steps").current());
            (name, cases.map(|steps| run(name, false, &steps).expect("holds")).sum())
        })
        .collect();
    assert!(absorbed.values().all(|count| *count > 20), "{absorbed:?}");
}
