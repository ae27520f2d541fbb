//! The table of device presets: a row is a file of the folder `devices`.

use crate::spec::{DeviceSpec, SpecError};
use std::path::Path;
use suggestion::hint;

macro_rules! embedded {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../devices/", $file, ".toml")))),*]
    };
}

/// Name and text of every preset, sorted by name.
pub(crate) const TEXTS: &[(&str, &str)] = embedded!(
    "disk-7200",
    "emmc-4.5-64gb",
    "emmc-4.51-64gb",
    "emmc-5.0-64gb",
    "emmc-5.1-64gb",
    "nvme-ssd",
    "nvme-ssd-tlc",
    "sata-ssd",
    "sd-c10-16gb",
);

/// All presets, sorted by name.
pub fn devices() -> Vec<DeviceSpec> {
    TEXTS
        .iter()
        .map(|(name, text)| DeviceSpec::parse(name, text).expect("the presets are tested"))
        .collect()
}

/// The preset called `name`.
///
/// # Errors
/// [`SpecError::Unknown`], with a suggestion.
pub fn find_device(name: &str) -> Result<DeviceSpec, SpecError> {
    if let Some((name, text)) = TEXTS.iter().find(|(known, _)| *known == name) {
        return DeviceSpec::parse(name, text);
    }
    let names = || TEXTS.iter().map(|(known, _)| *known);
    Err(SpecError::Unknown {
        name: name.to_owned(),
        hint: hint(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    })
}

/// The preset of a name, or the device of a file: a name that ends in `.toml` is a file, even if a preset is
/// called so.
///
/// # Errors
/// [`SpecError`] of a name that does not exist, or a file that cannot be read.
pub fn find_or_load(name: &str) -> Result<DeviceSpec, SpecError> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|extension| extension == "toml");
    if is_file { DeviceSpec::load(path) } else { find_device(name) }
}

#[cfg(test)]
mod tests {
    use super::{TEXTS, devices};

    #[test]
    fn presets_are_sorted_and_named_as_their_files() {
        assert!(TEXTS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (spec, (file, _)) in devices().iter().zip(TEXTS) {
            assert_eq!(spec.name, *file);
        }
    }
}
