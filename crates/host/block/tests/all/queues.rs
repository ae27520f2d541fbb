//! Several hardware queues over a drive with submission queues: what can be worked out by hand.

use crate::support::{CompletedBios, bio, elevator_of, options};
use block::{BioTimes, Plugging, PoolRules, QueueOptions, RequestQueue};
use device::{
    Arbitration, BlockDevice, Coalescing, Command, Completion, ConstantDevice, DeviceActivity,
    DeviceError, DeviceStatistics, HostQueues,
};
use random::Stream;
use sched::{Bio, Direction};
use sim::Simulation;
use std::cell::RefCell;
use std::rc::Rc;

/// Time of every command.
const SERVICE_NS: u64 = 10_000;
const SECTORS: u64 = 1 << 20;

/// A drive that serves one command after the other, behind queues or without any.
#[derive(Clone)]
struct Drive {
    inner: ConstantDevice,
    queues: Option<HostQueues>,
}

impl Drive {
    fn new(queues: Option<HostQueues>) -> Self {
        Self { inner: ConstantDevice::new(SECTORS, SERVICE_NS, 64), queues }
    }
}

impl BlockDevice for Drive {
    fn sectors(&self) -> u64 {
        self.inner.sectors()
    }

    fn queue_depth(&self) -> u32 {
        self.inner.queue_depth()
    }

    fn host_queues(&self) -> Option<HostQueues> {
        self.queues
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn submit(&mut self, now_ns: u64, command: &Command) -> Result<Completion, DeviceError> {
        self.inner.submit(now_ns, command)
    }

    fn clone_box(&self) -> Box<dyn BlockDevice> {
        Box::new(self.clone())
    }

    fn statistics(&self) -> DeviceStatistics {
        self.inner.statistics()
    }

    fn record_activity(&mut self, _on: bool) {}

    fn take_activity(&mut self) -> DeviceActivity {
        DeviceActivity::default()
    }
}

fn queues(count: u32) -> HostQueues {
    let (executes, burst) = (1, Some(1));
    let (arbitration, coalescing) = (Arbitration::RoundRobin, None);
    HostQueues { count, executes, burst, arbitration, coalescing }
}

/// What a test asks of a stack.
#[derive(Clone, Copy)]
struct Stack {
    scheduler: &'static str,
    nr_requests: u32,
    queue_depth: u32,
    cores: u32,
    queues: Option<HostQueues>,
}

impl Stack {
    const fn new(scheduler: &'static str, queues: HostQueues) -> Self {
        let (nr_requests, queue_depth, cores) = (64, 64, 2);
        Self { scheduler, nr_requests, queue_depth, cores, queues: Some(queues) }
    }

    fn open(&self, simulation: &Simulation) -> (RequestQueue, Rc<RefCell<CompletedBios>>) {
        let elevator = elevator_of(self.scheduler, false, self.nr_requests);
        let (queue_depth, cores) = (self.queue_depth, self.cores);
        let pool = PoolRules::PerSync;
        let options = QueueOptions { pool, queue_depth, cores, ..options(Plugging::None) };
        let drive = Box::new(Drive::new(self.queues));
        let queue = RequestQueue::new(&simulation.handle(), elevator, drive, options);
        let seen = Rc::new(RefCell::new(CompletedBios::default()));
        queue.observe(seen.clone());
        (queue, seen)
    }

    /// Processes 0 and 1 read with a depth each until the time is over; all bios.
    fn read(&self, depths: [u32; 2], until_ns: u64) -> Vec<BioTimes> {
        let mut simulation = Simulation::new(1);
        let (queue, seen) = self.open(&simulation);
        for (pid, depth) in depths.into_iter().enumerate() {
            for number in 0..depth {
                let (queue, sim) = (queue.clone(), simulation.handle());
                simulation.handle().spawn(async move {
                    // Apart, so that nothing is merged.
                    let sector = 100 * u64::from(number) + 10_000 * pid as u64;
                    while sim.now() < until_ns {
                        let read = bio(pid as u32, Direction::Read, sector);
                        queue.submit(read, None).await.wait().await.expect("a healthy drive");
                    }
                });
            }
        }
        simulation.run();
        let seen = seen.borrow();
        seen.0.iter().filter(|times| times.complete_ns <= until_ns).copied().collect()
    }

    /// Services that a bio of each process takes, once all take the same time.
    fn latencies(&self, depths: [u32; 2]) -> [u64; 2] {
        let all = self.read(depths, 10_000 * SERVICE_NS);
        [0, 1].map(|pid| {
            let own: Vec<u64> =
                all.iter().filter(|times| times.bio.pid == pid).map(BioTimes::q2c_ns).collect();
            let last_ns = *own.last().expect("it was served");
            let other = own[own.len() / 2..].iter().find(|latency_ns| **latency_ns != last_ns);
            assert_eq!(other, None, "process {pid} of {}: most take {last_ns} ns", self.scheduler);
            last_ns / SERVICE_NS
        })
    }
}

/// As in the test of the drive alone: the schedulers of blk-mq hand the queues down as they are.
#[test]
fn a_deep_process_does_not_starve_a_shallow_one() {
    for scheduler in ["none", "kyber", "mq-deadline-6.12"] {
        for power in 0..3 {
            let burst = 1 << power;
            let two = Stack::new(scheduler, HostQueues { burst: Some(burst), ..queues(2) });
            let [deep, shallow] = two.latencies([32, 1]);
            assert_eq!(shallow, u64::from(burst) + 1, "{scheduler}");
            // One in burst + 1 services is the other's.
            let burst = u64::from(burst);
            assert!(deep == 32 + 32 / burst, "{scheduler}, {burst}: {deep}");
        }
        let one = Stack { cores: 1, ..Stack::new(scheduler, queues(2)) };
        assert_eq!(one.latencies([32, 1]), [33, 33], "{scheduler}: a core has one queue");
    }
    // A scheduler of a single queue sees one.
    for scheduler in ["noop", "deadline-3.4"] {
        assert_eq!(Stack::new(scheduler, queues(2)).latencies([32, 1]), [33, 33], "{scheduler}");
    }
}

/// Tags are those of a hardware queue (`blk_mq_tags` of each `blk_mq_hw_ctx`).
#[test]
fn each_hardware_queue_has_its_own_requests_and_its_own_depth() {
    let waits = |stack: Stack| {
        let all = stack.read([8, 1], 1_000 * SERVICE_NS);
        [0, 1].map(|pid| {
            let own = all.iter().filter(|times| times.bio.pid == pid);
            own.map(BioTimes::q2g_ns).max().expect("it was served") / SERVICE_NS
        })
    };
    let few = Stack { nr_requests: 4, ..Stack::new("none", queues(2)) };
    // Four of the deep process are with the drive, four wait until each of these was served, every other time.
    assert_eq!(waits(few), [8, 0]);
    assert_eq!(waits(Stack { queues: Some(queues(1)), ..few }), [5, 5], "in one pool all wait");
    // With a depth of two the rest waits with the scheduler, and the other queue is free.
    let shallow = Stack { queue_depth: 2, ..Stack::new("none", queues(2)) };
    let all = shallow.read([8, 1], 1_000 * SERVICE_NS);
    let with_drive = |pid: u32| {
        let own = all.iter().filter(|times| times.bio.pid == pid);
        own.map(BioTimes::d2c_ns).max().expect("it was served") / SERVICE_NS
    };
    assert_eq!([with_drive(0), with_drive(1)], [4, 2]);
}

/// mq-deadline answers whichever hardware queue asks. A request of a queue that is full waits there, before all that the
/// scheduler still has.
#[test]
fn a_request_of_a_full_hardware_queue_waits_for_it() {
    let stack = Stack { queue_depth: 1, ..Stack::new("mq-deadline-6.12", queues(2)) };
    let mut simulation = Simulation::new(1);
    let (queue, seen) = stack.open(&simulation);
    simulation.handle().spawn(async move {
        for (pid, sector) in [(0, 0), (0, 200), (0, 100), (1, 300), (0, 50)] {
            drop(queue.submit(bio(pid, Direction::Read, sector), None).await);
        }
    });
    simulation.run();
    let order: Vec<(u64, u64)> = seen
        .borrow()
        .0
        .iter()
        .map(|times| (times.bio.sector, times.issue_ns / SERVICE_NS))
        .collect();
    // Sector 0 went at once. The second queue was run after each of the next submissions: it took 200, which is held for
    // the first queue, then 100, and then 300, its own. Only sector 50 is left with the scheduler.
    assert_eq!(order, [(0, 0), (300, 0), (200, 1), (100, 3), (50, 4)]);
}

#[test]
fn an_interrupt_that_waits_is_part_of_what_the_host_sees() {
    let coalescing = Some(Coalescing { entries: 3, time_ns: 7 * SERVICE_NS });
    let stack = Stack::new("none", HostQueues { coalescing, ..queues(2) });
    for (depths, expected) in [
        // Alone, every read waits for the time.
        ([1, 1], [[8, 9].as_slice(), &[8, 9]]),
        // Three make an interrupt with the last of them.
        ([3, 0], [&[3], &[]]),
    ] {
        let all = stack.read(depths, 1_000 * SERVICE_NS);
        for (pid, expected) in expected.into_iter().enumerate() {
            let own = all.iter().filter(|times| times.bio.pid == pid as u32);
            let mut found: Vec<u64> = own.map(|times| times.d2c_ns() / SERVICE_NS).collect();
            found.sort_unstable();
            found.dedup();
            assert!(found.iter().all(|found| expected.contains(found)), "{depths:?}: {found:?}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{depths:?}");
        }
    }
}

/// A drive behind one queue is what it is without: the same times of all bios, waits and all.
#[test]
fn one_queue_changes_no_time_of_a_bio() {
    for scheduler in ["noop", "cfq-3.4", "kyber", "mq-deadline-6.1", "none"] {
        let one = queues(1);
        let run = |queues| {
            let mut simulation = Simulation::new(1);
            let stack = Stack { queue_depth: 8, cores: 4, queues, ..Stack::new(scheduler, one) };
            let (queue, seen) = stack.open(&simulation);
            let sim = simulation.handle();
            let mut stream = Stream::new(1, "bios");
            sim.clone().spawn(async move {
                for _ in 0..3_000 {
                    sim.sleep(u64::from(stream.below(2 * SERVICE_NS as u32))).await;
                    let pid = 1 + stream.below(5);
                    if stream.below(50) == 0 {
                        let sim_queue = queue.clone();
                        sim.spawn(async move {
                            sim_queue.flush(pid).await.expect("a healthy drive");
                        });
                    }
                    let directions = [Direction::Read, Direction::Write];
                    let direction = directions[stream.below(2) as usize];
                    let sector = u64::from(stream.below(5_000)) * 8;
                    drop(queue.submit(bio(pid, direction, sector), None).await);
                }
            });
            simulation.run();
            std::mem::take(&mut seen.borrow_mut().0)
        };
        let (direct, queued) = (run(None), run(Some(one)));
        assert!(direct.iter().filter(|times| times.start_ns > times.issue_ns).count() > 100);
        assert_eq!(direct, queued, "{scheduler}");
    }
}

#[test]
fn a_command_that_the_drive_refuses_ends_with_its_reason() {
    let mut simulation = Simulation::new(1);
    let (queue, _) = Stack::new("none", queues(2)).open(&simulation);
    let read = |sector| -> Bio { bio(1, Direction::Read, sector) };
    let answers = Rc::new(RefCell::new(Vec::new()));
    let told = answers.clone();
    simulation.handle().spawn(async move {
        let (good, bad) =
            (queue.submit(read(0), None).await, queue.submit(read(SECTORS), None).await);
        let bad = bad.wait().await;
        let good = good.wait().await;
        told.borrow_mut().extend([bad, good]);
    });
    simulation.run();
    let device_sectors = SECTORS;
    let past = DeviceError::PastTheEnd { sector: SECTORS, sectors: 8, device_sectors };
    let answers = answers.borrow();
    assert_eq!(answers[0].err(), Some(past));
    assert!(answers[1].is_ok());
}
