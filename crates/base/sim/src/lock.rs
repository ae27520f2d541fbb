//! A lock for one holder, in the shape of a kernel mutex.

use crate::executor::Sim;
use crate::gate::{Gate, Pass, Permits};
use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};

/// Guards a `T` for one holder at a time, also across `await`. Strictly first come, first served:
/// the holder hands over to the first in line. The mutex of Linux 6 lets a running task steal the
/// lock from a woken one (`kernel/locking/mutex.c`); that is not modelled.
pub struct Lock<T> {
    gate: Gate<Permits>,
    value: RefCell<T>,
}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub fn new(sim: &Sim, value: T) -> Self {
        Self { gate: Gate::new(sim, Permits { available: 1 }), value: RefCell::new(value) }
    }

    /// Waits for the lock. A task that asks for a lock it holds waits forever.
    pub async fn lock(&self) -> LockGuard<'_, T> {
        let pass = self.gate.enter(1).await;
        LockGuard { value: self.value.borrow_mut(), _pass: pass }
    }

    /// The lock if it is free.
    pub fn try_lock(&self) -> Option<LockGuard<'_, T>> {
        let pass = self.gate.try_enter(1)?;
        Some(LockGuard { value: self.value.borrow_mut(), _pass: pass })
    }

    /// Whether a task holds the lock.
    pub fn is_locked(&self) -> bool {
        self.gate.inspect(|permits| permits.available == 0)
    }

    /// Whether a task waits for the lock.
    pub fn is_contended(&self) -> bool {
        self.gate.has_line()
    }
}

/// Holds a [`Lock`]; dropping it hands over to the first in line.
pub struct LockGuard<'a, T> {
    // Fields are dropped in this order: the value is free before the next one is let in.
    value: RefMut<'a, T>,
    _pass: Pass<'a, Permits>,
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
