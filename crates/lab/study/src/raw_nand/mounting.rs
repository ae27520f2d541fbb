//! How long a mount takes: after an orderly unmount, and after a power cut.
//!
//! A repeat first boots untimed and writes a few pages, so that repeats do not stand at the same page
//! of a block. After a cut, the first boot is timed too: the file is written and synced once to see
//! which operations of the chip change it, and once more, on a copy of the same chip, with the power
//! cut in one of those: a file system may read for long before it writes, and a cut there changes nothing.

use super::boot::{Application, Boot, torn};
use super::contract::{Context, RawNandRun};
use crate::StudyError;
use crate::metric::{Metric, TestRow};
use crate::time_parts::time_parts;
use mount::{Machine, run, run_watched};
use mtd::Operation;
use nand::{Chip, Counters, CutPoint};
use random::Stream;
use std::cell::Cell;
use std::rc::Rc;

/// Names of the streams: what stands before, what is written, where it is cut.
const POSITION: &str = "allocation position";
const WRITTEN: &str = "bytes at the cut";
const CUT: &str = "power cut";
/// Time between the mount and the write that is cut: the system starts, and threads come to rest.
const UP_NS: u64 = 60_000_000_000;

/// Mounts after an orderly unmount.
///
/// # Errors
/// [`StudyError::Study`] with the error of the mount or of a call.
pub(super) fn run_mount(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let chip = positioned(plan, context)?;
    Ok(vec![timed_mount(plan, context, chip, Vec::new())?])
}

/// Mounts after the power was cut while a file was being written.
///
/// # Errors
/// [`StudyError::Study`] with the error of the mount or of a call.
pub(super) fn run_mount_after_cut(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let chip = positioned(plan, context)?;
    let (_, changes) = written(plan, context, chip.clone(), None)?;
    let mut numbers = Stream::new(context.seed, CUT);
    // A write that changes nothing is cut at its first operation.
    debug_assert!(changes.is_sorted(), "operations are numbered as they come");
    let which = numbers.below((changes.len() as u32).max(1)) as usize;
    let at = changes.get(which).copied().unwrap_or(0);
    let mut torn_chip = chip;
    torn_chip.set_torn(torn(&mut numbers));
    // The same seed and the same chip: the operations are those that were numbered above.
    let (mut chip, _) = written(plan, context, torn_chip, Some(at))?;
    // The supply is back; the cells stay as the cut left them.
    chip.power_on();
    let cut = vec![
        Metric::count("changes_of_write", changes.len() as u64, "operations"),
        Metric::count("changes_before_cut", which as u64, "operations"),
    ];
    Ok(vec![timed_mount(plan, context, chip, cut)?])
}

/// The flash with a few more pages written, unmounted in order.
fn positioned(plan: &RawNandRun, context: &Context<'_>) -> Result<Chip, StudyError> {
    let chip = context.prepared.copy(&plan.flash, context.study_seed)?;
    let (own, seed) = (plan.clone(), context.seed);
    let outcome = run(chip, &plan.untimed_driver(), seed, |machine| async move {
        let boot = Boot::of(&machine, &own, seed).await.map_err(|error| error.to_string())?;
        position(&machine, &boot, seed).await.map_err(|errno| errno.to_string())?;
        boot.end(&machine).await.map_err(|errno| errno.to_string())
    });
    let Some(value) = outcome.value else { unreachable!("nothing cuts the power") };
    value.map_err(|reason: String| plan.failed(reason))?;
    Ok(outcome.chip)
}

async fn position(machine: &Machine, boot: &Boot, seed: u64) -> Result<(), fs_api::Errno> {
    let mut numbers = Stream::new(seed, POSITION);
    let geometry = machine.mtd.geometry();
    // One page at least: a file without bytes moves nothing.
    let pages = u64::from(numbers.below(geometry.pages_per_block) + 1);
    let bytes = pages * u64::from(geometry.page_data_bytes);
    let application = Application { machine, mounted: &boot.mounted };
    let file = application.write_random(b"position", bytes, &mut numbers).await?;
    boot.mounted.vfs.fsync(&application.caller(), &file).await?;
    boot.mounted.vfs.close(&application.caller(), file).await
}

/// Boots, writes a file and syncs it; the chip at the end, and which operations of that changed it.
fn written(
    plan: &RawNandRun,
    context: &Context<'_>,
    chip: Chip,
    cut_at: Option<u64>,
) -> Result<(Chip, Vec<u64>), StudyError> {
    let (own, seed) = (plan.clone(), context.seed);
    let changes = Rc::new(Cell::new(Vec::new()));
    let found = changes.clone();
    let outcome =
        run_watched(chip, &plan.timed_driver(), seed, context.watcher, |machine| async move {
            let boot = Boot::of(&machine, &own, seed).await.map_err(|error| error.to_string())?;
            machine.sim.sleep(UP_NS).await;
            // Threads have come to rest, so that both runs number the operations alike.
            machine.mtd.log_operations(true);
            if let Some(at) = cut_at {
                machine.mtd.with_chip(|chip| chip.cut_power_after(at, CutPoint::Inside));
            }
            let application = Application { machine: &machine, mounted: &boot.mounted };
            // The same bytes in both runs.
            let mut numbers = Stream::new(seed, WRITTEN);
            let file = application.write_random(b"cut", own.written_bytes, &mut numbers).await;
            let file = file.map_err(|errno| errno.to_string())?;
            let synced = boot.mounted.vfs.fsync(&application.caller(), &file).await;
            synced.map_err(|errno| errno.to_string())?;
            found.set(changing(&machine.mtd.take_operations()));
            Ok(())
        });
    if let Some(Err(reason)) = outcome.value {
        let reason: String = reason;
        return Err(plan.failed(reason));
    }
    Ok((outcome.chip, changes.take()))
}

/// Numbers of the operations that change the medium.
fn changing(operations: &[Operation]) -> Vec<u64> {
    let reads = |operation: &Operation| {
        use Operation::{OobRead, Read, SubPageRead};
        matches!(operation, Read { .. } | SubPageRead { .. } | OobRead { .. })
    };
    (0..).zip(operations).filter(|(_, one)| !reads(one)).map(|(number, _)| number).collect()
}

/// Boots and takes the time of it.
pub(super) fn timed_mount(
    plan: &RawNandRun,
    context: &Context<'_>,
    chip: Chip,
    before: Vec<Metric>,
) -> Result<TestRow, StudyError> {
    let (own, seed) = (plan.clone(), context.seed);
    let outcome =
        run_watched(chip, &plan.timed_driver(), seed, context.watcher, |machine| async move {
            let boot = Boot::of(&machine, &own, seed).await.map_err(|error| error.to_string())?;
            let (mount_ns, mut chip) = boot.mount;
            let mut metrics = Vec::new();
            let mut elapsed_ns = mount_ns;
            if let Some((attach_ns, attach_chip)) = boot.attach {
                // A user waits for the attach of UBI, too.
                elapsed_ns += attach_ns;
                chip += attach_chip;
                metrics.push(Metric::count("attach_ns", attach_ns, "ns"));
                let Counters { page_reads, spare_reads, .. } = attach_chip;
                metrics.push(Metric::count("attach_page_reads", page_reads, "operations"));
                metrics.push(Metric::count("attach_spare_reads", spare_reads, "operations"));
                metrics.push(Metric::count("mount_only_ns", mount_ns, "ns"));
            }
            metrics.insert(0, Metric::count("mount_ns", elapsed_ns, "ns"));
            metrics.extend(time_parts(&own.host, chip, elapsed_ns));
            metrics.extend(boot.mechanism().await);
            Ok(metrics)
        });
    let Some(value) = outcome.value else { unreachable!("nothing cuts the power") };
    let mut metrics = value.map_err(|reason: String| plan.failed(reason))?;
    metrics.extend(before);
    Ok(TestRow::new("mount", metrics))
}
