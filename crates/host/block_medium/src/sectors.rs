//! The bytes of a block device whose model only keeps time.

use shared_page::{PageHolder, SharedPage};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use units::{PAGE_BYTES, PAGE_SECTORS, sector_of_page};

/// Bytes of a sector.
const SECTOR_BYTES: usize = units::SECTOR_BYTES;

/// What sectors hold; those never written are zero. The timed device beside it says how long they take.
#[derive(Debug, Default)]
pub struct SectorStore {
    sectors: RefCell<BTreeMap<u64, Sector>>,
    /// Pages in memory whose bytes are here, by the place of the page on the device.
    lent: RefCell<BTreeMap<u64, Weak<SharedPage>>>,
}

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
        self.take_back(first_sector, bytes.len() as u64);
        let mut sectors = self.sectors.borrow_mut();
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
        let mut bytes = vec![0; sectors as usize * SECTOR_BYTES];
        self.copy(first_sector, &mut bytes);
        bytes
    }

    /// A page in memory has the bytes of a page of the device: they are kept here alone if it does.
    pub fn keep_once(self: &Rc<Self>, page: u64, shared: &Rc<SharedPage>) {
        if shared.lend(self, page) {
            self.lent.borrow_mut().insert(page, Rc::downgrade(shared));
        }
    }

    /// Bytes of sectors are about to change: pages that have them get them back.
    fn take_back(&self, first_sector: u64, bytes: u64) {
        let last_sector = first_sector + (bytes / SECTOR_BYTES as u64).saturating_sub(1);
        let mut lent = self.lent.borrow_mut();
        for page in first_sector / PAGE_SECTORS..=last_sector / PAGE_SECTORS {
            if let Some(shared) = lent.remove(&page).and_then(|shared| shared.upgrade()) {
                shared.take_back(page);
            }
        }
    }

    /// Fills `into` with the bytes of sectors; those never written are left as they are.
    fn copy(&self, first_sector: u64, into: &mut [u8]) {
        let held = self.sectors.borrow();
        for (sector, into) in (first_sector..).zip(into.chunks_exact_mut(SECTOR_BYTES)) {
            match held.get(&sector) {
                Some(Sector::Bytes(held)) => into.copy_from_slice(held),
                Some(Sector::Filled(byte)) => into.fill(*byte),
                None => {}
            }
        }
    }
}

impl PageHolder for SectorStore {
    fn copy_page(&self, page: u64, into: &mut [u8; PAGE_BYTES]) {
        into.fill(0);
        self.copy(sector_of_page(page), into);
    }
}
