//! How long flash lasts under a piece of work: one definition for replays, studies and comparisons.
//!
//! The lifetime is what the host can write until the blocks have had the cycles that their part is rated for, if
//! the measured work goes on without end and wear is even:
//!
//! bytes written x rated cycles x blocks / erases that the work costs.
//!
//! A page that was programmed costs its share of an erase, as its block is erased before it is programmed
//! again; a short piece of work on blank flash has not come to that erase yet. So the work costs the erases
//! that were counted, or the pages that were programmed divided by the pages of a block, whichever is
//! more. What was erased before counting began is no part of it: the state of the flash matters only by
//! what it makes the work cost.

/// What a piece of work did to flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wear<'a> {
    /// Bytes that the host wrote.
    pub(crate) host_write_bytes: u64,
    /// Pages that were programmed.
    pub(crate) page_programs: u64,
    /// Pages of a block.
    pub(crate) pages_per_block: u64,
    /// Erases of each good block.
    pub(crate) erase_counts: &'a [u32],
    /// Rated cycles of a block.
    pub(crate) erase_cycles_max: u32,
    /// Nothing moves wear from block to block: the block that was erased most decides, if it ends sooner.
    pub(crate) is_unlevelled: bool,
}

impl Wear<'_> {
    /// Erases of all blocks together.
    pub(crate) fn erases(&self) -> u64 {
        self.erase_counts.iter().copied().map(u64::from).sum()
    }

    /// Bytes that the host can write; none if nothing was written, or nothing reached the flash.
    pub(crate) fn lifetime_host_bytes(&self) -> Option<u64> {
        debug_assert!(self.pages_per_block > 0, "a block has pages");
        // In pages, so that no erase is cut off: an erase is worth the pages of its block.
        let worn_pages = self.page_programs.max(self.erases() * self.pages_per_block);
        if self.host_write_bytes == 0 || worn_pages == 0 {
            return None;
        }
        let rated = u128::from(self.host_write_bytes) * u128::from(self.erase_cycles_max);
        let all_pages = self.erase_counts.len() as u128 * u128::from(self.pages_per_block);
        let even = rated.saturating_mul(all_pages) / u128::from(worn_pages);
        // Every block that is written has a first erase; what comes after it is what this block alone has.
        let hottest = self.erase_counts.iter().copied().max().unwrap_or(0);
        let lifetime = match hottest.saturating_sub(1) {
            again if self.is_unlevelled && again > 0 => even.min(rated / u128::from(again)),
            _ => even,
        };
        Some(u64::try_from(lifetime).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Wear;

    const WORK: Wear<'_> = Wear {
        host_write_bytes: 1_000_000,
        page_programs: 640,
        pages_per_block: 64,
        erase_counts: &[5, 0, 0, 0],
        erase_cycles_max: 100_000,
        is_unlevelled: false,
    };

    #[test]
    fn pages_that_were_programmed_cost_an_erase_that_is_still_to_come() {
        // Ten blocks were programmed, of which five were erased: ten erases, on four blocks.
        assert_eq!(WORK.lifetime_host_bytes(), Some(1_000_000 * 100_000 * 4 / 10));
        let erased = Wear { erase_counts: &[5, 5, 5, 5], ..WORK };
        assert_eq!(erased.lifetime_host_bytes(), Some(1_000_000 * 100_000 * 4 / 20));
    }

    #[test]
    fn where_nothing_levels_wear_the_first_block_that_ends_decides() {
        let work = Wear { is_unlevelled: true, ..WORK };
        assert_eq!(work.lifetime_host_bytes(), Some(1_000_000 * 100_000 / 4));
        let once = Wear { erase_counts: &[1, 1, 1, 1], ..work };
        assert_eq!(once.lifetime_host_bytes(), WORK.lifetime_host_bytes());
    }

    #[test]
    fn work_that_wrote_nothing_has_no_lifetime() {
        assert_eq!(Wear { host_write_bytes: 0, ..WORK }.lifetime_host_bytes(), None);
        let nothing = Wear { page_programs: 0, erase_counts: &[0; 4], ..WORK };
        assert_eq!(nothing.lifetime_host_bytes(), None);
        let most = Wear { host_write_bytes: u64::MAX, ..WORK };
        assert_eq!(most.lifetime_host_bytes(), Some(u64::MAX));
    }
}
