//! Traces of Florida International University (IODedup, SRCMap): block requests with a digest of their content.
//!
//! `ts_ns pid process lba size W|R major minor md5`, separated by blanks, without a header; address and size in
//! units of 512 bytes. The digest is left out. Source: the description of SNIA IOTTA's set 391.

use crate::blkparse::device_number;
use crate::contract::{FormatEntry, Head, Match};
use crate::error::Fault;
use crate::lines::{Line, LineParser, read_or_write};
use crate::notes::Notes;
use crate::number::{integer, sector_address, sector_length};
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "fiu",
    summary: "traces of Florida International University",
    file_names: &["*.blkparse"],
    time: "nanoseconds",
    address: "512-byte sectors",
    length: "512-byte sectors",
    operations: "R, W; device",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| Ok(opening.lines(Parser)),
};

/// Hexadecimal digits of an MD5 digest.
const DIGEST_DIGITS: usize = 32;

/// Nine fields, the last of which is a digest.
pub(crate) fn detect(head: &Head) -> Match {
    head.certain_if_most(|line| {
        fields(line).is_ok_and(|fields| operation(fields[5]).is_ok() && is_digest(fields[8]))
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
        let [time, _pid, _process, lba, size, kind, major, minor, digest] = fields(line)?;
        if !is_digest(digest) {
            return Err(Fault::malformed("the last field is no MD5 digest"));
        }
        // As blktrace numbers devices, so that both name one alike.
        let device = device_number(major, minor)?;
        let arrival_ns = integer("timestamp", time)?;
        let (offset, length) = (sector_address("lba", lba)?, sector_length("size", size)?);
        let record = Record::new(arrival_ns, operation(kind)?, offset, length);
        records.push(Record { device, ..record });
        Ok(Line::Parsed)
    }
}

/// Nine fields; the name of the process may hold blanks, so that they are counted from both ends.
fn fields(line: &str) -> Result<[&str; 9], Fault> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [time, pid, name, .., lba, size, kind, major, minor, digest] = words[..] else {
        return Err(Fault::malformed(format!("expected 9 fields and found {}", words.len())));
    };
    Ok([time, pid, name, lba, size, kind, major, minor, digest])
}

fn is_digest(text: &str) -> bool {
    text.len() == DIGEST_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn operation(kind: &str) -> Result<Operation, Fault> {
    read_or_write("operation", kind, ["R", "W"])
}
