//! The canonical form: round trips, equal bytes for equal records, and files of other writers.

use crate::support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Encoding, LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use ::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::types::{ColumnPath, Type};
use support::{directory, read, sample};
use trace::{
    Columns, Flags, Kind, Operation, Options, Place, Record, TimeUnit, TraceWriter, convert,
};

fn many_records(count: u64) -> Vec<Record> {
    (0..count)
        .map(|number| Record {
            device: (number % 3) as u32,
            flags: Flags::from_bits((number % 16) as u8).unwrap(),
            latency_ns: (number % 5 == 0).then_some(number * 7),
            file_operation: (number > 1000).then_some((number / 1000) as u32),
            ..Record::new(
                number * 1000,
                Operation::ALL[(number % 5) as usize],
                (number * 2_654_435_761) % (1 << 40),
                4096,
            )
        })
        .collect()
}

fn write(path: &Path, records: &[Record], pieces: usize) {
    let mut writer = TraceWriter::create(path).unwrap();
    for piece in records.chunks(pieces) {
        writer.write(piece).unwrap();
    }
    writer.finish(&BTreeMap::new()).unwrap();
}

fn read_columns(path: &Path, options: &Options) -> Columns {
    let mut reader = trace::open(path, options).unwrap().into_columns().unwrap();
    let (mut all, mut columns) = (Columns::default(), Columns::default());
    while reader.next_columns(&mut columns).unwrap() {
        all.operation.extend(&columns.operation);
        all.offset_bytes.extend(&columns.offset_bytes);
        all.length_bytes.extend(&columns.length_bytes);
        all.file_operation.extend(&columns.file_operation);
    }
    all
}

fn columns_of(records: &[Record]) -> Columns {
    Columns {
        operation: records.iter().map(|record| record.operation).collect(),
        offset_bytes: records.iter().map(|record| record.offset_bytes).collect(),
        length_bytes: records.iter().map(|record| record.length_bytes).collect(),
        file_operation: records.iter().map(|record| record.file_operation).collect(),
    }
}

#[test]
fn every_sample_survives_conversion() {
    let directory = directory("conversion");
    let mut names: Vec<_> = fs::read_dir(sample(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 26);
    for name in names {
        let mut options = Options::default();
        if name == "sample.mqsim" {
            options.time_unit = Some(TimeUnit::Nanoseconds);
        }
        let output = directory.join("trace.parquet");
        let made = BTreeMap::from([("command".to_owned(), "a test".to_owned())]);
        let summary = convert(&sample(&name), &options, &output, &made).unwrap();
        let records = read(&sample(&name), &options).unwrap();
        assert!(!records.is_empty(), "{name}");
        assert!(records == read(&output, &Options::default()).unwrap(), "{name}");
        assert_eq!(columns_of(&records), read_columns(&output, &Options::default()), "{name}");
        assert_eq!(columns_of(&records), read_columns(&sample(&name), &options), "{name}");

        let mut reader = trace::open(&output, &Options::default()).unwrap();
        let metadata: BTreeMap<_, _> = reader.metadata().iter().cloned().collect();
        assert_eq!(metadata["command"], "a test");
        assert_eq!(metadata["source_name"], name);
        assert_eq!(metadata["source_format"], summary.format);
        assert_eq!(metadata["digest"], summary.digest);
        let again = trace::summarise(&mut reader).unwrap();
        assert_eq!(again.digest, summary.digest, "{name}");
        assert_eq!(again.records, records.len() as u64);
    }
    let left: Vec<_> = fs::read_dir(&directory).unwrap().collect();
    assert_eq!(left.len(), 1, "temporary files are gone");
}

#[test]
fn equal_records_make_equal_files() {
    let directory = directory("equal");
    let records = many_records(300_000);
    let (one, two) = (directory.join("one.parquet"), directory.join("two.parquet"));
    write(&one, &records, 1_000_000);
    write(&two, &records, 777);
    assert!(fs::read(&one).unwrap() == fs::read(&two).unwrap());
    assert!(read(&one, &Options::default()).unwrap() == records);
    assert!(read_columns(&one, &Options::default()) == columns_of(&records));
}

#[test]
fn a_summary_counts() {
    let path = directory("summary").join("trace.parquet");
    let records = [
        Record::new(0, Operation::Write, 0, 4096),
        Record::new(5, Operation::Write, 2048, 4096),
        Record { device: 1, ..Record::new(6, Operation::Write, 0, 1) },
        Record::new(7, Operation::Read, 1 << 40, 4097),
        Record::new(8, Operation::Trim, 0, 8192),
        Record::new(9, Operation::Flush, 0, 0),
        Record::new(9, Operation::WriteZeroes, 0, 512),
    ];
    write(&path, &records, 10);
    let mut reader = trace::open(&path, &Options::default()).unwrap();
    let summary = trace::summarise(&mut reader).unwrap();
    assert_eq!((summary.records, summary.reads, summary.writes), (7, 1, 3));
    assert_eq!((summary.trims, summary.flushes, summary.write_zeroes), (1, 1, 1));
    assert_eq!((summary.read_bytes, summary.written_bytes), (4097, 8193));
    assert_eq!((summary.trimmed_bytes, summary.distinct_sectors_written), (8192, 12 + 1));
    assert_eq!((summary.end_bytes, summary.last_arrival_ns), ((1 << 40) + 4097, 9));
    let sizes: Vec<_> =
        summary.request_sizes.iter().map(|class| (class.up_to_bytes, class.requests)).collect();
    assert_eq!(sizes, [(1, 1), (512, 1), (4096, 2), (8192, 2)]);
    // A change of this digest is a change of the documented order of fields.
    assert_eq!(summary.digest.len(), 64);
    let once = trace::summarise(&mut trace::open(&path, &Options::default()).unwrap()).unwrap();
    assert_eq!(once, summary);
}

#[test]
fn an_unfinished_file_leaves_nothing() {
    let directory = directory("unfinished");
    let mut writer = TraceWriter::create(&directory.join("trace.parquet")).unwrap();
    writer.write(&many_records(10)).unwrap();
    drop(writer);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn devices_and_empty_requests_are_dropped_by_rows_and_by_columns() {
    let path = directory("dropped").join("trace.parquet");
    let mut records = many_records(50_000);
    records[7].length_bytes = 0;
    records[40_000].length_bytes = 0;
    write(&path, &records, 50_000);
    let options = Options { device: Some(2), ..Options::default() };
    for options in [Options::default(), options] {
        let rows = read(&path, &options).unwrap();
        assert_eq!(columns_of(&rows), read_columns(&path, &options));
    }
    let mut reader = trace::open(&path, &Options::default()).unwrap().into_columns().unwrap();
    let mut columns = Columns::default();
    while reader.next_columns(&mut columns).unwrap() {}
    let empty = [7, 40_000].iter().filter(|index| records[**index].operation != Operation::Flush);
    assert_eq!(reader.reader().notes().zero_length, empty.count() as u64);
}

/// Cells of a column as another program might write them.
#[derive(Clone)]
enum Cells {
    /// Numbers with their kind: bits, and whether they have a sign.
    Numbers(Vec<Option<i64>>, i8, bool),
    Texts(Vec<Option<String>>),
    /// As texts, but not said to be such.
    Bytes(Vec<Option<String>>),
}

type Table = Vec<(&'static str, Cells)>;

fn counts(values: impl IntoIterator<Item = Option<u64>>, bits: i8) -> Cells {
    Cells::Numbers(
        values.into_iter().map(|value| value.map(u64::cast_signed)).collect(),
        bits,
        false,
    )
}

fn texts<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> Cells {
    Cells::Texts(values.into_iter().map(|text| text.map(str::to_owned)).collect())
}

fn cells_type(name: &str, cells: &Cells, repetition: Repetition) -> Type {
    let (physical, logical) = match cells {
        Cells::Numbers(_, 64, signed) => (Physical::INT64, Some(LogicalType::integer(64, *signed))),
        Cells::Numbers(_, bits, signed) => {
            (Physical::INT32, Some(LogicalType::integer(*bits, *signed)))
        }
        Cells::Texts(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Cells::Bytes(_) => (Physical::BYTE_ARRAY, None),
    };
    Type::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
        .unwrap()
}

fn write_cells<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    cells: &[Option<T::T>],
    is_optional: bool,
) {
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    let values: Vec<T::T> = cells.iter().flatten().cloned().collect();
    let mut column = group.next_column().unwrap().unwrap();
    let levels = is_optional.then_some(levels.as_slice());
    column.typed::<T>().write_batch(&values, levels, None).unwrap();
    column.close().unwrap();
}

/// Writes a table with row groups of these lengths.
fn write_table(
    path: &Path,
    table: &Table,
    repetition: Repetition,
    groups: &[usize],
    properties: WriterProperties,
) {
    let fields =
        table.iter().map(|(name, cells)| Arc::new(cells_type(name, cells, repetition))).collect();
    let schema = Type::group_type_builder("table").with_fields(fields).build().unwrap();
    let file = File::create(path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).unwrap();
    let is_optional = repetition == Repetition::OPTIONAL;
    let mut start = 0;
    for rows in groups {
        let range = start..start + rows;
        start += rows;
        let mut group = writer.next_row_group().unwrap();
        for (_, cells) in table {
            match cells {
                Cells::Numbers(values, 64, _) => {
                    write_cells::<Int64Type>(&mut group, &values[range.clone()], is_optional);
                }
                Cells::Numbers(values, ..) => {
                    let values: Vec<Option<i32>> = values[range.clone()]
                        .iter()
                        .map(|value| value.map(|value| value as i32))
                        .collect();
                    write_cells::<Int32Type>(&mut group, &values, is_optional);
                }
                Cells::Texts(values) | Cells::Bytes(values) => {
                    let values: Vec<Option<ByteArray>> = values[range.clone()]
                        .iter()
                        .map(|text| text.as_deref().map(ByteArray::from))
                        .collect();
                    write_cells::<ByteArrayType>(&mut group, &values, is_optional);
                }
            }
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}

/// Records as a table with a column more, in another order.
fn table_of(records: &[Record]) -> Table {
    vec![
        ("operation", texts(records.iter().map(|record| Some(record.operation.name())))),
        ("comment", texts(records.iter().map(|_| Some("an extra column")))),
        ("arrival_ns", counts(records.iter().map(|record| Some(record.arrival_ns)), 64)),
        ("offset_bytes", counts(records.iter().map(|record| Some(record.offset_bytes)), 64)),
        ("length_bytes", counts(records.iter().map(|record| Some(record.length_bytes.into())), 32)),
        ("device", counts(records.iter().map(|record| Some(record.device.into())), 32)),
        ("flags", counts(records.iter().map(|record| Some(record.flags.bits().into())), 8)),
        ("latency_ns", counts(records.iter().map(|record| record.latency_ns), 64)),
        (
            "file_operation",
            counts(records.iter().map(|record| record.file_operation.map(u64::from)), 32),
        ),
    ]
}

/// A file of one row as another program might write it; `change` alters its columns.
fn foreign(name: &str, change: impl FnOnce(&mut Table)) -> PathBuf {
    let path = directory(name).join("trace.parquet");
    let mut table = table_of(&[Record::new(0, Operation::Write, 4096, 512)]);
    change(&mut table);
    write_table(&path, &table, Repetition::OPTIONAL, &[1], WriterProperties::default());
    path
}

fn replace(table: &mut Table, name: &str, cells: &Cells) {
    table.iter_mut().filter(|column| column.0 == name).for_each(|column| column.1 = cells.clone());
}

#[test]
fn files_of_other_writers_are_read_if_their_columns_are_right() {
    let path = foreign("foreign", |_| {});
    let records = read(&path, &Options::default()).unwrap();
    assert_eq!(records, [Record::new(0, Operation::Write, 4096, 512)]);
    assert_eq!(read_columns(&path, &Options::default()), columns_of(&records));
}

/// What a writer chooses.
type Choice = Box<dyn Fn(WriterPropertiesBuilder) -> WriterPropertiesBuilder>;

/// Whatever a writer chooses, the same records are read.
#[test]
fn every_coding_of_other_writers_gives_the_same_records() {
    let directory = directory("codings");
    let (path, canonical) = (directory.join("trace.parquet"), directory.join("canonical.parquet"));
    let records: Vec<Record> = many_records(50_000)
        .into_iter()
        .map(|record| Record {
            // The second group of rows has runs of one operation, and nothing optional.
            operation: if record.arrival_ns >= 30_000_000 {
                Operation::Trim
            } else {
                record.operation
            },
            latency_ns: record.latency_ns.filter(|_| record.arrival_ns < 30_000_000),
            ..record
        })
        .collect();
    write(&canonical, &records, 50_000);
    let expected = read(&canonical, &Options::default()).unwrap();
    let text = |encoding: Encoding| {
        move |builder: WriterPropertiesBuilder| {
            let column = ColumnPath::from("operation");
            builder
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, encoding)
        }
    };
    let choices: [(&str, Choice); 8] = [
        ("defaults", Box::new(|builder| builder)),
        ("plain", Box::new(|builder| builder.set_dictionary_enabled(false))),
        ("plain text", Box::new(text(Encoding::PLAIN))),
        ("lengths first", Box::new(text(Encoding::DELTA_LENGTH_BYTE_ARRAY))),
        ("common beginnings", Box::new(text(Encoding::DELTA_BYTE_ARRAY))),
        // The first page of names has codes, and the others have the names themselves.
        ("dictionary given up", Box::new(|builder| builder.set_dictionary_page_size_limit(1))),
        ("small pages", Box::new(|builder| builder.set_data_page_row_count_limit(1000))),
        ("one page", Box::new(|builder| builder.set_data_page_row_count_limit(1_000_000))),
    ];
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for (name, choice) in &choices {
            for groups in [&[50_000][..], &[1, 0, 29_999, 20_000], &[16_384, 33_616]] {
                let properties =
                    choice(WriterProperties::builder().set_writer_version(version)).build();
                write_table(&path, &table_of(&records), Repetition::OPTIONAL, groups, properties);
                let found = read(&path, &Options::default()).unwrap();
                assert!(found == expected, "{version:?}, {name}, {groups:?}");
                let found = read_columns(&path, &Options::default());
                assert!(found == columns_of(&expected), "{version:?}, {name}, {groups:?}");
            }
        }
    }
    // Columns in which no row may lack a value.
    let complete: Vec<Record> = records
        .iter()
        .map(|record| Record { latency_ns: Some(1), file_operation: Some(2), ..*record })
        .collect();
    let properties = WriterProperties::default();
    write_table(&path, &table_of(&complete), Repetition::REQUIRED, &[50_000], properties);
    write(&canonical, &complete, 50_000);
    let expected = read(&canonical, &Options::default()).unwrap();
    assert!(read(&path, &Options::default()).unwrap() == expected);
}

#[test]
fn wrong_columns_are_named() {
    let signed = |bits| Cells::Numbers(vec![Some(0)], bits, true);
    let bytes = Cells::Bytes(vec![Some("write".to_owned())]);
    let cases = [
        ("offset_bytes", signed(64), "the column offset_bytes is Int64 and should be UInt64"),
        ("device", counts([Some(0)], 64), "the column device is UInt64 and should be UInt32"),
        ("device", signed(32), "the column device is Int32 and should be UInt32"),
        ("flags", counts([Some(0)], 16), "the column flags is UInt16 and should be UInt8"),
        ("latency_ns", texts([None]), "the column latency_ns is Utf8 and should be UInt64"),
        (
            "operation",
            bytes,
            "the column operation is Binary and should be Dictionary(Int32, Utf8)",
        ),
        (
            "operation",
            counts([Some(1)], 8),
            "the column operation is UInt8 and should be Dictionary(Int32, Utf8)",
        ),
    ];
    for (name, cells, message) in cases {
        let path = foreign("wrong-type", |table| replace(table, name, &cells));
        let error = read(&path, &Options::default()).unwrap_err();
        assert_eq!((error.kind(), error.place()), (Kind::WrongFormat, None), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let path = foreign("missing", |table| table.retain(|(name, _)| *name != "flags"));
    let error = read(&path, &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.place()), (Kind::WrongFormat, None), "{error}");
    assert!(error.to_string().contains("the column flags is missing"), "{error}");
}

#[test]
fn wrong_values_are_named() {
    let cases = [
        ("arrival_ns", counts([None], 64), "the column arrival_ns has a row without value"),
        ("operation", texts([None]), "the column operation has a row without value"),
        ("operation", texts([Some("Write")]), "the operation is unknown: \"Write\""),
        ("flags", counts([Some(16)], 8), "the flags have an unknown bit: \"16\""),
        ("offset_bytes", counts([Some(u64::MAX)], 64), "an offset is too large"),
    ];
    for (name, cells, message) in cases {
        let path = foreign("wrong-value", |table| replace(table, name, &cells));
        let error = read(&path, &Options::default()).unwrap_err();
        assert_eq!((error.kind(), error.place()), (Kind::Malformed, Some(Place::Row(0))));
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// The place of an error is the first row of those that are decoded together.
#[test]
fn errors_far_into_a_file_have_their_place() {
    let path = directory("places").join("trace.parquet");
    let records = many_records(50_000);
    let plain = WriterProperties::builder().set_dictionary_enabled(false).build();
    let one_page = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(1_000_000)
        .build();
    for properties in [plain, one_page] {
        for (row, cell, message) in [
            (16_383, Some("erase"), "the operation is unknown: \"erase\""),
            (16_384, Some("erase"), "the operation is unknown: \"erase\""),
            (40_000, None, "the column operation has a row without value"),
        ] {
            let mut table = table_of(&records);
            if let Cells::Texts(texts) = &mut table[0].1 {
                texts[row] = cell.map(str::to_owned);
                // A second wrong name: the first is the one to tell.
                texts[49_999] = Some("burn".to_owned());
            }
            let groups = [20_000, 30_000];
            write_table(&path, &table, Repetition::OPTIONAL, &groups, properties.clone());
            let error = read(&path, &Options::default()).unwrap_err();
            let place = Place::Row(row as u64 / 16_384 * 16_384);
            assert_eq!((error.kind(), error.place()), (Kind::Malformed, Some(place)), "{error}");
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}

/// Traces that were captured once stay what they were, byte for byte.
#[test]
fn shipped_traces_are_written_again_as_they_are() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces");
    let path = directory("again").join("trace.parquet");
    let mut traces = 0;
    for folder in ["small", "ftl-windows"] {
        for entry in fs::read_dir(shipped.join(folder)).unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_none_or(|extension| extension != "parquet") {
                continue;
            }
            let mut reader = trace::open(&file, &Options::default()).unwrap();
            let metadata: BTreeMap<_, _> = reader.metadata().iter().cloned().collect();
            let (mut writer, mut batch) = (TraceWriter::create(&path).unwrap(), Vec::new());
            while reader.next_batch(&mut batch).unwrap() {
                writer.write(&batch).unwrap();
            }
            writer.finish(&metadata).unwrap();
            assert!(fs::read(&path).unwrap() == fs::read(&file).unwrap(), "{}", file.display());
            traces += 1;
        }
    }
    assert_eq!(traces, 10);
}
