//! Saved log of Sysinternals DiskMon.
//!
//! `index time duration disk request sector length`, separated by tabs, without a header; sector
//! and length in units of 512 bytes. Whether the duration is in seconds or milliseconds depends on
//! an option that the file does not record, so it is left out. Times shown as a clock are refused.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser, exactly, read_or_write};
use crate::notes::Notes;
use crate::number::{SECOND_DIGITS, decimal_ns, integer, sector_address, sector_length};
use crate::plain::Plain;
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "diskmon",
    summary: "saved log of Sysinternals DiskMon",
    file_names: &["*.log"],
    time: "seconds, decimal",
    address: "512-byte sectors",
    length: "512-byte sectors",
    operations: "Read, Write",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

/// Seven fields between tabs, the fifth of which is spelled out.
pub(crate) fn detect(head: &Head) -> Match {
    head.certain_if_most(|line| fields(line).is_ok_and(|fields| operation(fields[4]).is_ok()))
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
        let [index, time, duration, disk, request, sector, length] = fields(line)?;
        // Checked though unused: a line whose columns are shifted is found.
        integer::<u64>("index", index)?;
        if time.contains(':') {
            return Err(Fault::malformed("the time is a clock, not seconds from the start")
                .suggest("switch off clock times in DiskMon and save the log again"));
        }
        let arrival_ns = decimal_ns("time", time, SECOND_DIGITS)?;
        decimal_ns("duration", duration, SECOND_DIGITS)?;
        records.push(Record {
            device: integer("disk", disk)?,
            ..Record::new(
                arrival_ns,
                operation(request)?,
                sector_address("sector", sector)?,
                sector_length("length", length)?,
            )
        });
        Ok(Line::Parsed)
    }

    fn parse_plain(&self, bytes: &[u8]) -> Option<(Record, usize)> {
        let mut line = Plain::new(bytes);
        line.integer()?;
        line.byte(b'\t')?;
        let arrival_ns = line.decimal_ns(SECOND_DIGITS)?;
        line.byte(b'\t')?;
        line.decimal_ns(SECOND_DIGITS)?;
        line.byte(b'\t')?;
        let device = line.integer_u32()?;
        let operation = if line.word(b"\tRead\t") {
            Operation::Read
        } else {
            line.word(b"\tWrite\t").then_some(Operation::Write)?
        };
        let offset_bytes = line.sector_address()?;
        line.byte(b'\t')?;
        let length_bytes = line.sector_length()?;
        line.end()?;
        let record = Record::new(arrival_ns, operation, offset_bytes, length_bytes);
        line.finish(Record { device, ..record })
    }
}

/// A trailing tab may leave an eighth, empty field.
fn fields(line: &str) -> Result<[&str; 7], Fault> {
    exactly(line.strip_suffix('\t').unwrap_or(line).split('\t').map(str::trim))
}

fn operation(request: &str) -> Result<Operation, Fault> {
    read_or_write("request", request, ["Read", "Write"])
}
