//! The bound on waiting that the documentation of the scheduler Deadline states, under random load,
//! and inputs that reach it.

use sched::replay::{Arrival, Dispatched, Event, Order, When, replay};
use sched::{Bio, Class, Clock, Direction, Elevator, ElevatorOptions, Value, find_scheduler};
use std::collections::BTreeMap;

use proptest::prelude::*;

const MILLISECOND_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Tunables {
    read_expire: u32,
    write_expire: u32,
    writes_starved: u32,
    fifo_batch: u32,
}

impl Tunables {
    fn given(self) -> BTreeMap<String, Value> {
        [
            ("read_expire", self.read_expire),
            ("write_expire", self.write_expire),
            ("writes_starved", self.writes_starved),
            ("fifo_batch", self.fifo_batch),
        ]
        .map(|(name, value)| (name.to_owned(), Value::Integer(i64::from(value))))
        .into()
    }

    fn expire(self, direction: Direction) -> u32 {
        match direction {
            Direction::Read => self.read_expire,
            Direction::Write => self.write_expire,
        }
    }

    /// Most requests that go before an overdue one with `older` ones of its direction before it.
    fn bound(self, direction: Direction, older: u64) -> Option<u64> {
        let batch = u64::from(self.fifo_batch.max(1));
        let starved = u64::from(self.writes_starved);
        let others = match direction {
            Direction::Read if starved == 0 => return None,
            Direction::Read => (older + 1).div_ceil(starved),
            Direction::Write => starved * (older + 1),
        };
        Some(batch - 1 + batch * (older + others))
    }
}

#[derive(Clone, Copy, Debug)]
struct Machine {
    scheduler: &'static str,
    hz: u32,
    depth: u32,
    service_ns: u64,
}

fn arrival(time_ns: u64, direction: Direction, sector: u64) -> Arrival {
    let sync = direction == Direction::Read;
    let (class, level) = (Class::default(), 4);
    let bio = Bio { pid: 1, direction, sync, noidle: false, class, level, sector, sectors: 8 };
    Arrival { event: Event::Submit(bio), when: When::At(time_ns) }
}

fn run(machine: Machine, tunables: Tunables, arrivals: &[Arrival]) -> Vec<Dispatched> {
    let entry = find_scheduler(machine.scheduler).expect("a scheduler");
    let settings = entry.settings(&tunables.given()).expect("tunables in range");
    let options = ElevatorOptions { hz: machine.hz, merging: false, ..ElevatorOptions::default() };
    let mut elevator = Elevator::new(entry, &settings, options);
    let service_ns = machine.service_ns;
    let order = Order::BatchedLast;
    let outcome =
        replay(&mut elevator, arrivals, machine.depth, order, &mut |now_ns, _| now_ns + service_ns);
    assert_eq!(outcome.dispatched.len(), arrivals.len(), "none is lost");
    outcome.dispatched
}

/// How one request fared after it became overdue.
#[derive(Debug, PartialEq, Eq)]
struct Wait {
    older: u64,
    passed_by: u64,
    overdue_ns: u64,
    dispatch_ns: u64,
}

/// The wait of the request dispatched in `place`; none if it was not overdue.
fn wait(
    machine: Machine,
    tunables: Tunables,
    arrivals: &[Arrival],
    done: &[Dispatched],
    place: usize,
) -> Option<(Direction, Wait)> {
    let at = |id: usize| match arrivals[id] {
        Arrival { event: Event::Submit(bio), when: When::At(time_ns) } => (bio.direction, time_ns),
        other => unreachable!("{other:?}"),
    };
    let id = done[place].arrivals[0];
    let (direction, insert_ns) = at(id);
    let clock = Clock { hz: machine.hz };
    let deadline = clock.jiffies(insert_ns) + clock.from_milliseconds(tunables.expire(direction));
    let overdue_ns = clock.timer_ns(insert_ns, deadline + 1);
    let dispatch_ns = done[place].dispatch_ns;
    if dispatch_ns < overdue_ns {
        return None;
    }
    let queued_then = |other: &&Dispatched| other.dispatch_ns >= overdue_ns;
    let rest = done.iter().filter(queued_then).map(|other| other.arrivals[0]);
    let is_older = |other: &usize| *other < id && at(*other).0 == direction;
    let older = rest.filter(is_older).count() as u64;
    let passed_by = done[..place].iter().filter(queued_then).count() as u64;
    Some((direction, Wait { older, passed_by, overdue_ns, dispatch_ns }))
}

/// Checks every request against the bound; returns how many had become overdue.
fn check(machine: Machine, tunables: Tunables, arrivals: &[Arrival]) -> usize {
    let done = run(machine, tunables, arrivals);
    let mut overdue = 0;
    for place in 0..done.len() {
        let Some((direction, wait)) = wait(machine, tunables, arrivals, &done, place) else {
            continue;
        };
        overdue += 1;
        let Some(bound) = tunables.bound(direction, wait.older) else { continue };
        assert!(wait.passed_by <= bound, "{wait:?} {bound}");
        let rounds = (bound + 1).div_ceil(u64::from(machine.depth));
        assert!(wait.dispatch_ns <= wait.overdue_ns + rounds * machine.service_ns, "{wait:?}");
    }
    overdue
}

fn tunables() -> impl Strategy<Value = Tunables> {
    (0..60_u32, 0..200_u32, 0..5_u32, 0..9_u32).prop_map(
        |(read_expire, write_expire, writes_starved, fifo_batch)| Tunables {
            read_expire,
            write_expire,
            writes_starved,
            fifo_batch,
        },
    )
}

fn machines() -> impl Strategy<Value = Machine> {
    let schedulers = prop_oneof![Just("deadline-2.6.32"), Just("deadline-3.4")];
    let ticks = prop_oneof![Just(100), Just(250), Just(1000), Just(1024)];
    (schedulers, ticks, 1..5_u32, 1..6_u64).prop_map(|(scheduler, hz, depth, service)| Machine {
        scheduler,
        hz,
        depth,
        service_ns: service * MILLISECOND_NS,
    })
}

/// Requests at distinct sectors, in bursts, on the whole more than the device can take.
fn load() -> impl Strategy<Value = Vec<Arrival>> {
    let sectors = Just((0..200_u64).map(|place| place * 64).collect::<Vec<_>>()).prop_shuffle();
    let requests = prop::collection::vec((0..4_u64, prop::bool::ANY, 0..2000_u64), 20..200);
    (sectors, requests).prop_map(|(sectors, requests)| {
        let mut time_ns = 0;
        let places = sectors.into_iter().zip(requests);
        places
            .map(|(sector, (gap, reads, fraction_us))| {
                time_ns += gap * MILLISECOND_NS / 2 + fraction_us * 1000 / 4;
                let direction = if reads { Direction::Read } else { Direction::Write };
                arrival(time_ns, direction, sector)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn no_request_waits_longer_than_the_bound(
        machine in machines(),
        tunables in tunables(),
        arrivals in load(),
    ) {
        check(machine, tunables, &arrivals);
    }
}

const ONE_AT_A_TIME: Machine =
    Machine { scheduler: "deadline-3.4", hz: 1000, depth: 1, service_ns: 10 * MILLISECOND_NS };

/// A flood of ascending requests of one direction from time zero.
fn flood(direction: Direction, from_sector: u64) -> impl Iterator<Item = Arrival> {
    (0..40).map(move |place| arrival(0, direction, from_sector + 8 * place))
}

#[test]
fn a_read_can_wait_as_long_as_the_bound() {
    // Batches of four go read, read, write. The second batch of reads begins at 40 ms, when the read
    // that came second, below all others, is not overdue yet; it is from 41 ms on.
    let tunables =
        Tunables { read_expire: 40, write_expire: 5000, writes_starved: 2, fifo_batch: 4 };
    let mut arrivals = vec![arrival(0, Direction::Read, 100_000)];
    arrivals.push(arrival(0, Direction::Read, 8));
    arrivals.extend(flood(Direction::Read, 200_000));
    arrivals.extend(flood(Direction::Write, 500_000));
    let done = run(ONE_AT_A_TIME, tunables, &arrivals);
    let place = done.iter().position(|request| request.arrivals == [1]).expect("dispatched");
    let (direction, wait) =
        wait(ONE_AT_A_TIME, tunables, &arrivals, &done, place).expect("overdue");
    assert_eq!((direction, wait.older), (Direction::Read, 0));
    assert_eq!(Some(wait.passed_by), tunables.bound(direction, 0));
}

#[test]
fn a_write_can_wait_as_long_as_the_bound() {
    // The first batch of writes, after two of reads, begins at 80 ms with the write that came
    // first. The one that came second lies below it and is overdue from 81 ms on.
    let tunables =
        Tunables { read_expire: 5000, write_expire: 80, writes_starved: 2, fifo_batch: 4 };
    let mut arrivals: Vec<Arrival> = flood(Direction::Read, 500_000).collect();
    arrivals.push(arrival(0, Direction::Write, 100_000));
    arrivals.push(arrival(0, Direction::Write, 8));
    let second = arrivals.len() - 1;
    arrivals.extend(flood(Direction::Write, 200_000));
    let done = run(ONE_AT_A_TIME, tunables, &arrivals);
    let place = done.iter().position(|request| request.arrivals == [second]).expect("dispatched");
    let (direction, wait) =
        wait(ONE_AT_A_TIME, tunables, &arrivals, &done, place).expect("overdue");
    assert_eq!((direction, wait.older), (Direction::Write, 0));
    assert_eq!(Some(wait.passed_by), tunables.bound(direction, 0));
}

#[test]
fn a_flood_makes_most_requests_overdue() {
    let tunables = Tunables { read_expire: 20, write_expire: 50, writes_starved: 2, fifo_batch: 4 };
    let mut arrivals: Vec<Arrival> = flood(Direction::Read, 500_000).collect();
    arrivals.extend(flood(Direction::Write, 200_000));
    assert!(check(ONE_AT_A_TIME, tunables, &arrivals) > 40);
}

#[test]
fn reads_starve_if_no_batch_of_theirs_may_pass_writes() {
    let tunables = Tunables { read_expire: 20, write_expire: 50, writes_starved: 0, fifo_batch: 4 };
    let mut arrivals = vec![arrival(0, Direction::Read, 8)];
    arrivals.extend(flood(Direction::Write, 200_000));
    let done = run(ONE_AT_A_TIME, tunables, &arrivals);
    assert_eq!(done.last().map(|request| request.arrivals.clone()), Some(vec![0]));
}
