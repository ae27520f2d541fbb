//! Requests against pages: what is read, written, trimmed and counted.

use crate::support;

use study::{DeviceOptions, HostCounters, Replay, build_device};
use support::{Folder, HEAD, value};
use trace::{AddressRule, Operation, Record};

const PAGE_BYTES: u64 = 2048;

/// A device of 64 pages of 2 KiB.
fn device(address: AddressRule) -> Replay {
    let options = DeviceOptions {
        ftl: "page".into(),
        part: Some("k9f2g08u0c".into()),
        blocks: Some(8),
        logical_bytes: Some(64 * PAGE_BYTES),
        ..DeviceOptions::default()
    };
    Replay::new(build_device(&options).unwrap(), address)
}

#[test]
fn a_partly_written_page_is_read_first_if_it_was_written_before() {
    // Offset and length in bytes; pages written; pages read to complete them, on a written device.
    let cases = [
        (0, 2048, 1, 0),
        (0, 512, 1, 1),
        (512, 512, 1, 1),
        (1536, 1024, 2, 2),
        (512, 2048 * 2, 3, 2),
        (2048, 2048 * 2 + 1, 3, 1),
        (2047, 1, 1, 1),
        (2047, 2, 2, 2),
        (2048 * 63 + 1, 2047, 1, 1),
        (100, 0, 0, 0),
    ];
    for (offset_bytes, length_bytes, written, completed) in cases {
        let mut replay = device(AddressRule::Error);
        replay.serve(Operation::Write, offset_bytes, length_bytes).unwrap();
        assert_eq!(
            replay.counters().page_reads,
            0,
            "{offset_bytes} {length_bytes}: nothing to read before"
        );
        replay.serve(Operation::Write, 0, 64 * 2048).unwrap();
        replay.reset_counters();
        replay.serve(Operation::Write, offset_bytes, length_bytes).unwrap();
        let (host, chip) = (replay.host(), replay.counters());
        assert_eq!(
            (host.write_pages, host.partial_writes),
            (written, completed),
            "{offset_bytes} {length_bytes}"
        );
        assert_eq!(
            (chip.page_programs, chip.page_reads),
            (written, completed),
            "{offset_bytes} {length_bytes}"
        );
        assert_eq!((host.read_pages, host.write_bytes), (0, u64::from(length_bytes)));
    }
}

#[test]
fn an_address_past_the_end_is_an_error_wraps_or_is_clipped() {
    let end = 64 * PAGE_BYTES;
    let mut replay = device(AddressRule::Error);
    replay.serve(Operation::Read, 0, 512).unwrap();
    let error = replay.serve(Operation::Write, end - 512, 1024).unwrap_err().to_string();
    assert_eq!(
        error,
        "request 2 (write of 1024 bytes at byte 130560): past the end of the device of 131072 bytes; \
         give the chip more blocks, or take a larger part"
    );
    assert!(device(AddressRule::Error).serve(Operation::Write, u64::MAX, 1024).is_err());

    let mut replay = device(AddressRule::Clip);
    replay.serve(Operation::Write, end - 512, 1024).unwrap();
    replay.serve(Operation::Write, end, 1024).unwrap();
    replay.serve(Operation::Write, u64::MAX - 5, 1024).unwrap();
    assert_eq!(
        replay.host(),
        HostCounters {
            requests: 3,
            write_pages: 1,
            write_bytes: 512,
            clipped: 3,
            ..HostCounters::default()
        }
    );

    let mut replay = device(AddressRule::Modulo);
    replay.serve(Operation::Write, end - 512, 1024).unwrap();
    replay.serve(Operation::Write, 5 * end + 2048, 2048).unwrap();
    replay.serve(Operation::Write, u64::MAX - 5, u32::MAX).unwrap();
    let host = replay.host();
    assert_eq!((host.clipped, host.write_bytes), (0, 1024 + 2048 + u64::from(u32::MAX)));
}

#[test]
fn a_trim_drops_the_pages_it_covers_whole() {
    let cases =
        [(0, 2048, 1), (0, 2047, 0), (1, 2048, 0), (1, 4096, 1), (512, 6144, 2), (2048, 4096, 2)];
    for (offset_bytes, length_bytes, trimmed) in cases {
        let mut replay = device(AddressRule::Error);
        replay.serve(Operation::Write, 0, 64 * 2048).unwrap();
        replay.serve(Operation::Trim, offset_bytes, length_bytes).unwrap();
        let gone = (0..64).filter(|lpn| replay.ftl().locate(*lpn).is_none()).count() as u64;
        assert_eq!(
            (replay.host().trim_pages, gone),
            (trimmed, trimmed),
            "{offset_bytes} {length_bytes}"
        );
    }
}

#[test]
fn a_flush_has_no_address() {
    let mut replay = device(AddressRule::Error);
    replay.serve(Operation::Flush, u64::MAX, 0).unwrap();
    replay.serve(Operation::Flush, 1 << 40, 512).unwrap();
    assert_eq!(replay.host(), HostCounters { requests: 2, ..HostCounters::default() });
    assert_eq!(replay.counters(), nand::Counters::default());
}

#[test]
fn a_reset_counts_from_zero_and_keeps_contents() {
    let mut replay = device(AddressRule::Error);
    for _ in 0..50 {
        replay.serve(Operation::Write, 0, 64 * 2048).unwrap();
    }
    replay.reset_counters();
    assert_eq!(replay.erase_counts().sum::<u32>(), 0);
    assert_eq!((replay.busy_ns(), replay.merges().cleaned), ([0; 3], 0));
    replay.serve(Operation::Read, 0, 64 * 2048).unwrap();
    assert_eq!(replay.counters().page_reads, 64);
    replay.serve(Operation::Write, 0, 64 * 2048).unwrap();
    assert_eq!(u64::from(replay.erase_counts().sum::<u32>()), replay.counters().erases);
}

/// Windows hold a fixed number of reads and writes, or of file operations; the last one counts if it
/// is full.
#[test]
fn windows_are_closed_when_full() {
    let folder = Folder::new("windows");
    let records: Vec<Record> = (0..250_u32)
        .map(|number| {
            let operation = if number % 5 == 4 { Operation::Flush } else { Operation::Write };
            let length_bytes = if operation == Operation::Flush { 0 } else { 512 };
            let mut record = Record::new(
                u64::from(number),
                operation,
                u64::from(number % 40) * 512,
                length_bytes,
            );
            record.file_operation = Some(number / 10);
            record
        })
        .collect();
    folder.trace("windows.parquet", &records);
    let text = |window: u32| {
        format!(
            "{HEAD}part = \"published-small-block\"\nblocks = 64\n[workload]\nkind = \"trace\"\n\
             file = \"windows.parquet\"\npreconditioning = \"none\"\nwindow = {window}\n[axes]\nftl = [\"page\"]\n"
        )
    };
    // 24 file operations are measured, of 8 writes and 2 flushes each: 192 writes.
    for (window, of_requests, of_operations) in
        [(100, 1, 0), (192, 1, 0), (193, 0, 0), (24, 8, 1), (12, 16, 2), (5, 38, 4)]
    {
        let results = folder.run(&text(window)).unwrap();
        assert_eq!(value(&results, "page", "windows"), of_requests.to_string(), "window {window}");
        assert_eq!(
            value(&results, "page", "operation_window_windows"),
            of_operations.to_string(),
            "window {window}"
        );
        assert_eq!(value(&results, "page", "file_operations"), "24");
        assert_eq!(value(&results, "page", "host_write_pages"), "192");
        if of_requests > 0 {
            assert_eq!(
                value(&results, "page", "writes_mean"),
                window.to_string(),
                "window {window}"
            );
        }
        if of_operations > 0 {
            assert_eq!(
                value(&results, "page", "operation_window_writes_mean"),
                (8 * window).to_string()
            );
        }
    }
}

/// Times of the chip of a replay: quantiles of what each request took, the longest one a write that cleans.
#[test]
fn a_replay_has_quantiles_of_service_times() {
    let folder = Folder::new("service-times");
    let mut records: Vec<Record> = (0..64_u64)
        .map(|page| Record::new(page, Operation::Write, page * PAGE_BYTES, 2048))
        .collect();
    let overwrites = (0..400_u64).map(|number| {
        Record::new(100 + number, Operation::Write, number * 37 % 64 * PAGE_BYTES, 2048)
    });
    records.extend(overwrites);
    records.extend(
        (0..36_u64).map(|page| Record::new(600 + page, Operation::Read, page * PAGE_BYTES, 2048)),
    );
    let trace = folder.trace("times.parquet", &records);
    let device = DeviceOptions {
        ftl: "page".into(),
        part: Some("k9f2g08u0c".into()),
        blocks: Some(5),
        logical_bytes: Some(64 * PAGE_BYTES),
        ..DeviceOptions::default()
    };
    let options = |service_times| study::ReplayOptions {
        device: device.clone(),
        service_times,
        ..study::ReplayOptions::default()
    };
    let results = study::replay_trace(&trace, &options(true)).unwrap();
    // What every request took, one after the other.
    let mut replay = Replay::new(build_device(&device).unwrap(), AddressRule::Error);
    let mut took: Vec<(Operation, u64)> = Vec::new();
    for record in &records {
        let before: u64 = replay.busy_ns().iter().sum();
        replay.serve(record.operation, record.offset_bytes, record.length_bytes).unwrap();
        took.push((record.operation, replay.busy_ns().iter().sum::<u64>() - before));
    }
    let times = results.service_times.clone().unwrap();
    let check = |found: Option<study::ServiceTimeQuantiles>, is_wanted: fn(Operation) -> bool| {
        let mut list: Vec<u64> =
            took.iter().filter(|(kind, _)| is_wanted(*kind)).map(|(_, took_ns)| *took_ns).collect();
        list.sort_unstable();
        let nth = |share: usize| list[(list.len() * share).div_ceil(10_000) - 1];
        let expected = study::ServiceTimeQuantiles {
            requests: list.len() as u64,
            p50_ns: nth(5_000),
            p90_ns: nth(9_000),
            p99_ns: nth(9_900),
            p999_ns: nth(9_990),
            p9999_ns: nth(9_999),
            max_ns: list[list.len() - 1],
        };
        assert_eq!(found, Some(expected));
    };
    check(times.all.clone(), |_| true);
    check(times.read.clone(), |kind| kind == Operation::Read);
    check(times.write.clone(), |kind| kind == Operation::Write);
    let (read, write) = (times.read.unwrap(), times.write.unwrap());
    assert!(read.p50_ns > 0 && read.max_ns < write.p50_ns && write.p50_ns < write.max_ns);
    assert_eq!(study::replay_trace(&trace, &options(false)).unwrap().service_times, None);
    let total = took.iter().map(|(_, took_ns)| took_ns).sum::<u64>();
    let busy = results.metrics.iter().find(|metric| metric.name == "busy_ns").unwrap();
    assert_eq!(busy.value.to_string(), total.to_string());
}
