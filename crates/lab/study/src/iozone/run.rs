//! One run: a board, its flash, a file system and IOzone on it, in simulated time.

use super::metrics::test_row;
use crate::StudyError;
use crate::flash_aging::{FlashPlan, REST_NS};
use crate::metric::TestRow;
use crate::raw_host::RawHost;
use crate::run_timeline::RunTimeline;
use crate::workload::contract::RunContext;
use fs_api::Errno;
use iozone::{Benchmark, BenchmarkError, Measurement, Options};
use mount::{BlockRequest, Driver, Machine, MountRequest, run_watched};
use random::Stream;
use std::rc::Rc;
use vfs::OpenOptions;

/// Repeats differ in nothing but these two: when, within a tick of the timer, IOzone begins, and at
/// which page of a block the file system stands then.
const PHASE: &str = "timer phase";
const POSITION: &str = "allocation position";

/// A run of IOzone on a file system.
#[derive(Clone, Debug)]
pub(crate) struct IozonePlan {
    pub(crate) host: RawHost,
    pub(crate) flash: FlashPlan,
    pub(crate) options: Options,
    /// Times that IOzone is run in a row; the times of a test are summed.
    pub(crate) passes: u32,
    /// The block device and its scheduler, if the file system stands on one.
    pub(crate) block: BlockRequest,
    /// Options of the mount, in the kernel's words.
    pub(crate) mount_options: Vec<String>,
    /// Axis values that the work depends on. The scheduler is not in it for a file system
    /// on raw NAND, which submits no bio, nor the cleaner for one that has none.
    pub(crate) work_key: Vec<String>,
}

/// Carries the run out; none if it was stopped before it began.
///
/// # Errors
/// [`StudyError::Study`] with the message of IOzone, or of the file system while its flash was made.
pub(super) fn run_iozone(
    plan: &IozonePlan,
    context: &RunContext<'_>,
) -> Result<Option<Vec<TestRow>>, StudyError> {
    if (context.stopped)() {
        return Ok(None);
    }
    let host = &plan.host;
    // Aged by the seed of the study: all repeats begin on the same flash.
    let chip = context.prepared.flash.copy(&plan.flash, context.study_seed)?;
    let seed = context.seed();
    let driver = Driver::of_board(host.layout, Rc::new(host.board.clone()));
    let (kind, options, passes) = (host.kind, plan.options.clone(), plan.passes);
    let request = MountRequest {
        profile: Some(host.profile.to_owned()),
        options: plan.mount_options.clone(),
        seed,
        block: plan.block.clone(),
        ..MountRequest::default()
    };
    let timeline = RunTimeline::begin(context)?;
    let outcome = run_watched(chip, &driver, seed, timeline.watcher(), |machine| async move {
        let benchmark = Benchmark::start(&machine, kind, request, seed).await;
        let mut benchmark = benchmark.map_err(|error| error.to_string())?;
        let prepared = prepare(&machine, &benchmark, &options, seed).await;
        prepared.map_err(|errno| format!("before IOzone: {errno}"))?;
        let mut done = Vec::new();
        for _ in 0..passes {
            let measured: Result<_, BenchmarkError> = benchmark.run(&options).await;
            done.push(measured.map_err(|error| error.to_string())?);
        }
        Ok(done)
    });
    let Some(value) = outcome.value else { unreachable!("nothing cuts the power") };
    let done: Vec<Vec<Measurement>> = value
        .map_err(|reason: String| StudyError::Study { place: plan.flash.key.clone(), reason })?;
    timeline.finish()?;
    let rows = (0..done[0].len()).map(|test| {
        let passes: Vec<&Measurement> = done.iter().map(|pass| &pass[test]).collect();
        test_row(host, &passes)
    });
    Ok(Some(rows.collect()))
}

/// Brings timer and allocation to where this repeat has them.
async fn prepare(
    machine: &Machine,
    benchmark: &Benchmark,
    options: &Options,
    seed: u64,
) -> Result<(), Errno> {
    let tick_ns = 1_000_000_000 / u64::from(machine.board.hz);
    let (caller, vfs) = (machine.root(), benchmark.vfs());
    // Fewer pages than a block has: the next file begins at any page of one.
    let pages = Stream::new(seed, POSITION).below(machine.mtd.geometry().pages_per_block);
    let page_bytes = machine.mtd.geometry().page_data_bytes as usize;
    let open = OpenOptions { create: Some(0o644), truncate: true, ..OpenOptions::default() };
    let file = vfs.open(&caller, b"position", open).await?;
    let mut contents = Stream::new(seed, POSITION);
    let page = || -> Vec<u8> { (0..page_bytes).map(|_| contents.next_u64() as u8).collect() };
    let bytes: Vec<u8> = std::iter::repeat_with(page).take(pages as usize).flatten().collect();
    vfs.write(&caller, &file, 0, &bytes).await?;
    // Synced, or the position would move later.
    vfs.fsync(&caller, &file).await?;
    vfs.close(&caller, file).await?;
    if !options.remounts {
        // Mounted long ago: nothing is left to be checked or erased. What was read then is forgotten.
        machine.sim.sleep(REST_NS).await;
        vfs.drop_caches().await?;
    }
    // Last of all, so that the first call of IOzone has this phase.
    machine.sim.sleep(u64::from(Stream::new(seed, PHASE).below(tick_ns as u32))).await;
    Ok(())
}
