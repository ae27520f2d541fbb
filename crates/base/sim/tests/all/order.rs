//! The order in which tasks run, and how runs end.

use crate::support;

use sim::{RunEnd, Simulation};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use support::Log;

#[test]
fn equal_times_run_in_the_order_of_arming() {
    let mut simulation = Simulation::new(0);
    let log = Log::new();
    for task in 0..100_u64 {
        let (sim, log) = (simulation.handle(), log.clone());
        simulation.handle().spawn(async move {
            // Tasks with odd numbers arm their second timer after those with even numbers.
            sim.sleep(10 + task % 2).await;
            sim.sleep_until(50).await;
            log.add(task);
        });
    }
    assert_eq!(simulation.run(), RunEnd::Idle);
    let expected: Vec<u64> = (0..100).step_by(2).chain((1..100).step_by(2)).collect();
    assert_eq!(log.take(), expected);
    assert_eq!(simulation.handle().now(), 50);
}

#[test]
fn timers_of_one_instant_fire_before_its_tasks_run() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let log = Log::new();
    let (first, first_log) = (sim.clone(), log.clone());
    sim.spawn(async move {
        first.sleep(5).await;
        first_log.add("first");
        first.yield_now().await;
        first_log.add("first again");
    });
    let (second, second_log) = (sim.clone(), log.clone());
    sim.spawn(async move {
        second.sleep(5).await;
        second_log.add("second");
    });
    simulation.run();
    assert_eq!(log.take(), ["first", "second", "first again"]);
}

#[test]
fn tasks_take_turns_and_children_run_after_those_that_are_ready() {
    let mut simulation = Simulation::new(0);
    let log = Log::new();
    for task in ["a", "b"] {
        let (sim, log) = (simulation.handle(), log.clone());
        simulation.handle().spawn(async move {
            let child_log = log.clone();
            let child = sim.spawn(async move {
                child_log.add(format!("{task} child"));
                task.len()
            });
            log.add(format!("{task} 1"));
            sim.yield_now().await;
            log.add(format!("{task} 2"));
            assert_eq!(child.await, 1);
            log.add(format!("{task} 3"));
        });
    }
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(log.take(), ["a 1", "b 1", "a child", "a 2", "a 3", "b child", "b 2", "b 3"]);
    assert_eq!(simulation.handle().now(), 0);
}

#[test]
fn a_handle_gives_the_result_to_whoever_waits_last() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let worker = sim.clone();
    let handle = sim.spawn(async move {
        worker.sleep(7).await;
        String::from("done")
    });
    assert!(!handle.is_finished() && handle.try_take().is_none());
    let waiter = simulation.handle().spawn(async move { (handle.await, sim.now()) });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(waiter.try_take(), Some((String::from("done"), 7)));
}

#[test]
fn zero_and_past_sleeps_return_without_yielding() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    simulation.handle().spawn(async move {
        sim.sleep(0).await;
        sim.sleep(10).await;
        sim.sleep_until(3).await;
        assert_eq!(sim.now(), 10);
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(simulation.polls(), 2);
}

#[test]
fn a_task_woken_twice_in_one_instant_is_polled_once() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    simulation.handle().spawn(async move {
        let (mut first, mut second) = (sim.sleep(10), sim.sleep(10));
        poll_fn(|context| {
            let is_first = Pin::new(&mut first).poll(context).is_ready();
            let is_second = Pin::new(&mut second).poll(context).is_ready();
            if is_first && is_second { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        sim.sleep(10).await;
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(simulation.polls(), 3);
}

#[test]
fn run_until_stops_in_between_and_goes_on() {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    let task_log = log.clone();
    simulation.handle().spawn(async move {
        for _ in 0..5 {
            sim.sleep(10).await;
            task_log.add(sim.now());
        }
    });
    assert_eq!(simulation.run_until(20), RunEnd::Paused);
    assert_eq!((log.take(), simulation.handle().now()), (vec![10, 20], 20));
    assert_eq!(simulation.run_until(15), RunEnd::Paused);
    assert_eq!(simulation.run_until(29), RunEnd::Paused);
    assert_eq!((log.take(), simulation.handle().now()), (vec![], 29));
    assert_eq!(simulation.run_until(1000), RunEnd::Idle);
    assert_eq!((log.take(), simulation.handle().now()), (vec![30, 40, 50], 1000));
}

#[test]
fn blocked_tasks_are_named_in_the_order_of_spawning() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let ended = sim.spawn_named("ended", async {});
    simulation.run();
    assert!(ended.is_finished());
    sim.spawn(std::future::pending::<()>());
    // The first slot is used again and again; the order is that of spawning all the same.
    sim.spawn_named("short", async {});
    let forever = sim.clone();
    sim.spawn_named(format!("worker {}", 2), async move { forever.sleep(u64::MAX).await });
    simulation.run();
    sim.spawn_named("worker 3", std::future::pending::<()>());
    assert_eq!(simulation.run(), RunEnd::Blocked { tasks: 3 });
    let names = simulation.blocked_tasks();
    assert!(names[0].contains("order.rs:"), "{names:?}");
    assert_eq!(names[1..], ["worker 2", "worker 3"]);
    assert_eq!(sim.now(), 0);
}

#[test]
fn streams_depend_on_seed_and_name() {
    let draw = |seed, name| Simulation::new(seed).handle().stream(name).next_u64();
    assert_eq!(draw(1, "disk"), draw(1, "disk"));
    assert_eq!(draw(1, "disk"), random::Stream::new(1, "disk").next_u64());
    assert_ne!(draw(1, "disk"), draw(1, "host"));
    assert_ne!(draw(1, "disk"), draw(2, "disk"));
}

#[test]
#[should_panic(expected = "outside of its simulation")]
fn a_future_polled_by_another_simulation_is_refused() {
    let (mut simulation, other) = (Simulation::new(0), Simulation::new(0));
    simulation.handle().spawn(other.handle().sleep(1));
    simulation.run();
}
