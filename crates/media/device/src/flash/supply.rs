//! Idle time, loss and return of the supply, and a device that starts over.

use super::{FlashDevice, Timeline};
use crate::DeviceStatistics;
use crate::timeline::CleaningTimes;
use ftl::FtlError;

impl FlashDevice {
    /// Nothing is asked of the device until `until_ns`.
    #[cold]
    pub(crate) fn idle_until(&mut self, until_ns: u64) -> Result<(), FtlError> {
        // The last command may have let the dies run ahead of it.
        if until_ns > self.caught_up_ns {
            self.catch_up(until_ns)?;
            self.caught_up_ns = until_ns;
        }
        Ok(())
    }

    /// Everything in the cache is lost, but for what was programmed by `at_ns`. Returns the sectors that were not.
    pub(crate) fn empty_cache(&mut self, at_ns: u64) -> u64 {
        for die in 0..self.dies.all.len() {
            if self.dies.all[die].in_flight.as_ref().is_some_and(|page| page.end_ns <= at_ns) {
                self.land(die);
            }
        }
        self.cache.clear()
    }

    /// The supply is back at `at_ns`: no command is executed, nothing is under way.
    pub(crate) fn power_up(&mut self, at_ns: u64) {
        self.bus.power_up();
        self.places.start_over();
        if let Some(processors) = &mut self.processors {
            processors.start_over();
        }
        self.cleaning_times = CleaningTimes::default();
        self.dies.power_up(at_ns);
        (self.last_ns, self.caught_up_ns) = (at_ns, at_ns);
    }

    /// Forgets time and counts; what the dies hold stays. The cache must be empty.
    pub(crate) fn start_over(&mut self) {
        debug_assert!(self.cache.is_empty(), "the cache was emptied before");
        debug_assert!(
            self.dies.all.iter().all(|die| die.in_flight.is_none()),
            "no page of the cache is being programmed"
        );
        self.bus = Timeline::default();
        self.places.start_over();
        if let Some(processors) = &mut self.processors {
            processors.start_over();
        }
        self.cleaning_times = CleaningTimes::default();
        self.dies.start_over();
        self.last_ns = 0;
        self.caught_up_ns = 0;
        self.statistics = DeviceStatistics::default();
    }
}
