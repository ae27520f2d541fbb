//! The streaming reader: what every trace gets, whatever its format.
//!
//! Records of other devices and empty requests are dropped, and times are made relative to the
//! first record and monotonic. All of it is counted in [`Notes`], never silent.

use std::path::Path;

use crate::blktrace;
use crate::columns::Columns;
use crate::contract::{ColumnSource, FormatEntry, Opening, Source};
use crate::error::{Fault, Kind, TraceError};
use crate::input::Input;
use crate::notes::Notes;
use crate::options::Options;
use crate::record::{Operation, Record};
use crate::{detection, table};

/// Opens a trace; `-` is standard input.
///
/// # Errors
/// [`TraceError`] with its kind: the file cannot be read ([`Kind::Io`]) or is empty, the format is unknown,
/// ambiguous or not the named one, or the options do not fit it ([`Kind::Usage`]).
pub fn open(path: &Path, options: &Options) -> Result<Reader, TraceError> {
    let name = path.display().to_string();
    open_source(path, options)
        .map(|(format, source)| Reader::new(format, name.clone(), source, options.device))
        .map_err(|fault| fault.into_error(&name))
}

type NamedSource = (&'static FormatEntry, Box<dyn Source>);

fn open_source(path: &Path, options: &Options) -> Result<NamedSource, Fault> {
    let named = options.format.as_deref().map(table::named).transpose()?;
    let files = blktrace::per_cpu_files(path);
    // A processor without events leaves an empty file, which says nothing of the format.
    let path = blktrace::first_with_content(&files).unwrap_or(path);
    let input = Input::open(path)?;
    let format = detection::choose(named, input.head(), path)?;
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
    ///
    /// # Errors
    /// [`TraceError`] with the place of a line, entry or row that is malformed or cut off.
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
            let before_ns = self.last_arrival_ns;
            records.retain_mut(|record| self.admit(record));
            debug_assert!(
                records.first().is_none_or(|record| record.arrival_ns >= before_ns)
                    && records.is_sorted_by_key(|record| record.arrival_ns),
                "arrivals never go back, within a batch or between two"
            );
            debug_assert!(
                records.last().is_none_or(|record| record.arrival_ns == self.last_arrival_ns),
                "the last arrival is that of the last record"
            );
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
    ///
    /// # Errors
    /// [`TraceError`] if the file cannot be opened a second time.
    pub fn into_columns(self) -> Result<ColumnReader, TraceError> {
        // These columns have no device, so others are left out by records only.
        let fast = if self.device.is_none() { self.source.columns() } else { None };
        let fast = fast.transpose().map_err(|fault| fault.into_error(&self.name))?;
        Ok(ColumnReader { reader: self, fast, batch: Vec::new() })
    }
}

/// An open trace, read by columns.
pub struct ColumnReader {
    reader: Reader,
    fast: Option<Box<dyn ColumnSource>>,
    batch: Vec<Record>,
}

impl ColumnReader {
    /// Replaces the content of `columns` by the next records; false, with none, at the end.
    ///
    /// # Errors
    /// As [`Reader::next_batch`].
    pub fn next_columns(&mut self, columns: &mut Columns) -> Result<bool, TraceError> {
        columns.clear();
        let Some(source) = &mut self.fast else {
            self.reader.next_batch(&mut self.batch)?;
            columns.append(&self.batch);
            columns.check();
            return Ok(!columns.is_empty());
        };
        let mut more = true;
        while more && columns.is_empty() {
            cancellation::check();
            more = source.fill(columns).map_err(|fault| fault.into_error(&self.reader.name))?;
            self.reader.notes.zero_length += columns.drop_zero_length();
            columns.check();
        }
        Ok(!columns.is_empty())
    }

    /// The reader underneath, for its format, notes and metadata.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
}
