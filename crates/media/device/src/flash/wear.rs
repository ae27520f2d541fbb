//! Wear of the blocks of a device, die by die, and stretches of life that are left out.
//!
//! Blocks are numbered die by die, as in [`crate::DeviceFlash::erase_counts`]. Blocks of SLC caches are counted
//! apart: nothing says how many cycles they stand at one bit a cell.

use super::FlashDevice;
use crate::{DeviceSpec, SpecError};

impl FlashDevice {
    /// The flash device that a description says, to look into.
    ///
    /// # Errors
    /// [`SpecError::Impossible`] for a device without flash, unknown parts, and parts that do not fit together.
    pub fn of(spec: &DeviceSpec, seed: u64) -> Result<Self, SpecError> {
        let impossible = |reason| SpecError::Impossible { name: spec.name.clone(), reason };
        spec.check().map_err(impossible)?;
        let flash = spec.flash.as_ref();
        let flash = flash.ok_or_else(|| impossible("it has no flash that could wear".into()))?;
        let part = crate::build::part(&flash.part).map_err(impossible)?;
        Self::new(spec, &part, seed)
    }

    /// Dies of the device.
    pub fn dies(&self) -> usize {
        self.dies.all.len()
    }

    /// Cycles of each block, die by die: those before the device was made included.
    pub fn erase_cycles(&self) -> Vec<u32> {
        let chips = self.layers().map(|layer| layer.flash().chip());
        chips
            .flat_map(|chip| (0..chip.geometry().blocks).map(|block| chip.erase_cycles(block)))
            .collect()
    }

    /// False for each block that is bad or kept back, die by die: nothing wears it.
    pub fn wearing_blocks(&self) -> Vec<bool> {
        let mut all = Vec::new();
        for layer in self.layers() {
            let flash = layer.flash();
            let first = all.len();
            let blocks = 0..flash.geometry().blocks;
            all.extend(blocks.map(|block| !flash.chip().is_bad(block)));
            for block in flash.reserve_list() {
                all[first + block as usize] = false;
            }
        }
        all
    }

    /// The difference of erase counts at which the layer of a die moves cold data; none where none does.
    pub fn wear_threshold(&self) -> Option<u32> {
        self.layers().next()?.flash().wear_threshold()
    }

    /// Most erases of a block of the SLC caches; none of a device without.
    pub fn slc_erases_max(&self) -> Option<u32> {
        let caches = self.dies.all.iter().filter_map(|die| die.slc.as_ref());
        caches.flat_map(|slc| slc.erase_counts()).copied().max()
    }

    /// Wears every block by so many erases that are not carried out. What levels wear sees them at once.
    ///
    /// # Panics
    /// If there is not a number for each block of each die.
    pub fn age(&mut self, erases: &[u32]) {
        let blocks: usize =
            self.layers().map(|layer| layer.flash().geometry().blocks as usize).sum();
        assert_eq!(erases.len(), blocks, "a number for each block");
        let mut rest = erases;
        for die in &mut self.dies.all {
            let flash = die.layer.0.flash_mut();
            let (own, others) = rest.split_at(flash.geometry().blocks as usize);
            flash.age(own);
            rest = others;
        }
    }
}
