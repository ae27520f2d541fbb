//! What a study file says about the limits of flash and memory that file systems work within.

use crate::flash_aging::FlashState;
use board::Board;
use nand::Geometry;
use serde::{Deserialize, Serialize};

/// A name on the axis `limits`: how much flash and memory there is, and how much of it may be dirty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The partition, instead of the whole chip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_mib: Option<u32>,
    /// The flash is filled with files until so much is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_mib: Option<u32>,
    /// RAM free for the page cache and its dirty pages, instead of the board's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_mib: Option<u32>,
    /// Percentage of that from which the flusher writes (`vm.dirty_background_ratio`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_background_ratio: Option<u32>,
    /// Percentage of that from which writers wait (`vm.dirty_ratio`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_ratio: Option<u32>,
    /// Options of the mount, in the kernel's words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mount_options: Vec<String>,
}

impl Limits {
    /// Changes a chip and its board to what the limits say.
    ///
    /// # Errors
    /// A sentence on a partition that is not of the chip, or on ratios that exclude each other.
    pub(crate) fn apply(&self, geometry: &mut Geometry, board: &mut Board) -> Result<(), String> {
        if let Some(mebibytes) = self.partition_mib {
            let block_bytes = u64::from(geometry.pages_per_block * geometry.page_data_bytes);
            // Whole blocks: a part of one at the end is not used.
            let blocks = (u64::from(mebibytes) << 20) / block_bytes;
            if blocks == 0 || blocks > u64::from(geometry.blocks) {
                let chip_mib = (u64::from(geometry.blocks) * block_bytes) >> 20;
                return Err(format!("partition_mib is {mebibytes}, but must be 1 to {chip_mib}"));
            }
            geometry.blocks = blocks as u32;
        }
        if let Some(mebibytes) = self.ram_mib {
            board.available_bytes = u64::from(mebibytes) << 20;
        }
        let writeback = &mut board.writeback;
        writeback.dirty_ratio = self.dirty_ratio.unwrap_or(writeback.dirty_ratio);
        writeback.dirty_background_ratio =
            self.dirty_background_ratio.unwrap_or(writeback.dirty_background_ratio);
        // The ratios can be compared only now that both are known.
        board.check()
    }

    /// The aging that fills the flash, if the limits have `free_mib`.
    pub(crate) fn filling(&self) -> Option<FlashState> {
        self.free_mib.map(FlashState::leaving)
    }
}
