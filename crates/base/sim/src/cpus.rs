//! The processors of a board.

use crate::executor::Sim;
use crate::gate::{Gate, Permits};
use std::cell::Cell;

/// Equal processors that tasks share, first come, first served. A task that others wait for gives
/// its processor up at the end of a time slice and queues again: round robin, the textbook's
/// model of a fair scheduler. Switching costs nothing; priorities and affinity are not modelled.
pub struct Cpus {
    sim: Sim,
    gate: Gate<Permits>,
    timeslice_ns: u64,
    running: Cell<u64>,
    /// Time spent by all processors up to `counted_ns`.
    spent_ns: Cell<u64>,
    counted_ns: Cell<u64>,
}

impl Cpus {
    /// `count` idle processors with slices of `timeslice_ns`; both above zero, or it panics.
    pub fn new(sim: &Sim, count: u32, timeslice_ns: u64) -> Self {
        assert!(count > 0 && timeslice_ns > 0, "a board has processors and a time slice");
        Self {
            sim: sim.clone(),
            gate: Gate::new(sim, Permits { available: count }),
            timeslice_ns,
            running: Cell::new(0),
            spent_ns: Cell::new(0),
            counted_ns: Cell::new(sim.now()),
        }
    }

    /// Computes for `cost_ns` of processor time; zero returns at once without queueing.
    pub async fn run(&self, cost_ns: u64) {
        let mut left_ns = cost_ns;
        while left_ns > 0 {
            // Tasks that wait go first after each slice; without any, entering again is free.
            let _pass = self.gate.enter(1).await;
            let _running = Running::start(self);
            let slice_ns = left_ns.min(self.timeslice_ns);
            self.sim.sleep(slice_ns).await;
            left_ns -= slice_ns;
        }
    }

    /// Processor time spent up to now, in nanoseconds, summed over all processors.
    pub fn busy_ns(&self) -> u64 {
        self.count();
        self.spent_ns.get()
    }

    fn count(&self) {
        let now_ns = self.sim.now();
        // Added up at each change of the number of busy processors, so the sum is exact.
        let passed_ns = now_ns - self.counted_ns.replace(now_ns);
        self.spent_ns.set(self.spent_ns.get() + passed_ns * self.running.get());
    }
}

/// Counts a processor as busy while it lives, also if the computation is cancelled.
struct Running<'a> {
    cpus: &'a Cpus,
}

impl<'a> Running<'a> {
    fn start(cpus: &'a Cpus) -> Self {
        cpus.count();
        cpus.running.set(cpus.running.get() + 1);
        Self { cpus }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.cpus.count();
        self.cpus.running.set(self.cpus.running.get() - 1);
    }
}
