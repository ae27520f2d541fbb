//! Processor time: what other work on the machine takes away is not in it.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Processor time of this process from its start on: of all threads, in user and in kernel mode.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch(Duration);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(used())
    }

    /// Processor time since the start, in seconds.
    pub(crate) fn seconds(self) -> f64 {
        used().saturating_sub(self.0).as_secs_f64()
    }
}

fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Ticks of processor time in a second (`USER_HZ`), the unit of `/proc/PID/stat` on every architecture of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time of all child processes that have ended, in seconds; zero on systems without `/proc`.
pub(crate) fn of_children_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 16 and 17 (`proc_pid_stat(5)`), counted from behind the name, which may hold blanks.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks =
        fields.split_whitespace().skip(13).take(2).map(|field| field.parse().unwrap_or(0.0));
    ticks.sum::<f64>() / TICKS_PER_SECOND
}
