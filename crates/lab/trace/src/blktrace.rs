//! Binary blktrace, `<name>.blktrace.<cpu>`: what the kernel's block layer logs.
//!
//! A file is a stream of 48-byte headers, each followed by `pdu_len` bytes, in the byte order of
//! the machine that traced; the magic shows which. There is one file for each CPU, and all of a
//! trace are merged by time here, whichever of them is named. The layout is that of
//! `struct blk_io_trace` in the kernel's `blktrace_api.h`, version 7. Version 8 (zoned devices)
//! has a longer header and is refused.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::block_events::{BlockEvent, Category, Moment, Tracker, Transfer};
use crate::contract::{BATCH_RECORDS, Source};
use crate::contract::{FormatEntry, Match, Opening};
use crate::error::{Fault, Kind, Place};
use crate::input::{Bytes, Input};
use crate::notes::Notes;
use crate::record::{Flags, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "blktrace",
    summary: "binary log of the Linux block layer, one file per CPU",
    file_names: &["*.blktrace.0", "*.blktrace.1"],
    time: "nanoseconds",
    address: "512-byte sectors",
    length: "bytes",
    operations: "category bits: write, discard, flush, FUA, sync, meta, readahead",
    takes_time_unit: false,
    no_times: None,
    detect: |head| detect(head.bytes),
    open,
};

// `BLK_IO_TRACE_MAGIC`; its low byte is the version.
const MAGIC: u32 = 0x6561_7400;
const MAGIC_MASK: u32 = 0xffff_ff00;
const VERSION: u32 = 7;
const HEADER_BYTES: usize = 48;

/// Set in the event number if the kernel put a cgroup id in front of the payload.
const CGROUP_BIT: u32 = 1 << 8;
const CGROUP_ID_BYTES: usize = 8;
const NOTIFY_MESSAGE: u32 = 2;

/// Category bits, in the high half of the action.
mod category {
    pub(super) const WRITE: u32 = 1 << 1;
    pub(super) const FLUSH: u32 = 1 << 2;
    pub(super) const SYNC: u32 = 1 << 3;
    pub(super) const PASSTHROUGH: u32 = 1 << 9;
    pub(super) const NOTIFY: u32 = 1 << 10;
    pub(super) const READAHEAD: u32 = 1 << 11;
    pub(super) const META: u32 = 1 << 12;
    pub(super) const DISCARD: u32 = 1 << 13;
    pub(super) const FUA: u32 = 1 << 15;
}

/// The magic in either byte order is unmistakable.
pub(crate) fn detect(head: &[u8]) -> Match {
    Match::certain_if(ByteOrder::of_magic(head).is_some())
}

/// Opens every file of the trace.
pub(crate) fn open(opening: Opening) -> Result<Box<dyn Source>, Fault> {
    let first = opening.path.display().to_string();
    let mut files = vec![CpuFile::new(first, opening.input)?];
    for path in opening.files.iter().filter(|path| path.as_path() != opening.path) {
        let name = path.display().to_string();
        let input = Input::open(path).map_err(|fault| fault.of_file(&name))?;
        // A CPU that saw no event leaves an empty file.
        if !input.head().is_empty() {
            files.push(CpuFile::new(name, input)?);
        }
    }
    Ok(Box::new(Merged::new(files, Tracker::new(opening.options.event))?))
}

/// All files of the trace that `path` names (one of them, or their common stem), by CPU number.
/// Empty if `path` names no such trace.
pub(crate) fn per_cpu_files(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let Some(name) = name else { return Vec::new() };
    let stem = match split_cpu(&name) {
        Some((stem, _)) => stem.to_owned(),
        // A file of that very name is not the stem of a trace.
        None if path.exists() => return Vec::new(),
        None => name.strip_suffix(".blktrace").unwrap_or(&name).to_owned(),
    };
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    let Ok(entries) = fs::read_dir(directory.unwrap_or(Path::new("."))) else { return Vec::new() };
    let mut files: Vec<(u32, String)> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter_map(|name| match split_cpu(&name) {
            Some((other, cpu)) if other == stem => Some((cpu, name)),
            _ => None,
        })
        .collect();
    files.sort_unstable();
    // A file beside its own compressed copy is one file.
    files.dedup_by_key(|(cpu, _)| *cpu);
    files.into_iter().map(|(_, name)| path.with_file_name(name)).collect()
}

/// The first file that is not empty, or the first.
pub(crate) fn first_with_content(files: &[PathBuf]) -> Option<&Path> {
    let has_content = |path: &&PathBuf| fs::metadata(path).is_ok_and(|data| data.len() > 0);
    files.iter().find(has_content).or(files.first()).map(PathBuf::as_path)
}

/// Stem and CPU number of a name such as `sda.blktrace.3` or `sda.blktrace.3.gz`.
fn split_cpu(name: &str) -> Option<(&str, u32)> {
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    let (rest, cpu) = plain.rsplit_once('.')?;
    Some((rest.strip_suffix(".blktrace")?, cpu.parse().ok()?))
}

#[derive(Clone, Copy)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    fn of_magic(head: &[u8]) -> Option<Self> {
        [Self::Little, Self::Big]
            .into_iter()
            .find(|order| head.len() >= 4 && order.u32_at(head, 0) & MAGIC_MASK == MAGIC)
    }

    fn u16_at(self, bytes: &[u8], offset: usize) -> u16 {
        let field = field(bytes, offset);
        match self {
            Self::Little => u16::from_le_bytes(field),
            Self::Big => u16::from_be_bytes(field),
        }
    }

    fn u32_at(self, bytes: &[u8], offset: usize) -> u32 {
        let field = field(bytes, offset);
        match self {
            Self::Little => u32::from_le_bytes(field),
            Self::Big => u32::from_be_bytes(field),
        }
    }

    fn u64_at(self, bytes: &[u8], offset: usize) -> u64 {
        let field = field(bytes, offset);
        match self {
            Self::Little => u64::from_le_bytes(field),
            Self::Big => u64::from_be_bytes(field),
        }
    }
}

/// The `N` bytes at `offset`; zeroes if there are fewer.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    // Callers have checked the length.
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// An entry of the log, as far as it matters.
enum Entry {
    Request(BlockEvent),
    Message(String),
    Other,
}

/// The log of one CPU.
struct CpuFile {
    name: String,
    bytes: Bytes,
    order: ByteOrder,
    /// Where the next entry begins.
    offset: u64,
    /// The entry that is next, read ahead for merging.
    next: Option<(u64, Entry)>,
}

impl CpuFile {
    fn new(name: String, input: Input) -> Result<Self, Fault> {
        let Some(order) = ByteOrder::of_magic(input.head()) else {
            return Err(Fault::new(Kind::WrongFormat, "the blktrace magic is missing")
                .at(Place::Byte(0))
                .of_file(&name));
        };
        Ok(Self { name, bytes: input.into_bytes(), order, offset: 0, next: None })
    }

    /// Reads the next entry and its time.
    fn read_next(&mut self) -> Result<(), Fault> {
        let start = self.offset;
        self.next =
            self.read_entry().map_err(|fault| fault.at(Place::Byte(start)).of_file(&self.name))?;
        Ok(())
    }

    fn read_entry(&mut self) -> Result<Option<(u64, Entry)>, Fault> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        self.read_exactly(&mut header, HEADER_BYTES)?;
        // Nothing at all is the end; a part of a header is a file that was cut off.
        if header.is_empty() {
            return Ok(None);
        }
        check_length(header.len(), HEADER_BYTES)?;
        self.check_magic(&header)?;
        let payload_bytes = usize::from(self.order.u16_at(&header, 46));
        let mut payload = Vec::new();
        self.read_exactly(&mut payload, payload_bytes)?;
        check_length(payload.len(), payload_bytes)?;
        let time_ns = self.order.u64_at(&header, 8);
        Ok(Some((time_ns, self.entry(&header, &payload))))
    }

    /// Reads `length` bytes, or all there are.
    fn read_exactly(&mut self, bytes: &mut Vec<u8>, length: usize) -> Result<(), Fault> {
        let read = self.bytes.by_ref().take(length as u64).read_to_end(bytes);
        self.offset += read.map_err(|error| Fault::io(&error))? as u64;
        Ok(())
    }

    fn check_magic(&self, header: &[u8]) -> Result<(), Fault> {
        let magic = self.order.u32_at(header, 0);
        if magic & MAGIC_MASK != MAGIC {
            return Err(Fault::malformed("no entry begins here: the magic is missing")
                .quoting(&format!("{magic:08x}"))
                .suggest("the file is damaged before this byte"));
        }
        let version = magic & !MAGIC_MASK;
        if version != VERSION {
            let reason = format!("blktrace version {version} is not read, only {VERSION}");
            return Err(Fault::new(Kind::Unsupported, reason));
        }
        Ok(())
    }

    fn entry(&self, header: &[u8], payload: &[u8]) -> Entry {
        let action = self.order.u32_at(header, 28);
        let (bits, number) = (action >> 16, action & 0xffff & !CGROUP_BIT);
        if bits & category::NOTIFY != 0 {
            let skipped = if action & CGROUP_BIT == 0 { 0 } else { CGROUP_ID_BYTES };
            let text = payload.get(skipped..).unwrap_or_default();
            return match number {
                // A message is what a program wrote, in any encoding.
                NOTIFY_MESSAGE => Entry::Message(String::from_utf8_lossy(text).into_owned()),
                _ => Entry::Other,
            };
        }
        // `__BLK_TA_QUEUE`, `__BLK_TA_REQUEUE`, `__BLK_TA_ISSUE` and `__BLK_TA_COMPLETE`.
        let moment = match number {
            1 => Moment::Queue,
            6 => Moment::Requeue,
            7 => Moment::Issue,
            8 => Moment::Complete,
            _ => return Entry::Other,
        };
        Entry::Request(BlockEvent {
            moment,
            category: category_of(bits),
            time_ns: self.order.u64_at(header, 8),
            device: self.order.u32_at(header, 36),
            sector: self.order.u64_at(header, 16),
            length_bytes: self.order.u32_at(header, 24),
        })
    }
}

fn check_length(found: usize, expected: usize) -> Result<(), Fault> {
    if found == expected {
        return Ok(());
    }
    let reason = format!("the file ends inside an entry: {found} bytes of {expected}");
    Err(Fault::new(Kind::Truncated, reason).suggest("copy the file again, or trace anew"))
}

fn category_of(bits: u32) -> Category {
    let has = |bit: u32| bits & bit != 0;
    // A discard has the bit of a write too (`__blk_add_trace`).
    let transfer = match (has(category::DISCARD), has(category::WRITE)) {
        (true, _) => Transfer::Discard,
        (false, true) => Transfer::Write,
        (false, false) => Transfer::Read,
    };
    Category {
        transfer,
        is_flush: has(category::FLUSH),
        is_passthrough: has(category::PASSTHROUGH),
        flags: Flags::FUA.when(has(category::FUA))
            | Flags::SYNC.when(has(category::SYNC))
            | Flags::META.when(has(category::META))
            | Flags::READAHEAD.when(has(category::READAHEAD)),
    }
}

/// The logs of all CPUs, merged by time; at equal times the lower CPU is first.
struct Merged {
    files: Vec<CpuFile>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    tracker: Tracker,
}

impl Merged {
    fn new(files: Vec<CpuFile>, tracker: Tracker) -> Result<Self, Fault> {
        let mut merged = Self { files, queue: BinaryHeap::new(), tracker };
        for index in 0..merged.files.len() {
            merged.advance(index)?;
        }
        Ok(merged)
    }

    /// Reads ahead in one file and queues its next entry.
    fn advance(&mut self, index: usize) -> Result<(), Fault> {
        let Some(file) = self.files.get_mut(index) else { return Ok(()) };
        file.read_next()?;
        if let Some((time_ns, _)) = &file.next {
            self.queue.push(Reverse((*time_ns, index)));
        }
        Ok(())
    }

    fn handle(&mut self, index: usize, notes: &mut Notes) -> Result<(), Fault> {
        let Some(file) = self.files.get_mut(index) else { return Ok(()) };
        let handled = match file.next.take() {
            Some((_, Entry::Request(event))) => self.tracker.event(&event, notes),
            Some((_, Entry::Message(text))) => self.tracker.message(&text),
            _ => Ok(()),
        };
        handled.map_err(|fault| fault.at(Place::Byte(file.offset)).of_file(&file.name))
    }
}

impl Source for Merged {
    fn fill(&mut self, records: &mut Vec<Record>, notes: &mut Notes) -> Result<bool, Fault> {
        while records.len() < BATCH_RECORDS {
            let Some(Reverse((_, index))) = self.queue.pop() else {
                self.tracker.finish(records)?;
                return Ok(false);
            };
            self.handle(index, notes)?;
            self.tracker.release(records);
            self.advance(index)?;
        }
        Ok(true)
    }
}
