//! ASCII traces of MQSim and of SSDsim (HUST), which look the same.
//!
//! `arrival device start_sector size_sectors type`: five whole numbers between spaces, sectors of
//! 512 bytes, type 0 a write and 1 a read. SSDsim counts nanoseconds. MQSim's unit stands in its
//! workload file, so the caller names it. The longer lines of SSDsim's forks are refused.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::{Fault, Kind};
use crate::lines::{Line, LineParser, exactly};
use crate::notes::Notes;
use crate::number::{integer, scaled, sector_address, sector_length};
use crate::options::TimeUnit;
use crate::plain::Plain;
use crate::record::{Operation, Record};

pub(crate) const ENTRY_MQSIM: FormatEntry = FormatEntry {
    name: "mqsim",
    summary: "ASCII trace of MQSim",
    file_names: &["*.mqsim"],
    time: "whole number, unit named by --time-unit",
    address: "512-byte sectors",
    length: "512-byte sectors",
    operations: "0 write, 1 read",
    takes_time_unit: true,
    no_times: None,
    detect,
    open: |opening| {
        let parser = Parser::of_mqsim(opening.options.time_unit)?;
        Ok(opening.lines(parser))
    },
};

pub(crate) const ENTRY_SSDSIM: FormatEntry = FormatEntry {
    name: "ssdsim",
    summary: "ASCII trace of SSDsim (HUST)",
    file_names: &["*.ssdsim"],
    time: "nanoseconds",
    address: "512-byte sectors",
    length: "512-byte sectors",
    operations: "0 write, 1 read",
    takes_time_unit: false,
    no_times: None,
    // The same lines as MQSim's: the name of the file decides, or the user.
    detect,
    open: |opening| Ok(opening.lines(Parser::of_ssdsim())),
};

const PICOSECONDS_PER_NS: u64 = 1000;
const NS_PER_MICROSECOND: u64 = 1000;

/// Five whole numbers of which the last is 0 or 1: the two formats have the same lines.
pub(crate) fn detect(head: &Head) -> Match {
    match head.certain_if_most(|line| parse(line, TimeUnit::Nanoseconds).is_ok()) {
        Match::No => Match::No,
        // All of it fits two formats, so it is never certain.
        Match::Possible | Match::Certain => Match::Possible,
    }
}

/// The meaning of a line.
pub(crate) struct Parser {
    unit: TimeUnit,
}

impl Parser {
    /// The parser for MQSim, whose unit the caller must have named.
    pub(crate) fn of_mqsim(unit: Option<TimeUnit>) -> Result<Self, Fault> {
        unit.map(|unit| Self { unit }).ok_or_else(|| {
            Fault::new(Kind::Usage, "an MQSim trace does not tell its unit of time")
                .suggest("name it with --time-unit ps, ns or us, as in the workload file")
        })
    }

    /// The parser for SSDsim.
    pub(crate) fn of_ssdsim() -> Self {
        Self { unit: TimeUnit::Nanoseconds }
    }
}

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        _notes: &mut Notes,
    ) -> Result<Line, Fault> {
        records.push(parse(line, self.unit)?);
        Ok(Line::Parsed)
    }

    fn parse_plain(&self, bytes: &[u8]) -> Option<(Record, usize)> {
        let mut line = Plain::new(bytes);
        let arrival_ns = nanoseconds(self.unit, line.integer()?).ok()?;
        line.byte(b' ')?;
        let device = line.integer_u32()?;
        line.byte(b' ')?;
        let offset_bytes = line.sector_address()?;
        line.byte(b' ')?;
        let length_bytes = line.sector_length()?;
        line.byte(b' ')?;
        let operation = match line.any()? {
            b'0' => Operation::Write,
            b'1' => Operation::Read,
            _ => return None,
        };
        line.end()?;
        let record = Record::new(arrival_ns, operation, offset_bytes, length_bytes);
        line.finish(Record { device, ..record })
    }
}

fn parse(line: &str, unit: TimeUnit) -> Result<Record, Fault> {
    let [time, device, sector, size, kind] = exactly(line.split_whitespace())?;
    let arrival_ns = nanoseconds(unit, integer("arrival time", time)?)?;
    let operation = match kind {
        "0" => Operation::Write,
        "1" => Operation::Read,
        _ => return Err(Fault::malformed("the type is neither 0 (write) nor 1 (read)")),
    };
    Ok(Record {
        device: integer("device", device)?,
        ..Record::new(
            arrival_ns,
            operation,
            sector_address("start sector", sector)?,
            sector_length("size", size)?,
        )
    })
}

/// A time in units of the trace.
fn nanoseconds(unit: TimeUnit, time: u64) -> Result<u64, Fault> {
    match unit {
        // Nothing is kept below a nanosecond.
        TimeUnit::Picoseconds => Ok(time / PICOSECONDS_PER_NS),
        TimeUnit::Nanoseconds => Ok(time),
        TimeUnit::Microseconds => scaled("arrival time", time, NS_PER_MICROSECOND),
    }
}
