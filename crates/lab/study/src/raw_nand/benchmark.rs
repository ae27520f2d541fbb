//! IOzone as the study on Android ran it: writes without `-e`, the first read cold, the second warm.
//!
//! The file system is synced and forgets its pages before the read test; nothing else is between the
//! tests. `random-rewrite` is no test of IOzone: it is the random-write test run a second time over
//! the same file, in the same order.

use super::contract::{Context, RawNandRun};
use crate::StudyError;
use crate::iozone::test_row;
use crate::metric::{Metric, TestRow};
use fs_api::{Errno, FileSystem, PAGE_BYTES};
use iozone::{Benchmark, BenchmarkError, Measurement, Options};
use mount::{Machine, SharedMount};
use random::Stream;
use std::cell::Cell;
use std::rc::Rc;
use vfs::{OpenOptions, Vfs};

/// Names of the streams: when within a tick IOzone begins, and at which page the file system stands.
const PHASE: &str = "timer phase";
const POSITION: &str = "allocation position";
/// Interval at which memory is looked at.
const LOOK_NS: u64 = 10_000_000;
/// Number of IOzone's test of reads, before which the cache is emptied.
const READ_TEST: u32 = 1;
/// Number of IOzone's test of random reads and writes.
const RANDOM_TEST: u32 = 2;

/// Runs the tests of IOzone, with the memory of the mount watched.
///
/// # Errors
/// [`StudyError::Study`] with the message of IOzone. A full file system is a result: the row `all` says so.
pub(super) fn run_benchmark(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let (value, _) = plan.on_machine(context, |machine, own, seed| async move {
        let options = own.benchmark.clone().expect("the plan has options for this test");
        let request = own.request(seed);
        let started = Benchmark::start(&machine, own.host.kind, request, seed).await;
        let mut benchmark = started.map_err(|error| error.to_string())?;
        let prepared = prepare(&machine, benchmark.vfs(), seed).await;
        prepared.map_err(|errno| format!("before IOzone: {errno}"))?;
        let watch = Watch::start(&machine, benchmark.vfs());
        let tests = tests_with_cold_read(&mut benchmark, &options, true).await;
        let (memory_bytes, dirty_bytes) = watch.most();
        match tests {
            Ok(done) => Ok((done, memory_bytes, dirty_bytes)),
            Err(BenchmarkError::Call { errno: Errno::Enospc, .. }) => {
                Ok((Vec::new(), memory_bytes, dirty_bytes))
            }
            Err(error) => {
                // What the mount found says more than the error of a call.
                let findings = benchmark.vfs().file_system().findings().await;
                let found = findings.into_iter().map(|finding| finding.text);
                Err([error.to_string()].into_iter().chain(found).collect::<Vec<_>>().join("; "))
            }
        }
    })?;
    let (done, memory_bytes, dirty_bytes): (Vec<Measurement>, u64, u64) =
        value.map_err(|reason: String| plan.failed(reason))?;
    let most = vec![
        Metric::count("memory_bytes_max", memory_bytes, "bytes"),
        Metric::count("dirty_bytes_max", dirty_bytes, "bytes"),
        Metric::count("is_full", done.is_empty().into(), "yes or no"),
    ];
    let mut rows: Vec<TestRow> = done.iter().map(|one| test_row(&plan.host, &[one])).collect();
    rows.push(TestRow::new("all", most));
    Ok(rows)
}

/// The tests in the order of IOzone, each by itself; the file stays. If `rewrites`, the random-write
/// test is done once more after itself.
pub(super) async fn tests_with_cold_read(
    benchmark: &mut Benchmark,
    options: &Options,
    rewrites: bool,
) -> Result<Vec<Measurement>, BenchmarkError> {
    let mut done = Vec::new();
    for test in &options.tests {
        done.extend(one_test(benchmark, options, test).await?);
        if rewrites && test.number == RANDOM_TEST {
            let again = one_test(benchmark, options, test).await?;
            let again = again.into_iter().filter(|one| one.test == "random-write");
            done.extend(again.map(|one| Measurement { test: "random-rewrite", ..one }));
        }
    }
    Ok(done)
}

/// A test; the file system is synced and forgets its pages before one that reads.
async fn one_test(
    benchmark: &mut Benchmark,
    options: &Options,
    test: &'static iozone::Test,
) -> Result<Vec<Measurement>, BenchmarkError> {
    if test.number == READ_TEST {
        // The clock stands between tests, so it does not matter how long this takes.
        let vfs = benchmark.vfs().clone();
        let at = |errno| BenchmarkError::Call { test: "read", call: "sync", errno };
        vfs.sync().await.map_err(at)?;
        vfs.drop_caches().await.map_err(at)?;
    }
    // One test at a time, on the file that the first one made.
    let alone = Options { tests: vec![test], keeps_file: true, ..options.clone() };
    benchmark.run(&alone).await
}

/// Brings timer and allocation to where this repeat has them.
pub(super) async fn prepare(
    machine: &Machine,
    vfs: &Rc<Vfs<SharedMount>>,
    seed: u64,
) -> Result<(), Errno> {
    let tick_ns = 1_000_000_000 / u64::from(machine.board.hz);
    let caller = machine.root();
    let mut numbers = Stream::new(seed, POSITION);
    let pages = numbers.below(machine.mtd.geometry().pages_per_block);
    let mut bytes = vec![0; (pages * machine.mtd.geometry().page_data_bytes) as usize];
    super::boot::fill(&mut bytes, &mut numbers);
    let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
    let file = vfs.open(&caller, b"position", open).await?;
    vfs.write(&caller, &file, 0, &bytes).await?;
    // Synced, or the position would move later.
    vfs.fsync(&caller, &file).await?;
    vfs.close(&caller, file).await?;
    // Mounted long ago: nothing is left to be checked or erased. What was read then is forgotten.
    machine.sim.sleep(crate::flash_aging::REST_NS).await;
    vfs.drop_caches().await?;
    machine.sim.sleep(u64::from(Stream::new(seed, PHASE).below(tick_ns as u32))).await;
    Ok(())
}

/// The most memory that the mount, and its dirty pages, took.
pub(super) struct Watch(Rc<Cell<(u64, u64)>>);

impl Watch {
    pub(super) fn start(machine: &Machine, vfs: &Rc<Vfs<SharedMount>>) -> Self {
        let most = Rc::new(Cell::new((0, 0)));
        let (place, sim, vfs) = (most.clone(), machine.sim.clone(), vfs.clone());
        machine.sim.spawn_named("memory watch", async move {
            let mut last_look = None;
            loop {
                let polls = sim.polls();
                // A look walks all structures. If no task but this one ran since the last look, they are as
                // they were: idle hours would else cost more processor time than the work itself.
                if last_look.is_none_or(|last| polls > last + 1) {
                    let (memory, dirty) = place.get();
                    let now = vfs.file_system().memory().total_bytes();
                    let dirty_now = vfs.dirty_pages() * PAGE_BYTES as u64;
                    place.set((memory.max(now), dirty.max(dirty_now)));
                }
                last_look = Some(polls);
                sim.sleep(LOOK_NS).await;
            }
        });
        Self(most)
    }

    pub(super) fn most(&self) -> (u64, u64) {
        self.0.get()
    }
}
