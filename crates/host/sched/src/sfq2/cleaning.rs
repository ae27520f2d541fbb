//! When the device cleans: writes that take many times what writes take.
//!
//! A flash translation layer that collects garbage makes writes wait for copies and erasures, each some milliseconds,
//! while reads of other chips go on. Writes sent then only fill the device's queue, and reads behind them wait too. So
//! they are held back while processes wait, and the device gets its own work done.
//!
//! The usual time is the median of all writes, followed by steps of a sixteenth: up after a longer one, down after a
//! shorter. A median is not moved by the few writes that meet cleaning, and the estimate needs one number.

/// Writes after which the median is trusted.
// By sixteen steps of a sixteenth the estimate may have moved to 0.36 or 2.6 times the first write.
const LEARNED_AFTER: u32 = 16;

/// Slow writes in a row that are no chance.
// One is slow for its own reasons, as a retry. More would let the queue of the device fill first.
const SLOW_IN_A_ROW: u32 = 2;

/// A step of the median is this part of it.
const STEP_PART: u64 = 16;

/// Learns from completed writes whether the device cleans.
pub(super) struct Cleaning {
    /// Times the median that a write takes at least while the device cleans; 0 to learn nothing.
    factor: u32,
    hold_ns: u64,
    writes: u32,
    median_ns: u64,
    slow: u32,
    /// Writes are held back before this time.
    until_ns: u64,
    /// No hold begins before this time: as long as a hold may last, writes are served again.
    rest_ns: u64,
}

impl Cleaning {
    pub(super) fn new(factor: u32, hold_ns: u64) -> Self {
        Self { factor, hold_ns, writes: 0, median_ns: 0, slow: 0, until_ns: 0, rest_ns: 0 }
    }

    /// A write was complete after `took_ns`.
    pub(super) fn learn(&mut self, now_ns: u64, took_ns: u64) {
        if self.factor == 0 {
            return;
        }
        // Against the median of before: a slow write must not raise the measure for itself.
        let is_slow = took_ns >= self.median_ns.saturating_mul(u64::from(self.factor));
        let step_ns = self.median_ns / STEP_PART;
        if self.writes == 0 {
            self.median_ns = took_ns;
        } else if took_ns > self.median_ns {
            // At least 1, or a median below sixteen could never grow.
            self.median_ns += step_ns.max(1);
        } else if took_ns < self.median_ns {
            self.median_ns -= step_ns;
        }
        self.writes = self.writes.saturating_add(1);
        if self.writes <= LEARNED_AFTER {
            return;
        }
        if !is_slow {
            // A write of the usual time: the device is through.
            self.slow = 0;
            self.until_ns = self.until_ns.min(now_ns);
            return;
        }
        self.slow = self.slow.saturating_add(1);
        // A rest as long as the hold bounds what cleaning costs: at most half of the time (`docs/sfq2.md`).
        if self.slow >= SLOW_IN_A_ROW && now_ns >= self.rest_ns {
            self.until_ns = now_ns + self.hold_ns;
            self.rest_ns = self.until_ns + self.hold_ns;
        }
    }

    /// True while writes are to be held back.
    pub(super) fn is_holding(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns
    }

    /// When the latest hold ends.
    pub(super) fn hold_end_ns(&self) -> u64 {
        self.until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::Cleaning;

    /// Writes of 100 to 131 ns, one each 1000 ns, until the median is known.
    fn learned() -> (Cleaning, u64) {
        let mut cleaning = Cleaning::new(4, 10_000);
        for write in 0..64 {
            cleaning.learn(write * 1000, 100 + write % 32);
        }
        (cleaning, 64_000)
    }

    #[test]
    fn the_median_is_found() {
        let (cleaning, _) = learned();
        assert!((105..=126).contains(&cleaning.median_ns), "{}", cleaning.median_ns);
    }

    #[test]
    fn two_slow_writes_hold_and_one_of_the_usual_time_releases() {
        let (mut cleaning, now_ns) = learned();
        cleaning.learn(now_ns, 600);
        assert!(!cleaning.is_holding(now_ns));
        cleaning.learn(now_ns + 1, 600);
        assert!(cleaning.is_holding(now_ns + 1));
        assert_eq!(cleaning.hold_end_ns(), now_ns + 10_001);
        assert!(cleaning.is_holding(now_ns + 10_000) && !cleaning.is_holding(now_ns + 10_001));
        cleaning.learn(now_ns + 2, 110);
        assert!(!cleaning.is_holding(now_ns + 2));
    }

    #[test]
    fn as_long_as_a_hold_writes_are_served_before_the_next() {
        let (mut cleaning, now_ns) = learned();
        for write in 0..40 {
            let at_ns = now_ns + write * 1000;
            cleaning.learn(at_ns, 10_000);
            let holds = (1..11).contains(&write) || (21..31).contains(&write);
            assert_eq!(cleaning.is_holding(at_ns), holds, "write {write}");
        }
    }

    #[test]
    fn a_factor_of_0_learns_nothing() {
        let mut cleaning = Cleaning::new(0, 10_000);
        (0..100).for_each(|write| cleaning.learn(write, if write < 50 { 10 } else { 9999 }));
        assert!(!cleaning.is_holding(100));
    }
}
