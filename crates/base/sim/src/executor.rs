//! The executor: a queue of ready tasks and a clock that jumps to the next timer.

use crate::task::{JoinHandle, Name, TaskId, Tasks, make_task};
use crate::timer::{Sleep, Timers};
use crate::work_watcher::{Running, WorkWatcher};
use process::Process;
use random::Stream;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

pub(crate) struct Core {
    seed: u64,
    now_ns: Cell<u64>,
    current: Cell<TaskId>,
    is_stopped: Cell<bool>,
    polls: Cell<u64>,
    /// Threads of the kernel that were numbered.
    kernel_threads: Cell<u32>,
    tasks: RefCell<Tasks>,
    pub(crate) timers: RefCell<Timers>,
    /// What is told of the work of tasks.
    watcher: RefCell<Option<Rc<dyn WorkWatcher>>>,
}

impl Core {
    /// Polls tasks until none is ready or the power is cut.
    fn run_ready(&self) {
        // Tasks are woken by number; the waker of the standard interface does nothing here.
        let mut context = Context::from_waker(Waker::noop());
        while !self.is_stopped.get() {
            cancellation::check();
            let ready = self.tasks.borrow_mut().pop_ready();
            let Some((id, task, process)) = ready else { return };
            self.polls.set(self.polls.get() + 1);
            self.current.set(id);
            // Until the end of the turn, since what the task drops may spawn tasks, too.
            let _running = process::enter(process);
            if let Poll::Ready(waiter) = task.poll(&mut context) {
                let mut tasks = self.tasks.borrow_mut();
                tasks.wake(waiter);
                let ended = tasks.remove(id);
                drop(tasks);
                drop(ended);
            }
            // An unread result dies here and may still use the simulation.
            drop(task);
            self.current.set(TaskId::NONE);
        }
    }

    /// Advances the clock to the next timer up to `limit_ns` and fires all timers of that instant.
    fn fire_next(&self, limit_ns: u64) -> bool {
        let mut timers = self.timers.borrow_mut();
        let Some((at_ns, first)) = timers.pop(limit_ns) else { return false };
        self.now_ns.set(at_ns);
        let mut tasks = self.tasks.borrow_mut();
        tasks.wake(first);
        // All timers of the instant before any task runs, in the order in which they were armed.
        while let Some((_, task)) = timers.pop(at_ns) {
            tasks.wake(task);
        }
        true
    }

    fn abandon_tasks(&self) {
        // Taken out of the cell first: dropping a future may wake or spawn tasks.
        let tasks = self.tasks.borrow_mut().clear();
        for task in &tasks {
            task.abandon();
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// Every task ran to its end.
    Idle,
    /// [`Sim::stop`] was called; all tasks were dropped.
    Stopped,
    /// Tasks are left that nothing will ever wake: see [`Simulation::blocked_tasks`].
    Blocked {
        /// Number of tasks that are left.
        tasks: usize,
    },
    /// The time given to [`Simulation::run_until`] was reached; tasks wait for later timers.
    Paused,
}

/// A simulation: tasks, timers and the virtual clock. Dropping it drops its tasks without a poll.
pub struct Simulation {
    sim: Sim,
}

impl Simulation {
    /// A simulation at 0 ns without tasks. `seed` feeds [`Sim::stream`] alone.
    pub fn new(seed: u64) -> Self {
        let core = Core {
            seed,
            now_ns: Cell::new(0),
            current: Cell::new(TaskId::NONE),
            is_stopped: Cell::new(false),
            polls: Cell::new(0),
            kernel_threads: Cell::new(0),
            tasks: RefCell::default(),
            timers: RefCell::default(),
            watcher: RefCell::default(),
        };
        Self { sim: Sim(Rc::new(core)) }
    }

    /// The handle that tasks hold.
    pub fn handle(&self) -> Sim {
        self.sim.clone()
    }

    /// Runs until nothing is left to do or the power is cut. Never returns [`RunEnd::Paused`].
    ///
    /// Tasks that yield to each other without end keep the clock where it is and the run going.
    pub fn run(&mut self) -> RunEnd {
        // A timer at the end of time stands for "never" and is left alone.
        self.advance(u64::MAX - 1)
    }

    /// Runs everything up to and including `until_ns` and leaves the clock there, unless the power
    /// is cut before.
    pub fn run_until(&mut self, until_ns: u64) -> RunEnd {
        let until_ns = until_ns.min(u64::MAX - 1);
        let end = self.advance(until_ns);
        if end != RunEnd::Stopped {
            let core = &self.sim.0;
            // The time that was asked for has passed, even if nothing happened at its end.
            core.now_ns.set(core.now_ns.get().max(until_ns));
        }
        end
    }

    fn advance(&mut self, limit_ns: u64) -> RunEnd {
        let core = &self.sim.0;
        loop {
            core.run_ready();
            if core.is_stopped.get() {
                core.abandon_tasks();
                return RunEnd::Stopped;
            }
            if !core.fire_next(limit_ns) {
                break;
            }
        }
        match core.tasks.borrow().live() {
            0 => RunEnd::Idle,
            _ if core.timers.borrow().is_any_before(u64::MAX) => RunEnd::Paused,
            tasks => RunEnd::Blocked { tasks },
        }
    }

    /// Names of the tasks that have not ended, in the order of spawning; tasks without a name are
    /// called by the place that spawned them. Empty after a power cut.
    pub fn blocked_tasks(&self) -> Vec<String> {
        self.sim.0.tasks.borrow().names()
    }

    /// How often tasks were polled so far.
    pub fn polls(&self) -> u64 {
        self.sim.0.polls.get()
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        // Tasks hold handles to the core; without this neither would ever be freed. On the way out of
        // work that was cancelled within a task, that task is the one that cannot be dropped here: it
        // lies on the stack and is dropped there.
        self.sim.0.is_stopped.set(true);
        self.sim.0.abandon_tasks();
    }
}

/// The handle to a simulation; clones are cheap.
#[derive(Clone)]
pub struct Sim(pub(crate) Rc<Core>);

impl Sim {
    /// How often tasks were polled so far: between two equal answers nothing in the simulation changed.
    #[inline]
    pub fn polls(&self) -> u64 {
        self.0.polls.get()
    }

    /// The virtual time, in nanoseconds.
    #[inline]
    pub fn now(&self) -> u64 {
        self.0.now_ns.get()
    }

    /// Starts a task, which runs as the process that starts it; it runs after all tasks that are ready now.
    /// After a power cut the future is
    /// dropped and the handle never completes.
    #[track_caller]
    pub fn spawn<F: Future + 'static>(&self, future: F) -> JoinHandle<F::Output> {
        self.start(Name::Place(Location::caller()), process::current(), future)
    }

    /// [`spawn`](Self::spawn) with a name for [`Simulation::blocked_tasks`].
    pub fn spawn_named<F: Future + 'static>(
        &self,
        name: impl Into<Cow<'static, str>>,
        future: F,
    ) -> JoinHandle<F::Output> {
        self.start(Name::Given(name.into()), process::current(), future)
    }

    /// [`spawn_named`](Self::spawn_named) of a task that runs as a process of its own: an application's, or
    /// a thread of the kernel.
    pub fn spawn_as<F: Future + 'static>(
        &self,
        process: Process,
        name: impl Into<Cow<'static, str>>,
        future: F,
    ) -> JoinHandle<F::Output> {
        self.start(Name::Given(name.into()), process, future)
    }

    pub(crate) fn watcher(&self) -> &RefCell<Option<Rc<dyn WorkWatcher>>> {
        &self.0.watcher
    }

    /// The task that is polled now.
    pub(crate) fn running_task(&self) -> Running {
        let current = self.0.current.get();
        if current.is_none() { None } else { self.0.tasks.borrow().name(current) }
    }

    /// A new thread of the simulated kernel, with a number that no other process of the simulation has.
    pub fn kernel_thread(&self) -> Process {
        let number = self.0.kernel_threads.get();
        self.0.kernel_threads.set(number + 1);
        Process::new(process::FIRST_KERNEL_PID + number)
    }

    fn start<F: Future + 'static>(
        &self,
        name: Name,
        process: Process,
        future: F,
    ) -> JoinHandle<F::Output> {
        let (task, handle) = make_task(self.clone(), future);
        // After a power cut nothing runs any more, not even what a drop spawns.
        if self.is_stopped() {
            task.abandon();
        } else {
            self.0.tasks.borrow_mut().insert(task, name, process);
        }
        handle
    }

    /// Waits until the clock reads `at_ns`; returns at once if it does. `u64::MAX` is never.
    pub fn sleep_until(&self, at_ns: u64) -> Sleep {
        Sleep::new(self.clone(), at_ns)
    }

    /// Waits for `duration_ns` from now (not from the first poll); zero returns at once.
    pub fn sleep(&self, duration_ns: u64) -> Sleep {
        self.sleep_until(self.now().saturating_add(duration_ns))
    }

    /// Goes behind all tasks that are ready now; the clock does not move.
    pub fn yield_now(&self) -> YieldNow {
        YieldNow { sim: self.clone(), has_yielded: false }
    }

    /// The seed, for what derives named streams of its own.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The random numbers of consumer `name`: the same for the same seed and name.
    pub fn stream(&self, name: &str) -> Stream {
        Stream::new(self.0.seed, name)
    }

    /// Cuts the power: no task is polled again. The caller, if a task, runs on to its next
    /// `await`; then all tasks are dropped.
    pub fn stop(&self) {
        self.0.is_stopped.set(true);
        // Outside of a task all futures can go now; within one, its own is still being polled.
        if self.0.current.get() == TaskId::NONE {
            self.0.abandon_tasks();
        }
    }

    /// Whether the power was cut, or the simulation dropped.
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.get()
    }

    /// The task being polled.
    #[inline]
    pub(crate) fn current(&self) -> TaskId {
        let current = self.0.current.get();
        assert!(current != TaskId::NONE, "a future of `sim` was polled outside of its simulation");
        current
    }

    #[inline]
    pub(crate) fn wake(&self, task: TaskId) {
        self.0.tasks.borrow_mut().wake(task);
    }
}

/// Returned by [`Sim::yield_now`].
pub struct YieldNow {
    sim: Sim,
    has_yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        self.sim.wake(self.sim.current());
        Poll::Pending
    }
}
