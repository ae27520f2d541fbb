//! The loop shared by every text format: lines in, records out, each fault with its line.
//!
//! A format supplies a [`LineParser`]. Blank lines are passed over; a bad line ends the reading
//! unless the caller asked to count and skip such lines.

use std::io::{BufRead, ErrorKind, Read};

use crate::contract::{BATCH_RECORDS, Opening, Source};
use crate::error::{Fault, Kind, Place};
use crate::input::Bytes;
use crate::notes::Notes;
use crate::record::{Operation, Record};

/// No trace format has lines this long; such input is not a text trace.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// What a line was.
pub(crate) enum Line {
    /// Understood, with or without records.
    Parsed,
    /// The first line after the trace.
    End,
}

/// The meaning of the lines of one format.
pub(crate) trait LineParser: Send {
    /// Appends the records of one line. After a fault, the parser is as if the line were absent.
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        notes: &mut Notes,
    ) -> Result<Line, Fault>;

    /// The record of the line that `bytes` begin with, and the bytes of that line with its end.
    ///
    /// None if the line is not in its plainest form (see [`crate::plain`]), or does not end within `bytes`:
    /// [`LineParser::parse`] then has it. What this understands, that must understand alike.
    fn parse_plain(&self, _bytes: &[u8]) -> Option<(Record, usize)> {
        None
    }

    /// Appends what was held back, after the last line.
    fn finish(&mut self, _records: &mut Vec<Record>) -> Result<(), Fault> {
        Ok(())
    }
}

/// A text trace, read line by line.
pub(crate) struct Lines<P> {
    input: Bytes,
    parser: P,
    buffer: Vec<u8>,
    line_number: u64,
    skips_bad: bool,
    ended: bool,
}

impl<P: LineParser> Lines<P> {
    pub(crate) fn new(input: Bytes, parser: P, skips_bad: bool) -> Self {
        Self { input, parser, buffer: Vec::new(), line_number: 0, skips_bad, ended: false }
    }

    /// Reads the next line into the buffer; false at the end of the file.
    fn advance(&mut self) -> Result<bool, Fault> {
        self.buffer.clear();
        self.line_number += 1;
        let place = Place::Line(self.line_number);
        let mut limited = self.input.by_ref().take(LINE_BYTES_MAX);
        limited.read_until(b'\n', &mut self.buffer).map_err(|error| Fault::io(&error).at(place))?;
        if self.buffer.len() as u64 == LINE_BYTES_MAX {
            let text = String::from_utf8_lossy(&self.buffer);
            return Err(Fault::new(Kind::WrongFormat, "the line is too long for a text trace")
                .at(place)
                .quoting(&text));
        }
        Ok(!self.buffer.is_empty())
    }

    /// Takes lines in their plainest form, as far as they are in memory.
    fn take_plain_lines(&mut self, records: &mut Vec<Record>) -> Result<(), Fault> {
        let bytes = match self.input.fill_buf() {
            Ok(bytes) => bytes,
            // `read_until` reads again then.
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(Fault::io(&error).at(Place::Line(self.line_number + 1))),
        };
        let mut taken = 0;
        while records.len() < BATCH_RECORDS
            && let Some((record, length)) = self.parser.parse_plain(&bytes[taken..])
            // A line of that length is refused, whatever stands in it.
            && (length as u64) < LINE_BYTES_MAX
        {
            records.push(record);
            taken += length;
            self.line_number += 1;
        }
        self.input.consume(taken);
        Ok(())
    }

    fn parse_line(&mut self, records: &mut Vec<Record>, notes: &mut Notes) -> Result<Line, Fault> {
        // Names may be in any encoding; numbers are ASCII.
        let text = String::from_utf8_lossy(&self.buffer);
        let line = text.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r']);
        if line.trim().is_empty() {
            return Ok(Line::Parsed);
        }
        let before = records.len();
        let parsed = self.parser.parse(line, records, notes).and_then(|outcome| {
            records.iter().skip(before).try_for_each(check_range).map(|()| outcome)
        });
        parsed.or_else(|fault| {
            // Records of a bad line go with it.
            records.truncate(before);
            let fault = fault.at(Place::Line(self.line_number)).quoting(line);
            // Only what is wrong with a line is skipped, not a wrong format or a failing disk.
            if self.skips_bad && fault.kind == Kind::Malformed {
                notes.skip_line(&fault);
                return Ok(Line::Parsed);
            }
            Err(fault)
        })
    }
}

impl<P: LineParser> Source for Lines<P> {
    fn fill(&mut self, records: &mut Vec<Record>, notes: &mut Notes) -> Result<bool, Fault> {
        debug_assert!(records.is_empty(), "a batch begins empty");
        while !self.ended && records.len() < BATCH_RECORDS {
            self.take_plain_lines(records)?;
            if records.len() == BATCH_RECORDS {
                break;
            }
            let more = self.advance()?;
            if !more || matches!(self.parse_line(records, notes)?, Line::End) {
                self.ended = true;
                self.parser.finish(records)?;
            }
        }
        Ok(!self.ended)
    }
}

impl Opening<'_> {
    /// The text of the file, line by line, as `parser` understands it.
    pub(crate) fn lines(self, parser: impl LineParser + 'static) -> Box<dyn Source> {
        Box::new(Lines::new(self.input.into_bytes(), parser, self.options.skip_bad_lines))
    }
}

/// The end of the range must be addressable.
pub(crate) fn check_range(record: &Record) -> Result<(), Fault> {
    let end = record.offset_bytes.checked_add(u64::from(record.length_bytes));
    end.map(|_| ()).ok_or_else(|| Fault::malformed("the end of the range is too large"))
}

/// A read or a write, by the two words that a format has for them.
pub(crate) fn read_or_write(
    name: &str,
    word: &str,
    [read, write]: [&str; 2],
) -> Result<Operation, Fault> {
    if word == read {
        Ok(Operation::Read)
    } else if word == write {
        Ok(Operation::Write)
    } else {
        Err(Fault::malformed(format!("the {name} is neither {read} nor {write}")))
    }
}

/// The fields of a line, which must be exactly `N`.
pub(crate) fn exactly<'a, const N: usize>(
    fields: impl Iterator<Item = &'a str>,
) -> Result<[&'a str; N], Fault> {
    let (mut found, mut count) = ([""; N], 0);
    for field in fields {
        if let Some(place) = found.get_mut(count) {
            *place = field;
        }
        count += 1;
    }
    if count == N {
        return Ok(found);
    }
    Err(Fault::malformed(format!("expected {N} fields and found {count}")))
}
