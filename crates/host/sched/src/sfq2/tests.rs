//! Decisions of SFQ2, worked out by hand, and the accounts that its audit keeps.

use super::queues::BREAKS;
use super::{ENTRY, Sfq2, cost};
use crate::tests::{defaults, filled, panics_with};
use crate::{Bio, Class, Direction, Elevator, ElevatorOptions, Queue, RequestId, Scheduler, Value};

const MILLISECOND_NS: u64 = 1_000_000;

/// An elevator, and the time, which goes on by 1 us with each call.
struct Rig {
    elevator: Elevator,
    now_ns: u64,
    sector: u64,
}

impl Rig {
    fn new(given: &[(&str, i64)]) -> Self {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), Value::Integer(*value)));
        let settings = ENTRY.settings(&given.collect()).expect("values in range");
        let options = ElevatorOptions { rotational: false, ..ElevatorOptions::default() };
        Self { elevator: Elevator::new(&ENTRY, &settings, options), now_ns: 0, sector: 0 }
    }

    fn bio(&mut self, pid: u32, class: Class, sync: bool) -> Bio {
        self.sector += 1000;
        let direction = if sync { Direction::Read } else { Direction::Write };
        let (noidle, level, sector, sectors) = (false, 4, self.sector, 8);
        Bio { pid, direction, sync, noidle, class, level, sector, sectors }
    }

    fn insert(&mut self, bio: Bio) -> RequestId {
        self.now_ns += 1000;
        self.elevator.insert(self.now_ns, bio)
    }

    /// Inserts reads of a process, which it waits for, or else writes that nobody waits for.
    fn many(&mut self, pid: u32, class: Class, sync: bool, count: u32) {
        for _ in 0..count {
            let bio = self.bio(pid, class, sync);
            self.insert(bio);
        }
    }

    /// Inserts reads of a process of best effort.
    fn reads(&mut self, pid: u32, count: u32) {
        self.many(pid, Class::BestEffort, true, count);
    }

    /// Inserts asynchronous writes of best effort.
    fn writes(&mut self, count: u32) {
        self.many(7, Class::BestEffort, false, count);
    }

    /// Process of the next request, which is complete at once; 0 if none is sent.
    fn next(&mut self) -> u32 {
        self.now_ns += 1000;
        let Some(id) = self.elevator.next(self.now_ns) else { return 0 };
        self.elevator.complete(self.now_ns, id).bio.pid
    }

    fn order(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.next()).collect()
    }
}

#[test]
fn queues_take_turns_of_two_requests_of_4_kib() {
    assert_eq!(2 * cost(8), 36 * 4);
    let mut rig = Rig::new(&[]);
    rig.reads(1, 6);
    rig.reads(2, 4);
    assert_eq!(rig.order(11), [1, 1, 1, 1, 2, 2, 1, 1, 2, 2, 0]);
}

#[test]
fn who_was_idle_is_served_at_the_next_change_and_once_a_round() {
    let mut rig = Rig::new(&[]);
    for pid in 1..=3 {
        rig.reads(pid, 9);
    }
    // 1 is old when it has been visited, and old and new alternate.
    assert_eq!(rig.order(13), [1, 1, 1, 1, 2, 2, 1, 1, 3, 3, 2, 2, 1]);
    rig.reads(9, 1);
    assert_eq!(rig.order(3), [1, 9, 3], "after the visit under way");
    // It stands in the old list now, behind 2 and 1, whose turn comes first.
    rig.reads(9, 1);
    assert_eq!(rig.order(5), [3, 2, 2, 1, 9]);
}

#[test]
fn newcomers_and_old_queues_alternate() {
    let mut rig = Rig::new(&[]);
    rig.reads(1, 8);
    rig.reads(2, 8);
    assert_eq!(rig.order(8), [1, 1, 1, 1, 2, 2, 1, 1]);
    (11..=14).for_each(|pid| rig.reads(pid, 1));
    assert_eq!(rig.order(12), [11, 2, 2, 12, 1, 1, 13, 2, 2, 14, 2, 2]);
}

#[test]
fn weights_follow_the_levels() {
    let mut rig = Rig::new(&[]);
    for _ in 0..100 {
        for (pid, level) in [(1, 0), (2, 4), (3, 7)] {
            let bio = rig.bio(pid, Class::BestEffort, true);
            rig.insert(Bio { level, ..bio });
        }
    }
    rig.order(40);
    let order = rig.order(52);
    let served = [1, 2, 3].map(|pid| order.iter().filter(|other| **other == pid).count());
    assert_eq!(served, [32, 16, 4]);
}

#[test]
fn a_large_request_is_paid_for_with_turns() {
    let mut rig = Rig::new(&[]);
    rig.reads(2, 40);
    for _ in 0..2 {
        let bio = rig.bio(1, Class::BestEffort, true);
        rig.insert(Bio { sectors: 512, ..bio });
    }
    let order = rig.order(16);
    let places: Vec<usize> = (0..16).filter(|place| order[*place] == 1).collect();
    // 576 of cost is four turns of 144: the second goes four visits of 2 after the first.
    assert_eq!(places, [4, 13], "{order:?}");
}

#[test]
fn asynchronous_requests_have_one_turn_in_four() {
    let mut rig = Rig::new(&[]);
    rig.reads(1, 20);
    rig.writes(10);
    assert_eq!(rig.order(9), [1, 1, 1, 1, 1, 1, 7, 1, 1]);
}

#[test]
fn a_lower_class_is_passed_over_a_bounded_number_of_times() {
    let mut rig = Rig::new(&[("class_visits", 2)]);
    for (pid, class) in [(1, Class::RealTime), (2, Class::BestEffort), (3, Class::Idle)] {
        rig.many(pid, class, true, 8);
    }
    assert_eq!(rig.order(12), [1, 1, 1, 1, 2, 2, 3, 3, 1, 1, 1, 1]);
}

#[test]
fn the_idle_class_waits_for_a_quiet_moment() {
    let mut rig = Rig::new(&[]);
    rig.reads(1, 1);
    rig.many(3, Class::Idle, true, 1);
    assert_eq!(rig.order(2), [1, 0]);
    assert!(rig.elevator.scheduler().is_idling());
    let due_ns = rig.elevator.timer_ns().expect("a timer ends the wait");
    assert_eq!(due_ns, rig.now_ns - 1000 + 2 * MILLISECOND_NS);
    rig.now_ns = due_ns;
    rig.elevator.timer(due_ns);
    assert!(rig.elevator.take_run_soon());
    assert_eq!(rig.next(), 3);
}

#[test]
fn one_request_in_nine_goes_first_for_its_expiry() {
    let mut rig = Rig::new(&[("class_visits", 1000)]);
    rig.many(3, Class::Idle, true, 3);
    rig.now_ns += 600 * MILLISECOND_NS;
    rig.reads(1, 30);
    let order = rig.order(20);
    let places: Vec<usize> = (0..20).filter(|place| order[*place] == 3).collect();
    assert_eq!(places, [8, 17], "{order:?}");
}

#[test]
fn asynchronous_requests_wait_for_their_turn_while_a_reader_waits() {
    let mut rig = Rig::new(&[]);
    rig.writes(9);
    rig.reads(1, 1);
    let read = rig.elevator.next(rig.now_ns).expect("the reader is served");
    assert_eq!(rig.elevator.queue().requests[read].bio.pid, 1);
    assert!(rig.elevator.next(rig.now_ns).is_none());
    rig.elevator.complete(rig.now_ns, read);
    assert!(rig.elevator.next(rig.now_ns).is_none(), "it may go on");
    rig.now_ns += 2 * MILLISECOND_NS;
    let rest = std::iter::from_fn(|| rig.elevator.next(rig.now_ns)).count();
    assert_eq!(rest, 9, "nobody waits any more");
}

#[test]
fn few_asynchronous_requests_are_in_flight_beside_a_reader() {
    let mut rig = Rig::new(&[("async_depth", 2), ("sync_visits", 1)]);
    rig.writes(9);
    rig.reads(1, 10);
    let take = || {
        let id = rig.elevator.next(rig.now_ns)?;
        Some(rig.elevator.queue().requests[id].bio.pid)
    };
    let sent: Vec<u32> = std::iter::from_fn(take).collect();
    // Between the two a turn passes for their credit, and after them there are two in flight.
    assert_eq!(sent, [1, 1, 7, 1, 1, 1, 1, 7, 1, 1, 1, 1]);
}

#[test]
fn a_visit_to_a_lower_class_counts_for_held_asynchronous_requests() {
    let mut rig = Rig::new(&[]);
    rig.many(7, Class::RealTime, false, 3);
    rig.reads(1, 20);
    assert_eq!(rig.order(14), [1, 1, 1, 1, 1, 1, 7, 1, 1, 1, 1, 1, 1, 7]);
}

#[test]
fn writes_are_held_back_while_the_device_cleans() {
    let mut rig = Rig::new(&[]);
    let write = |rig: &mut Rig, took_ns: u64| {
        rig.writes(1);
        let Some(id) = rig.elevator.next(rig.now_ns) else { return false };
        rig.now_ns += took_ns;
        rig.elevator.complete(rig.now_ns, id);
        true
    };
    for _ in 0..32 {
        assert!(write(&mut rig, 200_000));
    }
    assert!(write(&mut rig, 5 * MILLISECOND_NS) && write(&mut rig, 5 * MILLISECOND_NS));
    assert!(write(&mut rig, 200_000), "nobody waits");
    assert!(write(&mut rig, 5 * MILLISECOND_NS) && write(&mut rig, 5 * MILLISECOND_NS));
    rig.now_ns += 200 * MILLISECOND_NS;
    assert!(write(&mut rig, 5 * MILLISECOND_NS));
    rig.reads(1, 1);
    assert_eq!(rig.next(), 1);
    assert!(!write(&mut rig, 200_000), "a process waited a moment ago");
    rig.now_ns += 2 * MILLISECOND_NS;
    assert_eq!(rig.next(), 7);
}

#[test]
fn a_bio_that_a_process_waits_for_joins_no_asynchronous_request() {
    let mut rig = Rig::new(&[]);
    let bio = rig.bio(7, Class::BestEffort, false);
    rig.insert(bio);
    let behind = Bio { sector: bio.end(), ..bio };
    let waited_for = Bio { sync: true, ..behind };
    assert!(rig.elevator.try_merge(rig.now_ns, &waited_for).is_none());
    assert!(rig.elevator.merge_behind(rig.now_ns, &waited_for).is_none());
    assert!(rig.elevator.try_merge(rig.now_ns, &behind).is_some());
}

#[test]
fn a_survivor_inherits_the_earlier_expiry_and_place() {
    let settings = defaults(&ENTRY);
    let (mut sfq2, mut queue) = filled(Sfq2::new(&settings));
    let later = queue.requests[RequestId(1)].deadline + 5;
    queue.requests[RequestId(1)].deadline = later;
    sfq2.absorb(0, RequestId(1), RequestId(0), &mut queue);
    assert_eq!(queue.requests[RequestId(1)].deadline, later - 5);
    sfq2.audit(&queue);
    assert_eq!(sfq2.queues.next_of_visit(), None);
    assert_eq!(sfq2.next(1000, &queue), Some((RequestId(1), true)));
}

#[test]
fn a_process_that_holds_its_share_of_tags_waits() {
    let mut rig = Rig::new(&[]);
    let mine = rig.bio(1, Class::BestEffort, true);
    let other = rig.bio(2, Class::BestEffort, true);
    let write = rig.bio(7, Class::BestEffort, false);
    let limit =
        |rig: &Rig, bio: &Bio| rig.elevator.scheduler().depth_limit(bio, rig.elevator.queue());
    assert_eq!(limit(&rig, &write), Some(96));
    rig.reads(1, 63);
    assert_eq!(limit(&rig, &mine), Some(128));
    rig.reads(1, 1);
    assert_eq!([&mine, &other, &write].map(|bio| limit(&rig, bio)), [Some(1), Some(128), Some(32)]);
    rig.next();
    assert_eq!(limit(&rig, &mine), Some(128));
}

#[test]
fn a_process_may_exceed_its_share_while_the_device_takes_all() {
    let mut rig = Rig::new(&[]);
    let mine = rig.bio(1, Class::BestEffort, true);
    let limit = |rig: &Rig| rig.elevator.scheduler().depth_limit(&mine, rig.elevator.queue());
    let send_all = |rig: &mut Rig| while rig.elevator.next(rig.now_ns).is_some() {};
    rig.reads(2, 1);
    rig.reads(1, 42);
    assert_eq!(limit(&rig), Some(1), "it has a third, and the device does not take all");
    send_all(&mut rig);
    assert_eq!(limit(&rig), Some(128));
    rig.reads(1, 42);
    send_all(&mut rig);
    assert_eq!(limit(&rig), Some(128), "43 are free");
    rig.reads(1, 1);
    send_all(&mut rig);
    assert_eq!(limit(&rig), Some(1), "a third is left for the next");
}

/// What breaks a count.
type Break = fn(&mut Sfq2, &mut Queue);

#[test]
fn every_broken_count_is_seen() {
    let audited = |message: &str, break_it: &dyn Fn(&mut Sfq2, &mut Queue)| {
        let (mut sfq2, mut queue) = filled(Sfq2::new(&defaults(&ENTRY)));
        break_it(&mut sfq2, &mut queue);
        panics_with(message, || sfq2.audit(&queue));
    };
    let broken: [(&str, Break); 2] = [
        ("in the order of their expiry", |_, queue| queue.requests[RequestId(0)].deadline += 1),
        ("in flight is held", |sfq2, _| sfq2.async_in_flight = 4),
    ];
    for (message, break_it) in broken {
        audited(message, &break_it);
    }
    for (message, break_it) in BREAKS {
        audited(message, &|sfq2, _| break_it(&mut sfq2.queues));
    }
}
