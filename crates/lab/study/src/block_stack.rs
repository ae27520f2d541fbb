//! A scheduler over a block device: what processes of `jobs` and `ioping` run on.

use crate::StudyError;
use crate::jobs::spec::Host;
use crate::own_files::DEVICE_PREFIX;
use crate::prepared_devices;
use crate::run_timeline::not_written;
use crate::scheduler_choice::scheduler_of;
use crate::study_file::Study;
use crate::workload::contract::{Combination, RunContext};
use block::RequestQueue;
use board::Board;
use device::DeviceSpec;
use page_cache::{BlockFile, CacheOptions, PageCache, queue_options};
use sched::{Elevator, ElevatorOptions, SchedulerEntry, Settings, Value};
use sim::{Cpus, Sim, Simulation};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use timeline::Tracks;

/// The mechanism that changes nothing.
const ALL_MECHANISMS: &str = "all";

/// Virtual time between two looks at the stop flag.
const STOP_CHECK_NS: u64 = 1_000_000_000;

/// Board, scheduler and device, as a combination of axis values names them.
#[derive(Clone, Debug)]
pub(crate) struct BlockStack {
    pub(crate) scheduler: &'static SchedulerEntry,
    pub(crate) settings: Settings,
    pub(crate) device: DeviceSpec,
    /// Name and changed keys of the device: equal keys are filled once.
    pub(crate) device_key: String,
    pub(crate) device_bytes: u64,
    pub(crate) board: Board,
    pub(crate) host: Host,
}

/// The device of a stack, opened in a simulation.
pub(crate) struct OpenedDevice {
    pub(crate) queue: RequestQueue,
    pub(crate) file: BlockFile,
}

fn wrong<T>(place: &str, reason: impl Into<String>) -> Result<T, StudyError> {
    Err(StudyError::Study { place: place.to_owned(), reason: reason.into() })
}

/// Axes that vary keys of the device. The device itself says whether it has such a key.
pub(crate) fn device_axes(study: &Study) -> impl Iterator<Item = String> {
    study.axes.keys().filter(|axis| axis.starts_with(DEVICE_PREFIX)).cloned()
}

impl BlockStack {
    /// The stack that a combination of axis values names.
    ///
    /// # Errors
    /// Names that do not exist, with a suggestion; numbers of `[host]` that do not fit.
    pub(crate) fn of(study: &Study, values: &Combination<'_>) -> Result<Self, StudyError> {
        let Some(host) = study.host.clone() else {
            let kind = &study.workload.kind;
            let reason =
                format!("workload kind `{kind}` needs a table [host] with board and device");
            return wrong("host", reason);
        };
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
        let (mut device, device_key) = device_of(study, &host, values, mechanism)?;
        // A run does not look at where numbers come from, and a study may have ten thousand stacks.
        board.sources.clear();
        device.sources.clear();
        let device_bytes = capacity_bytes(&device)?;
        if let Some(name) = &host.precondition {
            prepared_devices::named(name)?;
            if host.overwritten_percent != 0 {
                return wrong(
                    "host.precondition",
                    "excludes overwritten_percent: give one of them",
                );
            }
        }
        if host.free_bytes == 0 {
            return wrong(
                "host.free_bytes",
                "is missing: the bytes that hold the files of the jobs",
            );
        }
        if host.free_bytes > device_bytes {
            return wrong(
                "host.free_bytes",
                format!("{} bytes cannot be free of {device_bytes}", host.free_bytes),
            );
        }
        Ok(Self { scheduler, settings, device, device_key, device_bytes, board, host })
    }

    /// Opens a copy of the filled device, behind the scheduler, with a page cache of its own.
    ///
    /// # Errors
    /// [`StudyError::Study`] for a device that cannot be built or filled.
    pub(crate) fn open(
        &self,
        sim: &Sim,
        context: &RunContext<'_>,
    ) -> Result<OpenedDevice, StudyError> {
        // Filled by the seed of the study: all repeats begin on the same device.
        let prepared = &context.prepared.devices;
        let device =
            prepared.copy(&self.device_key, &self.device, &self.host, context.study_seed)?;
        debug_assert_eq!(device.sectors() * device::SECTOR_BYTES, self.device_bytes);
        let board = Rc::new(self.board.clone());
        let processors = &board.processors;
        let cpus = Rc::new(Cpus::new(sim, processors.count, processors.timeslice_ns));
        // A sector is half of a kilobyte.
        let max_sectors = self.host.max_sectors_kb * 2;
        let options = ElevatorOptions {
            hz: board.hz,
            rotational: device.is_rotational(),
            nr_requests: self.host.nr_requests,
            max_sectors,
            merging: true,
        };
        let settings = self.settings.clone().with_seed(context.seed());
        let elevator = Elevator::new(self.scheduler, &settings, options);
        let queue = RequestQueue::new(sim, elevator, device, queue_options(&board, max_sectors));
        let cache = PageCache::new(sim, &cpus, &board, CacheOptions::default());
        let file = BlockFile::new(sim, cpus, board, queue.clone(), cache);
        Ok(OpenedDevice { queue, file })
    }
}

/// The timeline of a run, if it is asked for: from now on it takes the requests of the queue.
///
/// # Errors
/// The file cannot be made.
pub(crate) fn start_timeline(
    queue: &RequestQueue,
    context: &RunContext<'_>,
) -> Result<Option<Rc<RefCell<Tracks>>>, StudyError> {
    let Some(path) = context.timeline_file else { return Ok(None) };
    let tracks = Tracks::create(path).map_err(|error| not_written(path, &error))?;
    let tracks = Rc::new(RefCell::new(tracks));
    queue.observe(tracks.clone());
    queue.record_activity(true);
    Ok(Some(tracks))
}

/// Gives a timeline its name.
///
/// # Errors
/// A write that failed, now or before.
pub(crate) fn finish_timeline(
    tracks: &RefCell<Tracks>,
    context: &RunContext<'_>,
) -> Result<(), StudyError> {
    let path = context.timeline_file.unwrap_or_else(|| Path::new("-"));
    tracks.borrow_mut().finish().map_err(|error| not_written(path, &error))
}

/// Runs until a task stops the simulation; false if `stopped` asked for an earlier end.
pub(crate) fn run_to_end(simulation: &mut Simulation, stopped: &dyn Fn() -> bool) -> bool {
    let sim = simulation.handle();
    let mut until_ns = 0;
    while !sim.is_stopped() {
        if stopped() {
            return false;
        }
        // In steps of simulated time, so that a stop is seen.
        until_ns += STOP_CHECK_NS;
        simulation.run_until(until_ns);
    }
    true
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
    let mut device = device::find_or_load(&study.device_beside(name))?;
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
    if let Some(flash) = &mut device.flash {
        flash.part = study.part_beside(&flash.part);
    }
    // Keys that need one another came one by one.
    device.check().or_else(|reason| wrong("host.device", reason))?;
    Ok((device, key))
}
