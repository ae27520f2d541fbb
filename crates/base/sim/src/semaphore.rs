//! A counting semaphore.

use crate::executor::Sim;
use crate::gate::{Gate, Pass, Permits};

/// A number of permits, such as the tags of a device or the slots of a buffer. Strictly first
/// come, first served: one who asks for many is not overtaken by those who ask for few.
pub struct Semaphore {
    gate: Gate<Permits>,
}

impl Semaphore {
    /// A semaphore with `permits` free permits.
    pub fn new(sim: &Sim, permits: u32) -> Self {
        Self { gate: Gate::new(sim, Permits { available: permits }) }
    }

    /// Waits for one permit.
    pub async fn acquire(&self) -> Permit<'_> {
        self.acquire_many(1).await
    }

    /// Waits for `permits` at once; forever if there are never so many.
    pub async fn acquire_many(&self, permits: u32) -> Permit<'_> {
        Permit { pass: self.gate.enter(permits).await }
    }

    /// One permit if one is free and no task waits.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        Some(Permit { pass: self.gate.try_enter(1)? })
    }

    /// Adds `permits`, or gives back those of a forgotten [`Permit`].
    pub fn release(&self, permits: u32) {
        self.gate.leave(permits);
    }

    /// Permits that are free.
    pub fn available(&self) -> u32 {
        self.gate.inspect(|permits| permits.available)
    }
}

/// Permits of a [`Semaphore`]; dropping them gives them back.
pub struct Permit<'a> {
    pass: Pass<'a, Permits>,
}

impl Permit<'_> {
    /// Keeps the permits taken, for one who gives them back with [`Semaphore::release`].
    pub fn forget(self) {
        std::mem::forget(self.pass);
    }
}
