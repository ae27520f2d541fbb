//! Whether every stack of a study can be mounted, before anything else is run.
//!
//! A file system that its chip is too small for would else be found out after hours of another one's runs.
//! Only fresh flash is mounted here, which takes no time. Aged flash is filled when the first run that
//! begins on it has its turn, so that other candidates need not wait for it. A history that is larger than
//! the file system is refused here by its numbers alone.

use crate::StudyError;
use crate::flash_aging::{FlashPlan, PreparedFlash};
use crate::matrix::Run;
use crate::workload::contract::StackPlan;
use fs_api::{FileSystem, SpaceUse};
use mount::{BlockDeviceChoice, Driver, MountRequest};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

/// A stack that runs share.
struct Candidate<'a> {
    run: &'a Run,
    flash: &'a FlashPlan,
    request: MountRequest,
    /// Equal keys are equal stacks.
    key: String,
}

/// Mounts every stack once, on fresh flash; a single stack is left to its own run.
///
/// # Errors
/// [`StudyError::Unmountable`] with all stacks that cannot be mounted or filled, in the order of the runs.
pub(crate) fn check_mounts(
    runs: &[Run],
    seed: u64,
    prepared: &PreparedFlash,
    stopped: &(dyn Fn() -> bool + Sync),
) -> Result<(), StudyError> {
    let candidates = candidates(runs, seed);
    if candidates.len() < 2 {
        return Ok(());
    }
    let reasons: Vec<Option<String>> = candidates
        .par_iter()
        .map(|candidate| {
            if stopped() {
                return None;
            }
            let label = candidate.run.label();
            match mount_once(candidate, seed, prepared) {
                Err(reason) => Some(format!("`{label}` cannot be mounted: {reason}")),
                Ok(space) => {
                    let reason = candidate.flash.aging.as_ref()?.cannot_fit(space)?;
                    Some(format!("`{label}` cannot have its history: {reason}"))
                }
            }
        })
        .collect();
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    if !reasons.is_empty() {
        return Err(StudyError::Unmountable(reasons));
    }
    Ok(())
}

/// The stacks of runs, each once.
fn candidates(runs: &[Run], seed: u64) -> Vec<Candidate<'_>> {
    let mut found: Vec<Candidate<'_>> = Vec::new();
    for run in runs {
        let Some(stack) = run.plan.stack() else { continue };
        let StackPlan { host, flash, block, mount_options } = stack;
        let device = block.device.name();
        let key = format!("{} {device} {mount_options:?} {}", flash.key, host.board.name);
        // Two files of a user may give their parts the same name.
        if found.iter().any(|other| other.key == key && other.flash.part == flash.part) {
            continue;
        }
        let request = MountRequest {
            profile: Some(host.profile.to_owned()),
            options: mount_options.to_vec(),
            // As in the runs: a chip was formatted when it was prepared, a device comes as it is delivered.
            formats_blank: block.device != BlockDeviceChoice::MtdBlock,
            seed,
            block: block.clone(),
            ..MountRequest::default()
        };
        found.push(Candidate { run, flash, request, key });
    }
    found
}

/// Mounts a stack on fresh flash; the space that its file system has there.
fn mount_once(
    candidate: &Candidate<'_>,
    seed: u64,
    prepared: &PreparedFlash,
) -> Result<SpaceUse, String> {
    let flash = candidate.flash.fresh();
    let chip = prepared.copy(&flash, seed).map_err(|error| error.to_string())?;
    let driver = Driver::of_tool(flash.layout);
    let (kind, request) = (flash.kind, candidate.request.clone());
    let outcome = mount::run(chip, &driver, seed, |machine| async move {
        let mounted = machine.mount(kind, &request).await;
        mounted.map(|mounted| mounted.file_system.space()).map_err(|error| error.to_string())
    });
    outcome.value.unwrap_or_else(|| unreachable!("nothing cuts the power"))
}
