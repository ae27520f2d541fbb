//! Traces of MiDAS (FAST '24) and of other papers on translation layers that use its simulator.
//!
//! `time type address size`, separated by blanks: seconds with decimals, 0 for a read, 1 for a write and 3 for a trim,
//! units of 4 KiB, bytes. Some files have the number of a stream as a fifth field, which is left out. Type 2 is not
//! used. Source: the description of the trace format in the read-me file of MiDAS.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser, exactly};
use crate::notes::Notes;
use crate::number::{SECOND_DIGITS, decimal_ns, integer, scaled};
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "midas",
    summary: "text traces of MiDAS",
    file_names: &["*.midas"],
    time: "seconds, decimal",
    address: "units of 4 KiB",
    length: "bytes",
    operations: "0 read, 1 write, 3 trim",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

const ADDRESS_BYTES: u64 = 4096;

/// Four numbers, of which the first has a decimal point. With a fifth one the line may be `DiskSim`'s, whose users are
/// more: then the format must be named.
pub(crate) fn detect(head: &Head) -> Match {
    let fits = |line: &str| parse(line).is_ok() && fields(line)[0].contains('.');
    if head.certain_if_most(fits) == Match::No {
        return Match::No;
    }
    let has_streams = head.lines().any(|line| fields(line).len() > 4);
    if has_streams { Match::Possible } else { Match::Certain }
}

fn fields(line: &str) -> Vec<&str> {
    line.split_ascii_whitespace().collect()
}

struct Parser;

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        _notes: &mut Notes,
    ) -> Result<Line, Fault> {
        records.push(parse(line)?);
        Ok(Line::Parsed)
    }
}

fn parse(line: &str) -> Result<Record, Fault> {
    let found = fields(line);
    if let [_, _, _, _, stream] = found[..] {
        integer::<u64>("stream", stream)?;
    }
    let [time, kind, address, size] = exactly(found.iter().copied().take(4))?;
    if found.len() > 5 {
        return Err(Fault::malformed(format!("expected 4 or 5 fields and found {}", found.len())));
    }
    let operation = match kind {
        "0" => Operation::Read,
        "1" => Operation::Write,
        "3" => Operation::Trim,
        _ => return Err(Fault::malformed("the type is none of 0, 1 and 3")),
    };
    Ok(Record::new(
        decimal_ns("time", time, SECOND_DIGITS)?,
        operation,
        scaled("address", integer("address", address)?, ADDRESS_BYTES)?,
        integer("size", size)?,
    ))
}
