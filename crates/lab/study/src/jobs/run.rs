//! One run: processes, page cache, scheduler and device in simulated time.

use super::metrics::JobsOutcome;
use super::phases::Watch;
use crate::StudyError;
use crate::block_stack::{BlockStack, OpenedDevice, finish_timeline, run_to_end, start_timeline};
use crate::workload::contract::RunContext;
use ::jobs::{Job, ProcessReport, start_jobs};
use device::DeviceActivity;
use sim::Simulation;
use std::cell::RefCell;
use std::rc::Rc;
use timeline::Tracks;

/// Number of the first process of a job; the kernel's own threads have smaller ones.
const FIRST_PID: u32 = 1000;

/// A run of processes over a scheduler and a device.
#[derive(Clone, Debug)]
pub(crate) struct JobsPlan {
    pub(crate) stack: BlockStack,
    /// Without room for more: there may be ten thousand plans.
    pub(crate) jobs: Box<[Job]>,
    /// Requests and activity of the device in the first repeat are kept up to this time.
    pub(crate) timeline_ns: u64,
}

/// Carries the run out; none if it was stopped.
///
/// # Errors
/// The first error of a process, or what makes the device impossible.
pub(super) fn run_jobs(
    run: &JobsPlan,
    context: &RunContext<'_>,
) -> Result<Option<JobsOutcome>, StudyError> {
    // One repeat is enough for a figure over time.
    let timeline_ns = if context.repeat == 0 { run.timeline_ns } else { 0 };
    let mut simulation = Simulation::new(context.seed());
    let sim = simulation.handle();
    let OpenedDevice { queue, file } = run.stack.open(&sim, context)?;
    queue.record_activity(timeline_ns > 0);
    let tracks = start_timeline(&queue, context)?;
    let watch = Rc::new(RefCell::new(Watch::default()));
    queue.observe(watch.clone());
    let reports: Rc<RefCell<Vec<_>>> = Rc::default();
    let records_samples = timeline_ns > 0 || tracks.is_some();
    let jobs = start_jobs(&sim, &file, &queue, &run.jobs, FIRST_PID, records_samples);
    let (task_sim, task_reports) = (sim.clone(), reports.clone());
    // The cache's threads never end, so the end of the jobs ends the run.
    sim.spawn_named("end of the run", async move {
        task_reports.replace(jobs.await);
        task_sim.stop();
    });
    if !run_to_end(&mut simulation, context.stopped) {
        return Ok(None);
    }
    let reports = reports.take();
    // Before anything is counted: a process that failed leaves less work to the others.
    if let Some(error) = reports.iter().find_map(|report| report.error) {
        let (place, reason) = (run.stack.device.name.clone(), error.to_string());
        return Err(StudyError::Study { place, reason });
    }
    let watch = watch.borrow();
    let end_ns = reports.iter().map(|report| report.end_ns).max().unwrap_or(0);
    let phases = [watch.reads, watch.writes];
    let statistics = queue.statistics().expect("the device is timed");
    let activity = queue.take_activity();
    // Before an error is looked for no name is given: half a timeline would be taken for a whole one.
    if let Some(tracks) = tracks {
        write_tracks(&mut tracks.borrow_mut(), &reports, &activity);
        finish_timeline(&tracks, context)?;
    }
    let mut outcome = JobsOutcome::new(end_ns, &phases, &statistics, activity.dies, &reports);
    outcome.cancelled_bios = queue.cancelled_bios();
    Ok(Some(outcome.cut(timeline_ns)))
}

/// Adds what the device and the processes did to a timeline.
fn write_tracks(tracks: &mut Tracks, reports: &[ProcessReport], activity: &DeviceActivity) {
    tracks.device(activity);
    for report in reports {
        let calls = report.samples.iter().map(|sample| {
            let call = if sample.is_read { "read" } else { "write" };
            (call, sample.start_ns, sample.start_ns + sample.latency_ns)
        });
        tracks.process(&format!("process {}", report.pid), calls);
    }
}
