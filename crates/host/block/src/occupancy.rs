//! What the device was doing, as totals over time.

use crate::Behind;
use device::Operation;
use std::collections::VecDeque;

/// A command that is with the device.
#[derive(Clone, Copy, Debug)]
struct Running {
    command: u64,
    operation: Operation,
    start_ns: u64,
    cleaning_left_ns: u64,
}

/// Adds up what the device does, from event to event.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    totals: Behind,
    since_ns: u64,
    running: VecDeque<Running>,
    /// Requests wait although the device has nothing to do.
    is_held_back: bool,
}

impl Occupancy {
    /// Accounts for the time since the last event; to be called before anything changes.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let since_ns = std::mem::replace(&mut self.since_ns, now_ns);
        let passed_ns = now_ns - since_ns;
        // The oldest command stands for all: a device that works on several at once has no single
        // answer.
        let Some(oldest) = self.running.front_mut() else {
            self.totals.idling_ns += if self.is_held_back { passed_ns } else { 0 };
            return;
        };
        // A device begins with a command at once, or when one that was issued before is done.
        debug_assert!(oldest.start_ns <= since_ns, "nothing is in front of the oldest command");
        // Cleaning comes first in a command, as the device books it.
        let cleaning_ns = oldest.cleaning_left_ns.min(passed_ns);
        oldest.cleaning_left_ns -= cleaning_ns;
        self.totals.cleaning_ns += cleaning_ns;
        *self.totals.of(oldest.operation) += passed_ns - cleaning_ns;
    }

    /// A command went to the device; it starts at `start_ns`, when all that were issued before are
    /// done at the latest, and is held up by cleaning of its own for `cleaning_ns`.
    pub(crate) fn begin(
        &mut self,
        command: u64,
        operation: Operation,
        start_ns: u64,
        cleaning_ns: u64,
    ) {
        let running = Running { command, operation, start_ns, cleaning_left_ns: cleaning_ns };
        self.running.push_back(running);
    }

    /// The command is done.
    pub(crate) fn end(&mut self, command: u64) {
        // Commands of a device that reorders can end before older ones.
        self.running.retain(|running| running.command != command);
    }

    /// Says whether requests wait now.
    pub(crate) fn set_waiting(&mut self, is_waiting: bool) {
        self.is_held_back = is_waiting;
    }

    pub(crate) fn totals(&self) -> Behind {
        self.totals
    }
}
