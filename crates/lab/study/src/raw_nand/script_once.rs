//! A script of system calls, carried out once on one mount: what it cost.
//!
//! The file system is mounted and the script begins at once, as `nandlab script` does it. A `sync` ends
//! the work, and an orderly unmount follows. Operations of the chip are counted from the first call to the end of that sync.
//! Where the flash is too small for the work, there is nothing but `is_full`.

use super::contract::{Context, RawNandRun};
use super::lifecycle::{Stop, worked};
use super::lifecycle_metrics::{full, metrics};
use crate::StudyError;
use crate::metric::TestRow;

/// Carries the script out and tells what was seen of it.
///
/// # Errors
/// [`StudyError::Study`] with the error of the mount or of a call. A full file system is a result.
pub(super) fn run_script(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let (value, _) = plan.on_machine(context, |machine, own, seed| async move {
        worked(&machine, &own, seed, false).await
    })?;
    match value {
        Ok((work, _)) => {
            let rows = metrics(plan, &work).into_iter().chain(work.sync_mean()).collect();
            Ok(vec![TestRow::new("work", rows)])
        }
        Err(Stop::Full) => Ok(vec![full("work")]),
        Err(Stop::Failed(reason)) => Err(plan.failed(reason)),
    }
}
