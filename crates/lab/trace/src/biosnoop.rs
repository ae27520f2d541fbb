//! Output of `biosnoop` of bcc: a line for each request that completed.
//!
//! `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)` with that header. The time is that of completion, relative
//! to the first; the arrival is `TIME - LAT`, to 10 us. T is W for writes and R for everything else. The name of a
//! process may hold blanks. Source: `tools/biosnoop.py` of bcc.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::contract::{FormatEntry, Head, Match, Opening, Source};
use crate::error::{Fault, Kind};
use crate::lines::{Line, LineParser, read_or_write};
use crate::notes::Notes;
use crate::number::{MILLISECOND_DIGITS, SECOND_DIGITS, decimal_ns, integer, sector_address};
use crate::record::{Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "biosnoop",
    summary: "output of biosnoop (bcc)",
    file_names: &["*.biosnoop"],
    time: "seconds at completion, and latency in ms",
    address: "512-byte sectors",
    length: "bytes",
    operations: "R, W; latency; disk in the order of first lines",
    takes_time_unit: false,
    no_times: None,
    detect,
    open,
};

/// Columns behind the name of the process, without the latencies.
const FIXED: usize = 5;

/// Added to all times, so that a request that began before the first one ended has an arrival.
const BEFORE_NS: u64 = 3_600_000_000_000;

/// Requests are put in the order of arrival within so much time; a request that takes longer is out of order.
const WINDOW_NS: u64 = 30_000_000_000;

/// Latency columns of a header; none if it is no header of biosnoop.
fn latencies_of(header: &str) -> Option<usize> {
    let names: Vec<&str> = header.split_ascii_whitespace().collect();
    match names[..] {
        ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "LAT(ms)"] => Some(1),
        ["TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"] => Some(2),
        _ => None,
    }
}

/// bpftrace's tool of that name has other columns, and neither sector nor length.
fn is_of_bpftrace(header: &str) -> bool {
    header.trim_start().starts_with("TIME(ms)") && header.contains("LAT(ms)")
}

pub(crate) fn detect(head: &Head) -> Match {
    let is_header = |line: &str| latencies_of(line).is_some() || is_of_bpftrace(line);
    Match::certain_if(head.lines().any(is_header))
}

fn open(opening: Opening) -> Result<Box<dyn Source>, Fault> {
    let head = Head::new(opening.input.head());
    if head.lines().any(is_of_bpftrace) {
        let what = "the output of bpftrace's biosnoop holds neither sector nor length";
        return Err(Fault::new(Kind::Unsupported, what).suggest("record with biosnoop of bcc"));
    }
    let latencies = head.lines().find_map(latencies_of).ok_or_else(|| {
        Fault::new(Kind::WrongFormat, "the header of biosnoop is missing")
            .suggest("keep the first line, which names the columns")
    })?;
    Ok(opening.lines(Parser { latencies, disks: Vec::new(), held: BinaryHeap::new(), number: 0 }))
}

struct Parser {
    /// Columns of latencies.
    latencies: usize,
    /// Names of disks, in the order of their first lines.
    disks: Vec<String>,
    /// Records that an earlier one may still come before, by arrival and number.
    held: BinaryHeap<Reverse<(u64, u64, Held)>>,
    number: u64,
}

/// A record without its arrival, ordered in some fixed way.
type Held = (u32, Operation, u64, u32, u64);

impl Parser {
    fn device(&mut self, name: &str) -> u32 {
        let known = self.disks.iter().position(|disk| disk == name);
        known.unwrap_or_else(|| {
            self.disks.push(name.to_owned());
            self.disks.len() - 1
        }) as u32
    }

    /// Releases what arrived before `until_ns`.
    fn release(&mut self, until_ns: u64, records: &mut Vec<Record>) {
        while let Some(Reverse((arrival_ns, ..))) = self.held.peek()
            && *arrival_ns < until_ns
            && let Some(Reverse((arrival_ns, _, held))) = self.held.pop()
        {
            let (device, operation, offset_bytes, length_bytes, latency_ns) = held;
            let record = Record::new(arrival_ns, operation, offset_bytes, length_bytes);
            records.push(Record { device, latency_ns: Some(latency_ns), ..record });
        }
    }
}

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        _notes: &mut Notes,
    ) -> Result<Line, Fault> {
        if latencies_of(line).is_some() {
            return Ok(Line::Parsed);
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        // Counted from the right, since the name of the process may hold blanks.
        let behind = FIXED + self.latencies;
        if words.len() < behind + 2 {
            let least = behind + 2;
            return Err(Fault::malformed(format!(
                "expected {least} fields and found {}",
                words.len()
            )));
        }
        let [_pid, disk, kind, sector, bytes, ..] = words[words.len() - behind..] else {
            return Err(Fault::malformed("the line is too short"));
        };
        let operation = read_or_write("type", kind, ["R", "W"])?;
        let end_ns = decimal_ns("time", words[0], SECOND_DIGITS)?;
        let end_ns = end_ns
            .checked_add(BEFORE_NS)
            .ok_or_else(|| Fault::malformed("the time is too large"))?;
        let latency_ns = decimal_ns("latency", words[words.len() - 1], MILLISECOND_DIGITS)?;
        // `LAT(ms)` is from issue to completion; what was queued before (`QUE(ms)`) is the scheduler's.
        let arrival_ns = end_ns.saturating_sub(latency_ns);
        let (offset, length) = (sector_address("sector", sector)?, integer("bytes", bytes)?);
        let held = (self.device(disk), operation, offset, length, latency_ns);
        // By number where arrivals are equal: the order of the file then decides.
        self.held.push(Reverse((arrival_ns, self.number, held)));
        self.number += 1;
        self.release(end_ns.saturating_sub(WINDOW_NS), records);
        Ok(Line::Parsed)
    }

    fn finish(&mut self, records: &mut Vec<Record>) -> Result<(), Fault> {
        self.release(u64::MAX, records);
        Ok(())
    }
}
