//! A device of another size.

use crate::spec::{DeviceSpec, SpecError};
use nand::{Part, find_part, load_part};
use std::path::Path;

/// Blocks of a small die beyond its share: what layers keep open or free, whatever the size.
const SPARE_BLOCKS: u64 = 16;

impl DeviceSpec {
    /// Gives the device another capacity, and its dies as many blocks as keep the share of spare ones.
    ///
    /// Speed, dies and channels stay. The SLC cache shrinks with the rest, so that it fills after the same share of
    /// the device.
    ///
    /// # Errors
    /// [`SpecError::Impossible`] of a disk, of a capacity that is no whole number of 4 KiB, and of one above the
    /// device's own.
    pub fn set_capacity(&mut self, capacity_bytes: u64) -> Result<(), SpecError> {
        let name = self.name.clone();
        let impossible = |reason: String| SpecError::Impossible { name: name.clone(), reason };
        let Some(flash) = &mut self.flash else {
            return Err(impossible("a disk has the capacity of its cylinders".into()));
        };
        let whole_bytes = flash.capacity_bytes;
        if capacity_bytes == 0
            || !capacity_bytes.is_multiple_of(4096)
            || capacity_bytes > whole_bytes
        {
            return Err(impossible(format!(
                "a capacity must be a multiple of 4096 up to {whole_bytes} bytes, not {capacity_bytes}"
            )));
        }
        let part: Part = match find_part(&flash.part) {
            Some(part) => part,
            None => {
                load_part(Path::new(&flash.part)).map_err(|error| impossible(error.to_string()))?
            }
        };
        let planes = u64::from(part.geometry.planes);
        let shrunk = |blocks: u64| {
            let share = u128::from(blocks) * u128::from(capacity_bytes);
            (share.div_ceil(u128::from(whole_bytes)) as u64).next_multiple_of(planes)
        };
        let blocks = u64::from(flash.blocks.unwrap_or(part.geometry.blocks));
        let slc = &mut self.slc;
        // Static blocks of the SLC cache are counted with the die and hold no data of the layer.
        let layer_blocks = blocks.saturating_sub(u64::from(slc.blocks_per_die));
        slc.blocks_per_die = shrunk(u64::from(slc.blocks_per_die)) as u32;
        slc.dynamic_blocks_per_die = shrunk(u64::from(slc.dynamic_blocks_per_die)) as u32;
        // Layers keep blocks open or free whatever the size: a share of few blocks would be none.
        let spare = (SPARE_BLOCKS + u64::from(self.cleaning.free_target_blocks)) * planes;
        let least = shrunk(layer_blocks) + if capacity_bytes < whole_bytes { spare } else { 0 };
        flash.blocks = Some((least.min(layer_blocks) + u64::from(slc.blocks_per_die)) as u32);
        flash.capacity_bytes = capacity_bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{build, devices};

    #[test]
    fn every_flash_device_can_be_small() {
        for mut spec in devices() {
            let name = spec.name.clone();
            if spec.flash.is_none() {
                assert!(spec.set_capacity(1 << 20).is_err(), "{name}");
                continue;
            }
            let whole = spec.clone();
            let capacity_bytes = whole.flash.as_ref().expect("flash").capacity_bytes;
            spec.set_capacity(capacity_bytes).expect("its own");
            assert_eq!(build(&spec, 1).expect("its own").sectors() * 512, capacity_bytes, "{name}");
            for bytes in [64 << 20, 1 << 30, 2 << 30] {
                let mut spec = whole.clone();
                spec.set_capacity(bytes).expect("smaller");
                let device = build(&spec, 1).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert_eq!(device.sectors() * 512, bytes, "{name}");
            }
            for bytes in [0, 4095, capacity_bytes + 4096] {
                let told = whole.clone().set_capacity(bytes).expect_err("refused").to_string();
                assert!(told.contains("a capacity must be a multiple of 4096 up to"), "{told}");
            }
        }
    }
}
