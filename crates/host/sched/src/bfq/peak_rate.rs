//! How fast the device is, and whether it takes several requests at once.
//!
//! Source: Linux 6.1 and 6.12, `block/bfq-iosched.c`: `bfq_update_peak_rate`, `bfq_update_rate_reset`,
//! `bfq_update_hw_tag`.

use super::Bfq;
use super::idling::MIN_IDLE_NS;
use crate::queue_id::QueueId;
use crate::{RequestId, Requests};

/// Bits of the fraction of a rate in sectors a microsecond (`BFQ_RATE_SHIFT`).
pub(super) const SHIFT: u32 = 16;

/// Rates of reference, rotational or not (`ref_rate`).
// 109 and 258 MB/s. They set the first estimate, and how long weights are raised on slower devices.
pub(super) const REFERENCE: [u32; 2] = [14_000, 33_000];

// `BFQ_RATE_MIN_SAMPLES`, `BFQ_RATE_MIN_INTERVAL`, `BFQ_RATE_REF_INTERVAL`.
const MIN_SAMPLES: u32 = 32;
const MIN_INTERVAL_NS: u64 = 300_000_000;
const REFERENCE_INTERVAL_NS: u64 = 1_000_000_000;
/// A gap in which an empty driver ends an observation.
const GAP_NS: u64 = 100_000_000;
/// Depth above which a device counts as one that queues (`BFQ_HW_QUEUE_THRESHOLD`).
const QUEUEING: u32 = 3;
const DEPTH_SAMPLES: u32 = 32;

/// An observation of the rate under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Rate {
    /// Sectors a microsecond, with 16 bits of fraction.
    pub peak: u32,
    samples: u32,
    in_sequence: u32,
    sectors: u64,
    first_ns: u64,
    last_ns: u64,
    interval_ns: u64,
    largest: u32,
}

/// What is known of the depth of the device (`hw_tag`).
#[derive(Clone, Debug, Default)]
pub(super) struct Depth {
    known: Option<bool>,
    samples: u32,
    pub max_in_driver: u32,
}

impl Depth {
    /// True if it queues, or if nothing is known.
    pub(super) fn is_deep(&self) -> bool {
        self.known != Some(false)
    }
}

impl Bfq {
    /// True if a request lies far from `last_end`, where that costs time (`BFQ_RQ_SEEKY`).
    pub(super) fn is_seek(&self, last_end: u64, request: RequestId, requests: &Requests) -> bool {
        let bio = &requests[request].bio;
        // No end is known before the first request, which counts as no seek.
        let distance = if last_end == 0 { 0 } else { bio.sector.abs_diff(last_end) };
        // `BFQQ_SEEK_THR`, 400 KiB: the way to what lies nearer costs a disk little. Flash has no head, and a large
        // request is as fast at any place.
        distance > 800 && (self.rotational || bio.sectors < 64)
    }

    /// A request goes to the driver.
    pub(super) fn observe_dispatch(
        &mut self,
        id: QueueId,
        request: RequestId,
        requests: &Requests,
    ) {
        let bio = &requests[request].bio;
        // The first request begins the observation, and is no sample of a rate.
        if self.rate.samples == 0 {
            self.restart_rate(Some(bio.sectors));
        } else if self.now_ns - self.rate.last_ns > GAP_NS && self.in_driver == 0 {
            self.end_observation(Some(bio.sectors));
        } else {
            // After a pause the device starts anew, whatever the sector.
            let soon = self.in_driver > 0 || self.now_ns - self.last_completion_ns < MIN_IDLE_NS;
            let in_sequence = soon && !self.is_seek(self.last_position, request, requests);
            let rate = &mut self.rate;
            rate.samples += 1;
            rate.in_sequence += u32::from(in_sequence);
            rate.sectors += u64::from(bio.sectors);
            // Begun anew each 32 samples: one large request long ago says nothing of the work of now.
            let largest = if rate.samples.is_multiple_of(32) { 0 } else { rate.largest };
            rate.largest = largest.max(bio.sectors);
            rate.interval_ns = self.now_ns - rate.first_ns;
            if rate.interval_ns >= REFERENCE_INTERVAL_NS {
                self.end_observation(Some(bio.sectors));
            }
        }
        // After the comparison with the position before.
        self.last_position = bio.end();
        if self.in_service == Some(id) {
            self.in_service_position = self.last_position;
        }
        self.rate.last_ns = self.now_ns;
    }

    /// The driver was empty or slow: ends the observation at a completion.
    pub(super) fn observe_completion(&mut self) {
        let gap_us = (self.now_ns - self.last_completion_ns) / 1000;
        // The kernel keeps the gap in 32 bits.
        let gap_us = gap_us as u32;
        let rate = self.rate.largest.wrapping_shl(SHIFT).checked_div(gap_us).unwrap_or(u32::MAX);
        // Less than a sector in 1024 us since the last completion: no device is that slow at its peak, so the
        // interval measures something else (`bfq_completed_request`).
        if u64::from(gap_us) > MIN_IDLE_NS / 1000 && rate < 1 << (SHIFT - 10) {
            self.end_observation(None);
        }
    }

    /// `bfq_update_rate_reset`.
    fn end_observation(&mut self, sectors: Option<u32>) {
        self.take_rate();
        self.restart_rate(sectors);
    }

    fn take_rate(&mut self) {
        let rate = &mut self.rate;
        if rate.samples < MIN_SAMPLES || rate.interval_ns < MIN_INTERVAL_NS {
            return;
        }
        // `max_t(u64)`: a completion before the first dispatch makes a huge difference there; that
        // cannot be, for the driver has been busy since.
        let to_completion = self.last_completion_ns.wrapping_sub(rate.first_ns);
        rate.interval_ns = rate.interval_ns.max(to_completion);
        let new = ((rate.sectors << SHIFT) / (rate.interval_ns / 1000)) as u32;
        // Scattered requests show less than the device can do, unless they were faster than the estimate. More than
        // 20 sectors a microsecond, 10 GB/s, are an error of measurement.
        let is_scattered = rate.in_sequence < (3 * rate.samples) >> 2 && new <= rate.peak;
        if is_scattered || new > 20 << SHIFT {
            return;
        }
        // A low-pass filter: the more requests were in sequence, and the longer, the more the new rate weighs. At
        // most half.
        let share = u64::from(9 * rate.in_sequence / rate.samples);
        // Kept in 32 bits by the kernel, as is the product before.
        let weight = (share.wrapping_mul(rate.interval_ns) / REFERENCE_INTERVAL_NS).min(8) as u32;
        let divisor = 10 - weight;
        rate.peak = rate.peak.wrapping_mul(divisor - 1) / divisor;
        rate.peak = (rate.peak + new / divisor).max(1);
        if self.tunables.max_budget == 0 {
            self.device_budget = self.budget_of_rate();
        }
    }

    fn restart_rate(&mut self, sectors: Option<u32>) {
        let now_ns = self.now_ns;
        let rate = &mut self.rate;
        let Some(sectors) = sectors else {
            rate.samples = 0;
            return;
        };
        (rate.first_ns, rate.last_ns) = (now_ns, now_ns);
        (rate.samples, rate.in_sequence) = (1, 0);
        (rate.sectors, rate.largest) = (u64::from(sectors), sectors);
    }

    /// A request is complete, but still counted: looks at the depth of the device.
    pub(super) fn observe_depth(&mut self) {
        self.depth.max_in_driver = self.depth.max_in_driver.max(self.in_driver);
        // Once it is known to queue, that does not change.
        if self.depth.known == Some(true) || self.in_driver + self.queued <= QUEUEING {
            return;
        }
        if let Some(id) = self.in_service {
            let queue = &self.queues[id];
            // A queue that is idled for leaves the driver nearly empty, whatever the device could take.
            let own = queue.dispatched + queue.queued[0] + queue.queued[1];
            if queue.flags.short_think_time && own < QUEUEING && self.in_driver < QUEUEING {
                return;
            }
        }
        let samples = self.depth.samples;
        self.depth.samples += 1;
        // Counted after the test (`hw_tag_samples++`), so that the 33rd decides.
        if samples < DEPTH_SAMPLES {
            return;
        }
        let is_deep = self.depth.max_in_driver > QUEUEING;
        self.depth = Depth { known: Some(is_deep), samples: 0, max_in_driver: 0 };
        self.nonrot_with_queueing = !self.rotational && is_deep;
    }
}
