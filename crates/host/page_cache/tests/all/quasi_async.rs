//! Write-back that a task waits for, passed to the scheduler as synchronous.

use crate::support::{DEVICE_BYTES, MIB, Rig, board, rig_under};
use block::{Plugging, PoolRules, QueueOptions};
use device::ConstantDevice;
use page_cache::{Mode, Process};
use random::Stream;
use sched::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const MS: u64 = 1_000_000;
const WAITER: Process = Process::new(7);

/// Linux 3.4 or another kernel over a device that takes `service_ns` a command, one at a time.
fn rig(scheduler: &str, way: &str, kernel: &str, available_bytes: u64, service_ns: u64) -> Rig {
    let mut board = board();
    board.kernel = kernel.into();
    board.available_bytes = available_bytes;
    let queue_options = QueueOptions {
        plugging: Plugging::Task,
        pool: PoolRules::PerSync,
        max_sectors: 1024,
        queue_depth: 1,
        cores: 1,
    };
    let device = Box::new(ConstantDevice::new(DEVICE_BYTES / 512, service_ns, 1));
    let given = BTreeMap::from([("quasi_async".to_owned(), Value::from(way))]);
    rig_under(board, device, queue_options, (scheduler, &given))
}

/// How a task comes to wait for page 700.
#[derive(Clone, Copy, Debug)]
enum Wait {
    WritesAgain,
    Truncates,
    Locks,
    Syncs,
    ReadsDirectly,
    Nothing,
}

/// Pages in the order in which they were sent, in hundreds: the flusher writes ten pages, 100 apart, and half a
/// millisecond later the task waits for the seventh.
fn sent(scheduler: &str, way: &str, kernel: &str, wait: Wait) -> Vec<u64> {
    let mut rig = rig(scheduler, way, kernel, 1024 * MIB, MS);
    let (sim, cache) = (rig.sim.clone(), rig.cache.clone());
    // `fsync` waits for what its own file has under way: page 700 is the first of a partition.
    let (low, high) = (rig.file.partition(0..700 * 8), rig.file.partition(700 * 8..2000 * 8));
    let (low_file, high_file) = (low.clone(), high.clone());
    sim.clone().spawn(async move {
        for page in 1..=10 {
            let (file, page) = if page < 7 { (&low_file, page) } else { (&high_file, page - 7) };
            file.write(Process::new(3), page * 100 * 4096, 4096, Mode::Buffered)
                .await
                .expect("room");
        }
        cache.relieve(0, 100).await;
    });
    sim.clone().spawn(async move {
        sim.sleep(MS / 2).await;
        let mapping = high.mapping();
        match wait {
            Wait::WritesAgain => drop(high.write(WAITER, 0, 4096, Mode::Buffered).await),
            Wait::Truncates => mapping.truncate(0).await,
            Wait::Locks => mapping.unlock_pages(&mapping.lock_pages(0).await),
            Wait::Syncs => mapping.write_and_wait(WAITER, 0..1).await,
            Wait::ReadsDirectly => drop(high.read(WAITER, 0, 4096, Mode::Direct).await),
            Wait::Nothing => drop(low.read(WAITER, 100 * 4096, 4096, Mode::Buffered).await),
        }
    });
    // Before the flusher looks for old pages.
    rig.simulation.run_until(1_000 * MS);
    let completed = rig.completed.borrow();
    let writes = completed.0.iter().filter(|times| times.bio.direction == sched::Direction::Write);
    let mut writes: Vec<_> = writes.map(|times| (times.issue_ns, times.bio.sector / 800)).collect();
    writes.sort_unstable();
    writes.into_iter().map(|(_, page)| page).collect()
}

const IN_ORDER: [u64; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
const SEVENTH_NEXT: [u64; 10] = [1, 7, 2, 3, 4, 5, 6, 8, 9, 10];
/// Truncation, and a file system that holds pages, wait for all four pages of the partition.
const FOUR_NEXT: [u64; 10] = [1, 7, 8, 9, 10, 2, 3, 4, 5, 6];
/// As if the block layer learned of each wait when the one before is over.
const ONE_BY_ONE: [u64; 10] = [1, 7, 2, 8, 3, 9, 4, 10, 5, 6];

#[test]
fn a_page_that_a_task_waits_for_is_written_next() {
    let waits = [
        (Wait::WritesAgain, SEVENTH_NEXT),
        (Wait::Truncates, FOUR_NEXT),
        (Wait::Locks, FOUR_NEXT),
        (Wait::Syncs, SEVENTH_NEXT),
        (Wait::ReadsDirectly, SEVENTH_NEXT),
        (Wait::Nothing, IN_ORDER),
    ];
    for (wait, by_hand) in waits {
        for way in ["waits", "waits-and-throttling"] {
            let found = sent("cfq-3.4", way, "3.4", wait);
            assert_eq!(found, by_hand, "{way} {wait:?}");
            // The planted answers, of which the first is what Linux does.
            let planted = if by_hand == IN_ORDER { SEVENTH_NEXT } else { IN_ORDER };
            assert!(found != planted && found != ONE_BY_ONE, "{way} {wait:?}");
            assert_eq!(sent("noop", way, "3.4", wait), IN_ORDER, "{wait:?}: no better place");
        }
        assert_eq!(sent("cfq-3.4", "asynchronous", "3.4", wait), IN_ORDER, "{wait:?}");
    }
    // SFQ takes three asynchronous requests a visit.
    assert_eq!(sent("sfq", "waits", "3.4", Wait::Syncs), [1, 2, 3, 7, 4, 5, 6, 8, 9, 10]);
    // Since 3.9 a page may change while it is written, if the device computes no checksums.
    assert_eq!(sent("cfq-3.4", "waits", "3.10", Wait::WritesAgain), IN_ORDER);
}

#[test]
fn a_partition_has_its_own_pages_and_sectors() {
    let mut rig = rig("noop", "asynchronous", "3.4", 64 * MIB, MS);
    let part = rig.file.partition(80..160);
    assert_eq!((part.size_bytes(), rig.file.size_bytes()), (40_960, DEVICE_BYTES));
    let inner = part.partition(8..16);
    let (whole, sim) = (rig.file.clone(), rig.sim.clone());
    sim.spawn(async move {
        part.write(WAITER, 4096, 4096, Mode::Buffered).await.expect("room");
        assert!(part.write(WAITER, 40_960, 4096, Mode::Buffered).await.is_err(), "behind its end");
        inner.write(WAITER, 0, 512, Mode::Direct).await.expect("room");
        part.fsync(WAITER).await.expect("the device is sound");
        assert_eq!((part.mapping().unwritten_pages(), whole.mapping().unwritten_pages()), (0, 0));
    });
    rig.simulation.run();
    let sectors: Vec<_> = rig.completed.borrow().0.iter().map(|times| times.bio.sector).collect();
    assert_eq!(sectors[..2], [88, 88]);
}

/// What `fsync` took while another process wrote.
#[derive(Debug, PartialEq)]
struct Synced {
    longest_ns: u64,
    mean_ns: u64,
    promoted: u64,
    /// Bytes that the writer wrote meanwhile.
    written_bytes: u64,
    took_ns: u64,
}

/// A process writes all over a partition as fast as it may. Another writes 4 KiB to a small file, pauses for 100 ms
/// and calls `fsync`, a hundred times: the load of the first author's measurement of 2016.
fn sync_under_load(scheduler: &str, way: &str, kernel: &str, seed: u64) -> Synced {
    let mut rig = rig(scheduler, way, kernel, 64 * MIB, 2 * MS);
    let sectors = DEVICE_BYTES / 512;
    let (large, small) =
        (rig.file.partition(0..sectors / 2), rig.file.partition(sectors / 2..sectors));
    let written = Rc::new(RefCell::new(0));
    let (sim, counted) = (rig.sim.clone(), written.clone());
    sim.spawn(async move {
        let mut stream = Stream::new(seed, "offsets");
        let pages = u32::try_from(large.size_bytes() / 4096).expect("a small device");
        loop {
            let page = u64::from(stream.below(pages));
            let wrote = large.write(Process::new(20), page * 4096, 4096, Mode::Buffered).await;
            *counted.borrow_mut() += wrote.expect("room").bytes;
        }
    });
    let times = Rc::new(RefCell::new(Vec::new()));
    let (sim, taken) = (rig.sim.clone(), times.clone());
    sim.clone().spawn(async move {
        // The cache fills first.
        sim.sleep(5_000 * MS).await;
        for call in 0..100 {
            small.write(WAITER, call * 4096, 4096, Mode::Buffered).await.expect("room");
            sim.sleep(100 * MS).await;
            let synced = small.fsync(WAITER).await.expect("sound");
            taken.borrow_mut().push(synced.latency_ns);
        }
        sim.stop();
    });
    while !rig.sim.is_stopped() {
        let until_ns = rig.sim.now() + 1_000 * MS;
        rig.simulation.run_until(until_ns);
        assert!(rig.sim.now() < 1_000_000 * MS, "the calls never end");
    }
    let times = times.borrow();
    Synced {
        longest_ns: *times.iter().max().expect("a hundred"),
        mean_ns: times.iter().sum::<u64>() / 100,
        promoted: rig.queue.promoted_requests(),
        written_bytes: *written.borrow(),
        took_ns: rig.sim.now(),
    }
}

/// Longest calls in milliseconds, by seed.
fn longest_ms(scheduler: &str, way: &str) -> [u64; 5] {
    [1, 2, 3, 4, 5].map(|seed| sync_under_load(scheduler, way, "3.4", seed).longest_ns / MS)
}

/// A write and a flush of 2 ms each, behind the one that is with the device, are 6 to 8 ms. SFQ ends its visit of
/// three asynchronous requests first: 4 ms more.
#[test]
fn the_longest_sync_under_load_falls() {
    assert_eq!(longest_ms("cfq-3.4", "asynchronous"), [279, 321, 279, 321, 279]);
    assert_eq!(longest_ms("cfq-3.4", "waits"), [7; 5]);
    assert_eq!(longest_ms("sfq", "asynchronous"), [253, 267, 265, 283, 235]);
    assert_eq!(longest_ms("sfq", "waits"), [11; 5]);
    // The planted answer: a scheduler that tells no synchronous write gains nothing.
    let noop = longest_ms("noop", "waits");
    assert_eq!(noop, longest_ms("noop", "asynchronous"));
    assert!(noop.into_iter().all(|longest| longest > 250), "{noop:?}");
}

/// The writers of the extension compete with the call that a task waits for.
#[test]
fn promoted_throttling_costs_what_promoted_waits_gain() {
    for (kernel, waits_ms, throttling_ms) in [("2.6.35", 95, 123), ("3.4", 7, 151)] {
        let run = |way| sync_under_load("cfq-3.4", way, kernel, 1);
        let (without, waits, throttling) =
            (run("asynchronous"), run("waits"), run("waits-and-throttling"));
        assert_eq!(waits.longest_ns / MS, waits_ms, "{kernel}");
        assert_eq!(throttling.longest_ns / MS, throttling_ms, "{kernel}");
        assert!(throttling.longest_ns < without.longest_ns, "{kernel}");
        assert_eq!(without.promoted, 0, "{kernel}");
        assert!(throttling.promoted > 10 * waits.promoted, "{kernel}: {throttling:?}, {waits:?}");
        assert_eq!(run("waits"), waits, "{kernel}: the same run differs");
        // The writer loses nothing: bytes a second, within 5 %.
        let rate = |synced: &Synced| synced.written_bytes * 1000 / (synced.took_ns / MS);
        let (rate, before) = (rate(&waits), rate(&without));
        assert!(rate * 20 >= before * 19, "{kernel}: {rate} of {before} bytes a second");
    }
}
