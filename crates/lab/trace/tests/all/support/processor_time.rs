//! Processor time, for limits that other work on the machine must not reach.
#![allow(dead_code, reason = "every test program uses a part of it")]
#![allow(unreachable_pub, reason = "a module of a test program has no public")]
#![allow(
    clippy::disallowed_types,
    reason = "the clock stands in where the system reports no processor time"
)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Ticks of processor time in a second (`USER_HZ`), the unit of `/proc/PID/stat` on every architecture of Linux.
const TICKS_PER_SECOND: u64 = 100;

/// What a stopwatch looks at.
#[derive(Clone, Copy, Debug)]
enum Whose {
    Thread,
    Process,
}

/// Processor time since it was started, in steps of 10 ms.
///
/// A host that is busy with other things, or that stands still, adds nothing to it. Systems without `/proc` have the
/// wall clock in its place.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    whose: Whose,
    started: Duration,
}

impl Stopwatch {
    /// Of the calling thread, which alone may ask it: for one test among others that run beside it.
    pub fn of_thread() -> Self {
        Self { whose: Whose::Thread, started: used(Whose::Thread) }
    }

    /// Of all threads of this process: for a program of one test.
    pub fn of_process() -> Self {
        Self { whose: Whose::Process, started: used(Whose::Process) }
    }

    /// Processor time since the start, in user and in kernel mode.
    pub fn elapsed(&self) -> Duration {
        used(self.whose).saturating_sub(self.started)
    }
}

fn used(whose: Whose) -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let path = match whose {
        Whose::Thread => "/proc/thread-self/stat",
        Whose::Process => "/proc/self/stat",
    };
    let read = std::fs::read_to_string(path).ok().and_then(|stat| ticks(&stat));
    read.map_or_else(
        || START.get_or_init(Instant::now).elapsed(),
        |ticks| Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND),
    )
}

/// Fields 14 and 15 (`proc_pid_stat(5)`), counted from behind the name, which may hold blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::{Stopwatch, ticks};
    use std::time::Duration;

    #[test]
    fn a_thread_that_waits_uses_no_processor_time() {
        assert_eq!(ticks("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 31 0 0"), Some(281));
        let watch = Stopwatch::of_thread();
        std::thread::sleep(Duration::from_millis(300));
        assert!(watch.elapsed() < Duration::from_millis(200), "{:?}", watch.elapsed());
        let mut sum = 0_u64;
        // It ends only if work is seen.
        while watch.elapsed() < Duration::from_millis(100) {
            sum = std::hint::black_box(sum + 1);
        }
    }
}
