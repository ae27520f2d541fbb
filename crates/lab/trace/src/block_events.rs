//! The life of a block request as blktrace sees it, turned into records.
//!
//! The binary and the text form of blktrace report the same events; both readers feed them here.
//! One event of each request (D, issued to the device, or Q, queued) becomes the record. For D the
//! matching C (completed) gives the latency, so records are held back until their C is seen, up to
//! [`HELD_RECORDS_MAX`] of them. An R (requeued) takes back its D: the request is issued again.
//!
//! A data request that asks for a flush first becomes two records, the flush and the data.
//! Left out: merges, splits, plugs and remaps, which D already contains.
//! A write of zeroes looks like any other write: blktrace has no category for it.

use std::collections::{BTreeMap, VecDeque};

use crate::error::{Fault, Kind};
use crate::lines::check_range;
use crate::notes::Notes;
use crate::number::{SECTOR_BYTES, integer, scaled};
use crate::options::Event;
use crate::record::{Flags, Operation, Record};

/// Requests that may be under way at once before the oldest gives up on its completion.
const HELD_RECORDS_MAX: usize = 1 << 16;

/// Messages of this beginning carry the number of the file-system operation that follows.
const OPERATION_MESSAGE: &str = "nandlab operation ";

/// The moments that matter here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Queue,
    Issue,
    Requeue,
    Complete,
}

/// Direction of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transfer {
    #[default]
    Read,
    Write,
    Discard,
}

/// What the request is, as far as either form says.
#[derive(Clone, Copy, Default)]
pub(crate) struct Category {
    pub(crate) transfer: Transfer,
    pub(crate) is_flush: bool,
    pub(crate) is_passthrough: bool,
    pub(crate) flags: Flags,
}

/// One event of a request.
pub(crate) struct BlockEvent {
    pub(crate) moment: Moment,
    pub(crate) category: Category,
    pub(crate) time_ns: u64,
    pub(crate) device: u32,
    pub(crate) sector: u64,
    pub(crate) length_bytes: u32,
}

/// What makes two events of one request recognisable.
type Identity = (u32, u64, Operation);

struct Held {
    /// None once the request was taken back.
    record: Option<Record>,
    /// The request whose C is waited for; none once it was seen or given up.
    waits_for: Option<Identity>,
}

/// Collects events and releases records in the order of their requests.
pub(crate) struct Tracker {
    wanted: Event,
    file_operation: Option<u32>,
    held: VecDeque<Held>,
    /// Number of the first held record, counted from the start of the trace.
    first_number: u64,
    under_way: BTreeMap<Identity, u64>,
    saw_wanted: bool,
    saw_other: bool,
}

impl Tracker {
    pub(crate) fn new(wanted: Event) -> Self {
        Self {
            wanted,
            file_operation: None,
            held: VecDeque::new(),
            first_number: 0,
            under_way: BTreeMap::new(),
            saw_wanted: false,
            saw_other: false,
        }
    }

    /// Takes note of a message; most are none of ours.
    pub(crate) fn message(&mut self, text: &str) -> Result<(), Fault> {
        if let Some(number) = text.trim().strip_prefix(OPERATION_MESSAGE) {
            self.file_operation = Some(integer("operation number", number)?);
        }
        Ok(())
    }

    /// Takes note of an event.
    pub(crate) fn event(&mut self, event: &BlockEvent, notes: &mut Notes) -> Result<(), Fault> {
        let (is_issue, is_queue) = (event.moment == Moment::Issue, event.moment == Moment::Queue);
        let is_wanted = match self.wanted {
            Event::Issue => is_issue,
            Event::Queue => is_queue,
        };
        // To say which events the trace has, if it lacks those that were asked for.
        self.saw_wanted |= is_wanted;
        self.saw_other |= (is_issue || is_queue) && !is_wanted;
        if event.category.is_passthrough {
            // Counted once, at the event that would be its record.
            notes.passthrough += u64::from(is_wanted);
            return Ok(());
        }
        if is_wanted {
            return self.request(event);
        }
        match event.moment {
            Moment::Complete => self.complete(event),
            Moment::Requeue => self.take_back(event, notes),
            Moment::Queue | Moment::Issue => {}
        }
        Ok(())
    }

    fn request(&mut self, event: &BlockEvent) -> Result<(), Fault> {
        let record = Record {
            arrival_ns: event.time_ns,
            operation: operation_of(event),
            device: event.device,
            offset_bytes: scaled("sector", event.sector, SECTOR_BYTES)?,
            length_bytes: event.length_bytes,
            flags: event.category.flags,
            latency_ns: None,
            file_operation: self.file_operation,
        };
        check_range(&record)?;
        if record.operation == Operation::Flush {
            // A flush has no address, whatever the event says.
            let flush = Record { offset_bytes: 0, length_bytes: 0, ..record };
            self.hold(flush, identity(event));
            return Ok(());
        }
        // The order in which the block layer carries it out (`REQ_PREFLUSH`): flush, then data.
        if event.category.is_flush {
            let operation = Operation::Flush;
            let (offset_bytes, length_bytes, flags) = (0, 0, Flags::NONE);
            let flush = Record { operation, offset_bytes, length_bytes, flags, ..record };
            // One C ends both, and its latency goes to the data.
            self.held.push_back(Held { record: Some(flush), waits_for: None });
        }
        self.hold(record, identity(event));
        Ok(())
    }

    fn hold(&mut self, record: Record, identity: Identity) {
        // A Q is of a bio, and a C of the request that took it in.
        let waits_for = (self.wanted == Event::Issue).then_some(identity);
        if waits_for.is_some() {
            let number = self.first_number.saturating_add(self.held.len() as u64);
            // A second D without a C between: that of the first is lost.
            if let Some(older) = self.under_way.insert(identity, number) {
                self.end_wait(older, |_| {});
            }
        }
        self.held.push_back(Held { record: Some(record), waits_for });
    }

    fn complete(&mut self, event: &BlockEvent) {
        // Its D was before the trace began, or was given up.
        let Some(number) = self.under_way.remove(&identity(event)) else { return };
        self.end_wait(number, |held| {
            if let Some(record) = &mut held.record {
                // Clocks of processors may differ: a C before its D gives no latency.
                record.latency_ns = event.time_ns.checked_sub(record.arrival_ns);
            }
        });
    }

    fn take_back(&mut self, event: &BlockEvent, notes: &mut Notes) {
        let Some(number) = self.under_way.remove(&identity(event)) else { return };
        notes.requeued += 1;
        self.end_wait(number, |held| held.record = None);
    }

    /// The record need not wait for its C any longer; `change` is applied to it.
    fn end_wait(&mut self, number: u64, change: impl FnOnce(&mut Held)) {
        let index = number.checked_sub(self.first_number).map(|index| index as usize);
        if let Some(held) = index.and_then(|index| self.held.get_mut(index)) {
            held.waits_for = None;
            change(held);
        }
    }

    /// Appends the records that need not wait any longer.
    pub(crate) fn release(&mut self, records: &mut Vec<Record>) {
        // In the order of requests: one that waits for its C holds back all behind it.
        while self.held.front().is_some_and(|held| held.waits_for.is_none())
            || self.held.len() > HELD_RECORDS_MAX
        {
            self.release_first(records);
        }
    }

    /// Appends the rest, at the end of the trace.
    pub(crate) fn finish(&mut self, records: &mut Vec<Record>) -> Result<(), Fault> {
        while !self.held.is_empty() {
            self.release_first(records);
        }
        // A trace without requests is no fault; one with the other events only was read by the
        // wrong choice.
        if self.saw_other && !self.saw_wanted {
            return Err(self.wrong_event());
        }
        Ok(())
    }

    fn release_first(&mut self, records: &mut Vec<Record>) {
        let Some(held) = self.held.pop_front() else { return };
        records.extend(held.record);
        if let Some(identity) = held.waits_for {
            self.under_way.remove(&identity);
        }
        self.first_number = self.first_number.saturating_add(1);
        debug_assert!(
            self.under_way.len() <= self.held.len(),
            "every request under way has a record that is held back"
        );
    }

    fn wrong_event(&self) -> Fault {
        let (absent, present) = match self.wanted {
            Event::Issue => ("D (issue)", "Q"),
            Event::Queue => ("Q (queue)", "D"),
        };
        Fault::new(Kind::Usage, format!("the trace has no {absent} events"))
            .suggest(format!("its {present} events are read with --event {present}"))
    }
}

fn operation_of(event: &BlockEvent) -> Operation {
    match event.category.transfer {
        Transfer::Discard => Operation::Trim,
        _ if event.category.is_flush && event.length_bytes == 0 => Operation::Flush,
        Transfer::Write => Operation::Write,
        Transfer::Read => Operation::Read,
    }
}

fn identity(event: &BlockEvent) -> Identity {
    let operation = operation_of(event);
    // The text form prints no sector for the D of a flush, and 0 for its C.
    let sector = if operation == Operation::Flush { 0 } else { event.sector };
    (event.device, sector, operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(moment: Moment, time_ns: u64, sector: u64, category: Category) -> BlockEvent {
        BlockEvent { moment, category, time_ns, device: 0, sector, length_bytes: 4096 }
    }

    fn records(wanted: Event, events: &[BlockEvent]) -> (Vec<Record>, Notes) {
        let (mut tracker, mut notes) = (Tracker::new(wanted), Notes::default());
        let mut records = Vec::new();
        for event in events {
            tracker.event(event, &mut notes).unwrap();
            tracker.release(&mut records);
        }
        tracker.finish(&mut records).unwrap();
        (records, notes)
    }

    const WRITE: Category = Category {
        transfer: Transfer::Write,
        is_flush: false,
        is_passthrough: false,
        flags: Flags::NONE,
    };

    #[test]
    fn completions_out_of_order_keep_the_order_of_issue() {
        let (records, _) = records(
            Event::Issue,
            &[
                event(Moment::Issue, 10, 8, WRITE),
                event(Moment::Issue, 20, 16, WRITE),
                event(Moment::Complete, 50, 16, WRITE),
                event(Moment::Complete, 70, 8, WRITE),
                event(Moment::Issue, 80, 24, WRITE),
            ],
        );
        let seen: Vec<_> = records.iter().map(|r| (r.offset_bytes, r.latency_ns)).collect();
        assert_eq!(seen, [(4096, Some(60)), (8192, Some(30)), (12288, None)]);
    }

    #[test]
    fn a_requeued_request_counts_once() {
        let (records, notes) = records(
            Event::Issue,
            &[
                event(Moment::Issue, 10, 8, WRITE),
                event(Moment::Requeue, 11, 8, WRITE),
                event(Moment::Issue, 20, 8, WRITE),
                event(Moment::Complete, 25, 8, WRITE),
            ],
        );
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].arrival_ns, records[0].latency_ns), (20, Some(5)));
        assert_eq!(notes.requeued, 1);
    }

    #[test]
    fn a_write_with_a_flush_before_it_is_two_records() {
        let category = Category { is_flush: true, flags: Flags::FUA, ..WRITE };
        let (records, _) = records(Event::Queue, &[event(Moment::Queue, 10, 8, category)]);
        let seen: Vec<_> = records.iter().map(|r| (r.operation, r.length_bytes, r.flags)).collect();
        assert_eq!(
            seen,
            [(Operation::Flush, 0, Flags::NONE), (Operation::Write, 4096, Flags::FUA)]
        );
    }

    #[test]
    fn requests_that_never_complete_are_held_in_bounds() {
        let (mut tracker, mut notes) = (Tracker::new(Event::Issue), Notes::default());
        let mut records = Vec::new();
        for number in 0..200_000 {
            tracker.event(&event(Moment::Issue, number, number, WRITE), &mut notes).unwrap();
            tracker.release(&mut records);
            assert!(tracker.held.len() <= HELD_RECORDS_MAX);
            assert!(tracker.under_way.len() <= HELD_RECORDS_MAX + 1);
        }
    }

    #[test]
    fn a_trace_without_the_wanted_event_is_reported() {
        let mut tracker = Tracker::new(Event::Issue);
        tracker.event(&event(Moment::Queue, 0, 0, WRITE), &mut Notes::default()).unwrap();
        let fault = tracker.finish(&mut Vec::new()).unwrap_err();
        assert!(fault.to_string().contains("--event Q"), "{fault}");
    }
}
