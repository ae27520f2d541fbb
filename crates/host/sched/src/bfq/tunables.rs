//! Tunables, with the names and units of `/sys/block/*/queue/iosched`.
//!
//! Source: Linux 6.1 and 6.12, `bfq_attrs` of `block/bfq-iosched.c`.

use crate::Clock;
use crate::best_next::BackSeek;
use settings::{Parameter, Settings};

const LARGEST: i64 = i32::MAX as i64;

/// All tunables, sorted by name.
pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::integer(
        "back_seek_max",
        (0, LARGEST),
        "16384",
        "longest way back that is no new sweep, in KiB",
    ),
    Parameter::integer(
        "back_seek_penalty",
        (1, LARGEST),
        "2",
        "cost of a way back against the same way forward",
    ),
    Parameter::integer(
        "fifo_expire_async",
        (1, LARGEST),
        "250",
        "age at which an asynchronous request goes first, in ms",
    ),
    Parameter::integer(
        "fifo_expire_sync",
        (1, LARGEST),
        "125",
        "age at which a synchronous request goes first, in ms",
    ),
    Parameter::integer(
        "low_latency",
        (0, 1),
        "1",
        "1 to raise the weight of interactive processes",
    ),
    Parameter::integer(
        "max_budget",
        (0, LARGEST),
        "0",
        "largest budget in sectors; 0 to go by the rate",
    ),
    // A choice of this model: sysfs takes 32 bits of milliseconds, but sums of such times would overflow.
    Parameter::integer(
        "slice_idle",
        (0, 1_000_000),
        "8",
        "wait for the next request of the queue, in ms",
    ),
    Parameter::integer(
        "slice_idle_us",
        (0, 1_000_000_000),
        "8000",
        "the same in us; goes before slice_idle if it is given",
    ),
    Parameter::integer(
        "strict_guarantees",
        (0, 1),
        "0",
        "1 to serve one request at a time and always idle",
    ),
    Parameter::integer("timeout_sync", (1, 1_000_000), "124", "longest turn of a queue, in ms"),
];

/// Values of the tunables.
#[derive(Clone, Debug)]
pub(super) struct Tunables {
    pub back_seek: BackSeek,
    /// By asynchronous and synchronous.
    pub fifo_expire_ns: [u64; 2],
    pub low_latency: bool,
    pub max_budget: i64,
    pub slice_idle_ns: u64,
    pub strict_guarantees: bool,
    /// Jiffies.
    pub timeout: u64,
    /// The longest turn was set, which computes the largest budget anew.
    pub is_timeout_given: bool,
}

impl Tunables {
    pub(super) fn new(settings: &Settings, clock: Clock) -> Self {
        let ms = |name| u64::from(settings.integer(name)) * 1_000_000;
        let strict_guarantees = settings.integer("strict_guarantees") == 1;
        // Two files of one value. Sysfs keeps what was written last, a table of settings knows no order.
        let mut slice_idle_ns = match settings.given_integer("slice_idle_us") {
            Some(us) => u64::from(us) * 1000,
            None => ms("slice_idle"),
        };
        if strict_guarantees {
            // `bfq_strict_guarantees_store`: without idling no order is guaranteed. 8 ms, the default.
            slice_idle_ns = slice_idle_ns.max(8_000_000);
        }
        Self {
            back_seek: BackSeek::new(settings),
            fifo_expire_ns: [ms("fifo_expire_async"), ms("fifo_expire_sync")],
            low_latency: settings.integer("low_latency") == 1,
            max_budget: i64::from(settings.integer("max_budget")),
            slice_idle_ns,
            strict_guarantees,
            // HZ / 8 rounds down: 124 ms at 250 Hz, which is why that is the default in milliseconds.
            timeout: clock.setting(settings, "timeout_sync", clock.hz / 8),
            is_timeout_given: settings.given_integer("timeout_sync").is_some(),
        }
    }
}
