//! A piece of work on a file system, from mount to mount: what a person chooses one by.
//!
//! The file system is mounted and comes to rest; then a script of system calls, or IOzone, does the
//! work, and a `sync` ends it. The chip is kept twice: as it stands when the last call has returned,
//! which is what a power cut there would leave, and after the sync and an orderly unmount. Both are
//! mounted, and timed. Where the flash is too small for the work, there is nothing but `is_full`.
//!
//! A block device with a translation layer of its own stays in one machine: it is mounted again after
//! the unmount, and no power cut is looked at, as what a card holds in its memory is its own affair.

use super::benchmark::{Watch, prepare, tests_with_cold_read};
use super::boot::{Boot, Meter};
use super::contract::{Context, RawNandRun};
use super::flash_use::FlashMoment;
use super::lifecycle_metrics::{Calls, Work, full, metrics};
use super::mounting::timed_mount;
use crate::StudyError;
use crate::metric::{Metric, TestRow};
use fs_api::{Errno, PAGE_BYTES};
use iozone::{Benchmark, BenchmarkError};
use mount::{BlockDeviceChoice, Machine, Mounted, SharedMount};
use nand::Chip;
use script::{
    Command, ControlLine, Event, Failed, Observer, Place, RunError, Runner, Script, ScriptError,
    Step,
};
use std::cell::RefCell;
use std::rc::Rc;
use vfs::Vfs;

/// Nanoseconds of a second.
const SECOND_NS: i64 = 1_000_000_000;

/// The mount of what a power cut after the last call leaves.
const AFTER_CUT: &str = "mount-after-cut";

/// Why the work stopped.
pub(super) enum Stop {
    /// No space is left.
    Full,
    /// Anything else, in words.
    Failed(String),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        if errno == Errno::Enospc { Self::Full } else { Self::Failed(errno.to_string()) }
    }
}

/// What the work leaves: its measurements, and the chip as a power cut would leave it.
struct Done {
    work: Work,
    /// The chip when the last call has returned.
    cut: Chip,
    /// Row of the mount of a block device that is gone with the machine.
    mounted_again: Option<TestRow>,
}

/// Does the work and mounts what it leaves.
///
/// # Errors
/// [`StudyError::Study`] with the error of a call or of the mount. A full file system, and a mount after the cut
/// that fails, are results.
pub(super) fn run_lifecycle(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let (value, chip) =
        plan.on_machine(
            context,
            |machine, own, seed| async move { live(&machine, &own, seed).await },
        )?;
    let Done { work, cut, mounted_again } = match value {
        Ok(done) => done,
        Err(Stop::Full) => return Ok(vec![full("work")]),
        Err(Stop::Failed(reason)) => return Err(plan.failed(reason)),
    };
    let work = TestRow::new("work", metrics(plan, &work));
    if let Some(again) = mounted_again {
        return Ok(vec![work, again]);
    }
    let clean = timed_mount(plan, context, chip, Vec::new())?;
    let after_cut = after_cut(timed_mount(plan, context, cut, is_mounted(1)));
    Ok(vec![work, clean, after_cut])
}

fn is_mounted(yes: u64) -> Vec<Metric> {
    vec![Metric::count("is_mounted", yes, "yes or no")]
}

/// The row of a mount after the cut; one that failed leaves its reason.
fn after_cut(mounted: Result<TestRow, StudyError>) -> TestRow {
    match mounted {
        Ok(row) => TestRow { test: AFTER_CUT, ..row },
        Err(error) => {
            let note = Some(format!("not mounted: {error}"));
            TestRow { test: AFTER_CUT, metrics: is_mounted(0), note }
        }
    }
}

/// Mounts, works, syncs, unmounts.
async fn live(machine: &Machine, plan: &RawNandRun, seed: u64) -> Result<Done, Stop> {
    let (work, cut) = worked(machine, plan, seed, true).await?;
    // What a card keeps in its own memory ends with the machine.
    let is_on_device = plan.block.device != BlockDeviceChoice::MtdBlock;
    let mounted_again =
        if is_on_device { Some(mount_again(machine, plan, seed).await?) } else { None };
    Ok(Done { work, cut, mounted_again })
}

/// One mount with its work, sync and unmount: what was seen, and the chip when the last call has returned.
///
/// With `is_at_rest` the file system has been mounted for long when the work begins ([`prepare`]).
pub(super) async fn worked(
    machine: &Machine,
    plan: &RawNandRun,
    seed: u64,
    is_at_rest: bool,
) -> Result<(Work, Chip), Stop> {
    let failed = |error: String| Stop::Failed(error);
    let boot = Boot::of(machine, plan, seed).await.map_err(|error| failed(error.to_string()))?;
    if is_at_rest {
        prepare(machine, &boot.mounted.vfs, seed).await?;
    }
    let watch = Watch::start(machine, &boot.mounted.vfs);
    let calls = Rc::new(RefCell::new(Calls::default()));
    let (counted, watched) = (calls.clone(), machine.clone());
    boot.mounted.vfs.watch_calls(Some(Rc::new(move |call| {
        // The counter of the chip shows which syncs had something to write.
        let page_programs = watched.mtd.with_chip(|chip| chip.counters().page_programs);
        counted.borrow_mut().add(call, watched.sim.now(), page_programs);
    })));
    let Boot { mounted, .. } = boot;
    let flash = |mounted: &Mounted| FlashMoment::now(machine, plan, &mounted.file_system);
    let (before, meter) = (flash(&mounted), Meter::start(machine));
    let mounted = carry_out(machine, plan, mounted, seed).await?;
    let work_ns = meter.read(machine).0;
    // Before the sync: what a power cut leaves when the last call has returned.
    let cut = machine.mtd.with_chip(|chip| chip.clone());
    let dirty_bytes_at_end = mounted.vfs.dirty_pages() * PAGE_BYTES as u64;
    // The final sync is a row of its own and no call of the work.
    mounted.vfs.watch_calls(None);
    mounted.vfs.sync().await?;
    let elapsed_ns = meter.read(machine).0;
    let flash = before.until(flash(&mounted));
    let (memory_bytes, dirty_bytes) = watch.most();
    let calls = calls.take();
    mounted.unmount().await?;
    machine.detach_ubi();
    debug_assert!(work_ns <= elapsed_ns, "the final sync comes after the work");
    let final_sync_ns = elapsed_ns - work_ns;
    let work = Work {
        calls,
        final_sync_ns,
        elapsed_ns,
        flash,
        memory_bytes,
        dirty_bytes,
        dirty_bytes_at_end,
    };
    Ok((work, cut))
}

/// Mounts what the device holds, and takes the time of it.
async fn mount_again(machine: &Machine, plan: &RawNandRun, seed: u64) -> Result<TestRow, Stop> {
    let boot = Boot::of(machine, plan, seed).await;
    let boot = boot.map_err(|error| Stop::Failed(error.to_string()))?;
    let mut metrics = vec![Metric::count("mount_ns", boot.mount.0, "ns")];
    metrics.extend(boot.mechanism().await);
    boot.end(machine).await?;
    Ok(TestRow::new("mount", metrics))
}

/// Carries the work out: IOzone or the script.
async fn carry_out(
    machine: &Machine,
    plan: &RawNandRun,
    mounted: Mounted,
    seed: u64,
) -> Result<Mounted, Stop> {
    let Some(options) = &plan.benchmark else {
        play(machine, &plan.script, &mounted.vfs, false).await?;
        return Ok(mounted);
    };
    let request = plan.request(seed);
    let mut benchmark = Benchmark::on(machine, plan.host.kind, request, mounted, seed);
    match tests_with_cold_read(&mut benchmark, options, false).await {
        Ok(_) => Ok(benchmark.into_mounted()),
        Err(BenchmarkError::Call { errno: Errno::Enospc, .. }) => Err(Stop::Full),
        Err(error) => Err(Stop::Failed(error.to_string())),
    }
}

/// A process whose clock is that of the machine.
fn runner_of(machine: &Machine, vfs: &Rc<Vfs<SharedMount>>) -> Runner<SharedMount> {
    let now = machine.now();
    let now_ns = now.seconds * SECOND_NS + i64::from(now.nanoseconds);
    // The runner adds the time since the machine was started: it takes the clock as it stood then.
    let started_ns = now_ns - machine.sim.now().cast_signed();
    Runner::new(&machine.sim, vfs.clone(), started_ns.div_euclid(SECOND_NS))
        .with_epoch_nanoseconds(started_ns.rem_euclid(SECOND_NS) as u32)
}

/// Carries the script out; with `is_again` what an earlier pass has made is not made again. Its process ends with
/// it: what it has open is closed.
pub(super) async fn play(
    machine: &Machine,
    script: &Script,
    vfs: &Rc<Vfs<SharedMount>>,
    is_again: bool,
) -> Result<(), Stop> {
    let runner = runner_of(machine, vfs);
    let mut walk = script.walk();
    loop {
        let wrong = |error: ScriptError| Stop::Failed(error.to_string());
        let Some(event) = walk.next(runner.clock_ns()).map_err(wrong)? else { break };
        match event {
            Event::Wait(until_ns) => runner.wait_until(until_ns).await,
            Event::Processes(_, walks) => {
                let ends = Rc::new(ProcessEnds { is_again, stop: RefCell::default() });
                runner.run_processes(walks, ends.clone()).await;
                ends.stop.take().map_or(Ok(()), Err)?;
            }
            Event::Command(command) => match &command.step {
                Step::Control(ControlLine::DropCaches) => vfs.drop_caches().await?,
                // Phases and logs belong to the harness and mean nothing here.
                Step::Control(_) => {}
                _ => {
                    let end = runner.carry_out(&command).await;
                    stop_of(&command.place, end, is_again).map_or(Ok(()), Err)?;
                }
            },
        }
    }
    runner.close_all().await.map_err(|error| Stop::Failed(error.to_string()))
}

/// Why the end of a call ends the work; none if it does not.
fn stop_of(place: &Place, end: Result<Option<RunError>, Failed>, is_again: bool) -> Option<Stop> {
    match end {
        Ok(_) => None,
        Err(Failed::Call(error)) if is_again && error.error == Errno::Eexist => None,
        Err(Failed::Call(error)) if error.error == Errno::Enospc => Some(Stop::Full),
        Err(error) => Some(Stop::Failed(format!("line {place}: {error}"))),
    }
}

/// What becomes of the calls of processes that run side by side.
struct ProcessEnds {
    is_again: bool,
    /// The first call that ended the work.
    stop: RefCell<Option<Stop>>,
}

impl Observer for ProcessEnds {
    fn begins(&self, _command: &Command) -> bool {
        self.stop.borrow().is_none()
    }

    fn ends(
        &self,
        _process: u32,
        place: &Place,
        _start_ns: u64,
        end: Result<Option<RunError>, Failed>,
    ) -> bool {
        let stop = stop_of(place, end, self.is_again);
        let goes_on = stop.is_none();
        if let Some(stop) = stop {
            self.stop.borrow_mut().get_or_insert(stop);
        }
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::{AFTER_CUT, Stop, after_cut, is_mounted, play};
    use crate::StudyError;
    use crate::metric::TestRow;
    use file_systems::find_kind;
    use mount::{Driver, MountRequest};
    use mtd::find_layout;
    use nand::{Chip, FaultSettings, Storage};

    #[test]
    fn a_mount_that_failed_leaves_its_reason() {
        let mounted = after_cut(Ok(TestRow::new("mount", is_mounted(1))));
        assert_eq!(mounted, TestRow::new(AFTER_CUT, is_mounted(1)));
        let reason = "no NILFS2 here: no NILFS2 magic number".to_owned();
        let failed = after_cut(Err(StudyError::Study { place: "nilfs2 fresh".into(), reason }));
        assert_eq!((failed.test, failed.metrics), (AFTER_CUT, is_mounted(0)));
        let note = failed.note.expect("the reason");
        assert_eq!(note, "not mounted: nilfs2 fresh: no NILFS2 here: no NILFS2 magic number");
    }

    #[test]
    fn a_script_has_the_clock_of_its_machine() {
        let mut part = nand::find_part("k9f2g08u0c").expect("in the catalogue");
        part.geometry.blocks = 64;
        let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
        let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
        let outcome = mount::run(chip, &driver, 1, |machine| async move {
            let kind = find_kind("jffs2").expect("in the table");
            let request = MountRequest::default();
            let mounted = machine.mount(kind, &request).await.map_err(|error| error.to_string())?;
            // Long after the machine was started, as in the test.
            machine.sim.sleep(600_000_000_000).await;
            let script = script::parse("put a 644 1 1 x 1\n").map_err(|error| error.to_string())?;
            let before = machine.now().seconds;
            let played = play(&machine, &script, &mounted.vfs, false).await;
            played.map_err(|stop| match stop {
                Stop::Full => "full".to_owned(),
                Stop::Failed(reason) => reason,
            })?;
            let file = mounted.vfs.stat(b"a").await.map_err(|errno| errno.to_string())?;
            Ok::<_, String>((before, file.modified.seconds, machine.now().seconds))
        });
        let (before, modified, after) = outcome.value.expect("no power cut").expect("a script");
        assert!((before..=after).contains(&modified), "{modified} of {before} to {after}");
    }
}
