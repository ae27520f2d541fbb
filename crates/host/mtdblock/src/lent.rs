//! Pages in memory whose bytes stand on the chip, and are kept there alone.
//!
//! Only an erase and the programs behind it change what the chip holds, and only the device's own write-back
//! does both. So pages get their bytes back before the erase of their block, and give them up again, if they
//! still are the same, after the last program. In between the block in memory is all there is.

use mtd::Mtd;
use nand::PageAddress;
use shared_page::{PageHolder, SharedPage};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use units::{PAGE_BYTES, page_start};

/// The place of a page on the device, and the page in memory.
type PlacedPage = (u64, Weak<SharedPage>);

/// Pages of the device that pages in memory are known to equal, or to equal soon.
pub(crate) struct LentPages {
    mtd: Rc<Mtd>,
    /// By erase block.
    pages: RefCell<BTreeMap<u32, Vec<PlacedPage>>>,
}

impl LentPages {
    pub(crate) fn new(mtd: Rc<Mtd>) -> Self {
        Self { mtd, pages: RefCell::default() }
    }

    /// A page in memory has the bytes of a page of the device, now or after the next write-back.
    pub(crate) fn add(self: &Rc<Self>, page: u64, shared: &Rc<SharedPage>) {
        let block_bytes = u64::from(self.mtd.block_bytes());
        // A page of two erase blocks would change with either of them.
        if !block_bytes.is_multiple_of(PAGE_BYTES as u64) {
            return;
        }
        let block = page_start(page) / block_bytes;
        // At once if the chip has the bytes; else the write-back of the block will look again.
        let _ = shared.lend(self, page);
        let mut pages = self.pages.borrow_mut();
        pages.entry(block as u32).or_default().push((page, Rc::downgrade(shared)));
    }

    /// The block is about to be erased.
    pub(crate) fn take_back(&self, block: u32) {
        for (page, shared) in self.pages.borrow().get(&block).into_iter().flatten() {
            if let Some(shared) = shared.upgrade() {
                shared.take_back(*page);
            }
        }
    }

    /// The block was programmed. Pages whose bytes differ by now, or that have left memory, are forgotten.
    pub(crate) fn lend(self: &Rc<Self>, block: u32) {
        let mut pages = self.pages.borrow_mut();
        let Some(of_block) = pages.get_mut(&block) else { return };
        of_block.retain(|(page, shared)| {
            shared.upgrade().is_some_and(|shared| shared.lend(self, *page))
        });
        if of_block.is_empty() {
            pages.remove(&block);
        }
    }
}

impl PageHolder for LentPages {
    fn copy_page(&self, place: u64, into: &mut [u8; PAGE_BYTES]) {
        self.mtd.with_chip(|chip| {
            let page_bytes = chip.geometry().page_data_bytes as usize;
            let pages_per_block = u64::from(chip.geometry().pages_per_block);
            let mut at = page_start(place);
            let mut left = &mut into[..];
            while !left.is_empty() {
                let (page, from) = (at / page_bytes as u64, at as usize % page_bytes);
                let address = PageAddress::new(
                    (page / pages_per_block) as u32,
                    (page % pages_per_block) as u32,
                );
                let count = left.len().min(page_bytes - from);
                let (now, rest) = left.split_at_mut(count);
                // As they are stored, past the driver: this is no read of the chip.
                match chip.page_bytes(address) {
                    Some(bytes) => now.copy_from_slice(&bytes[from..from + count]),
                    None => now.fill(0xff),
                }
                (left, at) = (rest, at + count as u64);
            }
        });
    }
}
