//! Text of ftrace with block events, as `/sys/kernel/tracing/trace`, `trace-cmd report` and Android's traces have it.
//!
//! `TASK-PID [(TGID)] [CPU] FLAGS SECONDS.MICROS: event: body`. Of `block_rq_issue` the body is `major,minor rwbs bytes
//! (command) sector + sectors [priority] [task]`, of `block_rq_complete` and `block_rq_requeue` the same without bytes, of
//! `block_bio_queue` `major,minor rwbs sector + sectors [task]`; sectors are 512 bytes. Other events are passed over.
//! Lines that say that events were lost are counted. Source: `include/trace/events/block.h`, Linux 6.1 and 6.12.

use crate::blkparse::{category_of, device_number};
use crate::block_events::{BlockEvent, Moment, Tracker};
use crate::contract::{FormatEntry, Head, Match};
use crate::error::{Fault, Kind};
use crate::lines::{Line, LineParser};
use crate::notes::Notes;
use crate::number::{SECOND_DIGITS, decimal_ns, integer, sector_length};
use crate::record::Record;

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "ftrace",
    summary: "text of ftrace with block events",
    file_names: &["*.ftrace", "*.ftrace.txt"],
    time: "seconds, 6 decimals",
    address: "512-byte sectors",
    length: "512-byte sectors",
    operations: "letters as of blkparse; latency from the completion",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| {
        let tracker = Tracker::new(opening.options.event);
        Ok(opening.lines(Parser { tracker, has_events: false, has_f2fs_events: false }))
    },
};

/// Events of a request's life, and what they are.
const EVENTS: [(&str, Moment); 4] = [
    ("block_rq_issue", Moment::Issue),
    ("block_rq_complete", Moment::Complete),
    ("block_rq_requeue", Moment::Requeue),
    ("block_bio_queue", Moment::Queue),
];

/// True of events of the block layer, read or passed over.
pub(crate) fn is_of_block_layer(event: &str) -> bool {
    event.starts_with("block_")
}

/// True of events that [`crate::f2fs`] reads.
pub(crate) fn is_of_f2fs(event: &str) -> bool {
    const EVENTS: [&str; 4] =
        ["f2fs_issue_discard", "f2fs_issue_flush", "f2fs_submit_read_bio", "f2fs_submit_write_bio"];
    EVENTS.contains(&event)
}

/// Between the time and an event, and between an event and its body.
const BREAK: &str = ": ";

/// The time of a line, its event and its body; none of a line that is no event.
pub(crate) fn parts(line: &str) -> Option<(&str, &str, &str)> {
    // The name of a task may hold a colon: the time is the word in front of the first break that is one.
    let mut from = 0;
    while let Some(at) = line[from..].find(BREAK).map(|at| from + at) {
        let time = line[..at].rsplit(' ').next().unwrap_or_default();
        if time.contains('.') && decimal_ns("time", time, SECOND_DIGITS).is_ok() {
            let (event, body) = line[at + BREAK.len()..].split_once(BREAK.trim_end())?;
            return Some((time, event.trim(), body.trim()));
        }
        from = at + BREAK.len();
    }
    None
}

/// The time of a line, its event and its body; none of a comment, and of a line that tells of lost events, which is
/// counted.
///
/// # Errors
/// Any other line without an event.
pub(crate) fn event_of<'a>(
    line: &'a str,
    notes: &mut Notes,
) -> Result<Option<(&'a str, &'a str, &'a str)>, Fault> {
    if line.starts_with('#') {
        return Ok(None);
    }
    // `print_trace_line` of kernel/trace/trace.c writes it where the ring buffer ran over.
    if line.starts_with("CPU:") && line.contains("[LOST ") {
        notes.lost_events += 1;
        return Ok(None);
    }
    let found = parts(line).ok_or_else(|| Fault::malformed("the line has no time and event"))?;
    Ok(Some(found))
}

/// The header of ftrace, or lines with block events.
pub(crate) fn detect(head: &Head) -> Match {
    let has = |wanted: fn(&str) -> bool| {
        head.lines().any(|line| parts(line).is_some_and(|(_, event, _)| wanted(event)))
    };
    let has_header = head.lines().any(|line| line.starts_with("# tracer:"));
    match (has(is_of_block_layer), has_header) {
        (true, _) => Match::Certain,
        // Block events may follow later; who names the format knows.
        (false, true) if has(is_of_f2fs) => Match::Possible,
        (false, has_header) => Match::certain_if(has_header),
    }
}

struct Parser {
    tracker: Tracker,
    has_events: bool,
    has_f2fs_events: bool,
}

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        notes: &mut Notes,
    ) -> Result<Line, Fault> {
        let Some((time, event, body)) = event_of(line, notes)? else { return Ok(Line::Parsed) };
        self.has_f2fs_events |= is_of_f2fs(event);
        // Traces of phones hold events of many other kinds.
        let Some((_, moment)) = EVENTS.iter().find(|(name, _)| *name == event) else {
            return Ok(Line::Parsed);
        };
        self.has_events = true;
        let time_ns = decimal_ns("time", time, SECOND_DIGITS)?;
        let mut words = body.split_ascii_whitespace();
        let mut next = |name: &str| {
            words.next().ok_or_else(|| Fault::malformed(format!("the {name} is missing")))
        };
        let (major, minor) = next("device")?
            .split_once(',')
            .ok_or_else(|| Fault::malformed("the device is not major,minor"))?;
        let device = device_number(major, minor)?;
        let mut category = category_of(next("kind")?)?;
        // Completions and bios have no bytes (`block_rq_completion`, `block_bio_queue`).
        if *moment == Moment::Issue {
            integer::<u64>("bytes", next("bytes")?)?;
        }
        if *moment != Moment::Queue {
            let command = next("command")?;
            // A command that is passed through has bytes here, a request of a file system none.
            category.is_passthrough = command != "()";
        }
        let sector = integer("sector", next("sector")?)?;
        if next("plus sign")? != "+" {
            return Err(Fault::malformed("sector and length are not joined by +"));
        }
        let length_bytes = sector_length("length", next("length")?)?;
        let event = BlockEvent { moment: *moment, category, time_ns, device, sector, length_bytes };
        self.tracker.event(&event, notes)?;
        self.tracker.release(records);
        Ok(Line::Parsed)
    }

    fn finish(&mut self, records: &mut Vec<Record>) -> Result<(), Fault> {
        if self.has_f2fs_events && !self.has_events {
            return Err(Fault::new(Kind::Usage, "the trace has no block events")
                .suggest("its bios of f2fs are read with --format f2fs"));
        }
        self.tracker.finish(records)
    }
}
