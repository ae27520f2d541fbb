//! Block traces of Tencent's cloud block storage (2018): 5,584 volumes.
//!
//! `Timestamp,Offset,Size,IOType,VolumeID` without a header: whole seconds since 1970, sectors of 512 bytes, 0 for a
//! read and 1 for a write. Many requests share a second, whose order is that of the file. Source: the description
//! of SNIA IOTTA's set 27917.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser, exactly, read_or_write};
use crate::notes::Notes;
use crate::number::{integer, scaled, sector_address, sector_length};
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "tencent",
    summary: "block traces of Tencent's cloud block storage, 2018",
    file_names: &["cloud_disk_*", "*.tencent.csv"],
    time: "whole seconds since 1970",
    address: "512-byte sectors",
    length: "512-byte sectors",
    operations: "0 read, 1 write; volume",
    takes_time_unit: false,
    no_times: Some("its times are whole seconds, which many requests share"),
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

const SECOND_NS: u64 = 1_000_000_000;

/// A second of 2001 or later: what tells such a line from five other numbers.
const EARLIEST_S: u64 = 1_000_000_000;

/// Five numbers: a time in seconds first, an operation fourth.
pub(crate) fn detect(head: &Head) -> Match {
    head.certain_if_most(|line| {
        exactly::<5>(line.split(',').map(str::trim)).is_ok_and(|fields| {
            let number = |at: usize| integer::<u64>("field", fields[at]);
            operation(fields[3]).is_ok()
                && [1, 2, 4].iter().all(|at| number(*at).is_ok())
                // Ten digits: microseconds have sixteen.
                && number(0).is_ok_and(|time| (EARLIEST_S..10 * EARLIEST_S).contains(&time))
        })
    })
}

struct Parser;

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        _notes: &mut Notes,
    ) -> Result<Line, Fault> {
        let [time, offset, size, kind, volume] = exactly(line.split(',').map(str::trim))?;
        // All requests of a second arrive at its beginning, in the order of the file: nothing is made up.
        let arrival_ns = scaled("timestamp", integer("timestamp", time)?, SECOND_NS)?;
        let (offset, size) = (sector_address("offset", offset)?, sector_length("size", size)?);
        records.push(Record {
            device: integer("volume", volume)?,
            ..Record::new(arrival_ns, operation(kind)?, offset, size)
        });
        Ok(Line::Parsed)
    }
}

fn operation(kind: &str) -> Result<Operation, Fault> {
    read_or_write("type", kind, ["0", "1"])
}
