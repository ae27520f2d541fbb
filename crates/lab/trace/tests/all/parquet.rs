//! The canonical form: round trips, equal bytes for equal records, and files of other writers.

use crate::support;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::arrow::ArrowWriter;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt8Array, UInt32Array, UInt64Array};
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
    assert_eq!(names.len(), 14);
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

/// A file of one row as another program might write it; `change` alters its columns.
fn foreign(name: &str, change: impl FnOnce(&mut Vec<(&'static str, ArrayRef)>)) -> PathBuf {
    let path = directory(name).join("trace.parquet");
    let mut columns: Vec<(&'static str, ArrayRef)> = vec![
        ("operation", Arc::new(StringArray::from(vec!["write"]))),
        ("comment", Arc::new(StringArray::from(vec!["an extra column"]))),
        ("arrival_ns", Arc::new(UInt64Array::from(vec![Some(0)]))),
        ("offset_bytes", Arc::new(UInt64Array::from(vec![4096]))),
        ("length_bytes", Arc::new(UInt32Array::from(vec![512]))),
        ("device", Arc::new(UInt32Array::from(vec![0]))),
        ("flags", Arc::new(UInt8Array::from(vec![0]))),
        ("latency_ns", Arc::new(UInt64Array::from(vec![None]))),
        ("file_operation", Arc::new(UInt32Array::from(vec![None]))),
    ];
    change(&mut columns);
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

fn replace(columns: &mut [(&'static str, ArrayRef)], name: &str, array: &ArrayRef) {
    columns
        .iter_mut()
        .filter(|column| column.0 == name)
        .for_each(|column| column.1 = array.clone());
}

#[test]
fn files_of_other_writers_are_read_if_their_columns_are_right() {
    let path = foreign("foreign", |_| {});
    let records = read(&path, &Options::default()).unwrap();
    assert_eq!(records, [Record::new(0, Operation::Write, 4096, 512)]);
    assert_eq!(read_columns(&path, &Options::default()), columns_of(&records));
}

#[test]
fn wrong_columns_are_named() {
    let missing = foreign("foreign-1", |columns| columns.retain(|(name, _)| *name != "flags"));
    let typed = foreign("foreign-2", |columns| {
        replace(columns, "device", &(Arc::new(UInt64Array::from(vec![0])) as ArrayRef));
    });
    let null = foreign("foreign-3", |columns| {
        replace(columns, "arrival_ns", &(Arc::new(UInt64Array::from(vec![None])) as ArrayRef));
    });
    let word = foreign("foreign-4", |columns| {
        replace(columns, "operation", &(Arc::new(StringArray::from(vec!["Write"])) as ArrayRef));
    });
    let flags = foreign("foreign-5", |columns| {
        replace(columns, "flags", &(Arc::new(UInt8Array::from(vec![16])) as ArrayRef));
    });
    let range = foreign("foreign-6", |columns| {
        replace(
            columns,
            "offset_bytes",
            &(Arc::new(UInt64Array::from(vec![u64::MAX])) as ArrayRef),
        );
    });
    let cases = [
        (missing, Kind::WrongFormat, None, "the column flags is missing"),
        (typed, Kind::WrongFormat, None, "the column device is UInt64 and should be UInt32"),
        (null, Kind::Malformed, Some(0), "the column arrival_ns has a row without value"),
        (word, Kind::Malformed, Some(0), "the operation is unknown: \"Write\""),
        (flags, Kind::Malformed, Some(0), "the flags have an unknown bit: \"16\""),
        (range, Kind::Malformed, Some(0), "an offset is too large"),
    ];
    for (path, kind, row, message) in cases {
        let error = read(&path, &Options::default()).unwrap_err();
        assert_eq!((error.kind(), error.place()), (kind, row.map(Place::Row)), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
}
