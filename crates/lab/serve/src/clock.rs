//! Simulated time and the host's clock.
#![allow(
    clippy::disallowed_types,
    reason = "replies to real clients leave at moments of the host's clock; the log of a run has none of it"
)]

use std::time::{Duration, Instant};

/// How simulated time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// A second of the device takes so many seconds of the host. With 1, latencies are those of the device.
    Real(u32),
    /// Replies leave at once, and simulated time jumps to the moment at which the device gave them.
    None,
}

/// Translates between simulated time and the host's clock.
#[derive(Clone, Debug)]
pub struct Clock {
    begin: Instant,
    /// Simulated time at the beginning, nanoseconds.
    begin_ns: u64,
    pace: Pace,
}

impl Clock {
    /// A clock whose simulated time is `begin_ns` now.
    pub fn new(pace: Pace, begin_ns: u64) -> Self {
        Self { begin: Instant::now(), begin_ns, pace }
    }

    /// True if replies wait for their moment.
    pub fn is_real(&self) -> bool {
        self.pace != Pace::None
    }

    /// The simulated time of this moment, nanoseconds; zero if time only jumps.
    pub fn now_ns(&self) -> u64 {
        match self.pace {
            Pace::Real(factor) => self.begin_ns + self.host_ns() / u64::from(factor.max(1)),
            Pace::None => 0,
        }
    }

    /// Nanoseconds of the host since the beginning.
    pub fn host_ns(&self) -> u64 {
        // 584 years fit.
        self.begin.elapsed().as_nanos() as u64
    }

    /// The host's clock at a simulated time.
    fn host_due_ns(&self, at_ns: u64, factor: u32) -> u64 {
        at_ns.saturating_sub(self.begin_ns).saturating_mul(u64::from(factor.max(1)))
    }

    /// How long the host waits until a simulated time; nothing if that has passed.
    pub fn until(&self, at_ns: u64) -> Duration {
        match self.pace {
            Pace::Real(factor) => {
                Duration::from_nanos(self.host_due_ns(at_ns, factor).saturating_sub(self.host_ns()))
            }
            Pace::None => Duration::ZERO,
        }
    }

    /// How much later than its simulated time this moment is, nanoseconds of the host.
    pub fn lateness_ns(&self, due_ns: u64) -> u64 {
        match self.pace {
            Pace::Real(factor) => self.host_ns().saturating_sub(self.host_due_ns(due_ns, factor)),
            Pace::None => 0,
        }
    }
}
