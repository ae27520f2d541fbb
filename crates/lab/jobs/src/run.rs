//! Running jobs: stages one after the other, and the processes of each as tasks.

use crate::flow::Flows;
use crate::process::Runner;
use crate::steady::Meter;
use crate::{Addresses, Ends, Job, ProcessReport};
use block::RequestQueue;
use page_cache::BlockFile;
use sim::{JoinHandle, Sim};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What the processes of a run share.
pub(crate) struct Run {
    pub(crate) sim: Sim,
    pub(crate) file: BlockFile,
    pub(crate) queue: RequestQueue,
    pub(crate) flows: Flows,
    pub(crate) records_samples: bool,
    /// A process may be ended by others while it sleeps.
    pub(crate) may_be_ended: bool,
    /// The jobs, and how far each is.
    states: Vec<(Rc<Job>, State)>,
}

/// How far a job is.
#[derive(Default)]
struct State {
    has_begun: Cell<bool>,
    /// Its processes make no further request.
    is_ended: Cell<bool>,
}

impl Run {
    /// True once the processes of the job with this number shall end.
    pub(crate) fn is_ended(&self, job: usize) -> bool {
        self.states[job].1.is_ended.get()
    }

    /// A process of the job with this number has made its last request: others may have to end as well.
    ///
    /// Source: `fio_terminate_threads` of fio's libfio.c.
    pub(crate) fn process_ended(&self, job: usize) {
        let (own, _) = &self.states[job];
        let Some(ends) = own.ends else { return };
        // Only marks: each process looks before its next request, and requests under way are waited for.
        for (other, state) in &self.states {
            let is_meant = match ends {
                Ends::Group => other.group == own.group,
                Ends::Running => state.has_begun.get(),
                Ends::All => true,
            };
            if is_meant {
                state.is_ended.set(true);
            }
        }
    }

    /// Starts the processes of a job, numbered from `first_pid`; all begin at the present time.
    ///
    /// Each process draws from a stream of its own, named after its number. Private parts of the region are dealt
    /// out in a random order: the order in which files were made says little of where they lie, and processes that
    /// are served in turn must not sweep over a disk by chance.
    fn start(
        self: &Rc<Self>,
        number: usize,
        first_pid: u32,
        meters: &mut BTreeMap<u32, Rc<Meter>>,
    ) -> Vec<JoinHandle<ProcessReport>> {
        let (job, state) = &self.states[number];
        state.has_begun.set(true);
        let mut parts: Vec<u32> = (0..job.processes).collect();
        let mut order = self.sim.stream(&format!("files of processes from {first_pid}"));
        // Fisher and Yates: every order is as likely as the others.
        for last in (1..job.processes).rev() {
            parts.swap(last as usize, order.below(last + 1) as usize);
        }
        let process = |index: u32| {
            let pid = first_pid + index;
            let region = if job.is_private {
                let grid_bytes = job.order.grid_bytes[0].max(job.order.grid_bytes[1]);
                job.region.part(parts[index as usize], job.processes, grid_bytes)
            } else {
                job.region
            };
            let stream = self.sim.stream(&format!("process {pid}"));
            let addresses = Addresses::new(region, &job.order, stream);
            // Those of a group that are looked at together share one meter.
            let meter = job.steady.map(|steady| {
                let new = || Meter::start(&self.sim, steady);
                if steady.is_shared {
                    meters.entry(job.group).or_insert_with(new).clone()
                } else {
                    new()
                }
            });
            let runner = Runner::new(self, number, job, pid, meter);
            self.sim.spawn_named(format!("{} {pid}", job.name), Rc::new(runner).run(addresses))
        };
        (0..job.processes).map(process).collect()
    }
}

/// Numbers of the jobs of each stage: a stage begins at a job that waits for the earlier ones.
fn stages(jobs: &[Job]) -> Vec<std::ops::Range<usize>> {
    let mut stages: Vec<std::ops::Range<usize>> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        match stages.last_mut() {
            Some(stage) if !job.waits_for_earlier => stage.end = number + 1,
            _ => stages.push(number..number + 1),
        }
    }
    stages
}

/// Starts jobs, whose processes are numbered from `first_pid`; yields what each process did.
///
/// The first stage begins at the present time, and each other one when all processes of the one before have ended.
/// When a process has made its requests it exits, which the request queue learns. The jobs must have passed
/// [`Job::check`].
pub fn start_jobs(
    sim: &Sim,
    file: &BlockFile,
    queue: &RequestQueue,
    jobs: &[Job],
    first_pid: u32,
    records_samples: bool,
) -> JoinHandle<Vec<ProcessReport>> {
    let run = Rc::new(Run {
        sim: sim.clone(),
        file: file.clone(),
        queue: queue.clone(),
        flows: Flows::new(sim),
        records_samples,
        may_be_ended: jobs.iter().any(|job| job.ends.is_some() || job.steady.is_some()),
        states: jobs.iter().map(|job| (Rc::new(job.clone()), State::default())).collect(),
    });
    let mut stages = stages(jobs).into_iter();
    let mut next_pid = first_pid;
    let mut start = move |run: &Rc<Run>, stage: std::ops::Range<usize>| {
        let mut handles = Vec::new();
        let mut meters = BTreeMap::new();
        for number in stage {
            handles.extend(run.start(number, next_pid, &mut meters));
            next_pid += run.states[number].0.processes;
        }
        handles
    };
    // The first stage's tasks come before the one that waits for them, in the order of the jobs.
    let mut handles = stages.next().map_or_else(Vec::new, |stage| start(&run, stage));
    sim.spawn_named("end of the jobs", async move {
        let mut reports = Vec::new();
        loop {
            for handle in handles {
                reports.push(handle.await);
            }
            let Some(stage) = stages.next() else { break };
            // Files are opened anew, and their clean pages dropped (`invalidate` of fio, which is set by default).
            let pages = run.file.size_bytes().div_ceil(units::PAGE_BYTES_U64);
            run.file.mapping().invalidate(&(0..pages));
            handles = start(&run, stage);
        }
        reports
    })
}
