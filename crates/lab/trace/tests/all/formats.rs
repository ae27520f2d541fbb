//! Every format on its sample, and what is common to reading them.

use crate::support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::blktrace::{self, Entry};
use support::{directory, file, format, read, sample};
use trace::{Event, FORMATS, Flags, Kind, Operation, Options, Record, TimeUnit};

use Operation::{Flush, Read, Trim, Write as Put};

/// The sample file of each format, and the options to read it.
fn samples() -> Vec<(&'static str, Options)> {
    let mqsim = Options { time_unit: Some(TimeUnit::Nanoseconds), ..format("mqsim") };
    vec![
        ("sample.blkparse.txt", format("blkparse")),
        ("vfat-jpg.blkparse.txt.gz", format("blkparse")),
        ("vfat-jpg.blktrace.0.gz", format("blktrace")),
        ("sample.diskmon.log", format("diskmon")),
        ("sample.disksim", format("disksim")),
        ("sample-v2.iolog", format("fio-iolog")),
        ("sample-v3.iolog", format("fio-iolog")),
        ("sample.mqsim", mqsim),
        ("sample.msr.csv", format("msr")),
        ("sample.spc", format("spc")),
        ("sample.ssdsim", format("ssdsim")),
        ("sample.alibaba.csv", format("alibaba")),
        ("sample.biosnoop", format("biosnoop")),
        ("sample.f2fs", format("f2fs")),
        ("sample.fiu.txt", format("fiu")),
        ("sample.ftrace", format("ftrace")),
        ("sample.libcachesim.csv", format("libcachesim-csv")),
        ("sample.midas", format("midas")),
        ("sample.oracleGeneral", format("oracle-general")),
        ("sample.systor.csv", format("systor")),
        ("sample.tencent.csv", format("tencent")),
        ("sample.vscsi", format("vscsi")),
        ("sample-v2.vscsi", format("vscsi")),
    ]
}

fn of(device: u32, record: Record) -> Record {
    Record { device, ..record }
}

fn took(latency_ns: u64, record: Record) -> Record {
    Record { latency_ns: Some(latency_ns), ..record }
}

fn expected(name: &str) -> Vec<Record> {
    const SECTOR: u64 = 512;
    match name {
        "sample.msr.csv" => vec![
            took(41_300, Record::new(0, Read, 383_496_192, 32768)),
            took(200_000, Record::new(1_332_052_600, Read, 2_822_144, 4096)),
            of(1, took(100_000, Record::new(1_332_052_600, Put, 3_154_132_992, 4096))),
            took(500_000_000, Record::new(2_332_137_000, Put, 7_014_609_920, 24576)),
        ],
        "sample.diskmon.log" => vec![
            Record::new(0, Put, 23_094_303 * SECTOR, 4096),
            Record::new(10_014_000, Read, 23_094_311 * SECTOR, 65536),
            of(1, Record::new(1_500_000_000, Put, (1 << 32) * SECTOR, 8192)),
        ],
        "sample.spc" => vec![
            Record::new(0, Put, 20_941_264 * SECTOR, 8192),
            Record::new(2_335_000, Put, 20_939_840 * SECTOR, 8192),
            of(1, Record::new(2_335_000, Read, 3_436_288 * SECTOR, 15872)),
            Record::new(448_294_001, Put, 20_939_840 * SECTOR, 4096),
        ],
        "sample.disksim" => vec![
            Record::new(0, Read, 264_719_034 * SECTOR, 8192),
            Record::new(1_500_000, Put, 264_719_050 * SECTOR, 4096),
            Record { flags: Flags::SYNC, ..of(1, Record::new(2_000_001, Put, 0, 4096)) },
            Record { flags: Flags::SYNC, ..of(1, Record::new(2_500_000, Read, 4096, 4096)) },
        ],
        "sample.mqsim" | "sample.ssdsim" => vec![
            of(4, Record::new(0, Put, 264_719_034 * SECTOR, 8192)),
            of(4, Record::new(1000, Read, 264_719_050 * SECTOR, 4096)),
            of(3, Record::new(7500, Put, 0, 512)),
        ],
        "sample-v2.iolog" => vec![
            Record::new(0, Put, 0, 4096),
            of(1, Record::new(500_000, Read, 8192, 4096)),
            Record::new(500_000, Trim, 0, 4096),
            Record::new(1_500_000, Flush, 0, 0),
            of(1, Record::new(1_500_000, Flush, 0, 0)),
        ],
        "sample-v3.iolog" => vec![
            Record::new(0, Put, 0, 4096),
            Record::new(25_000, Put, 4096, 4096),
            Record::new(40_000, Flush, 0, 0),
            Record::new(43_000, Trim, 0, 8192),
        ],
        "sample.blkparse.txt" => {
            let caused =
                |number, record| Record { file_operation: Some(number), ..of(8 << 20, record) };
            let flagged = |flags, record| Record { flags, ..record };
            vec![
                caused(0, flagged(Flags::SYNC, took(150_000, Record::new(0, Put, 1 << 20, 4096)))),
                caused(1, took(150_000, Record::new(298_000, Read, 1 << 21, 8192))),
                caused(1, took(49_000, Record::new(348_000, Trim, 1 << 22, 1 << 20))),
                caused(1, took(10_000, Record::new(398_000, Flush, 0, 0))),
                caused(1, Record::new(418_000, Flush, 0, 0)),
                caused(1, flagged(Flags::FUA | Flags::SYNC, Record::new(418_000, Put, 0, 4096))),
            ]
        }
        other => expected_of_more(other),
    }
}

/// The records of samples of published sets and of other tools.
fn expected_of_more(name: &str) -> Vec<Record> {
    const SECTOR: u64 = 512;
    match name {
        "sample.alibaba.csv" => vec![
            Record::new(0, Read, 126_703_644_672, 4096),
            of(1, Record::new(374_000, Put, 8192, 16384)),
            Record::new(374_000, Put, 126_703_648_768, 512),
        ],
        // In the order of arrival, which is not that of completion.
        "sample.biosnoop" => vec![
            took(250_000, Record::new(0, Read, 2048 * SECTOR, 4096)),
            of(1, took(850_000, Record::new(300_000, Put, 16 * SECTOR, 512))),
            took(100_000, Record::new(450_000, Put, 8192 * SECTOR, 8192)),
        ],
        "sample.fiu.txt" => vec![
            of(6 << 20, Record::new(0, Read, 283_193_184 * SECTOR, 4096)),
            of(6 << 20, Record::new(7538, Put, 1000 * SECTOR, 8192)),
        ],
        "sample.ftrace" => vec![
            of(8 << 20, took(250_000, Record::new(0, Read, 2048 * SECTOR, 4096))),
            of(
                8 << 20,
                took(
                    1_000_000,
                    Record { flags: Flags::SYNC, ..Record::new(800_000, Put, 4096 * SECTOR, 8192) },
                ),
            ),
        ],
        "sample.libcachesim.csv" => vec![
            Record::new(0, Put, 42_932_745 * SECTOR, 512),
            Record::new(0, Read, 8 * SECTOR, 4096),
            Record::new(2_000_000_000, Put, 16 * SECTOR, 8192),
        ],
        "sample.f2fs" => {
            let on_phone = |record| of((259 << 20) | 7, record);
            vec![
                on_phone(Record::new(0, Put, 10_240 * SECTOR, 8192)),
                on_phone(Record {
                    flags: Flags::READAHEAD | Flags::META,
                    ..Record::new(100_000, Read, 512 * SECTOR, 4096)
                }),
                on_phone(Record::new(1_000_000, Flush, 0, 0)),
                on_phone(Record {
                    flags: Flags::SYNC | Flags::META | Flags::FUA,
                    ..Record::new(1_000_000, Put, 4096 * SECTOR, 4096)
                }),
                on_phone(Record::new(2_000_000, Flush, 0, 0)),
                on_phone(Record::new(999_900_000, Trim, 0x500 * 4096, 8192)),
            ]
        }
        "sample.midas" => vec![
            Record::new(0, Put, 0, 4096),
            Record::new(49_590, Read, 5 * 4096, 8192),
            Record::new(60_200, Trim, 7 * 4096, 12_288),
            Record::new(2_353_440_204, Put, 1_048_576 * 4096, 512),
        ],
        "sample.oracleGeneral" => vec![
            Record::new(0, Read, 42_932_745 * SECTOR, 512),
            Record::new(0, Read, 8 * SECTOR, 4096),
            Record::new(2_000_000_000, Read, 42_932_745 * SECTOR, 512),
        ],
        "sample.systor.csv" => vec![
            of(2, took(806_000, Record::new(0, Read, 899_056_122_368, 131_072))),
            of(2, took(1_000_000, Record::new(924_000, Put, 4096, 8192))),
        ],
        "sample.tencent.csv" => vec![
            of(2313, Record::new(0, Read, 1_003_027_216 * SECTOR, 8192)),
            of(2313, Record::new(0, Put, 8 * SECTOR, 4096)),
            of(7, Record::new(1_000_000_000, Put, 16 * SECTOR, 131_072)),
        ],
        "sample.vscsi" => vec![
            Record::new(0, Put, 42_932_745 * SECTOR, 512),
            Record::new(198_000, Read, 8 * SECTOR, 4096),
            Record::new(1_198_000, Put, 16 * SECTOR, 8192),
        ],
        "sample-v2.vscsi" => vec![
            took(150_000, Record::new(0, Put, 42_932_745 * SECTOR, 512)),
            took(900_000, Record::new(198_000, Read, 8 * SECTOR, 4096)),
        ],
        other => panic!("no records are known for {other}"),
    }
}

#[test]
fn samples_give_the_expected_records() {
    for (name, options) in samples().into_iter().filter(|(name, _)| name.starts_with("sample")) {
        let records = read(&sample(name), &options).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(records, expected(name), "{name}");
    }
}

#[test]
fn the_format_is_found_from_the_content() {
    let directory = directory("detection");
    for (name, options) in samples() {
        // The copy's name tells nothing; mqsim and ssdsim need their names.
        let copy = directory.join("trace");
        fs::copy(sample(name), &copy).unwrap();
        let found = trace::open(&copy, &Options::default());
        if matches!(name, "sample.mqsim" | "sample.ssdsim") {
            let error = found.err().unwrap();
            assert_eq!(error.kind(), Kind::Ambiguous, "{error}");
            assert!(error.to_string().contains("--format disksim or mqsim or ssdsim"), "{error}");
            continue;
        }
        let found = found.unwrap_or_else(|error| panic!("{error}")).format().name;
        assert_eq!(Some(found), options.format.as_deref(), "{name}");
    }
    let by_name = trace::open(&sample("sample.ssdsim"), &Options::default()).unwrap();
    assert_eq!(by_name.format().name, "ssdsim");
}

#[test]
fn what_was_dropped_or_changed_is_counted() {
    let count = |name: &str| {
        let mut reader = trace::open(&sample(name), &Options::default()).unwrap();
        trace::summarise(&mut reader).unwrap().notes
    };
    let msr = count("sample.msr.csv");
    assert_eq!((msr.zero_length, msr.out_of_order), (1, 1));
    assert_eq!(count("sample-v2.iolog").short_waits, 1);
    assert_eq!(count("sample.systor.csv").unanswered, 1);
    assert_eq!((count("sample.ftrace").lost_events, count("sample.f2fs").lost_events), (1, 1));
    assert_eq!(
        (count("sample.vscsi").passthrough, count("sample.libcachesim.csv").passthrough),
        (1, 1)
    );
    assert_eq!(count("sample.blkparse.txt").passthrough, 1);
}

#[test]
fn binary_and_text_of_one_trace_are_the_same_records() {
    for (name, issued, queued) in [("vfat-jpg", 354, 850), ("ntfs3-mp3", 449, 713)] {
        for (event, expected) in [(Event::Issue, issued), (Event::Queue, queued)] {
            let options = Options { event, ..Options::default() };
            let binary = read(&sample(&format!("{name}.blktrace.0.gz")), &options).unwrap();
            let text = read(&sample(&format!("{name}.blkparse.txt.gz")), &options).unwrap();
            assert_eq!(binary.len(), expected, "{name}");
            assert!(binary == text, "{name}");
            let timed = binary.iter().filter(|record| record.latency_ns.is_some()).count();
            assert_eq!(timed, if event == Event::Issue { expected } else { 0 }, "{name}");
        }
    }
}

#[test]
fn compressed_and_piped_traces_read_the_same() {
    let directory = directory("compressed");
    for (name, options) in samples().into_iter().filter(|(name, _)| name.starts_with("sample")) {
        let content = fs::read(sample(name)).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(&content).unwrap();
        // Neither name tells the compression.
        let gzip = file(&directory, "one", gzip.finish().unwrap());
        let zstd = file(&directory, "two", zstd::encode_all(content.as_slice(), 3).unwrap());
        assert_eq!(read(&gzip, &options).unwrap(), expected(name), "{name}");
        assert_eq!(read(&zstd, &options).unwrap(), expected(name), "{name}");
    }
}

/// Runs in a process of its own, started by the test below.
#[test]
#[ignore = "reads standard input"]
fn child_reads_standard_input() {
    let records = read(Path::new("-"), &Options::default()).unwrap();
    assert_eq!(records, expected("sample.spc"));
}

#[test]
fn standard_input_is_a_trace() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "formats::child_reads_standard_input", "--ignored"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let content = zstd::encode_all(fs::File::open(sample("sample.spc")).unwrap(), 3).unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn records_of_one_device_can_be_chosen() {
    let options = Options { device: Some(1), ..Options::default() };
    let mut reader = trace::open(&sample("sample.spc"), &options).unwrap();
    let mut records = Vec::new();
    assert!(reader.next_batch(&mut records).unwrap());
    assert_eq!(records, [of(1, Record::new(0, Read, 3_436_288 * 512, 15872))]);
    assert_eq!(reader.notes().other_devices, 3);
    assert!(!reader.next_batch(&mut records).unwrap());
}

#[test]
fn the_unit_of_time_of_mqsim_counts() {
    for (unit, last) in [
        (TimeUnit::Picoseconds, 7),
        (TimeUnit::Nanoseconds, 7500),
        (TimeUnit::Microseconds, 7_500_000),
    ] {
        let options = Options { time_unit: Some(unit), ..format("mqsim") };
        let records = read(&sample("sample.mqsim"), &options).unwrap();
        assert_eq!(records.last().unwrap().arrival_ns, last);
    }
}

#[test]
fn a_byte_order_mark_and_carriage_returns_do_not_matter() {
    let text = fs::read_to_string(sample("sample.msr.csv")).unwrap();
    let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let path = file(&directory("windows"), "trace.csv", windows);
    assert_eq!(read(&path, &Options::default()).unwrap(), expected("sample.msr.csv"));
}

fn blktrace_entries() -> Vec<Entry> {
    use blktrace::{
        COMPLETE, DISCARD, FLUSH, FUA, ISSUE, META, PASSTHROUGH, QUEUE, READ, READAHEAD,
    };
    use blktrace::{SYNC, WRITE};
    vec![
        Entry::message(5, "nandlab operation 0\n"),
        Entry::request(10, QUEUE | WRITE, 8, 4096),
        Entry::request(100, ISSUE | WRITE | SYNC | FUA, 8, 4096),
        Entry::request(110, ISSUE | READ | READAHEAD | META, 1 << 33, 131_072),
        Entry::request(150, COMPLETE | READ | READAHEAD | META, 1 << 33, 131_072),
        Entry::request(200, COMPLETE | WRITE | SYNC | FUA, 8, 4096),
        Entry::message_of_cgroup(205, "nandlab operation 7"),
        Entry::message(206, "a message of another program"),
        Entry::request(210, ISSUE | WRITE | DISCARD, 64, 1 << 20),
        Entry::request(220, ISSUE | READ | FLUSH, 0, 0),
        Entry::request(240, COMPLETE | READ | FLUSH, 0, 0),
        Entry::request(250, ISSUE | READ | PASSTHROUGH, 0, 36),
        Entry::request(260, ISSUE | READ, 72, 0),
        Entry::request(300, ISSUE | WRITE | FLUSH | FUA, 128, 512),
    ]
}

fn blktrace_records() -> Vec<Record> {
    let caused = |number, flags, record| Record {
        file_operation: Some(number),
        flags,
        ..of(8 << 20, record)
    };
    let none = Flags::NONE;
    let (hint, fua) = (Flags::READAHEAD | Flags::META, Flags::FUA);
    vec![
        caused(0, Flags::SYNC | fua, took(100, Record::new(0, Put, 4096, 4096))),
        caused(0, hint, took(40, Record::new(10, Read, 1 << 42, 131_072))),
        caused(7, none, Record::new(110, Trim, 32768, 1 << 20)),
        caused(7, none, took(20, Record::new(120, Flush, 0, 0))),
        caused(7, none, Record::new(200, Flush, 0, 0)),
        caused(7, fua, Record::new(200, Put, 65536, 512)),
    ]
}

#[test]
fn blktrace_of_either_byte_order() {
    let directory = directory("byte-order");
    let entries = blktrace_entries();
    let little = file(&directory, "little", blktrace::file_of(&entries));
    let big: Vec<u8> = entries.iter().flat_map(Entry::big_endian).collect();
    let big = file(&directory, "big", big);
    assert_eq!(read(&little, &Options::default()).unwrap(), blktrace_records());
    assert_eq!(read(&big, &Options::default()).unwrap(), blktrace_records());
}

/// The text is what blkparse 1.2.0 prints for these entries.
#[test]
fn rare_requests_are_the_same_in_binary_and_text() {
    use blktrace::{
        COMPLETE, DISCARD, FLUSH, FUA, ISSUE, META, PASSTHROUGH, QUEUE, READ, READAHEAD,
    };
    use blktrace::{REQUEUE, SYNC, WRITE};
    let inquiry = |time_ns, moment| Entry {
        payload: vec![0x12, 0, 0, 0, 36, 0],
        ..Entry::request(time_ns, moment | READ | PASSTHROUGH, 0, 36)
    };
    let entries = [
        Entry::request(10, QUEUE | WRITE, 8, 4096),
        Entry::message(50, "nandlab operation 0"),
        Entry::request(100, ISSUE | WRITE | SYNC | FUA, 8, 4096),
        Entry::request(110, ISSUE | READ | READAHEAD | META, 1 << 33, 131_072),
        Entry::request(150, COMPLETE | READ | READAHEAD | META, 1 << 33, 131_072),
        Entry::request(200, COMPLETE | WRITE | SYNC | FUA, 8, 4096),
        Entry::message(206, "line\n"),
        Entry::request(210, ISSUE | WRITE | DISCARD, 64, 1 << 20),
        Entry::request(220, ISSUE | READ | FLUSH, 0, 0),
        Entry::request(240, COMPLETE | READ | FLUSH, 0, 0),
        Entry::request(250, ISSUE | READ | PASSTHROUGH, 0, 36),
        inquiry(251, ISSUE),
        inquiry(252, COMPLETE),
        Entry::request(255, COMPLETE | READ | PASSTHROUGH, 0, 36),
        Entry::request(256, REQUEUE | READ, 8, 4096),
        Entry::request(260, ISSUE | READ, 72, 0),
        Entry::request(300, ISSUE | WRITE | FLUSH | FUA, 128, 512),
        Entry::request(300, ISSUE | WRITE | FLUSH | FUA | PASSTHROUGH, 128, 0),
    ];
    let binary = file(&directory("rare"), "trace", blktrace::file_of(&entries));
    let mut readers = [binary, sample("rare.blkparse.txt")]
        .map(|path| trace::open(&path, &Options::default()).unwrap());
    let [binary, text] = readers.each_mut().map(|reader| trace::summarise(reader).unwrap());
    assert_eq!(binary.digest, text.digest);
    assert_eq!((binary.records, binary.flushes, binary.trims), (6, 2, 1));
    assert_eq!(binary.notes, text.notes);
    assert_eq!((binary.notes.passthrough, binary.notes.zero_length), (3, 1));
}

#[test]
fn blktrace_files_of_all_processors_are_merged() {
    let directory = directory("processors");
    let part = |wanted: usize| {
        let entries = blktrace_entries().into_iter().enumerate();
        let entries: Vec<Entry> =
            entries.filter(|(index, _)| index % 3 == wanted).map(|(_, entry)| entry).collect();
        blktrace::file_of(&entries)
    };
    let whole = |cpu: u32| directory.join(format!("sda.blktrace.{cpu}"));
    file(&directory, "sda.blktrace.0", "");
    file(&directory, "sda.blktrace.1", part(0));
    file(&directory, "sda.blktrace.2", part(1));
    file(&directory, "sda.blktrace.10.zst", zstd::encode_all(part(2).as_slice(), 3).unwrap());
    file(&directory, "sdb.blktrace.0", "another trace");
    let names: [PathBuf; 5] = [
        whole(0),
        whole(2),
        directory.join("sda.blktrace.10.zst"),
        directory.join("sda"),
        directory.join("sda.blktrace"),
    ];
    for name in names {
        let records = read(&name, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(records, blktrace_records(), "{}", name.display());
    }
}

#[test]
fn documentation_lists_every_format() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/trace-formats.md");
    let text = fs::read_to_string(path).unwrap();
    for entry in FORMATS {
        let cells = [entry.summary, entry.time, entry.address, entry.length, entry.operations];
        let row = format!("| `{}` | {} |", entry.name, cells.join(" | "));
        assert!(text.contains(&row), "docs/trace-formats.md lacks the row\n{row}");
    }
}

#[test]
fn records_that_are_cut_off_are_refused() {
    let directory = directory("cut-off");
    for name in ["sample.oracleGeneral", "sample.vscsi", "sample-v2.vscsi"] {
        let bytes = fs::read(sample(name)).unwrap();
        let cut = file(&directory, name, &bytes[..bytes.len() - 5]);
        let error = read(&cut, &Options::default()).unwrap_err();
        assert_eq!(error.kind(), Kind::Truncated, "{name}: {error}");
    }
}

#[test]
fn the_tool_of_bpftrace_is_refused_with_the_reason() {
    let text = "Attaching 4 probes...\nTIME(ms)     DISK    COMM             PID    LAT(ms)\n\
                611          nvme0n1 bash           4179         10\n";
    let path = file(&directory("bpftrace"), "biosnoop.txt", text);
    let error = read(&path, &Options::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
    assert!(error.to_string().contains("neither sector nor length"), "{error}");
}

#[test]
fn bios_of_f2fs_and_events_of_the_block_layer_are_never_mixed() {
    let directory = directory("f2fs");
    let bio = "a-1 [000] ... 1.0: f2fs_submit_write_bio: dev = (8,1)/(8,1), rw = WRITE(S), DATA, \
               sector = 8, size = 4096\n";
    let block = "a-1 [000] ... 2.0: block_rq_issue: 8,0 R 4096 () 2048 + 8 [a]\n";
    let both = file(&directory, "both", format!("{bio}{block}"));
    let device = |path: &Path, options: &Options| {
        let records = read(path, options).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(records.len(), 1);
        records[0].device & 1
    };
    assert_eq!(device(&both, &Options::default()), 0);
    assert_eq!(device(&both, &format("ftrace")), 0);
    assert_eq!(device(&both, &format("f2fs")), 1);
    // Where only the other kind is, the message names it.
    let text = format!("# tracer: nop\n{bio}");
    let error = read(&file(&directory, "bios", text), &format("ftrace")).unwrap_err();
    assert!(error.to_string().contains("--format f2fs"), "{error}");
    let text = format!("# tracer: nop\n{}{block}", "# a comment\n".repeat(20));
    let error = read(&file(&directory, "blocks", text), &format("f2fs")).unwrap_err();
    assert!(error.to_string().contains("--format ftrace"), "{error}");
}

#[test]
fn what_is_wrong_with_a_bio_of_f2fs_is_named() {
    let good = "a-1 [000] ... 1.0: f2fs_submit_read_bio: dev = (8,1)/(8,1), rw = READ(), DATA, \
                sector = 8, size = 4096\n";
    for (from, to, told) in [
        ("READ()", "ZONE_RESET()", "neither READ nor WRITE"),
        ("READ()", "READ(Q)", "a flag of the bio is unknown"),
        ("READ()", "READ(", "the flags have no closing parenthesis"),
        ("sector = 8", "sector = x", "the sector is not a whole number"),
        (", size = 4096", "", "`sector =` is missing"),
        ("size = 4096", "4096", "`size =` is missing"),
        ("dev = (8,1)", "dev = (8)", "the device is not major,minor"),
    ] {
        let text = format!("{good}{}", good.replace(from, to));
        let path = file(&directory("bad-f2fs"), "trace", text);
        let error = read(&path, &Options::default()).unwrap_err();
        assert!(error.to_string().contains(told), "{to}: {error}");
    }
}

#[test]
fn a_stream_of_midas_is_read_if_the_format_is_named() {
    let text = "0.5 1 2 4096 7\n0.6 3 2 4096 7\n";
    let path = file(&directory("midas-streams"), "trace", text);
    // The same lines are DiskSim's.
    let found = trace::open(&path, &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.format().name, "disksim");
    let records = read(&path, &format("midas")).unwrap();
    assert_eq!(
        records,
        [Record::new(0, Put, 8192, 4096), Record::new(100_000_000, Trim, 8192, 4096)]
    );
    for (line, told) in [
        ("0.7 2 2 4096", "the type is none of 0, 1 and 3"),
        ("0.7 1 2", "expected 4 fields and found 3"),
        ("0.7 1 2 4096 1 1", "expected 4 or 5 fields and found 6"),
        ("0.7 1 4503599627370496 4096", "the address is too large"),
    ] {
        let path = file(&directory("midas-bad"), "trace", format!("{text}{text}{line}\n"));
        let error = read(&path, &format("midas")).unwrap_err();
        assert!(error.to_string().contains(told), "{line}: {error}");
    }
}
