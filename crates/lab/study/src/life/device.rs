//! A trace on a named device, over and over: its dies, write cache, SLC cache and layers (`devices/*.toml`).
//!
//! Commands come at the times of the trace, stretched to the rate that is asked for, and at most as many are
//! outstanding as the device takes. No scheduler stands before it. Pauses matter, because the device then folds
//! and cleans; one longer than all of that is cut short ([`IDLE_MAX_NS`]).
//!
//! Blocks of all dies make one life. Gaps follow the rules of one die in each of them, as each die has a layer
//! of its own. Left out: the life of the blocks of an SLC cache, as no device file says how many cycles they
//! stand. Their erases are counted and told.

use super::reads::most_reads;
use super::stack::{Stack, live};
use super::{CAPACITIES_MAX, DAY_NS, Life, Medium, end_of};
use crate::StudyError;
use crate::lifetime::Wear;
use crate::replay_metrics::shape;
use crate::requests::Requests;
use device::{BlockDevice, DeviceSpec, FlashDevice, Operation, Preconditioning, SECTOR_BYTES};
use device_replay::{Stacks, TimedCommand, commands_of, device_of};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;
use trace::AddressRule;

/// Nanoseconds of the longest pause that is simulated, beside the time after which an SLC cache folds.
/// Cleaning in idle time ends at a number of free blocks, and folding with an empty cache: a minute is more
/// than either takes on the devices of `devices/`.
const IDLE_MAX_NS: u64 = 60_000_000_000;
/// Page programs that are simulated at most, cleaning included, unless blocks wear out before.
/// A large device under a small trace would be simulated for hours; so many take about half a minute.
const PROGRAMS_MAX: u64 = 16 << 20;

/// What is asked of the life of a device.
#[derive(Clone, Debug, Default)]
pub struct DeviceLifeOptions {
    /// Name of a device, or a device file.
    pub device: String,
    /// Keys of the device that are changed.
    pub changes: BTreeMap<String, String>,
    /// How to read the trace.
    pub trace: trace::Options,
    /// What to do with addresses past the end.
    pub address: AddressRule,
    /// Bytes that the host writes in a day; that of the trace's own times if absent.
    pub bytes_per_day: Option<f64>,
    /// Years that are asked for: data that is never rewritten gets as old.
    pub years: f64,
}

/// A device, and the commands of one pass.
pub(super) struct DeviceStack<'a> {
    device: FlashDevice,
    commands: &'a [TimedCommand],
    /// When the device has done all that it was told.
    now_ns: u64,
    idle_max_ns: u64,
    /// Page programs of the filling.
    programs_before: u64,
    host_bytes: u64,
}

impl<'a> DeviceStack<'a> {
    /// The device, empty or with every page written once.
    ///
    /// # Errors
    /// A device without flash; the end of its life while it is filled.
    pub(super) fn new(
        spec: &DeviceSpec,
        commands: &'a [TimedCommand],
        is_filled: bool,
    ) -> Result<Self, StudyError> {
        Self::on(FlashDevice::of(spec, 1)?, spec, commands, is_filled)
    }

    /// The same of a device that is made already.
    fn on(
        mut device: FlashDevice,
        spec: &DeviceSpec,
        commands: &'a [TimedCommand],
        is_filled: bool,
    ) -> Result<Self, StudyError> {
        let filling = if is_filled { Preconditioning::Fill } else { Preconditioning::None };
        if let Some(steps) = filling.steps(1) {
            device.precondition(&steps).map_err(|reason| refused(spec, reason.to_string()))?;
        }
        let idle_max_ns = IDLE_MAX_NS + spec.slc.fold_idle_ns;
        let programs_before = device.statistics().chip.page_programs;
        Ok(Self { device, commands, now_ns: 0, idle_max_ns, programs_before, host_bytes: 0 })
    }

    /// What a pass on this device costs, by the definition of replays; none where nothing was written.
    fn estimate(&self) -> Option<u64> {
        let chip = self.device.layers().next()?.flash().chip();
        let statistics = self.device.statistics();
        let layers = statistics.chip - statistics.slc_chip;
        let flash = self.device.flash()?;
        let wears = self.device.wearing_blocks();
        let good = flash.erase_counts.iter().zip(wears).filter(|(_, wears)| *wears);
        let erase_counts: Vec<u32> = good.map(|(count, _)| *count).collect();
        let geometry = chip.geometry();
        Wear {
            host_write_bytes: self.host_bytes,
            // Counters count array pages, and a block is counted in the parts of these.
            page_programs: layers.page_programs * u64::from(geometry.pages_per_program),
            pages_per_block: geometry.pages_per_block.into(),
            erase_counts: &erase_counts,
            erase_cycles_max: flash.erase_cycles_max,
            // As in replays: a layer takes free blocks in turn.
            is_unlevelled: false,
        }
        .lifetime_host_bytes()
    }
}

/// What a device said when it refused.
fn refused(spec: &DeviceSpec, reason: String) -> StudyError {
    StudyError::Study { place: format!("device `{}`", spec.name), reason }
}

impl Stack for DeviceStack<'_> {
    fn work(&mut self) -> Result<(), StudyError> {
        let depth = self.device.queue_depth().max(1) as usize;
        let mut outstanding = BinaryHeap::new();
        let (mut at_ns, mut before_ns) = (self.now_ns, 0);
        for one in self.commands {
            cancellation::check();
            at_ns += (one.arrival_ns - before_ns).min(self.idle_max_ns);
            before_ns = one.arrival_ns;
            // The host keeps to the depth of the queue: it waits for the first that is done.
            while outstanding.len() >= depth {
                let Some(Reverse(done_ns)) = outstanding.pop() else { break };
                at_ns = at_ns.max(done_ns);
            }
            let done = self.device.submit(at_ns, &one.command);
            let done = done.map_err(|error| StudyError::Study {
                place: "device".into(),
                reason: error.to_string(),
            })?;
            outstanding.push(Reverse(done.done_ns));
            if one.command.operation == Operation::Write {
                self.host_bytes += u64::from(one.command.sectors) * SECTOR_BYTES;
            }
        }
        let last_ns = outstanding.into_iter().map(|Reverse(done_ns)| done_ns).max();
        self.now_ns = at_ns.max(last_ns.unwrap_or(0));
        Ok(())
    }

    fn host_bytes(&self) -> u64 {
        self.host_bytes
    }

    fn cycles(&self) -> Vec<u32> {
        self.device.erase_cycles()
    }

    fn wears(&self) -> Vec<bool> {
        self.device.wearing_blocks()
    }

    fn threshold(&self) -> Option<u32> {
        self.device.wear_threshold()
    }

    fn group_blocks(&self) -> usize {
        self.cycles().len() / self.device.dies().max(1)
    }

    fn is_spent(&self) -> bool {
        self.device.statistics().chip.page_programs - self.programs_before >= PROGRAMS_MAX
    }

    fn age(&mut self, erases: &[u32]) {
        self.device.age(erases);
    }
}

/// Stretches arrivals, so that a pass of `pass_bytes` takes as long as the rate says.
fn at_rate(commands: &mut [TimedCommand], pass_bytes: u64, bytes_per_day: f64) {
    let pass_ns = pass_bytes as f64 / bytes_per_day * DAY_NS;
    let last_ns = commands.last().map_or(0, |one| one.arrival_ns);
    let count = commands.len().max(1) as f64;
    for (number, one) in (1..).zip(commands.iter_mut()) {
        let share = match last_ns {
            // A trace without times: one request after the other, evenly.
            0 => f64::from(number) / count,
            _ => one.arrival_ns as f64 / last_ns as f64,
        };
        one.arrival_ns = (pass_ns * share) as u64;
    }
}

/// Wears a named device out by a trace.
///
/// # Errors
/// Bad traces, names, keys; devices without flash; addresses past the end unless an option admits them.
pub fn life_of_device(path: &Path, options: &DeviceLifeOptions) -> Result<Life, StudyError> {
    let stacks = Stacks {
        device: options.device.clone(),
        changes: options.changes.clone(),
        ftls: Vec::new(),
        schedulers: Vec::new(),
        preconditioning: Preconditioning::None,
    };
    let spec = device_of(&stacks)?;
    let empty = FlashDevice::of(&spec, 1)?;
    let (geometry, errors) = {
        let layer = empty.layers().next().ok_or_else(|| refused(&spec, "no die".into()))?;
        let chip = layer.flash().chip();
        (chip.geometry().clone(), chip.errors().clone())
    };
    let capacity_bytes = empty.sectors() * SECTOR_BYTES;
    let mut commands = commands_of(path, &options.trace, empty.sectors(), options.address)
        .map_err(|error| refused(&spec, error.to_string()))?;
    let format = {
        let reader = trace::open(path, &options.trace)?;
        reader.format().name
    };
    // Some traces have requests a little out of order; a device takes them as they come.
    for at in 1..commands.len() {
        commands[at].arrival_ns = commands[at].arrival_ns.max(commands[at - 1].arrival_ns);
    }
    let requests = Requests::load(path, &options.trace, None)?;
    let writes = commands.iter().filter(|one| one.command.operation == Operation::Write);
    let pass_bytes: u64 = writes.map(|one| u64::from(one.command.sectors) * SECTOR_BYTES).sum();
    let last_ns = commands.last().map_or(0, |one| one.arrival_ns);
    let own_rate = (last_ns > 0).then(|| pass_bytes as f64 / (last_ns as f64 / DAY_NS));
    let bytes_per_day = options.bytes_per_day.or(own_rate).filter(|rate| *rate > 0.0);
    if let Some(rate) = options.bytes_per_day.filter(|rate| *rate > 0.0) {
        at_rate(&mut commands, pass_bytes, rate);
    }
    let dies = empty.dies() as u64;
    let mut life = Life {
        format,
        part: spec.flash.as_ref().map_or_else(String::new, |flash| flash.part.clone()),
        chip: format!("{dies} × {}", shape(&geometry)),
        capacity_bytes,
        over_provisioning_percent: 0.0,
        erase_cycles_max: errors.erase_cycles_max,
        pass_bytes,
        bytes_per_day,
        lifetime_host_bytes: None,
        ends: Vec::new(),
        notes: requests.notes.clone(),
    };
    drop(empty);
    let mut short = DeviceStack::new(&spec, &commands, false)?;
    short.work()?;
    life.lifetime_host_bytes = short.estimate();
    drop(short);
    // Pages go round the dies: as many pages as dies have lie in one block of each.
    let striped = geometry.pages_per_block.saturating_mul(dies as u32);
    let page_bytes = u64::from(geometry.page_data_bytes);
    for is_filled in [false, true] {
        let mut stack = DeviceStack::new(&spec, &commands, is_filled)?;
        let bytes_max = capacity_bytes.saturating_mul(CAPACITIES_MAX);
        let lived = live(&mut stack, errors.erase_cycles_max, bytes_max, true)?;
        let reads = |passes: f64| {
            let all =
                most_reads(&requests, page_bytes, striped, options.address, capacity_bytes, passes);
            all.div_ceil(dies as u32)
        };
        let medium = Medium { errors: &errors, years: options.years, reads: &reads };
        let mut end = end_of(&lived, &life, &medium, is_filled);
        end.slc_erases = stack.device.slc_erases_max();
        life.ends.push(end);
    }
    let physical = geometry.capacity_bytes() * dies;
    life.over_provisioning_percent = 100.0 * (physical as f64 / capacity_bytes.max(1) as f64 - 1.0);
    Ok(life)
}

#[cfg(test)]
mod tests;
