//! Which block device a file system stands on.

use device::{DeviceSpec, SpecError, find_or_load};
use std::sync::Arc;

/// Name of the device that is made of the machine's raw NAND.
pub const MTDBLOCK: &str = "mtdblock";

/// The block device under a file system.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum BlockDeviceChoice {
    /// `mtdblock` over the machine's raw NAND.
    #[default]
    MtdBlock,
    /// A device with a translation layer of its own, or a disk, beside the raw NAND. It comes as it is
    /// delivered, and is gone with the machine.
    Device(Arc<DeviceSpec>),
}

impl BlockDeviceChoice {
    /// `mtdblock`, a preset of `devices/`, or a device file.
    ///
    /// # Errors
    /// [`SpecError`], with a suggestion.
    pub fn find(name: &str) -> Result<Self, SpecError> {
        if name == MTDBLOCK {
            return Ok(Self::MtdBlock);
        }
        Ok(Self::Device(Arc::new(find_or_load(name)?)))
    }

    /// Name of the device, as results show it.
    pub fn name(&self) -> &str {
        match self {
            Self::MtdBlock => MTDBLOCK,
            Self::Device(spec) => &spec.name,
        }
    }
}
