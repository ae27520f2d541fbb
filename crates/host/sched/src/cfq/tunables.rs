//! Tunables, with the names and units of `/sys/block/*/queue/iosched`.

use crate::Clock;
use crate::best_next::BackSeek;
use settings::{Kind, Parameter, Settings};

// A choice of this model: sysfs takes 32 bits without a sign, but times that long overflow the sums
// of the kernel.
const UP_TO_INT_MAX: Kind = Kind::Integer { min: 0, max: i32::MAX as i64 };

const fn tunable(name: &'static str, default: &'static str, summary: &'static str) -> Parameter {
    Parameter { name, kind: UP_TO_INT_MAX, default, summary }
}

const fn quantum(default: &'static str, summary: &'static str) -> Parameter {
    tunable("quantum", default, summary)
}

const FIFO_EXPIRE_SYNC: Parameter =
    tunable("fifo_expire_sync", "125", "age at which a synchronous request goes first, in ms");
const FIFO_EXPIRE_ASYNC: Parameter =
    tunable("fifo_expire_async", "250", "age at which an asynchronous request goes first, in ms");
const BACK_SEEK_MAX: Parameter =
    tunable("back_seek_max", "16384", "longest way back that is not a new sweep, in KiB");
const BACK_SEEK_PENALTY: Parameter =
    tunable("back_seek_penalty", "2", "cost of a way back against the same way forward");
const SLICE_SYNC: Parameter =
    tunable("slice_sync", "100", "turn of a process at priority 4, in ms");
const SLICE_ASYNC: Parameter =
    tunable("slice_async", "40", "turn of asynchronous writes at priority 4, in ms");
const SLICE_ASYNC_RQ: Parameter =
    tunable("slice_async_rq", "2", "asynchronous requests a turn, times 2 (8 - priority)");
const SLICE_IDLE: Parameter =
    tunable("slice_idle", "8", "wait for the next request of the process in turn, in ms");

/// Tunables of 2.6.29, in the order and with the defaults of `cfq_attrs`.
pub(super) const PARAMETERS_29: &[Parameter] = &[
    quantum("4", "requests of a queue in one go"),
    FIFO_EXPIRE_SYNC,
    FIFO_EXPIRE_ASYNC,
    BACK_SEEK_MAX,
    BACK_SEEK_PENALTY,
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
];

/// Tunables of 2.6.32: those of 2.6.29 and `low_latency`.
pub(super) const PARAMETERS_32: &[Parameter] = &[
    quantum("4", "requests of a queue with the device while others wait"),
    FIFO_EXPIRE_SYNC,
    FIFO_EXPIRE_ASYNC,
    BACK_SEEK_MAX,
    BACK_SEEK_PENALTY,
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
    LOW_LATENCY_32,
];

/// Tunables of 3.4: a quantum of 8, and what `low_latency` aims at.
pub(super) const PARAMETERS_34: &[Parameter] = &[
    quantum("8", "requests of a queue with the device while others wait"),
    FIFO_EXPIRE_SYNC,
    FIFO_EXPIRE_ASYNC,
    BACK_SEEK_MAX,
    BACK_SEEK_PENALTY,
    SLICE_SYNC,
    SLICE_ASYNC,
    SLICE_ASYNC_RQ,
    SLICE_IDLE,
    // 8 in a kernel with `CONFIG_CFQ_GROUP_IOSCHED`; `cfq_init` sets it to 0 without.
    tunable("group_idle", "0", "wait for the group if its last queue is empty, in ms"),
    Parameter {
        name: "low_latency",
        kind: Kind::Integer { min: 0, max: 1 },
        default: "1",
        summary: "1: shorter turns if many wait, few asynchronous requests after a late one",
    },
    tunable("target_latency", "300", "time in which every queue should get a turn, in ms"),
];

const LOW_LATENCY_32: Parameter = Parameter {
    name: "low_latency",
    kind: Kind::Integer { min: 0, max: 1 },
    default: "1",
    summary: "1: few asynchronous requests soon after a synchronous one, seekers may keep idling",
};

/// Tunables of a run, times in jiffies. The last three are those of versions that have them.
#[derive(Clone, Debug)]
pub(super) struct Tunables {
    pub quantum: u32,
    /// Age at which a request goes first: asynchronous, synchronous.
    pub fifo_expire: [u64; 2],
    pub back_seek: BackSeek,
    /// Slice at priority 4: asynchronous, synchronous.
    pub slice: [i64; 2],
    pub slice_async_requests: u32,
    pub slice_idle: u64,
    pub low_latency: bool,
    pub group_idle: u64,
    pub target_latency: u64,
}

impl Tunables {
    /// Those that all versions have; values below the least that sysfs stores count as that.
    pub(super) fn common(settings: &Settings, clock: Clock) -> Self {
        let hz = clock.hz;
        let jiffies = |name, default| clock.setting(settings, name, default);
        let at_least_one = |name| settings.integer(name).max(1);
        // Sysfs raises a time of 0 ms to 1 ms before it converts it.
        let positive = |name, default| jiffies(name, default).max(1);
        Self {
            quantum: at_least_one("quantum"),
            fifo_expire: [
                // Defaults are fractions of `HZ` and are rounded down, while values from sysfs are
                // milliseconds and are rounded up: at 250 Hz the default of 125 ms is 31 jiffies, a
                // given 125 is 32.
                positive("fifo_expire_async", hz / 4),
                positive("fifo_expire_sync", hz / 8),
            ],
            back_seek: BackSeek::new(settings),
            slice: [
                positive("slice_async", hz / 25).cast_signed(),
                positive("slice_sync", hz / 10).cast_signed(),
            ],
            slice_async_requests: at_least_one("slice_async_rq"),
            // `cfq_init` raises it to 1 for kernels of less than 125 Hz; a zero from sysfs stays
            // zero and turns idling off.
            slice_idle: jiffies("slice_idle", (hz / 125).max(1)),
            low_latency: false,
            group_idle: 0,
            target_latency: 0,
        }
    }
}
