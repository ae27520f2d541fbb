//! Block traces of Alibaba Cloud (2020): a month of a thousand virtual disks.
//!
//! `device_id,opcode,offset,length,timestamp` without a header: bytes, and microseconds since 1970. The disks are
//! interleaved. Source: the description of the data set (alibaba/block-traces).

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser, exactly, read_or_write};
use crate::notes::Notes;
use crate::number::{integer, scaled};
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "alibaba",
    summary: "block traces of Alibaba Cloud, 2020",
    file_names: &["io_traces.csv"],
    time: "us since 1970",
    address: "bytes",
    length: "bytes",
    operations: "R, W; device",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

const MICROSECOND_NS: u64 = 1000;

/// Five fields, the second of which is a letter.
pub(crate) fn detect(head: &Head) -> Match {
    head.certain_if_most(|line| {
        exactly::<5>(line.split(',').map(str::trim)).is_ok_and(|fields| {
            // SPC has five fields too, with the operation fourth.
            operation(fields[1]).is_ok()
                && integer::<u32>("device", fields[0]).is_ok()
                && integer::<u64>("timestamp", fields[4]).is_ok()
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
        let [device, kind, offset, length, time] = exactly(line.split(',').map(str::trim))?;
        // The disks are not kept apart here: an option chooses one, as for all formats with devices.
        let arrival_ns = scaled("timestamp", integer("timestamp", time)?, MICROSECOND_NS)?;
        let (offset, length) = (integer("offset", offset)?, integer("length", length)?);
        records.push(Record {
            device: integer("device", device)?,
            ..Record::new(arrival_ns, operation(kind)?, offset, length)
        });
        Ok(Line::Parsed)
    }
}

fn operation(kind: &str) -> Result<Operation, Fault> {
    read_or_write("opcode", kind, ["R", "W"])
}
