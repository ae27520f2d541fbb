//! A process of a job while it runs.

mod checks;
mod depth;

use crate::depth_search::DepthSearch;
use crate::flow::Member;
use crate::run::Run;
use crate::steady::Meter;
use crate::written::Written;
use crate::{Addresses, Job, Pace, Place, ProcessReport, Sample, Urgent};
use page_cache::Process;
use sim::Semaphore;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What a process is about to do.
#[derive(Clone, Copy)]
struct Request {
    process: Process,
    is_read: bool,
    place: Place,
    /// It reads what was written before, and counts toward no limit.
    is_verify: bool,
}

/// Requests and bytes.
#[derive(Clone, Copy, Default)]
struct Amount {
    requests: u64,
    bytes: u64,
}

/// A process while it runs.
pub(crate) struct Runner {
    run: Rc<Run>,
    job: Rc<Job>,
    /// Number of the job in the run.
    number: usize,
    process: Process,
    /// Requests that complete earlier are not counted.
    counted_from_ns: Cell<u64>,
    /// No request is issued from then on.
    stop_ns: u64,
    /// What was counted of the present pass.
    counted: Cell<Amount>,
    /// What was issued of it and is not complete.
    in_flight: Cell<Amount>,
    /// Writes that are complete, counted or not.
    writes: Cell<u64>,
    written: RefCell<Written>,
    /// Reads of the present batch of a backlog that are left.
    batch_left: Cell<u64>,
    was_read: Cell<bool>,
    /// The search for the number of requests under way.
    search: Option<DepthSearch>,
    /// It found that number, and has shown what it yields.
    is_done: Cell<bool>,
    /// What tells it that its rate is steady.
    meter: Option<Rc<Meter>>,
    /// When the next read, and the next write, is due, where each has a rate.
    due_ns: Cell<[u64; 2]>,
    report: RefCell<ProcessReport>,
}

impl Runner {
    /// A process of the job with this number, which begins now.
    pub(crate) fn new(
        run: &Rc<Run>,
        number: usize,
        job: &Rc<Job>,
        pid: u32,
        meter: Option<Rc<Meter>>,
    ) -> Self {
        let counted_from_ns = run.sim.now() + job.start_delay_ns + job.ramp_ns;
        // `fio_offset_overlap_risk` of fio's fio.h.
        let may_overlap = (job.order.random_percent > 0 && !job.order.has_map)
            || job.order.gap_bytes != 0
            || job.bytes != u64::MAX;
        Self {
            run: run.clone(),
            job: job.clone(),
            number,
            process: Process::new(pid).with_priority(job.priority.0, job.priority.1),
            counted_from_ns: Cell::new(counted_from_ns),
            stop_ns: match job.runtime_ns {
                0 => u64::MAX,
                // `reset_all_stats` of fio's libfio.c sets the epoch anew when the ramp is over, and `runtime`
                // is measured from there.
                runtime_ns => counted_from_ns + runtime_ns,
            },
            counted: Cell::default(),
            in_flight: Cell::default(),
            writes: Cell::new(0),
            written: RefCell::new(Written::new(may_overlap)),
            batch_left: Cell::new(0),
            was_read: Cell::new(false),
            search: job
                .latency_target
                .map(|target| DepthSearch::new(target, job.iodepth, counted_from_ns)),
            is_done: Cell::new(false),
            meter,
            due_ns: Cell::new([run.sim.now() + job.start_delay_ns; 2]),
            report: RefCell::new(ProcessReport {
                pid,
                start_ns: counted_from_ns,
                end_ns: counted_from_ns,
                ..ProcessReport::default()
            }),
        }
    }

    /// Makes all requests of the process.
    pub(crate) async fn run(self: Rc<Self>, mut addresses: Addresses) -> ProcessReport {
        let sim = &self.run.sim;
        if self.job.start_delay_ns > 0 {
            sim.sleep(self.job.start_delay_ns).await;
        }
        // After the delay: a process that has not begun takes no share of its flow.
        let member = self.job.flow.map(|flow| self.run.flows.join(flow));
        for pass in 0..self.job.passes {
            if pass > 0 {
                // `fio_file_reset`: the next pass goes from the begin, over a map without a mark.
                addresses.rewind();
                self.counted.take();
            }
            // One request at a time needs no task for each.
            let is_closed = matches!(self.job.pace, Pace::Closed { .. });
            if self.job.iodepth == 1 && is_closed && self.search.is_none() {
                self.one_by_one(&mut addresses, member.as_ref()).await;
            } else {
                self.many(&mut addresses, member.as_ref()).await;
            }
            if self.job.verify.is_some() {
                self.read_again().await;
            }
        }
        debug_assert_eq!(self.in_flight.get().requests, 0, "a process ends with its last request");
        // The scheduler frees what it keeps of the process.
        self.run.queue.exit(self.process.pid);
        self.run.process_ended(self.number);
        let mut report = self.report.take();
        report.exit_ns = sim.now();
        report.depth = self.search.as_ref().map_or(self.job.iodepth, DepthSearch::depth);
        report.steady_ns = self.meter.as_ref().and_then(|meter| meter.steady_ns());
        report
    }

    /// True while requests and time of the pass are left.
    fn has_more(&self) -> bool {
        // What was counted, and what may still be: fio's `io_issue_bytes_exceeded` (backend.c) compares their sum
        // with `number_ios` and `io_size`.
        let (counted, in_flight) = (self.counted.get(), self.in_flight.get());
        self.may_go_on()
            && counted.requests + in_flight.requests < self.job.requests
            && counted.bytes + in_flight.bytes < self.job.bytes
    }

    /// True while there is time, and no error.
    fn may_go_on(&self) -> bool {
        self.run.sim.now() < self.stop_ns
            && !self.is_done.get()
            && !self.run.is_ended(self.number)
            && self.meter.as_ref().is_none_or(|meter| meter.steady_ns().is_none())
            && self.report.borrow().error.is_none()
    }

    /// A closed loop of one request: ioping.
    async fn one_by_one(&self, addresses: &mut Addresses, flow: Option<&Member>) {
        let Pace::Closed { think_ns } = self.job.pace else { return };
        while self.has_more() {
            if let Some(member) = flow
                && !self.is_due(member, None).await
            {
                return;
            }
            // Drawn also before a read of the backlog: the number of draws is that of requests.
            let is_read = addresses.chance(self.job.read_percent);
            let request = self.next(is_read, addresses);
            if !self.make(request).await {
                return;
            }
            if think_ns > 0 && self.has_more() {
                self.think(think_ns).await;
            }
        }
    }

    /// What the process does next, a read or a write of its own unless a backlog is to be read.
    fn next(&self, is_read: bool, addresses: &mut Addresses) -> Request {
        if let Some(place) = self.next_of_backlog() {
            return Request { process: self.process, is_read: true, place, is_verify: true };
        }
        let place = addresses.next_place(is_read);
        let process = self.process_of(is_read, place.bytes, addresses);
        Request { process, is_read, place, is_verify: false }
    }

    /// The process as which a request is made: with the priority of urgent ones, if it is drawn to be one.
    fn process_of(&self, is_read: bool, bytes: u64, addresses: &mut Addresses) -> Process {
        let own = &self.job.urgent[usize::from(!is_read)];
        let fits = |one: &&Urgent| one.bytes.is_none_or(|size| size == bytes);
        if own.iter().find(fits).is_none() {
            return self.process;
        }
        // `fio_cmdprio_set_ioprio` of fio's engines/cmdprio.c: one draw for all shares of the size.
        let drawn = addresses.percent();
        let mut sum = 0;
        let found = own.iter().filter(fits).find(|one| {
            sum += one.percent;
            drawn < sum
        });
        found.map_or(self.process, |one| self.process.with_priority(one.class, one.level))
    }

    /// Waits until the process is not ahead of the others of its flow; false if it ends before.
    async fn is_due(&self, member: &Member, slots: Option<(&Semaphore, u32)>) -> bool {
        while !member.may_go() {
            if member.sleep_ns() == 0 {
                member.others().await;
            } else {
                // `io_u_quiesce`: requests under way are taken before the sleep.
                if let Some((slots, depth)) = slots {
                    slots.acquire_many(depth).await.forget();
                    slots.release(depth);
                }
                self.think(member.sleep_ns()).await;
            }
            if !self.has_more() {
                return false;
            }
        }
        true
    }

    /// Waits before the next request, but not past the end: `handle_thinktime` of fio's backend.c shortens
    /// the time to think to what is left of the runtime.
    async fn think(&self, think_ns: u64) {
        self.sleep_until(self.run.sim.now() + think_ns).await;
    }

    /// Sleeps, but not past the end of the process.
    ///
    /// Where others may end it, it looks each second, as `usec_sleep` of fio's time.c does.
    async fn sleep_until(&self, until_ns: u64) {
        let sim = &self.run.sim;
        let until_ns = until_ns.min(self.stop_ns);
        if self.run.may_be_ended {
            while self.may_go_on() && sim.now() + 1_000_000_000 < until_ns {
                sim.sleep(1_000_000_000).await;
            }
            if !self.may_go_on() {
                return;
            }
        }
        sim.sleep_until(until_ns).await;
    }

    /// Waits until a read or a write is due: the one that was drawn, unless only the other one is.
    ///
    /// Source: `rate_ddir` of fio's `io_u.c`.
    async fn direction_due(&self, is_read: bool, interval_ns: [u64; 2]) -> bool {
        let now_ns = self.run.sim.now();
        let mut due_ns = self.due_ns.get();
        let (own, other) = (usize::from(!is_read), usize::from(is_read));
        let goes_on =
            due_ns[own] <= now_ns || (due_ns[other] > now_ns && due_ns[own] <= due_ns[other]);
        let way = if goes_on { own } else { other };
        self.sleep_until(due_ns[way]).await;
        due_ns[way] += interval_ns[way];
        self.due_ns.set(due_ns);
        way == 0
    }

    /// Several requests at once, as with an asynchronous interface.
    async fn many(self: &Rc<Self>, addresses: &mut Addresses, flow: Option<&Member>) {
        let sim = &self.run.sim;
        let slots = Rc::new(Semaphore::new(sim, self.job.iodepth));
        let mut depth = self.job.iodepth;
        let mut due_ns = sim.now();
        loop {
            if let Some(search) = &self.search {
                depth = self.follow(search, depth, &slots).await;
            }
            if !self.has_more() {
                // A request in flight that completes within the ramp is not counted: another one follows it.
                let is_in_ramp =
                    sim.now() < self.counted_from_ns.get() && self.in_flight.get().requests > 0;
                if !is_in_ramp {
                    break;
                }
                slots.acquire_many(depth).await.forget();
                slots.release(depth);
                continue;
            }
            if let Some(member) = flow
                && !self.is_due(member, Some((&slots, depth))).await
            {
                break;
            }
            // Drawn for each request, also for one that is late: the number of draws is that of requests.
            let interval_ns = match self.job.pace {
                Pace::Closed { .. } | Pace::RateOfEach { .. } => None,
                Pace::Rate { interval_ns } => Some(interval_ns),
                Pace::Poisson { interval_ns } => Some(addresses.exponential_ns(interval_ns)),
            };
            if let Some(interval_ns) = interval_ns {
                self.sleep_until(due_ns).await;
                // A late request puts all later ones off: the clock goes on from it and does not
                // catch up.
                due_ns = due_ns.max(sim.now()) + interval_ns;
            }
            slots.acquire().await.forget();
            // The wait for a slot may have been longer than the runtime.
            if !self.may_go_on() {
                slots.release(1);
                break;
            }
            let is_read = addresses.chance(self.job.read_percent);
            let is_read = match self.job.pace {
                Pace::RateOfEach { interval_ns } => self.direction_due(is_read, interval_ns).await,
                _ => is_read,
            };
            // The wait for its time may have been, too.
            if !self.may_go_on() {
                slots.release(1);
                break;
            }
            let request = self.next(is_read, addresses);
            self.spawn(request, &slots);
        }
        // The pass ends when its last request is done.
        slots.acquire_many(depth).await.forget();
    }

    /// Makes a request in a task of its own, which holds a slot until the process may make the next one.
    fn spawn(self: &Rc<Self>, request: Request, slots: &Rc<Semaphore>) {
        // fio counts reads of a check toward neither `io_size` nor `number_ios`.
        let amount = if request.is_verify {
            Amount::default()
        } else {
            Amount { requests: 1, bytes: request.place.bytes }
        };
        let in_flight = self.in_flight.get();
        self.in_flight.set(Amount {
            requests: in_flight.requests + amount.requests,
            bytes: in_flight.bytes + amount.bytes,
        });
        let (runner, slots) = (self.clone(), slots.clone());
        self.run.sim.spawn(async move {
            runner.make(request).await;
            let in_flight = runner.in_flight.get();
            runner.in_flight.set(Amount {
                requests: in_flight.requests - amount.requests,
                bytes: in_flight.bytes - amount.bytes,
            });
            if let Pace::Closed { think_ns } = runner.job.pace
                && think_ns > 0
            {
                runner.think(think_ns).await;
            }
            slots.release(1);
        });
    }

    /// Makes one request, and the `fsync` that is due after it; false after an error.
    async fn make(&self, request: Request) -> bool {
        let start_ns = self.run.sim.now();
        let Request { process, is_read, place: Place { offset_bytes, bytes }, .. } = request;
        let (file, mode) = (&self.run.file, self.job.mode);
        let outcome = if is_read {
            file.read(process, offset_bytes, bytes, mode).await
        } else {
            file.write(process, offset_bytes, bytes, mode).await
        };
        if let Err(error) = outcome {
            self.report.borrow_mut().error.get_or_insert(error);
            return false;
        }
        self.was_read.set(is_read);
        if let Some(meter) = &self.meter {
            meter.count(bytes);
        }
        if !is_read && self.job.verify.is_some() {
            self.written.borrow_mut().add(offset_bytes, bytes);
        }
        let is_synced = !is_read && self.is_fsync_due();
        let includes_sync = is_synced && self.job.latency_includes_sync;
        if !includes_sync {
            self.count(request, start_ns);
        }
        if is_synced && !self.fsync().await {
            return false;
        }
        if includes_sync {
            self.count(request, start_ns);
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
        self.run.sim.now() >= self.counted_from_ns.get()
    }

    /// Counts a request that began at `start_ns` and is complete now.
    fn count(&self, request: Request, start_ns: u64) {
        if !self.is_counted() {
            return;
        }
        let Request { is_read, place, .. } = request;
        let end_ns = self.run.sim.now();
        debug_assert!(start_ns <= end_ns, "a request completes after it began");
        let latency_ns = end_ns - start_ns;
        if let Some(search) = &self.search {
            search.count(latency_ns);
        }
        let mut report = self.report.borrow_mut();
        debug_assert!(report.end_ns <= end_ns, "requests complete in the order of time");
        if is_read {
            report.reads.record(latency_ns);
        } else {
            report.writes.record(latency_ns);
        }
        report.bytes += place.bytes;
        report.end_ns = end_ns;
        if !request.is_verify {
            let counted = self.counted.get();
            self.counted
                .set(Amount { requests: counted.requests + 1, bytes: counted.bytes + place.bytes });
        }
        if self.run.records_samples {
            report.samples.push(Sample { start_ns, latency_ns, place, is_read });
        }
    }

    /// Calls `fsync`; false after an error.
    async fn fsync(&self) -> bool {
        let start_ns = self.run.sim.now();
        let outcome = self.run.file.fsync(self.process).await;
        let is_counted = self.is_counted();
        let mut report = self.report.borrow_mut();
        match outcome {
            Ok(_) if is_counted => report.fsyncs.record(self.run.sim.now() - start_ns),
            Ok(_) => {}
            Err(error) => {
                report.error.get_or_insert(error);
                return false;
            }
        }
        true
    }
}
