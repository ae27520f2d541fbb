//! What a reader leaves out or changes, counted.

use crate::error::Fault;

/// Messages of skipped lines kept for the report.
const SKIPPED_SHOWN: usize = 5;

/// What a reader left out or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Malformed lines skipped on request.
    pub skipped_lines: u64,
    /// Place and reason of the first of them.
    pub first_skipped: Vec<String>,
    /// Requests of zero length, other than flushes, dropped.
    pub zero_length: u64,
    /// Records earlier than the one before, given its arrival.
    pub out_of_order: u64,
    /// Records of devices that were not asked for, dropped.
    pub other_devices: u64,
    /// Pass-through commands of a blktrace, dropped: they have no address.
    pub passthrough: u64,
    /// Requests of a blktrace taken back by the driver and issued again, counted once.
    pub requeued: u64,
    /// Waits of a fio log below 100 us, which fio itself ignores.
    pub short_waits: u64,
    /// Requests whose response was not seen, and of which the kind is not known, dropped.
    pub unanswered: u64,
    /// Places where the tracer lost events.
    pub lost_events: u64,
}

impl Notes {
    /// Every counter with its name, in a fixed order.
    pub fn counters(&self) -> [(&'static str, u64); 9] {
        [
            ("skipped_lines", self.skipped_lines),
            ("zero_length", self.zero_length),
            ("out_of_order", self.out_of_order),
            ("other_devices", self.other_devices),
            ("passthrough", self.passthrough),
            ("requeued", self.requeued),
            ("short_waits", self.short_waits),
            ("unanswered", self.unanswered),
            ("lost_events", self.lost_events),
        ]
    }

    pub(crate) fn skip_line(&mut self, fault: &Fault) {
        self.skipped_lines += 1;
        if self.first_skipped.len() < SKIPPED_SHOWN {
            self.first_skipped.push(fault.to_string());
        }
    }
}
