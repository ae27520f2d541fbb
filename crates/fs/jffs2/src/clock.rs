//! The kernel's clock as the collector reads it: ticks (`jiffies`), whose low bits choose victims.
//!
//! May use no other file of the crate.

use random::Stream;
use sim::Sim;

const SECOND_NS: u64 = 1_000_000_000;

/// Ticks since a start that depends on the seed.
///
/// Where nothing takes time the clock would stand still, and a choice by its low bits be the same for
/// ever; the bits are drawn then.
pub(crate) struct Clock {
    sim: Sim,
    hz: u64,
    /// What the clock read when the simulation began.
    start_ns: u64,
    drawn: Stream,
    runs: bool,
}

impl Clock {
    pub(crate) fn new(sim: &Sim, hz: u32, seed: u64, runs: bool) -> Self {
        let mut drawn = Stream::new(seed, "jffs2 clock");
        // A start within 128 ticks, at a fraction of a tick: victims then depend on the seed, not
        // on the moment of the mount.
        let start_ns = u64::from(drawn.below(128 * 1024)) * SECOND_NS / 1024 / u64::from(hz);
        Self { sim: sim.clone(), hz: hz.into(), start_ns, drawn, runs }
    }

    fn ticks(&self) -> u64 {
        (u128::from(self.start_ns + self.sim.now()) * u128::from(self.hz) / u128::from(SECOND_NS))
            as u64
    }

    /// The remainder of the clock by 128.
    pub(crate) fn low_bits(&mut self) -> u32 {
        if self.runs { (self.ticks() % 128) as u32 } else { self.drawn.below(128) }
    }

    /// When a sleep of `pause_ns` that begins now ends: pauses are whole ticks, and end at a tick
    /// that is later by one (`schedule_timeout`, `kernel/time/timer.c` of Linux 6.1).
    pub(crate) fn end_of_pause_ns(&self, pause_ns: u64) -> u64 {
        if pause_ns == 0 {
            return self.sim.now();
        }
        let ticks = self.ticks() + (pause_ns * self.hz).div_ceil(SECOND_NS) + 1;
        (ticks * SECOND_NS).div_ceil(self.hz).saturating_sub(self.start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use sim::Simulation;

    #[test]
    fn pauses_end_at_a_tick_and_are_never_too_short() {
        let simulation = Simulation::new(1);
        for seed in 0..50 {
            let clock = Clock::new(&simulation.handle(), 250, seed, true);
            let end_ns = clock.end_of_pause_ns(50_000_000);
            assert!((52_000_000..=56_000_000).contains(&end_ns), "{end_ns}");
            assert_eq!((end_ns + clock.start_ns) % 4_000_000, 0);
            assert_eq!(clock.end_of_pause_ns(0), 0);
        }
    }

    #[test]
    fn a_clock_that_stands_still_gives_other_bits_all_the_same() {
        let simulation = Simulation::new(1);
        let bits = |runs| {
            let mut clock = Clock::new(&simulation.handle(), 250, 7, runs);
            let mut seen: Vec<u32> = (0..200).map(|_| clock.low_bits()).collect();
            seen.sort_unstable();
            seen.dedup();
            seen.len()
        };
        assert_eq!(bits(true), 1);
        assert!(bits(false) > 80);
    }
}
