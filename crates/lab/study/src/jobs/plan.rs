//! From a study file and a combination of axis values to a run of processes.

use super::run::run_jobs;
use super::spec::{Host, JobSpec};
use crate::StudyError;
use crate::scheduler_choice::scheduler_of;
use crate::setting_axes::scheduler_axes;
use crate::study_file::{SettingValue, Study};
use crate::workload_kind::{
    Combination, Identity, KnownAxes, Measured, Plan, RunContext, WorkloadKind, filled_in,
    names_in_braces, refuse,
};
use ::jobs::{Distribution, Job, Pace, Pattern, Region};
use board::Board;
use device::DeviceSpec;
use sched::{SchedulerEntry, Settings, Value};

/// Axes that mean something to such a study; all others only fill in the words of jobs.
const JOBS_AXES: [&str; 3] = ["scheduler", "device", "mechanism"];

/// Private parts of a region begin and end at pages of the host.
const PAGE_BYTES: u64 = 4096;

/// Before a key of the device, in the name of an axis that varies it.
const DEVICE_PREFIX: &str = "device.";

/// The mechanism that changes nothing.
const ALL_MECHANISMS: &str = "all";

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "jobs",
    summary: "processes over a scheduler and a block device in simulated time: [host] and [[job]]",
    keys: &[],
    axes,
    columns: &[],
    check,
    plan: |study, values| Ok(Box::new(plan(study, values)?)),
};

/// A run of processes over a scheduler and a device.
#[derive(Clone, Debug)]
pub(crate) struct JobsPlan {
    pub(crate) scheduler: &'static SchedulerEntry,
    pub(crate) settings: Settings,
    pub(crate) device: DeviceSpec,
    /// What tells this device from others: name, changes, fill.
    pub(crate) device_key: String,
    pub(crate) board: Board,
    pub(crate) host: Host,
    pub(crate) jobs: Vec<Job>,
    /// Requests and activity of the device in the first repeat are kept up to this time.
    pub(crate) timeline_ns: u64,
}

fn axes(study: &Study) -> KnownAxes {
    let mut of_study = axes_in_words(study);
    of_study.extend(scheduler_axes(study));
    // The device itself says whether it has such a key.
    of_study.extend(study.axes.keys().filter(|axis| axis.starts_with(DEVICE_PREFIX)).cloned());
    KnownAxes { own: &JOBS_AXES, of_study, advice: None }
}

/// Axes that fill in the words of jobs.
pub(super) fn axes_in_words(study: &Study) -> Vec<String> {
    let texts = study.jobs.iter().flat_map(|job| {
        let words = [&job.rw, &job.bs, &job.mode, &job.region].map(Clone::clone);
        words.into_iter().chain([job.thinktime_us.to_string()])
    });
    texts.flat_map(|text| names_in_braces(&text).collect::<Vec<_>>()).collect()
}

/// Checks what does not depend on a combination of axis values.
///
/// # Errors
/// Parts that mean nothing to processes; no scheduler.
fn check(study: &Study) -> Result<(), StudyError> {
    refuse(study, &["host.block_device", "limits"])?;
    if !study.axes.contains_key("scheduler") {
        return wrong("axes", "an axis `scheduler` with at least one scheduler is missing");
    }
    Ok(())
}

pub(super) fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// Resolves one combination.
///
/// # Errors
/// Names that do not exist, with a suggestion; values that do not fit.
fn plan(study: &Study, values: &Combination<'_>) -> Result<JobsPlan, StudyError> {
    let Some(host) = study.host.clone() else {
        return wrong("host", "workload kind `jobs` needs a table [host] with board and device");
    };
    if study.jobs.is_empty() {
        return wrong("job", "workload kind `jobs` needs at least one [[job]]");
    }
    let mut board = study.board_beside(&host.board)?;
    // What the study says goes before what the board says.
    board.hz = host.hz.unwrap_or(board.hz);
    board.kernel = host.kernel.clone().unwrap_or(board.kernel);
    board.check().or_else(|reason| wrong("host", reason))?;
    page_cache::check_kernel(&board).or_else(|reason| wrong("host.kernel", reason))?;
    // `BLKDEV_MIN_RQ` is 4.
    if !(4..=100_000).contains(&host.nr_requests) {
        return wrong("host.nr_requests", "must be 4 to 100000");
    }
    // `queue_max_sectors_store` refuses less than a page.
    if !(4..=1 << 20).contains(&host.max_sectors_kb) {
        return wrong("host.max_sectors_kb", "must be 4 to 1048576");
    }
    let mechanism = values.get("mechanism").copied().unwrap_or(ALL_MECHANISMS);
    let Some(scheduler) = values.get("scheduler") else {
        return wrong("axes", "an axis `scheduler` with at least one scheduler is missing");
    };
    let (scheduler, settings) = scheduler_of(study, scheduler, mechanism, values)?;
    let (device, device_key) = device_of(study, &host, values, mechanism)?;
    let device_bytes = capacity_bytes(&device)?;
    if host.free_bytes == 0 {
        return wrong("host.free_bytes", "is missing: the bytes that hold the files of the jobs");
    }
    if host.free_bytes > device_bytes {
        return wrong(
            "host.free_bytes",
            format!("{} bytes cannot be free of {device_bytes}", host.free_bytes),
        );
    }
    let jobs = plan_jobs(study, values, host.free_bytes, device_bytes)?;
    // A time line is kept where every axis that it names has one of the values.
    let timeline = study.timeline.as_ref().filter(|timeline| {
        timeline.axes.iter().all(|(axis, wanted)| {
            let value = values.get(axis.as_str());
            value.is_some_and(|value| wanted.iter().any(|one| one.to_string() == *value))
        })
    });
    let timeline_ns = timeline.map_or(0, |timeline| u64::from(timeline.seconds) * 1_000_000_000);
    Ok(JobsPlan { scheduler, settings, device, device_key, board, host, jobs, timeline_ns })
}

impl Plan for JobsPlan {
    fn carry_out(&self, context: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        let outcome = run_jobs(self, context)?;
        Ok(outcome.map(|outcome| Measured {
            metrics: outcome.metrics(),
            samples: Some(Box::new(outcome.samples)),
            ..Measured::default()
        }))
    }

    fn identity(&self, _: u32) -> Option<Identity> {
        // Jobs are drawn by the repeat, so none of their runs is like another.
        None
    }

    fn has_pooled_tables(&self) -> bool {
        true
    }
}

/// The jobs with the axes' values in their words, each with its part of the device.
///
/// # Errors
/// Words and numbers that do not fit.
pub(super) fn plan_jobs(
    study: &Study,
    values: &Combination<'_>,
    free_bytes: u64,
    device_bytes: u64,
) -> Result<Vec<Job>, StudyError> {
    let mut jobs: Vec<Job> = study
        .jobs
        .iter()
        .map(|spec| job_of(spec, study, values, free_bytes, device_bytes))
        .collect::<Result<_, _>>()?;
    // A part depends on all jobs of its region, so all must be known.
    let regions = private_regions(&jobs);
    for (job, region) in jobs.iter_mut().zip(regions) {
        job.region = region;
        job.check(device_bytes)
            .or_else(|error| wrong(&format!("job {}", error.job), error.reason))?;
    }
    Ok(jobs)
}

/// Bytes the device offers.
fn capacity_bytes(device: &DeviceSpec) -> Result<u64, StudyError> {
    match &device.flash {
        Some(flash) => Ok(flash.capacity_bytes),
        // The size of a disk is known when it is built.
        None => Ok(device::build(device, 0)?.sectors() * device::SECTOR_BYTES),
    }
}

fn device_of(
    study: &Study,
    host: &Host,
    values: &Combination<'_>,
    mechanism: &str,
) -> Result<(DeviceSpec, String), StudyError> {
    let Some(name) = values.get("device").copied().or(host.device.as_deref()) else {
        return wrong("host.device", "name a device, or make `device` an axis");
    };
    let mut device = device::find_device(name)?;
    let mut key = name.to_owned();
    if mechanism != ALL_MECHANISMS {
        let Some(changes) = study.mechanisms.get(mechanism) else {
            let known = study.mechanisms.keys().map(String::as_str).chain([ALL_MECHANISMS]);
            return Err(StudyError::unknown("mechanism", mechanism, known));
        };
        for (name, value) in &changes.device {
            let text = Value::from(value).to_string();
            device.set(name, &text)?;
            // A device that was changed is filled for itself.
            key.extend([" ", name, "=", &text]);
        }
    }
    for (axis, value) in values {
        if let Some(name) = axis.strip_prefix(DEVICE_PREFIX) {
            device.set(name, value)?;
            key.extend([" ", name, "=", value]);
        }
    }
    Ok((device, key))
}

fn job_of(
    spec: &JobSpec,
    study: &Study,
    values: &Combination<'_>,
    free_bytes: u64,
    device_bytes: u64,
) -> Result<Job, StudyError> {
    let place = format!("job {}", spec.name);
    let filled = |text: &str| filled_in(text, values);
    let rw = filled(&spec.rw);
    let distribution = match spec.random_distribution.split_once(':') {
        None if spec.random_distribution == "uniform" => Distribution::Uniform,
        Some(("zipf", theta)) => match theta.parse() {
            Ok(theta) => Distribution::Zipf(theta),
            Err(_) => return wrong(&place, format!("zipf:{theta} needs a number")),
        },
        _ => return wrong(&place, "random_distribution is `uniform` or `zipf:theta`"),
    };
    let (pattern, read_percent) = match rw.as_str() {
        "read" => (Pattern::Sequential, 100),
        "write" => (Pattern::Sequential, 0),
        "rw" | "readwrite" => (Pattern::Sequential, spec.rwmixread),
        "randread" => (Pattern::Random(distribution), 100),
        "randwrite" => (Pattern::Random(distribution), 0),
        "randrw" => (Pattern::Random(distribution), spec.rwmixread),
        _ => {
            let known = ["read", "write", "rw", "randread", "randwrite", "randrw"];
            return Err(StudyError::unknown("rw", &rw, known.into_iter()));
        }
    };
    let mode = match filled(&spec.mode).as_str() {
        "direct" => page_cache::Mode::Direct,
        "sync" => page_cache::Mode::Sync,
        "buffered" => page_cache::Mode::Buffered,
        other => {
            let known = ["direct", "sync", "buffered"];
            return Err(StudyError::unknown("mode", other, known.into_iter()));
        }
    };
    // The files of the jobs are at the end of the device.
    let filled_bytes = device_bytes - free_bytes;
    let region = match filled(&spec.region).as_str() {
        "all" => Region { offset_bytes: 0, bytes: device_bytes },
        "filled" => Region { offset_bytes: 0, bytes: filled_bytes },
        "free" => Region { offset_bytes: filled_bytes, bytes: free_bytes },
        other => {
            return Err(StudyError::unknown(
                "region",
                other,
                ["all", "filled", "free"].into_iter(),
            ));
        }
    };
    let thinktime = filled(&spec.thinktime_us.to_string());
    let Ok(thinktime_us) = thinktime.parse::<u64>() else {
        return wrong(&place, format!("thinktime_us is `{thinktime}`, but must be a whole number"));
    };
    let quick_requests =
        study.quick_form.as_ref().and_then(|form| form.requests).filter(|_| study.quick);
    let job = Job {
        name: spec.name.clone(),
        processes: spec.processes,
        pattern,
        read_percent,
        block_bytes: parse_bytes(&filled(&spec.bs)).or_else(|reason| wrong(&place, reason))?,
        iodepth: spec.iodepth,
        pace: match spec.rate_iops {
            None => Pace::Closed { think_ns: thinktime_us.saturating_mul(1000) },
            Some(0) => return wrong(&place, "rate_iops must be at least 1"),
            Some(rate) => Pace::Rate { interval_ns: 1_000_000_000 / rate },
        },
        // The short form makes no job longer.
        requests: quick_requests.unwrap_or(spec.requests).min(spec.requests),
        mode,
        fsync_writes: spec.fsync,
        region,
        is_private: spec.private,
    };
    Ok(job)
}

/// What each job works on: jobs whose processes have files of their own lie side by side in the
/// region that they name, with a part of the same size for each process.
fn private_regions(jobs: &[Job]) -> Vec<Region> {
    let processes = |jobs: &[Job], region: Region| -> u64 {
        let own = jobs.iter().filter(|job| job.is_private && job.region == region);
        own.map(|job| u64::from(job.processes)).sum()
    };
    let part = |(place, job): (usize, &Job)| {
        let region = job.region;
        if !job.is_private {
            return region;
        }
        // Whole pages, so that no two processes share one.
        let part_bytes = region.bytes / processes(jobs, region).max(1) / PAGE_BYTES * PAGE_BYTES;
        debug_assert!(
            part_bytes * processes(jobs, region) <= region.bytes,
            "parts lie in the region"
        );
        Region {
            offset_bytes: region.offset_bytes + processes(&jobs[..place], region) * part_bytes,
            bytes: u64::from(job.processes) * part_bytes,
        }
    };
    jobs.iter().enumerate().map(part).collect()
}

/// Bytes with fio's suffixes: k, m, g, in powers of 1024.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("bs is `{text}`, but must be a number with k, m or g")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("bs is `{text}`, but must be a number with k, m or g"))?;
    // `checked_shl` looks at the shift alone; the way back shows what was lost.
    number
        .checked_shl(shift)
        .filter(|bytes| bytes >> shift == number)
        .ok_or_else(|| format!("bs is `{text}`, which is too large"))
}

impl From<SettingValue> for Value {
    fn from(value: SettingValue) -> Self {
        Self::from(&value)
    }
}
