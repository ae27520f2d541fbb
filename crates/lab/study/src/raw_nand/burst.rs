//! What a power cut takes from an application that writes at a rate.
//!
//! The application appends records of 4 KiB to a log and writes small files of 4 KiB, in turns. It
//! syncs the log every 64 records and every eighth small file. At a moment that the seed decides the
//! supply fails: the chip operation of that moment is torn. After recovery the bytes that a call had
//! promised are looked for.

use super::boot::{Boot, Meter, torn};
use super::contract::{Context, RawNandRun};
use super::ledger::{Ledger, Writer};
use crate::StudyError;
use crate::metric::{Metric, TestRow};
use fs_api::Errno;
use mount::{run, run_watched};
use nand::{Chip, CutPoint};
use random::Stream;
use std::cell::RefCell;
use std::rc::Rc;
use vfs::{Manifest, ReadLimits};

/// Stream of the moment of the cut.
const CUT: &str = "power cut";
/// The cut comes after pages have grown old enough to be written back, and before so much later.
const CUT_FROM_NS: u64 = 40_000_000_000;
const CUT_WITHIN_MS: u32 = 20_000;
/// Longer than any operation of the chip: one that begins by then is the one that is torn.
const TEAR_NS: u64 = 1_000_000;
/// A file that claims to be longer is damaged.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Writes, cuts, recovers and counts.
///
/// # Errors
/// [`StudyError::Study`] with the error of a call before the cut; what comes after it is a result.
pub(super) fn run_burst(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let chip = context.prepared.copy(&plan.flash, context.study_seed)?;
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let (mut chip, written_ns) = cut(plan, context, chip, &ledger)?;
    // The supply is back; the cells stay as the cut left them.
    chip.power_on();
    let ledger = ledger.take();
    let mut metrics = vec![
        Metric::count("written_bytes", ledger.acknowledged_bytes(), "bytes"),
        Metric::number(
            "written_kib_per_s",
            ledger.acknowledged_bytes() as f64 / 1024.0 / (written_ns as f64 / 1e9),
            "KiB/s",
        ),
        Metric::count("synced_bytes", ledger.synced_bytes(), "bytes"),
    ];
    metrics.extend(recovered(plan, context, chip, ledger)?);
    Ok(vec![TestRow::new("cut", metrics)])
}

/// Lets the application write until the supply fails; the chip, and for how long it wrote.
fn cut(
    plan: &RawNandRun,
    context: &Context<'_>,
    mut chip: Chip,
    ledger: &Rc<RefCell<Ledger>>,
) -> Result<(Chip, u64), StudyError> {
    let mut numbers = Stream::new(context.seed, CUT);
    let cut_ns = CUT_FROM_NS + u64::from(numbers.below(CUT_WITHIN_MS)) * 1_000_000;
    chip.set_torn(torn(&mut numbers));
    let (own, seed, ledger) = (plan.clone(), context.seed, ledger.clone());
    let outcome =
        run_watched(chip, &plan.timed_driver(), seed, context.watcher, |machine| async move {
            let boot = Boot::of(&machine, &own, seed).await.map_err(|error| error.to_string())?;
            // The threads of the mount come to rest first.
            machine.sim.sleep(crate::flash_aging::REST_NS).await;
            let writer = Writer::new(&machine, &boot.mounted, ledger, own.rate_kib_per_s);
            let stopped = Rc::new(RefCell::new(None::<Errno>));
            let place = stopped.clone();
            let meter = Meter::start(&machine);
            // A task of its own, so that the cut may find it within a call.
            machine.sim.spawn_named("application", async move {
                *place.borrow_mut() = writer.write_on().await.err();
            });
            machine.sim.sleep(cut_ns).await;
            debug_assert_eq!(meter.read(&machine).0, cut_ns);
            if let Some(errno) = *stopped.borrow() {
                return Err(format!("the application was stopped: {errno}"));
            }
            // The next operation is torn; if none begins in time, the cut falls between two.
            machine.mtd.with_chip(|chip| chip.cut_power_after(0, CutPoint::Inside));
            machine.sim.sleep(TEAR_NS).await;
            drop(boot);
            Ok(())
        });
    if let Some(Err(reason)) = outcome.value {
        let reason: String = reason;
        return Err(plan.failed(reason));
    }
    Ok((outcome.chip, cut_ns))
}

/// Mounts again and looks for what was promised.
fn recovered(
    plan: &RawNandRun,
    context: &Context<'_>,
    chip: Chip,
    ledger: Ledger,
) -> Result<Vec<Metric>, StudyError> {
    let (own, seed) = (plan.clone(), context.seed);
    // Only what is found counts here, not the time that it takes.
    let outcome = run(chip, &plan.untimed_driver(), seed, |machine| async move {
        // A mount that fails is a result.
        let Ok(boot) = Boot::of(&machine, &own, seed).await else {
            return Ok(vec![Metric::count("is_mounted", 0, "yes or no")]);
        };
        let mut metrics = vec![Metric::count("is_mounted", 1, "yes or no")];
        let found = ledger.look(&machine, &boot.mounted).await;
        metrics.extend(found.metrics());
        let complaints = complaints(&boot).await;
        metrics.push(Metric::count("complaints", complaints, "complaints"));
        Ok(metrics)
    });
    let Some(value) = outcome.value else { unreachable!("nothing cuts the power again") };
    value.map_err(|reason: String| plan.failed(reason))
}

/// What the file system's own check finds wrong, and what cannot be read.
async fn complaints(boot: &Boot) -> u64 {
    let file_system = &boot.mounted.file_system;
    let limits = ReadLimits { has_hashes: true, file_bytes_max: FILE_BYTES_MAX };
    let (_, damage) = Manifest::of_damaged(&**file_system, &limits).await;
    // A check that cannot be carried out counts as one complaint.
    let own = file_system.check().await.map_or(1, |found| found.len());
    (damage.len() + own) as u64
}
