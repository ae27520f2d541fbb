//! A queue of tasks that wait to be woken.

use crate::executor::Sim;
use crate::wait_list::WaitList;
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Clone, Copy, PartialEq)]
enum Woken {
    Alone,
    WithAll,
}

/// Tasks that wait until they are woken, all as the kernel's exclusive waiters: one wake-up wakes
/// one, the one that has waited longest. A wake-up that finds no waiter is lost; no other task runs
/// between looking at a condition and waiting, so it cannot slip through in between. Source:
/// `kernel/sched/wait.c` of Linux 6, of which shared waiters are left out.
pub struct WaitQueue {
    sim: Sim,
    line: RefCell<WaitList<Woken>>,
}

impl WaitQueue {
    /// A queue without waiters.
    pub fn new(sim: &Sim) -> Self {
        Self { sim: sim.clone(), line: RefCell::new(WaitList::new()) }
    }

    /// Waits for one wake-up.
    pub fn wait(&self) -> Wait<'_> {
        Wait { queue: self, place: None }
    }

    /// Waits until `condition` holds, looking at once and after each wake-up. Whoever changes the
    /// condition has to wake. A waiter that finds the condition unmet queues again at the end and
    /// does not pass the wake-up on.
    pub async fn wait_until(&self, mut condition: impl FnMut() -> bool) {
        while !condition() {
            self.wait().await;
        }
    }

    /// Wakes the task that has waited longest; returns whether there was one.
    pub fn wake_one(&self) -> bool {
        let woken = self.line.borrow_mut().grant_front(Woken::Alone);
        woken.inspect(|task| self.sim.wake(*task)).is_some()
    }

    /// Wakes all tasks that wait now, in the order in which they came.
    pub fn wake_all(&self) {
        let mut line = self.line.borrow_mut();
        while let Some(task) = line.grant_front(Woken::WithAll) {
            self.sim.wake(task);
        }
    }

    /// Whether no task waits.
    pub fn is_empty(&self) -> bool {
        self.line.borrow().is_empty()
    }
}

/// Returned by [`WaitQueue::wait`].
pub struct Wait<'a> {
    queue: &'a WaitQueue,
    place: Option<u32>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let task = self.queue.sim.current();
        let mut line = self.queue.line.borrow_mut();
        match self.place {
            Some(place) if line.check(place, task) => {
                line.leave(place);
                self.place = None;
                return Poll::Ready(());
            }
            Some(_) => {}
            None => self.place = Some(line.push(task, Woken::Alone)),
        }
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            let woken = self.queue.line.borrow_mut().leave(place);
            // A wake-up for this waiter alone must not be lost with it.
            if woken == Some(Woken::Alone) {
                self.queue.wake_one();
            }
        }
    }
}
