//! The canonical form of a trace: one Parquet file, one row a record.
//!
//! Integers are delta encoded and zstd compressed, in row groups of [`ROW_GROUP_RECORDS`]. The
//! bytes of a file depend on its records and metadata alone. Where the file came from stands in
//! its key-value metadata. Reading all columns gives [`Record`]s; a simulation that ignores times
//! reads four columns through [`HotColumns`] and leaves the others on the disk.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use ::parquet::arrow::{ArrowWriter, ProjectionMask};
use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::schema::types::ColumnPath;
use arrow_array::types::{Int32Type, UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, PrimitiveArray, RecordBatch, StringArray,
};
use arrow_schema::{DataType, Field, Fields, Schema};

use crate::columns::Columns;
use crate::contract::{ColumnSource, FormatEntry, Match, Opening, Source};
use crate::error::{Fault, Kind, Place, TraceError};
use crate::lines::check_range;
use crate::notes::Notes;
use crate::record::{Flags, Operation, Record};

pub(crate) const ENTRY: FormatEntry = FormatEntry {
    name: "parquet",
    summary: "canonical form of this project",
    file_names: &["*.parquet"],
    time: "nanoseconds",
    address: "bytes",
    length: "bytes",
    operations: "read, write, trim, flush, write_zeroes; flags, latency, file operation",
    takes_time_unit: false,
    detect: |head| detect(head.bytes),
    open: |opening| open(&opening),
};

const MAGIC: &[u8] = b"PAR1";

/// Records of a row group.
const ROW_GROUP_RECORDS: usize = 128 * 1024;

/// Records decoded at once. It divides a row group, so that no batch spans two dictionaries.
const BATCH_RECORDS: usize = 16 * 1024;

const _: () =
    assert!(ROW_GROUP_RECORDS.is_multiple_of(BATCH_RECORDS), "no batch spans two row groups");

/// Stands in every file; a changed version of a library must not change the bytes of a trace.
const CREATED_BY: &str = "nandlab trace";

/// Entries of the metadata that Arrow keeps for itself begin so.
const ARROW_KEYS: &str = "ARROW:";

mod column {
    pub(super) const ARRIVAL_NS: &str = "arrival_ns";
    pub(super) const OPERATION: &str = "operation";
    pub(super) const DEVICE: &str = "device";
    pub(super) const OFFSET_BYTES: &str = "offset_bytes";
    pub(super) const LENGTH_BYTES: &str = "length_bytes";
    pub(super) const FLAGS: &str = "flags";
    pub(super) const LATENCY_NS: &str = "latency_ns";
    pub(super) const FILE_OPERATION: &str = "file_operation";
}

/// The columns that [`HotColumns`] reads.
const HOT_COLUMNS: [&str; 4] =
    [column::OPERATION, column::OFFSET_BYTES, column::LENGTH_BYTES, column::FILE_OPERATION];

fn operation_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Every column of a trace: name, type, whether it may be absent in a row.
fn fields() -> Fields {
    Fields::from(vec![
        Field::new(column::ARRIVAL_NS, DataType::UInt64, false),
        Field::new(column::OPERATION, operation_type(), false),
        Field::new(column::DEVICE, DataType::UInt32, false),
        Field::new(column::OFFSET_BYTES, DataType::UInt64, false),
        Field::new(column::LENGTH_BYTES, DataType::UInt32, false),
        Field::new(column::FLAGS, DataType::UInt8, false),
        Field::new(column::LATENCY_NS, DataType::UInt64, true),
        Field::new(column::FILE_OPERATION, DataType::UInt32, true),
    ])
}

/// A Parquet file begins with its magic.
pub(crate) fn detect(head: &[u8]) -> Match {
    Match::certain_if(head.starts_with(MAGIC))
}

/// Opens a trace by rows.
pub(crate) fn open(opening: &Opening) -> Result<Box<dyn Source>, Fault> {
    if !opening.input.is_plain_file {
        return Err(Fault::new(
            Kind::Unsupported,
            "a Parquet file is not read from standard input or through compression",
        )
        .suggest("name the plain file; it is compressed inside"));
    }
    let file = TraceFile::open(opening.path)?;
    let rows = file.rows(None)?;
    Ok(Box::new(RecordSource { file, rows }))
}

/// Runs a call of the Parquet library, which panics on some damaged files.
fn guarded<T>(call: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|reason| {
        // An interruption unwinds too, and is no damage.
        if cancellation::is_interruption(reason.as_ref()) {
            resume_unwind(reason);
        }
        Err(damaged("the Parquet decoder gave up"))
    })
}

fn damaged(reason: impl std::fmt::Display) -> Fault {
    Fault::malformed(format!("the Parquet file is damaged: {reason}"))
}

/// A Parquet file known to have the columns of a trace.
struct TraceFile {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    pairs: Vec<(String, String)>,
}

impl TraceFile {
    fn open(path: &Path) -> Result<Self, Fault> {
        let file = File::open(path).map_err(|error| Fault::io(&error))?;
        let metadata = guarded(|| load(&file))?;
        let mut pairs: Vec<(String, String)> = metadata
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .into_iter()
            .flatten()
            .filter(|pair| !pair.key.starts_with(ARROW_KEYS))
            .map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default()))
            .collect();
        // In the order of keys, whatever the writer's was.
        pairs.sort_unstable();
        Ok(Self { path: path.to_owned(), metadata, pairs })
    }

    /// Decodes the named columns, or all.
    fn rows(&self, columns: Option<&[&str]>) -> Result<Rows, Fault> {
        // A file for each stream: rows and columns keep places of their own.
        let file = File::open(&self.path).map_err(|error| Fault::io(&error))?;
        guarded(|| {
            let names = fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mask = ProjectionMask::columns(
                self.metadata.parquet_schema(),
                columns.unwrap_or(&names).iter().copied(),
            );
            let metadata = self.metadata.clone();
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
                .with_projection(mask)
                .with_batch_size(BATCH_RECORDS)
                .build()
                .map_err(damaged)?;
            Ok(Rows { reader, row: 0 })
        })
    }
}

/// Reads the schema and checks that it is that of a trace.
fn load(file: &File) -> Result<ArrowReaderMetadata, Fault> {
    // The file's own Arrow schema is passed over: files of other writers then read the same way.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let plain = ArrowReaderMetadata::load(file, options.clone()).map_err(|error| {
        Fault::new(Kind::Truncated, format!("the Parquet file cannot be read: {error}"))
            .suggest("it may be cut off: its directory is at the end")
    })?;
    // Before anything is decoded: a column by its name is the better message.
    for field in &fields() {
        check_column(plain.schema(), field)?;
    }
    let file_bytes = file.metadata().map_err(|error| Fault::io(&error))?.len();
    for group in plain.metadata().row_groups() {
        group.columns().iter().try_for_each(|chunk| check_chunk(chunk, file_bytes))?;
    }
    let typed: Vec<Field> = plain
        .schema()
        .fields()
        .iter()
        .map(|field| match field.name().as_str() {
            // Decoded as a dictionary, so that a name is compared once a batch.
            column::OPERATION => field.as_ref().clone().with_data_type(operation_type()),
            _ => field.as_ref().clone(),
        })
        .collect();
    let options = options.with_schema(Arc::new(Schema::new(typed)));
    ArrowReaderMetadata::try_new(plain.metadata().clone(), options).map_err(damaged)
}

/// The decoder panics on a piece that is not inside the file.
fn check_chunk(chunk: &ColumnChunkMetaData, file_bytes: u64) -> Result<(), Fault> {
    // A dictionary stands in front of its data.
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let end = start.checked_add(chunk.compressed_size()).unwrap_or(i64::MAX);
    let is_inside = start >= 0 && end >= start && end.unsigned_abs() <= file_bytes;
    if is_inside { Ok(()) } else { Err(damaged("a column is outside the file")) }
}

fn check_column(schema: &Schema, expected: &Field) -> Result<(), Fault> {
    let name = expected.name();
    let fault = |reason: String| {
        Fault::new(Kind::WrongFormat, format!("this is a Parquet file, but no trace: {reason}"))
            .suggest("a trace has the columns of docs/trace-formats.md")
    };
    let Ok(found) = schema.field_with_name(name) else {
        return Err(fault(format!("the column {name} is missing")));
    };
    // Other writers may store operations as plain text.
    let is_text = matches!(found.data_type(), DataType::Utf8) && name == column::OPERATION;
    if found.data_type() != expected.data_type() && !is_text {
        return Err(fault(format!(
            "the column {name} is {} and should be {}",
            found.data_type(),
            expected.data_type()
        )));
    }
    Ok(())
}

/// Batches of rows, with the number of the first row of the next.
struct Rows {
    reader: ParquetRecordBatchReader,
    row: u64,
}

impl Rows {
    /// Hands the next batch to `take`; false at the end.
    fn next(
        &mut self,
        take: impl FnOnce(&RecordBatch) -> Result<(), Fault>,
    ) -> Result<bool, Fault> {
        let place = Place::Row(self.row);
        let batch = guarded(|| self.reader.next().transpose().map_err(damaged));
        let Some(batch) = batch.map_err(|fault| fault.at(place))? else { return Ok(false) };
        self.row = self.row.saturating_add(batch.num_rows() as u64);
        take(&batch).map_err(|fault| fault.at(place))?;
        Ok(true)
    }
}

/// The rows of a file, as records.
struct RecordSource {
    file: TraceFile,
    rows: Rows,
}

impl Source for RecordSource {
    fn fill(&mut self, records: &mut Vec<Record>, _notes: &mut Notes) -> Result<bool, Fault> {
        self.rows.next(|batch| append_records(batch, records))
    }

    fn columns(&self) -> Option<Result<Box<dyn ColumnSource>, Fault>> {
        let rows = self.file.rows(Some(&HOT_COLUMNS));
        Some(rows.map(|rows| Box::new(HotColumns { rows }) as Box<dyn ColumnSource>))
    }

    fn metadata(&self) -> &[(String, String)] {
        &self.file.pairs
    }
}

/// Rows as columns, times left out.
struct HotColumns {
    rows: Rows,
}

impl ColumnSource for HotColumns {
    fn fill(&mut self, columns: &mut Columns) -> Result<bool, Fault> {
        self.rows.next(|batch| append_columns(batch, columns))
    }
}

fn append_columns(batch: &RecordBatch, columns: &mut Columns) -> Result<(), Fault> {
    let offsets = required::<UInt64Type>(batch, column::OFFSET_BYTES)?;
    let lengths = required::<UInt32Type>(batch, column::LENGTH_BYTES)?;
    // One look at the largest offset spares the check of every range.
    let largest = offsets.values().iter().copied().max().unwrap_or(0);
    if largest.checked_add(u64::from(u32::MAX)).is_none() {
        return Err(Fault::malformed("an offset is too large").quoting(&largest.to_string()));
    }
    append_operations(batch, &mut columns.operation)?;
    columns.offset_bytes.extend_from_slice(offsets.values());
    columns.length_bytes.extend_from_slice(lengths.values());
    append_optional(
        primitive::<UInt32Type>(batch, column::FILE_OPERATION)?,
        &mut columns.file_operation,
    );
    Ok(())
}

fn append_records(batch: &RecordBatch, records: &mut Vec<Record>) -> Result<(), Fault> {
    let arrivals = required::<UInt64Type>(batch, column::ARRIVAL_NS)?.values();
    let devices = required::<UInt32Type>(batch, column::DEVICE)?.values();
    let flags = required::<UInt8Type>(batch, column::FLAGS)?.values();
    let latencies = primitive::<UInt64Type>(batch, column::LATENCY_NS)?;
    let mut columns = Columns::default();
    append_columns(batch, &mut columns)?;
    records.reserve(batch.num_rows());
    let rows = arrivals
        .iter()
        .zip(devices)
        .zip(flags)
        .zip(latencies.iter())
        .zip(&columns.operation)
        .zip(&columns.offset_bytes)
        .zip(&columns.length_bytes)
        .zip(&columns.file_operation);
    for (((((((arrival, device), flags), latency), operation), offset), length), cause) in rows {
        let record = Record {
            arrival_ns: *arrival,
            operation: *operation,
            device: *device,
            offset_bytes: *offset,
            length_bytes: *length,
            flags: Flags::from_bits(*flags).ok_or_else(|| {
                Fault::malformed("the flags have an unknown bit").quoting(&flags.to_string())
            })?,
            latency_ns: latency,
            file_operation: *cause,
        };
        check_range(&record)?;
        records.push(record);
    }
    Ok(())
}

fn column_of<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, Fault> {
    batch.column_by_name(name).ok_or_else(|| damaged(format!("the column {name} is missing")))
}

fn primitive<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a PrimitiveArray<T>, Fault> {
    let column = column_of(batch, name)?.as_any().downcast_ref();
    column.ok_or_else(|| damaged(format!("the column {name} has the wrong type")))
}

/// A column that must have a value in every row.
fn required<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a PrimitiveArray<T>, Fault> {
    let column = primitive::<T>(batch, name)?;
    check_complete(column, name)?;
    Ok(column)
}

fn check_complete(column: &dyn Array, name: &str) -> Result<(), Fault> {
    if column.null_count() == 0 {
        return Ok(());
    }
    Err(Fault::malformed(format!("the column {name} has a row without value")))
}

fn append_operations(batch: &RecordBatch, operations: &mut Vec<Operation>) -> Result<(), Fault> {
    let column = column_of(batch, column::OPERATION)?;
    check_complete(column, column::OPERATION)?;
    let dictionary = column.as_any().downcast_ref::<DictionaryArray<Int32Type>>();
    let names = dictionary.and_then(|array| array.values().as_any().downcast_ref::<StringArray>());
    let (Some(dictionary), Some(names)) = (dictionary, names) else {
        return Err(damaged("the column operation has the wrong type"));
    };
    let meanings = names
        .iter()
        .map(|name| {
            let name = name.unwrap_or_default();
            Operation::from_name(name).ok_or_else(|| {
                Fault::malformed("the operation is unknown")
                    .quoting(name)
                    .suggest("one of read, write, trim, flush, write_zeroes")
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    // A dictionary of one name: no key needs to be read.
    if let [only] = meanings.as_slice() {
        operations.resize(operations.len() + dictionary.len(), *only);
        return Ok(());
    }
    for key in dictionary.keys().values() {
        let meaning = usize::try_from(*key).ok().and_then(|key| meanings.get(key));
        operations.push(*meaning.ok_or_else(|| damaged("an operation has no name"))?);
    }
    Ok(())
}

fn append_optional(column: &PrimitiveArray<UInt32Type>, values: &mut Vec<Option<u32>>) {
    // None and all are the usual cases, and need no look at each row.
    match column.null_count() {
        0 => values.extend(column.values().iter().copied().map(Some)),
        nulls if nulls == column.len() => values.resize(values.len() + nulls, None),
        _ => values.extend(column),
    }
}

/// Writes a trace in the canonical form.
///
/// The file appears under its name only when it is [finished](Self::finish).
pub struct TraceWriter {
    /// None once the file is finished.
    writer: Option<ArrowWriter<File>>,
    buffer: Vec<Record>,
    temporary: PathBuf,
    output: PathBuf,
}

impl TraceWriter {
    /// Begins a file beside `output`.
    ///
    /// # Errors
    /// [`Kind::Io`] if the file cannot be made.
    pub fn create(output: &Path) -> Result<Self, TraceError> {
        let name = output.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Hidden and of this process, so that neither a listing nor a second run meets it.
        let temporary = output.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let error = |fault: Fault| fault.into_error(&output.display().to_string());
        let file = File::create(&temporary).map_err(|reason| error(Fault::io(&reason)))?;
        let schema = Arc::new(Schema::new(fields()));
        let writer = ArrowWriter::try_new(file, schema, Some(properties()))
            .map_err(|reason| error(Fault::new(Kind::Io, reason.to_string())))?;
        let buffer = Vec::with_capacity(ROW_GROUP_RECORDS);
        Ok(Self { writer: Some(writer), buffer, temporary, output: output.to_owned() })
    }

    /// Appends records. How they are divided among calls does not change the file.
    ///
    /// # Errors
    /// [`Kind::Io`] if a row group cannot be written.
    pub fn write(&mut self, records: &[Record]) -> Result<(), TraceError> {
        // Groups are filled up whole, so the division among calls leaves no mark.
        let mut rest = records;
        while !rest.is_empty() {
            debug_assert!(
                self.buffer.len() < ROW_GROUP_RECORDS,
                "a full row group is written at once"
            );
            let room = ROW_GROUP_RECORDS - self.buffer.len();
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.buffer.extend_from_slice(now);
            rest = later;
            if self.buffer.len() == ROW_GROUP_RECORDS {
                self.write_row_group().map_err(|fault| self.error(fault))?;
            }
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// [`Kind::Io`] if the file cannot be completed or renamed.
    pub fn finish(mut self, metadata: &BTreeMap<String, String>) -> Result<(), TraceError> {
        self.close(metadata).map_err(|fault| self.error(fault))
    }

    fn close(&mut self, metadata: &BTreeMap<String, String>) -> Result<(), Fault> {
        self.write_row_group()?;
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        for (key, value) in metadata {
            writer.append_key_value_metadata(KeyValue::new(key.clone(), value.clone()));
        }
        writer.close().map_err(|reason| Fault::new(Kind::Io, reason.to_string()))?;
        // The name appears by renaming, so no reader meets half a file.
        fs::rename(&self.temporary, &self.output).map_err(|error| Fault::io(&error))
    }

    fn write_row_group(&mut self) -> Result<(), Fault> {
        let fault = |reason: String| Fault::new(Kind::Io, reason);
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if self.buffer.is_empty() {
            return Ok(());
        }
        let batch = batch_of(&self.buffer).map_err(|reason| fault(reason.to_string()))?;
        debug_assert_eq!(batch.num_rows(), self.buffer.len(), "a record is a row");
        self.buffer.clear();
        writer.write(&batch).map_err(|reason| fault(reason.to_string()))?;
        // `flush` ends the row group.
        writer.flush().map_err(|reason| fault(reason.to_string()))
    }

    fn error(&self, fault: Fault) -> TraceError {
        fault.into_error(&self.output.display().to_string())
    }
}

impl Drop for TraceWriter {
    /// An unfinished file is removed.
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and after a rename there is nothing to remove.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_RECORDS))
        // Statistics by page would take room that no reader uses.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Numbers of a wide range gain nothing by a dictionary.
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(ColumnPath::from(column::OPERATION), true)
        .set_column_encoding(ColumnPath::from(column::OPERATION), Encoding::PLAIN)
        .build()
}

fn batch_of(records: &[Record]) -> Result<RecordBatch, arrow_schema::ArrowError> {
    fn array<T: ArrowPrimitiveType>(
        records: &[Record],
        value: impl Fn(&Record) -> T::Native,
    ) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values(records.iter().map(value)))
    }
    fn optional<T: ArrowPrimitiveType>(
        records: &[Record],
        value: impl Fn(&Record) -> Option<T::Native>,
    ) -> ArrayRef {
        Arc::new(records.iter().map(value).collect::<PrimitiveArray<T>>())
    }
    // All names, in the order of their codes, so that a key is a code.
    let names = StringArray::from_iter_values(Operation::ALL.map(Operation::name));
    let keys = records.iter().map(|record| record.operation as i32);
    let operations: DictionaryArray<Int32Type> = DictionaryArray::try_new(
        PrimitiveArray::<Int32Type>::from_iter_values(keys),
        Arc::new(names),
    )?;
    RecordBatch::try_new(
        Arc::new(Schema::new(fields())),
        vec![
            array::<UInt64Type>(records, |record| record.arrival_ns),
            Arc::new(operations),
            array::<UInt32Type>(records, |record| record.device),
            array::<UInt64Type>(records, |record| record.offset_bytes),
            array::<UInt32Type>(records, |record| record.length_bytes),
            array::<UInt8Type>(records, |record| record.flags.bits()),
            optional::<UInt64Type>(records, |record| record.latency_ns),
            optional::<UInt32Type>(records, |record| record.file_operation),
        ],
    )
}
