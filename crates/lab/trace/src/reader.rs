//! The streaming reader: what every trace gets, whatever its format.
//!
//! Records of other devices and empty requests are dropped, and times are made relative to the
//! first record and monotonic. All of it is counted in [`Notes`], never silent.

use std::path::Path;

use crate::blktrace;
use crate::error::{Fault, Kind, TraceError};
use crate::format::{self, FormatEntry, Opening};
use crate::input::Input;
use crate::parquet::ColumnSource;
use crate::record::{Operation, Record};

/// Records a batch aims at.
pub(crate) const BATCH_RECORDS: usize = 4096;

/// Messages of skipped lines kept for the report.
const SKIPPED_SHOWN: usize = 5;

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the format; found from the content if absent.
    pub format: Option<String>,
    /// Unit of the times, for formats whose files do not say (mqsim).
    pub time_unit: Option<TimeUnit>,
    /// Which event of a blktrace is the request.
    pub event: Event,
    /// Count malformed lines of a text format instead of stopping at the first.
    pub skip_bad_lines: bool,
    /// Keep the records of this device only.
    pub device: Option<u32>,
}

/// Unit in which a trace states its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Units of 10^-12 s.
    Picoseconds,
    /// Units of 10^-9 s.
    Nanoseconds,
    /// Units of 10^-6 s.
    Microseconds,
}

impl TimeUnit {
    /// The unit of the name `ps`, `ns` or `us`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "ps" => Some(Self::Picoseconds),
            "ns" => Some(Self::Nanoseconds),
            "us" => Some(Self::Microseconds),
            _ => None,
        }
    }
}

/// The moment in the life of a request that a blktrace record is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// D: issued to the device, after merging and splitting.
    #[default]
    Issue,
    /// Q: queued by the file system, before merging and splitting.
    Queue,
}

impl Event {
    /// The event of the letter `D` or `Q`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "D" => Some(Self::Issue),
            "Q" => Some(Self::Queue),
            _ => None,
        }
    }
}

/// What a reader left out or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Malformed lines skipped on request.
    pub skipped_lines: u64,
    /// Place and reason of the first of them.
    pub first_skipped: Vec<String>,
    /// Requests of zero length, other than flushes, dropped.
    pub zero_length: u64,
    /// Records earlier than the one before, given its arrival.
    pub out_of_order: u64,
    /// Records of devices that were not asked for, dropped.
    pub other_devices: u64,
    /// Pass-through commands of a blktrace, dropped: they have no address.
    pub passthrough: u64,
    /// Requests of a blktrace taken back by the driver and issued again, counted once.
    pub requeued: u64,
    /// Waits of a fio log below 100 us, which fio itself ignores.
    pub short_waits: u64,
}

impl Notes {
    /// Every counter with its name, in a fixed order.
    pub fn counters(&self) -> [(&'static str, u64); 7] {
        [
            ("skipped_lines", self.skipped_lines),
            ("zero_length", self.zero_length),
            ("out_of_order", self.out_of_order),
            ("other_devices", self.other_devices),
            ("passthrough", self.passthrough),
            ("requeued", self.requeued),
            ("short_waits", self.short_waits),
        ]
    }

    pub(crate) fn skip_line(&mut self, fault: &Fault) {
        self.skipped_lines += 1;
        if self.first_skipped.len() < SKIPPED_SHOWN {
            self.first_skipped.push(fault.to_string());
        }
    }
}

/// A format's stream of records, as the file has them.
pub(crate) trait Source: Send {
    /// Appends some records; false when there are no more, then and ever after.
    fn fill(&mut self, records: &mut Vec<Record>, notes: &mut Notes) -> Result<bool, Fault>;

    /// A second stream of the same file by columns, if the format stores columns.
    fn columns(&self) -> Option<Result<ColumnSource, Fault>> {
        None
    }

    /// What the file says about itself.
    fn metadata(&self) -> &[(String, String)] {
        &[]
    }
}

/// Opens a trace; `-` is standard input.
pub fn open(path: &Path, options: &Options) -> Result<Reader, TraceError> {
    let name = path.display().to_string();
    open_source(path, options)
        .map(|(format, source)| Reader::new(format, name.clone(), source, options.device))
        .map_err(|fault| fault.into_error(&name))
}

type NamedSource = (&'static FormatEntry, Box<dyn Source>);

fn open_source(path: &Path, options: &Options) -> Result<NamedSource, Fault> {
    let named = options.format.as_deref().map(format::named).transpose()?;
    let files = blktrace::per_cpu_files(path);
    // A processor without events leaves an empty file, which says nothing of the format.
    let path = blktrace::first_with_content(&files).unwrap_or(path);
    let input = Input::open(path)?;
    let format = format::choose(named, input.head(), path)?;
    if options.time_unit.is_some() && !format.takes_time_unit {
        return Err(Fault::new(Kind::Usage, format!("the time unit of {} is fixed", format.name))
            .suggest("leave --time-unit out"));
    }
    let source = (format.open)(Opening { path, input, files: &files, options })?;
    Ok((format, source))
}

/// A trace that was opened, to be read in batches.
pub struct Reader {
    format: &'static FormatEntry,
    name: String,
    source: Box<dyn Source>,
    device: Option<u32>,
    first_arrival_ns: Option<u64>,
    last_arrival_ns: u64,
    notes: Notes,
}

impl Reader {
    fn new(
        format: &'static FormatEntry,
        name: String,
        source: Box<dyn Source>,
        device: Option<u32>,
    ) -> Self {
        let (first_arrival_ns, last_arrival_ns) = (None, 0);
        let notes = Notes::default();
        Self { format, name, source, device, first_arrival_ns, last_arrival_ns, notes }
    }

    /// Replaces the content of `records` by the next some thousand records.
    /// False, with no records, at the end of the trace.
    pub fn next_batch(&mut self, records: &mut Vec<Record>) -> Result<bool, TraceError> {
        records.clear();
        let mut more = true;
        // A batch may lose all of its records to the choice of a device.
        while more && records.is_empty() {
            cancellation::check();
            more = self
                .source
                .fill(records, &mut self.notes)
                .map_err(|fault| fault.into_error(&self.name))?;
            records.retain_mut(|record| self.admit(record));
        }
        Ok(!records.is_empty())
    }

    /// Whether a record is part of the trace; its arrival becomes relative and monotonic.
    fn admit(&mut self, record: &mut Record) -> bool {
        if self.device.is_some_and(|device| device != record.device) {
            self.notes.other_devices += 1;
            return false;
        }
        // A flush is the one request without a range.
        if record.length_bytes == 0 && record.operation != Operation::Flush {
            self.notes.zero_length += 1;
            return false;
        }
        // Of the first record that is kept, so that the trace begins at 0.
        let first = *self.first_arrival_ns.get_or_insert(record.arrival_ns);
        let arrival_ns = record.arrival_ns.saturating_sub(first);
        if record.arrival_ns < first || arrival_ns < self.last_arrival_ns {
            self.notes.out_of_order += 1;
        }
        self.last_arrival_ns = self.last_arrival_ns.max(arrival_ns);
        record.arrival_ns = self.last_arrival_ns;
        true
    }

    /// The format being read.
    pub fn format(&self) -> &'static FormatEntry {
        self.format
    }

    /// The file as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was left out or changed so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// What a Parquet trace says about its origin, sorted by key; empty for other formats.
    pub fn metadata(&self) -> &[(String, String)] {
        self.source.metadata()
    }

    /// Reads on by columns, from the first record: the fast way where times do not matter.
    ///
    /// To be called before the first batch is read.
    pub fn into_columns(self) -> Result<ColumnReader, TraceError> {
        // These columns have no device, so others are left out by records only.
        let fast = if self.device.is_none() { self.source.columns() } else { None };
        let fast = fast.transpose().map_err(|fault| fault.into_error(&self.name))?;
        Ok(ColumnReader { reader: self, fast, batch: Vec::new() })
    }
}

/// The columns a simulation without arrival times needs; all of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// What is asked of the device.
    pub operation: Vec<Operation>,
    /// First byte that is addressed.
    pub offset_bytes: Vec<u64>,
    /// Bytes that are addressed.
    pub length_bytes: Vec<u32>,
    /// File-system operation that caused the request.
    pub file_operation: Vec<Option<u32>>,
}

impl Columns {
    /// Number of records.
    pub fn len(&self) -> usize {
        self.operation.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.operation.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.operation.clear();
        self.offset_bytes.clear();
        self.length_bytes.clear();
        self.file_operation.clear();
    }

    fn push(&mut self, record: &Record) {
        self.operation.push(record.operation);
        self.offset_bytes.push(record.offset_bytes);
        self.length_bytes.push(record.length_bytes);
        self.file_operation.push(record.file_operation);
    }

    /// Drops requests of zero length other than flushes; returns how many.
    fn drop_zero_length(&mut self) -> u64 {
        // The usual batch stays as it is.
        if !self.length_bytes.contains(&0) {
            return 0;
        }
        let keep: Vec<bool> = self
            .length_bytes
            .iter()
            .zip(&self.operation)
            .map(|(length, operation)| *length > 0 || *operation == Operation::Flush)
            .collect();
        retain(&mut self.operation, &keep);
        retain(&mut self.offset_bytes, &keep);
        retain(&mut self.length_bytes, &keep);
        retain(&mut self.file_operation, &keep);
        keep.iter().map(|kept| u64::from(!kept)).sum()
    }
}

fn retain<T>(column: &mut Vec<T>, keep: &[bool]) {
    let mut flags = keep.iter();
    column.retain(|_| flags.next().is_none_or(|kept| *kept));
}

/// An open trace, read by columns.
pub struct ColumnReader {
    reader: Reader,
    fast: Option<ColumnSource>,
    batch: Vec<Record>,
}

impl ColumnReader {
    /// Replaces the content of `columns` by the next records; false, with none, at the end.
    pub fn next_columns(&mut self, columns: &mut Columns) -> Result<bool, TraceError> {
        columns.clear();
        let Some(source) = &mut self.fast else {
            self.reader.next_batch(&mut self.batch)?;
            self.batch.iter().for_each(|record| columns.push(record));
            return Ok(!columns.is_empty());
        };
        let mut more = true;
        while more && columns.is_empty() {
            cancellation::check();
            more = source.fill(columns).map_err(|fault| fault.into_error(&self.reader.name))?;
            self.reader.notes.zero_length += columns.drop_zero_length();
        }
        Ok(!columns.is_empty())
    }

    /// The reader underneath, for its format, notes and metadata.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
}
