//! ASCII traces of DiskSim.
//!
//! `arrival_ms device block size_blocks flags`, separated by spaces: the time is a decimal number
//! of milliseconds, blocks have 512 bytes and the flags are hexadecimal. Bit 0 set is a read, which
//! is the reverse of most formats; the layout is that of DiskSim's manual, `ascii` trace format.
//! The time-critical and time-limited bits are left out.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser, exactly};
use crate::notes::Notes;
use crate::number::{
    MILLISECOND_DIGITS, decimal_ns, hexadecimal, integer, sector_address, sector_length,
};
use crate::plain::Plain;
use crate::record::{Flags, Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "disksim",
    summary: "ASCII trace of DiskSim",
    file_names: &["*.disksim"],
    time: "milliseconds, decimal",
    address: "512-byte blocks",
    length: "512-byte blocks",
    operations: "hexadecimal flags: bit 0 set is a read, 0x80 is synchronous",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

const READ_BIT: u32 = 0x1;
const SYNCHRONOUS_BIT: u32 = 0x80;

/// A decimal point in a time, or flags above 1, is the mark of DiskSim; other lines of five whole
/// numbers fit MQSim and SSDsim as well.
pub(crate) fn detect(head: &Head) -> Match {
    if head.certain_if_most(|line| parse(line).is_ok()) == Match::No {
        return Match::No;
    }
    let is_marked = |line: &str| {
        let [time, .., flags] = exactly::<5>(line.split_whitespace()).unwrap_or_default();
        time.contains('.') || !matches!(flags, "0" | "1")
    };
    if head.lines().any(is_marked) { Match::Certain } else { Match::Possible }
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
        records.push(parse(line)?);
        Ok(Line::Parsed)
    }

    fn parse_plain(&self, bytes: &[u8]) -> Option<(Record, usize)> {
        let mut line = Plain::new(bytes);
        let arrival_ns = line.decimal_ns(MILLISECOND_DIGITS)?;
        line.byte(b' ')?;
        let device = line.integer_u32()?;
        line.byte(b' ')?;
        let offset_bytes = line.sector_address()?;
        line.byte(b' ')?;
        let length_bytes = line.sector_length()?;
        line.byte(b' ')?;
        // One or two digits; the flags of other lines are hexadecimal in a way that is left to `parse`.
        let high = char::from(line.any()?).to_digit(16)?;
        let flags = if line.is_at_end() {
            high
        } else {
            (high << 4) | char::from(line.any()?).to_digit(16)?
        };
        line.end()?;
        let record = Record::new(arrival_ns, operation(flags), offset_bytes, length_bytes);
        line.finish(Record { device, flags: synchronous(flags), ..record })
    }
}

fn parse(line: &str) -> Result<Record, Fault> {
    let [time, device, block, size, flags] = exactly(line.split_whitespace())?;
    let flags: u32 = hexadecimal("flags field", flags)?;
    Ok(Record {
        device: integer("device", device)?,
        flags: synchronous(flags),
        ..Record::new(
            decimal_ns("arrival time", time, MILLISECOND_DIGITS)?,
            operation(flags),
            sector_address("block number", block)?,
            sector_length("size", size)?,
        )
    })
}

fn operation(flags: u32) -> Operation {
    if flags & READ_BIT == 0 { Operation::Write } else { Operation::Read }
}

fn synchronous(flags: u32) -> Flags {
    Flags::SYNC.when(flags & SYNCHRONOUS_BIT != 0)
}
