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

/// Estimates of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bandwidth {
    stamp_ticks: u64,
    written_stamp: u64,
    dirtied_stamp: u64,
    rate: u64,
    smooth_rate: u64,
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

/// A writer's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Pages a second the writer may dirty; zero at the limit.
    pub(crate) rate: u64,
    /// Longest pause, ticks.
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
                let dirty_rate = (sample.dirtied - self.dirtied_stamp) * limits.hz / elapsed;
                self.steer(limits, dirty, sample.device_dirty, dirty_rate);
            }
            self.measure(limits.hz, elapsed, sample.written - self.written_stamp);
        }
        self.dirtied_stamp = sample.dirtied;
        self.written_stamp = sample.written;
        self.stamp_ticks = sample.now_ticks;
    }

    /// A moving mean of the device's rate over about three seconds, and a smoother one behind it.
    fn measure(&mut self, hz: u64, elapsed: u64, written: u64) {
        let period = (3 * hz).next_power_of_two();
        let before = self.rate;
        if elapsed > period {
            self.rate = written * hz / elapsed;
            self.smooth_rate = self.rate;
            return;
        }
        self.rate = (written * hz + before * (period - elapsed)) / period;
        let smooth = self.smooth_rate;
        if smooth > before && before >= self.rate {
            self.smooth_rate -= (smooth - before) / 8;
        }
        if smooth < before && before <= self.rate {
            self.smooth_rate += (before - smooth) / 8;
        }
    }

    /// Moves the writers' rate towards the one at which the device keeps up.
    fn steer(&mut self, limits: &Limits, dirty: u64, device_dirty: u64, dirty_rate: u64) {
        let ratio = self.position_ratio(limits, dirty, device_dirty);
        let task_rate = ((self.writer_rate * ratio) >> RATIO_BITS) + 1;
        let balanced = (task_rate * self.smooth_rate / (dirty_rate | 1)).min(self.smooth_rate);
        let before = self.writer_rate;
        let step = if dirty < u64::midpoint(limits.free_run(), limits.dirty) {
            self.balanced_rate.min(balanced).min(task_rate).saturating_sub(before)
        } else {
            before.saturating_sub(self.balanced_rate.max(balanced).max(task_rate))
        };
        let shift = u32::try_from(before / (2 * step + 1)).unwrap_or(u32::MAX);
        let step = step.checked_shr(shift).unwrap_or(0).div_ceil(8);
        self.writer_rate = if before < balanced { before + step } else { before - step }.max(1);
        self.balanced_rate = balanced;
    }

    /// Share of the base rate that fits the number of dirty pages: above one below the point
    /// half-way between the free run and the limit, nothing at the limit.
    fn position_ratio(&self, limits: &Limits, dirty: u64, device_dirty: u64) -> u64 {
        let limit = limits.dirty.cast_signed();
        let dirty = dirty.cast_signed();
        if dirty >= limit {
            return 0;
        }
        let set_point = i64::midpoint(limits.free_run().cast_signed(), limit);
        let distance = ((set_point - dirty) << RATIO_BITS) / (limit - set_point + 1);
        let cube = (((distance * distance) >> RATIO_BITS) * distance) >> RATIO_BITS;
        let mut ratio = (cube + (1 << RATIO_BITS)).cast_unsigned();
        // The same for the device alone, on a line that reaches zero eight seconds of writing later.
        let (set_point, span) = (set_point.cast_unsigned(), 8 * self.smooth_rate);
        let end = set_point + span;
        if device_dirty < end - span / 4 {
            ratio = ratio * (end - device_dirty) / (span + 1);
        } else {
            ratio /= 4;
        }
        let few = limits.dirty / 2;
        if device_dirty < few {
            ratio = if device_dirty > few / 8 { ratio * few / device_dirty } else { ratio * 8 };
        }
        ratio
    }

    /// How a writer has to go on.
    pub(crate) fn pace(&self, limits: &Limits, dirty: u64, device_dirty: u64) -> Pace {
        let hz = limits.hz;
        let rate =
            (self.writer_rate * self.position_ratio(limits, dirty, device_dirty)) >> RATIO_BITS;
        let quantum = self.smooth_rate / (1 + hz / 8).next_power_of_two();
        let longest = (device_dirty / (1 + quantum) + 1).min((hz / 5).max(1));
        let fast = u64::from(self.smooth_rate.max(1).ilog2());
        let slow = u64::from(self.writer_rate.max(1).ilog2());
        let mut ticks = (hz / 100).max(1) + fast.saturating_sub(slow) * (10 * hz) / 1024;
        ticks = ticks.min(1 + longest / 2);
        let second = hz.next_power_of_two();
        let mut pages = self.writer_rate * ticks / second;
        if pages < POLL_PAGES {
            ticks = longest;
            pages = self.writer_rate * ticks / second;
            if pages > POLL_PAGES {
                pages = POLL_PAGES;
                ticks = hz * POLL_PAGES / self.writer_rate;
            }
        }
        if hz * pages / (rate + 1) > longest {
            ticks = longest;
            pages = rate * ticks / second;
        }
        let shortest = if pages >= POLL_PAGES { 1 + ticks / 2 } else { ticks };
        Pace { rate, longest, shortest, pages }
    }
}
