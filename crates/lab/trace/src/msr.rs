//! MSR Cambridge CSV (2007): one week of 36 volumes of 13 servers.
//!
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, usually without that header line.
//! Times are Windows FILETIME (100 ns since 1601), offset and size are bytes; the layout is that
//! of the data set's README. The host name is left out: a file holds one host. The files are not
//! strictly sorted by time.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser, exactly, read_or_write};
use crate::notes::Notes;
use crate::number::{integer, scaled};
use crate::plain::Plain;
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "msr",
    summary: "MSR Cambridge CSV",
    file_names: &["*.csv", "*.csv.gz"],
    time: "100 ns since 1601",
    address: "bytes",
    length: "bytes",
    operations: "Read, Write; response time",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

const TICK_NS: u64 = 100;

/// Seven fields, the fourth of which is spelled out.
pub(crate) fn detect(head: &Head) -> Match {
    head.certain_if_most(|line| {
        let fields = exactly::<7>(line.split(','));
        fields.is_ok_and(|fields| is_header(line) || operation(fields[3]).is_ok())
    })
}

/// The meaning of a line.
pub(crate) struct Parser;

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        _notes: &mut Notes,
    ) -> Result<Line, Fault> {
        // The published files have no header; tables made from them may.
        if is_header(line) {
            return Ok(Line::Parsed);
        }
        let [time, _host, disk, kind, offset, size, response] =
            exactly(line.split(',').map(str::trim))?;
        // The reader makes times relative, so the year 1601 does not matter.
        let arrival_ns = scaled("timestamp", integer("timestamp", time)?, TICK_NS)?;
        let latency_ns = scaled("response time", integer("response time", response)?, TICK_NS)?;
        records.push(Record {
            device: integer("disk number", disk)?,
            latency_ns: Some(latency_ns),
            ..Record::new(
                arrival_ns,
                operation(kind)?,
                integer("offset", offset)?,
                integer("size", size)?,
            )
        });
        Ok(Line::Parsed)
    }

    fn parse_plain(&self, bytes: &[u8]) -> Option<(Record, usize)> {
        let mut line = Plain::new(bytes);
        let arrival_ns = line.scaled(TICK_NS)?;
        line.byte(b',')?;
        line.skip(b',')?;
        let device = line.integer_u32()?;
        let operation = if line.word(b",Read,") {
            Operation::Read
        } else {
            line.word(b",Write,").then_some(Operation::Write)?
        };
        let offset_bytes = line.integer()?;
        line.byte(b',')?;
        let length_bytes = line.integer_u32()?;
        line.byte(b',')?;
        let latency_ns = Some(line.scaled(TICK_NS)?);
        line.end()?;
        let record = Record::new(arrival_ns, operation, offset_bytes, length_bytes);
        line.finish(Record { device, latency_ns, ..record })
    }
}

fn is_header(line: &str) -> bool {
    line.starts_with("Timestamp,")
}

fn operation(kind: &str) -> Result<Operation, Fault> {
    read_or_write("type", kind.trim(), ["Read", "Write"])
}
