//! From a description to a device.

use crate::{BlockDevice, DeviceSpec, DiskDevice, FlashDevice, SpecError};
use nand::{Part, catalogue, find_part, load_part};
use std::path::Path;

/// Makes the device; `seed` is that of whatever in it is drawn at random.
///
/// # Errors
/// [`SpecError::Impossible`] for unknown parts and for parts that do not fit together.
pub fn build(spec: &DeviceSpec, seed: u64) -> Result<Box<dyn BlockDevice>, SpecError> {
    let impossible = |reason| SpecError::Impossible { name: spec.name.clone(), reason };
    spec.check().map_err(impossible)?;
    match (&spec.flash, &spec.disk) {
        (Some(flash), _) => {
            let part = part(&flash.part).map_err(impossible)?;
            Ok(Box::new(FlashDevice::new(spec, &part, seed)?))
        }
        (None, Some(disk)) => Ok(Box::new(DiskDevice::new(*disk, spec.host, seed))),
        (None, None) => Err(impossible("neither flash nor disk".into())),
    }
}

/// The catalogue part of that name, else the part file at that path.
pub(crate) fn part(name: &str) -> Result<Part, String> {
    if let Some(part) = find_part(name) {
        return Ok(part);
    }
    let path = Path::new(name);
    if path.extension().is_some_and(|extension| extension == "toml") {
        return load_part(path).map_err(|error| format!("flash.part: {error}"));
    }
    let parts = catalogue();
    let names = || parts.iter().map(|part| part.name.as_str());
    let hint = suggestion::hint(name, names());
    let known = names().collect::<Vec<_>>().join(", ");
    Err(format!("flash.part: no part is called `{name}`{hint}; known: {known}, or a file"))
}
