//! I/O logs of fio (`write_iolog`, `read_iolog`), versions 2 and 3.
//!
//! The first line names the version. Version 2 has lines `file action [offset length]` and waits;
//! version 3 puts a time in microseconds in front and has no waits. The layout is that of fio's
//! manual. Files are numbered in the order they are added. A sync becomes a flush. Version 1 has
//! no files and is refused, as fio itself refuses it since 1.20.

use std::collections::BTreeMap;

use crate::contract::{FormatEntry, Head, Match};
use crate::error::{Fault, Kind, Place};
use crate::lines::{Line, LineParser, exactly};
use crate::notes::Notes;
use crate::number::{integer, scaled};
use crate::plain::Plain;
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "fio-iolog",
    summary: "I/O log of fio, versions 2 and 3",
    file_names: &["*.iolog"],
    time: "microseconds (version 3), waits (version 2)",
    address: "bytes",
    length: "bytes",
    operations: "read, write, trim, sync, datasync",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| {
        let parser = Parser::new(opening.input.head())?;
        Ok(opening.lines(parser))
    },
};

const NS_PER_MICROSECOND: u64 = 1000;

/// fio ignores shorter waits.
const SHORTEST_WAIT_MICROSECONDS: u64 = 100;

const VERSION_2: &str = "fio version 2 iolog";
const VERSION_3: &str = "fio version 3 iolog";

/// The first line says it; version 1 has lines of three numbers, of which the first is 0 or 1.
pub(crate) fn detect(head: &Head) -> Match {
    let first = head.lines().next().unwrap_or_default();
    if first.starts_with("fio version ") {
        return Match::Certain;
    }
    head.certain_if_most(is_version_1)
}

fn is_version_1(line: &str) -> bool {
    exactly::<3>(line.split(',').map(str::trim)).is_ok_and(|[kind, offset, length]| {
        matches!(kind, "0" | "1")
            && integer::<u64>("offset", offset).is_ok()
            && integer::<u64>("length", length).is_ok()
    })
}

fn refusal(first: &str) -> Fault {
    if is_version_1(first) {
        return Fault::new(Kind::Unsupported, "this is a fio log of version 1, which is not read")
            .suggest("write it again with a fio newer than 1.20");
    }
    if first.starts_with("fio version ") {
        return Fault::new(Kind::Unsupported, "this version of the fio log is not read")
            .suggest("versions 2 and 3 are");
    }
    Fault::new(Kind::WrongFormat, format!("the first line is not \"{VERSION_3}\""))
}

/// The meaning of the lines.
pub(crate) struct Parser {
    has_times: bool,
    waited_ns: u64,
    /// Device number of every file added so far.
    files: BTreeMap<String, u32>,
}

impl Parser {
    /// A parser for the version that the first line names.
    pub(crate) fn new(head: &[u8]) -> Result<Self, Fault> {
        let head = Head::new(head);
        let first = head.lines().next().unwrap_or_default().trim_end();
        let has_times = match first {
            VERSION_2 => false,
            VERSION_3 => true,
            _ => return Err(refusal(first).at(Place::Line(1)).quoting(first)),
        };
        Ok(Self { has_times, waited_ns: 0, files: BTreeMap::new() })
    }
}

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        notes: &mut Notes,
    ) -> Result<Line, Fault> {
        // The first line, which `new` has read.
        if line.starts_with("fio version ") {
            return Ok(Line::Parsed);
        }
        let mut words = line.split_whitespace();
        let time_ns = if self.has_times {
            let time = integer("timestamp", words.next().unwrap_or_default())?;
            scaled("timestamp", time, NS_PER_MICROSECOND)?
        } else {
            // Version 2 has no times: a request arrives when the waits before it are over.
            self.waited_ns
        };
        let file = words.next().unwrap_or_default();
        let Some(action) = words.next() else {
            return Err(Fault::malformed("the action is missing"));
        };
        match action {
            "add" => self.add(file)?,
            "open" | "close" => {
                // Files may be opened and closed at any time, but must be known.
                self.device(file)?;
            }
            "wait" => self.wait(words, notes)?,
            _ => {
                let operation = operation(action)?;
                let device = self.device(file)?;
                records.push(request(time_ns, operation, device, words)?);
                return Ok(Line::Parsed);
            }
        }
        Ok(Line::Parsed)
    }

    fn parse_plain(&self, bytes: &[u8]) -> Option<(Record, usize)> {
        // Version 2 has waits between its requests.
        if !self.has_times {
            return None;
        }
        let mut line = Plain::new(bytes);
        let arrival_ns = line.scaled(NS_PER_MICROSECOND)?;
        line.byte(b' ')?;
        let device = *self.files.get(line.name(b' ')?)?;
        let operation = if line.word(b"read ") {
            Operation::Read
        } else {
            line.word(b"write ").then_some(Operation::Write)?
        };
        let offset_bytes = line.integer()?;
        line.byte(b' ')?;
        let length_bytes = line.integer_u32()?;
        line.end()?;
        let record = Record::new(arrival_ns, operation, offset_bytes, length_bytes);
        line.finish(Record { device, ..record })
    }
}

impl Parser {
    fn add(&mut self, file: &str) -> Result<(), Fault> {
        let number = u32::try_from(self.files.len())
            .map_err(|_| Fault::malformed("there are too many files"))?;
        // A file that is added again keeps its number.
        self.files.entry(file.to_owned()).or_insert(number);
        Ok(())
    }

    fn device(&self, file: &str) -> Result<u32, Fault> {
        self.files.get(file).copied().ok_or_else(|| {
            Fault::malformed("the file was not added").suggest("a line \"<file> add\" is missing")
        })
    }

    fn wait<'a>(
        &mut self,
        words: impl Iterator<Item = &'a str>,
        notes: &mut Notes,
    ) -> Result<(), Fault> {
        if self.has_times {
            return Err(Fault::malformed("version 3 has no wait"));
        }
        let [time, _] = exactly(words)?;
        let microseconds: u64 = integer("wait", time)?;
        if microseconds < SHORTEST_WAIT_MICROSECONDS {
            notes.short_waits += 1;
            return Ok(());
        }
        self.waited_ns = scaled("wait", microseconds, NS_PER_MICROSECOND)?
            .checked_add(self.waited_ns)
            .ok_or_else(|| Fault::malformed("the sum of the waits is too large"))?;
        Ok(())
    }
}

fn operation(action: &str) -> Result<Operation, Fault> {
    match action {
        "read" => Ok(Operation::Read),
        "write" => Ok(Operation::Write),
        "trim" => Ok(Operation::Trim),
        // To a device the two are the same command.
        "sync" | "datasync" => Ok(Operation::Flush),
        _ => Err(Fault::malformed("the action is unknown")),
    }
}

fn request<'a>(
    time_ns: u64,
    operation: Operation,
    device: u32,
    words: impl Iterator<Item = &'a str>,
) -> Result<Record, Fault> {
    let [offset, length] = exactly(words)?;
    let (offset_bytes, length_bytes) = (integer("offset", offset)?, integer("length", length)?);
    let record = match operation {
        // The offset of a sync is that of the last request, and says nothing.
        Operation::Flush => Record::new(time_ns, operation, 0, 0),
        _ => Record::new(time_ns, operation, offset_bytes, length_bytes),
    };
    Ok(Record { device, ..record })
}
