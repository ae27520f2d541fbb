//! How many requests a task gets before it sleeps, and what wakes it.

use crate::support::{CompletedBios, MS, bio, options};
use block::{Plug, Plugging, PoolRules, QueueOptions, RequestQueue};
use device::{BlockDevice, Command, Completion, DeviceActivity, DeviceError, DeviceStatistics};
use sched::{Bio, Direction, Elevator, ElevatorOptions, find_scheduler};
use settings::Value;
use sim::{Sim, Simulation};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Every command takes a second.
#[derive(Clone, Default)]
struct Slow {
    busy_until_ns: u64,
}

impl BlockDevice for Slow {
    fn sectors(&self) -> u64 {
        1 << 20
    }

    fn queue_depth(&self) -> u32 {
        1
    }

    fn is_rotational(&self) -> bool {
        false
    }

    fn submit(&mut self, now_ns: u64, _command: &Command) -> Result<Completion, DeviceError> {
        let start_ns = now_ns.max(self.busy_until_ns);
        self.busy_until_ns = start_ns + 1000 * MS;
        Ok(Completion { start_ns, done_ns: self.busy_until_ns, ..Completion::default() })
    }

    fn clone_box(&self) -> Box<dyn BlockDevice> {
        Box::new(self.clone())
    }

    fn statistics(&self) -> DeviceStatistics {
        DeviceStatistics::default()
    }

    fn record_activity(&mut self, _on: bool) {}

    fn take_activity(&mut self) -> DeviceActivity {
        DeviceActivity::default()
    }
}

fn queue(
    sim: &Sim,
    scheduler: &str,
    given: &[(&str, i64)],
    nr_requests: u32,
    plugging: Plugging,
) -> RequestQueue {
    let entry = find_scheduler(scheduler).expect("in the table");
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), Value::Integer(*value)));
    let settings = entry.settings(&given.collect()).expect("its tunables");
    let elevator_options = ElevatorOptions { nr_requests, ..ElevatorOptions::default() };
    let elevator = Elevator::new(entry, &settings, elevator_options);
    let options = QueueOptions { pool: PoolRules::PerSync, ..options(plugging) };
    RequestQueue::new(sim, elevator, Box::new(Slow::default()), options)
}

/// Requests that one task gets of 128 before it sleeps; no two of them touch.
fn granted(scheduler: &str, given: &[(&str, i64)], kind: Bio) -> u32 {
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let queue = queue(&sim, scheduler, given, 128, Plugging::None);
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    sim.spawn(async move {
        for number in 0..300 {
            drop(queue.submit(Bio { sector: number * 100, ..kind }, None).await);
            counted.set(number as u32 + 1);
        }
    });
    simulation.run_until(MS);
    count.get()
}

/// `get_request` of Linux 3.4 lets the task that fills the pool have a batch of 32, whatever it writes.
/// The multi-queue schedulers have tags and a depth instead (`limit_depth`).
#[test]
fn what_a_task_gets_depends_on_the_scheduler() {
    let write = bio(1, Direction::Write, 0);
    let sync_write = Bio { sync: true, ..write };
    let read = bio(1, Direction::Read, 0);
    for scheduler in ["noop", "deadline-3.4", "cfq-3.4", "row", "sfq"] {
        for kind in [write, sync_write, read] {
            assert_eq!(granted(scheduler, &[], kind), 127 + 32, "{scheduler}: {kind:?}");
        }
    }
    for (scheduler, given, expected) in [
        ("mq-deadline-6.1", &[][..], [128, 128, 128]),
        ("mq-deadline-6.12", &[], [128, 128, 128]),
        // In 6.1 the depth counts in each of the four words of the tags.
        ("mq-deadline-6.1", &[("async_depth", 16)], [64, 64, 128]),
        ("mq-deadline-6.12", &[("async_depth", 16)], [16, 16, 128]),
        ("kyber", &[], [96, 128, 128]),
    ] {
        let found = [write, sync_write, read].map(|kind| granted(scheduler, given, kind));
        assert_eq!(found, expected, "{scheduler}, {given:?}: write, synchronous write, read");
    }
}

/// `attempt_merge` puts the absorbed request back at once, and `freed_request` wakes a task.
#[test]
fn a_request_that_is_absorbed_wakes_a_task() {
    for is_plugged in [false, true] {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let plugging = if is_plugged { Plugging::Task } else { Plugging::None };
        let queue = queue(&sim, "deadline-3.4", &[], 4, plugging);
        let seen = Rc::new(RefCell::new(CompletedBios::default()));
        queue.observe(seen.clone());
        let write = |pid, sector| bio(pid, Direction::Write, sector);
        let (filling, late) = (queue.clone(), queue);
        let (filler, sleeper) = (sim.clone(), sim.clone());
        sim.spawn(async move {
            // The device is busy for a second; the rest of the pool is used up.
            drop(filling.submit(write(1, 5000), None).await);
            drop(filling.submit(write(1, 0), None).await);
            drop(filling.submit(write(1, 1000), None).await);
            let plug = Plug::new();
            let gathers = is_plugged.then_some(&plug);
            drop(filling.submit(write(1, 16), gathers).await);
            assert_eq!(plug.len(), usize::from(is_plugged));
            filler.sleep_until(2 * MS).await;
            // The write between the two: they become one request, now or when the plug goes.
            drop(filling.submit(write(1, 8), None).await);
            filling.unplug(&plug);
        });
        sim.spawn(async move {
            sleeper.sleep_until(MS).await;
            drop(late.submit(write(2, 50_000), None).await);
        });
        simulation.run();
        let completed = &seen.borrow().0;
        let times = completed.iter().find(|times| times.bio.pid == 2).expect("it was served");
        assert_eq!(times.queue_ns / MS, 1);
        assert_eq!(times.get_ns / MS, 2, "plugged: {is_plugged}");
    }
}
