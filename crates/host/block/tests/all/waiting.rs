//! What a bio waited behind, worked out by hand: reads, writes, flushes, cleaning, or a device that had
//! nothing to do.

use crate::support::{CompletedBios, MS, bio, elevator, elevator_of, options};
use block::{BioTimes, Plugging, QueueOptions, RequestQueue, WaitBreakdown};
use device::{
    BlockDevice, Command, Completion, DeviceActivity, DeviceError, DeviceStatistics, Operation,
};
use sched::Direction;
use sim::Simulation;
use std::cell::RefCell;
use std::rc::Rc;

/// Reads take 2 ms, writes 5 ms of which the first 3 are cleaning, flushes 1 ms; one at a time.
#[derive(Clone, Default)]
struct Cleaning {
    busy_until_ns: u64,
    statistics: DeviceStatistics,
}

impl BlockDevice for Cleaning {
    fn sectors(&self) -> u64 {
        1 << 20
    }

    fn queue_depth(&self) -> u32 {
        2
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn submit(&mut self, now_ns: u64, command: &Command) -> Result<Completion, DeviceError> {
        command.check(self.sectors())?;
        let start_ns = now_ns.max(self.busy_until_ns);
        let (taken_ms, cleaning_ms) = match command.operation {
            Operation::Read => (2, 0),
            Operation::Write => (5, 3),
            Operation::Flush | Operation::Discard => (1, 0),
        };
        self.statistics.completed += 1;
        self.busy_until_ns = start_ns + taken_ms * MS;
        let own_cleaning_ns = cleaning_ms * MS;
        Ok(Completion {
            start_ns,
            done_ns: self.busy_until_ns,
            own_cleaning_ns,
            ..Completion::default()
        })
    }

    fn clone_box(&self) -> Box<dyn BlockDevice> {
        Box::new(self.clone())
    }

    fn statistics(&self) -> DeviceStatistics {
        self.statistics
    }

    fn record_activity(&mut self, _on: bool) {}

    fn take_activity(&mut self) -> DeviceActivity {
        DeviceActivity::default()
    }
}

/// A call, and the millisecond at which it is made.
#[derive(Clone, Copy)]
enum Call {
    Submit(Direction, u64),
    Flush,
}

/// The times of the bios in the order in which they were done, and what the device did in all. Those of
/// flushes have no sectors.
fn completed(
    queue_depth: u32,
    plugging: Plugging,
    calls: &[(u64, Call)],
) -> (Vec<BioTimes>, WaitBreakdown) {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let options = QueueOptions { queue_depth, ..options(plugging) };
    let elevator = elevator(plugging == Plugging::Queue, 128);
    let queue = RequestQueue::new(&sim, elevator, Box::new(Cleaning::default()), options);
    let seen = Rc::new(RefCell::new(CompletedBios::default()));
    queue.observe(seen.clone());
    for (at_ms, call) in calls.iter().copied() {
        let (sim, queue) = (sim.clone(), queue.clone());
        sim.clone().spawn(async move {
            sim.sleep_until(at_ms * MS).await;
            match call {
                Call::Submit(direction, sector) => {
                    let times = queue.submit(bio(1, direction, sector), None).await.wait().await;
                    assert_eq!(times.expect("no error").bio.sector, sector);
                }
                Call::Flush => drop(queue.flush(1).await.expect("no error")),
            }
        });
    }
    simulation.run();
    let commands = queue.statistics().expect("the device counts").completed;
    assert_eq!(commands, calls.len() as u64, "every call is a command");
    let completed = seen.borrow().0.clone();
    (completed, queue.totals())
}

fn behind_ms(reads: u64, writes: u64, cleaning: u64, idling: u64) -> WaitBreakdown {
    WaitBreakdown {
        reads_ns: reads * MS,
        writes_ns: writes * MS,
        cleaning_ns: cleaning * MS,
        idling_ns: idling * MS,
    }
}

const READ: Direction = Direction::Read;
const WRITE: Direction = Direction::Write;

#[test]
fn a_bio_waits_behind_reads_flushes_cleaning_and_writes() {
    let calls = [
        (0, Call::Submit(READ, 0)),
        (0, Call::Submit(WRITE, 100)),
        (1, Call::Flush),
        (1, Call::Submit(READ, 200)),
        (4, Call::Submit(READ, 300)),
        (7, Call::Submit(READ, 400)),
        (30, Call::Submit(READ, 500)),
    ];
    // The read until 2, the flush, which goes before what is queued, until 3, the write until 8 with
    // its cleaning until 6, the reads until 10, 12 and 14; then nothing until 30.
    let (completed, totals) = completed(1, Plugging::None, &calls);
    let told: Vec<(u64, u64, WaitBreakdown)> = completed
        .iter()
        .map(|times| (times.bio.sector, times.complete_ns / MS, times.wait))
        .collect();
    let expected = [
        (0, 2, behind_ms(0, 0, 0, 0)),
        (0, 3, behind_ms(1, 0, 0, 0)),
        // Its own cleaning is counted as well: the host waits for it.
        (100, 8, behind_ms(2, 1, 3, 0)),
        (200, 10, behind_ms(1, 3, 3, 0)),
        (300, 12, behind_ms(2, 2, 2, 0)),
        (400, 14, behind_ms(4, 1, 0, 0)),
        (500, 32, behind_ms(0, 0, 0, 0)),
    ];
    assert_eq!(told, expected);
    assert_eq!(totals, behind_ms(10, 3, 3, 0), "nobody waits while the device is idle");
    for times in &completed {
        let own_ns = times.complete_ns - times.start_ns;
        let own_cleaning_ns = if times.bio.sector == 100 { 3 * MS } else { 0 };
        assert_eq!(times.wait.total_ns() + own_ns, times.q2c_ns() + own_cleaning_ns);
    }
}

#[test]
fn a_command_that_waits_in_the_device_begins_when_the_one_in_front_is_done() {
    let calls = [
        (0, Call::Submit(READ, 0)),
        (0, Call::Submit(WRITE, 100)),
        (0, Call::Submit(READ, 200)),
        (0, Call::Submit(WRITE, 300)),
    ];
    // Two at once are with the device: the third goes there when the first is done.
    let (completed, totals) = completed(2, Plugging::None, &calls);
    let phases_ms =
        |times: &BioTimes| [times.issue_ns, times.start_ns, times.complete_ns].map(|ns| ns / MS);
    assert_eq!(phases_ms(&completed[0]), [0, 0, 2]);
    assert_eq!(phases_ms(&completed[1]), [0, 2, 7]);
    assert_eq!(phases_ms(&completed[2]), [2, 7, 9]);
    assert_eq!(phases_ms(&completed[3]), [7, 9, 14]);
    assert_eq!(completed[3].wait, behind_ms(4, 2, 6, 0));
    assert_eq!(totals, behind_ms(4, 4, 6, 0));
}

/// `blk_plug_device` of Linux 2.6.29: a queue that was empty waits 3 ms for more to merge.
#[test]
fn a_queue_that_is_held_back_is_idle_time_and_the_first_command_ends_it() {
    let calls = [(10, Call::Submit(READ, 0)), (11, Call::Submit(READ, 100))];
    let asynchronous = [(10, Call::Submit(WRITE, 0)), (11, Call::Submit(WRITE, 100))];
    let (held, totals) = completed(1, Plugging::Queue, &asynchronous);
    assert_eq!(held[0].wait, behind_ms(0, 0, 3, 3), "3 ms, and its own cleaning");
    assert_eq!(held[1].wait, behind_ms(0, 2, 6, 2));
    assert_eq!(held[1].wait.total_ns(), 10 * MS);
    assert_eq!(totals, behind_ms(0, 4, 6, 3));
    // Reads are synchronous and end it at once.
    let (_, totals) = completed(1, Plugging::Queue, &calls);
    assert_eq!(totals, behind_ms(4, 0, 0, 0));
}

#[test]
fn a_flush_goes_before_what_is_queued_and_ends_the_plug() {
    let calls = [(0, Call::Submit(WRITE, 0)), (0, Call::Submit(WRITE, 100)), (1, Call::Flush)];
    let (completed, _) = completed(1, Plugging::Queue, &calls);
    let order: Vec<(u32, u64)> =
        completed.iter().map(|times| (times.bio.sectors, times.complete_ns / MS)).collect();
    assert_eq!(order, [(0, 2), (8, 7), (8, 12)]);
    // What was queued before the flush and is sent after it was overtaken by it.
    assert!(completed.iter().all(|times| times.overtaken <= 1));
}

/// CFQ waits up to 8 ms for the next read of a process (`slice_idle`); once the process is gone
/// (`cfq_exit_io_context`), the next one's turn begins at once.
#[test]
fn no_idling_for_a_process_that_has_exited() {
    let second_issued_ms = |exits: bool| {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let elevator = elevator_of("cfq-3.4", true, 128);
        let device = Box::new(Cleaning::default());
        let queue = RequestQueue::new(&sim, elevator, device, options(Plugging::None));
        let seen = Rc::new(RefCell::new(CompletedBios::default()));
        queue.observe(seen.clone());
        sim.clone().spawn(async move {
            drop(queue.submit(bio(1, READ, 0), None).await);
            drop(queue.submit(bio(2, READ, 100_000), None).await);
            sim.sleep_until(5 * MS).await;
            if exits {
                queue.exit(1);
            }
        });
        simulation.run();
        let completed = &seen.borrow().0;
        assert_eq!((completed.len(), completed[0].complete_ns), (2, 2 * MS));
        assert_eq!(completed[1].wait, behind_ms(2, 0, 0, completed[1].issue_ns / MS - 2));
        completed[1].issue_ns / MS
    };
    assert_eq!((second_issued_ms(false), second_issued_ms(true)), (10, 5));
}

/// SFQ with `orphans=cancel` gives up what an exited process queued: its bios fail, and a process that
/// waited for a free request gets one.
#[test]
fn bios_of_an_exited_process_fail_and_free_their_requests() {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let entry = sched::find_scheduler("sfq").expect("in the table");
    let given = [("orphans".to_owned(), settings::Value::Word("cancel".into()))].into();
    let settings = entry.settings(&given).expect("a value of its list");
    let options_of =
        sched::ElevatorOptions { rotational: false, nr_requests: 4, ..Default::default() };
    let elevator = sched::Elevator::new(entry, &settings, options_of);
    let queue =
        RequestQueue::new(&sim, elevator, Box::new(Cleaning::default()), options(Plugging::None));
    let failed = Rc::new(RefCell::new(Vec::new()));
    let seen = failed.clone();
    let job = sim.clone().spawn({
        let (queue, sim) = (queue.clone(), sim.clone());
        async move {
            let mut bios = Vec::new();
            for index in 0..4 {
                bios.push(queue.submit(bio(1, READ, index * 1000), None).await);
            }
            let late = sim.spawn({
                let queue = queue.clone();
                async move { queue.submit(bio(2, READ, 50_000), None).await.wait().await }
            });
            sim.sleep(1000).await;
            queue.exit(1);
            for one in bios {
                let ended = one.wait().await;
                seen.borrow_mut().push(ended.err());
            }
            late.await.expect("the other process is served");
        }
    });
    simulation.run();
    assert!(job.is_finished());
    let failed = failed.borrow();
    assert_eq!(failed[0], None, "the device had the first already");
    assert!(failed[1..].iter().all(|error| *error == Some(DeviceError::Cancelled)), "{failed:?}");
}
