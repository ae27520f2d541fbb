//! Tests of Kyber's domains, batches and tokens.

use super::{Domain, ENTRY, Histogram, Kyber, LIMITS, TARGET_QUARTERS};
use crate::{
    Bio, Class, Clock, Direction, Elevator, ElevatorOptions, Links, MergeSide, Merged, QueueMap,
    Request, RequestId, Scheduler,
};
use std::collections::BTreeMap;

const CLOCK: Clock = Clock { hz: 1000 };
const MILLISECOND_NS: u64 = 1_000_000;

/// What breaks a count.
type Break = fn(&mut Kyber);

#[test]
fn every_broken_count_is_seen() {
    use crate::tests::{defaults, filled, panics_with};
    let moved: Break = |kyber| {
        let list = std::mem::take(&mut kyber.domains[0].staged[0]);
        kyber.domains[0].staged.push(list);
    };
    let taken_over: Break = |kyber| {
        let list = std::mem::take(&mut kyber.domains[0].staged[0]);
        kyber.domains[0].ready.push(list);
    };
    let broken: [(&str, Break); 6] = [
        ("a request is with its core", moved),
        ("a request is with its hardware queue", taken_over),
        ("a token is taken for each request", |kyber| kyber.domains[1].in_flight += 1),
        ("a domain has one direction", |kyber| kyber.domains.swap(0, 1)),
        ("a domain has tokens", |kyber| kyber.domains[0].depth = 0),
        ("a domain has tokens", |kyber| kyber.domains[0].depth = 10_000),
    ];
    for (message, break_it) in broken {
        let (mut kyber, queue) = filled(Kyber::new(&defaults(&ENTRY), CLOCK));
        break_it(&mut kyber);
        panics_with(message, || kyber.audit(&queue));
    }
}

fn read_domain() -> Domain {
    Domain::new(LIMITS[Direction::Read as usize], 2_000_000)
}

fn write_domain() -> Domain {
    Domain::new(LIMITS[Direction::Write as usize], 10_000_000)
}

fn bio(direction: Direction, sector: u64) -> Bio {
    Bio {
        pid: 1,
        direction,
        sync: direction == Direction::Read,
        noidle: false,
        class: Class::BestEffort,
        level: 4,
        sector,
        sectors: 8,
    }
}

fn elevator() -> Elevator {
    let settings = ENTRY.settings(&BTreeMap::new()).expect("defaults fit");
    Elevator::new(&ENTRY, &settings, ElevatorOptions::default())
}

#[test]
fn g_kyb_2_without_tokens_the_other_domain_is_served() {
    let settings = ENTRY.settings(&BTreeMap::new()).expect("defaults fit");
    let mut kyber = Kyber::new(&settings, CLOCK);
    kyber.domains[Direction::Read as usize].depth = 2;
    for id in 0..40 {
        kyber.domains[id as usize / 20].staged[0].push_back(&mut kyber.links, RequestId(id));
    }
    let taken: Vec<u32> =
        std::iter::from_fn(|| kyber.next(QueueMap::ONE, 0)).map(|id| id.0).collect();
    assert_eq!(taken, [0, 1].into_iter().chain(20..40).collect::<Vec<u32>>());
    kyber.domains[Direction::Read as usize].in_flight -= 1;
    let mut next = || kyber.next(QueueMap::ONE, 0);
    assert_eq!((next(), next()), (Some(RequestId(2)), None));
}

/// Each hardware queue has its own batch (`khd->batching`), and the tokens are shared: what one queue holds is
/// missing in the other.
#[test]
fn hardware_queues_have_their_own_batches_and_common_tokens() {
    let map = QueueMap::new(4, 2);
    let fill = |pids: [u32; 2]| {
        let mut elevator = elevator();
        elevator.queue_mut().map = map;
        // 20 reads, then 20 writes of each process.
        for number in 0..80 {
            let direction = if number < 40 { Direction::Read } else { Direction::Write };
            let pid = pids[number % 2];
            let sector = 100 * number as u64;
            elevator.insert(0, Bio { pid, ..bio(direction, sector) });
        }
        elevator
    };
    let kinds = |elevator: &mut Elevator, queue: usize| -> String {
        let next = || elevator.next_for(queue, 0).map(|id| elevator.queue().requests[id].bio);
        let kind = |bio: Bio| if bio.direction == Direction::Read { 'R' } else { 'W' };
        std::iter::from_fn(next).map(kind).collect()
    };
    // A queue each: 16 reads, 8 writes, the rest in turn, as if it were alone.
    let alone = format!(
        "{}{}{}{}{}",
        "R".repeat(16),
        "W".repeat(8),
        "R".repeat(4),
        "W".repeat(8),
        "W".repeat(4)
    );
    let mut apart = fill([0, 1]);
    assert_eq!([0, 1].map(|queue| kinds(&mut apart, queue)), [alone.clone(), alone]);
    // Two cores of one queue: it takes over all reads of the first core, then all of the second.
    let mut together = fill([2, 0]);
    assert_eq!(kinds(&mut together, 1), "");
    let order: Vec<u32> = std::iter::from_fn(|| together.next_for(0, 0)).map(|id| id.0).collect();
    let reads: Vec<u32> = order.into_iter().filter(|id| *id < 40).collect();
    let expected: Vec<u32> = (0..20).map(|id| 2 * id + 1).chain((0..20).map(|id| 2 * id)).collect();
    assert_eq!(reads, expected);
    // Tokens are the device's: two for reads serve one queue, and leave none to the other.
    let settings = ENTRY.settings(&BTreeMap::new()).expect("defaults fit");
    let mut kyber = Kyber::new(&settings, CLOCK);
    kyber.make_lists(map, 3);
    kyber.domains[0].depth = 2;
    for id in 0..8 {
        kyber.domains[0].staged[id as usize % 2].push_back(&mut kyber.links, RequestId(id));
    }
    let taken = [0, 0, 1].map(|queue| kyber.next(map, queue).map(|id| id.0));
    assert_eq!(taken, [Some(0), Some(2), None]);
    kyber.domains[0].in_flight -= 1;
    assert_eq!(kyber.next(map, 1).map(|id| id.0), Some(1));
}

#[test]
fn g_kyb_3_congestion_throttles_a_domain_that_meets_its_target() {
    let (mut reads, mut writes) = (read_domain(), write_domain());
    reads.adjust(Some(2), true);
    writes.adjust(Some(7), true);
    assert_eq!((reads.depth, writes.depth), (192, 128));
}

#[test]
fn g_kyb_4_a_domain_that_misses_its_target_gets_tokens_back() {
    let mut reads = read_domain();
    reads.depth = 64;
    reads.adjust(Some(5), false);
    assert_eq!(reads.depth, 96);
    reads.adjust(Some(3), false);
    assert_eq!(reads.depth, 96, "without congestion no domain is throttled");
}

#[test]
fn g_kyb_5_one_token_stays() {
    let mut reads = read_domain();
    (0..9).for_each(|_| reads.adjust(Some(0), true));
    assert_eq!(reads.depth, 1);
}

#[test]
fn a_percentile_serves_congestion_once() {
    let mut reads = read_domain();
    reads.adjust(Some(1), false);
    assert_eq!(reads.depth, 256);
    reads.adjust(None, true);
    assert_eq!(reads.depth, 128, "the remembered percentile is used");
    reads.adjust(None, true);
    assert_eq!(reads.depth, 128, "and then forgotten");
    reads.adjust(Some(1), false);
    reads.adjust(Some(2), true);
    reads.adjust(None, true);
    assert_eq!(reads.depth, 96, "a newer one replaces it, and it is forgotten as well");
}

#[test]
fn buckets_are_quarters_of_the_target_with_inclusive_ends() {
    let mut histogram = Histogram::default();
    for latency_ns in [0, 1, 500_000, 500_001, 2_000_000, 2_000_001, 3_500_000, 3_500_001] {
        histogram.add(latency_ns, 2_000_000);
    }
    assert_eq!(histogram.0, [3, 1, 0, 1, 1, 0, 1, 1]);
    let mut none = Histogram::default();
    (0..9).for_each(|latency_ns| none.add(latency_ns, 0));
    assert_eq!(none.0, [2, 1, 1, 1, 1, 1, 1, 1], "no target counts in nanoseconds");
    assert_eq!([1, 50, 90, 99].map(|percent| histogram.percentile(percent)), [0, 1, 7, 7]);
}

#[test]
fn percentiles_need_many_samples_or_time() {
    let mut reads = read_domain();
    let late_ns = 3 * MILLISECOND_NS;
    let count = |domain: &mut Domain, samples: u32| {
        for _ in 0..samples {
            domain.total_latency.add(late_ns, domain.target_ns);
            domain.device_latency.add(late_ns, domain.target_ns);
        }
    };
    count(&mut reads, 499);
    assert!(!reads.is_congested(5000, CLOCK));
    assert!(!reads.is_congested(5999, CLOCK));
    assert!(reads.is_congested(6000, CLOCK));
    assert_eq!(reads.slowest(6000, CLOCK), None, "the common timeout began anew");
    count(&mut reads, 1);
    assert_eq!(reads.slowest(6100, CLOCK), Some(TARGET_QUARTERS + 1), "500 samples are enough");
    assert!(!reads.is_congested(7099, CLOCK));
}

/// A read and a write at a time, of 3 ms each: late for reads, quick for writes. Each second
/// shows that the device is congested, but what writes take is only known after 500 of them.
#[test]
fn late_reads_take_tokens_from_writes() {
    let mut elevator = elevator();
    let settings = ENTRY.settings(&BTreeMap::new()).expect("defaults fit");
    let mut kyber = Kyber::new(&settings, CLOCK);
    let queue = elevator.queue_mut();
    let mut now_ns = 0;
    let mut depths = Vec::new();
    while now_ns < 3000 * MILLISECOND_NS {
        let ids = [Direction::Read, Direction::Write].map(|direction| {
            let request = Request { insert_ns: now_ns, ..Request::new(bio(direction, now_ns)) };
            let id = queue.requests.add(request);
            kyber.insert(now_ns, id, queue);
            assert_eq!(kyber.dispatch(now_ns, false, queue), 1);
            assert_eq!(queue.take(), Some(id));
            kyber.activate(now_ns, id, queue);
            id
        });
        now_ns += 3 * MILLISECOND_NS;
        if kyber.timer_ns().is_some_and(|timer_ns| timer_ns <= now_ns) {
            kyber.timer(now_ns, queue);
        }
        for id in ids {
            kyber.complete(now_ns, id, queue);
            queue.requests.remove(id);
        }
        if depths.last() != Some(&kyber.domains[1].depth) {
            depths.push(kyber.domains[1].depth);
        }
    }
    assert_eq!(kyber.domains[0].depth, 256);
    assert_eq!(depths, [128, 64]);
}

#[test]
fn a_bio_merges_with_the_last_eight_and_not_after_they_were_taken_over() {
    let mut elevator = elevator();
    let ids: Vec<RequestId> =
        (0..9).map(|place| elevator.insert(0, bio(Direction::Write, 1000 * place))).collect();
    assert_eq!(elevator.try_merge(0, &bio(Direction::Write, 8)), None, "it is the ninth");
    let merged = |id, side| Some(Merged { survivor: id, side, absorbed: None });
    let touching = bio(Direction::Write, 1008);
    assert_eq!(elevator.try_merge(0, &touching), merged(ids[1], MergeSide::Back));
    let touching = bio(Direction::Write, 992);
    assert_eq!(elevator.try_merge(0, &touching), merged(ids[1], MergeSide::Front));
    let other = Bio { level: 0, ..bio(Direction::Write, 2008) };
    assert_eq!(elevator.try_merge(0, &other), None, "the priority differs");
    elevator.next(0).expect("there is work");
    assert_eq!(elevator.try_merge(0, &bio(Direction::Write, 2008)), None);
}

#[test]
fn the_timer_runs_a_tenth_of_a_second_after_the_first_completion() {
    let mut elevator = elevator();
    for (now_ns, due_ns) in [(500_000, 100_000_000), (40_000_000, 100_000_000)] {
        elevator.insert(now_ns, bio(Direction::Read, 0));
        let id = elevator.next(now_ns).expect("there is work");
        elevator.complete(now_ns, id);
        assert_eq!(elevator.timer_ns(), Some(due_ns));
    }
    elevator.timer(100_000_000);
    assert_eq!(elevator.timer_ns(), None);
}

#[test]
fn a_list_taken_over_keeps_its_order() {
    let (mut reads, mut links) = (read_domain(), Links::default());
    (0..3).for_each(|id| reads.staged[0].push_back(&mut links, RequestId(id)));
    assert_eq!(reads.take(&mut links, QueueMap::ONE, 0), Some(RequestId(0)));
    reads.staged[0].push_back(&mut links, RequestId(7));
    let mut take = || reads.take(&mut links, QueueMap::ONE, 0);
    let rest: Vec<u32> = std::iter::from_fn(&mut take).map(|id| id.0).collect();
    assert_eq!(rest, [1, 2, 7]);
}
