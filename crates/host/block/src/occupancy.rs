//! What the device was doing, as totals over time.

use crate::WaitBreakdown;
use device::{Completion, Operation};
use std::collections::VecDeque;

/// Number of a command, in the order of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommandNumber(pub(crate) u64);

/// A command that is with the device.
#[derive(Clone, Copy, Debug)]
struct Running {
    command: CommandNumber,
    operation: Operation,
    start_ns: u64,
    cleaning_left_ns: u64,
}

/// Adds up what the device does, from event to event.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    totals: WaitBreakdown,
    since_ns: u64,
    running: VecDeque<Running>,
    /// Requests wait although the device has nothing to do.
    is_held_back: bool,
}

impl Occupancy {
    /// Accounts for the time since the last event; to be called before anything changes.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        debug_assert!(now_ns >= self.since_ns, "time does not go back");
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

    /// A command went to the device. It starts when all that went there before are done at the
    /// latest, and is held up by cleaning of its own.
    pub(crate) fn begin(
        &mut self,
        command: CommandNumber,
        operation: Operation,
        times: &Completion,
    ) {
        let Completion { start_ns, own_cleaning_ns, .. } = *times;
        debug_assert!(start_ns >= self.since_ns, "a command begins after it was issued");
        debug_assert!(
            self.running.iter().all(|other| other.command != command),
            "a command begins once"
        );
        let running = Running { command, operation, start_ns, cleaning_left_ns: own_cleaning_ns };
        self.running.push_back(running);
    }

    /// The command is done.
    #[allow(clippy::inline_always, reason = "called for each command, from two places")]
    #[inline(always)]
    pub(crate) fn end(&mut self, command: CommandNumber) {
        let is_it = |running: &Running| running.command == command;
        debug_assert!(self.running.iter().any(is_it), "a command that ends is running");
        // Commands of a device that reorders can end before older ones.
        if self.running.front().is_some_and(is_it) {
            self.running.pop_front();
        } else if let Some(place) = self.running.iter().position(is_it) {
            // A command is there once, so the rest need not be looked at.
            self.running.remove(place);
        }
    }

    /// Says whether requests wait now.
    pub(crate) fn set_waiting(&mut self, is_waiting: bool) {
        self.is_held_back = is_waiting;
    }

    /// Commands that are with the device.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn totals(&self) -> WaitBreakdown {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::{CommandNumber, Occupancy};
    use crate::tests::panics_with;
    use device::{Completion, Operation};

    fn begin(occupancy: &mut Occupancy, command: u64, start_ns: u64) {
        let times = Completion { start_ns, ..Completion::default() };
        occupancy.begin(CommandNumber(command), Operation::Read, &times);
    }

    /// A device that reads since 5 ns.
    fn busy() -> Occupancy {
        let mut occupancy = Occupancy::default();
        occupancy.advance(5);
        begin(&mut occupancy, 3, 5);
        occupancy
    }

    #[test]
    fn every_broken_order_is_seen() {
        panics_with("time does not go back", || busy().advance(4));
        panics_with("a command begins after it was issued", || {
            begin(&mut busy(), 4, 4);
        });
        panics_with("a command begins once", || {
            begin(&mut busy(), 3, 5);
        });
        panics_with("a command that ends is running", || busy().end(CommandNumber(4)));
        panics_with("nothing is in front of the oldest command", || {
            let mut occupancy = Occupancy::default();
            begin(&mut occupancy, 0, 5);
            occupancy.advance(4);
            occupancy.advance(6);
        });
    }
}
