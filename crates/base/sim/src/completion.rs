//! An event that happens once.

use crate::executor::Sim;
use crate::wait_queue::WaitQueue;
use std::cell::Cell;

/// An event that happens once and is remembered, such as the end of a request.
/// Shape: `complete_all` of Linux 6, `kernel/sched/completion.c`.
pub struct Completion {
    is_done: Cell<bool>,
    waiters: WaitQueue,
}

impl Completion {
    /// An event that has not happened.
    pub fn new(sim: &Sim) -> Self {
        Self { is_done: Cell::new(false), waiters: WaitQueue::new(sim) }
    }

    /// Lets the event happen and wakes all who wait, in the order in which they came.
    pub fn complete(&self) {
        // Set before waking: a task that comes between finds the event past.
        self.is_done.set(true);
        self.waiters.wake_all();
    }

    /// Waits for the event; returns at once if it has happened.
    pub async fn wait(&self) {
        if !self.is_done.get() {
            self.waiters.wait().await;
        }
    }

    /// Whether the event has happened.
    pub fn is_done(&self) -> bool {
        self.is_done.get()
    }

    /// Makes the event one that has not happened, to use it again. Those who were woken go on.
    pub fn reset(&self) {
        self.is_done.set(false);
    }
}
