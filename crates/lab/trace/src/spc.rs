//! SPC trace files, as of the UMass repository (`Financial1.spc`, `WebSearch1.spc`).
//!
//! `ASU,LBA,Size,Opcode,Timestamp` and any number of optional fields, which are left out. The
//! layout is that of the format specification, revision 1.0.1. The address counts blocks of 512
//! bytes, but the size counts bytes. Every ASU (application storage unit) has addresses of its
//! own, so it becomes the device.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser};
use crate::notes::Notes;
use crate::number::{SECOND_DIGITS, decimal_ns, integer, sector_address};
use crate::plain::Plain;
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "spc",
    summary: "SPC trace, as of the UMass repository",
    file_names: &["*.spc"],
    time: "seconds, decimal",
    address: "512-byte blocks",
    length: "bytes",
    operations: "R, W in either case",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

const REQUIRED_FIELDS: usize = 5;

/// Five fields or more, of which the fourth is a letter and the fifth a time.
pub(crate) fn detect(head: &Head) -> Match {
    head.certain_if_most(|line| {
        fields(line).is_ok_and(|[_, _, _, kind, time]| {
            operation(kind).is_ok() && decimal_ns("time", time, SECOND_DIGITS).is_ok()
        })
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
        let [unit, block, size, kind, time] = fields(line)?;
        records.push(Record {
            device: integer("ASU", unit)?,
            ..Record::new(
                decimal_ns("timestamp", time, SECOND_DIGITS)?,
                operation(kind)?,
                sector_address("LBA", block)?,
                integer("size", size)?,
            )
        });
        Ok(Line::Parsed)
    }

    fn parse_plain(&self, bytes: &[u8]) -> Option<(Record, usize)> {
        let mut line = Plain::new(bytes);
        let device = line.integer_u32()?;
        line.byte(b',')?;
        let offset_bytes = line.sector_address()?;
        line.byte(b',')?;
        let length_bytes = line.integer_u32()?;
        line.byte(b',')?;
        let operation = match line.any()? {
            b'R' | b'r' => Operation::Read,
            b'W' | b'w' => Operation::Write,
            _ => return None,
        };
        line.byte(b',')?;
        let arrival_ns = line.decimal_ns(SECOND_DIGITS)?;
        line.end()?;
        let record = Record::new(arrival_ns, operation, offset_bytes, length_bytes);
        line.finish(Record { device, ..record })
    }
}

fn fields(line: &str) -> Result<[&str; REQUIRED_FIELDS], Fault> {
    // Fields behind the fifth are optional.
    let fields: Vec<&str> = line.split(',').take(REQUIRED_FIELDS).map(str::trim).collect();
    let count = fields.len();
    fields.try_into().map_err(|_| {
        Fault::malformed(format!("expected at least {REQUIRED_FIELDS} fields and found {count}"))
    })
}

fn operation(kind: &str) -> Result<Operation, Fault> {
    match kind {
        "R" | "r" => Ok(Operation::Read),
        "W" | "w" => Ok(Operation::Write),
        _ => Err(Fault::malformed("the opcode is neither R nor W")),
    }
}
