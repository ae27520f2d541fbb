//! Tasks: their numbers, their slots, the queue of the ready ones, and handles to their results.

use crate::executor::Sim;
use process::Process;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The number of a task. Slots are used again, so it carries the generation of its slot: waking a
/// task that is gone does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TaskId {
    slot: u32,
    generation: u32,
}

impl TaskId {
    pub(crate) const NONE: Self = Self { slot: u32::MAX, generation: 0 };
}

/// What a task is called in [`Simulation::blocked_tasks`](crate::Simulation::blocked_tasks).
pub(crate) enum Name {
    Given(Cow<'static, str>),
    /// Tasks without a name are known by the place that spawned them.
    Place(&'static Location<'static>),
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(name) => formatter.write_str(name),
            Self::Place(place) => write!(formatter, "{}:{}", place.file(), place.line()),
        }
    }
}

/// A task with the type of its future forgotten.
pub(crate) trait Task {
    /// Polls once; at the end returns who waits for the result, or [`TaskId::NONE`].
    fn poll(&self, context: &mut Context<'_>) -> Poll<TaskId>;
    /// Drops the future without polling it again.
    fn abandon(&self);
}

/// A task as its handle sees it.
trait Outcome<T> {
    fn result(&self) -> &JoinState<T>;
}

struct JoinState<T> {
    value: Cell<Option<T>>,
    is_finished: Cell<bool>,
    waiter: Cell<TaskId>,
}

/// Future and result share one allocation; the future has its own box so that it can be taken out
/// for polling and dropped while the handle lives on.
struct Spawned<F: Future> {
    future: Cell<Option<Pin<Box<F>>>>,
    result: JoinState<F::Output>,
}

impl<F: Future> Task for Spawned<F> {
    fn poll(&self, context: &mut Context<'_>) -> Poll<TaskId> {
        // Taken out while it is polled, so that the task can be abandoned from within.
        let mut future = self.future.take().expect("a live task has its future");
        let Poll::Ready(value) = future.as_mut().poll(context) else {
            self.future.set(Some(future));
            return Poll::Pending;
        };
        // Dropped before the result is seen: its guards are free when the waiter runs.
        drop(future);
        self.result.value.set(Some(value));
        self.result.is_finished.set(true);
        Poll::Ready(self.result.waiter.get())
    }

    fn abandon(&self) {
        drop(self.future.take());
    }
}

impl<F: Future> Outcome<F::Output> for Spawned<F> {
    fn result(&self) -> &JoinState<F::Output> {
        &self.result
    }
}

/// The result of a task, to be awaited. Dropping the handle leaves the task running.
pub struct JoinHandle<T> {
    sim: Sim,
    task: Rc<dyn Outcome<T>>,
}

impl<T> JoinHandle<T> {
    /// Whether the task ran to its end.
    pub fn is_finished(&self) -> bool {
        self.task.result().is_finished.get()
    }

    /// The result without waiting, once.
    pub fn try_take(&self) -> Option<T> {
        self.task.result().value.take()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        let result = self.task.result();
        match result.value.take() {
            Some(value) => Poll::Ready(value),
            None if result.is_finished.get() => panic!("the result of a task was taken before"),
            None => {
                result.waiter.set(self.sim.current());
                Poll::Pending
            }
        }
    }
}

/// Makes a task of `future`, and the handle to its result.
pub(crate) fn make_task<F: Future + 'static>(
    sim: Sim,
    future: F,
) -> (Rc<dyn Task>, JoinHandle<F::Output>) {
    let task = Rc::new(Spawned {
        future: Cell::new(Some(Box::pin(future))),
        result: JoinState {
            value: Cell::new(None),
            is_finished: Cell::new(false),
            waiter: Cell::new(TaskId::NONE),
        },
    });
    (task.clone(), JoinHandle { sim, task })
}

struct Slot {
    generation: u32,
    is_queued: bool,
    live: Option<Live>,
}

/// A task in its slot.
pub(crate) struct Live {
    task: Rc<dyn Task>,
    name: Name,
    /// The process that runs while the task is polled.
    process: Process,
    /// Position in the order of spawning.
    number: u64,
}

/// All tasks of a simulation.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u32>,
    ready: VecDeque<TaskId>,
    spawned: u64,
    live: usize,
}

impl Tasks {
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn insert(&mut self, task: Rc<dyn Task>, name: Name, process: Process) {
        let live = Live { task, name, process, number: self.spawned };
        self.spawned += 1;
        self.live += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, is_queued: false, live: None });
            (self.slots.len() - 1) as u32
        });
        let entry = &mut self.slots[slot as usize];
        entry.live = Some(live);
        entry.is_queued = true;
        // A new task is ready at once, behind those that are ready.
        self.ready.push_back(TaskId { slot, generation: entry.generation });
    }

    /// Queues the task unless it is queued already or gone.
    #[inline]
    pub(crate) fn wake(&mut self, id: TaskId) {
        if let Some(slot) = self.slots.get_mut(id.slot as usize)
            && slot.generation == id.generation
            && !slot.is_queued
        {
            slot.is_queued = true;
            self.ready.push_back(id);
        }
    }

    /// Takes the next ready task out of the queue, with the process that it runs as.
    #[inline]
    pub(crate) fn pop_ready(&mut self) -> Option<(TaskId, Rc<dyn Task>, Process)> {
        loop {
            let id = self.ready.pop_front()?;
            let slot = &mut self.slots[id.slot as usize];
            // An entry of a task that has ended is skipped: its slot may hold another one.
            if slot.generation == id.generation
                && let Some(live) = &slot.live
            {
                slot.is_queued = false;
                return Some((id, live.task.clone(), live.process));
            }
        }
    }

    /// Frees the slot of a task that ended. What is returned must be dropped without a borrow.
    pub(crate) fn remove(&mut self, id: TaskId) -> Option<Live> {
        let slot = &mut self.slots[id.slot as usize];
        // The next task in the slot has another number, so late wakings miss it.
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        self.live -= 1;
        slot.live.take()
    }

    /// Forgets all tasks and returns them; they are to be abandoned without a borrow.
    pub(crate) fn clear(&mut self) -> Vec<Rc<dyn Task>> {
        self.ready.clear();
        self.free.clear();
        self.live = 0;
        self.slots.drain(..).filter_map(|slot| Some(slot.live?.task)).collect()
    }

    /// The number of a live task in the order of spawning, and its name.
    pub(crate) fn name(&self, id: TaskId) -> Option<(u64, String)> {
        let slot = self.slots.get(id.slot as usize)?;
        let live = slot.live.as_ref().filter(|_| slot.generation == id.generation)?;
        Some((live.number, live.name.to_string()))
    }

    /// Names of live tasks in the order of spawning.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut live: Vec<&Live> =
            self.slots.iter().filter_map(|slot| slot.live.as_ref()).collect();
        // Slots are used again, so only the number gives the order of spawning.
        live.sort_unstable_by_key(|live| live.number);
        live.iter().map(|live| live.name.to_string()).collect()
    }
}
