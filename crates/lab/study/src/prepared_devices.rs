//! Block devices filled with data once, and copied for every run.

use crate::StudyError;
use device::{BlockDevice, DeviceSpec, Fill, Precondition};
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
        overwritten_percent: u32,
        seed: u64,
    ) -> Result<Box<dyn BlockDevice>, StudyError> {
        // Held while a device is filled: another run would only fill it again.
        let mut prepared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = prepared.get(key) {
            return Ok(device.clone_box());
        }
        let mut device = device::build(spec, seed)?;
        let how = Precondition {
            // The files of the jobs are written before they run.
            fill: Fill::AllBut(0),
            overwrite_permille: overwritten_percent * 10,
            until_all_clean: true,
            steady: false,
            seed,
        };
        device.precondition(&how).map_err(|error| StudyError::Study {
            place: spec.name.clone(),
            reason: error.to_string(),
        })?;
        let copy = device.clone_box();
        prepared.insert(key.to_owned(), device);
        Ok(copy)
    }
}
