//! How fast a device writes, and how fast writers may go so that it keeps up.
//!
//! Source: `bdi_update_write_bandwidth`, `bdi_update_dirty_ratelimit`, `bdi_position_ratio`,
//! `bdi_max_pause` and `bdi_min_pause` of `mm/page-writeback.c`, Linux 3.4. Rates are pages a
//! second, times are ticks. Each device has the whole limit for itself: its share of the completed
//! writes, which matters when several devices are written at once, is not modelled.

use crate::limits::Limits;

/// Least ticks between two estimates: a fifth of a second (`BANDWIDTH_INTERVAL`).
fn interval_ticks(hz: u64) -> u64 {
    (hz / 5).max(1)
}

/// Rate at which every estimate begins: 100 MiB a second (`INIT_BW`).
// 100 MiB in pages of 4 KiB: `INIT_BW` is 100 << (20 - PAGE_SHIFT).
const FIRST_RATE: u64 = 100 << (20 - 12);

/// Bits behind the point of a position ratio (`RATELIMIT_CALC_SHIFT`).
const RATIO_BITS: u32 = 10;

/// Pages a writer should at least dirty between two pauses (`DIRTY_POLL_THRESH`).
const POLL_PAGES: u64 = 32;

/// What the estimates are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) now_ticks: u64,
    /// When the work began that asks for the estimate.
    pub(crate) since_ticks: u64,
    /// Pages of the device written so far.
    pub(crate) written: u64,
    /// Pages of the device dirtied so far.
    pub(crate) dirtied: u64,
    /// Dirty pages and pages being written, all devices together; none if the asker is no writer.
    pub(crate) dirty: Option<u64>,
    /// The same of this device.
    pub(crate) device_dirty: u64,
}

/// Dirty pages and pages being written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unwritten {
    /// Of all devices together.
    pub(crate) all: u64,
    /// Of the device whose writers are held.
    pub(crate) of_device: u64,
}

/// Estimates of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bandwidth {
    stamp_ticks: u64,
    written_stamp: u64,
    dirtied_stamp: u64,
    rate: u64,
    smooth_rate: u64,
    // `dirty_ratelimit`, which every writer of the device multiplies by the position ratio.
    /// Base of every writer's rate.
    writer_rate: u64,
    balanced_rate: u64,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Self {
            stamp_ticks: 0,
            written_stamp: 0,
            dirtied_stamp: 0,
            rate: FIRST_RATE,
            smooth_rate: FIRST_RATE,
            writer_rate: FIRST_RATE,
            balanced_rate: FIRST_RATE,
        }
    }
}

/// How a writer that is over the free run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Pages a second the writer may dirty; zero at the limit.
    pub(crate) rate: u64,
    /// The longest pause of a writer, in ticks.
    pub(crate) longest: u64,
    /// Shorter pauses are saved up, ticks.
    pub(crate) shortest: u64,
    /// Pages after which to look again.
    pub(crate) pages: u64,
}

impl Bandwidth {
    /// Pages a second the device writes.
    pub(crate) fn pages_per_second(&self) -> u64 {
        self.smooth_rate
    }

    /// Makes new estimates if the last are old enough.
    pub(crate) fn update(&mut self, limits: &Limits, sample: &Sample) {
        let elapsed = sample.now_ticks - self.stamp_ticks;
        if elapsed < interval_ticks(limits.hz) {
            return;
        }
        // After a rest of more than a second the counts say nothing about the device.
        let is_stale = elapsed > limits.hz && self.stamp_ticks < sample.since_ticks;
        if !is_stale {
            if let Some(dirty) = sample.dirty {
                // Before `measure`, as in `__bdi_update_bandwidth`: the writers' rate is steered by
                // the bandwidth of the interval before.
                let dirty_rate = (sample.dirtied - self.dirtied_stamp) * limits.hz / elapsed;
                self.steer(
                    limits,
                    Unwritten { all: dirty, of_device: sample.device_dirty },
                    dirty_rate,
                );
            }
            self.measure(limits.hz, elapsed, sample.written - self.written_stamp);
        }
        self.dirtied_stamp = sample.dirtied;
        self.written_stamp = sample.written;
        self.stamp_ticks = sample.now_ticks;
    }

    /// A moving mean of the device's rate over about three seconds, and a smoother one behind it.
    fn measure(&mut self, hz: u64, elapsed: u64, written: u64) {
        // `roundup_pow_of_two(3 * HZ)`, so that the kernel can shift; at 1000 Hz the window is 4.1
        // s.
        let period = (3 * hz).next_power_of_two();
        let before = self.rate;
        if elapsed > period {
            self.rate = written * hz / elapsed;
            self.smooth_rate = self.rate;
            return;
        }
        self.rate = (written * hz + before * (period - elapsed)) / period;
        let smooth = self.smooth_rate;
        // The second mean follows only if the first one moves away from it in the same direction
        // twice: single spikes pass by.
        if smooth > before && before >= self.rate {
            self.smooth_rate -= (smooth - before) / 8;
        }
        if smooth < before && before <= self.rate {
            self.smooth_rate += (before - smooth) / 8;
        }
    }

    /// Moves the writers' rate towards the one at which the device keeps up.
    fn steer(&mut self, limits: &Limits, unwritten: Unwritten, dirty_rate: u64) {
        let ratio = self.position_ratio(limits, unwritten);
        // One more page a second: a rate of zero would stay at zero (`bdi_update_dirty_ratelimit`).
        let task_rate = ((self.writer_rate * ratio) >> RATIO_BITS) + 1;
        // Never above what the device writes, and `| 1` keeps an idle interval from dividing by
        // zero.
        let balanced = (task_rate * self.smooth_rate / (dirty_rate | 1)).min(self.smooth_rate);
        let before = self.writer_rate;
        // Below the set point only a rise is wanted, above it only a fall: the most careful of
        // three estimates decides.
        let step = if unwritten.all < u64::midpoint(limits.free_run(), limits.dirty) {
            self.balanced_rate.min(balanced).min(task_rate).saturating_sub(before)
        } else {
            before.saturating_sub(self.balanced_rate.max(balanced).max(task_rate))
        };
        // `step >>= ratelimit / (2 * step + 1)`: small steps of a large rate are noise and vanish.
        let shift = u32::try_from(before / (2 * step + 1)).unwrap_or(u32::MAX);
        // An eighth of the way at a time, rounded up so that the last steps are made at all.
        let step = step.checked_shr(shift).unwrap_or(0).div_ceil(8);
        // The direction is that of the newest estimate, although the step was measured against
        // three.
        self.writer_rate = if before < balanced { before + step } else { before - step }.max(1);
        self.balanced_rate = balanced;
    }

    /// Share of the base rate that fits the number of dirty pages: above one below the point
    /// half-way between the free run and the limit, nothing at the limit.
    fn position_ratio(&self, limits: &Limits, unwritten: Unwritten) -> u64 {
        let Unwritten { all: dirty, of_device: device_dirty } = unwritten;
        let limit = limits.dirty.cast_signed();
        let dirty = dirty.cast_signed();
        if dirty >= limit {
            // 10 bits of fraction and signed: above the set point the cube is negative.
            return 0;
        }
        let set_point = i64::midpoint(limits.free_run().cast_signed(), limit);
        let distance = ((set_point - dirty) << RATIO_BITS) / (limit - set_point + 1);
        // A third power is flat around the set point and steep at its ends, which keeps writers
        // steady in the middle.
        let cube = (((distance * distance) >> RATIO_BITS) * distance) >> RATIO_BITS;
        let mut ratio = (cube + (1 << RATIO_BITS)).cast_unsigned();
        // The same for the device alone, on a line that reaches zero eight seconds of writing later.
        let (set_point, span) = (set_point.cast_unsigned(), 8 * self.smooth_rate);
        let end = set_point + span;
        // A quarter of the ratio is the least that the device's own line leaves.
        if device_dirty < end - span / 4 {
            ratio = ratio * (end - device_dirty) / (span + 1);
        } else {
            ratio /= 4;
        }
        // The reserve of `bdi_position_ratio`: with few dirty pages a device may run dry, so its
        // writers go faster, by eight times at most.
        let few = limits.dirty / 2;
        if device_dirty < few {
            ratio = if device_dirty > few / 8 { ratio * few / device_dirty } else { ratio * 8 };
        }
        ratio
    }

    /// How a writer has to go on.
    pub(crate) fn pace(&self, limits: &Limits, unwritten: Unwritten) -> Pace {
        let hz = limits.hz;
        let rate = (self.writer_rate * self.position_ratio(limits, unwritten)) >> RATIO_BITS;
        let quantum = self.smooth_rate / (1 + hz / 8).next_power_of_two();
        // An eighth of the time in which the device could write what is dirty; with longer pauses
        // it would run dry.
        let longest = (unwritten.of_device / (1 + quantum) + 1).min((hz / 5).max(1));
        let fast = u64::from(self.smooth_rate.max(1).ilog2());
        let slow = u64::from(self.writer_rate.max(1).ilog2());
        // 10 ms for one writer, 10 ms more for each doubling of their number, of which the quotient
        // of the rates is a measure.
        let mut ticks = (hz / 100).max(1) + fast.saturating_sub(slow) * (10 * hz) / 1024;
        ticks = ticks.min(1 + longest / 2);
        let second = hz.next_power_of_two();
        let mut pages = self.writer_rate * ticks / second;
        // A writer that pauses after fewer than 32 pages costs throughput, so the pause grows
        // instead.
        if pages < POLL_PAGES {
            ticks = longest;
            pages = self.writer_rate * ticks / second;
            if pages > POLL_PAGES {
                pages = POLL_PAGES;
                ticks = hz * POLL_PAGES / self.writer_rate;
            }
        }
        // The rate of this moment lies far below the base: the longest pause sets the pages.
        if hz * pages / (rate + 1) > longest {
            ticks = longest;
            pages = rate * ticks / second;
        }
        let shortest = if pages >= POLL_PAGES { 1 + ticks / 2 } else { ticks };
        Pace { rate, longest, shortest, pages }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bandwidth, Limits, Pace, Sample, Unwritten};
    use crate::limits::Era;

    /// 1000 pages in the background, 2000 at most: writers go free up to 1500, and 1750 are aimed
    /// at.
    fn limits(hz: u64) -> Limits {
        Limits {
            background: 1000,
            dirty: 2000,
            unchecked: 1024,
            era: Era::WriterPauses,
            has_stable_pages: true,
            looks_back: true,
            minds_congestion: false,
            sleeps_when_clean: true,
            interval_ns: 5_000_000_000,
            expire_ns: 30_000_000_000,
            tick_ns: 1_000_000_000 / hz,
            hz,
        }
    }

    fn sample(now_ticks: u64, written: u64) -> Sample {
        Sample {
            now_ticks,
            since_ticks: 0,
            written,
            dirtied: written,
            dirty: None,
            device_dirty: 0,
        }
    }

    /// `bdi_update_write_bandwidth`: with 1000 ticks a second the mean goes over 4096; the smooth one follows
    /// by an eighth as long as the other goes on in its direction.
    #[test]
    fn the_rate_of_the_device_is_a_moving_mean() {
        let (mut bandwidth, limits) = (Bandwidth::default(), limits(1000));
        let mut rates = Vec::new();
        let mut written = 0;
        for (turn, pages) in [2000, 2000, 2000, 8000, 8000, 8000, 8000].into_iter().enumerate() {
            written += pages;
            bandwidth.update(&limits, &sample(200 * (turn as u64 + 1), written));
            rates.push((bandwidth.rate, bandwidth.pages_per_second()));
        }
        let expected = [
            (24_838, 25_600),
            (24_113, 25_505),
            (23_423, 25_331),
            (24_232, 25_331),
            (25_001, 25_331),
            (25_733, 25_331),
            (26_429, 25_381),
        ];
        assert_eq!(rates, expected);
    }

    /// `BANDWIDTH_INTERVAL` is a fifth of a second, in ticks; a mean of more than its own period is the rate
    /// of all that time.
    #[test]
    fn an_estimate_needs_a_fifth_of_a_second() {
        for (hz, ticks) in [(1000, 200), (100, 20)] {
            let (mut bandwidth, limits) = (Bandwidth::default(), limits(hz));
            bandwidth.update(&limits, &sample(ticks - 1, 5000));
            assert_eq!(bandwidth.pages_per_second(), 25_600, "too early");
            assert_eq!(bandwidth.written_stamp, 0);
            bandwidth.update(&limits, &sample(ticks, 5000));
            assert_eq!(bandwidth.written_stamp, 5000);
        }
        let long = |elapsed, written| {
            let mut bandwidth = Bandwidth::default();
            bandwidth.update(&limits(1000), &sample(elapsed, written));
            (bandwidth.rate, bandwidth.smooth_rate)
        };
        assert_eq!(long(4096, 8192), (2000, 25_600));
        assert_eq!(long(4097, 8194), (2000, 2000));
        // Work that began later than the last estimate, more than a second ago, says nothing.
        let mut rested = Bandwidth::default();
        let late = Sample { since_ticks: 5000, ..sample(5000, 10) };
        rested.update(&limits(1000), &late);
        assert_eq!((rested.rate, rested.stamp_ticks, rested.written_stamp), (25_600, 5000, 10));
    }

    /// `bdi_position_ratio`, in 1024ths: 1 at the point that is aimed at, a cube around it, nothing at the
    /// limit; a device with few dirty pages is left more of them.
    #[test]
    fn writers_go_slower_the_nearer_the_limit_is() {
        let bandwidth = Bandwidth::default();
        let ratio =
            |all, of_device| bandwidth.position_ratio(&limits(1000), Unwritten { all, of_device });
        let all = [1500, 1600, 1750, 1900, 1999, 2000].map(|dirty| ratio(dirty, dirty));
        assert_eq!(all, [2035, 1241, 1023, 805, 25, 0]);
        let few = [500, 126, 125, 100].map(|of_device| ratio(1900, of_device));
        assert_eq!(few, [1620, 6444, 6496, 6496], "eightfold below an eighth of the half");
        let slow = Bandwidth { smooth_rate: 10, ..bandwidth };
        let ratio =
            |all, of_device| slow.position_ratio(&limits(1000), Unwritten { all, of_device });
        assert_eq!([ratio(1750, 1750), ratio(1900, 1900)], [1011, 201]);
        assert_eq!([ratio(1750, 1809), ratio(1750, 1810)], [265, 256], "never below a quarter");
    }

    /// `bdi_max_pause` and `bdi_min_pause`: about 10 ms, longer for slow writers so that 32 pages go between
    /// two pauses, and never so long that the device runs dry.
    #[test]
    fn a_pause_fits_the_rates_of_writer_and_device() {
        let pace = |writer_rate, smooth_rate, dirty| {
            let bandwidth = Bandwidth { smooth_rate, writer_rate, ..Bandwidth::default() };
            let Pace { rate, longest, shortest, pages } =
                bandwidth.pace(&limits(1000), Unwritten { all: dirty, of_device: dirty });
            (rate, longest, shortest, pages)
        };
        assert_eq!(pace(25_600, 25_600, 1900), (20_125, 10, 4, 150));
        assert_eq!(pace(25_600, 25_600, 2000), (0, 10, 10, 0), "at the limit");
        assert_eq!(pace(200, 1000, 1750), (199, 200, 81, 32), "32 pages take 160 ticks");
        assert_eq!(pace(164, 1000, 1750), (163, 200, 101, 32), "just 32 in the longest pause");
        assert_eq!(pace(1000, 25_600, 1900), (786, 10, 10, 7));
        assert_eq!(pace(200, 1000, 1990), (24, 200, 200, 4));
    }

    /// `bdi_update_dirty_ratelimit`: two writers that dirty twice as much as the device writes get half of its
    /// rate, times the position ratio. The rate only falls above the point that is aimed at, and only rises
    /// below it; the last small steps are not taken, as a step is shifted by how often it fits in the rate.
    #[test]
    fn the_writers_rate_goes_to_their_share_of_the_device() {
        for (dirty, first, nearest) in [(1900, 25_600, 1.0..1.2), (1600, 500, 0.8..1.01)] {
            let mut bandwidth = Bandwidth { writer_rate: first, ..Bandwidth::default() };
            let (limits, mut written) = (limits(1000), 0);
            for turn in 1..2000 {
                // The device writes 10,000 pages a second, and two writers dirty at the rate of each.
                written += 2000;
                let dirtied = bandwidth.dirtied_stamp + 2 * bandwidth.writer_rate / 5;
                let (dirty, device_dirty) = (Some(dirty), dirty);
                let sample = Sample { dirtied, dirty, device_dirty, ..sample(200 * turn, written) };
                bandwidth.update(&limits, &sample);
            }
            assert!((9900..=10_100).contains(&bandwidth.smooth_rate), "{}", bandwidth.smooth_rate);
            let unwritten = Unwritten { all: dirty, of_device: dirty };
            let share = bandwidth.position_ratio(&limits, unwritten) as f64 / 1024.0 * 5000.0;
            let found = bandwidth.writer_rate as f64 / share;
            assert!(nearest.contains(&found), "{dirty}: {found} of {share} pages a second");
        }
    }
}
