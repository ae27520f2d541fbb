//! Kernel time: jiffies and tick timers over nanoseconds.

use settings::Settings;

/// Jiffies at time zero. Large, so that a time stamp of zero lies long ago.
const FIRST_JIFFY: u64 = 1 << 40;

const SECOND_NS: u64 = 1_000_000_000;

/// The tick of a kernel: `HZ` jiffies a second, with a tick edge at time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Ticks a second (`CONFIG_HZ`).
    pub hz: u32,
}

impl Clock {
    /// The count of ticks at `now_ns`, as the kernel would read it.
    #[inline]
    pub fn jiffies(self, now_ns: u64) -> u64 {
        // Wide only where it must be, for a request asks: a division of 128 bits is a call, and one of 64 bits by a
        // constant a multiplication. 213 days of nanoseconds times 1000 Hz exceed 64 bits.
        let ticks = match now_ns.checked_mul(u64::from(self.hz)) {
            Some(product) => product / SECOND_NS,
            None => (u128::from(now_ns) * u128::from(self.hz) / u128::from(SECOND_NS)) as u64,
        };
        FIRST_JIFFY + ticks
    }

    /// When a timer armed at `now_ns` to expire at `jiffies` fires: at the tick edge at which the
    /// count gets there, but not before the next edge.
    pub fn timer_ns(self, now_ns: u64, jiffies: u64) -> u64 {
        // `mod_timer` with a jiffy that has passed fires at the next edge, not at once.
        let fires_ns = self.edge_ns(jiffies.max(self.jiffies(now_ns) + 1));
        debug_assert!(fires_ns > now_ns, "a timer fires after it is armed");
        fires_ns
    }

    fn edge_ns(self, jiffies: u64) -> u64 {
        let ticks = u128::from(jiffies.saturating_sub(FIRST_JIFFY));
        // The edge at which the count gets there, rounded up: a tick edge lies at time zero.
        (ticks * u128::from(SECOND_NS)).div_ceil(u128::from(self.hz)) as u64
    }

    /// Jiffies of a time in milliseconds, rounded up (`msecs_to_jiffies`).
    pub fn from_milliseconds(self, milliseconds: u32) -> u64 {
        // Rounded up: a timer must not fire before the time it was asked for.
        (u64::from(milliseconds) * u64::from(self.hz)).div_ceil(1000)
    }

    /// A tunable in milliseconds as jiffies; if it was not given, the kernel's own default, which
    /// is a fraction of `HZ` and rounded down.
    pub fn setting(self, settings: &Settings, name: &str, default_jiffies: u32) -> u64 {
        settings
            .given_integer(name)
            .map_or(u64::from(default_jiffies), |milliseconds| self.from_milliseconds(milliseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, FIRST_JIFFY, SECOND_NS};

    #[test]
    fn ticks_are_counted_as_in_128_bits() {
        for hz in [100, 250, 1000, 1024, 1_000_000] {
            let most = u64::MAX / u64::from(hz);
            for now_ns in [0, 3_999_999, 4_000_000, most - 1, most, most + 1, u64::MAX] {
                let ticks = u128::from(now_ns) * u128::from(hz) / u128::from(SECOND_NS);
                assert_eq!(u128::from(Clock { hz }.jiffies(now_ns) - FIRST_JIFFY), ticks);
            }
        }
    }

    #[test]
    fn timers_fire_at_tick_edges_and_never_at_once() {
        let clock = Clock { hz: 250 };
        let now_ns = 5_000_000;
        assert_eq!(clock.jiffies(now_ns), FIRST_JIFFY + 1);
        assert_eq!(clock.timer_ns(now_ns, clock.jiffies(now_ns) + 2), 12_000_000);
        assert_eq!(clock.timer_ns(now_ns, clock.jiffies(now_ns) - 1), 8_000_000);
        assert_eq!(Clock { hz: 1024 }.timer_ns(0, FIRST_JIFFY + 1), 976_563);
    }
}
