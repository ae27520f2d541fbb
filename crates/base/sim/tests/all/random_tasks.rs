//! Random tasks over everything the crate offers: two runs of one seed have one log, and whatever
//! is taken is given back, also by those who are cancelled or cut.

use crate::support;

use proptest::prelude::*;
use sim::channel::{self, Receiver, Sender};
use sim::{Completion, Cpus, Lock, RunEnd, RwLock, Semaphore, Sim, Simulation, WaitQueue};
use std::cell::Cell;
use std::future::pending;
use std::pin::Pin;
use std::rc::Rc;
use support::{Log, race};

#[derive(Clone, Debug)]
enum Step {
    Sleep(u64),
    SleepAtRandom,
    Yield,
    Lock(u64),
    Read(u64),
    Write(u64),
    Acquire(u32, u64),
    Compute(u64),
    Send,
    Receive,
    Wait,
    WakeOne,
    WakeAll,
    AwaitCompletion,
    Complete,
    Spawn(Vec<Step>),
    /// A step that is given up after some time.
    Impatient(u64, Box<Step>),
    Stop,
}

fn any_step() -> impl Strategy<Value = Step> {
    let time = 0..20_u64;
    let leaf = prop_oneof![
        8 => time.clone().prop_map(Step::Sleep),
        4 => Just(Step::SleepAtRandom),
        4 => Just(Step::Yield),
        8 => time.clone().prop_map(Step::Lock),
        8 => time.clone().prop_map(Step::Read),
        4 => time.clone().prop_map(Step::Write),
        8 => (1..=3_u32, time.clone()).prop_map(|(permits, time)| Step::Acquire(permits, time)),
        8 => (0..60_u64).prop_map(Step::Compute),
        6 => Just(Step::Send),
        4 => Just(Step::Receive),
        3 => Just(Step::Wait),
        3 => Just(Step::WakeOne),
        1 => Just(Step::WakeAll),
        2 => Just(Step::AwaitCompletion),
        1 => Just(Step::Complete),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            3 => (time.clone(), inner.clone())
                .prop_map(|(time, step)| Step::Impatient(time, Box::new(step))),
            1 => prop::collection::vec(inner, 0..4).prop_map(Step::Spawn),
        ]
    })
}

fn any_programs() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let step = prop_oneof![60 => any_step(), 1 => Just(Step::Stop)];
    prop::collection::vec(prop::collection::vec(step, 0..12), 1..12)
}

struct World {
    sim: Sim,
    log: Log<(u64, u32, String)>,
    tasks: Cell<u32>,
    lock: Lock<u32>,
    rw_lock: RwLock<u32>,
    inside: Cell<u32>,
    semaphore: Semaphore,
    taken: Cell<u32>,
    cpus: Cpus,
    sender: Sender<u64>,
    receiver: Lock<Receiver<u64>>,
    queue: WaitQueue,
    completion: Completion,
}

/// Adds to a cell while it lives.
struct Count<'a>(&'a Cell<u32>, u32);

impl<'a> Count<'a> {
    fn new(cell: &'a Cell<u32>, amount: u32) -> Self {
        cell.set(cell.get() + amount);
        Self(cell, amount)
    }
}

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

fn carry_out(
    world: &Rc<World>,
    task: u32,
    step: Step,
) -> Pin<Box<dyn Future<Output = ()> + 'static>> {
    let world = world.clone();
    Box::pin(async move {
        let sim = &world.sim;
        let note = |what: String| world.log.add((sim.now(), task, what));
        match step {
            Step::Sleep(time) => sim.sleep(time).await,
            Step::SleepAtRandom => {
                let mut stream = sim.stream(&format!("task {task} at {}", sim.now()));
                sim.sleep(u64::from(stream.below(30))).await;
            }
            Step::Yield => sim.yield_now().await,
            Step::Lock(time) => {
                let mut guard = world.lock.lock().await;
                *guard += 1;
                note(format!("lock {guard}", guard = *guard));
                let before = *guard;
                sim.sleep(time).await;
                assert_eq!(before, *guard);
            }
            Step::Read(time) => {
                let guard = world.rw_lock.read().await;
                let before = *guard;
                note(format!("read {before}"));
                sim.sleep(time).await;
                assert_eq!(before, *guard);
            }
            Step::Write(time) => {
                let mut guard = world.rw_lock.write().await;
                let inside = Count::new(&world.inside, 1);
                assert_eq!(world.inside.get(), 1);
                *guard += 1;
                note(format!("write {guard}", guard = *guard));
                sim.sleep(time).await;
                drop(inside);
            }
            Step::Acquire(permits, time) => {
                let _permit = world.semaphore.acquire_many(permits).await;
                let _taken = Count::new(&world.taken, permits);
                assert!(world.taken.get() <= 3);
                note(format!("permits {permits}"));
                sim.sleep(time).await;
            }
            Step::Compute(cost) => world.cpus.run(cost).await,
            Step::Send => drop(world.sender.send(u64::from(task)).await),
            Step::Receive => {
                let value = world.receiver.lock().await.receive().await;
                note(format!("received {value:?}"));
            }
            Step::Wait => world.queue.wait().await,
            Step::WakeOne => note(format!("woke one: {}", world.queue.wake_one())),
            Step::WakeAll => world.queue.wake_all(),
            Step::AwaitCompletion => world.completion.wait().await,
            Step::Complete => world.completion.complete(),
            Step::Spawn(steps) => spawn(&world, steps),
            Step::Impatient(time, step) => {
                let is_done = race(carry_out(&world, task, *step), sim.sleep(time)).await;
                note(format!("patient: {is_done}"));
            }
            Step::Stop => {
                sim.stop();
                pending::<()>().await;
            }
        }
    })
}

fn spawn(world: &Rc<World>, steps: Vec<Step>) {
    let task = world.tasks.replace(world.tasks.get() + 1);
    let in_task = world.clone();
    world.sim.spawn_named(format!("task {task}"), async move {
        for (index, step) in steps.into_iter().enumerate() {
            carry_out(&in_task, task, step).await;
            in_task.log.add((in_task.sim.now(), task, format!("step {index}")));
        }
    });
}

/// The log, how the run ended, who was blocked, the last instant, the number of polls.
type Account = (Vec<(u64, u32, String)>, RunEnd, Vec<String>, u64, u64);

fn run(programs: &[Vec<Step>], seed: u64, pauses: &[u64]) -> Account {
    let mut simulation = Simulation::new(seed);
    let sim = simulation.handle();
    let (sender, receiver) = channel::bounded(&sim, 2);
    let world = Rc::new(World {
        sim: sim.clone(),
        log: Log::new(),
        tasks: Cell::new(0),
        lock: Lock::new(&sim, 0),
        rw_lock: RwLock::new(&sim, 0),
        inside: Cell::new(0),
        semaphore: Semaphore::new(&sim, 3),
        taken: Cell::new(0),
        cpus: Cpus::new(&sim, 2, 7),
        sender,
        receiver: Lock::new(&sim, receiver),
        queue: WaitQueue::new(&sim),
        completion: Completion::new(&sim),
    });
    for steps in programs {
        spawn(&world, steps.clone());
    }
    for until_ns in pauses {
        simulation.run_until(*until_ns);
    }
    let end = simulation.run();
    // Those who are blocked wait for others, holding nothing but the receiver.
    assert!(world.lock.try_lock().is_some() && world.rw_lock.try_write().is_some());
    assert_eq!((world.semaphore.available(), world.taken.get(), world.inside.get()), (3, 0, 0));
    let busy_ns = world.cpus.busy_ns();
    assert!(busy_ns <= 2 * sim.now());
    sim.stop();
    assert!(world.receiver.try_lock().is_some() && world.queue.is_empty());
    (world.log.take(), end, simulation.blocked_tasks(), sim.now(), simulation.polls())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn two_runs_have_one_log(programs in any_programs(), seed: u64) {
        prop_assert_eq!(run(&programs, seed, &[]), run(&programs, seed, &[]));
    }

    #[test]
    fn pauses_change_nothing(programs in any_programs(), seed: u64) {
        let whole = run(&programs, seed, &[]);
        let paused = run(&programs, seed, &[0, 3, 10]);
        prop_assert_eq!((whole.0, whole.1, whole.4), (paused.0, paused.1, paused.4));
    }
}
