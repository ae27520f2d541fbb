//! A run of ioping on a mounted file system: a machine, its flash, a file system and processes of the tool.

use super::run::{FIRST_PID, Role, rows_of, sum};
use crate::StudyError;
use crate::flash_aging::{FlashPlan, REST_NS};
use crate::metric::{Metric, TestRow};
use crate::raw_host::RawHost;
use crate::run_timeline::RunTimeline;
use crate::workload::contract::{Identity, Measured, Plan, RunContext, StackPlan};
use ::ioping::{FILE_PATH, Options, Place, Report, Target, Version, start_on_mount};
use fs_api::{Errno, FileSystem};
use mount::{BlockRequest, Driver, Machine, MountRequest, Mounted, run_watched};
use random::Stream;
use std::rc::Rc;
use vfs::OpenOptions;

/// Repeats begin at another moment within a tick of the timer, beside drawing other places.
const PHASE: &str = "timer phase";
/// What the file holds that is the target `file`: bytes that no compressor makes smaller.
const CONTENTS: &str = "file of ioping";
/// Bytes that the file is written by.
const CHUNK_BYTES: usize = 64 << 10;

/// A run of ioping on a file system.
#[derive(Clone, Debug)]
pub(crate) struct MountedPlan {
    pub(crate) host: RawHost,
    pub(crate) flash: FlashPlan,
    /// The block device and its scheduler, if the file system stands on one.
    pub(crate) block: BlockRequest,
    pub(crate) options: Options,
    pub(crate) roles: Vec<Role>,
    /// Bytes of the file that is there before; 0 for none.
    pub(crate) file_bytes: u64,
    /// Axis values that the work depends on: not the scheduler for a file system on raw NAND.
    pub(crate) work_key: Vec<String>,
}

impl Plan for MountedPlan {
    fn carry_out(&self, context: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        let tests = run_mounted(self, context)?;
        Ok(tests.map(|tests| Measured { tests, ..Measured::default() }))
    }

    fn identity(&self, repeat: u32) -> Option<Identity> {
        Some(self.work_key.iter().cloned().chain([repeat.to_string()]).collect())
    }

    fn stack(&self) -> Option<StackPlan<'_>> {
        let Self { host, flash, block, .. } = self;
        Some(StackPlan { host, flash, block, mount_options: &[] })
    }
}

/// What a run leaves.
struct Done {
    reports: Vec<Report>,
    /// Bytes of the file system, as `statvfs` tells them.
    bytes: u64,
}

/// Carries the run out; none if it was stopped before it began.
///
/// # Errors
/// [`StudyError::Study`] with the call of ioping that failed, or with what makes the file impossible.
fn run_mounted(
    plan: &MountedPlan,
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
    let request = MountRequest {
        profile: Some(host.profile.to_owned()),
        seed,
        block: plan.block.clone(),
        ..MountRequest::default()
    };
    let own = plan.clone();
    let timeline = RunTimeline::begin(context)?;
    let outcome = run_watched(chip, &driver, seed, timeline.watcher(), |machine| async move {
        let mounted = machine.mount(own.host.kind, &request).await;
        let mounted = mounted.map_err(|error| error.to_string())?;
        let prepared = prepare(&machine, &mounted, own.file_bytes, seed).await;
        prepared.map_err(|errno| {
            format!("a file of {} bytes for ioping (host.free_bytes): {errno}", own.file_bytes)
        })?;
        let options = Rc::new(own.options);
        let start = |(pid, role): (u32, &Role)| {
            start_on_mount(&machine, &mounted, &options, role.access(), own.file_bytes, pid)
        };
        let handles: Vec<_> = (FIRST_PID..).zip(&own.roles).map(start).collect();
        let mut reports = Vec::new();
        for handle in handles {
            reports.push(handle.await);
        }
        // Before anything is counted: a process that failed leaves less work to the others.
        if let Some(error) = reports.iter().find_map(|report| report.error) {
            return Err(format!("ioping: {error}"));
        }
        let space = mounted.file_system.space();
        Ok(Done { reports, bytes: u64::from(space.block_bytes) * space.blocks })
    });
    let Some(value) = outcome.value else { unreachable!("nothing cuts the power") };
    let done: Done = value
        .map_err(|reason: String| StudyError::Study { place: plan.flash.key.clone(), reason })?;
    timeline.finish()?;
    // One repeat is enough to see the lines.
    let place = (context.repeat == 0).then(|| plan.place(done.bytes));
    let mut rows = rows_of(&done.reports, &plan.options, place);
    let all = rows.last_mut().expect("the row of all processes");
    all.metrics.extend(medium_metrics(&done.reports));
    Ok(Some(rows))
}

impl MountedPlan {
    /// What the lines of the tool say of the target.
    fn place(&self, file_system_bytes: u64) -> Place<'_> {
        let path = if self.options.target == Target::File { "file" } else { "directory" };
        let kind = self.host.kind;
        let device = if kind.is_on_block_device {
            self.block.device.name()
        } else {
            self.host.part.name.as_str()
        };
        // Before 1.2 the size of devices alone is shown.
        let is_shown = self.options.profile.version >= Version::V1_2;
        let bytes = if is_shown { file_system_bytes } else { 0 };
        Place { path, file_system: kind.kernel.type_name, device, bytes }
    }
}

/// What the medium did from the first request of any process to the end of the last one, for threads of the
/// kernel as well.
fn medium_metrics(reports: &[Report]) -> Vec<Metric> {
    let all = sum(reports.iter()).expect("a run has a process");
    let [begin, end] = all.medium_work.expect("a process on a file system counts it");
    let chip = end.chip - begin.chip;
    let mut metrics = vec![
        Metric::count("page_reads", chip.page_reads, "operations"),
        Metric::count("spare_reads", chip.spare_reads, "operations"),
        Metric::count("page_programs", chip.page_programs, "operations"),
        Metric::count("spare_programs", chip.spare_programs, "operations"),
        Metric::count("erases", chip.erases, "operations"),
    ];
    // A device with chips of its own; not raw NAND and mtdblock.
    if let (Some(begin), Some(end)) = (begin.device, end.device) {
        let count = |name, begin: u64, end: u64, unit| Metric::count(name, end - begin, unit);
        metrics.extend([
            count("device_reads", begin.reads, end.reads, "requests"),
            count("device_writes", begin.writes, end.writes, "requests"),
            count("device_read_sectors", begin.read_sectors, end.read_sectors, "sectors"),
            count("device_written_sectors", begin.written_sectors, end.written_sectors, "sectors"),
            count("device_flushes", begin.flushes, end.flushes, "requests"),
        ]);
    }
    metrics
}

/// Makes the file, lets the mount come to rest, and forgets what was read or written so far.
async fn prepare(
    machine: &Machine,
    mounted: &Mounted,
    file_bytes: u64,
    seed: u64,
) -> Result<(), Errno> {
    let (vfs, tick_ns) = (&mounted.vfs, 1_000_000_000 / u64::from(machine.board.hz));
    if file_bytes > 0 {
        let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = vfs.open(&machine.root(), FILE_PATH, open).await?;
        let mut numbers = Stream::new(seed, CONTENTS);
        let mut bytes = vec![0; CHUNK_BYTES];
        let mut at = 0;
        while at < file_bytes {
            for word in bytes.chunks_exact_mut(8) {
                word.copy_from_slice(&numbers.next_u64().to_le_bytes());
            }
            let count = (file_bytes - at).min(CHUNK_BYTES as u64);
            vfs.write(&machine.root(), &file, at, &bytes[..count as usize]).await?;
            at += count;
        }
        vfs.fsync(&machine.root(), &file).await?;
        vfs.close(&machine.root(), file).await?;
    }
    // Mounted long ago: nothing is left to be checked or erased. What was read then is forgotten.
    machine.sim.sleep(REST_NS).await;
    vfs.drop_caches().await?;
    machine.sim.sleep(u64::from(Stream::new(seed, PHASE).below(tick_ns as u32))).await;
    Ok(())
}
