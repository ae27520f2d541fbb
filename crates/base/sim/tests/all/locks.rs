//! Locks and queues: first come, first served, also when some give up.

use crate::support;

use sim::{Completion, Lock, RunEnd, RwLock, Semaphore, Sim, Simulation, WaitQueue};
use std::cell::Cell;
use std::rc::Rc;
use support::{Local, Log, race};

/// Goes inside, stays there for as long as the given future takes, and leaves.
type Visit = Rc<dyn Fn(Local) -> Local>;

/// Everything that lets in one at a time.
fn exclusive_things(sim: &Sim) -> Vec<(&'static str, Visit)> {
    let lock = Rc::new(Lock::new(sim, ()));
    let rw_lock = Rc::new(RwLock::new(sim, ()));
    let single = Rc::new(Semaphore::new(sim, 1));
    let many = Rc::new(Semaphore::new(sim, 5));
    let queue = Rc::new((WaitQueue::new(sim), Cell::new(false)));
    vec![
        (
            "lock",
            Rc::new(move |stay| {
                let lock = lock.clone();
                Box::pin(async move {
                    let _guard = lock.lock().await;
                    stay.await;
                })
            }),
        ),
        (
            "rw_lock",
            Rc::new(move |stay| {
                let lock = rw_lock.clone();
                Box::pin(async move {
                    let _guard = lock.write().await;
                    stay.await;
                })
            }),
        ),
        (
            "semaphore",
            Rc::new(move |stay| {
                let semaphore = single.clone();
                Box::pin(async move {
                    let _permit = semaphore.acquire().await;
                    stay.await;
                })
            }),
        ),
        (
            "semaphore, three of five",
            Rc::new(move |stay| {
                let semaphore = many.clone();
                Box::pin(async move {
                    let _permit = semaphore.acquire_many(3).await;
                    stay.await;
                })
            }),
        ),
        (
            "wait_queue",
            Rc::new(move |stay| {
                let shared = queue.clone();
                Box::pin(async move {
                    let (queue, is_taken) = &*shared;
                    queue.wait_until(|| !is_taken.get()).await;
                    is_taken.set(true);
                    let leave = Leave(shared.clone());
                    stay.await;
                    drop(leave);
                })
            }),
        ),
    ]
}

/// The guard of what the test makes of a wait queue.
struct Leave(Rc<(WaitQueue, Cell<bool>)>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.1.set(false);
        self.0.0.wake_one();
    }
}

const VISITORS: u64 = 6;

/// Runs visitors that stay for 10 ns each; the given one is cancelled after `cancel_ns`, by a
/// timer that is armed 5 ns before.
fn visit_all(index: usize, victim: Option<(u64, u64)>) -> (&'static str, Vec<(u64, u64)>) {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    let (name, visit) = exclusive_things(&sim).swap_remove(index);
    let cancel = Rc::new(Completion::new(&sim));
    for visitor in 0..VISITORS {
        let (stay_sim, log) = (sim.clone(), log.clone());
        let visiting = visit(Box::pin(async move {
            log.add((visitor, stay_sim.now()));
            stay_sim.sleep(10).await;
        }));
        let cancel = cancel.clone();
        sim.spawn(async move {
            if victim.is_some_and(|(victim, _)| victim == visitor) {
                race(async { cancel.wait().await }, visiting).await;
            } else {
                visiting.await;
            }
        });
    }
    let canceller = sim.clone();
    sim.spawn(async move {
        if let Some((_, at_ns)) = victim {
            canceller.sleep_until(at_ns - 5).await;
            canceller.sleep_until(at_ns).await;
            cancel.complete();
        }
    });
    assert_eq!(simulation.run(), RunEnd::Idle, "{name}");
    (name, log.take())
}

fn things() -> usize {
    exclusive_things(&Simulation::new(0).handle()).len()
}

#[test]
fn first_come_first_served() {
    for index in 0..things() {
        let (name, log) = visit_all(index, None);
        let expected: Vec<_> = (0..VISITORS).map(|visitor| (visitor, 10 * visitor)).collect();
        assert_eq!(log, expected, "{name}");
    }
}

#[test]
fn one_who_gives_up_waiting_holds_nobody_up() {
    for index in 0..things() {
        for victim in 1..VISITORS {
            // Early; and at the instant of being let in, after that but before taking notice.
            for at_ns in [5, 10 * victim] {
                let (name, log) = visit_all(index, Some((victim, at_ns)));
                let others = (0..VISITORS).filter(|visitor| *visitor != victim);
                let expected: Vec<_> = others.zip((0..).step_by(10)).collect();
                assert_eq!(log, expected, "{name}, {victim} gives up at {at_ns}");
            }
        }
    }
}

#[test]
fn one_who_is_cancelled_inside_lets_the_next_in() {
    for index in 0..things() {
        let (name, log) = visit_all(index, Some((0, 7)));
        let expected: Vec<_> =
            [(0, 0)].into_iter().chain((1..VISITORS).zip((7..).step_by(10))).collect();
        assert_eq!(log, expected, "{name}");
    }
}

/// Spawns readers (`r`) and writers (`w`) that come one nanosecond apart and stay for 10 ns;
/// returns when each was let in. Capitals give up after 3 ns of waiting.
fn read_and_write(visitors: &str) -> Vec<(char, u64)> {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    let lock = Rc::new(RwLock::new(&sim, 0));
    let mut writes = 0;
    for (at_ns, visitor) in (0..).zip(visitors.chars()) {
        writes += i32::from(visitor == 'w');
        let (sim, lock, log) = (sim.clone(), lock.clone(), log.clone());
        simulation.handle().spawn(async move {
            sim.sleep_until(at_ns).await;
            let (stay_sim, log) = (&sim, &log);
            let visit = async move {
                if visitor.eq_ignore_ascii_case(&'r') {
                    let _guard = lock.read().await;
                    log.add((visitor, stay_sim.now()));
                    stay_sim.sleep(10).await;
                } else {
                    let mut guard = lock.write().await;
                    log.add((visitor, stay_sim.now()));
                    stay_sim.sleep(10).await;
                    *guard += 1;
                }
            };
            race(visit, sim.sleep(if visitor.is_uppercase() { 3 } else { u64::MAX })).await;
        });
    }
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(*lock.try_read().unwrap(), writes);
    assert!(lock.try_write().is_some() && !lock.is_contended());
    log.take()
}

#[test]
fn readers_share_and_writers_are_not_starved() {
    assert_eq!(read_and_write("rrr"), [('r', 0), ('r', 1), ('r', 2)]);
    assert_eq!(read_and_write("ww"), [('w', 0), ('w', 10)]);
    // Readers that come behind a writer wait for it and then enter together.
    assert_eq!(read_and_write("rwrr"), [('r', 0), ('w', 10), ('r', 20), ('r', 20)]);
    assert_eq!(read_and_write("wrwr"), [('w', 0), ('r', 10), ('w', 20), ('r', 30)]);
    // A writer that gives up at the head of the line lets the readers behind it in at once.
    assert_eq!(read_and_write("rWrr"), [('r', 0), ('r', 4), ('r', 4)]);
}

#[test]
fn one_who_asks_for_many_permits_is_not_overtaken() {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    let semaphore = Rc::new(Semaphore::new(&sim, 3));
    for (task, permits) in [(0, 2), (1, 3), (2, 1)] {
        let (sim, semaphore, log) = (sim.clone(), semaphore.clone(), log.clone());
        simulation.handle().spawn(async move {
            let _permit = semaphore.acquire_many(permits).await;
            log.add((task, sim.now()));
            sim.sleep(10).await;
            // At the end of the first, one permit is free, but others wait.
            assert_eq!(semaphore.try_acquire().is_none(), task < 2);
        });
    }
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(log.take(), [(0, 0), (1, 10), (2, 20)]);
    assert_eq!(semaphore.available(), 3);
    semaphore.try_acquire().unwrap().forget();
    assert_eq!(semaphore.available(), 2);
    semaphore.release(2);
    assert_eq!(semaphore.available(), 4);
}

#[test]
fn try_lock_takes_what_is_free() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let lock = Rc::new(Lock::new(&sim, 1));
    let guard = lock.try_lock().unwrap();
    assert!(lock.is_locked() && lock.try_lock().is_none() && !lock.is_contended());
    let waiting = lock.clone();
    sim.spawn_named("waiting", async move { *waiting.lock().await += 1 });
    assert_eq!(simulation.run(), RunEnd::Blocked { tasks: 1 });
    assert!(lock.is_contended());
    drop(guard);
    // The lock was handed over: nobody overtakes the one who waits.
    assert!(lock.try_lock().is_none());
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(*lock.try_lock().unwrap(), 2);
}

#[test]
fn wake_ups_find_those_who_wait() {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    let queue = Rc::new(WaitQueue::new(&sim));
    assert!(!queue.wake_one());
    for task in 0..6 {
        let (queue, log) = (queue.clone(), log.clone());
        sim.spawn(async move {
            queue.wait().await;
            log.add(task);
        });
    }
    simulation.run();
    assert!(log.take().is_empty());
    assert!(queue.wake_one() && queue.wake_one());
    simulation.run();
    assert_eq!(log.take(), [0, 1]);
    queue.wake_all();
    assert!(queue.is_empty());
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(log.take(), [2, 3, 4, 5]);
}

#[test]
fn a_cancelled_wake_up_of_all_is_not_passed_on() {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let (queue, cancel) = (Rc::new(WaitQueue::new(&sim)), Rc::new(Completion::new(&sim)));
    let (waiting, cancelling) = (queue.clone(), cancel.clone());
    sim.spawn(async move {
        race(async { cancelling.wait().await }, async { waiting.wait().await }).await;
    });
    simulation.run();
    // The late one waits between the wake-up and the moment at which the woken one gives up.
    let (waking, late) = (queue.clone(), queue);
    sim.spawn(async move {
        waking.wake_all();
        cancel.complete();
    });
    sim.spawn_named("late", async move { late.wait().await });
    assert_eq!(simulation.run(), RunEnd::Blocked { tasks: 1 });
    assert_eq!(simulation.blocked_tasks(), ["late"]);
}

#[test]
fn a_completion_is_remembered() {
    let mut simulation = Simulation::new(0);
    let (sim, log) = (simulation.handle(), Log::new());
    let done = Rc::new(Completion::new(&sim));
    let wait = |name: &'static str, at_ns: u64| {
        let (sim, done, log) = (sim.clone(), done.clone(), log.clone());
        simulation.handle().spawn(async move {
            sim.sleep_until(at_ns).await;
            done.wait().await;
            log.add((name, sim.now()));
        });
    };
    wait("first", 0);
    wait("second", 1);
    wait("late", 20);
    let (completer, completing) = (sim.clone(), done.clone());
    sim.spawn(async move {
        completer.sleep(10).await;
        completing.complete();
    });
    assert_eq!(simulation.run(), RunEnd::Idle);
    assert_eq!(log.take(), [("first", 10), ("second", 10), ("late", 20)]);
    assert!(done.is_done());
    done.reset();
    let waiting = done.clone();
    sim.spawn(async move { waiting.wait().await });
    assert_eq!(simulation.run(), RunEnd::Blocked { tasks: 1 });
}
