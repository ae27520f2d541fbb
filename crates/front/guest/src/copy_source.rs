//! The disk that files are copied from: how long a copy takes.
//!
//! Only captures with the lazy writer have one. With it, the time between the copy of a file and its deletion
//! decides how much of the file is ever written.

#![expect(clippy::disallowed_types, reason = "it waits by the clock of the emulated machine")]

use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A disk that serves one read at a time, in the order in which the reads were asked for.
///
/// A file costs one access; every byte costs the same. Reads of several processes take turns without
/// further accesses, as if each read ahead.
#[derive(Debug)]
pub(crate) struct CopySource {
    bytes_per_second: u64,
    access_time: Duration,
    idle_from: Mutex<Instant>,
}

impl CopySource {
    /// A disk with a rate of transfer and the mean time of a seek and half a turn.
    pub(crate) fn new(bytes_per_second: u64, access_time: Duration) -> Self {
        Self { bytes_per_second, access_time, idle_from: Mutex::new(Instant::now()) }
    }

    /// Waits until the disk has found a file.
    pub(crate) fn open(&self) {
        self.wait(self.access_time);
    }

    /// Waits until the disk has read so many bytes.
    pub(crate) fn read(&self, length_bytes: u64) {
        let nanoseconds =
            u128::from(length_bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        self.wait(Duration::from_nanos(nanoseconds as u64));
    }

    fn wait(&self, time: Duration) {
        let now = Instant::now();
        let done = {
            let mut idle_from = self.idle_from.lock().unwrap_or_else(PoisonError::into_inner);
            *idle_from = now.max(*idle_from) + time;
            *idle_from
        };
        sleep(done - now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_two_processes_wait_for_each_other() {
        let source = CopySource::new(1_000_000, Duration::from_millis(20));
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    source.open();
                    source.read(10_000);
                });
            }
        });
        assert!(began.elapsed() >= Duration::from_millis(60), "{:?}", began.elapsed());
    }
}
