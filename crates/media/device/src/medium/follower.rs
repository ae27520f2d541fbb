//! A chip as it is in simulated time, and the versions of its pages.

use nand::{Chip, LowerPages, PageAddress};

/// A chip that follows another one in simulated time.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    pub(super) chip: Chip,
    /// Versions of the programmed pages of each block; none of a block that no write of the host has reached.
    pub(super) versions: Vec<Option<Box<[u64]>>>,
}

impl Follower {
    /// Follows a chip, which records its changes from now on.
    pub(super) fn new(leader: &mut Chip) -> Self {
        // A torn upper page takes no lower page with it that was acknowledged.
        leader.set_lower_pages(LowerPages::BackedUp);
        let chip = leader.clone();
        leader.record_changes();
        Self { versions: vec![None; chip.geometry().blocks as usize], chip }
    }

    pub(super) fn version_at(&self, at: PageAddress) -> u64 {
        self.versions[at.block as usize].as_ref().map_or(0, |pages| pages[at.page as usize])
    }

    pub(super) fn set_versions(&mut self, to: PageAddress, numbers: &[u64]) {
        let block = &mut self.versions[to.block as usize];
        // A block that holds nothing of the host needs no list.
        if block.is_none() && numbers.iter().all(|number| *number == 0) {
            return;
        }
        let pages = self.chip.geometry().pages_per_block as usize;
        let block = block.get_or_insert_with(|| vec![0; pages].into());
        block[to.page as usize..to.page as usize + numbers.len()].copy_from_slice(numbers);
    }

    /// A chip for the leader to go on with after a power cut. Reads were no changes: they are counted there alone.
    pub(super) fn lead_again(&mut self, leader: &Chip) -> Chip {
        self.chip.adopt_reads(leader);
        let mut chip = self.chip.clone();
        chip.record_changes();
        chip
    }

    pub(super) fn digest(&self, hash: &mut blake3::Hasher) {
        for block in 0..self.chip.geometry().blocks {
            hash.update(&self.chip.erase_cycles(block).to_le_bytes());
            for page in 0..self.chip.next_page(block) {
                let tag = self.chip.peek(PageAddress::new(block, page));
                hash.update(&tag.lpn().to_le_bytes());
                hash.update(&tag.sequence().to_le_bytes());
            }
        }
    }
}
