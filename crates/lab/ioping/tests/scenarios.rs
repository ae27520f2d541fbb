//! Timelines worked out by hand: a device that takes the same time for every command, and nothing else that
//! takes any. So the latency of a read is the time of one command, and every pause is the tool's own.

use block::{BioTimes, Observer, QueueOptions, RequestQueue};
use board::{Board, Costs};
use device::ConstantDevice;
use ioping::{Access, Options, Report, find_profile, start};
use jobs::Region;
use page_cache::{BlockFile, CacheOptions, PageCache, queue_options};
use sched::{Direction, Elevator, ElevatorOptions, find_scheduler};
use sim::{Cpus, Simulation};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Time of a command: a millisecond and a half.
const SERVICE_NS: u64 = 1_500_000;
const MILLISECOND_NS: u64 = 1_000_000;
const DEVICE_BYTES: u64 = 64 << 20;
/// The target: a mebibyte somewhere on the device.
const REGION: Region = Region { offset_bytes: 8 << 20, bytes: 1 << 20 };

/// Direction, first sector and sectors of every bio; a flush has none.
#[derive(Default)]
struct Bios(Vec<(Direction, u64, u32)>);

impl Observer for Bios {
    fn completed(&mut self, times: &BioTimes) {
        self.0.push((times.bio.direction, times.bio.sector, times.bio.sectors));
    }
}

/// What a run leaves.
struct Done {
    reports: Vec<Report>,
    bios: Vec<(Direction, u64, u32)>,
}

impl Done {
    fn only(&self) -> &Report {
        assert_eq!(self.reports.len(), 1);
        &self.reports[0]
    }

    /// Sectors of the reads, in the order of completion.
    fn read_sectors(&self) -> Vec<u32> {
        let reads = self.bios.iter().filter(|(direction, ..)| *direction == Direction::Read);
        reads.map(|(_, _, sectors)| *sectors).collect()
    }
}

/// The board with processor time that costs nothing.
fn board() -> Board {
    let costs = Costs {
        syscall_ns: 0,
        bio_submit_ns: 0,
        bio_complete_ns: 0,
        page_ns: 0,
        copy_ps_per_byte: 0,
    };
    Board { costs, ..board::find_board("odroid-xu").expect("in the catalogue") }
}

/// Runs processes of a command line that differ in what their requests do.
fn run_all(version: &str, text: &str, accesses: &[Access], service_ns: u64) -> Done {
    let profile = find_profile(version).expect("a version");
    let options = Rc::new(Options::parse(text, profile).expect("a command line"));
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let entry = find_scheduler("noop").expect("in the table");
    let settings = entry.settings(&BTreeMap::new()).expect("defaults");
    let board = Rc::new(board());
    let elevator_options = ElevatorOptions { rotational: false, ..ElevatorOptions::default() };
    let of_queue: QueueOptions = queue_options(&board, elevator_options.max_sectors);
    let elevator = Elevator::new(entry, &settings, elevator_options);
    let device = Box::new(ConstantDevice::new(DEVICE_BYTES / 512, service_ns, 1));
    let queue = RequestQueue::new(&sim, elevator, device, of_queue);
    let bios = Rc::new(RefCell::new(Bios::default()));
    queue.observe(bios.clone());
    let cpus = Rc::new(Cpus::new(&sim, board.processors.count, board.processors.timeslice_ns));
    let cache = PageCache::new(&sim, &cpus, &board, CacheOptions::default());
    let file = BlockFile::new(&sim, cpus, board, queue.clone(), cache);
    let one =
        |(pid, access): (u32, &Access)| start(&sim, &file, &queue, &options, *access, REGION, pid);
    let handles: Vec<_> = (1000..).zip(accesses).map(one).collect();
    while handles.iter().any(|handle| !handle.is_finished()) {
        let until_ns = sim.now() + MILLISECOND_NS;
        simulation.run_until(until_ns);
        assert!(sim.now() < 100_000 * MILLISECOND_NS, "the tool never ends");
    }
    let reports = handles.iter().map(|handle| handle.try_take().expect("it is finished")).collect();
    let bios = std::mem::take(&mut bios.borrow_mut().0);
    Done { reports, bios }
}

/// Runs one process that does what its command line says.
fn run(version: &str, text: &str) -> Done {
    let profile = find_profile(version).expect("a version");
    let access = Options::parse(text, profile).expect("a command line").access;
    run_all(version, text, &[access], SERVICE_NS)
}

#[test]
fn until_0_9_the_interval_follows_the_request_and_since_1_0_requests_have_slots() {
    // Requests at 0, 11.5 and 23 ms; the last one ends at 24.5 ms.
    let early = run("v0.9", "-D -c 3 -i 10ms file");
    assert_eq!(early.only().elapsed_ns(), 24_500_000);
    assert_eq!((early.only().valid.count(), early.only().sum_ns), (3, 3 * SERVICE_NS));
    // Requests at 0, 10 and 20 ms; the last one ends at 21.5 ms. The first is no part of the statistics.
    let late = run("v1.0", "-D -c 3 -i 10ms file");
    assert_eq!(late.only().elapsed_ns(), 21_500_000);
    assert_eq!((late.only().valid.count(), late.only().sum_ns), (2, 2 * SERVICE_NS));
    assert_eq!((late.only().valid.min_ns(), late.only().valid.max_ns()), (SERVICE_NS, SERVICE_NS));
    // A slot has passed before the request ends: the next request follows at once, and nothing is made up for.
    assert_eq!(run("v1.3", "-D -c 3 -i 1ms file").only().elapsed_ns(), 3 * SERVICE_NS);
    assert_eq!(run("v0.9", "-D -c 3 -i 0 file").only().elapsed_ns(), 3 * SERVICE_NS);
}

#[test]
fn a_request_that_would_begin_at_the_deadline_is_not_made() {
    let requests = |version: &str, text: &str| run(version, text).only().requests;
    // 0.9 would begin the third at 23 ms, 1.3 at 20 ms.
    assert_eq!(requests("v0.9", "-D -w 23ms -i 10ms file"), 2);
    assert_eq!(requests("v0.9", "-D -w 24ms -i 10ms file"), 3);
    assert_eq!(requests("v1.3", "-D -w 23ms -i 10ms file"), 3);
    assert_eq!(requests("v1.3", "-D -w 20ms -i 10ms file"), 2);
    // Whichever end comes first.
    assert_eq!(requests("v1.3", "-D -w 1 -c 4 -i 10ms file"), 4);
    // Three seconds without a pause are 2,000 requests of 1.5 ms.
    assert_eq!(requests("v1.3", "-RD file"), 2000);
    assert_eq!(requests("v0.9", "-RD file"), 2000);
}

#[test]
fn limits_and_bursts_decide_when_the_next_request_begins() {
    // A hundred requests a second: one every 10 ms.
    assert_eq!(run("v1.3", "-D -r 100 -c 3 file").only().elapsed_ns(), 21_500_000);
    // 400 KiB a second in requests of 4 KiB are the same.
    assert_eq!(run("v1.3", "-D -l 400k -c 3 file").only().elapsed_ns(), 21_500_000);
    // Three requests end at 1.5, 3 and 4.5 ms. The slot was put off to 3 ms by the second, so the next burst
    // begins at 13 ms and ends at 17.5 ms.
    assert_eq!(run("v1.3", "-D -b 3 -c 6 -i 10ms file").only().elapsed_ns(), 17_500_000);
}

#[test]
fn a_clock_of_microseconds_shows_no_more() {
    let latencies = |version| {
        let done = run_all(version, "-D -c 2 -i 10ms file", &[Access::Read], 1_500_700);
        (done.only().valid.min_ns(), done.only().valid.max_ns())
    };
    // From 0 to 1,500.7 us, then from 11,500.7 to 13,001.4 us, each cut off to whole microseconds.
    assert_eq!(latencies("v0.9"), (1_500_000, 1_501_000));
    assert_eq!(latencies("v1.0"), (1_500_700, 1_500_700));
}

#[test]
fn pages_are_dropped_before_each_request_unless_it_is_cached() {
    // One block again and again.
    let dropped = run("v1.3", "-a 0 -i 0 -S 4k -c 3 file");
    assert_eq!(dropped.read_sectors(), [8, 8, 8]);
    assert_eq!(dropped.only().sum_ns, 3 * SERVICE_NS);
    let kept = run("v1.3", "-C -a 0 -i 0 -S 4k -c 3 file");
    assert_eq!(kept.only().valid.max_ns(), SERVICE_NS);
    assert_eq!((kept.only().valid.min_ns(), kept.only().sum_ns), (0, SERVICE_NS));
    // In order, and announced as random: no block is read ahead. Cached, the kernel reads ahead.
    let linear = run("v1.3", "-L -s 4k -i 0 -c 4 file");
    assert_eq!(linear.read_sectors(), [8; 4]);
    let places: Vec<u64> = linear.bios.iter().map(|(_, sector, _)| *sector).collect();
    let first = REGION.offset_bytes / 512;
    assert_eq!(places, [first, first + 8, first + 16, first + 24]);
    let ahead = run("v1.3", "-LC -s 4k -i 0 -c 16 file");
    assert!(ahead.read_sectors().iter().any(|sectors| *sectors > 8), "{:?}", ahead.read_sectors());
    // Behind its last block the working set begins again.
    let around = run("v1.3", "-L -D -s 4k -S 8k -i 0 -c 3 file");
    let places: Vec<u64> = around.bios.iter().map(|(_, sector, _)| *sector).collect();
    assert_eq!(places, [first, first + 8, first]);
}

#[test]
fn a_write_is_synced_within_the_measured_time_unless_it_is_cached() {
    let each_ns = |text: &str| {
        let done = run("v1.3", text);
        assert_eq!(done.only().valid.min_ns(), done.only().valid.max_ns(), "{text}");
        done.only().valid.max_ns()
    };
    // The write of the page, then a flush of the device.
    assert_eq!(each_ns("-WWW -a 0 -c 2 file"), 2 * SERVICE_NS);
    assert_eq!(each_ns("-WWW -D -a 0 -c 2 file"), 2 * SERVICE_NS);
    assert_eq!(each_ns("-WWW -DC -a 0 -c 2 file"), SERVICE_NS);
    // To memory alone.
    assert_eq!(each_ns("-WWW -C -a 0 -c 2 file"), 0);
    // `O_SYNC` does both before the call returns.
    assert_eq!(each_ns("-WWW -YC -a 0 -c 2 file"), 2 * SERVICE_NS);
    let in_turns = run("v1.0", "-WWG -DC -i 0 -c 4 file");
    let directions: Vec<Direction> =
        in_turns.bios.iter().map(|(direction, ..)| *direction).collect();
    let (write, read) = (Direction::Write, Direction::Read);
    assert_eq!(directions, [write, read, write, read]);
}

#[test]
fn the_file_of_a_directory_is_written_and_synced_before_the_first_request() {
    let done = run("v1.3", "-a 0 -S 64k -c 1 directory");
    let written: u32 =
        done.bios.iter().filter(|bio| bio.0 == Direction::Write).map(|bio| bio.2).sum();
    assert_eq!(written, 128, "64 KiB in sectors");
    let (last, flush) = (done.bios.last().expect("a read"), done.bios[done.bios.len() - 2]);
    assert_eq!((last.0, last.2, flush.2), (Direction::Read, 8, 0));
    assert!(done.only().start_ns >= 2 * SERVICE_NS, "the clock starts behind write and flush");
    assert_eq!(done.only().elapsed_ns(), SERVICE_NS);
    // What was written is still in memory.
    assert_eq!(run("v1.3", "-C -a 0 -S 64k -c 1 directory").only().elapsed_ns(), 0);
    // Until 0.9 a rest smaller than a request is not written.
    let written = |version: &str| {
        let done = run(version, "-s 8k -S 20k -c 1 directory");
        let writes = done.bios.iter().filter(|bio| bio.0 == Direction::Write);
        writes.map(|bio| bio.2).sum::<u32>()
    };
    assert_eq!((written("v0.9"), written("v1.0")), (32, 40));
}

#[test]
fn readers_and_writers_of_one_command_line_share_the_device() {
    let accesses = [Access::Read, Access::Write, Access::Alternate];
    let done = run_all("v1.3", "-DC -i 0 -a 0 -c 4 file", &accesses, SERVICE_NS);
    // One command at a time: the three take turns, and each waits for the two others.
    for report in &done.reports {
        assert_eq!(report.requests, 4);
        assert_eq!(report.valid.max_ns(), 3 * SERVICE_NS, "{:?}", report.access);
    }
    let writes = done.bios.iter().filter(|(direction, ..)| *direction == Direction::Write).count();
    assert_eq!((writes, done.bios.len()), (4 + 2, 12));
}

#[test]
fn a_request_past_the_working_set_never_happens() {
    let done = run("v1.3", "-D -i 0 -s 12k -o 8k -S 100k -c 500 file");
    let first = (REGION.offset_bytes + (8 << 10)) / 512;
    for (_, sector, sectors) in &done.bios {
        // Eight whole requests of 12 KiB fit into 100 KiB; what is left is never touched.
        assert!(*sector >= first && sector + u64::from(*sectors) <= first + 8 * 24, "{sector}");
        assert!((sector - first).is_multiple_of(24));
    }
}
