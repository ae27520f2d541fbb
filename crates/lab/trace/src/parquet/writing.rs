//! Writing a trace in the canonical form.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, Encoding, ZstdLevel};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use ::parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use ::parquet::schema::types::ColumnPath;

use super::{ROW_GROUP_RECORDS, schema};
use crate::error::{Fault, Kind, TraceError};
use crate::record::{Operation, Record};

/// Stands in every file; a changed version of a library must not change the bytes of a trace.
const CREATED_BY: &str = "nandlab trace";

/// Records of a page, at which the writer looks a little late: it counts by the thousand.
const PAGE_RECORDS: usize = 20_000;

/// Writes a trace in the canonical form.
///
/// The file appears under its name only when it is [finished](Self::finish).
pub struct TraceWriter {
    /// None once the file is finished.
    writer: Option<SerializedFileWriter<File>>,
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
        let writer = schema::written()
            .and_then(|schema| SerializedFileWriter::new(file, schema, Arc::new(properties())))
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
        let Some(writer) = &mut self.writer else { return Ok(()) };
        if self.buffer.is_empty() {
            return Ok(());
        }
        let rows = write_row_group(writer, &self.buffer)
            .map_err(|reason| Fault::new(Kind::Io, reason.to_string()))?;
        debug_assert_eq!(rows.unsigned_abs(), self.buffer.len() as u64, "a record is a row");
        self.buffer.clear();
        Ok(())
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
        .set_key_value_metadata(Some(vec![KeyValue::new(
            schema::ARROW_SCHEMA_KEY.to_owned(),
            schema::ARROW_SCHEMA.to_owned(),
        )]))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_data_page_row_count_limit(PAGE_RECORDS)
        // Statistics by page would take room that no reader uses.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Numbers of a wide range gain nothing by a dictionary.
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(ColumnPath::from(schema::OPERATION.name), true)
        .set_column_encoding(ColumnPath::from(schema::OPERATION.name), Encoding::PLAIN)
        .build()
}

/// Writes the columns in the order of the schema; returns the rows.
fn write_row_group(
    writer: &mut SerializedFileWriter<File>,
    records: &[Record],
) -> ParquetResult<i64> {
    let mut row_group = writer.next_row_group()?;
    let group = &mut row_group;
    numbers::<Int64Type>(group, records, |record| record.arrival_ns.cast_signed())?;
    operations(group, records)?;
    numbers::<Int32Type>(group, records, |record| record.device.cast_signed())?;
    numbers::<Int64Type>(group, records, |record| record.offset_bytes.cast_signed())?;
    numbers::<Int32Type>(group, records, |record| record.length_bytes.cast_signed())?;
    numbers::<Int32Type>(group, records, |record| i32::from(record.flags.bits()))?;
    optional::<Int64Type>(group, records, |record| record.latency_ns.map(u64::cast_signed))?;
    optional::<Int32Type>(group, records, |record| record.file_operation.map(u32::cast_signed))?;
    Ok(row_group.close()?.num_rows())
}

fn numbers<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    records: &[Record],
    value: impl Fn(&Record) -> T::T,
) -> ParquetResult<()> {
    column::<T>(group, &records.iter().map(value).collect::<Vec<_>>())
}

fn optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    records: &[Record],
    value: impl Fn(&Record) -> Option<T::T>,
) -> ParquetResult<()> {
    let levels: Vec<i16> =
        records.iter().map(|record| i16::from(value(record).is_some())).collect();
    let values: Vec<T::T> = records.iter().filter_map(value).collect();
    let mut column = next_column(group)?;
    let writer = column.typed::<T>();
    if values.is_empty() || values.len() == records.len() {
        // Pages of exactly that many rows, as such columns have had them from the first.
        let mut rest = values.as_slice();
        for levels in levels.chunks(PAGE_RECORDS) {
            let (now, later) = rest.split_at(rest.len().min(levels.len()));
            writer.write_batch(now, Some(levels), None)?;
            rest = later;
        }
    } else {
        writer.write_batch(&values, Some(&levels), None)?;
    }
    column.close()
}

fn operations(
    group: &mut SerializedRowGroupWriter<'_, File>,
    records: &[Record],
) -> ParquetResult<()> {
    // Copies share the text.
    let names = Operation::ALL.map(|operation| ByteArray::from(operation.name()));
    let values: Vec<ByteArray> =
        records.iter().map(|record| names[record.operation as usize].clone()).collect();
    column::<ByteArrayType>(group, &values)
}

/// Writes the next column, in which every row has a value.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
) -> ParquetResult<()> {
    let mut column = next_column(group)?;
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

fn next_column<'a>(
    group: &'a mut SerializedRowGroupWriter<'_, File>,
) -> ParquetResult<SerializedColumnWriter<'a>> {
    let column = group.next_column()?;
    column.ok_or_else(|| ParquetError::General("the schema has a column less".to_owned()))
}
