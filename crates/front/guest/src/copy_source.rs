//! The disk that files are copied from: how long a copy takes.
//!
//! Only captures with the lazy writer have one. With it, the time between the copy of a file and its deletion
//! decides how much of the file is ever written.

#![expect(clippy::disallowed_types, reason = "it waits by the clock of the emulated machine")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A disk that serves one read at a time, in the order in which the reads were asked for.
///
/// A file costs one access; every byte costs the same. The disk reads ahead from the moment a file is found, so
/// the time that the processor takes to write a chunk is no part of the copy while the disk is slower. That
/// matters because the emulated processor is slow, and takes different times for different file systems.
/// Reads of several processes take turns without further accesses.
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
        sleep(self.after_access());
    }

    /// Waits until the disk has read so many bytes.
    pub(crate) fn read(&self, length_bytes: u64) {
        sleep(self.after_read(length_bytes));
    }

    /// Time until an access is done that is asked for now.
    fn after_access(&self) -> Duration {
        let now = Instant::now();
        let mut idle_from = self.idle_from();
        *idle_from = now.max(*idle_from) + self.access_time;
        idle_from.saturating_duration_since(now)
    }

    /// Time until a read is done that follows the reads before it without a gap.
    fn after_read(&self, length_bytes: u64) -> Duration {
        let nanoseconds =
            u128::from(length_bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let mut idle_from = self.idle_from();
        *idle_from += Duration::from_nanos(nanoseconds as u64);
        idle_from.saturating_duration_since(Instant::now())
    }

    fn idle_from(&self) -> MutexGuard<'_, Instant> {
        self.idle_from.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn the_disk_reads_ahead_of_a_slow_processor() {
        let source = CopySource::new(1_000_000, Duration::from_millis(1));
        source.open();
        sleep(Duration::from_millis(20));
        assert_eq!(source.after_read(10_000), Duration::ZERO);
        // The next access is not ahead of its call.
        sleep(Duration::from_millis(20));
        assert!(source.after_access() > Duration::from_micros(500));
    }
}
