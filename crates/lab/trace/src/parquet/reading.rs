//! The rows of a trace file, decoded column by column into buffers that are used again.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use ::parquet::column::page::PageReader;
use ::parquet::column::reader::ColumnReaderImpl;
use ::parquet::data_type::{DataType, Int32Type, Int64Type};
use ::parquet::errors::Result as ParquetResult;
use ::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use ::parquet::file::serialized_reader::SerializedPageReader;
use ::parquet::schema::types::ColumnDescPtr;

use super::pages::{Names, Pages, Pieces, coded_column};
use super::schema::{self, Column};
use super::{BATCH_RECORDS, damaged, guarded};
use crate::columns::Columns;
use crate::contract::{ColumnSource, Source};
use crate::error::{Fault, Kind, Place};
use crate::lines::check_range;
use crate::notes::Notes;
use crate::record::{Flags, Operation, Record};

/// A Parquet file known to have the columns of a trace.
#[derive(Clone)]
struct TraceFile {
    pieces: Arc<Pieces>,
    metadata: Arc<ParquetMetaData>,
}

impl TraceFile {
    fn open(path: &Path) -> Result<Self, Fault> {
        let file = File::open(path).map_err(|error| Fault::io(&error))?;
        let pieces = Pieces::new(file).map_err(|error| Fault::io(&error))?;
        let metadata = guarded(|| load(&pieces))?;
        Ok(Self { pieces: Arc::new(pieces), metadata: Arc::new(metadata) })
    }

    /// What the file says about itself, sorted by key.
    fn pairs(&self) -> Vec<(String, String)> {
        let pairs = self.metadata.file_metadata().key_value_metadata().into_iter().flatten();
        let mut pairs: Vec<(String, String)> = pairs
            .filter(|pair| !pair.key.starts_with(schema::ARROW_KEYS))
            .map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default()))
            .collect();
        // In the order of keys, whatever the writer's was.
        pairs.sort_unstable();
        pairs
    }

    /// The pages of a column in a row group; none after the last group.
    fn pages(
        &self,
        leaf: usize,
        row_group: usize,
    ) -> ParquetResult<Option<SerializedPageReader<Pieces>>> {
        let Some(group) = self.metadata.row_groups().get(row_group) else { return Ok(None) };
        let Some(chunk) = group.columns().get(leaf) else { return Ok(None) };
        // The number of rows matters only to a reader that skips some.
        let rows = usize::try_from(group.num_rows()).unwrap_or_default();
        SerializedPageReader::new(Arc::clone(&self.pieces), chunk, rows, None).map(Some)
    }
}

/// Reads the directory of a file and checks that it is that of a trace.
fn load(pieces: &Pieces) -> Result<ParquetMetaData, Fault> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(pieces).map_err(|error| {
        Fault::new(Kind::Truncated, format!("the Parquet file cannot be read: {error}"))
            .suggest("it may be cut off: its directory is at the end")
    })?;
    // Before anything is decoded: a column by its name is the better message.
    schema::check(metadata.file_metadata().schema_descr())?;
    let file_bytes = ::parquet::file::reader::Length::len(pieces);
    for group in metadata.row_groups() {
        group.columns().iter().try_for_each(|chunk| check_chunk(chunk, file_bytes))?;
    }
    Ok(metadata)
}

/// The decoder panics on a piece that is not inside the file.
fn check_chunk(chunk: &ColumnChunkMetaData, file_bytes: u64) -> Result<(), Fault> {
    // A dictionary stands in front of its data.
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let end = start.checked_add(chunk.compressed_size()).unwrap_or(i64::MAX);
    let is_inside = start >= 0 && end >= start && end.unsigned_abs() <= file_bytes;
    if is_inside { Ok(()) } else { Err(damaged("a column is outside the file")) }
}

/// A column of the rows that are read together.
struct Batch<T: DataType> {
    name: &'static str,
    leaf: usize,
    column: ColumnDescPtr,
    /// Set for the column of operations.
    names: Option<Names>,
    reader: Option<ColumnReaderImpl<T>>,
    next_row_group: usize,
    rows: usize,
    /// The values of the rows that have one.
    values: Vec<T::T>,
    /// For each row, 1 if it has a value; not for columns that all rows have.
    levels: Vec<i16>,
}

impl<T: DataType> Batch<T> {
    fn new(file: &TraceFile, column: &Column) -> Result<Self, Fault> {
        let schema = file.metadata.file_metadata().schema_descr();
        let leaf = column.leaf(schema)?;
        Ok(Self {
            name: column.name,
            leaf,
            column: schema.column(leaf),
            names: None,
            reader: None,
            next_row_group: 0,
            rows: 0,
            values: Vec::with_capacity(BATCH_RECORDS),
            levels: Vec::new(),
        })
    }

    /// Decodes the next rows; fewer than a batch only at the end.
    fn fill(&mut self, file: &TraceFile) -> ParquetResult<()> {
        self.rows = 0;
        self.values.clear();
        self.levels.clear();
        while self.rows < BATCH_RECORDS {
            if self.reader.is_none() {
                let Some(pages) = file.pages(self.leaf, self.next_row_group)? else { break };
                self.reader = Some(self.open(pages)?);
                self.next_row_group += 1;
            }
            let Some(reader) = &mut self.reader else { break };
            let room = BATCH_RECORDS - self.rows;
            let (rows, ..) =
                reader.read_records(room, Some(&mut self.levels), None, &mut self.values)?;
            self.rows += rows;
            if rows == 0 {
                self.reader = None;
            }
        }
        Ok(())
    }

    fn open(&self, pages: SerializedPageReader<Pieces>) -> ParquetResult<ColumnReaderImpl<T>> {
        let column = Arc::clone(&self.column);
        let (column, pages) = match &self.names {
            None => (column, Pages::of_numbers(pages)),
            Some(names) => (coded_column(&column)?, Pages::of_names(pages, column, names.clone())),
        };
        let pages: Box<dyn PageReader> = Box::new(pages);
        Ok(ColumnReaderImpl::new(column, pages))
    }

    /// Checks that every row has a value.
    fn check_complete(&self) -> Result<(), Fault> {
        if self.values.len() == self.rows {
            return Ok(());
        }
        Err(Fault::malformed(format!("the column {} has a row without value", self.name)))
    }

    /// Appends the values of the rows, and none for a row without.
    fn append_optional<V>(&self, convert: impl Fn(&T::T) -> V, values: &mut Vec<Option<V>>) {
        // None and all are the usual cases, and need no look at each row.
        if self.values.is_empty() {
            values.extend(std::iter::repeat_with(|| None).take(self.rows));
        } else if self.values.len() == self.rows {
            values.extend(self.values.iter().map(|value| Some(convert(value))));
        } else {
            let mut present = self.values.iter();
            let has_value = self.levels.iter().map(|level| *level > 0);
            values
                .extend(has_value.map(|has| if has { present.next().map(&convert) } else { None }));
        }
    }
}

/// The columns that a simulation without times reads.
struct HotBatch {
    operation: Batch<Int32Type>,
    offset_bytes: Batch<Int64Type>,
    length_bytes: Batch<Int32Type>,
    file_operation: Batch<Int32Type>,
    names: Names,
}

impl HotBatch {
    fn new(file: &TraceFile) -> Result<Self, Fault> {
        let names = Names::default();
        let mut operation = Batch::new(file, &schema::OPERATION)?;
        operation.names = Some(names.clone());
        Ok(Self {
            operation,
            offset_bytes: Batch::new(file, &schema::OFFSET_BYTES)?,
            length_bytes: Batch::new(file, &schema::LENGTH_BYTES)?,
            file_operation: Batch::new(file, &schema::FILE_OPERATION)?,
            names,
        })
    }

    /// Decodes the next rows; returns how many each column has.
    fn fill(&mut self, file: &TraceFile) -> ParquetResult<[usize; 4]> {
        self.operation.fill(file)?;
        self.offset_bytes.fill(file)?;
        self.length_bytes.fill(file)?;
        self.file_operation.fill(file)?;
        Ok([
            self.operation.rows,
            self.offset_bytes.rows,
            self.length_bytes.rows,
            self.file_operation.rows,
        ])
    }

    fn append(&self, columns: &mut Columns) -> Result<(), Fault> {
        self.offset_bytes.check_complete()?;
        self.length_bytes.check_complete()?;
        let offsets = self.offset_bytes.values.iter().map(|offset| offset.cast_unsigned());
        // Only an offset of 2^63 and more can be too large, and one look finds those.
        if self.offset_bytes.values.iter().fold(0, |bits, offset| bits | offset) < 0 {
            // One look at the largest offset spares the check of every range.
            let largest = offsets.clone().max().unwrap_or(0);
            if largest.checked_add(u64::from(u32::MAX)).is_none() {
                return Err(
                    Fault::malformed("an offset is too large").quoting(&largest.to_string())
                );
            }
        }
        self.append_operations(&mut columns.operation)?;
        columns.offset_bytes.extend(offsets);
        let lengths = self.length_bytes.values.iter().map(|length| length.cast_unsigned());
        columns.length_bytes.extend(lengths);
        self.file_operation
            .append_optional(|number| number.cast_unsigned(), &mut columns.file_operation);
        Ok(())
    }

    fn append_operations(&self, operations: &mut Vec<Operation>) -> Result<(), Fault> {
        self.operation.check_complete()?;
        let codes = &self.operation.values;
        if let Some(name) = self.names.unknown(codes) {
            return Err(Fault::malformed("the operation is unknown")
                .quoting(&name)
                .suggest("one of read, write, trim, flush, write_zeroes"));
        }
        operations.extend(codes.iter().map(|code| Operation::of_code(*code)));
        Ok(())
    }
}

/// Every column.
struct FullBatch {
    hot: HotBatch,
    arrival_ns: Batch<Int64Type>,
    device: Batch<Int32Type>,
    flags: Batch<Int32Type>,
    latency_ns: Batch<Int64Type>,
}

impl FullBatch {
    fn new(file: &TraceFile) -> Result<Self, Fault> {
        Ok(Self {
            hot: HotBatch::new(file)?,
            arrival_ns: Batch::new(file, &schema::ARRIVAL_NS)?,
            device: Batch::new(file, &schema::DEVICE)?,
            flags: Batch::new(file, &schema::FLAGS)?,
            latency_ns: Batch::new(file, &schema::LATENCY_NS)?,
        })
    }

    /// Decodes the next rows; returns how many each column has.
    fn fill(&mut self, file: &TraceFile) -> ParquetResult<[usize; 8]> {
        let [operations, offsets, lengths, causes] = self.hot.fill(file)?;
        self.arrival_ns.fill(file)?;
        self.device.fill(file)?;
        self.flags.fill(file)?;
        self.latency_ns.fill(file)?;
        let (arrivals, devices) = (self.arrival_ns.rows, self.device.rows);
        let (flags, latencies) = (self.flags.rows, self.latency_ns.rows);
        Ok([operations, offsets, lengths, causes, arrivals, devices, flags, latencies])
    }

    /// Appends the rows; `hot` and `latencies` are room to decode in.
    fn append(&self, room: &mut Room, records: &mut Vec<Record>) -> Result<(), Fault> {
        self.arrival_ns.check_complete()?;
        self.device.check_complete()?;
        self.flags.check_complete()?;
        let Room { hot, latencies } = room;
        hot.clear();
        latencies.clear();
        self.hot.append(hot)?;
        self.latency_ns.append_optional(|latency| latency.cast_unsigned(), latencies);
        records.reserve(self.arrival_ns.rows);
        let rows = self
            .arrival_ns
            .values
            .iter()
            .zip(&self.device.values)
            .zip(&self.flags.values)
            .zip(latencies.iter())
            .zip(&hot.operation)
            .zip(&hot.offset_bytes)
            .zip(&hot.length_bytes)
            .zip(&hot.file_operation);
        for (((((((arrival, device), bits), latency), operation), offset), length), cause) in rows {
            // A number of 8 bits stands in one of 32.
            let bits = *bits as u8;
            let record = Record {
                arrival_ns: arrival.cast_unsigned(),
                operation: *operation,
                device: device.cast_unsigned(),
                offset_bytes: *offset,
                length_bytes: *length,
                flags: Flags::from_bits(bits).ok_or_else(|| {
                    Fault::malformed("the flags have an unknown bit").quoting(&bits.to_string())
                })?,
                latency_ns: *latency,
                file_operation: *cause,
            };
            check_range(&record)?;
            records.push(record);
        }
        Ok(())
    }
}

/// Buffers of a batch on its way to records.
#[derive(Default)]
struct Room {
    hot: Columns,
    latencies: Vec<Option<u64>>,
}

/// The number of the row at which the next batch begins.
#[derive(Default)]
struct Progress(u64);

impl Progress {
    /// Decodes a batch with `fill` and hands it over with `take`; false at the end.
    fn next<B, const N: usize>(
        &mut self,
        batch: &mut B,
        fill: impl FnOnce(&mut B) -> ParquetResult<[usize; N]>,
        take: impl FnOnce(&B) -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        let place = Place::Row(self.0);
        let rows = guarded(|| {
            let rows = fill(batch).map_err(damaged)?;
            let first = rows.first().copied().unwrap_or(0);
            if rows.iter().any(|rows| *rows != first) {
                return Err(damaged("the columns have different numbers of rows"));
            }
            Ok(first)
        });
        let rows = rows.map_err(|fault| fault.at(place))?;
        if rows == 0 {
            return Ok(false);
        }
        self.0 = self.0.saturating_add(rows as u64);
        take(batch).map_err(|fault| fault.at(place))?;
        Ok(true)
    }
}

/// The rows of a file, as records.
pub(super) struct RecordSource {
    file: TraceFile,
    pairs: Vec<(String, String)>,
    batch: FullBatch,
    room: Room,
    progress: Progress,
}

impl RecordSource {
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let file = TraceFile::open(path)?;
        let (pairs, batch) = (file.pairs(), FullBatch::new(&file)?);
        Ok(Self { file, pairs, batch, room: Room::default(), progress: Progress::default() })
    }
}

impl Source for RecordSource {
    fn fill(&mut self, records: &mut Vec<Record>, _notes: &mut Notes) -> Result<bool, Fault> {
        let Self { file, batch, room, progress, .. } = self;
        progress.next(batch, |batch| batch.fill(file), |batch| batch.append(room, records))
    }

    fn columns(&self) -> Option<Result<Box<dyn ColumnSource>, Fault>> {
        let file = self.file.clone();
        Some(HotBatch::new(&file).map(|batch| {
            let source = HotColumns { file, batch, progress: Progress::default() };
            Box::new(source) as Box<dyn ColumnSource>
        }))
    }

    fn metadata(&self) -> &[(String, String)] {
        &self.pairs
    }
}

/// Rows as columns, times left out.
struct HotColumns {
    file: TraceFile,
    batch: HotBatch,
    progress: Progress,
}

impl ColumnSource for HotColumns {
    fn fill(&mut self, columns: &mut Columns) -> Result<bool, Fault> {
        let Self { file, batch, progress } = self;
        progress.next(batch, |batch| batch.fill(file), |batch| batch.append(columns))
    }
}
