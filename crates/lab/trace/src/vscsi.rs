//! vSCSI traces of VMware, as `CloudPhysics` published them: two binary forms, little-endian.
//!
//! Form 1, 32 bytes: u32 serial number, u32 bytes, u32 segments, u16 command, u16 version, u64 sector, u64 time in us.
//! Form 2, 40 bytes: u16 command, u16 version, u32 serial number, u32 bytes, u32 segments, u64 sector, u64 time in us,
//! u64 response time in us. The upper byte of the version is the form. Commands that move no blocks are left out and
//! counted. Source: `libCacheSim/traceReader/customizedReader/vscsi.h`.

use crate::contract::{FormatEntry, Head, Match, Opening, Source};
use crate::error::{Fault, Kind};
use crate::fixed_records::{FixedRecords, field};
use crate::notes::Notes;
use crate::number::{SECTOR_BYTES, scaled};
use crate::record::{Operation, Record};
use crate::scsi::operation_of;

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "vscsi",
    summary: "vSCSI traces of VMware (CloudPhysics), both forms",
    file_names: &["*.vscsi", "*.vscsitrace"],
    time: "us",
    address: "512-byte sectors",
    length: "bytes",
    operations: "SCSI command; response time in form 2",
    takes_time_unit: false,
    no_times: None,
    detect,
    open,
};

const BYTES_1: usize = 32;
const BYTES_2: usize = 40;
const MICROSECOND_NS: u64 = 1000;

/// Records whose version and command are looked at.
const LOOKED_AT: usize = 2;

/// The form of the trace: that of its first two records, form 2 tried first as libCacheSim does.
fn form(bytes: &[u8]) -> Option<u8> {
    let is = |form: u8, length: usize, command_at: usize| {
        // Two records: one alone may agree by chance.
        let mut records = bytes.chunks_exact(length).take(LOOKED_AT).peekable();
        records.peek().is_some()
            && records.all(|record| {
                let command = u16::from_le_bytes(field(record, command_at));
                let version = u16::from_le_bytes(field(record, command_at + 2));
                version >> 8 == u16::from(form) && operation_of(command).is_some()
            })
    };
    if is(2, BYTES_2, 0) {
        return Some(2);
    }
    is(1, BYTES_1, 12).then_some(1)
}

pub(crate) fn detect(head: &Head) -> Match {
    Match::certain_if(form(head.bytes).is_some())
}

fn open(opening: Opening) -> Result<Box<dyn Source>, Fault> {
    match form(opening.input.head()) {
        Some(2) => Ok(Box::new(FixedRecords::new(opening.input.into_bytes(), parse_2))),
        Some(_) => Ok(Box::new(FixedRecords::new(opening.input.into_bytes(), parse_1))),
        None => {
            let what = "the first records have no version and command of vSCSI";
            Err(Fault::new(Kind::WrongFormat, what))
        }
    }
}

fn parse_1(bytes: &[u8; BYTES_1], notes: &mut Notes) -> Result<Option<Record>, Fault> {
    let command = u16::from_le_bytes(field(bytes, 12));
    let length = u32::from_le_bytes(field(bytes, 4));
    let (sector, time) =
        (u64::from_le_bytes(field(bytes, 16)), u64::from_le_bytes(field(bytes, 24)));
    record(command, length, sector, time, notes)
}

fn parse_2(bytes: &[u8; BYTES_2], notes: &mut Notes) -> Result<Option<Record>, Fault> {
    let command = u16::from_le_bytes(field(bytes, 0));
    let length = u32::from_le_bytes(field(bytes, 8));
    let (sector, time) =
        (u64::from_le_bytes(field(bytes, 16)), u64::from_le_bytes(field(bytes, 24)));
    let response_us = u64::from_le_bytes(field(bytes, 32));
    let latency_ns = Some(scaled("response time", response_us, MICROSECOND_NS)?);
    let found = record(command, length, sector, time, notes)?;
    Ok(found.map(|record| Record { latency_ns, ..record }))
}

fn record(
    command: u16,
    length_bytes: u32,
    sector: u64,
    time_us: u64,
    notes: &mut Notes,
) -> Result<Option<Record>, Fault> {
    let Some(operation) = operation_of(command) else {
        notes.passthrough += 1;
        return Ok(None);
    };
    let arrival_ns = scaled("time", time_us, MICROSECOND_NS)?;
    // A flush and a list of ranges to unmap have no address of their own.
    let offset_bytes =
        if operation == Operation::Flush { 0 } else { scaled("sector", sector, SECTOR_BYTES)? };
    let length_bytes = if operation == Operation::Flush { 0 } else { length_bytes };
    Ok(Some(Record::new(arrival_ns, operation, offset_bytes, length_bytes)))
}
