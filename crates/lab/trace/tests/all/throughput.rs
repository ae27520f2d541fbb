//! How fast the Parquet form is read: a figure, not a check.
//!
//! `cargo test --release -p trace --test all throughput -- --ignored --nocapture`
#![allow(clippy::print_stdout, reason = "the figure is the point")]

use crate::support;

use std::collections::BTreeMap;
use std::path::Path;

use support::{Random, directory};
use trace::{Columns, Operation, Options, Record, TraceWriter};

const RECORDS: usize = 8_000_000;
const PAGE_BYTES: u32 = 4096;
const PAGES: usize = 4_000_000;

fn write_single_pages(path: &Path) {
    let (mut writer, mut random) = (TraceWriter::create(path).unwrap(), Random::new(1));
    let mut batch = Vec::new();
    let mut arrival_ns = 0;
    for number in 0..RECORDS {
        arrival_ns += random.below(50_000) as u64;
        let offset_bytes = random.below(PAGES) as u64 * u64::from(PAGE_BYTES);
        batch.push(Record {
            file_operation: Some((number / 1000) as u32),
            ..Record::new(arrival_ns, Operation::Write, offset_bytes, PAGE_BYTES)
        });
        if batch.len() == 4096 {
            writer.write(&batch).unwrap();
            batch.clear();
        }
    }
    writer.write(&batch).unwrap();
    writer.finish(&BTreeMap::new()).unwrap();
}

/// Time this thread has run, as Linux counts it: other programs on the machine do not blur it.
fn processor_ns() -> u64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn rate(name: &str, start_ns: u64, records: usize) {
    let elapsed_ns = processor_ns() - start_ns;
    println!("{name}: {:.1} million records/s", records as f64 / elapsed_ns as f64 * 1e3);
    assert_eq!(records, RECORDS);
}

#[test]
#[ignore = "a measurement"]
fn decode_rate_of_single_page_writes() {
    let path = directory("throughput").join("single-pages.parquet");
    let start = processor_ns();
    write_single_pages(&path);
    rate("write", start, RECORDS);
    let bytes = std::fs::metadata(&path).unwrap().len();
    println!("size: {:.2} bytes/record", bytes as f64 / RECORDS as f64);
    for _ in 0..3 {
        let start = processor_ns();
        let reader = trace::open(&path, &Options::default()).unwrap();
        let (mut reader, mut columns) = (reader.into_columns().unwrap(), Columns::default());
        let mut count = 0;
        while reader.next_columns(&mut columns).unwrap() {
            count += columns.len();
        }
        rate("read, four columns", start, count);

        let start = processor_ns();
        let mut reader = trace::open(&path, &Options::default()).unwrap();
        let (mut batch, mut count) = (Vec::new(), 0);
        while reader.next_batch(&mut batch).unwrap() {
            count += batch.len();
        }
        rate("read, whole records", start, count);
    }
}
