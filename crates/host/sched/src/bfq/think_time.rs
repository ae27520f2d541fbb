//! How long a process thinks between a completion and its next request.
//!
//! Source: Linux 6.1 and 6.12, `bfq_update_io_thinktime` of `block/bfq-iosched.c`.

/// Weight of one sample: one in fixed point with 8 bits.
const SAMPLE: u64 = 256;

/// The mean counts above so many samples (`bfq_sample_valid`).
// The fixed-point count passes 80 with the third sample: 32, 60, 84.
const SAMPLES_KNOWN: u64 = 80;

/// Decaying mean of pauses, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThinkTime {
    /// Completion of the queue's last request.
    pub last_end_ns: u64,
    samples: u64,
    total: u64,
    mean_ns: u64,
}

impl ThinkTime {
    pub(super) fn starting(last_end_ns: u64) -> Self {
        Self { last_end_ns, ..Self::default() }
    }

    /// A request has come after a pause, which counts as no more than twice the idle time.
    pub(super) fn sample(&mut self, pause_ns: u64, slice_idle_ns: u64) {
        // One long pause must not hide many short ones: beyond the idle time length does not matter.
        let pause_ns = pause_ns.min(2 * slice_idle_ns);
        self.samples = (7 * self.samples + SAMPLE) / 8;
        self.total = (7 * self.total + SAMPLE * pause_ns) / 8;
        // Rounded to the nearest. The total lacks what the samples lack, so the mean is right from the first.
        self.mean_ns = (self.total + SAMPLE / 2) / self.samples;
    }

    /// True if pauses are known to be longer than half the idle time.
    pub(super) fn is_long(&self, slice_idle_ns: u64) -> bool {
        self.samples > SAMPLES_KNOWN && self.mean_ns > slice_idle_ns / 2
    }
}
