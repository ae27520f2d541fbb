//! ASCII traces of MQSim and of SSDsim (HUST), which look the same.
//!
//! `arrival device start_sector size_sectors type`: five whole numbers between spaces, sectors of
//! 512 bytes, type 0 a write and 1 a read. SSDsim counts nanoseconds. MQSim's unit stands in its
//! workload file, so the caller names it. The longer lines of SSDsim's forks are refused.

use crate::error::{Fault, Kind};
use crate::format::{Head, Match, Opening};
use crate::lines::{Line, LineParser, Lines, exactly};
use crate::number::{integer, scaled, sector_address, sector_length};
use crate::reader::{Notes, Source, TimeUnit};
use crate::record::{Operation, Record};

const PICOSECONDS_PER_NS: u64 = 1000;
const NS_PER_MICROSECOND: u64 = 1000;

/// Five whole numbers of which the last is 0 or 1: nothing tells the two formats apart.
pub(crate) fn detect(head: &Head) -> Match {
    match head.certain_if_most(|line| parse(line, TimeUnit::Nanoseconds).is_ok()) {
        Match::No => Match::No,
        Match::Possible | Match::Certain => Match::Possible,
    }
}

/// Opens a trace of MQSim.
pub(crate) fn open_mqsim(opening: Opening) -> Result<Box<dyn Source>, Fault> {
    match opening.options.time_unit {
        Some(unit) => Ok(open(opening, unit)),
        None => Err(Fault::new(Kind::Usage, "an MQSim trace does not tell its unit of time")
            .suggest("name it with --time-unit ps, ns or us, as in the workload file")),
    }
}

/// Opens a trace of SSDsim.
#[allow(clippy::unnecessary_wraps, reason = "the registry holds one type of function")]
pub(crate) fn open_ssdsim(opening: Opening) -> Result<Box<dyn Source>, Fault> {
    Ok(open(opening, TimeUnit::Nanoseconds))
}

fn open(opening: Opening, unit: TimeUnit) -> Box<dyn Source> {
    let skip_bad_lines = opening.options.skip_bad_lines;
    Box::new(Lines::new(opening.input.into_bytes(), Parser { unit }, skip_bad_lines))
}

struct Parser {
    unit: TimeUnit,
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
}

fn parse(line: &str, unit: TimeUnit) -> Result<Record, Fault> {
    let [time, device, sector, size, kind] = exactly(line.split_whitespace())?;
    let time: u64 = integer("arrival time", time)?;
    let arrival_ns = match unit {
        TimeUnit::Picoseconds => time / PICOSECONDS_PER_NS,
        TimeUnit::Nanoseconds => time,
        TimeUnit::Microseconds => scaled("arrival time", time, NS_PER_MICROSECOND)?,
    };
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
