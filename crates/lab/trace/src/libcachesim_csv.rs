//! libCacheSim's CSV: a header names the columns, of which time, size and address are needed.
//!
//! Its sample of a block trace has `version,time,op,size,lbn`: seconds, a SCSI command in hexadecimal, bytes, sectors of
//! 512 bytes. Other files have no operation: all are reads. Source: `libCacheSim/doc/quickstart_cachesim.md` and
//! its sample `cloudPhysicsIO.csv`.

use crate::contract::{FormatEntry, Head, Match, Opening, Source};
use crate::error::{Fault, Kind};
use crate::lines::{Line, LineParser};
use crate::notes::Notes;
use crate::number::{SECOND_DIGITS, decimal_ns, hexadecimal, integer, sector_address};
use crate::record::{Operation, Record};
use crate::scsi::operation_of;

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "libcachesim-csv",
    summary: "libCacheSim's CSV with a header",
    file_names: &["*.csv"],
    time: "seconds",
    address: "object or sector, taken for 512-byte sectors",
    length: "bytes",
    operations: "SCSI command in hexadecimal; none: all are reads",
    takes_time_unit: false,
    no_times: Some("its times are whole seconds, which many requests share"),
    detect,
    open,
};

const TIME: &[&str] = &["time", "timestamp", "clock_time"];
const ADDRESS: &[&str] = &["lbn", "lba", "obj_id", "obj-id", "id"];
const SIZE: &[&str] = &["size", "obj_size", "obj-size"];
const OPERATION: &[&str] = &["op", "cmd"];

/// Where the columns stand.
#[derive(Clone, Copy)]
struct Layout {
    time: usize,
    address: usize,
    size: usize,
    operation: Option<usize>,
    columns: usize,
}

impl Layout {
    fn of(header: &str) -> Option<Self> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let find = |known: &[&str]| names.iter().position(|name| known.contains(name));
        Some(Self {
            time: find(TIME)?,
            address: find(ADDRESS)?,
            size: find(SIZE)?,
            operation: find(OPERATION),
            columns: names.len(),
        })
    }
}

/// A header that names all that is needed.
pub(crate) fn detect(head: &Head) -> Match {
    Match::certain_if(head.lines().next().is_some_and(|line| Layout::of(line).is_some()))
}

fn open(opening: Opening) -> Result<Box<dyn Source>, Fault> {
    let layout = Head::new(opening.input.head()).lines().next().and_then(Layout::of);
    let layout = layout.ok_or_else(|| {
        Fault::new(Kind::WrongFormat, "the first line names no columns of time, address and size")
            .suggest("begin with a header such as version,time,op,size,lbn")
    })?;
    Ok(opening.lines(Parser { layout, is_header_over: false }))
}

struct Parser {
    layout: Layout,
    is_header_over: bool,
}

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        notes: &mut Notes,
    ) -> Result<Line, Fault> {
        if !std::mem::replace(&mut self.is_header_over, true) {
            return Ok(Line::Parsed);
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let Layout { time, address, size, operation, columns } = self.layout;
        if fields.len() != columns {
            let found = fields.len();
            return Err(Fault::malformed(format!("expected {columns} fields and found {found}")));
        }
        // Hexadecimal without a prefix, as the sample has it: 28 is READ (10).
        let operation = match operation {
            Some(at) => operation_of(hexadecimal("operation", fields[at])?),
            None => Some(Operation::Read),
        };
        let Some(operation) = operation else {
            notes.passthrough += 1;
            return Ok(Line::Parsed);
        };
        let arrival_ns = decimal_ns("time", fields[time], SECOND_DIGITS)?;
        let offset_bytes = sector_address("address", fields[address])?;
        let length_bytes = integer("size", fields[size])?;
        records.push(Record::new(arrival_ns, operation, offset_bytes, length_bytes));
        Ok(Line::Parsed)
    }
}
