//! One run: processes, page cache, scheduler and device in simulated time.

use super::metrics::JobsOutcome;
use super::plan::JobsPlan;
use crate::StudyError;
use crate::workload_kind::RunContext;
use ::jobs::start_job;
use block::{Behind, Life, Observer, RequestQueue};
use device::{BlockDevice, Fill, Precondition};
use page_cache::{BlockFile, CacheOptions, PageCache, queue_options};
use sched::{Direction, Elevator, ElevatorOptions};
use sim::{Cpus, Simulation};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

/// Number of the first process of a job; the kernel's own threads have smaller ones.
const FIRST_PID: u32 = 1000;

/// Virtual time between two looks at the stop flag.
const STOP_CHECK_NS: u64 = 1_000_000_000;

/// Devices filled once and copied for every run.
#[derive(Default)]
pub(crate) struct PreparedDevices(Mutex<BTreeMap<String, Box<dyn BlockDevice>>>);

impl PreparedDevices {
    fn copy(&self, run: &JobsPlan, seed: u64) -> Result<Box<dyn BlockDevice>, StudyError> {
        // Held while a device is filled: another run would only fill it again.
        let mut prepared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = prepared.get(&run.device_key) {
            return Ok(device.clone_box());
        }
        let mut device = device::build(&run.device, seed)?;
        let how = Precondition {
            // The files of the jobs are written before they run.
            fill: Fill::AllBut(0),
            overwrite_permille: run.host.overwritten_percent * 10,
            steady: true,
            seed,
        };
        device.precondition(&how).map_err(|error| StudyError::Study {
            place: run.device.name.clone(),
            reason: error.to_string(),
        })?;
        let copy = device.clone_box();
        prepared.insert(run.device_key.clone(), device);
        Ok(copy)
    }
}

/// Sums over the bios of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phases {
    pub(crate) bios: u64,
    pub(crate) merged: u64,
    pub(crate) q2g_ns: u64,
    pub(crate) g2i_ns: u64,
    pub(crate) i2d_ns: u64,
    pub(crate) d2c_ns: u64,
    pub(crate) behind: Behind,
    /// Sum and greatest of what [`Life::overtaken`] says.
    pub(crate) overtaken: (u64, u64),
    /// The bio that took longest.
    pub(crate) longest: Longest,
}

/// How long a bio took, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    pub(crate) q2c_ns: u64,
    pub(crate) behind: Behind,
    pub(crate) overtaken: u64,
}

/// Watches all bios of a run, reads and writes apart.
#[derive(Default)]
struct Watch {
    reads: Phases,
    writes: Phases,
}

impl Observer for Watch {
    fn completed(&mut self, life: &Life) {
        let phases = match life.bio.direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
        };
        phases.bios += 1;
        phases.merged += u64::from(life.is_merged);
        // Four times that follow each other without a gap (Q, G, I, D and C of blktrace).
        debug_assert_eq!(
            life.q2g_ns() + life.g2i_ns() + life.i2d_ns() + life.d2c_ns(),
            life.q2c_ns()
        );
        phases.q2g_ns += life.q2g_ns();
        phases.g2i_ns += life.g2i_ns();
        phases.i2d_ns += life.i2d_ns();
        phases.d2c_ns += life.d2c_ns();
        phases.behind.reads_ns += life.behind.reads_ns;
        phases.behind.writes_ns += life.behind.writes_ns;
        phases.behind.cleaning_ns += life.behind.cleaning_ns;
        phases.behind.idling_ns += life.behind.idling_ns;
        phases.overtaken.0 += life.overtaken;
        phases.overtaken.1 = phases.overtaken.1.max(life.overtaken);
        let q2c_ns = life.q2c_ns();
        if q2c_ns > phases.longest.q2c_ns {
            let Life { behind, overtaken, .. } = *life;
            phases.longest = Longest { q2c_ns, behind, overtaken };
        }
    }
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
    // Filled by the seed of the study: all repeats begin on the same device.
    let device = context.prepared.devices.copy(run, context.study_seed)?;
    let mut simulation = Simulation::new(context.seed());
    let sim = simulation.handle();
    let board = Rc::new(run.board.clone());
    let cpus = Rc::new(Cpus::new(&sim, board.processors.count, board.processors.timeslice_ns));
    let max_sectors = run.host.max_sectors_kb * 2;
    let options = ElevatorOptions {
        hz: board.hz,
        rotational: device.is_rotational(),
        nr_requests: run.host.nr_requests,
        max_sectors,
        merging: true,
    };
    let elevator = Elevator::new(run.scheduler, &run.settings, options);
    let queue = RequestQueue::new(&sim, elevator, device, queue_options(&board, max_sectors));
    queue.record_activity(timeline_ns > 0);
    let watch = Rc::new(RefCell::new(Watch::default()));
    queue.observe(watch.clone());
    let cache = PageCache::new(&sim, &cpus, &board, CacheOptions::default());
    let file = BlockFile::new(&sim, cpus, board, queue.clone(), cache);
    let reports: Rc<RefCell<Vec<_>>> = Rc::default();
    let mut first_pid = FIRST_PID;
    let mut handles = Vec::new();
    for job in &run.jobs {
        handles.extend(start_job(&sim, &file, &queue, job, first_pid, timeline_ns > 0));
        first_pid += job.processes;
    }
    let (task_sim, task_reports) = (sim.clone(), reports.clone());
    // The cache's threads never end, so the end of the jobs ends the run.
    sim.spawn_named("end of the jobs", async move {
        for handle in handles {
            let report = handle.await;
            task_reports.borrow_mut().push(report);
        }
        task_sim.stop();
    });
    let mut until_ns = 0;
    while !sim.is_stopped() {
        if (context.stopped)() {
            return Ok(None);
        }
        // In steps of simulated time, so that a stop is seen.
        until_ns += STOP_CHECK_NS;
        simulation.run_until(until_ns);
    }
    let reports = reports.take();
    // Before anything is counted: a process that failed leaves less work to the others.
    if let Some(error) = reports.iter().find_map(|report| report.error) {
        let (place, reason) = (run.device.name.clone(), error.to_string());
        return Err(StudyError::Study { place, reason });
    }
    let watch = watch.borrow();
    let end_ns = reports.iter().map(|report| report.end_ns).max().unwrap_or(0);
    let phases = [watch.reads, watch.writes];
    let statistics = queue.statistics().expect("the device is timed");
    let activity = queue.take_activity();
    let outcome = JobsOutcome::new(end_ns, &phases, statistics, activity, &reports);
    Ok(Some(outcome.cut(timeline_ns)))
}
