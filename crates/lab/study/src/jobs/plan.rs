//! From a study file and a combination of axis values to a run of processes.

use super::run::{JobsPlan, run_jobs};
use super::spec::JobSpec;
use super::words::{
    Intervals, class_of, intervals_of, order_of, parse_bytes, parse_time_ns, steady_of, urgent_of,
};
use crate::StudyError;
use crate::block_stack::{BlockStack, device_axes};
use crate::braces::{filled_in, names_in_braces};
use crate::setting_axes::scheduler_axes;
use crate::study_file::Study;
use crate::study_parts::refuse;
use crate::values::AxisValue;
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, RunContext, WorkloadKind,
};
use ::jobs::{Ends, Flow, Job, LatencyTarget, Pace, Region, Verify};

/// Axes that mean something to such a study; all others only fill in the words of jobs.
const JOBS_AXES: [&str; 3] = ["scheduler", "device", "mechanism"];

/// Private parts of a region begin and end at pages of the host.
const PAGE_BYTES: u64 = units::PAGE_BYTES_U64;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "jobs",
    summary: "processes over a scheduler and a block device in simulated time: [host] and [[job]]",
    keys: &[],
    axes,
    has_timeline: true,
    columns: &[],
    check,
    plan: |study, values| Ok(Box::new(plan(study, values)?)),
};

fn axes(study: &Study) -> KnownAxes {
    let mut of_study = axes_in_words(study);
    of_study.extend(scheduler_axes(study));
    of_study.extend(device_axes(study));
    KnownAxes { own: &JOBS_AXES, of_study, ..KnownAxes::default() }
}

/// Axes that fill in the words of jobs.
pub(super) fn axes_in_words(study: &Study) -> Vec<String> {
    let texts = study.jobs.iter().flat_map(|job| {
        let words = [&job.rw, &job.bs, &job.mode, &job.region].map(Clone::clone);
        let times = [
            Some(&job.thinktime_us),
            job.runtime.as_ref(),
            job.ramp_time.as_ref(),
            job.startdelay.as_ref(),
            job.latency_target.as_ref(),
            job.latency_window.as_ref(),
            job.rate_interval.as_ref(),
        ];
        words.into_iter().chain(times.into_iter().flatten().map(ToString::to_string))
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

/// Resolves one combination of axis values.
///
/// # Errors
/// Names that do not exist, with a suggestion; values that do not fit.
fn plan(study: &Study, values: &Combination<'_>) -> Result<JobsPlan, StudyError> {
    if study.jobs.is_empty() {
        return wrong("job", "workload kind `jobs` needs at least one [[job]]");
    }
    let stack = BlockStack::of(study, values)?;
    let jobs = plan_jobs(study, values, stack.host.free_bytes, stack.device_bytes)?;
    // A time line is kept where every axis that it names has one of the values.
    let timeline = study.timeline.as_ref().filter(|timeline| {
        timeline.axes.iter().all(|(axis, permitted)| {
            let value = values.get(axis.as_str());
            value.is_some_and(|value| permitted.iter().any(|one| one.to_string() == *value))
        })
    });
    let timeline_ns = timeline.map_or(0, |timeline| u64::from(timeline.seconds) * 1_000_000_000);
    Ok(JobsPlan { stack, jobs: jobs.into_boxed_slice(), timeline_ns })
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

/// A job with the axes' values in its words, on the region that it names.
///
/// # Errors
/// Words that do not exist, with a suggestion; numbers and times that are none.
fn job_of(
    spec: &JobSpec,
    study: &Study,
    values: &Combination<'_>,
    free_bytes: u64,
    device_bytes: u64,
) -> Result<Job, StudyError> {
    let place = format!("job {}", spec.name);
    let filled = |text: &str| filled_in(text, values);
    let (order, read_percent) = order_of(spec, &filled(&spec.rw), &filled(&spec.bs))?;
    let thinktime = filled(&spec.thinktime_us.to_string());
    let Ok(thinktime_us) = thinktime.parse::<u64>() else {
        return wrong(&place, format!("thinktime_us is `{thinktime}`, but must be a whole number"));
    };
    let time_ns = |key: &str, given: Option<&AxisValue>| match given {
        None => Ok(0),
        Some(given) => {
            parse_time_ns(key, &filled(&given.to_string())).or_else(|reason| wrong(&place, reason))
        }
    };
    let runtime_ns = time_ns("runtime", spec.runtime.as_ref())?;
    if spec.runtime.is_some() && runtime_ns == 0 {
        return wrong(&place, "runtime must be above 0; leave it out if only requests end the job");
    }
    let intervals = spec.rate_interval.as_ref().map(|given| filled(&given.to_string()));
    let intervals = intervals
        .map(|text| intervals_of(&text).or_else(|reason| wrong(&place, reason)))
        .transpose()?;
    if spec.fsync > 0 && spec.fdatasync > 0 {
        return wrong(&place, "fsync and fdatasync exclude each other: name one of them");
    }
    let quick_requests =
        study.quick_form.as_ref().and_then(|form| form.requests).filter(|_| study.quick);
    let requests = spec.requests.unwrap_or(u64::MAX);
    Ok(Job {
        name: spec.name.clone(),
        processes: spec.processes,
        order,
        read_percent,
        iodepth: spec.iodepth,
        pace: pace_of(spec, &place, intervals, thinktime_us)?,
        start_delay_ns: time_ns("startdelay", spec.startdelay.as_ref())?,
        // `IOPRIO_NORM`: a process of a class without a level has the one in the middle.
        priority: (class_of(&place, spec.prioclass)?, spec.prio.unwrap_or(process::NORMAL_LEVEL)),
        urgent: urgent_of(spec)?,
        // The short form makes no job longer.
        requests: quick_requests.unwrap_or(requests).min(requests),
        bytes: match &spec.io_size {
            None => u64::MAX,
            Some(text) => parse_bytes("io_size", text).or_else(|reason| wrong(&place, reason))?,
        },
        passes: spec.loops,
        verify: spec
            .verify
            .then_some(Verify { backlog: spec.verify_backlog, batch: spec.verify_backlog_batch }),
        flow: (spec.flow > 0).then_some(Flow {
            id: spec.flow_id,
            weight: spec.flow,
            sleep_ns: spec.flow_sleep_us.saturating_mul(1000),
        }),
        waits_for_earlier: spec.stonewall,
        group: spec.group,
        ends: ends_of(spec)?,
        steady: steady_of(spec)?,
        latency_target: match &spec.latency_target {
            None => None,
            Some(_) => Some(LatencyTarget {
                latency_ns: time_ns("latency_target", spec.latency_target.as_ref())?,
                window_ns: time_ns("latency_window", spec.latency_window.as_ref())?,
                // Whole millionths: a comparison of whole numbers decides.
                share_per_million: (spec.latency_percentile * 10_000.0).round() as u32,
                goes_on: spec.latency_run,
            }),
        },
        runtime_ns,
        ramp_ns: time_ns("ramp_time", spec.ramp_time.as_ref())?,
        mode: mode_of(&filled(&spec.mode))?,
        // `blkdev_fsync` of fs/block_dev.c (block/fops.c since 5.16) does the same for both calls: a block
        // device has no metadata of its own that `fdatasync` could leave out.
        fsync_writes: spec.fsync.max(spec.fdatasync),
        latency_includes_sync: spec.latency_includes_sync,
        region: part_of(spec, region_of(&filled(&spec.region), free_bytes, device_bytes)?)?,
        is_private: spec.private,
    })
}

/// Which processes end when one of the job has.
fn ends_of(spec: &JobSpec) -> Result<Option<Ends>, StudyError> {
    Ok(match spec.exit_what.as_deref() {
        None => None,
        Some("group") => Some(Ends::Group),
        Some("stonewall") => Some(Ends::Running),
        Some("all") => Some(Ends::All),
        Some(other) => {
            let known = ["group", "stonewall", "all"];
            return Err(StudyError::unknown("exit_what", other, known.into_iter()));
        }
    })
}

/// The job's own part of its region.
fn part_of(spec: &JobSpec, region: Region) -> Result<Region, StudyError> {
    let end_bytes = spec.offset_bytes.saturating_add(spec.size_bytes);
    if spec.offset_bytes > 0 && spec.offset_bytes == region.bytes || end_bytes > region.bytes {
        let reason = format!(
            "offset_bytes and size_bytes end at byte {end_bytes} of a region of {} bytes",
            region.bytes
        );
        return wrong(&format!("job {}", spec.name), reason);
    }
    let rest_bytes = region.bytes - spec.offset_bytes;
    Ok(Region {
        offset_bytes: region.offset_bytes + spec.offset_bytes,
        bytes: if spec.size_bytes > 0 { spec.size_bytes } else { rest_bytes },
    })
}

/// What makes the next request come.
fn pace_of(
    spec: &JobSpec,
    place: &str,
    intervals: Option<Intervals>,
    thinktime_us: u64,
) -> Result<Pace, StudyError> {
    let interval_ns = match (spec.rate_iops, intervals) {
        (Some(0), _) => return wrong(place, "rate_iops must be at least 1"),
        (Some(_), Some(_)) => return wrong(place, "rate_interval excludes rate_iops"),
        (Some(rate), None) => 1_000_000_000 / rate,
        (None, Some(Intervals::Same(interval_ns))) => interval_ns,
        (None, Some(Intervals::OfEach(interval_ns))) if spec.rate_process == "linear" => {
            return Ok(Pace::RateOfEach { interval_ns });
        }
        (None, Some(Intervals::OfEach(_))) => {
            return wrong(place, "rates of reads and of writes apart are linear");
        }
        (None, None) => 0,
    };
    match (spec.rate_process.as_str(), interval_ns) {
        ("linear", 0) => Ok(Pace::Closed { think_ns: thinktime_us.saturating_mul(1000) }),
        ("linear", interval_ns) => Ok(Pace::Rate { interval_ns }),
        ("poisson", 0) => wrong(place, "rate_process needs a rate: give rate_iops"),
        ("poisson", interval_ns) => Ok(Pace::Poisson { interval_ns }),
        (other, _) => {
            Err(StudyError::unknown("rate_process", other, ["linear", "poisson"].into_iter()))
        }
    }
}

fn mode_of(name: &str) -> Result<page_cache::Mode, StudyError> {
    match name {
        "direct" => Ok(page_cache::Mode::Direct),
        "sync" => Ok(page_cache::Mode::Sync),
        "buffered" => Ok(page_cache::Mode::Buffered),
        other => {
            let known = ["direct", "sync", "buffered"];
            Err(StudyError::unknown("mode", other, known.into_iter()))
        }
    }
}

/// The part of the device that a job names. The files of the jobs are at its end.
fn region_of(name: &str, free_bytes: u64, device_bytes: u64) -> Result<Region, StudyError> {
    debug_assert!(free_bytes <= device_bytes, "the plan refused more free bytes than there are");
    let filled_bytes = device_bytes - free_bytes;
    match name {
        "all" => Ok(Region { offset_bytes: 0, bytes: device_bytes }),
        "filled" => Ok(Region { offset_bytes: 0, bytes: filled_bytes }),
        "free" => Ok(Region { offset_bytes: filled_bytes, bytes: free_bytes }),
        other => {
            let known = ["all", "filled", "free"];
            Err(StudyError::unknown("region", other, known.into_iter()))
        }
    }
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
