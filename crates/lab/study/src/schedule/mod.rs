//! What a scheduler would do with a given sequence of requests: `nandlab schedule`.
//!
//! No processes and no file system: rows of a table arrive at stated times, and the order and the
//! times of dispatch are answered. [`schedule_events`] takes what a kernel recorded instead, and
//! answers which request is chosen at every dispatch call.

mod events;
mod plugged;
mod table;

pub use events::schedule_events;

use crate::StudyError;
use block::Plugging;
use device::{BlockDevice, Command, ConstantDevice, Operation};
use sched::replay::{Arrival, Event, Order, When, replay};
use sched::{
    Direction, Elevator, ElevatorOptions, SchedulerEntry, Settings, Value, find_scheduler,
    scheduler_names,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use table::{Row, RowEvent, read_rows, shown_us};

/// Sectors of the device that is nothing but a service time: 1 PiB.
const CONSTANT_SECTORS: u64 = 1 << 41;

const MICROSECOND_NS: u64 = 1000;

/// How the table is replayed.
#[derive(Clone, Debug)]
pub struct ScheduleOptions {
    /// Name of the scheduler.
    pub scheduler: String,
    /// Tunables of the scheduler.
    pub settings: BTreeMap<String, Value>,
    /// Ticks a second of the kernel.
    pub hz: u32,
    /// Time the device takes for every request, if no device is named.
    pub service_us: u64,
    /// A preset of the catalogue of devices.
    pub device: Option<String>,
    /// Requests with the device at one time; by default 1, or what a named device admits.
    pub queue_depth: Option<u32>,
    /// Who plugs: `none`, `queue` (2.6.29) or `task` (3.x; rows of one process and time together).
    pub plug: String,
    /// The queue takes the device for one that does not rotate; a named device says so itself.
    pub nonrot: bool,
    /// Synchronous writes carry `REQ_NOIDLE`, as those of `fsync` do.
    pub sync_write_noidle: bool,
    /// `kernel`: rows one by one, before completions and timers of the same time; `scenario`:
    /// after them, all rows of one time together, nothing merged.
    pub harness: String,
}

impl Default for ScheduleOptions {
    fn default() -> Self {
        Self {
            scheduler: "noop".into(),
            settings: BTreeMap::new(),
            hz: 1000,
            service_us: 1000,
            device: None,
            queue_depth: None,
            plug: "none".into(),
            nonrot: false,
            sync_write_noidle: false,
            harness: "kernel".into(),
        }
    }
}

/// Options with all names found.
struct Resolved {
    entry: &'static SchedulerEntry,
    settings: Settings,
    elevator: ElevatorOptions,
    device: Box<dyn BlockDevice>,
    queue_depth: u32,
    plugging: Plugging,
    order: Order,
}

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

impl ScheduleOptions {
    /// Commands outstanding at a device that admits so many.
    fn queue_depth_on(&self, admitted: u32) -> Result<u32, StudyError> {
        match (self.queue_depth, &self.device) {
            (Some(0), _) => wrong("--queue-depth", "must be at least 1"),
            // A table of a card with more commands than it takes would look right and be none of that card.
            (Some(depth), Some(name)) if depth > admitted => wrong(
                "--queue-depth",
                format!("{name} admits {admitted} commands at a time, not {depth}"),
            ),
            (Some(depth), _) => Ok(depth),
            (None, Some(_)) => Ok(admitted),
            // A service time alone serves one request at a time.
            (None, None) => Ok(1),
        }
    }

    fn resolve(&self) -> Result<Resolved, StudyError> {
        let entry = find_scheduler(&self.scheduler)
            .ok_or_else(|| StudyError::unknown("scheduler", &self.scheduler, scheduler_names()))?;
        let settings = entry.settings(&self.settings).map_err(|error| StudyError::Study {
            place: format!("--scheduler {}", entry.name),
            reason: error.to_string(),
        })?;
        if !(1..=10_000).contains(&self.hz) {
            return wrong("--hz", format!("{} is no tick rate: 1 to 10000", self.hz));
        }
        if !(1..=3_600_000_000).contains(&self.service_us) {
            return wrong("--service-us", "must be 1 to 3600000000 (an hour)");
        }
        let device: Box<dyn BlockDevice> = match &self.device {
            Some(name) => device::build(&device::find_device(name)?, 0)?,
            None => Box::new(ConstantDevice::new(
                CONSTANT_SECTORS,
                self.service_us * MICROSECOND_NS,
                u32::MAX,
            )),
        };
        let queue_depth = self.queue_depth_on(device.queue_depth())?;
        let order = match self.harness.as_str() {
            "kernel" => Order::ArrivalsFirst,
            "scenario" => Order::BatchedLast,
            other => {
                return Err(StudyError::unknown(
                    "harness",
                    other,
                    ["kernel", "scenario"].into_iter(),
                ));
            }
        };
        let plugging = match self.plug.as_str() {
            "none" => Plugging::None,
            "queue" => Plugging::Queue,
            "task" => Plugging::Task,
            other => {
                let known = ["none", "queue", "task"];
                return Err(StudyError::unknown("plug", other, known.into_iter()));
            }
        };
        // Without moving parts, by option or by the device's own word.
        let is_flat = self.nonrot || (self.device.is_some() && !device.is_rotational());
        let elevator = ElevatorOptions {
            hz: self.hz,
            rotational: !is_flat,
            // A scenario takes rows as they are.
            merging: order == Order::ArrivalsFirst,
            ..ElevatorOptions::default()
        };
        Ok(Resolved { entry, settings, elevator, device, queue_depth, plugging, order })
    }
}

/// Replays a table `time_us,pid,op,sync,sector,sectors` and answers with a table
/// `id,dispatch_us,complete_us` in the order of dispatch; rows merged into one request stand
/// together, in the order of sectors.
///
/// `shown` names the table in messages.
///
/// # Errors
/// A row that is none, with its line; names and tunables that do not exist, with a suggestion.
pub fn schedule(shown: &str, text: &str, options: &ScheduleOptions) -> Result<String, StudyError> {
    let mut resolved = options.resolve()?;
    let rows = read_rows(shown, text, options.sync_write_noidle, resolved.device.sectors())?;
    if resolved.plugging != Plugging::None {
        return plugged::schedule_plugged(resolved, &rows);
    }
    let arrivals: Vec<Arrival> = rows.iter().map(Row::arrival).collect();
    let mut elevator = Elevator::new(resolved.entry, &resolved.settings, resolved.elevator);
    let (device, is_named) = (&mut resolved.device, options.device.is_some());
    let service_ns = options.service_us * MICROSECOND_NS;
    let mut failure = None;
    let mut serve = |now_ns: u64, request: &sched::Request| {
        if !is_named {
            return now_ns + service_ns;
        }
        let operation = match request.bio.direction {
            Direction::Read => Operation::Read,
            Direction::Write => Operation::Write,
        };
        let command = Command::new(operation, request.bio.sector, request.bio.sectors);
        match device.submit(now_ns, &command) {
            Ok(completion) => completion.done_ns,
            Err(error) => {
                // The replay goes on to its end, where the first error is reported.
                failure.get_or_insert(error);
                now_ns
            }
        }
    };
    let outcome =
        replay(&mut elevator, &arrivals, resolved.queue_depth, resolved.order, &mut serve);
    if let Some(error) = failure {
        return wrong(shown, error.to_string());
    }
    if let Some(stuck) = outcome.stuck.first() {
        let reason = format!("{} never dispatched row {stuck}", resolved.entry.name);
        return wrong(shown, reason);
    }
    let mut printed = String::from("id,dispatch_us,complete_us\n");
    for request in &outcome.dispatched {
        let (dispatch, complete) = (shown_us(request.dispatch_ns), shown_us(request.complete_ns));
        for id in &request.arrivals {
            let _ = writeln!(printed, "{id},{dispatch},{complete}");
        }
    }
    Ok(printed)
}

impl Row {
    fn arrival(&self) -> Arrival {
        let event = match self.event {
            RowEvent::Submit(bio) => Event::Submit(bio),
            RowEvent::Exit(pid) => Event::Exit(pid),
        };
        Arrival { event, when: When::At(self.time_ns) }
    }
}
