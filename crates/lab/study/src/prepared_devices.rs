//! Block devices filled with data once, and copied for every run.

use crate::StudyError;
use crate::jobs::spec::Host;
use device::{BlockDevice, DeviceSpec, Fill, Precondition, Preconditioning};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Devices filled once and copied for every run.
#[derive(Default)]
pub(crate) struct PreparedDevices(Mutex<BTreeMap<String, Box<dyn BlockDevice>>>);

impl PreparedDevices {
    /// A copy of the device called `key`, which is filled by `seed` when it is asked for the first time.
    ///
    /// # Errors
    /// A device that cannot be built or filled.
    pub(crate) fn copy(
        &self,
        key: &str,
        spec: &DeviceSpec,
        host: &Host,
        seed: u64,
    ) -> Result<Box<dyn BlockDevice>, StudyError> {
        // Held while a device is filled: another run would only fill it again.
        let mut prepared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = prepared.get(key) {
            return Ok(device.clone_box());
        }
        let mut device = device::build(spec, seed)?;
        let how = match &host.precondition {
            Some(name) => named(name)?.steps(seed),
            None => Some(Precondition {
                // The files of the jobs are written before they run.
                fill: Fill::AllBut(0),
                overwrite_permille: host.overwritten_percent * 10,
                until_all_clean: true,
                steady: false,
                seed,
            }),
        };
        if let Some(how) = how {
            device.precondition(&how).map_err(|error| StudyError::Study {
                place: spec.name.clone(),
                reason: error.to_string(),
            })?;
        }
        let copy = device.clone_box();
        prepared.insert(key.to_owned(), device);
        Ok(copy)
    }
}

/// What `host.precondition` names.
///
/// # Errors
/// A word that is none of them.
pub(crate) fn named(name: &str) -> Result<Preconditioning, StudyError> {
    Preconditioning::from_name(name).ok_or_else(|| StudyError::Study {
        place: "host.precondition".to_owned(),
        reason: format!("`{name}` is none of none, fill, random:PERCENT (1 to 1000) and steady"),
    })
}
