//! How long flash lasts under a trace: wear simulated to the end, errors by the part's model.
//!
//! The trace is replayed over and over on a layer or on UBI ([`accelerator`]), twice: on a device that holds
//! nothing else, and on one that is full of other data. These are the ends of the range. `lifetime_host_bytes`
//! is the estimate that replays and comparisons print, by the same definition and the same code.

mod accelerator;
mod bound;
mod curve;
mod device;
mod errors;
mod layer;
mod rates;
mod reads;
mod stack;
#[cfg(test)]
mod tests;
mod ubi;

use crate::StudyError;
use crate::ftl_device::{build_device, chip_of, resolve};
use crate::metric::Number;
use crate::raw_host::layout_of;
use crate::replay::Replay;
use crate::replay_metrics::{device_metrics, shape};
use crate::requests::Requests;
use crate::single::ReplayOptions;
pub(crate) use accelerator::{Accelerator, Next};
pub(crate) use bound::Simulated;
pub(crate) use curve::reached;
pub use device::{DeviceLifeOptions, life_of_device};
use errors::{Strain, cycles_within_ecc};
use layer::LayerStack;
use nand::{ErrorModel, Part};
pub(crate) use rates::Levelling;
use reads::most_reads;
use serde::Serialize;
use stack::{Lived, Stack, live};
use std::path::Path;
use ubi::{UbiPlan, UbiStack};

/// Name of the stack that is UBI instead of a translation layer.
pub const UBI: &str = "ubi";
/// Nanoseconds of a day.
const DAY_NS: f64 = 86_400e9;
/// Days of a Julian year.
const YEAR_DAYS: f64 = 365.25;
/// How often the device's capacity is written, unless blocks wear out before.
const CAPACITIES_MAX: u64 = 2000;

/// What is asked of a life.
#[derive(Clone, Debug, Default)]
pub struct LifeOptions {
    /// Layer and chip, how to read the trace, what to do with addresses past the end. Filling and passes
    /// are not looked at: a life has both ends.
    pub replay: ReplayOptions,
    /// Bytes that the host writes in a day; that of the trace's own times if absent.
    pub bytes_per_day: Option<f64>,
    /// Years that are asked for: data that is never rewritten gets as old.
    pub years: f64,
}

/// Bytes of the host, or more than so many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reach {
    /// Bytes of the host.
    pub host_bytes: u64,
    /// True if no limit was reached: the life is longer.
    pub is_more: bool,
    /// Years at the rate; none without a rate.
    pub years: Option<f64>,
}

/// One end of the range.
#[derive(Clone, Debug, Serialize)]
pub struct LifeEnd {
    /// Whether the device was full of other data before.
    pub is_filled: bool,
    /// Until the first block has had its rated cycles.
    pub first_block: Reach,
    /// Until 1 % of the blocks have had them.
    pub one_percent: Reach,
    /// Cycles that the part's ECC allows under the age and the reads of this end; the rated ones at most.
    pub cycles_within_ecc: u32,
    /// How old data gets, years.
    pub data_age_years: f64,
    /// Reads of a block between two erases.
    pub reads_of_a_block: u32,
    /// Until the first block has had the cycles that the ECC allows.
    pub life: Reach,
    /// Bytes of the host that were simulated.
    pub simulated_host_bytes: u64,
    /// Erases that were simulated.
    pub simulated_erases: u64,
    /// Simulated erases of the block of an SLC cache that had most; none where there is no such cache.
    pub slc_erases: Option<u32>,
}

/// How long flash lasts.
#[derive(Clone, Debug, Serialize)]
pub struct Life {
    /// Format the trace was read as.
    pub format: &'static str,
    /// Name of the part.
    pub part: String,
    /// Shape of the chip.
    pub chip: String,
    /// Bytes that the device offers.
    pub capacity_bytes: u64,
    /// Physical bytes beyond these, percent of them.
    pub over_provisioning_percent: f64,
    /// Rated cycles of a block.
    pub erase_cycles_max: u32,
    /// Bytes that one pass of the trace writes.
    pub pass_bytes: u64,
    /// Bytes that the host writes in a day; none if neither an option nor the trace says.
    pub bytes_per_day: Option<f64>,
    /// The estimate of replays and comparisons; none on UBI, and where nothing was written.
    pub lifetime_host_bytes: Option<u64>,
    /// A device that holds nothing else, then one that is full.
    pub ends: Vec<LifeEnd>,
    /// What the reader left out or changed.
    pub notes: Vec<String>,
}

/// Wears a layer, or UBI, out by a trace.
///
/// # Errors
/// Bad traces, names, settings; addresses past the end unless an option admits them.
pub fn life_of_trace(path: &Path, options: &LifeOptions) -> Result<Life, StudyError> {
    let device = &options.replay.device;
    let part = if device.ftl == UBI { chip_of(device)? } else { resolve(device)?.part };
    let summary = {
        let mut reader = trace::open(path, &options.replay.trace)?;
        trace::summarise(&mut reader)?
    };
    let requests = Requests::load(path, &options.replay.trace, None)?;
    let pass_bytes = summary.written_bytes;
    let own_rate = (summary.last_arrival_ns > 0)
        .then(|| pass_bytes as f64 / (summary.last_arrival_ns as f64 / DAY_NS));
    let bytes_per_day = options.bytes_per_day.or(own_rate).filter(|rate| *rate > 0.0);
    let mut life = Life {
        format: summary.format,
        part: part.name.clone(),
        chip: shape(&part.geometry),
        capacity_bytes: 0,
        over_provisioning_percent: 0.0,
        erase_cycles_max: part.errors.erase_cycles_max,
        pass_bytes,
        bytes_per_day,
        lifetime_host_bytes: None,
        ends: Vec::new(),
        notes: requests.notes.clone(),
    };
    for is_filled in [false, true] {
        let (mut stack, capacity_bytes) = stack_of(options, &part, &requests, is_filled)?;
        if !is_filled && device.ftl != UBI {
            // By the code of `nandlab replay`, on a device that holds nothing else: one name has to
            // stand for one number.
            life.lifetime_host_bytes = short_estimate(options, &requests)?;
        }
        life.capacity_bytes = capacity_bytes;
        let limit = part.errors.erase_cycles_max;
        let lived = live(stack.as_mut(), limit, capacity_bytes * CAPACITIES_MAX, true)?;
        let (geometry, rule) = (&part.geometry, options.replay.address);
        let page_bytes = u64::from(geometry.page_data_bytes);
        let reads = |passes: f64| {
            most_reads(
                &requests,
                page_bytes,
                geometry.pages_per_block,
                rule,
                capacity_bytes,
                passes,
            )
        };
        let medium = Medium { errors: &part.errors, years: options.years, reads: &reads };
        life.ends.push(end_of(&lived, &life, &medium, is_filled));
    }
    let physical = u64::from(part.geometry.pages()) * u64::from(part.geometry.page_data_bytes);
    life.over_provisioning_percent =
        100.0 * (physical as f64 / life.capacity_bytes.max(1) as f64 - 1.0);
    Ok(life)
}

/// The stack at one end of the range, and the bytes that it offers.
fn stack_of<'a>(
    options: &LifeOptions,
    part: &Part,
    requests: &'a Requests,
    is_filled: bool,
) -> Result<(Box<dyn Stack + 'a>, u64), StudyError> {
    let device = &options.replay.device;
    if device.ftl == UBI {
        let known = ["wear_threshold"];
        if let Some(name) = device.settings.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(StudyError::unknown("setting of ubi", name, known.into_iter()));
        }
        let threshold = match device.settings.get("wear_threshold") {
            None => None,
            Some(value) => Some(value.to_string().parse().map_err(|_| StudyError::Study {
                place: "wear_threshold".into(),
                reason: format!("`{value}` is no number of erases"),
            })?),
        };
        let plan = UbiPlan {
            part,
            layout: layout_of(part)?,
            logical_bytes: device.logical_bytes,
            threshold,
            fills_first: is_filled,
            address: options.replay.address,
        };
        let stack = UbiStack::new(&plan, requests)?;
        let capacity_bytes = stack.capacity_bytes();
        return Ok((Box::new(stack), capacity_bytes));
    }
    let mut replay = Replay::new(build_device(device)?, options.replay.address);
    if is_filled {
        replay.fill()?;
    }
    // The fill is no work of the trace: its bytes would lengthen the life. Its erases stay in the
    // cycles of the blocks.
    replay.reset_counters();
    let capacity_bytes = replay.capacity_bytes();
    Ok((Box::new(LayerStack { replay, requests }), capacity_bytes))
}

/// What `nandlab replay` says of the trace under these options: one pass, counted.
fn short_estimate(options: &LifeOptions, requests: &Requests) -> Result<Option<u64>, StudyError> {
    let replay = Replay::new(build_device(&options.replay.device)?, options.replay.address);
    let mut stack = LayerStack { replay, requests };
    stack.work()?;
    let metrics = device_metrics(&stack.replay);
    let found = metrics.iter().find(|metric| metric.name == "lifetime_host_bytes");
    Ok(found.and_then(|metric| match metric.value {
        Number::Count(bytes) => Some(bytes),
        Number::Real(_) => None,
    }))
}

/// What keeps the data of a life.
struct Medium<'a> {
    errors: &'a ErrorModel,
    /// Years that are asked for.
    years: f64,
    /// Reads of the block that is read most, in so many passes of the work.
    reads: &'a dyn Fn(f64) -> u32,
}

fn end_of(lived: &Lived, life: &Life, medium: &Medium<'_>, is_filled: bool) -> LifeEnd {
    let limit = medium.errors.erase_cycles_max;
    let years_of = |bytes: u64| life.bytes_per_day.map(|rate| bytes as f64 / rate / YEAR_DAYS);
    let simulated = Simulated {
        host_bytes: lived.host_bytes,
        played_bytes: lived.simulated_bytes,
        hottest: lived.hottest,
    };
    let reach = |bytes: Option<u64>, cycles: u32| {
        let host_bytes = bytes.unwrap_or_else(|| simulated.at_least(cycles));
        Reach { host_bytes, is_more: bytes.is_none(), years: years_of(host_bytes) }
    };
    let first_block = reach(reached(&lived.curve, limit, |point| point.first), limit);
    let one_percent = reach(reached(&lived.curve, limit, |point| point.one_percent), limit);
    // Data of the work is rewritten when its block is; other data stays as long as the device.
    // Where no block was worn out, or the rate is not known, so is that time: then as old as is asked.
    let worn_years = first_block.years.filter(|_| !first_block.is_more);
    let turn_years = worn_years.map_or(medium.years, |years| years / f64::from(limit));
    // The worst case of each end: other data that fills the device is written once and has to last.
    let data_age_years = if is_filled { medium.years } else { turn_years.min(medium.years) };
    let passes = match life.bytes_per_day {
        Some(rate) if life.pass_bytes > 0 => {
            rate * data_age_years * YEAR_DAYS / life.pass_bytes as f64
        }
        _ => 1.0,
    };
    let reads = (medium.reads)(passes);
    let strain = Strain { age_ns: (data_age_years * YEAR_DAYS * DAY_NS) as u64, reads };
    let cycles = cycles_within_ecc(medium.errors, life.capacity_bytes, strain);
    LifeEnd {
        is_filled,
        first_block,
        one_percent,
        cycles_within_ecc: cycles,
        data_age_years,
        reads_of_a_block: reads,
        life: if cycles == limit {
            first_block
        } else {
            reach(reached(&lived.curve, cycles, |point| point.first), cycles)
        },
        simulated_host_bytes: lived.simulated_bytes,
        simulated_erases: lived.erases,
        slc_erases: None,
    }
}

/// The most cycles at which `data_bytes` of this age keep on a part, when the whole of it is read.
///
/// # Errors
/// A part that does not exist.
pub fn part_cycles_within_ecc(
    part: &str,
    data_bytes: u64,
    age_years: f64,
) -> Result<u32, StudyError> {
    let part = crate::ftl_device::find_part_or_file(part)?;
    let strain = Strain { age_ns: (age_years * YEAR_DAYS * DAY_NS) as u64, reads: 0 };
    Ok(cycles_within_ecc(&part.errors, data_bytes, strain))
}
