//! Which block device a file system stands on, and the bytes of one that only keeps time.

use device::{DeviceSpec, SpecError, find_device};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a sector.
const SECTOR_BYTES: usize = 512;

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
        let path = Path::new(name);
        let is_file = path.extension().is_some_and(|extension| extension == "toml");
        let spec = if is_file { DeviceSpec::load(path)? } else { find_device(name)? };
        Ok(Self::Device(Arc::new(spec)))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::MtdBlock => MTDBLOCK,
            Self::Device(spec) => &spec.name,
        }
    }
}

/// What sectors hold; those never written are zero. The timed device beside it says how long they take.
#[derive(Debug, Default)]
pub(crate) struct SectorStore(RefCell<BTreeMap<u64, Sector>>);

/// What a sector holds.
#[derive(Debug)]
enum Sector {
    /// One byte over and over, as erased flash does.
    Filled(u8),
    Bytes(Box<[u8]>),
}

impl SectorStore {
    /// Takes bytes of whole sectors over.
    pub(crate) fn put(&self, first_sector: u64, bytes: &[u8]) {
        let mut sectors = self.0.borrow_mut();
        for (sector, bytes) in (first_sector..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            let is_filled = bytes.iter().all(|byte| *byte == bytes[0]);
            match sectors.get_mut(&sector) {
                _ if is_filled => drop(sectors.insert(sector, Sector::Filled(bytes[0]))),
                Some(Sector::Bytes(held)) => held.copy_from_slice(bytes),
                _ => drop(sectors.insert(sector, Sector::Bytes(bytes.into()))),
            }
        }
    }

    /// The bytes of sectors that follow each other.
    pub(crate) fn get(&self, first_sector: u64, sectors: u32) -> Vec<u8> {
        let held = self.0.borrow();
        let mut bytes = vec![0; sectors as usize * SECTOR_BYTES];
        for (sector, into) in (first_sector..).zip(bytes.chunks_exact_mut(SECTOR_BYTES)) {
            match held.get(&sector) {
                Some(Sector::Bytes(held)) => into.copy_from_slice(held),
                Some(Sector::Filled(byte)) => into.fill(*byte),
                None => {}
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{BlockDeviceChoice, SectorStore};

    #[test]
    fn names_are_looked_up_and_slips_are_answered_with_a_suggestion() {
        let raw_nand = BlockDeviceChoice::find("mtdblock").expect("always there");
        assert_eq!(raw_nand, BlockDeviceChoice::default());
        let card = BlockDeviceChoice::find("emmc-4.5-64gb").expect("a preset");
        assert_eq!(card.name(), "emmc-4.5-64gb");
        let error = BlockDeviceChoice::find("emmc-4.5-64g").expect_err("a slip").to_string();
        assert!(error.contains("emmc-4.5-64gb"), "{error}");
    }

    #[test]
    fn sectors_hold_what_was_written_last_and_are_zero_before() {
        let store = SectorStore::default();
        store.put(7, &[[1; 512], [2; 512]].concat());
        store.put(8, &[3; 512]);
        assert_eq!(store.get(6, 4), [[0; 512], [1; 512], [3; 512], [0; 512]].concat());
        let mixed: Vec<u8> = (0..=255).cycle().take(512).collect();
        store.put(7, &mixed);
        store.put(8, &mixed);
        store.put(8, &[0xff; 512]);
        assert_eq!(store.get(7, 2), [mixed, vec![0xff; 512]].concat());
    }
}
