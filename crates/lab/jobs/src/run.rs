//! Running a job: its processes as tasks.

use crate::{Addresses, Job, Latencies, Pace, Pattern, Urgent};
use block::RequestQueue;
use page_cache::{BlockFile, FileError, Process};
use sim::{JoinHandle, Semaphore, Sim};
use std::cell::{Cell, RefCell};
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
    /// When the process began, or when its ramp was over.
    pub start_ns: u64,
    /// When its last counted request was complete.
    pub end_ns: u64,
    /// The first error, which ended it.
    pub error: Option<FileError>,
    /// Every request, if they are recorded.
    pub samples: Vec<Sample>,
}

impl ProcessReport {
    /// Bytes a second from the beginning, or the end of the ramp, to the last counted request.
    pub fn throughput_bytes_per_s(&self) -> f64 {
        // A process without a request moved nothing: 0, not undefined.
        let elapsed_ns = self.end_ns.saturating_sub(self.start_ns).max(1);
        self.bytes as f64 * 1e9 / elapsed_ns as f64
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
            Pattern::Sequential => {
                Addresses::sequential_with_gap(region, job.block_bytes, job.gap_bytes, stream)
            }
            Pattern::Random(distribution) => {
                Addresses::random(region, job.block_bytes, distribution, stream)
            }
        };
        let counted_from_ns = sim.now() + job.start_delay_ns + job.ramp_ns;
        let runner = Runner {
            sim: sim.clone(),
            file: file.clone(),
            queue: queue.clone(),
            job: job.clone(),
            process: Process::new(pid).with_priority(job.priority.0, job.priority.1),
            records_samples,
            counted_from_ns,
            stop_ns: match job.runtime_ns {
                0 => u64::MAX,
                // `reset_all_stats` of fio's libfio.c sets the epoch anew when the ramp is over, and `runtime`
                // is measured from there.
                runtime_ns => counted_from_ns + runtime_ns,
            },
            in_flight: Cell::new(0),
            writes: Cell::new(0),
            report: RefCell::new(ProcessReport {
                pid,
                start_ns: counted_from_ns,
                end_ns: counted_from_ns,
                ..ProcessReport::default()
            }),
        };
        sim.spawn_named(format!("{} {pid}", job.name), Rc::new(runner).run(addresses))
    };
    (0..job.processes).map(process).collect()
}

/// A process while it runs.
struct Runner {
    sim: Sim,
    file: BlockFile,
    queue: RequestQueue,
    job: Job,
    process: Process,
    records_samples: bool,
    /// Requests that complete earlier are not counted.
    counted_from_ns: u64,
    /// No request is issued from then on.
    stop_ns: u64,
    /// Requests that were issued and are not complete.
    in_flight: Cell<u64>,
    /// Writes that are complete, counted or not.
    writes: Cell<u64>,
    report: RefCell<ProcessReport>,
}

impl Runner {
    async fn run(self: Rc<Self>, addresses: Addresses) -> ProcessReport {
        if self.job.start_delay_ns > 0 {
            self.sim.sleep(self.job.start_delay_ns).await;
        }
        // One request at a time needs no task for each.
        if self.job.iodepth == 1 && matches!(self.job.pace, Pace::Closed { .. }) {
            self.one_by_one(addresses).await;
        } else {
            self.clone().many(addresses).await;
        }
        debug_assert_eq!(self.in_flight.get(), 0, "a process ends with its last request");
        // The scheduler frees what it keeps of the process.
        self.queue.exit(self.process.pid);
        self.report.take()
    }

    /// Requests that were counted, and those that may still be: fio's `io_issue_bytes_exceeded` (backend.c)
    /// compares their sum with `number_ios`.
    fn requests_begun(&self) -> u64 {
        let report = self.report.borrow();
        report.reads.count() + report.writes.count() + self.in_flight.get()
    }

    /// True while requests and time are left.
    fn has_more(&self) -> bool {
        self.sim.now() < self.stop_ns && self.requests_begun() < self.job.requests
    }

    /// A closed loop of one request: ioping.
    async fn one_by_one(&self, mut addresses: Addresses) {
        let Pace::Closed { think_ns } = self.job.pace else { return };
        while self.has_more() {
            let is_read = addresses.chance(self.job.read_percent);
            let offset_bytes = addresses.next_offset();
            let process = self.process_of(is_read, &mut addresses);
            if !self.request(process, is_read, offset_bytes).await {
                return;
            }
            if think_ns > 0 && self.has_more() {
                self.think(think_ns).await;
            }
        }
    }

    /// The process as which a request is made: with the priority of urgent ones, if it is drawn to be one.
    fn process_of(&self, is_read: bool, addresses: &mut Addresses) -> Process {
        match self.job.urgent {
            Some(Urgent { percent, class, level })
                if addresses.chance(percent[usize::from(!is_read)]) =>
            {
                self.process.with_priority(class, level)
            }
            _ => self.process,
        }
    }

    /// Waits before the next request, but not past the end: `handle_thinktime` of fio's backend.c shortens
    /// the time to think to what is left of the runtime.
    async fn think(&self, think_ns: u64) {
        let left_ns = self.stop_ns.saturating_sub(self.sim.now());
        self.sim.sleep(think_ns.min(left_ns)).await;
    }

    /// Several requests at once, as with an asynchronous interface.
    async fn many(self: Rc<Self>, mut addresses: Addresses) {
        let slots = Rc::new(Semaphore::new(&self.sim, self.job.iodepth));
        let mut due_ns = self.sim.now();
        loop {
            if !self.has_more() {
                // A request in flight that completes within the ramp is not counted: another one follows it.
                let is_in_ramp = self.sim.now() < self.counted_from_ns && self.in_flight.get() > 0;
                if !is_in_ramp {
                    break;
                }
                slots.acquire_many(self.job.iodepth).await.forget();
                slots.release(self.job.iodepth);
                continue;
            }
            // Drawn for each request, also for one that is late: the number of draws is that of requests.
            let interval_ns = match self.job.pace {
                Pace::Closed { .. } => None,
                Pace::Rate { interval_ns } => Some(interval_ns),
                Pace::Poisson { interval_ns } => Some(addresses.exponential_ns(interval_ns)),
            };
            if let Some(interval_ns) = interval_ns {
                self.sim.sleep_until(due_ns.min(self.stop_ns)).await;
                // A late request puts all later ones off: the clock goes on from it and does not
                // catch up.
                due_ns = due_ns.max(self.sim.now()) + interval_ns;
            }
            slots.acquire().await.forget();
            // The wait for a slot may have been longer than the runtime.
            if self.report.borrow().error.is_some() || self.sim.now() >= self.stop_ns {
                slots.release(1);
                break;
            }
            let is_read = addresses.chance(self.job.read_percent);
            let offset_bytes = addresses.next_offset();
            let process = self.process_of(is_read, &mut addresses);
            self.in_flight.set(self.in_flight.get() + 1);
            let (runner, slots) = (self.clone(), slots.clone());
            self.sim.spawn(async move {
                runner.request(process, is_read, offset_bytes).await;
                runner.in_flight.set(runner.in_flight.get() - 1);
                if let Pace::Closed { think_ns } = runner.job.pace
                    && think_ns > 0
                {
                    runner.think(think_ns).await;
                }
                slots.release(1);
            });
        }
        // The process ends when its last request is done.
        slots.acquire_many(self.job.iodepth).await.forget();
    }

    /// Makes one request, and the `fsync` that is due after it; false after an error.
    async fn request(&self, process: Process, is_read: bool, offset_bytes: u64) -> bool {
        let start_ns = self.sim.now();
        let mode = self.job.mode;
        let bytes = self.job.block_bytes;
        let outcome = if is_read {
            self.file.read(process, offset_bytes, bytes, mode).await
        } else {
            self.file.write(process, offset_bytes, bytes, mode).await
        };
        if let Err(error) = outcome {
            self.report.borrow_mut().error.get_or_insert(error);
            return false;
        }
        let is_synced = !is_read && self.is_fsync_due();
        let includes_sync = is_synced && self.job.latency_includes_sync;
        if !includes_sync {
            self.count(is_read, start_ns);
        }
        if is_synced && !self.fsync().await {
            return false;
        }
        if includes_sync {
            self.count(is_read, start_ns);
        }
        true
    }

    /// Counts a write; true if `fsync` follows it.
    fn is_fsync_due(&self) -> bool {
        self.writes.set(self.writes.get() + 1);
        self.job.fsync_writes > 0 && self.writes.get().is_multiple_of(self.job.fsync_writes)
    }

    /// True from the end of the ramp on. What completes by then counts, even if it began within the ramp:
    /// `io_completed` of fio's `io_u.c` checks `ramp_time_over`.
    fn is_counted(&self) -> bool {
        self.sim.now() >= self.counted_from_ns
    }

    /// Counts a request that began at `start_ns` and is complete now.
    fn count(&self, is_read: bool, start_ns: u64) {
        if !self.is_counted() {
            return;
        }
        let end_ns = self.sim.now();
        debug_assert!(start_ns <= end_ns, "a request completes after it began");
        let latency_ns = end_ns - start_ns;
        let mut report = self.report.borrow_mut();
        debug_assert!(report.end_ns <= end_ns, "requests complete in the order of time");
        if is_read {
            report.reads.record(latency_ns);
        } else {
            report.writes.record(latency_ns);
        }
        report.bytes += self.job.block_bytes;
        report.end_ns = end_ns;
        if self.records_samples {
            report.samples.push(Sample { start_ns, latency_ns, is_read });
        }
    }

    /// Calls `fsync`; false after an error.
    async fn fsync(&self) -> bool {
        let start_ns = self.sim.now();
        let outcome = self.file.fsync(self.process).await;
        let is_counted = self.is_counted();
        let mut report = self.report.borrow_mut();
        match outcome {
            Ok(_) if is_counted => report.fsyncs.record(self.sim.now() - start_ns),
            Ok(_) => {}
            Err(error) => {
                report.error.get_or_insert(error);
                return false;
            }
        }
        true
    }
}
