//! A script of system calls, carried out once on one mount: what it cost.
//!
//! The file system is mounted and the script begins at once, as `nandlab script` does it. A `sync` ends
//! the work, and an orderly unmount follows. Operations of the chip are counted from the first call to the end of that sync.
//! Where the flash is too small for the work, there is nothing but `is_full`.

use super::contract::{Context, RawNandRun};
use super::lifecycle::{Stop, worked};
use super::lifecycle_metrics::metrics;
use crate::StudyError;
use crate::metric::{Metric, TestRow};
use mount::run_watched;

/// Carries the script out and tells what was seen of it.
///
/// # Errors
/// [`StudyError::Study`] with the error of the mount or of a call. A full file system is a result.
pub(super) fn run_script(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let chip = context.prepared.copy(&plan.flash, context.study_seed)?;
    let (own, seed) = (plan.clone(), context.seed);
    let outcome =
        run_watched(chip, &plan.timed_driver(), seed, context.watcher, |machine| async move {
            worked(&machine, &own, seed, false).await
        });
    let Some(value) = outcome.value else { unreachable!("nothing cuts the power") };
    let rows = match value {
        Ok((work, _)) => metrics(plan, &work).into_iter().chain(work.sync_mean()).collect(),
        Err(Stop::Full) => vec![Metric::count("is_full", 1, "yes or no")],
        Err(Stop::Failed(reason)) => return Err(plan.failed(reason)),
    };
    Ok(vec![TestRow::new("work", rows)])
}
