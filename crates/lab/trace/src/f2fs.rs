//! Text of ftrace with the bios that f2fs submits: what the file system asks of its device.
//!
//! Lines are those of [`crate::ftrace`]. Of `f2fs_submit_read_bio` and `f2fs_submit_write_bio` the body is
//! `dev = (major,minor)/(major,minor), rw = NAME(flags), type, sector = N, size = N`: the device of the bio comes
//! first, then that of the file system; sectors have 512 bytes and count from the beginning of the partition, sizes
//! are bytes. Discards (`f2fs_issue_discard`) count blocks of 4 KiB, flushes (`f2fs_issue_flush`) have no address.
//! Source: `include/trace/events/f2fs.h`, Linux 5.10 to 6.12.
//!
//! Pages that are added to a bio (`f2fs_submit_page_write`) are in the bio that is submitted later, and events of the
//! block layer tell the same bios once more: both are passed over. `f2fs_dataread_start` and `f2fs_datawrite_start`
//! name a file and a place in it, and no sector, so no request to a device can be made of them.

use crate::blkparse::device_number;
use crate::block_events::{BlockEvent, Category, Moment, Tracker, Transfer};
use crate::contract::{FormatEntry, Head, Match};
use crate::error::{Fault, Kind};
use crate::ftrace::{event_of, is_of_block_layer, is_of_f2fs, parts};
use crate::lines::{Line, LineParser};
use crate::notes::Notes;
use crate::number::{SECOND_DIGITS, SECTOR_BYTES, decimal_ns, hexadecimal, integer, scaled};
use crate::options::Event;
use crate::record::{Flags, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "f2fs",
    summary: "text of ftrace with the bios of f2fs",
    file_names: &["*.f2fs", "*.f2fs.txt"],
    time: "seconds, 6 decimals",
    address: "512-byte sectors",
    length: "bytes",
    operations: "READ, WRITE, discard, flush; flags R (readahead), S, M, PF (flush), FUA",
    takes_time_unit: false,
    no_times: None,
    detect,
    open: |opening| {
        // All are of one kind: there is nothing to choose by --event.
        let tracker = Tracker::new(Event::Queue);
        Ok(opening.lines(Parser { tracker, has_events: false, has_block_events: false }))
    },
};

/// `F2FS_BLKSIZE` on machines with pages of 4 KiB.
const BLOCK_BYTES: u64 = 4096;

/// Lines with bios of f2fs; if events of the block layer are among them, those are the usual choice.
pub(crate) fn detect(head: &Head) -> Match {
    let has = |wanted: fn(&str) -> bool| {
        head.lines().any(|line| parts(line).is_some_and(|(_, event, _)| wanted(event)))
    };
    match (has(is_of_f2fs), has(is_of_block_layer)) {
        (true, false) => Match::Certain,
        (true, true) => Match::Possible,
        // The first events of a long trace may be others.
        (false, _) if head.lines().any(|line| line.starts_with("# tracer:")) => Match::Possible,
        (false, _) => Match::No,
    }
}

struct Parser {
    tracker: Tracker,
    has_events: bool,
    has_block_events: bool,
}

impl LineParser for Parser {
    fn parse(
        &mut self,
        line: &str,
        records: &mut Vec<Record>,
        notes: &mut Notes,
    ) -> Result<Line, Fault> {
        let Some((time, event, body)) = event_of(line, notes)? else { return Ok(Line::Parsed) };
        self.has_block_events |= is_of_block_layer(event);
        if !is_of_f2fs(event) {
            return Ok(Line::Parsed);
        }
        let request = match event {
            "f2fs_issue_discard" => Some(discard(body)?),
            "f2fs_issue_flush" => flush(body)?,
            _ => Some(bio(body)?),
        };
        let time_ns = decimal_ns("time", time, SECOND_DIGITS)?;
        self.has_events = true;
        if let Some((device, category, sector, length_bytes)) = request {
            let moment = Moment::Queue;
            let event = BlockEvent { moment, category, time_ns, device, sector, length_bytes };
            self.tracker.event(&event, notes)?;
            self.tracker.release(records);
        }
        Ok(Line::Parsed)
    }

    fn finish(&mut self, records: &mut Vec<Record>) -> Result<(), Fault> {
        if self.has_block_events && !self.has_events {
            return Err(Fault::new(Kind::Usage, "the trace has no bios of f2fs")
                .suggest("its events of the block layer are read with --format ftrace"));
        }
        self.tracker.finish(records)
    }
}

/// Device, kind, first sector and bytes of a request.
type Request = (u32, Category, u64, u32);

/// What stands between `begin` and `end`, and what follows.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> Result<(&'a str, &'a str), Fault> {
    text.split_once(begin)
        .and_then(|(_, rest)| rest.split_once(end))
        .ok_or_else(|| Fault::malformed(format!("`{}` is missing", begin.trim())))
}

/// The value of the last field.
fn last<'a>(text: &'a str, begin: &str) -> Result<&'a str, Fault> {
    let found = text.split_once(begin).map(|(_, value)| value.trim());
    found.ok_or_else(|| Fault::malformed(format!("`{}` is missing", begin.trim())))
}

/// The first device, and what follows.
fn device(body: &str) -> Result<(u32, &str), Fault> {
    let (numbers, rest) = between(body, "dev = (", ")")?;
    let (major, minor) =
        numbers.split_once(',').ok_or_else(|| Fault::malformed("the device is not major,minor"))?;
    Ok((device_number(major, minor)?, rest))
}

fn bio(body: &str) -> Result<Request, Fault> {
    let (device, rest) = device(body)?;
    let (name, rest) = between(rest, "rw = ", "(")?;
    let (letters, rest) = rest
        .split_once(')')
        .ok_or_else(|| Fault::malformed("the flags have no closing parenthesis"))?;
    let transfer = match name {
        "READ" => Transfer::Read,
        "WRITE" => Transfer::Write,
        _ => return Err(Fault::malformed("the kind of bio is neither READ nor WRITE")),
    };
    let mut category = Category { transfer, ..Category::default() };
    for letter in letters.split('|').map(str::trim).filter(|letter| !letter.is_empty()) {
        let flag = match letter {
            "R" => Flags::READAHEAD,
            "S" => Flags::SYNC,
            "M" => Flags::META,
            "FUA" => Flags::FUA,
            // The priority among bios of one process means nothing to a device.
            "P" => Flags::NONE,
            "PF" => {
                category.is_flush = true;
                Flags::NONE
            }
            _ => return Err(Fault::malformed("a flag of the bio is unknown")),
        };
        category.flags = category.flags | flag;
    }
    let (sector, _) = between(rest, "sector = ", ",")?;
    let size = last(rest, "size = ")?;
    Ok((device, category, integer("sector", sector)?, integer("size", size)?))
}

fn discard(body: &str) -> Result<Request, Fault> {
    let (device, rest) = device(body)?;
    let (first, _) = between(rest, "blkstart = ", ",")?;
    let count = last(rest, "blklen = ")?;
    let sector = scaled("block", hexadecimal("block", first)?, BLOCK_BYTES / SECTOR_BYTES)?;
    let length = scaled("number of blocks", hexadecimal("number of blocks", count)?, BLOCK_BYTES)?;
    let length_bytes =
        u32::try_from(length).map_err(|_| Fault::malformed("the number of blocks is too large"))?;
    let category = Category { transfer: Transfer::Discard, ..Category::default() };
    Ok((device, category, sector, length_bytes))
}

/// None of a flush that a mount without barriers leaves out.
fn flush(body: &str) -> Result<Option<Request>, Fault> {
    let (device, rest) = device(body)?;
    let category = Category { is_flush: true, ..Category::default() };
    Ok((!rest.contains("skip (nobarrier)")).then_some((device, category, 0, 0)))
}
