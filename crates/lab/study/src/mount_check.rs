//! Whether every stack of a study can be mounted, before anything else is run.
//!
//! A file system that its chip is too small for, or whose aging does not fit, would else be found out
//! after hours of another one's runs. The flash that is made here is what the runs begin on, so aging
//! costs no time twice; what is added is one mount a stack, which takes no simulated time of any run.

use crate::StudyError;
use crate::flash_aging::{FlashPlan, PreparedFlash};
use crate::matrix::Run;
use crate::workload::contract::StackPlan;
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

/// Mounts every stack once, on the flash that its runs begin on; a single stack is left to its own run.
///
/// # Errors
/// [`StudyError::Unmountable`] with all stacks that cannot be mounted, in the order of the runs.
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
    // Fresh flash is made in no time, and shows most of what can be wrong: it comes before all aging.
    for is_fresh in [true, false] {
        let reasons: Vec<Option<String>> = candidates
            .par_iter()
            .map(|candidate| {
                if stopped() || (!is_fresh && candidate.flash.aging.is_none()) {
                    return None;
                }
                let fresh = candidate.flash.fresh();
                let flash = if is_fresh { &fresh } else { candidate.flash };
                let reason = mount_once(candidate, flash, seed, prepared).err()?;
                // What mounts fresh and does not do so now has failed by its aging.
                let what = if is_fresh { "be mounted" } else { "have its history" };
                Some(format!("`{}` cannot {what}: {reason}", candidate.run.label()))
            })
            .collect();
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        if !reasons.is_empty() {
            return Err(StudyError::Unmountable(reasons));
        }
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

fn mount_once(
    candidate: &Candidate<'_>,
    flash: &FlashPlan,
    seed: u64,
    prepared: &PreparedFlash,
) -> Result<(), String> {
    let chip = prepared.copy(flash, seed).map_err(|error| error.to_string())?;
    let driver = Driver::of_tool(flash.layout);
    let (kind, request) = (flash.kind, candidate.request.clone());
    let outcome = mount::run(chip, &driver, seed, |machine| async move {
        machine.mount(kind, &request).await.map(drop).map_err(|error| error.to_string())
    });
    outcome.value.unwrap_or_else(|| unreachable!("nothing cuts the power"))
}
