//! Manual background operations of an eMMC card (BKOPS).
//!
//! A card whose `MANUAL_EN` bit of `BKOPS_EN` is set cleans nothing by itself. It tells the host how urgent cleaning is
//! in `BKOPS_STATUS`, and sets the exception bit of a response from level 2 on (JESD84-B51, 6.6.25). Linux reads the
//! response as a command ends. From level 2 on it starts the operations and waits for them, before it ends the
//! request: `mmc_blk_urgent_bkops`, called by `mmc_blk_mq_poll_completion` in `drivers/mmc/core/block.c`, and
//! `mmc_run_bkops` in `drivers/mmc/core/mmc_ops.c`. So the request that met the urgent level pays for the cleaning, and
//! the card takes no other command meanwhile.

use super::{Die, Dies, changes};
use crate::ActivityKind;
use ftl::{CleanStep, FtlError, Work};

/// How urgent background operations are: `BKOPS_STATUS`, byte 246 of `EXT_CSD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BkopsLevel {
    /// 0: nothing is outstanding.
    None = 0,
    /// 1: outstanding, not critical.
    NonCritical = 1,
    /// 2: performance is impacted.
    PerformanceImpacted = 2,
    /// 3: critical.
    Critical = 3,
}

impl BkopsLevel {
    /// The level of a die with `free` free blocks, of which cleaning keeps `target`.
    // Assumed: the standard leaves it to the maker when a level is reached. Half of the target and a quarter of it
    // leave room for the writes that come before the host has read the response.
    fn of(free: usize, target: usize) -> Self {
        match free {
            _ if free >= target => Self::None,
            _ if free > target / 2 => Self::NonCritical,
            _ if free > target / 4 => Self::PerformanceImpacted,
            _ => Self::Critical,
        }
    }
}

impl Dies {
    /// The level of the die that is short of free blocks most.
    pub(crate) fn bkops_level(&self) -> BkopsLevel {
        let target = self.cleaning.free_target_blocks as usize;
        let of_die = |die: &Die| BkopsLevel::of(die.layer.0.flash().free_blocks(), target);
        self.all.iter().map(of_die).max().unwrap_or(BkopsLevel::None)
    }

    /// The die folds its SLC cache and cleans until enough blocks are free; returns when that is done.
    pub(crate) fn run_bkops(&mut self, die: usize, from_ns: u64) -> Result<u64, FtlError> {
        let kind = ActivityKind::BackgroundCleaning;
        let mut end_ns = self.all[die].busy_until_ns.max(from_ns);
        // First the cache, whose pages need free blocks of the layer; then the layer makes them free again.
        while self.all[die].slc.as_ref().is_some_and(|slc| slc.holds_pages()) {
            end_ns = self.fold_step(die, end_ns, kind)?;
        }
        loop {
            let layer = &mut self.all[die].layer.0;
            let before = Work::of(layer.flash().chip());
            let step = layer.clean_step(self.cleaning.free_target_blocks)?;
            let work = Work::of(layer.flash().chip()) - before;
            self.all[die].record();
            if self.cleaning.takes_time && work != Work::default() {
                end_ns = self.clean(die, end_ns, work, kind);
            } else {
                self.place(die, changes(work), end_ns, end_ns);
            }
            if step == CleanStep::Idle {
                return Ok(end_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BkopsLevel;

    #[test]
    fn the_level_rises_as_free_blocks_run_short() {
        let levels = [8, 7, 5, 4, 3, 2, 0].map(|free| BkopsLevel::of(free, 8));
        let [none, one, two, three] = [
            BkopsLevel::None,
            BkopsLevel::NonCritical,
            BkopsLevel::PerformanceImpacted,
            BkopsLevel::Critical,
        ];
        assert_eq!(levels, [none, one, one, two, two, three, three]);
    }
}
