//! Running a job: its processes as tasks.

use crate::{Addresses, Job, Latencies, Pace, Pattern};
use block::RequestQueue;
use page_cache::{BlockFile, FileError, Process};
use sim::{JoinHandle, Semaphore, Sim};
use std::cell::RefCell;
use std::rc::Rc;

/// One request as its process saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the call was made.
    pub start_ns: u64,
    /// How long it took.
    pub latency_ns: u64,
    /// True for a read, false for a write.
    pub is_read: bool,
}

/// What a process did.
#[derive(Clone, Debug, Default)]
pub struct ProcessReport {
    /// Number of the process.
    pub pid: u32,
    /// Latencies of its reads.
    pub reads: Latencies,
    /// Latencies of its writes.
    pub writes: Latencies,
    /// Latencies of its `fsync` calls.
    pub fsyncs: Latencies,
    /// Bytes read and written.
    pub bytes: u64,
    /// When the process began.
    pub start_ns: u64,
    /// When its last request was done.
    pub end_ns: u64,
    /// The first error, which ended it.
    pub error: Option<FileError>,
    /// Every request, if that was asked for.
    pub samples: Vec<Sample>,
}

impl ProcessReport {
    /// Bytes a second over the life of the process.
    pub fn throughput_bytes_per_s(&self) -> f64 {
        let life_ns = self.end_ns.saturating_sub(self.start_ns).max(1);
        self.bytes as f64 * 1e9 / life_ns as f64
    }
}

/// Starts the processes of a job, numbered from `first_pid`; all begin at the present time.
///
/// Each process draws from a stream of its own, named after its number. Private parts of the region
/// are dealt out in a random order: the order in which files were made says little of where they lie,
/// and processes that are served in turn must not sweep over a disk by chance. When a process has made
/// its requests it exits, which the request queue learns. The job must have passed
/// [`Job::check`].
pub fn start_job(
    sim: &Sim,
    file: &BlockFile,
    queue: &RequestQueue,
    job: &Job,
    first_pid: u32,
    records_samples: bool,
) -> Vec<JoinHandle<ProcessReport>> {
    let mut parts: Vec<u32> = (0..job.processes).collect();
    let mut order = sim.stream(&format!("files of processes from {first_pid}"));
    // Fisher and Yates: every order is as likely as the others.
    for last in (1..job.processes).rev() {
        parts.swap(last as usize, order.below(last + 1) as usize);
    }
    let process = |index: u32| {
        let pid = first_pid + index;
        let region = if job.is_private {
            job.region.part(parts[index as usize], job.processes, job.block_bytes)
        } else {
            job.region
        };
        let stream = sim.stream(&format!("process {pid}"));
        let addresses = match job.pattern {
            Pattern::Sequential => Addresses::sequential(region, job.block_bytes, stream),
            Pattern::Random(distribution) => {
                Addresses::random(region, job.block_bytes, distribution, stream)
            }
        };
        let runner = Runner {
            sim: sim.clone(),
            file: file.clone(),
            queue: queue.clone(),
            job: job.clone(),
            process: Process::new(pid),
            records_samples,
            report: RefCell::new(ProcessReport {
                pid,
                start_ns: sim.now(),
                end_ns: sim.now(),
                ..ProcessReport::default()
            }),
        };
        sim.spawn_named(format!("{} {pid}", job.name), Rc::new(runner).run(addresses))
    };
    (0..job.processes).map(process).collect()
}

struct Runner {
    sim: Sim,
    file: BlockFile,
    queue: RequestQueue,
    job: Job,
    process: Process,
    records_samples: bool,
    report: RefCell<ProcessReport>,
}

impl Runner {
    async fn run(self: Rc<Self>, addresses: Addresses) -> ProcessReport {
        // One request at a time needs no task for each.
        if self.job.iodepth == 1 && matches!(self.job.pace, Pace::Closed { .. }) {
            self.one_by_one(addresses).await;
        } else {
            self.clone().many(addresses).await;
        }
        // The scheduler frees what it keeps of the process.
        self.queue.exit(self.process.pid);
        self.report.take()
    }

    /// A closed loop of one request: ioping.
    async fn one_by_one(&self, mut addresses: Addresses) {
        let Pace::Closed { think_ns } = self.job.pace else { return };
        let mut writes = 0;
        for number in 0..self.job.requests {
            let is_read = addresses.chance(self.job.read_percent);
            let offset_bytes = addresses.next_offset();
            if !self.request(is_read, offset_bytes).await {
                return;
            }
            writes += u64::from(!is_read);
            if !is_read && self.job.fsync_writes > 0 && writes % self.job.fsync_writes == 0 {
                self.fsync().await;
            }
            if think_ns > 0 && number + 1 < self.job.requests {
                self.sim.sleep(think_ns).await;
            }
        }
    }

    /// Several requests at once, as with an asynchronous interface.
    async fn many(self: Rc<Self>, mut addresses: Addresses) {
        let slots = Rc::new(Semaphore::new(&self.sim, self.job.iodepth));
        let mut due_ns = self.sim.now();
        for _ in 0..self.job.requests {
            if let Pace::Rate { interval_ns } = self.job.pace {
                self.sim.sleep_until(due_ns).await;
                // A late request puts all later ones off: the clock goes on from it and does not
                // catch up.
                due_ns = due_ns.max(self.sim.now()) + interval_ns;
            }
            slots.acquire().await.forget();
            if self.report.borrow().error.is_some() {
                slots.release(1);
                break;
            }
            let is_read = addresses.chance(self.job.read_percent);
            let offset_bytes = addresses.next_offset();
            let (runner, slots) = (self.clone(), slots.clone());
            self.sim.spawn(async move {
                runner.request(is_read, offset_bytes).await;
                if let Pace::Closed { think_ns } = runner.job.pace
                    && think_ns > 0
                {
                    runner.sim.sleep(think_ns).await;
                }
                slots.release(1);
            });
        }
        // The process ends when its last request is done.
        slots.acquire_many(self.job.iodepth).await.forget();
    }

    /// Makes one request; false after an error.
    async fn request(&self, is_read: bool, offset_bytes: u64) -> bool {
        let start_ns = self.sim.now();
        let (process, mode) = (self.process, self.job.mode);
        let bytes = self.job.block_bytes;
        let outcome = if is_read {
            self.file.read(process, offset_bytes, bytes, mode).await
        } else {
            self.file.write(process, offset_bytes, bytes, mode).await
        };
        let end_ns = self.sim.now();
        let mut report = self.report.borrow_mut();
        if let Err(error) = outcome {
            report.error.get_or_insert(error);
            return false;
        }
        let latency_ns = end_ns - start_ns;
        if is_read {
            report.reads.record(latency_ns);
        } else {
            report.writes.record(latency_ns);
        }
        report.bytes += bytes;
        report.end_ns = end_ns;
        if self.records_samples {
            report.samples.push(Sample { start_ns, latency_ns, is_read });
        }
        true
    }

    async fn fsync(&self) {
        let start_ns = self.sim.now();
        let outcome = self.file.fsync(self.process).await;
        let mut report = self.report.borrow_mut();
        match outcome {
            Ok(_) => report.fsyncs.record(self.sim.now() - start_ns),
            Err(error) => drop(report.error.get_or_insert(error)),
        }
    }
}
