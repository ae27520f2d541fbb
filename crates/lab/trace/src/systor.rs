//! Block traces of SNIA's SYSTOR '17 set: virtual desktops on six logical units.
//!
//! `Timestamp,Response,IOType,LUN,Offset,Size` with that header: seconds since 1970 with nine decimals (valid to the
//! microsecond), response in seconds, bytes. A blank type stands for a request whose response was not seen: it is
//! left out and counted. Source: Lee et al., "Understanding storage traffic characteristics on enterprise virtual
//! desktop infrastructure", SYSTOR 2017, and the description of SNIA IOTTA's set 4964.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser, exactly, read_or_write};
use crate::notes::Notes;
use crate::number::{SECOND_DIGITS, decimal_ns, integer};
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "systor",
    summary: "SNIA SYSTOR '17 CSV",
    file_names: &[
        "*-LUN0.csv",
        "*-LUN1.csv",
        "*-LUN2.csv",
        "*-LUN3.csv",
        "*-LUN4.csv",
        "*-LUN6.csv",
    ],
    time: "seconds since 1970, decimal",
    address: "bytes",
    length: "bytes",
    operations: "R, W; response time; logical unit",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

const HEADER: &str = "Timestamp,Response,IOType,LUN,Offset,Size";

/// The header, or six fields the third of which is a letter.
pub(crate) fn detect(head: &Head) -> Match {
    head.certain_if_most(|line| {
        // A blank kind fits too many other tables to speak for this one.
        line == HEADER
            || exactly::<6>(line.split(','))
                .is_ok_and(|fields| operation(fields[2]).is_ok_and(|kind| kind.is_some()))
    })
}

struct Parser;

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        notes: &mut Notes,
    ) -> Result<Line, Fault> {
        if line == HEADER {
            return Ok(Line::Parsed);
        }
        let [time, response, kind, unit, offset, size] = exactly(line.split(',').map(str::trim))?;
        let Some(operation) = operation(kind)? else {
            notes.unanswered += 1;
            return Ok(Line::Parsed);
        };
        // As a decimal: a float of seconds since 1970 keeps no nanoseconds.
        let arrival_ns = decimal_ns("timestamp", time, SECOND_DIGITS)?;
        let (offset, size) = (integer("offset", offset)?, integer("size", size)?);
        records.push(Record {
            device: integer("LUN", unit)?,
            latency_ns: Some(decimal_ns("response", response, SECOND_DIGITS)?),
            ..Record::new(arrival_ns, operation, offset, size)
        });
        Ok(Line::Parsed)
    }
}

/// None of a request that no response was seen of.
fn operation(kind: &str) -> Result<Option<Operation>, Fault> {
    let kind = kind.trim();
    if kind.is_empty() { Ok(None) } else { read_or_write("type", kind, ["R", "W"]).map(Some) }
}
