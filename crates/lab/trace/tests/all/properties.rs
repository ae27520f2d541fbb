//! Random traces survive the Parquet form, and every format as far as it can express them.

use crate::support;

use std::fmt::Write;
use std::path::Path;

use proptest::prelude::*;
use support::blktrace::{self, Entry};
use support::{directory, file, format, read};
use trace::{Flags, Operation, Options, Record, TimeUnit, convert};

const SECTOR_BYTES: u64 = 512;

fn any_record() -> impl Strategy<Value = Record> {
    let range = (0..1_u64 << 50, 1..1_u32 << 31);
    let extras = (0..16_u8, any::<Option<u64>>(), any::<Option<u32>>());
    (0..5_usize, any::<u32>(), range, extras).prop_map(|(code, device, range, extras)| {
        let operation = Operation::ALL[code];
        let (offset_bytes, length_bytes) =
            if operation == Operation::Flush { (0, 0) } else { range };
        Record {
            device,
            flags: Flags::from_bits(extras.0).unwrap(),
            latency_ns: extras.1,
            file_operation: extras.2,
            ..Record::new(0, operation, offset_bytes, length_bytes)
        }
    })
}

/// A trace as readers yield it: the first arrival is 0 and none is earlier than the one before.
fn any_trace() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec((any_record(), 0..10_000_000_000_u64), 1..200).prop_map(|records| {
        let mut arrival_ns = 0;
        let timed = records.into_iter().enumerate().map(|(index, (record, delay_ns))| {
            arrival_ns += if index == 0 { 0 } else { delay_ns };
            Record { arrival_ns, ..record }
        });
        timed.collect()
    })
}

/// A format that can be written as well as read, for these tests.
struct Dialect {
    name: &'static str,
    /// What is left of a record in this format; none if it has no place for the operation.
    express: fn(&Record) -> Option<Record>,
    write: fn(&[Record]) -> Vec<u8>,
}

/// The record without what only some formats know.
fn bare(record: &Record) -> Record {
    Record {
        device: record.device,
        ..Record::new(record.arrival_ns, record.operation, record.offset_bytes, record.length_bytes)
    }
}

fn data_only(record: &Record) -> Option<Record> {
    matches!(record.operation, Operation::Read | Operation::Write).then(|| bare(record))
}

fn in_sectors(record: Record) -> Record {
    let sectors = record.length_bytes.div_ceil(SECTOR_BYTES as u32);
    Record {
        offset_bytes: record.offset_bytes / SECTOR_BYTES * SECTOR_BYTES,
        length_bytes: sectors * SECTOR_BYTES as u32,
        ..record
    }
}

fn with_time_step(step_ns: u64, record: Record) -> Record {
    Record { arrival_ns: record.arrival_ns / step_ns * step_ns, ..record }
}

fn lines(records: &[Record], mut line: impl FnMut(&Record, &mut String)) -> Vec<u8> {
    let mut text = String::new();
    for record in records {
        line(record, &mut text);
        text.push('\n');
    }
    text.into_bytes()
}

fn five_numbers(records: &[Record]) -> Vec<u8> {
    lines(records, |record, text| {
        let kind = u8::from(record.operation == Operation::Read);
        let (sector, sectors) =
            (record.offset_bytes / SECTOR_BYTES, u64::from(record.length_bytes) / SECTOR_BYTES);
        write!(text, "{} {} {sector} {sectors} {kind}", record.arrival_ns, record.device).unwrap();
    })
}

fn seconds(time_ns: u64) -> String {
    format!("{}.{:09}", time_ns / 1_000_000_000, time_ns % 1_000_000_000)
}

const SECTOR_DIALECTS: [Dialect; 4] = [
    Dialect {
        name: "diskmon",
        express: |record| data_only(record).map(in_sectors),
        write: |records| {
            lines(records, |record, text| {
                let kind = if record.operation == Operation::Read { "Read" } else { "Write" };
                let time = seconds(record.arrival_ns);
                let (sector, sectors) =
                    (record.offset_bytes / 512, u64::from(record.length_bytes) / 512);
                write!(text, "0\t{time}\t0\t{}\t{kind}\t{sector}\t{sectors}", record.device)
                    .unwrap();
            })
        },
    },
    Dialect {
        name: "disksim",
        express: |record| {
            let flags = if record.flags.contains(Flags::SYNC) { Flags::SYNC } else { Flags::NONE };
            data_only(record).map(|bare| Record { flags, ..in_sectors(bare) })
        },
        write: |records| {
            lines(records, |record, text| {
                let (whole, part) = (record.arrival_ns / 1_000_000, record.arrival_ns % 1_000_000);
                let (sector, sectors) =
                    (record.offset_bytes / 512, u64::from(record.length_bytes) / 512);
                let read = u8::from(record.operation == Operation::Read);
                let flags = read | if record.flags == Flags::SYNC { 0x80 } else { 0 };
                let device = record.device;
                write!(text, "{whole}.{part:06} {device} {sector} {sectors} {flags:x}").unwrap();
            })
        },
    },
    Dialect {
        name: "mqsim",
        express: |record| data_only(record).map(in_sectors),
        write: five_numbers,
    },
    Dialect {
        name: "ssdsim",
        express: |record| data_only(record).map(in_sectors),
        write: five_numbers,
    },
];

const BYTE_DIALECTS: [Dialect; 3] = [
    Dialect {
        name: "msr",
        express: |record| {
            let latency_ns = record.latency_ns.unwrap_or(0) / 100 * 100;
            data_only(record)
                .map(|bare| Record { latency_ns: Some(latency_ns), ..with_time_step(100, bare) })
        },
        write: |records| {
            lines(records, |record, text| {
                let kind = if record.operation == Operation::Read { "Read" } else { "Write" };
                let ticks = 128_166_372_003_061_629 + record.arrival_ns / 100;
                let response = record.latency_ns.unwrap_or(0) / 100;
                let (device, offset, length) =
                    (record.device, record.offset_bytes, record.length_bytes);
                write!(text, "{ticks},hm,{device},{kind},{offset},{length},{response}").unwrap();
            })
        },
    },
    Dialect {
        name: "spc",
        express: |record| {
            data_only(record).map(|bare| Record {
                offset_bytes: bare.offset_bytes / SECTOR_BYTES * SECTOR_BYTES,
                ..bare
            })
        },
        write: |records| {
            lines(records, |record, text| {
                let kind = if record.operation == Operation::Read { 'R' } else { 'w' };
                let (block, time) = (record.offset_bytes / 512, seconds(record.arrival_ns));
                let length = record.length_bytes;
                write!(text, "{},{block}, {length},{kind},{time},x", record.device).unwrap();
            })
        },
    },
    Dialect {
        name: "fio-iolog",
        express: |record| {
            let is_known = record.operation != Operation::WriteZeroes;
            is_known.then(|| Record { device: 0, ..with_time_step(1000, bare(record)) })
        },
        write: |records| {
            let mut log = b"fio version 3 iolog\n0 f add\n0 f open\n".to_vec();
            log.extend(lines(records, |record, text| {
                let action = match record.operation {
                    Operation::Flush => "sync",
                    other => other.name(),
                };
                let time = record.arrival_ns / 1000;
                let (offset, length) = (record.offset_bytes, record.length_bytes);
                write!(text, "{time} f {action} {offset} {length}").unwrap();
            }));
            log
        },
    },
];

/// What blktrace records; latencies are left to tests with chosen times.
fn as_block_event(record: &Record) -> Option<Record> {
    let is_known = record.operation != Operation::WriteZeroes;
    is_known.then(|| {
        let (latency_ns, file_operation) = (None, record.file_operation);
        let record = Record { latency_ns, file_operation, ..in_sectors(*record) };
        Record { device: record.device & 0x00ff_ffff, ..record }
    })
}

/// Once there was an operation there always is one.
fn with_lasting_operations(records: &mut [Record]) {
    let mut last = None;
    for record in records {
        last = record.file_operation.or(last);
        record.file_operation = last;
    }
}

fn entries(records: &[Record]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut last = None;
    for record in records {
        if let Some(number) = record.file_operation.filter(|_| record.file_operation != last) {
            let text = format!("nandlab operation {number}");
            entries.push(Entry::message(record.arrival_ns, &text));
            last = record.file_operation;
        }
        let mut action = blktrace::ISSUE;
        action |= match record.operation {
            Operation::Read => blktrace::READ,
            Operation::Write => blktrace::WRITE,
            Operation::Trim => blktrace::WRITE | blktrace::DISCARD,
            _ => blktrace::READ | blktrace::FLUSH,
        };
        let bits = [
            (Flags::FUA, blktrace::FUA),
            (Flags::SYNC, blktrace::SYNC),
            (Flags::META, blktrace::META),
            (Flags::READAHEAD, blktrace::READAHEAD),
        ];
        for (_, bit) in bits.iter().filter(|(flag, _)| record.flags.contains(*flag)) {
            action |= bit;
        }
        let sector = record.offset_bytes / SECTOR_BYTES;
        let entry = Entry::request(record.arrival_ns, action, sector, record.length_bytes);
        entries.push(Entry { device: record.device, ..entry });
    }
    entries
}

fn blkparse_text(records: &[Record]) -> Vec<u8> {
    let mut last = None;
    lines(records, |record, text| {
        let (major, minor) = (record.device >> 20, record.device & 0xf_ffff);
        let time = seconds(record.arrival_ns);
        let start = format!("{major:3},{minor:<3}  0        1     {time}  1234");
        if let Some(number) = record.file_operation.filter(|_| record.file_operation != last) {
            writeln!(text, "{start}  m   N nandlab operation {number}").unwrap();
            last = record.file_operation;
        }
        let mut letters = match record.operation {
            Operation::Read => "R".to_owned(),
            Operation::Write => "W".to_owned(),
            Operation::Trim => "D".to_owned(),
            _ => "FN".to_owned(),
        };
        let marks =
            [(Flags::FUA, 'F'), (Flags::READAHEAD, 'A'), (Flags::SYNC, 'S'), (Flags::META, 'M')];
        letters.extend(marks.iter().filter(|(flag, _)| record.flags.contains(*flag)).map(|m| m.1));
        write!(text, "{start}  D {letters:>3} ").unwrap();
        if record.length_bytes > 0 {
            let (sector, sectors) = (record.offset_bytes / 512, record.length_bytes / 512);
            write!(text, "{sector} + {sectors} ").unwrap();
        }
        text.push_str("[a name [odd]]");
    })
}

fn check(records: &[Record], path: &Path, options: &Options) -> Result<(), TestCaseError> {
    let found = read(path, options).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(found.as_slice(), records, "{}", path.display());
    Ok(())
}

/// The expressible part of a trace, beginning at time 0 again.
fn expressed(trace: &[Record], express: fn(&Record) -> Option<Record>) -> Vec<Record> {
    let mut records: Vec<Record> = trace.iter().filter_map(express).collect();
    let first_ns = records.first().map_or(0, |record| record.arrival_ns);
    for record in &mut records {
        record.arrival_ns -= first_ns;
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn traces_survive_parquet(trace in any_trace()) {
        let path = directory("property-parquet").join("trace.parquet");
        let mut writer = trace::TraceWriter::create(&path).unwrap();
        writer.write(&trace).unwrap();
        writer.finish(&std::collections::BTreeMap::new()).unwrap();
        check(&trace, &path, &Options::default())?;
    }

    #[test]
    fn traces_survive_text(trace in any_trace()) {
        let directory = directory("property-text");
        for dialect in SECTOR_DIALECTS.iter().chain(&BYTE_DIALECTS) {
            let records = expressed(&trace, dialect.express);
            if records.is_empty() {
                continue;
            }
            let path = file(&directory, dialect.name, (dialect.write)(&records));
            let time_unit = (dialect.name == "mqsim").then_some(TimeUnit::Nanoseconds);
            let options = Options { time_unit, ..format(dialect.name) };
            check(&records, &path, &options)?;
            let output = directory.join("trace.parquet");
            convert(&path, &options, &output, &std::collections::BTreeMap::new()).unwrap();
            check(&records, &output, &Options::default())?;
        }
    }

    #[test]
    fn traces_survive_blktrace_in_both_forms(trace in any_trace()) {
        let directory = directory("property-blktrace");
        let mut records = expressed(&trace, as_block_event);
        with_lasting_operations(&mut records);
        if !records.is_empty() {
            let binary = file(&directory, "binary", blktrace::file_of(&entries(&records)));
            check(&records, &binary, &Options::default())?;
            let text = file(&directory, "text", blkparse_text(&records));
            check(&records, &text, &Options::default())?;
        }
    }
}
