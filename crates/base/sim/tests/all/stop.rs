//! The power cut.

use crate::support;

use sim::{Lock, RunEnd, Sim, Simulation};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use support::Log;

/// Logs when it is dropped after the cut.
struct Witness(Log<String>, Sim, usize);

impl Drop for Witness {
    fn drop(&mut self) {
        if !self.1.is_stopped() {
            return;
        }
        // What a drop spawns after the cut must not run.
        let log = self.0.clone();
        self.1.spawn(async move { log.add(String::from("spawned")) });
        self.0.add(format!("drop {}", self.2));
    }
}

fn start(simulation: &Simulation, log: &Log<String>) {
    let lock = Rc::new(Lock::new(&simulation.handle(), ()));
    for task in 0..4 {
        let (sim, log, lock) = (simulation.handle(), log.clone(), lock.clone());
        simulation.handle().spawn(async move {
            let _witness = Witness(log.clone(), sim.clone(), task);
            let _guard = lock.lock().await;
            log.add(format!("hold {task}"));
            sim.sleep(10).await;
        });
    }
}

#[test]
fn stop_drops_all_tasks_without_a_poll() {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    start(&simulation, &log);
    let cutter_log = log.clone();
    sim.clone().spawn(async move {
        sim.sleep(5).await;
        sim.stop();
        cutter_log.add(String::from("runs on to the next await"));
        sim.yield_now().await;
        cutter_log.add(String::from("never"));
    });
    assert_eq!(simulation.run(), RunEnd::Stopped);
    // Dropping task 0 grants the lock to task 1, which is never polled to notice.
    let expected = ["hold 0", "runs on to the next await", "drop 0", "drop 1", "drop 2", "drop 3"];
    assert_eq!(log.take(), expected);
    let polls = simulation.polls();
    assert_eq!(simulation.run(), RunEnd::Stopped);
    assert_eq!((simulation.polls(), simulation.handle().now()), (polls, 5));
    assert!(simulation.blocked_tasks().is_empty() && log.take().is_empty());
}

#[test]
fn stop_from_outside_drops_at_once_and_refuses_new_tasks() {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    start(&simulation, &log);
    assert_eq!(simulation.run_until(15), RunEnd::Paused);
    log.add(String::from("cut"));
    sim.stop();
    assert_eq!(log.take(), ["hold 0", "hold 1", "cut", "drop 1", "drop 2", "drop 3"]);
    let held = Rc::new(());
    let in_task = held.clone();
    let refused = sim.spawn(async move { drop(in_task) });
    assert_eq!((Rc::strong_count(&held), simulation.blocked_tasks().len()), (1, 0));
    assert_eq!(simulation.run(), RunEnd::Stopped);
    assert!(!refused.is_finished());
}

#[test]
fn dropping_the_simulation_frees_its_tasks() {
    let held = Rc::new(());
    let simulation = Simulation::new(0);
    let (sim, in_task) = (simulation.handle(), held.clone());
    simulation.handle().spawn(async move {
        sim.sleep(1).await;
        drop(in_task);
    });
    drop(simulation);
    assert_eq!(Rc::strong_count(&held), 1);
}

#[test]
fn a_task_that_ends_in_the_poll_of_the_cut_keeps_its_result() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let cutter = simulation.handle().spawn(poll_fn(move |_| {
        sim.stop();
        Poll::Ready(7)
    }));
    assert_eq!(simulation.run(), RunEnd::Stopped);
    assert_eq!(cutter.try_take(), Some(7));
}
