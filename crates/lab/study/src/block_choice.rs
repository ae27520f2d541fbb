//! The block device and its scheduler under a file system, from the axes of a study.

use crate::StudyError;
use crate::scheduler_choice::scheduler_of;
use crate::study_file::Study;
use mount::{BlockDeviceChoice, BlockRequest, Kind};
use std::collections::BTreeMap;
use std::sync::Arc;

const AXIS: &str = "block_device";

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// What a combination of axis values names: a device of `devices/`, a device file beside the study,
/// or `mtdblock`, and where nothing is named the file system's usual one; a scheduler or variant.
///
/// # Errors
/// Names that do not exist, with a suggestion; a device under a file system that works on raw NAND.
pub(crate) fn block_of(
    study: &Study,
    values: &BTreeMap<&str, &str>,
    kind: &'static Kind,
) -> Result<BlockRequest, StudyError> {
    let mut block = match values.get("scheduler") {
        Some(name) => {
            let (scheduler, settings) = scheduler_of(study, name, "", values)?;
            BlockRequest { settings, ..BlockRequest::new(scheduler) }
        }
        None => BlockRequest::default(),
    };
    let host = study.host.as_ref();
    let of_host = host.and_then(|host| host.block_device.as_deref());
    let name = values.get(AXIS).copied().or(of_host).unwrap_or(kind.usual_block_device);
    // A device file beside the study comes first.
    let path = study.beside(name);
    block.device =
        BlockDeviceChoice::find(&path).or_else(|error| wrong(AXIS, error.to_string()))?;
    if let BlockDeviceChoice::Device(device) = &mut block.device
        && let Some(flash) = &mut Arc::make_mut(device).flash
    {
        flash.part = study.part_beside(&flash.part);
    }
    kind.check_block_device(&block.device).or_else(|error| wrong(AXIS, error.to_string()))?;
    if block.device != BlockDeviceChoice::MtdBlock {
        // The study counts in kilobytes, the queue in sectors.
        block.max_sectors = host.map(|host| host.max_sectors_kb * 2);
    }
    Ok(block)
}

/// Aging is that of the chip: another device comes as it is delivered.
///
/// # Errors
/// If the flash has aged and stands in another device.
pub(crate) fn check_aging(block: &BlockRequest, is_aged: bool) -> Result<(), StudyError> {
    if is_aged && block.device != BlockDeviceChoice::MtdBlock {
        let device = block.device.name();
        let reason = format!("a history is one of raw NAND; `{device}` can only be `fresh`");
        return wrong("flash", reason);
    }
    Ok(())
}
