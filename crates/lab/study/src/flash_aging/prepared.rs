//! Flash that is aged once for each state and copied for every run.

use super::aging::Aging;
use super::{FRESH, FlashState};
use crate::StudyError;
use mount::{Driver, Kind, MTDBLOCK, MountRequest, run};
use mtd::OobLayout;
use nand::{Chip, FaultSettings, Part, Storage};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Time in which the threads of a file system come to rest.
pub(crate) const REST_NS: u64 = 600_000_000_000;

/// How long before the run flash was formatted and its aging began, seconds: a month. What a cleaner
/// keeps for a while is free by then.
const AGE_S: i64 = 30 * 86_400;

/// The flash that a run begins on.
#[derive(Clone, Debug)]
pub(crate) struct FlashPlan {
    pub(crate) kind: &'static Kind,
    pub(crate) profile: &'static str,
    pub(crate) part: Part,
    pub(crate) layout: &'static OobLayout,
    /// None for fresh flash.
    pub(crate) aging: Option<FlashState>,
    /// Its name on the flash axis.
    pub(crate) name: String,
    /// Equal keys are equal flash.
    pub(crate) key: String,
}

impl FlashPlan {
    /// The same chip, freshly formatted.
    pub(crate) fn fresh(&self) -> Self {
        let (name, aging) = (FRESH.to_owned(), None);
        Self {
            key: key_of(self.kind, self.profile, &self.part, &name),
            name,
            aging,
            ..self.clone()
        }
    }
}

/// The key of a flash: file system, profile, part and state.
pub(crate) fn key_of(kind: &Kind, profile: &str, part: &Part, name: &str) -> String {
    [kind.name, profile, &part.name, &part.geometry.blocks.to_string(), name].join(" ")
}

/// A chip, once it is made.
type Place = Arc<Mutex<Option<Chip>>>;

/// Flash made once for each file system, profile and state, and shared by all runs until written.
#[derive(Default)]
pub(crate) struct PreparedFlash(Mutex<BTreeMap<String, Place>>);

impl PreparedFlash {
    /// A copy of the flash that a run begins on.
    ///
    /// # Errors
    /// [`StudyError::Study`] with the error of the file system while the flash was aged.
    pub(crate) fn copy(&self, plan: &FlashPlan, seed: u64) -> Result<Chip, StudyError> {
        // The whole part, for two files of a user may give theirs the same name.
        let part = serde_json::to_string(&plan.part).expect("a part is numbers and words");
        let key = [&plan.key[..], &part].join(" ");
        // The table is free again while the flash is made, so that others are made beside it.
        let place = {
            let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            places.entry(key).or_default().clone()
        };
        // A second run with the same flash waits here until it is made.
        let mut chip = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chip) = &*chip {
            return Ok(chip.clone());
        }
        let made = make(plan, seed)?;
        *chip = Some(made.clone());
        Ok(made)
    }
}

/// Formats a chip and ages it, without taking simulated time of a run.
fn make(plan: &FlashPlan, seed: u64) -> Result<Chip, StudyError> {
    let chip = Chip::new(&plan.part, Storage::Bytes, &FaultSettings::default());
    if plan.aging.is_none() && plan.kind.usual_block_device != MTDBLOCK {
        // The file system never stands on the chip; its own device comes as it is delivered.
        return Ok(chip);
    }
    let mut driver = Driver::of_tool(plan.layout);
    driver.epoch_seconds -= AGE_S;
    let (kind, aging) = (plan.kind, plan.aging.clone());
    let request =
        MountRequest { profile: Some(plan.profile.to_owned()), seed, ..MountRequest::default() };
    let outcome = run(chip, &driver, seed, |machine| async move {
        let mounted = machine.mount(kind, &request).await.map_err(|error| error.to_string())?;
        if let Some(state) = aging {
            Aging::new(&machine, &mounted, &state, seed).age(&state).await?;
        }
        // Whatever the file system still does by itself, it does before the chip is put away.
        machine.sim.sleep(REST_NS).await;
        mounted.vfs.sync().await.map_err(|errno| errno.to_string())?;
        mounted.unmount().await.map_err(|errno| errno.to_string())
    });
    match outcome.value {
        Some(Ok(())) => Ok(outcome.chip),
        Some(Err(reason)) => Err(StudyError::Study { place: plan.key.clone(), reason }),
        None => unreachable!("nothing cuts the power"),
    }
}
