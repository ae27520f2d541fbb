//! What the processes of a job do.

use crate::{Flow, LatencyTarget, Order, Region, SteadyState, Verify};
use page_cache::Mode;
use process::Class;
use thiserror::Error;

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
    /// As [`Pace::Rate`], for reads and for writes; a process that is behind with one of them makes it next.
    RateOfEach {
        /// Nanoseconds from one read, and from one write, to the next.
        interval_ns: [u64; 2],
    },
    /// As [`Pace::Rate`], with intervals drawn from an exponential distribution (`rate_process=poisson`).
    Poisson {
        /// Mean of the nanoseconds from one request to the next.
        interval_ns: u64,
    },
}

/// Requests of one direction that have a priority of their own (`cmdprio_percentage`, `cmdprio_bssplit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Urgent {
    /// Their size; none for all sizes.
    pub bytes: Option<u64>,
    /// Percent of the requests of this size.
    pub percent: u32,
    /// Their class (`cmdprio_class`).
    pub class: Class,
    /// Their level in it (`cmdprio`).
    pub level: u8,
}

/// Which processes end when one of a job has ended (`exit_what` of fio).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Those of jobs in the same group.
    Group,
    /// Those that run.
    Running,
    /// Those that run, and those that would begin later.
    All,
}

/// Processes of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name under which results stand.
    pub name: String,
    /// Processes that run at the same time.
    pub processes: u32,
    /// It begins when all processes of the jobs before it have ended (`stonewall`).
    pub waits_for_earlier: bool,
    /// Number that jobs of a group share.
    pub group: u32,
    /// Which processes end when one of this job has (`exitall`).
    pub ends: Option<Ends>,
    /// Order and sizes of the requests.
    pub order: Order,
    /// Share of requests that read (`rwmixread`), in percent.
    pub read_percent: u32,
    /// Requests under way at one time (`iodepth`); more than 1 is for direct I/O.
    pub iodepth: u32,
    /// What makes the next request come.
    pub pace: Pace,
    /// Requests of each process that are counted, after which it exits; `u64::MAX` if only the time ends it.
    pub requests: u64,
    /// Bytes of each process that are counted, after which it exits (`io_size`); `u64::MAX` for no such end.
    pub bytes: u64,
    /// Times that this is done (`loops`), each from the begin of the region.
    pub passes: u32,
    /// What is written is read again.
    pub verify: Option<Verify>,
    /// It keeps a ratio of requests with others.
    pub flow: Option<Flow>,
    /// The number of requests under way is the largest that keeps a latency, at most `iodepth`.
    pub latency_target: Option<LatencyTarget>,
    /// It ends when its rate is steady.
    pub steady: Option<SteadyState>,
    /// Nanoseconds after the ramp at which a process issues no further request (`runtime`); 0 for no such end.
    pub runtime_ns: u64,
    /// Nanoseconds at the beginning whose requests are made, but not counted (`ramp_time`).
    pub ramp_ns: u64,
    /// Nanoseconds before the processes begin (`startdelay`).
    pub start_delay_ns: u64,
    /// Class and level of the processes (`prioclass`, `prio`).
    pub priority: (Class, u8),
    /// Reads, and writes, that have another one.
    pub urgent: [Vec<Urgent>; 2],
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
        let longest_ns = TIME_MAX_S * 1_000_000_000;
        if [self.runtime_ns, self.ramp_ns, self.start_delay_ns].iter().any(|ns| *ns > longest_ns) {
            return wrong(format!(
                "runtime, ramp_time and startdelay must be at most {TIME_MAX_S} s, a day"
            ));
        }
        if self.priority.1 > 7 || self.urgent.iter().flatten().any(|urgent| urgent.level > 7) {
            return wrong("prio and cmdprio must be 0 to 7".into());
        }
        for way in &self.urgent {
            let share = |bytes: Option<u64>| {
                let same = way.iter().filter(|one| one.bytes == bytes);
                same.fold(0_u32, |sum, one| sum.saturating_add(one.percent))
            };
            if way.iter().any(|one| share(one.bytes) > 100) {
                return wrong("cmdprio_percentage must be 0 to 100, and so must the shares of a size in cmdprio_bssplit".into());
            }
        }
        if self.passes == 0 || self.bytes == 0 {
            return wrong("loops and io_size must be above 0".into());
        }
        if let Some(target) = self.latency_target
            && (target.latency_ns == 0
                || target.window_ns == 0
                || !(1..=1_000_000).contains(&target.share_per_million)
                || self.ramp_ns > 0
                || !matches!(self.pace, Pace::Closed { think_ns: 0 }))
        {
            return wrong("latency_target, latency_window and latency_percentile must be above 0, and need a closed loop without ramp_time and thinktime_us".into());
        }
        if let Some(steady) = self.steady
            && (steady.window_s < 2 || self.ramp_ns > 0)
        {
            return wrong("ss_dur must be at least 2 s, and steadystate takes no ramp_time".into());
        }
        if self.flow.is_some_and(|flow| flow.weight == 0) {
            return wrong("flow must be at least 1".into());
        }
        let is_endless = self.requests == u64::MAX && self.bytes == u64::MAX;
        if is_endless && self.runtime_ns == 0 {
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
        match self.order.fault(self.region.bytes / shares) {
            Some(reason) => wrong(reason),
            None => Ok(()),
        }
    }
}
