//! Tasks that begin to wait for asynchronous writes, worked out by hand: one command at a time, 1 ms each.

use crate::support::{CompletedBios, MS, bio, elevator_of, options};
use block::{Plug, Plugging, PoolRules, QueueOptions, RequestQueue};
use device::ConstantDevice;
use process::Process;
use sched::{Bio, Direction};
use sim::Simulation;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

const FLUSHER: u32 = 900;
const WAITER: Process = Process::new(7);

fn write(number: u64) -> Bio {
    // Far apart, or they would be merged.
    bio(FLUSHER, Direction::Write, number * 1000)
}

/// Sectors of a page.
fn page_at(sector: u64) -> Vec<Range<u64>> {
    std::iter::once(sector..sector + 8).collect()
}

/// The numbers of writes in the order in which they were sent, with the times in milliseconds.
type Sent = Vec<(u64, u64)>;

struct Rig {
    simulation: Simulation,
    queue: RequestQueue,
    seen: Rc<RefCell<CompletedBios>>,
}

fn rig(scheduler: &str, nr_requests: u32, plugging: Plugging) -> Rig {
    let simulation = Simulation::new(1);
    let options = QueueOptions { pool: PoolRules::PerSync, ..options(plugging) };
    let device = Box::new(ConstantDevice::new(1 << 20, MS, 1));
    let elevator = elevator_of(scheduler, plugging == Plugging::Queue, nr_requests);
    let queue = RequestQueue::new(&simulation.handle(), elevator, device, options);
    let seen = Rc::new(RefCell::new(CompletedBios::default()));
    queue.observe(seen.clone());
    Rig { simulation, queue, seen }
}

impl Rig {
    fn sent(mut self) -> Sent {
        self.simulation.run();
        let mut sent: Vec<_> =
            self.seen.borrow().0.iter().map(|times| (times.issue_ns, times.bio.sector)).collect();
        sent.sort_unstable();
        sent.into_iter().map(|(issue_ns, sector)| (sector / 1000, issue_ns / MS)).collect()
    }
}

/// Compares with what was worked out by hand, and shows that another answer would be seen.
fn assert_sent(sent: &Sent, by_hand: &[(u64, u64)], planted: &[(u64, u64)]) {
    assert_eq!(sent, by_hand);
    assert_ne!(sent, planted);
}

const IN_ORDER: [(u64, u64); 5] = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)];
const FOURTH_NEXT: [(u64, u64); 5] = [(1, 0), (4, 1), (2, 2), (3, 3), (5, 4)];

/// Writes 1 to 5 at once; half a millisecond later a task waits for the fourth, for so long.
fn five_writes(scheduler: &str, sector: u64, waits_ns: u64) -> (Sent, u64) {
    let rig = rig(scheduler, 128, Plugging::None);
    let (sim, queue) = (rig.simulation.handle(), rig.queue.clone());
    sim.clone().spawn(async move {
        for number in 1..=5 {
            drop(queue.submit(write(number), None).await);
        }
        sim.sleep(MS / 2).await;
        let awaited = queue.await_sectors(page_at(sector), WAITER);
        sim.sleep(waits_ns).await;
        drop(awaited);
    });
    let queue = rig.queue.clone();
    (rig.sent(), queue.promoted_requests())
}

#[test]
fn a_queued_write_is_promoted_when_a_task_begins_to_wait() {
    let (sent, promoted) = five_writes("cfq-3.4", 4000, 10 * MS);
    assert_sent(&sent, &FOURTH_NEXT, &IN_ORDER);
    assert_eq!(promoted, 1);
    // A sector in the middle of the request is as good; the one behind it is nobody's.
    assert_eq!(five_writes("cfq-3.4", 4007, 0).0, FOURTH_NEXT);
    assert_eq!(five_writes("cfq-3.4", 4008, 0), (IN_ORDER.to_vec(), 0));
    // What is with the device stays there.
    assert_eq!(five_writes("cfq-3.4", 1000, 10 * MS), (IN_ORDER.to_vec(), 0));
    // NOOP has no better place, but the write is synchronous.
    assert_eq!(five_writes("noop", 4000, 10 * MS), (IN_ORDER.to_vec(), 1));
}

/// The wait begins before the write is submitted, and goes on or has ended by then.
fn waits_before(plugged: bool, goes_on: bool) -> Sent {
    let rig = rig("cfq-3.4", 128, Plugging::Task);
    let (sim, queue) = (rig.simulation.handle(), rig.queue.clone());
    sim.clone().spawn(async move {
        for number in 1..=3 {
            drop(queue.submit(write(number), None).await);
        }
        let plug = Plug::new();
        if plugged {
            // The scheduler does not see it before the plug goes.
            drop(queue.submit(write(4), Some(&plug)).await);
        }
        let awaited = queue.await_sectors(page_at(4000), WAITER);
        sim.sleep(MS / 2).await;
        let kept = goes_on.then_some(awaited);
        if plugged {
            queue.unplug(&plug);
        } else {
            drop(queue.submit(write(4), None).await);
        }
        drop(queue.submit(write(5), None).await);
        drop(kept);
    });
    rig.sent()
}

#[test]
fn a_write_that_comes_while_a_task_waits_for_it_is_promoted_at_once() {
    for plugged in [true, false] {
        assert_sent(&waits_before(plugged, true), &FOURTH_NEXT, &IN_ORDER);
        assert_sent(&waits_before(plugged, false), &IN_ORDER, &FOURTH_NEXT);
    }
}

#[test]
fn a_write_that_waits_for_a_request_is_promoted_when_it_gets_one() {
    // Four requests of a kind: the sixth write finds none before the first is done, and keeps its place in that line.
    let rig = rig("cfq-3.4", 4, Plugging::None);
    for number in 1..=7 {
        let (sim, queue) = (rig.simulation.handle(), rig.queue.clone());
        // Processes of their own: one that fills the pool may have a batch more.
        let bio = Bio { pid: FLUSHER + number as u32, ..write(number) };
        sim.spawn(async move { drop(queue.submit(bio, None).await) });
    }
    let (sim, queue) = (rig.simulation.handle(), rig.queue.clone());
    sim.clone().spawn(async move {
        sim.sleep(MS / 2).await;
        let awaited = queue.await_sectors(page_at(6000), WAITER);
        sim.sleep(10 * MS).await;
        drop(awaited);
    });
    let queue = rig.queue.clone();
    let sent = rig.sent();
    assert_eq!(queue.promoted_requests(), 1);
    let place = |number| sent.iter().position(|sent| sent.0 == number).expect("it was sent");
    assert!(place(6) < place(5), "the sixth overtakes: {sent:?}");
    assert!(place(6) > place(2), "no sooner than it has a request: {sent:?}");
}

#[test]
fn a_request_is_promoted_with_all_its_bios_also_when_a_merge_makes_it_awaited() {
    for before in [false, true] {
        let rig = rig("cfq-3.4", 128, Plugging::None);
        let (sim, queue) = (rig.simulation.handle(), rig.queue.clone());
        sim.clone().spawn(async move {
            for number in 1..=4 {
                drop(queue.submit(write(number), None).await);
            }
            let awaited = before.then(|| queue.await_sectors(page_at(4008), WAITER));
            let behind = Bio { sector: 4008, ..write(4) };
            drop(queue.submit(behind, None).await);
            let awaited = awaited.unwrap_or_else(|| queue.await_sectors(page_at(4008), WAITER));
            sim.sleep(10 * MS).await;
            drop(awaited);
        });
        let by_hand = [(1, 0), (4, 1), (4, 1), (2, 2), (3, 3)];
        assert_sent(&rig.sent(), &by_hand, &[(1, 0), (2, 1), (3, 2), (4, 3), (4, 3)]);
    }
}

#[test]
fn a_plugged_queue_goes_when_a_task_waits() {
    // 2.6.29 holds the first request back for 3 ms.
    for waits in [false, true] {
        let rig = rig("cfq-2.6.29", 128, Plugging::Queue);
        let (sim, queue) = (rig.simulation.handle(), rig.queue.clone());
        sim.clone().spawn(async move {
            drop(queue.submit(write(1), None).await);
            sim.sleep(MS).await;
            let awaited = waits.then(|| queue.await_sectors(page_at(1000), WAITER));
            sim.sleep(10 * MS).await;
            drop(awaited);
        });
        assert_eq!(rig.sent(), [(1, if waits { 1 } else { 3 })]);
    }
}

#[test]
#[should_panic(expected = "runs of sectors are in order and apart")]
fn runs_that_overlap_are_found() {
    let rig = rig("noop", 128, Plugging::None);
    drop(rig.queue.await_sectors(vec![0..16, 8..24], WAITER));
}
