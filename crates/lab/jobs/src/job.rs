//! What the processes of a job do.

use crate::{Distribution, Region};
use page_cache::Mode;
use process::Class;
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
    /// As [`Pace::Rate`], with intervals drawn from an exponential distribution (`rate_process=poisson`).
    Poisson {
        /// Mean of the nanoseconds from one request to the next.
        interval_ns: u64,
    },
}

/// Requests of a job that have a priority of their own (`cmdprio_percentage`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// Percent of the reads, and of the writes.
    pub percent: [u32; 2],
    /// Their class (`cmdprio_class`).
    pub class: Class,
    /// Their level in it (`cmdprio`).
    pub level: u8,
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
    /// Bytes between the end of a request and the begin of the next one, in sequential order (`rw=read:8k`).
    pub gap_bytes: i64,
    /// Share of requests that read (`rwmixread`), in percent.
    pub read_percent: u32,
    /// Bytes of a request (`bs`).
    pub block_bytes: u64,
    /// Requests under way at one time (`iodepth`); more than 1 is for direct I/O.
    pub iodepth: u32,
    /// What makes the next request come.
    pub pace: Pace,
    /// Requests of each process that are counted, after which it exits; `u64::MAX` if only the time ends it.
    pub requests: u64,
    /// Nanoseconds after the ramp at which a process issues no further request (`runtime`); 0 for no such end.
    pub runtime_ns: u64,
    /// Nanoseconds at the beginning whose requests are made, but not counted (`ramp_time`).
    pub ramp_ns: u64,
    /// Nanoseconds before the processes begin (`startdelay`).
    pub start_delay_ns: u64,
    /// Class and level of the processes (`prioclass`, `prio`).
    pub priority: (Class, u8),
    /// Requests that have another one.
    pub urgent: Option<Urgent>,
    /// How it opens the device.
    pub mode: Mode,
    /// `fsync` after so many writes (`fsync` of fio); 0 for never.
    pub fsync_writes: u64,
    /// The latency of a write that is followed by `fsync` holds the time of that call.
    pub latency_includes_sync: bool,
    /// Bytes that the processes work on together.
    pub region: Region,
    /// Each process has a part of the region of its own.
    pub is_private: bool,
}

/// More processes, or requests of one, are a mistake: each takes memory.
const PROCESSES_MAX: u32 = 65_536;

/// Longest `runtime` and `ramp_time`, in seconds: more is a slip, and would simulate for hours.
const TIME_MAX_S: u64 = 86_400;

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
    /// Checks the job on a device of `device_bytes`.
    ///
    /// # Errors
    /// [`JobError`] for numbers out of range, keys that exclude each other, and regions that hold no block or end
    /// past the device.
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
        let longest_ns = TIME_MAX_S * 1_000_000_000;
        if [self.runtime_ns, self.ramp_ns, self.start_delay_ns].iter().any(|ns| *ns > longest_ns) {
            return wrong(format!(
                "runtime, ramp_time and startdelay must be at most {TIME_MAX_S} s, a day"
            ));
        }
        let levels = [Some(self.priority.1), self.urgent.map(|urgent| urgent.level)];
        if levels.iter().flatten().any(|level| *level > 7) {
            return wrong("prio and cmdprio must be 0 to 7".into());
        }
        if self.urgent.is_some_and(|urgent| urgent.percent.iter().any(|percent| *percent > 100)) {
            return wrong("cmdprio_percentage must be 0 to 100".into());
        }
        if self.gap_bytes != 0 && !self.gap_bytes.unsigned_abs().is_multiple_of(512) {
            return wrong("the number behind rw must be a multiple of 512".into());
        }
        if self.requests == u64::MAX && self.runtime_ns == 0 {
            return wrong("nothing ends it: give requests, runtime or both".into());
        }
        if self.latency_includes_sync && self.fsync_writes == 0 {
            return wrong("latency_includes_sync needs fsync: no write is followed by one".into());
        }
        // With an asynchronous interface a sync is a request among others, which is not modelled.
        if self.fsync_writes > 0 && self.iodepth > 1 {
            return wrong("fsync needs iodepth 1: a process waits for it".into());
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
