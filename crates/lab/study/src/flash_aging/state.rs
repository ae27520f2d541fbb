//! What a study file says about the state of the flash.

use fs_api::SpaceUse;
use serde::{Deserialize, Serialize};

/// What the percentages of a state are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PercentOf {
    /// The size of the file system as `statfs` shows it (`f_blocks`).
    #[default]
    Size,
    /// What of the size users can have, as `df` computes its percentage: without the blocks that are free
    /// but not available (`f_bfree` less `f_bavail`). Of NILFS2, that is without the segments that are
    /// kept for the cleaner, 8 at least (`NILFS_MIN_NRSVSEGS`, Linux 6.1): 8 of 31 on 256 MiB.
    Usable,
}

impl PercentOf {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_size(&self) -> bool {
        *self == Self::Size
    }

    /// Blocks that stand for a hundred percent.
    pub(crate) fn blocks(self, space: SpaceUse) -> u64 {
        let kept = space.free_blocks.saturating_sub(space.available_blocks);
        match self {
            Self::Size => space.blocks,
            Self::Usable => space.blocks.saturating_sub(kept),
        }
    }
}

/// A name on the flash axis that stands for aging: files are written until the file system is
/// filled so far, then some of them are overwritten, or deleted and written anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashState {
    /// Share of the file system that files take, in percent.
    #[serde(default)]
    pub fill_percent: u32,
    /// Files are written until so much is left for more, instead of to a share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_mib: Option<u32>,
    /// Bytes written after that, in percent of the file system: half of them over files that are
    /// there, half into new files in the place of deleted ones.
    #[serde(default)]
    pub rewritten_percent: u32,
    /// What both percentages are of.
    #[serde(default, skip_serializing_if = "PercentOf::is_size")]
    pub percent_of: PercentOf,
    /// Largest file that is written; sizes are uniform up to it.
    #[serde(default = "megabyte")]
    pub file_kib_max: u32,
    /// Share of every 4 KiB that is random; the rest is zeros, which compress away.
    #[serde(default = "hundred")]
    pub random_percent: u32,
}

const fn megabyte() -> u32 {
    1024
}

const fn hundred() -> u32 {
    100
}

impl FlashState {
    /// Files of random bytes until so many mebibytes are left.
    pub(crate) fn leaving(free_mib: u32) -> Self {
        Self {
            fill_percent: 0,
            free_mib: Some(free_mib),
            rewritten_percent: 0,
            percent_of: PercentOf::Size,
            file_kib_max: megabyte(),
            random_percent: hundred(),
        }
    }

    /// Why no fresh file system of this space can hold the files that are filled in; none if that is not
    /// certain. What can be compressed away needs no space, and what is rewritten depends on collecting.
    pub(crate) fn cannot_fit(&self, fresh: SpaceUse) -> Option<String> {
        let bytes_of = |blocks: u64| blocks.saturating_mul(fresh.block_bytes.into());
        let percent = |bytes: u64, share: u32| bytes / 100 * u64::from(share);
        let filled = percent(bytes_of(self.percent_of.blocks(fresh)), self.fill_percent);
        let usable = bytes_of(PercentOf::Usable.blocks(fresh));
        if percent(filled, self.random_percent) <= usable {
            return None;
        }
        let (needed, size, usable) = (filled >> 20, bytes_of(fresh.blocks) >> 20, usable >> 20);
        Some(format!(
            "it fills {needed} MiB, and of the {size} MiB of the file system, files and what leads to them \
             can have {usable}: choose a smaller fill_percent, or percent_of = \"usable\""
        ))
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence on a share that is out of range, or keys that exclude each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        // What a file system keeps for itself comes on top: above that, aging would end in ENOSPC.
        if self.fill_percent > 90 {
            return Err(format!("fill_percent is {}, but must be 0 to 90", self.fill_percent));
        }
        if self.free_mib.is_some() && self.fill_percent > 0 {
            return Err("fill_percent and free_mib both say how far the flash is filled".into());
        }
        if self.free_mib == Some(0) {
            return Err("free_mib is 0, but must be at least 1".into());
        }
        if self.rewritten_percent > 1000 {
            let percent = self.rewritten_percent;
            return Err(format!("rewritten_percent is {percent}, but must be 0 to 1000"));
        }
        // A page of the host at least, and no file that a small partition cannot hold.
        if !(4..=65_536).contains(&self.file_kib_max) {
            return Err(format!("file_kib_max is {}, but must be 4 to 65536", self.file_kib_max));
        }
        if self.random_percent > 100 {
            return Err(format!("random_percent is {}, but must be 0 to 100", self.random_percent));
        }
        Ok(())
    }
}
