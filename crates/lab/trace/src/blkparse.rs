//! Text of `blkparse`, in its default output format.
//!
//! `major,minor cpu sequence seconds.nanoseconds pid action rwbs`, then what the action calls for;
//! the layout is that of `blkparse` 1.2.0. The columns are parsed by position: a `D` may be an
//! action (issue) or a kind of request (discard). Messages of blkparse about its input are passed
//! over, and its summary ends the trace. Formats chosen with `-f` are left out.

use crate::block_events::{BlockEvent, Category, Moment, Tracker, Transfer};
use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser};
use crate::notes::Notes;
use crate::number::{SECOND_DIGITS, decimal_ns, integer, sector_length};
use crate::options::Event;
use crate::record::{Flags, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "blkparse",
    summary: "text of blkparse, default output",
    file_names: &["*.blkparse", "*.blkparse.txt"],
    time: "seconds, 9 decimals",
    address: "512-byte sectors",
    length: "512-byte sectors",
    operations: "letters R, W, D (trim), N, F (flush, FUA), S, A, M",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| {
        let parser = Parser::new(opening.options.event);
        Ok(opening.lines(parser))
    },
};

/// Minor numbers take the low bits of a device number, as in the binary form.
const MINOR_BITS: u32 = 20;

/// First words of the summary.
const SUMMARY: [&str; 5] = ["CPU", "Total", "Throughput", "Events", "Skips"];

/// What blkparse says about its input, among the events.
const CHATTER: &str = "Input file ";

/// Actions that say nothing about a request's life that D does not.
const OTHER_ACTIONS: [&str; 12] = ["M", "F", "G", "S", "P", "U", "UT", "T", "X", "B", "A", "I"];

/// Events begin with a device and a time in seconds.
pub(crate) fn detect(head: &Head) -> Match {
    // Device and kind are left to the parser, whose messages say more.
    head.certain_if_most(|line| columns(line).is_ok_and(|columns| columns.time_ns.is_ok()))
}

/// The meaning of the lines.
pub(crate) struct Parser {
    tracker: Tracker,
}

impl Parser {
    /// A parser that takes records from the events `wanted`.
    pub(crate) fn new(wanted: Event) -> Self {
        Self { tracker: Tracker::new(wanted) }
    }
}

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        notes: &mut Notes,
    ) -> Result<Line, Fault> {
        if line.starts_with(CHATTER) {
            return Ok(Line::Parsed);
        }
        // `CPU0 (sda):` or `Total (sda):` begins the summary.
        if SUMMARY.iter().any(|word| line.starts_with(word)) {
            return Ok(Line::End);
        }
        let columns = columns(line)?;
        let time_ns = columns.time_ns?;
        let device = columns.device?;
        let moment = match columns.action {
            "m" => {
                self.tracker.message(columns.rest)?;
                return Ok(Line::Parsed);
            }
            "Q" => Moment::Queue,
            "D" => Moment::Issue,
            "R" => Moment::Requeue,
            "C" => Moment::Complete,
            other if OTHER_ACTIONS.contains(&other) => return Ok(Line::Parsed),
            _ => return Err(Fault::malformed("the action is unknown")),
        };
        let mut category = category_of(columns.category)?;
        let range = range_of(columns.rest, moment)?;
        // A command that is passed through has no address.
        category.is_passthrough = range.is_none();
        let (sector, length_bytes) = range.unwrap_or_default();
        let event = BlockEvent { moment, category, time_ns, device, sector, length_bytes };
        self.tracker.event(&event, notes)?;
        self.tracker.release(records);
        Ok(Line::Parsed)
    }

    fn finish(&mut self, records: &mut Vec<Record>) -> Result<(), Fault> {
        self.tracker.finish(records)
    }
}

/// The parts of an event line. Device and time are results so that detection can ask for less.
struct Columns<'a> {
    device: Result<u32, Fault>,
    time_ns: Result<u64, Fault>,
    action: &'a str,
    category: &'a str,
    rest: &'a str,
}

fn columns(line: &str) -> Result<Columns<'_>, Fault> {
    let mut rest = line;
    let mut next = |name: &str| {
        let (word, after) = first_word(rest);
        rest = after;
        if word.is_empty() {
            return Err(Fault::malformed(format!("the {name} is missing")));
        }
        Ok(word)
    };
    let device = next("device")?;
    let Some((major, minor)) = device.split_once(',') else {
        return Err(Fault::malformed("the line does not begin with major,minor")
            .suggest("only the default output of blkparse is read, not that of -f"));
    };
    // "8,0" is one word; a narrow major is padded in front, a narrow minor behind.
    let device = device_number(major, minor);
    next("CPU")?;
    next("sequence number")?;
    let time = next("time")?;
    // blkparse prints seconds with nine decimals.
    let time_ns = if time.contains('.') {
        decimal_ns("time", time, SECOND_DIGITS)
    } else {
        Err(Fault::malformed("the time is not in seconds and nanoseconds"))
    };
    next("process")?;
    let mut action = next("action")?;
    // Messages of a cgroup carry its id in front of the action.
    if action.contains(',') {
        action = next("action")?;
    }
    let category = next("kind of request")?;
    Ok(Columns { device, time_ns, action, category, rest: rest.trim() })
}

fn first_word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    text.split_at(end)
}

pub(crate) fn device_number(major: &str, minor: &str) -> Result<u32, Fault> {
    let (major, minor): (u32, u32) =
        (integer("major device number", major)?, integer("minor device number", minor)?);
    // Twelve bits and twenty, as the kernel's `MKDEV` divides a number.
    if major >> (u32::BITS - MINOR_BITS) != 0 || minor >> MINOR_BITS != 0 {
        return Err(Fault::malformed("the device number is too large"));
    }
    Ok((major << MINOR_BITS) | minor)
}

/// The letters `[F] D|W|R|N [F] [A] [S] [M]`, in this order.
pub(crate) fn category_of(letters: &str) -> Result<Category, Fault> {
    let unknown = || Fault::malformed("the kind of request is unknown");
    let (is_flush, rest) = letters.strip_prefix('F').map_or((false, letters), |rest| (true, rest));
    let mut rest = rest.chars();
    let transfer = match rest.next() {
        Some('D') => Transfer::Discard,
        Some('W') => Transfer::Write,
        // `fill_rwbs` writes N for a request without data, such as a flush.
        Some('R' | 'N') => Transfer::Read,
        _ => return Err(unknown()),
    };
    let mut flags = Flags::NONE;
    for letter in rest {
        flags = flags
            | match letter {
                'F' => Flags::FUA,
                'A' => Flags::READAHEAD,
                'S' => Flags::SYNC,
                'M' => Flags::META,
                _ => return Err(unknown()),
            };
    }
    Ok(Category { transfer, is_flush, is_passthrough: false, flags })
}

/// Sector and bytes after the category; none for a pass-through command.
fn range_of(rest: &str, moment: Moment) -> Result<Option<(u64, u32)>, Fault> {
    let (first, after) = first_word(rest);
    if first.starts_with('(') {
        return Ok(None);
    }
    if first.is_empty() || first.starts_with('[') {
        // The completion of an empty request has a sector; only that of a command has nothing.
        return Ok((moment != Moment::Complete).then_some((0, 0)));
    }
    let sector = integer("sector", first)?;
    let (sign, after) = first_word(after);
    if sign == "+" {
        return Ok(Some((sector, sector_length("number of sectors", first_word(after).0)?)));
    }
    // A number without a length is the sector of an empty request, or the bytes of a command.
    let is_empty_request = moment == Moment::Complete && sign.starts_with('[');
    Ok(is_empty_request.then_some((sector, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_by_position() {
        let cases = [
            ("FW", true, Transfer::Write, Flags::NONE),
            ("FN", true, Transfer::Read, Flags::NONE),
            ("WFS", false, Transfer::Write, Flags::FUA | Flags::SYNC),
            ("FWF", true, Transfer::Write, Flags::FUA),
            ("DS", false, Transfer::Discard, Flags::SYNC),
            ("RAM", false, Transfer::Read, Flags::READAHEAD | Flags::META),
        ];
        for (letters, is_flush, transfer, flags) in cases {
            let category = category_of(letters).unwrap_or_else(|fault| panic!("{letters} {fault}"));
            assert_eq!(
                (category.is_flush, category.transfer, category.flags),
                (is_flush, transfer, flags),
                "{letters}"
            );
        }
        for letters in ["", "F", "X", "WX", "FF"] {
            assert!(category_of(letters).is_err(), "{letters}");
        }
    }

    #[test]
    fn process_names_may_hold_anything() {
        let line = "  8,16   1      3     0.000002000  1234  D  WS 2048 + 8 [my [odd] + 9 name]";
        let columns = columns(line).unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(columns.device.ok(), Some((8 << 20) | 16));
        assert_eq!(range_of(columns.rest, Moment::Issue).ok(), Some(Some((2048, 4096))));
    }
}
