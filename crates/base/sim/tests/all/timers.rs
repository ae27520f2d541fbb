//! Sleeping in great numbers, and the timer that can be armed again.

use crate::support;

use sim::{RunEnd, Simulation, Timer};
use std::cell::Cell;
use std::rc::Rc;
use support::{Log, race};

#[test]
fn a_million_sleeping_tasks_wake_in_order() {
    let mut simulation = Simulation::new(3);
    let mut stream = simulation.handle().stream("durations");
    let last = Rc::new(Cell::new((0, 0)));
    let count = Rc::new(Cell::new(0));
    for task in 0..1_000_000_u64 {
        let (sim, last, count) = (simulation.handle(), last.clone(), count.clone());
        let duration_ns = 1 + u64::from(stream.below(100_000));
        simulation.handle().spawn(async move {
            sim.sleep(duration_ns).await;
            assert_eq!(sim.now(), duration_ns);
            assert!((duration_ns, task) > last.replace((duration_ns, task)));
            count.set(count.get() + 1);
        });
    }
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(count.get(), 1_000_000);
}

#[test]
fn ten_tasks_sleep_a_million_times() {
    let mut simulation = Simulation::new(0);
    for task in 1..=10 {
        let sim = simulation.handle();
        simulation.handle().spawn(async move {
            for round in 1..=100_000 {
                sim.sleep(task).await;
                assert_eq!(sim.now(), task * round);
            }
        });
    }
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(simulation.polls(), 1_000_010);
}

#[test]
fn dropped_sleeps_never_move_the_clock() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    simulation.handle().spawn(async move {
        for _ in 0..100_000 {
            assert!(!race(sim.sleep(30_000_000_000), sim.sleep(10)).await);
        }
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(simulation.handle().now(), 1_000_000);
}

/// What is done to a timer at which time, and when it is seen to fire.
struct Case {
    name: &'static str,
    steps: &'static [(u64, Step)],
    fires_at_ns: &'static [u64],
}

enum Step {
    Arm(u64),
    Cancel(bool),
}
use Step::{Arm, Cancel};

const CASES: &[Case] = &[
    Case { name: "fires once", steps: &[(0, Arm(10))], fires_at_ns: &[10] },
    Case {
        name: "again after firing",
        steps: &[(0, Arm(10)), (20, Arm(30))],
        fires_at_ns: &[10, 30],
    },
    Case { name: "later", steps: &[(0, Arm(10)), (5, Arm(40))], fires_at_ns: &[40] },
    Case { name: "earlier", steps: &[(0, Arm(40)), (5, Arm(10))], fires_at_ns: &[10] },
    Case {
        name: "cancelled",
        steps: &[(0, Arm(10)), (5, Cancel(true)), (20, Cancel(false))],
        fires_at_ns: &[],
    },
    Case {
        name: "armed after cancelling",
        steps: &[(0, Arm(10)), (5, Cancel(true)), (6, Arm(12))],
        fires_at_ns: &[12],
    },
    Case { name: "in the past", steps: &[(5, Arm(3))], fires_at_ns: &[5] },
    Case { name: "now, then later", steps: &[(5, Arm(5)), (5, Arm(9))], fires_at_ns: &[9] },
    Case {
        name: "now, then cancelled",
        steps: &[(5, Arm(5)), (5, Cancel(true))],
        fires_at_ns: &[],
    },
];

#[test]
fn timers_fire_when_they_should() {
    for case in CASES {
        let mut simulation = Simulation::new(0);
        let (sim, log) = (simulation.handle(), Log::new());
        let timer = Rc::new(Timer::new(&sim));
        let (waiter_sim, waiter_timer, waiter_log) = (sim.clone(), timer.clone(), log.clone());
        sim.spawn(async move {
            loop {
                waiter_timer.fired().await;
                waiter_log.add(waiter_sim.now());
            }
        });
        let driver_sim = sim.clone();
        sim.spawn(async move {
            for (at_ns, step) in case.steps {
                driver_sim.sleep_until(*at_ns).await;
                match step {
                    Arm(until_ns) => timer.arm(*until_ns),
                    Cancel(was_armed) => assert_eq!(timer.cancel(), *was_armed, "{}", case.name),
                }
            }
        });
        assert_eq!(simulation.run(), RunEnd::Blocked { tasks: 1 }, "{}", case.name);
        assert_eq!(log.take(), case.fires_at_ns, "{}", case.name);
    }
}

#[test]
fn a_timer_cancelled_in_its_instant_is_not_seen() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let timer = Rc::new(Timer::new(&sim));
    let (canceller, in_task) = (sim.clone(), timer.clone());
    sim.spawn(async move {
        canceller.sleep(10).await;
        assert!(in_task.cancel());
    });
    sim.spawn_named("waiter", async move {
        timer.arm(10);
        timer.fired().await;
    });
    assert_eq!(simulation.run(), RunEnd::Blocked { tasks: 1 });
    assert_eq!(simulation.blocked_tasks(), ["waiter"]);
}

#[test]
fn a_firing_is_kept_until_it_is_seen() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    simulation.handle().spawn(async move {
        let timer = Timer::new(&sim);
        timer.arm(10);
        // A wait that was given up must not leave its task behind as the one that waits.
        assert!(!race(timer.fired(), sim.sleep(5)).await);
        sim.sleep(20).await;
        timer.fired().await;
        assert_eq!(sim.now(), 25);
        assert!(!race(timer.fired(), sim.sleep(5)).await);
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
}

#[test]
#[should_panic(expected = "two tasks wait for one timer")]
fn one_task_waits_for_a_timer() {
    let mut simulation = Simulation::new(0);
    let timer = Rc::new(Timer::new(&simulation.handle()));
    for _ in 0..2 {
        let timer = timer.clone();
        simulation.handle().spawn(async move { timer.fired().await });
    }
    simulation.run();
}
