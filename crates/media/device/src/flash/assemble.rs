//! From a description to a flash device.

use super::{FlashDevice, PAGE_SECTORS_MAX, Places, Timeline, WriteCache};
use crate::admission::Gate;
use crate::die::Dies;
use crate::divisor::Divisor;
use crate::read_retry::ReadRetry;
use crate::slc::Slc;
use crate::spec::{DeviceSpec, FlashSpec, SpecError};
use crate::timeline::CleaningTimes;
use crate::{DeviceStatistics, SECTOR_BYTES};
use ftl::{Ftl, Settings, Value, find_ftl};
use nand::{Chip, FaultSettings, Part, Storage};
use std::collections::BTreeMap;

/// The part with all planes of a die driven together: one plane of pages so much larger.
pub(crate) fn join_planes(part: &Part) -> Part {
    let mut joined = part.clone();
    let planes = part.geometry.planes;
    joined.geometry.planes = 1;
    joined.geometry.blocks /= planes;
    joined.geometry.page_data_bytes *= planes;
    joined.geometry.page_oob_bytes *= planes;
    joined
}

/// Settings of the layer; `seed` is that of a policy that draws at random, unless one is given.
fn settings(flash: &FlashSpec, seed: u64) -> Result<Settings, String> {
    let entry = find_ftl(&flash.ftl).expect("checked with the device");
    let mut given: BTreeMap<String, Value> = BTreeMap::new();
    // A policy that draws at random gets the device's seed; a seed in the description still wins.
    if entry.parameters.iter().any(|parameter| parameter.name == "cleaning_seed") {
        given.insert(
            "cleaning_seed".into(),
            Value::Integer(i64::from((seed % 4_000_000_000) as u32)),
        );
    }
    for (name, value) in &flash.settings {
        let value = match value {
            toml::Value::Integer(number) => Value::Integer(*number),
            toml::Value::Boolean(switch) => Value::Switch(*switch),
            toml::Value::String(word) => Value::Word(word.clone()),
            other => return Err(format!("flash.settings.{name} cannot be {}", other.type_str())),
        };
        given.insert(name.clone(), value);
    }
    Settings::new(entry.parameters, &given)
        .map(|settings| settings.with_seed(seed))
        .map_err(|error| format!("flash.settings: {error}"))
}

impl FlashDevice {
    /// A device of erased dies of `part`; `seed` is that of cleaning policies that draw at random.
    ///
    /// # Errors
    /// [`SpecError::Impossible`] if the dies are too small for the capacity or the layer.
    pub fn new(spec: &DeviceSpec, part: &Part, seed: u64) -> Result<Self, SpecError> {
        Self::assemble(spec, part, seed)
            .map_err(|reason| SpecError::Impossible { name: spec.name.clone(), reason })
    }

    fn assemble(spec: &DeviceSpec, part: &Part, seed: u64) -> Result<Self, String> {
        spec.check()?;
        let flash = spec.flash.as_ref().ok_or("flash is missing: this is no flash device")?;
        let mut part = part.clone();
        if let Some(blocks) = flash.blocks {
            part.geometry.blocks = blocks;
        }
        // A bus mode replaces the part's own cycle time.
        if let Some(bus) = &flash.bus {
            (part.timing.bus, part.timing.transfer_ps_per_byte) = (Some(bus.clone()), None);
        }
        let planes = part.geometry.planes;
        for (key, blocks) in [
            ("blocks_per_die", spec.slc.blocks_per_die),
            ("dynamic_blocks_per_die", spec.slc.dynamic_blocks_per_die),
        ] {
            if !blocks.is_multiple_of(planes) {
                return Err(format!(
                    "slc.{key} must be a multiple of {planes}: all planes work together"
                ));
            }
        }
        // Blocks of a static SLC cache hold nothing else.
        part.geometry.blocks = part.geometry.blocks.saturating_sub(spec.slc.blocks_per_die);
        let part = join_planes(&part);
        part.check()
            .map_err(|sentence| format!("flash.part with all planes joined: {sentence}"))?;
        let parts = flash.parts_of_page(part.geometry.page_data_bytes)?;
        let mut part = part;
        part.geometry = part.geometry.divided(parts);
        let page_sectors = (u64::from(part.geometry.page_data_bytes) / SECTOR_BYTES) as u32;
        if !(1..=PAGE_SECTORS_MAX).contains(&page_sectors) {
            return Err(format!(
                "flash.part has pages of {} bytes, all planes together; 512 to {} are possible",
                part.geometry.page_data_bytes,
                u64::from(PAGE_SECTORS_MAX) * SECTOR_BYTES
            ));
        }
        let page_bytes = u64::from(page_sectors) * SECTOR_BYTES;
        if spec.cache.bytes > 0 && spec.cache.bytes < page_bytes {
            return Err(format!("cache.bytes must be 0 or hold a page of {page_bytes} bytes"));
        }
        let dies = u64::from(flash.dies());
        let pages = flash.capacity_bytes.div_ceil(page_bytes);
        // Array pages go round the dies, with all their parts.
        let pages_of_a_die = pages.div_ceil(u64::from(parts)).div_ceil(dies) * u64::from(parts);
        // Every die has the same number of pages, rounded up: the last stripe may be short.
        if pages > u64::from(u32::MAX) || pages_of_a_die > u64::from(part.geometry.pages()) {
            return Err(format!(
                "flash.capacity_bytes asks for {pages_of_a_die} pages of {page_bytes} bytes on each of {dies} dies, which have {}",
                part.geometry.pages()
            ));
        }
        let settings = settings(flash, seed)?;
        let entry = find_ftl(&flash.ftl).ok_or("flash.ftl is unknown")?;
        let layer = |_| -> Result<Box<dyn Ftl>, String> {
            let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
            ftl::build(entry, chip, pages_of_a_die as u32, &settings)
                .map_err(|error| format!("flash: {error}"))
        };
        let layers: Result<Vec<_>, _> = (0..flash.dies()).map(layer).collect();
        let transfer_ns =
            |count: u64| count * SECTOR_BYTES * 1_000_000_000 / spec.host.bytes_per_second;
        let mut dies = Dies::new(
            layers?,
            flash.channels,
            &part,
            flash.copy_back,
            spec.cleaning,
            spec.suspend,
            spec.slc,
        );
        for (die, number) in dies.all.iter_mut().zip(0..) {
            die.slc = Slc::new(&spec.slc, &part, planes).map(Box::new);
            die.retry = ReadRetry::new(&spec.read_retry, &part, seed, number).map(Box::new);
        }
        Ok(Self {
            sectors: flash.capacity_bytes / SECTOR_BYTES,
            page_sectors,
            page_divisor: Divisor::new(u64::from(page_sectors)),
            die_divisor: Divisor::new(u64::from(flash.dies())),
            // A power of two, as `parts_of_page` checks.
            parts_shift: parts.trailing_zeros(),
            host: spec.host,
            bus: Timeline::default(),
            // Looked up for every piece of a page, where a division would take as long as all else.
            transfer_ns: (0..=u64::from(page_sectors)).map(transfer_ns).collect(),
            places: Places::new(spec.host.executes),
            processors: spec.host.processors.map(Places::new),
            cleaning_times: CleaningTimes::default(),
            dies,
            cache: WriteCache::new(spec.cache.bytes, flash.dies()),
            gate: Gate::of(spec.cache.admission.as_deref(), seed),
            works_in_idle_time: spec.cache.bytes > 0
                || spec.cleaning.background
                || spec.slc.fold_idle_ns > 0,
            manual_bkops: spec.cleaning.manual_bkops,
            last_ns: 0,
            caught_up_ns: 0,
            statistics: DeviceStatistics::default(),
            work: Vec::new(),
            stored: None,
        })
    }
}
