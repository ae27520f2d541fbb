//! libCacheSim's binary form `oracleGeneral`: 24 bytes a request, little-endian and packed.
//!
//! u32 time in seconds, u64 object, u32 bytes, i64 number of the object's next request (from 1), -1 if there is none.
//! An object of a block trace is its address in sectors of 512 bytes. There is no operation: all are reads. Source:
//! `libCacheSim/traceReader/customizedReader/oracle/oracleGeneralBin.h`.

use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::fixed_records::{FixedRecords, field};
use crate::notes::Notes;
use crate::number::{SECTOR_BYTES, scaled};
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "oracle-general",
    summary: "libCacheSim's binary oracleGeneral",
    file_names: &["*.oracleGeneral", "*.oracleGeneral.bin"],
    time: "whole seconds",
    address: "object, taken for a 512-byte sector",
    length: "bytes",
    operations: "none: all are reads",
    takes_time_unit: false,
    no_times: Some(
        "its times are whole seconds, its requests are reads of objects, and writes are not told from reads",
    ),
    detect,
    open: |opening| Ok(Box::new(FixedRecords::new(opening.input.into_bytes(), parse))),
};

const RECORD_BYTES: usize = 24;
const SECOND_NS: u64 = 1_000_000_000;

/// Requests that must agree before unnamed bytes are taken for this format.
const LEAST_RECORDS: usize = 2;

/// No request of a block trace is as long as this, and four letters of a text are a larger number.
const LONGEST_BYTES: u32 = 1 << 24;

/// Times that do not fall, lengths, and next requests that come later: in each record of the head.
pub(crate) fn detect(head: &Head) -> Match {
    let records = head.bytes.chunks_exact(RECORD_BYTES);
    if records.len() < LEAST_RECORDS {
        return Match::No;
    }
    let mut last = 0;
    let mut fits = |(number, bytes): (usize, &[u8])| {
        let time = u32::from_le_bytes(field(bytes, 0));
        let length = u32::from_le_bytes(field(bytes, 12));
        let next = i64::from_le_bytes(field(bytes, 16));
        // libCacheSim writes requests in the order of time.
        let in_order = time >= last;
        last = time;
        // Numbers of requests begin at 1; the greatest number stands for none as -1 does.
        let is_later = next == -1 || u64::try_from(next).is_ok_and(|next| next > number as u64 + 1);
        in_order && is_later && (1..LONGEST_BYTES).contains(&length)
    };
    Match::certain_if(records.enumerate().all(&mut fits))
}

fn parse(bytes: &[u8; RECORD_BYTES], _: &mut Notes) -> Result<Option<Record>, Fault> {
    let time_ns = u64::from(u32::from_le_bytes(field(bytes, 0))) * SECOND_NS;
    let object = u64::from_le_bytes(field(bytes, 4));
    let offset_bytes = scaled("object", object, SECTOR_BYTES)?;
    let length_bytes = u32::from_le_bytes(field(bytes, 12));
    Ok(Some(Record::new(time_ns, Operation::Read, offset_bytes, length_bytes)))
}
