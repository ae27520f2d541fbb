//! Sending the requests of a trace, and counting what comes back.

use crate::account::Account;
use crate::options::{Pace, ReplayOptions};
use crate::outcome::{Counted, Outcome};
use crate::source::{Request, Source};
use block::{BioTimes, Observer, PoolRules, QueueOptions, RequestQueue};
use device::{BlockDevice, Command, Operation as DeviceOperation, SECTOR_BYTES};
use jobs::Latencies;
use sched::{Bio, Class, Direction, Elevator, ElevatorOptions, SchedulerEntry, Settings};
use sim::{Sim, Simulation, WaitQueue};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use thiserror::Error;
use timeline::Tracks;
use trace::{Operation, TraceError};

/// The process that all requests are those of. Smaller numbers are those of kernel threads.
const PID: u32 = 1000;

/// Levels of a class are 0 to 7; a process without a priority of its own has this one (`IOPRIO_NORM`).
const LEVEL: u8 = 4;

/// Longest request that merging makes: `BLK_DEF_MAX_SECTORS` of Linux 4.3 to 6.x, 1280 KiB.
const MAX_SECTORS: u32 = 2560;

/// Ticks a second of the kernel; Debian's is built with 250.
const HZ: u32 = 250;

/// Why a trace could not be replayed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The times of the trace say nothing of when requests came.
    #[error(
        "{path}: a trace in the format {format} cannot be replayed at its own times: {reason}; add --closed-loop"
    )]
    NoTimes {
        /// Path as it was given.
        path: String,
        /// Name of the format.
        format: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A request that the device has no room for.
    #[error(
        "request {number}: {length_bytes} bytes at byte {offset_bytes} lie past the end of the device of \
         {device_bytes} bytes; name a larger device, or treat them otherwise with --address modulo or clip"
    )]
    PastTheEnd {
        /// Number of the request in the trace, from 1.
        number: u64,
        /// First byte.
        offset_bytes: u64,
        /// Bytes.
        length_bytes: u32,
        /// Bytes of the device.
        device_bytes: u64,
    },
    /// The timeline cannot be written.
    #[error("{path}: {reason}; name a file that can be written")]
    Timeline {
        /// Path as it was given.
        path: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// Commands that the device could not carry out.
    #[error("the device failed {failed} of {sent} commands: its dies are at the end of their life")]
    Device {
        /// Commands that were refused.
        failed: u64,
        /// Commands in all.
        sent: u64,
    },
}

/// What is counted while requests come back.
#[derive(Default)]
pub(crate) struct Watch {
    /// Reads, then writes.
    pub(crate) accounts: [Account; 2],
    pub(crate) flushes: Latencies,
    pub(crate) discards: Latencies,
    /// Sum over requests of their time in the block layer and the device (G to C).
    pub(crate) held_ns: u128,
    pub(crate) end_ns: u64,
    pub(crate) bytes: [u64; 2],
}

impl Observer for Watch {
    fn completed(&mut self, times: &BioTimes) {
        let Bio { direction, sectors, .. } = times.bio;
        let is_write = direction == Direction::Write;
        if times.operation == DeviceOperation::Flush {
            self.flushes.record(times.q2c_ns());
        } else if times.operation == DeviceOperation::Discard {
            // It moves no data, so it is no write of so many bytes.
            self.discards.record(times.q2c_ns());
        } else {
            self.accounts[usize::from(is_write)].record(times);
            self.bytes[usize::from(is_write)] += u64::from(sectors) * SECTOR_BYTES;
        }
        self.held_ns += u128::from(times.complete_ns - times.get_ns);
        debug_assert!(self.end_ns <= times.complete_ns, "requests complete in the order of time");
        self.end_ns = times.complete_ns;
    }
}

/// Places of kinds of requests in the counts of what was sent.
pub(crate) const READS: usize = 0;
pub(crate) const WRITES: usize = 1;
const FLUSHES: usize = 2;
const DISCARDS: usize = 3;

/// A replay while it runs.
struct Player {
    sim: Sim,
    queue: RequestQueue,
    source: RefCell<Source>,
    watch: Rc<RefCell<Watch>>,
    outstanding: Rc<Outstanding>,
    error: RefCell<Option<ReplayError>>,
    tracks: Option<Rc<RefCell<Tracks>>>,
    /// Reads, writes, flushes and discards sent.
    sent: [Cell<u64>; 4],
    /// When the last request was due.
    last_due_ns: Cell<u64>,
}

/// Requests that were sent and are not complete.
struct Outstanding {
    now: Cell<u64>,
    most: Cell<u64>,
    /// Those who wait for a request to end.
    ended: WaitQueue,
}

/// Counts ends for [`Outstanding`]; apart from [`Watch`], so that it needs no look at what a request was.
struct Ends {
    outstanding: Rc<Outstanding>,
    tracks: Option<Rc<RefCell<Tracks>>>,
}

impl Observer for Ends {
    fn completed(&mut self, times: &BioTimes) {
        let outstanding = &self.outstanding;
        debug_assert!(outstanding.now.get() > 0, "what ends was sent");
        outstanding.now.set(outstanding.now.get() - 1);
        if let Some(tracks) = &self.tracks {
            tracks.borrow_mut().outstanding(times.complete_ns, outstanding.now.get());
        }
        outstanding.ended.wake_one();
    }
}

impl Player {
    /// Sends all requests, then waits for the last.
    async fn run(self: Rc<Self>, pace: Pace) {
        loop {
            let next = self.source.borrow_mut().next();
            let request = match next {
                Ok(Some(request)) => request,
                Ok(None) => break,
                Err(error) => {
                    *self.error.borrow_mut() = Some(error);
                    break;
                }
            };
            let due_ns = match pace {
                Pace::OpenLoop { time_ppm } => {
                    // 128 bits: a trace of hours times a million is more than 64 hold.
                    (u128::from(request.arrival_ns) * u128::from(time_ppm) / 1_000_000) as u64
                }
                Pace::ClosedLoop { queue_depth } => {
                    while self.outstanding.now.get() >= u64::from(queue_depth) {
                        self.outstanding.ended.wait().await;
                    }
                    self.sim.now()
                }
            };
            if due_ns > self.sim.now() {
                self.sim.sleep_until(due_ns).await;
            }
            self.last_due_ns.set(due_ns);
            self.send(&request, due_ns).await;
        }
        // The queue and the device know no end of the trace: what was sent is waited for here.
        while self.outstanding.now.get() > 0 {
            self.outstanding.ended.wait().await;
        }
    }

    /// Sends a request; waits for one of the pool, not for the device.
    async fn send(&self, request: &Request, due_ns: u64) {
        let Request { sector, sectors, is_sync, .. } = *request;
        let direction = match request.operation {
            Operation::Trim => {
                let command = Command::discard(sector, sectors);
                return self.send_past_scheduler(command, DISCARDS, due_ns);
            }
            Operation::Flush => {
                return self.send_past_scheduler(Command::flush(), FLUSHES, due_ns);
            }
            Operation::Read => Direction::Read,
            Operation::Write | Operation::WriteZeroes => Direction::Write,
        };
        let kind = if direction == Direction::Write { WRITES } else { READS };
        if request.is_fua && direction == Direction::Write {
            let command = Command { fua: true, ..Command::write(sector, sectors) };
            return self.send_past_scheduler(command, kind, due_ns);
        }
        let sent = &self.sent[kind];
        sent.set(sent.get() + 1);
        self.begin();
        // Where the trace says of no request whether a task waits for it, writes are those of O_DIRECT, which wait.
        let sync =
            direction == Direction::Read || is_sync || !self.source.borrow().read.has_sync_flags;
        let bio = Bio {
            pid: PID,
            direction,
            sync,
            // Traces do not say whether a request is the last of a group (`REQ_IDLE`).
            noidle: false,
            class: Class::BestEffort,
            level: LEVEL,
            sector,
            sectors,
        };
        // Not waited for: the observers see its end.
        drop(self.queue.submit_arrived(bio, due_ns).await);
    }

    /// A command that goes past the scheduler; later requests do not wait for it.
    fn send_past_scheduler(&self, command: Command, kind: usize, due_ns: u64) {
        let sent = &self.sent[kind];
        sent.set(sent.get() + 1);
        self.begin();
        // Not waited for: the observers see its end, and its error is among those that the device counts.
        drop(self.queue.submit_past_scheduler(command, PID, due_ns));
    }

    fn begin(&self) {
        let outstanding = &self.outstanding;
        outstanding.now.set(outstanding.now.get() + 1);
        outstanding.most.set(outstanding.most.get().max(outstanding.now.get()));
        if let Some(tracks) = &self.tracks {
            let mut tracks = tracks.borrow_mut();
            tracks.outstanding(self.sim.now(), outstanding.now.get());
            // Taken with each request, so that no list of them grows.
            tracks.device(&self.queue.take_activity());
        }
    }
}

/// Replays a trace through a scheduler on a device, which is as its preconditioning left it.
///
/// # Errors
/// [`ReplayError`]: a trace that cannot be read, addresses past the end, a device at the end of its life.
pub fn replay(
    options: &ReplayOptions,
    scheduler: (&'static SchedulerEntry, &Settings),
    device: Box<dyn BlockDevice>,
) -> Result<Outcome, ReplayError> {
    let reader = trace::open(&options.trace, &options.reading)?;
    if let (Pace::OpenLoop { .. }, Some(reason)) = (options.pace, reader.format().no_times) {
        let (path, format) = (options.trace.display().to_string(), reader.format().name);
        return Err(ReplayError::NoTimes { path, format, reason });
    }
    let sectors = device.sectors();
    let mut simulation = Simulation::new(options.seed);
    let sim = simulation.handle();
    let elevator_options = ElevatorOptions {
        hz: HZ,
        rotational: device.is_rotational(),
        nr_requests: options.nr_requests,
        max_sectors: MAX_SECTORS,
        merging: true,
    };
    let elevator = Elevator::new(scheduler.0, scheduler.1, elevator_options);
    // Synchronous and asynchronous requests have a limit each since 2.6.30, whatever the scheduler.
    let queue_options = QueueOptions {
        pool: PoolRules::PerSync,
        max_sectors: MAX_SECTORS,
        ..QueueOptions::default()
    };
    let queue = RequestQueue::new(&sim, elevator, device, queue_options);
    let watch = Rc::new(RefCell::new(Watch::default()));
    let outstanding =
        Rc::new(Outstanding { now: Cell::new(0), most: Cell::new(0), ended: WaitQueue::new(&sim) });
    let tracks = options.timeline.as_deref().map(Tracks::create).transpose();
    let tracks = tracks.map_err(|reason| cannot_write(options, reason))?;
    let tracks = tracks.map(|tracks| Rc::new(RefCell::new(tracks)));
    // The account first: whoever wakes finds the request counted.
    queue.observe(watch.clone());
    if let Some(tracks) = &tracks {
        queue.record_activity(true);
        queue.observe(tracks.clone());
    }
    let ends = Ends { outstanding: outstanding.clone(), tracks: tracks.clone() };
    queue.observe(Rc::new(RefCell::new(ends)));
    let player = Rc::new(Player {
        sim: sim.clone(),
        queue: queue.clone(),
        source: RefCell::new(Source::new(reader, sectors, options.address)),
        watch,
        outstanding,
        error: RefCell::default(),
        tracks: tracks.clone(),
        sent: Default::default(),
        last_due_ns: Cell::default(),
    });
    let running = sim.spawn_named("replay", player.clone().run(options.pace));
    simulation.run();
    // The trace may end with an error after a million requests: none of them is then an answer.
    if let Some(error) = player.error.take() {
        return Err(error);
    }
    debug_assert!(running.is_finished(), "the replay ends with its last request");
    if let Some(tracks) = tracks {
        tracks.borrow_mut().device(&queue.take_activity());
        let outcome = player.outcome(scheduler.0.name, options)?;
        // The simulation and the queue hold it, too, and end with this call.
        drop((simulation, player, queue));
        tracks.borrow_mut().finish().map_err(|reason| cannot_write(options, reason))?;
        return Ok(outcome);
    }
    player.outcome(scheduler.0.name, options)
}

/// The timeline of these options cannot be written.
fn cannot_write(options: &ReplayOptions, reason: std::io::Error) -> ReplayError {
    let path = options.timeline.as_deref().unwrap_or_else(|| Path::new("-"));
    ReplayError::Timeline { path: path.display().to_string(), reason }
}

impl Player {
    fn outcome(
        &self,
        scheduler: &'static str,
        options: &ReplayOptions,
    ) -> Result<Outcome, ReplayError> {
        let statistics = self.queue.statistics().expect("no thread serves the device");
        let failed = statistics.submitted - statistics.completed;
        if failed > 0 {
            return Err(ReplayError::Device { failed, sent: statistics.submitted });
        }
        let source = self.source.borrow();
        let watch = self.watch.borrow();
        let counted = Counted {
            read: source.read,
            sent: self.sent.each_ref().map(Cell::get),
            last_due_ns: self.last_due_ns.get(),
            most_outstanding: self.outstanding.most.get(),
        };
        debug_assert_eq!(self.outstanding.now.get(), 0, "every request that went in came out");
        Ok(Outcome::new(
            (scheduler, options),
            source.reader(),
            &watch,
            &counted,
            &statistics,
            self.queue.flash().as_ref(),
        ))
    }
}
