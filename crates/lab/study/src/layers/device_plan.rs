//! The layer and the chip of a run, from a combination of axis values.

use crate::StudyError;
use crate::braces::names_in_braces;
use crate::ftl_device::{DeviceOptions, chip_of, find_layer, resolve};
use crate::setting_axes::{SHAPE_AXES, apply_to_device, layer_axes};
use crate::study_file::Study;
use crate::study_parts::refuse;
use crate::values::SettingValue;
use crate::workload::contract::{Combination, Identity, KnownAxes};
use ftl::Settings;
use std::collections::BTreeMap;

/// Name of the settings that every layer has by itself.
pub(crate) const DEFAULT_SETTINGS: &str = "default";

/// Axes of the stack and of the chip's shape; all others are settings, or only name files.
const OWN_AXES: [&str; 6] =
    ["ftl", "part", "settings", "spare_percent", SHAPE_AXES[0], SHAPE_AXES[1]];

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// Axes that a study of layers may have.
pub(super) fn device_axes(study: &Study) -> KnownAxes {
    let file = study.workload.file.as_deref().unwrap_or_default();
    let of_study = layer_axes(study).into_iter().chain(names_in_braces(file)).collect();
    KnownAxes { own: &OWN_AXES, of_study, ..KnownAxes::default() }
}

/// True if the name of the trace holds `{axis}`: such an axis varies the file, whatever it is called.
fn names_file(study: &Study, axis: &str) -> bool {
    let file = study.workload.file.as_deref().unwrap_or_default();
    file.contains(&format!("{{{axis}}}"))
}

/// Checks what all kinds that work on layers have in common.
///
/// # Errors
/// Parts of the study that mean nothing to a layer; sizes that are said twice; no layer.
pub(super) fn check_layers(study: &Study) -> Result<(), StudyError> {
    refuse(study, &["host.block_device", "limits"])?;
    if !study.axes.contains_key("ftl") {
        return wrong("axes", "an axis `ftl` with at least one translation layer is missing");
    }
    if study.axes.contains_key("spare_percent") && study.workload.capacity_bytes.is_some() {
        let reason = "spare_percent and workload.capacity_bytes both say how large the device is";
        return wrong("axes", reason);
    }
    Ok(())
}

/// The device that a combination of axis values names.
///
/// # Errors
/// Layers and settings that do not exist, with a suggestion; sizes that are none.
pub(super) fn device_of(
    study: &Study,
    values: &Combination<'_>,
) -> Result<DeviceOptions, StudyError> {
    let value = |axis: &str| values.get(axis).copied();
    let part = value("part").or(study.part.as_deref());
    let mut device = DeviceOptions {
        ftl: value("ftl").unwrap_or_default().to_owned(),
        part: part.map(|part| study.part_beside(part)),
        settings: BTreeMap::new(),
        blocks: study.blocks,
        pages_per_block: study.pages_per_block,
        logical_bytes: study.workload.capacity_bytes,
    };
    apply_settings(study, value("settings").unwrap_or(DEFAULT_SETTINGS), &mut device)?;
    // In the order of the columns: of two axes that vary the same setting the later one counts.
    let mut ordered: Vec<(&str, &str)> =
        values.iter().map(|(axis, value)| (*axis, *value)).collect();
    ordered.sort_by_key(|(axis, _)| study.column_place(axis));
    apply_to_device(&mut device, ordered.into_iter(), |axis| names_file(study, axis))?;
    // Last, because a share of the pages needs the shape of the chip.
    if let Some(spare) = value("spare_percent") {
        device.logical_bytes = Some(logical_bytes_for(spare, &device)?);
    }
    Ok(device)
}

/// Refuses a device that cannot be built, without the memory and the time that building takes.
///
/// # Errors
/// [`StudyError::Unknown`] and [`StudyError::Setting`], as of [`crate::build_device`].
pub(super) fn check_device(device: &DeviceOptions) -> Result<(), StudyError> {
    resolve(device).map(drop)
}

/// What identifies runs on a device: a layer may have nothing under a name of settings, so that
/// two combinations are the same work.
pub(super) fn identity_of(device: &DeviceOptions, more: &[String]) -> Identity {
    // The debug form quotes every word, so that equal texts are equal devices.
    std::iter::once(format!("{device:?}")).chain(more.iter().cloned()).collect()
}

/// The settings called `chosen` of the device's layer; `blocks` among them is the chip's.
fn apply_settings(
    study: &Study,
    chosen: &str,
    device: &mut DeviceOptions,
) -> Result<(), StudyError> {
    let layer = find_layer(&device.ftl)?;
    let place = format!("settings.{chosen}.{}", device.ftl);
    let given = study.settings.get(chosen).and_then(|layers| layers.get(&device.ftl));
    for (name, value) in given.into_iter().flatten() {
        match (name.as_str(), value) {
            ("blocks", SettingValue::Integer(blocks)) => match u32::try_from(*blocks) {
                Ok(blocks) => device.blocks = Some(blocks),
                Err(_) => return wrong(&place, "`blocks` is no number of blocks"),
            },
            _ => drop(device.settings.insert(name.clone(), value.into())),
        }
    }
    // Checked here, where the name of the settings is known.
    Settings::new(layer.parameters, &device.settings)
        .or_else(|error| wrong(&place, error.to_string()))?;
    Ok(())
}

/// Logical bytes that leave `spare` percent of the physical pages as spare (Sf, not OP).
fn logical_bytes_for(spare: &str, device: &DeviceOptions) -> Result<u64, StudyError> {
    let percent = spare.parse().ok().filter(|percent: &f64| *percent > 0.0 && *percent < 100.0);
    let Some(percent) = percent else {
        let reason = format!("`{spare}` is no percentage above 0 and below 100");
        return wrong("axes.spare_percent", reason);
    };
    let geometry = chip_of(device)?.geometry;
    let pages = f64::from(geometry.pages()) * (100.0 - percent) / 100.0;
    // Rounded down: a part of a page would need one that is not there.
    Ok(pages as u64 * u64::from(geometry.page_data_bytes))
}
