//! Replays whose sums are known by hand: a device of constant time, one command at a time.

use device::{ConstantDevice, SECTOR_BYTES};
use device_replay::{Outcome, Pace, ReplayError, ReplayOptions, replay};
use sched::find_scheduler;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use trace::AddressRule;

/// Time of every command.
const SERVICE_NS: u64 = 100_000;
const DEVICE_SECTORS: u64 = 1 << 20;

/// A trace in MSR's format, whose times are in units of 100 ns: (time in us, kind, sector, sectors).
fn trace(name: &str, requests: &[(u64, &str, u64, u64)]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("device-replay-{name}.csv"));
    let line = |(at_us, kind, sector, sectors): &(u64, &str, u64, u64)| {
        let (offset, size) = (sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
        format!("{},host,0,{kind},{offset},{size},0\n", 128_166_372_000_000_000 + at_us * 10)
    };
    fs::write(&path, requests.iter().map(line).collect::<String>()).expect("a file of the test");
    path
}

fn options(trace: PathBuf, pace: Pace) -> ReplayOptions {
    ReplayOptions {
        trace,
        reading: trace::Options::default(),
        pace,
        address: AddressRule::Error,
        nr_requests: 128,
        timeline: None,
        seed: 1,
    }
}

fn play(options: &ReplayOptions) -> Result<Outcome, ReplayError> {
    let scheduler = find_scheduler("noop").expect("in the table");
    let settings = scheduler.settings(&BTreeMap::new()).expect("defaults");
    let device = Box::new(ConstantDevice::new(DEVICE_SECTORS, SERVICE_NS, 1));
    replay(options, (scheduler, &settings), device)
}

const OPEN: Pace = Pace::OpenLoop { time_ppm: 1_000_000 };

#[test]
fn requests_that_do_not_meet_take_the_time_of_the_device() {
    let path = trace("apart", &[(0, "Read", 0, 8), (1000, "Write", 800, 8), (2000, "Read", 8, 16)]);
    let found = play(&options(path, OPEN)).expect("a replay");
    assert_eq!((found.records, found.requests_in, found.requests_out), (3, 3, 3));
    assert_eq!(found.elapsed_ns, 2_000_000 + SERVICE_NS);
    let (read, write) = (&found.latencies["read"], &found.latencies["write"]);
    assert_eq!((read.requests, read.p50_ns, read.max_ns), (2, SERVICE_NS, SERVICE_NS));
    assert_eq!((write.requests, write.max_ns), (1, SERVICE_NS));
    // All of it is service, and a tenth of the time one request is outstanding.
    assert!(found.bands.iter().all(|band| (band.shares["service"] - 1.0).abs() < 1e-12));
    let busy = 3.0 * SERVICE_NS as f64 / found.elapsed_ns as f64;
    assert!((found.queue_depth_mean - busy).abs() < 1e-9 && found.queue_depth_max == 1);
    let sizes: Vec<(&str, u64)> =
        found.sizes.iter().map(|class| (class.operation, class.up_to_bytes)).collect();
    assert_eq!(sizes, [("read", 4096), ("read", 8192), ("write", 4096)]);
}

#[test]
fn what_waits_behind_others_says_behind_which() {
    let path = trace("behind", &[(0, "Write", 0, 8), (0, "Read", 800, 8), (0, "Read", 1600, 8)]);
    let found = play(&options(path, OPEN)).expect("a replay");
    assert_eq!(found.latencies["read"].max_ns, 3 * SERVICE_NS);
    let [first, last] = [&found.bands[0], &found.bands[1]];
    // The first read waits for the write; the second for both.
    assert!((first.shares["behind_writes"] - 0.5).abs() < 1e-9, "{first:?}");
    assert!((last.shares["behind_writes"] - 1.0 / 3.0).abs() < 1e-9, "{last:?}");
    assert!((last.shares["behind_reads"] - 1.0 / 3.0).abs() < 1e-9, "{last:?}");
    assert_eq!(found.queue_depth_max, 3);
}

#[test]
fn a_faster_trace_and_a_closed_loop_send_sooner() {
    let requests = [(0, "Read", 0, 8), (1000, "Read", 800, 8), (2000, "Read", 1600, 8)];
    let path = trace("paces", &requests);
    let elapsed = |pace| play(&options(path.clone(), pace)).expect("a replay").elapsed_ns;
    assert_eq!(elapsed(Pace::OpenLoop { time_ppm: 500_000 }), 1_000_000 + SERVICE_NS);
    assert_eq!(elapsed(Pace::ClosedLoop { queue_depth: 1 }), 3 * SERVICE_NS);
    assert_eq!(elapsed(Pace::ClosedLoop { queue_depth: 8 }), 3 * SERVICE_NS);
    let one = play(&options(path.clone(), Pace::ClosedLoop { queue_depth: 1 })).expect("a replay");
    assert_eq!((one.queue_depth_max, one.latencies["read"].max_ns), (1, SERVICE_NS));
}

/// A latency counts from the time in the trace, also where the limit of requests keeps it from being sent.
#[test]
fn waiting_for_a_request_of_the_pool_is_part_of_the_latency() {
    // Apart from each other, so that none is merged.
    let requests: Vec<(u64, &str, u64, u64)> =
        (0..40).map(|number| (0, "Write", number * 100, 8)).collect();
    let path = trace("limit", &requests);
    let found = play(&ReplayOptions { nr_requests: 4, ..options(path, OPEN) }).expect("a replay");
    assert_eq!(found.latencies["write"].max_ns, 40 * SERVICE_NS);
    let last = found.bands.last().expect("bands");
    assert!(last.shares["request_limit"] > 0.8, "{last:?}");
}

#[test]
fn addresses_past_the_end_are_refused_wrapped_or_clipped() {
    let end = DEVICE_SECTORS;
    let path = trace("end", &[(0, "Read", end - 4, 8), (9, "Read", end + 16, 8)]);
    let with = |address| play(&ReplayOptions { address, ..options(path.clone(), OPEN) });
    let refused = with(AddressRule::Error).expect_err("past the end").to_string();
    assert!(
        refused.starts_with("request 1: 4096 bytes at byte 536868864 lie past the end"),
        "{refused}"
    );
    let wrapped = with(AddressRule::Modulo).expect("a replay");
    assert_eq!((wrapped.records, wrapped.requests_in), (2, 3));
    assert!(
        wrapped
            .notes
            .iter()
            .any(|note| note.starts_with("1 request past the end of the device: sent as two"))
    );
    let clipped = with(AddressRule::Clip).expect("a replay");
    assert_eq!((clipped.records, clipped.requests_in), (2, 1));
    assert!(
        clipped
            .notes
            .iter()
            .any(|note| note.starts_with("2 requests past the end of the device: sh"))
    );
}

#[test]
fn a_trace_without_times_is_replayed_in_a_closed_loop_only() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("device-replay-tencent.csv");
    fs::write(&path, "1538323199,16,8,0,1\n1538323199,800,8,1,1\n").expect("a file of the test");
    let refused = play(&options(path.clone(), OPEN)).expect_err("no times").to_string();
    assert!(
        refused.contains("cannot be replayed at its own times: its times are whole"),
        "{refused}"
    );
    let found = play(&options(path, Pace::ClosedLoop { queue_depth: 1 })).expect("a replay");
    assert_eq!(found.elapsed_ns, 2 * SERVICE_NS);
}

/// A discard in a flash device frees what was written, and a write with force unit access is on the medium when it
/// completes, past a cache that takes other writes at once.
#[test]
fn discards_and_forced_writes_reach_the_device() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("device-replay-past.txt");
    let line = |number: u32, kind: &str, sector: u32, sectors: u32| {
        format!(
            "  8,0    0 {number:8}     0.{number:03}000000   100  D  {kind} {sector} + {sectors} [job]\n"
        )
    };
    let lines = [
        line(1, "WS", 0, 256),
        line(2, "WFS", 1024, 8),
        line(3, "D", 0, 256),
        line(4, "R", 0, 256),
        line(5, "WS", 2048, 8),
    ];
    fs::write(&path, lines.concat()).expect("a file of the test");
    let scheduler = find_scheduler("noop").expect("in the table");
    let settings = scheduler.settings(&BTreeMap::new()).expect("defaults");
    let spec = device::find_device("emmc-5.1-64gb").expect("a preset");
    let flash = device::build(&spec, 1).expect("it fits together");
    let found = replay(&options(path, OPEN), (scheduler, &settings), flash).expect("a replay");
    assert_eq!((found.records, found.requests_in, found.requests_out), (5, 5, 5));
    assert_eq!(found.latencies["discard"].requests, 1);
    let writes = &found.latencies["write"];
    assert_eq!(writes.requests, 3);
    // A program takes half a millisecond and more; a write into the cache does not wait for one.
    assert!(writes.max_ns > 500_000, "{writes:?}");
    assert!(writes.p50_ns < 500_000, "{writes:?}");
    // What was discarded is nowhere, so its read asks no die.
    let [page_reads, ..] = found.chip_operations;
    assert_eq!(page_reads, 0);
    assert!(found.notes.iter().all(|note| !note.contains("left out")), "{:?}", found.notes);
}
