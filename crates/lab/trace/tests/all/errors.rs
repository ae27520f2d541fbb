//! Each way a trace can be wrong, with the message it gets.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use support::blktrace::{self, Entry};
use support::{directory, file, format, read, sample};
use trace::{Event, Kind, Options, Place, TimeUnit};

/// Format, the first line that is good, a bad second line, and the reason.
const BAD_LINES: &[(&str, &str, &str, &str)] = &[
    ("blkparse", BLKPARSE, "8,0 0 2 0.1 1 D", "the kind of request is missing"),
    ("blkparse", BLKPARSE, "8,0 0 2 0.1 1 Z W 0 + 8 [a]", "the action is unknown"),
    ("blkparse", BLKPARSE, "8,0 0 2 0.1 1 D QQ 0 + 8 [a]", "the kind of request is unknown"),
    (
        "blkparse",
        BLKPARSE,
        "8,0 0 2 5 1 D W 0 + 8 [a]",
        "the time is not in seconds and nanoseconds",
    ),
    ("blkparse", BLKPARSE, "8,0 0 2 -0.5 1 D W 0 + 8 [a]", "the time is negative"),
    ("blkparse", BLKPARSE, "8,0 0 2 0.1 1 D W x + 8 [a]", "the sector is not a whole number"),
    ("blkparse", BLKPARSE, "8,0 0 2 0.1 1 D W -8 + 8 [a]", "the sector is negative"),
    (
        "blkparse",
        BLKPARSE,
        "8,0 0 2 0.1 1 D W 0 + [a]",
        "the number of sectors is not a whole number",
    ),
    (
        "blkparse",
        BLKPARSE,
        "8,0 0 2 0.1 1 D W 0 + 8388608 [a]",
        "the number of sectors is too large",
    ),
    (
        "blkparse",
        BLKPARSE,
        "8,0 0 2 0.1 1 D W 36028797018963968 + 8 [a]",
        "the sector is too large",
    ),
    (
        "blkparse",
        BLKPARSE,
        "8,0 0 2 0.1 1 D W 36028797018963967 + 8 [a]",
        "the end of the range is too large",
    ),
    ("blkparse", BLKPARSE, "4096,0 0 2 0.1 1 D W 0 + 8 [a]", "the device number is too large"),
    ("blkparse", BLKPARSE, "what is this", "the line does not begin with major,minor"),
    (
        "blkparse",
        BLKPARSE,
        "8,0 0 0 0.1 0 m N nandlab operation x",
        "the operation number is not a whole number",
    ),
    ("diskmon", DISKMON, "1\t0.1\t0\t0\tWrite\t8", "expected 7 fields and found 6"),
    (
        "diskmon",
        DISKMON,
        "1\t10:15:03\t0\t0\tWrite\t8\t8",
        "the time is a clock, not seconds from the start",
    ),
    ("diskmon", DISKMON, "1\t0,1\t0\t0\tWrite\t8\t8", "the time is not a decimal number"),
    ("diskmon", DISKMON, "1\t0.1\t0\t0\tErase\t8\t8", "the request is neither Read nor Write"),
    ("diskmon", DISKMON, "1\t0.1\t-1\t0\tWrite\t8\t8", "the duration is negative"),
    ("diskmon", DISKMON, "x\t0.1\t0\t0\tWrite\t8\t8", "the index is not a whole number"),
    ("disksim", DISKSIM, "1.5 0 8 8", "expected 5 fields and found 4"),
    ("disksim", DISKSIM, "1.5 0 8 8 1 0", "expected 5 fields and found 6"),
    ("disksim", DISKSIM, "1e3 0 8 8 1", "the arrival time is not a decimal number"),
    ("disksim", DISKSIM, "1.5 -1 8 8 1", "the device is negative"),
    ("disksim", DISKSIM, "1.5 0 8 8 g", "the flags field is not a whole number"),
    ("disksim", DISKSIM, "18446744073709.6 0 8 8 1", "the arrival time is too large"),
    ("fio-iolog", FIO_3, "200 f.dat write 0", "expected 2 fields and found 1"),
    ("fio-iolog", FIO_3, "200 f.dat", "the action is missing"),
    ("fio-iolog", FIO_3, "200 f.dat burn 0 1", "the action is unknown"),
    ("fio-iolog", FIO_3, "200 g.dat write 0 4096", "the file was not added"),
    ("fio-iolog", FIO_3, "f.dat write 0 4096", "the timestamp is not a whole number"),
    ("fio-iolog", FIO_3, "200 f.dat wait 500 0", "version 3 has no wait"),
    ("fio-iolog", FIO_3, "200 f.dat write 0 4294967296", "the length is too large"),
    ("fio-iolog", FIO_3, "18446744073709552 f.dat write 0 1", "the timestamp is too large"),
    (
        "fio-iolog",
        FIO_3,
        "200 f.dat write 18446744073709551615 1",
        "the end of the range is too large",
    ),
    ("mqsim", FIVE, "5 0 8 8 2", "the type is neither 0 (write) nor 1 (read)"),
    ("mqsim", FIVE, "5.5 0 8 8 1", "the arrival time is not a whole number"),
    ("mqsim", FIVE, "18446744073709551615 0 8 8 1", "the arrival time is too large"),
    ("ssdsim", FIVE, "5 0 8 8 1 3", "expected 5 fields and found 6"),
    ("ssdsim", FIVE, "5 0 8 -8 1", "the size is negative"),
    ("msr", MSR, "128166372003061629,hm,0,Read,383496192,32768", "expected 7 fields and found 6"),
    ("msr", MSR, "128166372003061629,hm,0,Erase,0,32768,413", "the type is neither Read nor Write"),
    ("msr", MSR, "128166372003061629,hm,0,Read,-1,32768,413", "the offset is negative"),
    ("msr", MSR, "128166372003061629,hm,0,Read,,32768,413", "the offset is missing"),
    ("msr", MSR, "128166372003061629,hm,0,Read,0,4294967296,413", "the size is too large"),
    ("msr", MSR, "184467440737095517,hm,0,Read,0,1,413", "the timestamp is too large"),
    ("spc", SPC, "0,20941264,8192,W", "expected at least 5 fields and found 4"),
    ("spc", SPC, "0,20941264,8192,D,0.6", "the opcode is neither R nor W"),
    ("spc", SPC, "0,20941264,8192,W,now", "the timestamp is not a decimal number"),
    ("spc", SPC, "-1,20941264,8192,W,0.6", "the ASU is negative"),
    ("spc", SPC, "0,36028797018963968,8192,W,0.6", "the LBA is too large"),
];

const BLKPARSE: &str = "8,0 0 1 0.000000000 1 D W 0 + 8 [a]";
const DISKMON: &str = "0\t0.0\t0\t0\tWrite\t0\t8";
const DISKSIM: &str = "0.5 0 0 8 0";
const FIO_3: &str = "100 f.dat write 0 4096";
const FIVE: &str = "0 0 0 8 0";
const MSR: &str = "128166372003061629,hm,0,Write,0,4096,413";
const SPC: &str = "0,0,4096,W,0.5";

fn options(format_name: &str) -> Options {
    let time_unit = (format_name == "mqsim").then_some(TimeUnit::Microseconds);
    Options { time_unit, ..format(format_name) }
}

#[test]
fn bad_lines_are_named_with_place_text_and_reason() {
    let directory = directory("bad-lines");
    for (format, good, bad, reason) in BAD_LINES {
        let header = if *format == "fio-iolog" { "fio version 3 iolog\n9 f.dat add\n" } else { "" };
        let text = format!("{header}{good}\n{bad}\n{good}\n");
        let path = file(&directory, "trace", &text);
        let error = read(&path, &options(format)).expect_err(bad);
        let line = 2 + header.lines().count() as u64;
        assert_eq!(error.reason(), *reason, "{format}: {bad}");
        assert_eq!((error.kind(), error.place()), (Kind::Malformed, Some(Place::Line(line))));
        assert_eq!(error.text(), Some(bad.escape_debug().to_string().as_str()));
        assert_eq!(error.file(), path.display().to_string());

        let options = Options { skip_bad_lines: true, ..options(format) };
        let mut reader = trace::open(&path, &options).unwrap();
        let summary = trace::summarise(&mut reader).unwrap();
        assert_eq!((summary.records, summary.notes.skipped_lines), (2, 1), "{format}: {bad}");
        let first = summary.notes.first_skipped.first().unwrap();
        assert!(first.starts_with(&format!("line {line}: {reason}")), "{first}");
    }
}

#[test]
fn the_message_reads_well() {
    let path = file(&directory("message"), "hm_0.csv", format!("{MSR}\n1,hm,0,Foo,0,1,1\n"));
    let error = read(&path, &Options::default()).unwrap_err();
    let expected = format!(
        "{}: line 2: the type is neither Read nor Write: \"1,hm,0,Foo,0,1,1\"",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn only_the_first_skipped_lines_are_shown() {
    let path =
        file(&directory("skipped"), "trace", format!("{SPC}\n").repeat(30) + &"x\n".repeat(9));
    let options = Options { skip_bad_lines: true, ..Options::default() };
    let mut reader = trace::open(&path, &options).unwrap();
    let notes = trace::summarise(&mut reader).unwrap().notes;
    assert_eq!((notes.skipped_lines, notes.first_skipped.len()), (9, 5));
}

/// The error of opening and reading a file of this content.
fn error_of(content: impl AsRef<[u8]>, options: &Options) -> trace::TraceError {
    // Tests run side by side, each file in a folder of its own.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = file(&directory(&format!("whole-file-{number}")), "trace", content);
    read(&path, options).expect_err("the trace is bad")
}

#[test]
fn whole_files_that_cannot_be_read() {
    let none = Options::default();
    let queue = Options { event: Event::Queue, ..Options::default() };
    let nanoseconds = Options { time_unit: Some(TimeUnit::Nanoseconds), ..format("spc") };
    let mut newer = blktrace::MAGIC.wrapping_add(1).to_le_bytes().to_vec();
    newer.extend([0; 44]);
    let cases: Vec<(trace::TraceError, Kind, &str)> = vec![
        (error_of("", &none), Kind::Empty, "the file is empty"),
        (error_of("hello\n", &none), Kind::Undetectable, "the content fits no format: \"hello\""),
        (error_of([0xff; 100], &none), Kind::Undetectable, "the content fits no format"),
        (error_of(SPC, &format("blktrase")), Kind::UnknownFormat, "did you mean blktrace?"),
        (error_of(SPC, &format("msr")), Kind::WrongFormat, "the content is not msr but spc"),
        (error_of(SPC, &format("blktrace")), Kind::WrongFormat, "not blktrace but spc"),
        (error_of(SPC, &format("parquet")), Kind::WrongFormat, "not parquet but spc"),
        (error_of(FIVE, &format("mqsim")), Kind::Usage, "--time-unit ps, ns or us"),
        (error_of(SPC, &nanoseconds), Kind::Usage, "the time unit of spc is fixed"),
        (error_of("0, 0, 4096\n1, 0, 4096\n", &none), Kind::Unsupported, "a fio log of version 1"),
        (error_of("fio version 4 iolog\n", &none), Kind::Unsupported, "versions 2 and 3 are"),
        (error_of("nothing", &format("fio-iolog")), Kind::WrongFormat, "the first line is not"),
        (error_of(newer, &none), Kind::Unsupported, "blktrace version 8 is not read"),
        (error_of(BLKPARSE, &queue), Kind::Usage, "--event D"),
        (error_of("x".repeat(70_000), &format("spc")), Kind::WrongFormat, "the line is too long"),
        (error_of("PAR1 and no more", &none), Kind::Truncated, "it may be cut off"),
    ];
    for (error, kind, message) in cases {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let missing = read(&sample("no-such-file"), &none).unwrap_err();
    assert_eq!((missing.kind(), missing.reason()), (Kind::Missing, "there is no such file"));
    assert_eq!(read(&sample(""), &none).unwrap_err().reason(), "this is a directory");
}

#[test]
fn cut_off_files_are_reported_with_their_place() {
    let entries =
        [Entry::request(1, blktrace::ISSUE | blktrace::WRITE, 0, 512), Entry::message(2, "hello")];
    let binary = blktrace::file_of(&entries);
    for (length, found) in [(60, "12 bytes of 48"), (98, "2 bytes of 5")] {
        let error = error_of(&binary[..length], &Options::default());
        assert_eq!((error.kind(), error.place()), (Kind::Truncated, Some(Place::Byte(48))));
        assert!(error.to_string().contains(found), "{error}");
    }
    let mut broken = binary.clone();
    broken[48] ^= 0xff;
    broken[51] ^= 0xff;
    let error = error_of(&broken, &Options::default());
    assert_eq!((error.kind(), error.place()), (Kind::Malformed, Some(Place::Byte(48))));

    let text = format!("{SPC}\n").repeat(20_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    for cut in [gzip.len() / 2, 20] {
        let error = error_of(&gzip[..cut], &Options::default());
        assert_eq!(error.kind(), Kind::Truncated, "{error}");
    }
    let zstd = zstd::encode_all(text.as_bytes(), 0).unwrap();
    let error = error_of(&zstd[..zstd.len() / 2], &Options::default());
    assert_eq!(error.kind(), Kind::Truncated, "{error}");

    let parquet = directory("cut-parquet").join("trace.parquet");
    trace::convert(&sample("sample.spc"), &Options::default(), &parquet, &BTreeMap::new()).unwrap();
    let content = fs::read(&parquet).unwrap();
    let error = error_of(&content[..content.len() - 9], &Options::default());
    assert_eq!(error.kind(), Kind::Truncated, "{error}");
    let compressed = zstd::encode_all(content.as_slice(), 3).unwrap();
    let error = error_of(&compressed, &Options::default());
    assert_eq!(error.kind(), Kind::Unsupported, "{error}");
}

#[test]
fn a_failed_conversion_leaves_no_file() {
    let directory = directory("failed-conversion");
    let input = file(&directory, "trace.spc", format!("{SPC}\nbad\n"));
    let output = directory.join("trace.parquet");
    let made = BTreeMap::new();
    assert!(trace::convert(&input, &Options::default(), &output, &made).is_err());
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
}
