//! A queue of values from many senders to one receiver.

use crate::executor::Sim;
use crate::gate::{Gate, Permits};
use crate::task::TaskId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

struct Channel<T> {
    sim: Sim,
    values: RefCell<VecDeque<T>>,
    room: Gate<Permits>,
    senders: Cell<usize>,
    is_closed: Cell<bool>,
    receiver: Cell<TaskId>,
}

/// A channel that holds at most `capacity` values (above zero, or it panics).
pub fn bounded<T>(sim: &Sim, capacity: u32) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel without room passes nothing on");
    let channel = Rc::new(Channel {
        sim: sim.clone(),
        values: RefCell::default(),
        room: Gate::new(sim, Permits { available: capacity }),
        senders: Cell::new(1),
        is_closed: Cell::new(false),
        receiver: Cell::new(TaskId::NONE),
    });
    (Sender(channel.clone()), Receiver(channel))
}

/// A channel that always has room.
pub fn unbounded<T>(sim: &Sim) -> (Sender<T>, Receiver<T>) {
    bounded(sim, u32::MAX)
}

/// Puts values into a channel; clones share it.
pub struct Sender<T>(Rc<Channel<T>>);

impl<T> Sender<T> {
    /// Waits for room, first come, first served, and sends. The value comes back if the receiver
    /// is gone; it is lost if the future is dropped.
    pub async fn send(&self, value: T) -> Result<(), T> {
        let room = self.0.room.enter(1).await;
        if self.0.is_closed.get() {
            return Err(value);
        }
        // The place in the channel belongs to the value now; the receiver gives it back.
        std::mem::forget(room);
        self.put(value);
        Ok(())
    }

    /// Sends at once; the value comes back if there is no room, others wait, or the receiver is
    /// gone.
    pub fn try_send(&self, value: T) -> Result<(), T> {
        match self.0.room.try_enter(1) {
            Some(room) if !self.0.is_closed.get() => {
                std::mem::forget(room);
                self.put(value);
                Ok(())
            }
            _ => Err(value),
        }
    }

    fn put(&self, value: T) {
        self.0.values.borrow_mut().push_back(value);
        self.0.sim.wake(self.0.receiver.get());
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.set(self.0.senders.get() + 1);
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.senders.set(self.0.senders.get() - 1);
        if self.0.senders.get() == 0 {
            self.0.sim.wake(self.0.receiver.get());
        }
    }
}

/// Takes values out of a channel in the order in which they were sent. Dropping it drops what is
/// left and fails those who send.
pub struct Receiver<T>(Rc<Channel<T>>);

impl<T> Receiver<T> {
    /// Waits for the next value; `None` when all senders are gone and nothing is left.
    pub async fn receive(&mut self) -> Option<T> {
        poll_fn(|_| match self.try_receive() {
            None if self.0.senders.get() > 0 => {
                self.0.receiver.set(self.0.sim.current());
                Poll::Pending
            }
            value => Poll::Ready(value),
        })
        .await
    }

    /// The next value if there is one.
    pub fn try_receive(&mut self) -> Option<T> {
        let value = self.0.values.borrow_mut().pop_front()?;
        // Taking a value makes room for the sender that has waited longest.
        self.0.room.leave(1);
        Some(value)
    }

    /// Values that wait to be received.
    pub fn len(&self) -> usize {
        self.0.values.borrow().len()
    }

    /// Whether no value waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.is_closed.set(true);
        drop(self.0.values.take());
        // Nothing is sent any more, so all who wait may come and learn it.
        self.0.room.leave(u32::MAX);
    }
}
