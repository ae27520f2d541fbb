//! How a mount starts and ends its cleaning daemon.
//!
//! May use no other file of the crate.

use sim::{Sim, Timer, WaitQueue};
use std::cell::Cell;

/// Whether the daemon of a mount runs, and whether it is asked to end.
pub(crate) struct CleanerSwitch {
    pub(crate) timer: Timer,
    pub(crate) is_running: Cell<bool>,
    pub(crate) is_asked_to_end: Cell<bool>,
    pub(crate) ended: WaitQueue,
}

impl CleanerSwitch {
    pub(crate) fn new(sim: &Sim) -> Self {
        Self {
            timer: Timer::new(sim),
            is_running: Cell::new(false),
            is_asked_to_end: Cell::new(false),
            ended: WaitQueue::new(sim),
        }
    }
}
