//! What the processes of a job do.

use crate::{Distribution, Region};
use page_cache::Mode;
use thiserror::Error;

/// The order of addresses (`rw` of fio, `-L` of ioping).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// One block after the other.
    Sequential,
    /// Each block drawn at random.
    Random(Distribution),
}

/// What makes a process issue its next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The completion of an earlier one, and some time to think (`thinktime`, ioping's interval).
    Closed {
        /// Nanoseconds from completion to the next request.
        think_ns: u64,
    },
    /// The clock: one request every so often, whether or not earlier ones are done (`rate_iops`);
    /// at most `iodepth` are under way, and a late request makes all later ones late.
    Rate {
        /// Nanoseconds from one request to the next.
        interval_ns: u64,
    },
}

/// Processes of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name under which results stand.
    pub name: String,
    /// Processes that run at the same time.
    pub processes: u32,
    /// Order of the addresses.
    pub pattern: Pattern,
    /// Share of requests that read (`rwmixread`), in percent.
    pub read_percent: u32,
    /// Bytes of a request (`bs`).
    pub block_bytes: u64,
    /// Requests under way at one time (`iodepth`); more than 1 is for direct I/O.
    pub iodepth: u32,
    /// What makes the next request come.
    pub pace: Pace,
    /// Requests of each process, after which it exits.
    pub requests: u64,
    /// How it opens the device.
    pub mode: Mode,
    /// `fsync` after so many writes (`fsync` of fio); 0 for never.
    pub fsync_writes: u64,
    /// Bytes that the processes work on together.
    pub region: Region,
    /// Each process has a part of the region of its own.
    pub is_private: bool,
}

/// More processes, or requests of one, are a mistake: each takes memory.
const PROCESSES_MAX: u32 = 65_536;

/// Why a job cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("job `{job}`: {reason}")]
pub struct JobError {
    /// Name of the job.
    pub job: String,
    /// What is wrong, with the key's name.
    pub reason: String,
}

impl Job {
    /// Says what is wrong with the job on a device of `device_bytes`, if anything.
    ///
    /// # Errors
    /// A sentence that names the key.
    pub fn check(&self, device_bytes: u64) -> Result<(), JobError> {
        let wrong = |reason: String| Err(JobError { job: self.name.clone(), reason });
        if self.processes == 0 || self.requests == 0 || self.iodepth == 0 {
            return wrong("processes, requests and iodepth must be at least 1".into());
        }
        if self.processes > PROCESSES_MAX || self.iodepth > PROCESSES_MAX {
            return wrong(format!("processes and iodepth must be at most {PROCESSES_MAX}"));
        }
        if self.block_bytes == 0 || !self.block_bytes.is_multiple_of(512) {
            return wrong(format!("bs is {}, but must be a multiple of 512", self.block_bytes));
        }
        if self.read_percent > 100 {
            return wrong(format!("rwmixread is {}, but must be 0 to 100", self.read_percent));
        }
        // A buffered call returns when it is done, so a process has one under way.
        if self.iodepth > 1 && self.mode != Mode::Direct {
            return wrong("iodepth above 1 needs direct = true: buffered calls wait".into());
        }
        let end_bytes = self.region.offset_bytes.saturating_add(self.region.bytes);
        if end_bytes > device_bytes {
            return wrong(format!(
                "its region ends at byte {end_bytes}, past the device of {device_bytes} bytes"
            ));
        }
        let shares = if self.is_private { u64::from(self.processes) } else { 1 };
        if self.region.bytes / shares < self.block_bytes {
            return wrong(format!(
                "a region of {} bytes holds no block of {} bytes for each process",
                self.region.bytes, self.block_bytes
            ));
        }
        if let Pattern::Random(Distribution::Zipf(theta)) = self.pattern
            // The formula divides by 1 - theta.
            && !(theta > 0.0 && theta < 1.0)
        {
            return wrong(format!("zipf:{theta}: theta must lie between 0 and 1"));
        }
        Ok(())
    }
}
