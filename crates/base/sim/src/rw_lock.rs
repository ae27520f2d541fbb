//! A lock for many readers or one writer, in the shape of a kernel read-write semaphore.

use crate::executor::Sim;
use crate::gate::{Gate, Pass, Rule};
use std::cell::{Ref, RefCell, RefMut};
use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write,
}

#[derive(Default)]
struct Sharing {
    readers: u32,
    is_writing: bool,
}

impl Rule for Sharing {
    type Kind = Access;

    fn admit(&mut self, access: Access) -> bool {
        let is_possible = match access {
            // Readers may join readers; that none overtakes a waiting writer is the line's doing.
            Access::Read => !self.is_writing,
            Access::Write => !self.is_writing && self.readers == 0,
        };
        match access {
            Access::Read => self.readers += u32::from(is_possible),
            Access::Write => self.is_writing |= is_possible,
        }
        is_possible
    }

    fn give_back(&mut self, access: Access) {
        match access {
            Access::Read => self.readers -= 1,
            Access::Write => self.is_writing = false,
        }
    }
}

/// Guards a `T` for many readers or one writer, also across `await`. One line for both: readers
/// that follow each other enter together, and a reader that comes after a waiting writer waits
/// behind it, so writers are not starved. The rwsem of Linux 6 also lets in readers from behind
/// waiting writers when it wakes readers, and lets running tasks steal (`kernel/locking/rwsem.c`);
/// neither is modelled.
pub struct RwLock<T> {
    gate: Gate<Sharing>,
    value: RefCell<T>,
}

impl<T> RwLock<T> {
    /// A free lock around `value`.
    pub fn new(sim: &Sim, value: T) -> Self {
        Self { gate: Gate::new(sim, Sharing::default()), value: RefCell::new(value) }
    }

    /// Waits to read. A task that reads already may wait forever behind a writer.
    pub async fn read(&self) -> ReadGuard<'_, T> {
        let pass = self.gate.enter(Access::Read).await;
        ReadGuard { value: self.value.borrow(), _pass: pass }
    }

    /// Waits until no task reads or writes, then writes.
    pub async fn write(&self) -> WriteGuard<'_, T> {
        let pass = self.gate.enter(Access::Write).await;
        WriteGuard { value: self.value.borrow_mut(), _pass: pass }
    }

    /// Reads if no task writes or waits.
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        let pass = self.gate.try_enter(Access::Read)?;
        Some(ReadGuard { value: self.value.borrow(), _pass: pass })
    }

    /// Writes if no task is inside or waits.
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        let pass = self.gate.try_enter(Access::Write)?;
        Some(WriteGuard { value: self.value.borrow_mut(), _pass: pass })
    }

    /// Whether a task waits for the lock.
    pub fn is_contended(&self) -> bool {
        self.gate.has_line()
    }
}

/// Holds a [`RwLock`] for reading.
pub struct ReadGuard<'a, T> {
    // Fields are dropped in this order: the value is free before the next one is let in.
    value: Ref<'a, T>,
    _pass: Pass<'a, Sharing>,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Holds a [`RwLock`] for writing.
pub struct WriteGuard<'a, T> {
    // As above.
    value: RefMut<'a, T>,
    _pass: Pass<'a, Sharing>,
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
