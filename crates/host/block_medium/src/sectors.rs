//! The bytes of a block device whose model only keeps time.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Bytes of a sector.
const SECTOR_BYTES: usize = units::SECTOR_BYTES;

/// What sectors hold; those never written are zero. The timed device beside it says how long they take.
#[derive(Debug, Default)]
pub struct SectorStore(RefCell<BTreeMap<u64, Sector>>);

/// What a sector holds.
#[derive(Debug)]
enum Sector {
    /// One byte over and over, as erased flash does.
    Filled(u8),
    Bytes(Box<[u8]>),
}

impl SectorStore {
    /// Takes bytes of whole sectors over.
    pub fn put(&self, first_sector: u64, bytes: &[u8]) {
        let mut sectors = self.0.borrow_mut();
        for (sector, bytes) in (first_sector..).zip(bytes.chunks_exact(SECTOR_BYTES)) {
            // Most sectors of a fresh device are one byte over and over, and take no room of their
            // own.
            let is_filled = bytes.iter().all(|byte| *byte == bytes[0]);
            match sectors.get_mut(&sector) {
                _ if is_filled => drop(sectors.insert(sector, Sector::Filled(bytes[0]))),
                Some(Sector::Bytes(held)) => held.copy_from_slice(bytes),
                _ => drop(sectors.insert(sector, Sector::Bytes(bytes.into()))),
            }
        }
    }

    /// The bytes of sectors that follow each other.
    pub fn get(&self, first_sector: u64, sectors: u32) -> Vec<u8> {
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
