//! What a device is made of, as TOML.
//!
//! Every value of a preset stands beside its source: a test refuses a key without one.

use crate::admission;
use crate::die::SuspendSpec;
use crate::disk_spec::DiskSpec;
use crate::host_spec::HostSpec;
use crate::read_retry::ReadRetrySpec;
use crate::rules::first_broken;
use crate::slc::SlcSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use suggestion::hint;
use thiserror::Error;

/// A device: a flash device or a rotating disk behind a host interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceSpec {
    /// Name used on the command line and in studies.
    pub name: String,
    /// One line: what it is.
    pub summary: String,
    /// How the host is attached.
    pub host: HostSpec,
    /// A flash device; exclusive with `disk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashSpec>,
    /// The write cache of a flash device.
    #[serde(default)]
    pub cache: CacheSpec,
    /// How a flash device cleans.
    #[serde(default)]
    pub cleaning: Cleaning,
    /// Reads that are tried again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_retry: ReadRetrySpec,
    /// Programs and erases that stop for a read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: SuspendSpec,
    /// The SLC cache.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slc: SlcSpec,
    /// A rotating disk; exclusive with `flash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskSpec>,
    /// Figures of the device that this one is named for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Where the values stand: a key (`host.executes`) or a section (`flash`) to its source.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// What is published of a named device, and the conditions under which it is measured here: four cells, sequential
/// and random requests of 4 KiB, read and written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Maker, model, size and year.
    pub device: String,
    /// Where the figures stand, and what is known of their conditions.
    pub source: String,
    /// Bytes of a sequential request.
    pub sequential_bytes: u32,
    /// Sequential requests outstanding.
    pub sequential_depth: u32,
    /// Bytes from the beginning of the device that random requests lie in.
    pub random_span_bytes: u64,
    /// Random requests outstanding.
    pub random_depth: u32,
    /// Sequential reads, 10^6 bytes a second.
    pub sequential_read_mb_per_s: f64,
    /// Sequential writes, 10^6 bytes a second.
    pub sequential_write_mb_per_s: f64,
    /// Random reads a second.
    pub random_read_per_s: f64,
    /// Random writes a second.
    pub random_write_per_s: f64,
    /// Cells to which a value of the device is fitted, by their key: two at most. The others are predictions.
    #[serde(default)]
    pub fitted: Vec<String>,
}

/// Dies, channels and the translation layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSpec {
    /// Catalogue name or path of the part; a die is one chip of it, all planes driven together.
    pub part: String,
    /// Blocks of a die, planes counted, instead of the part's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Bus mode of the channels, instead of the part's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<String>,
    /// Buses between controller and dies.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Bytes offered to the host; the rest of the dies is spare.
    pub capacity_bytes: u64,
    /// Copies within a die leave its channel alone.
    pub copy_back: bool,
    /// Bytes that the layer maps as one, where that is less than a page of all planes: a power of two of sectors.
    /// Layers that map whole pages take no notice of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping_unit_bytes: Option<u32>,
    /// Translation layer, one on each die.
    #[serde(default = "default_ftl")]
    pub ftl: String,
    /// Settings of the layer.
    #[serde(default)]
    pub settings: BTreeMap<String, toml::Value>,
}

fn default_ftl() -> String {
    "page".into()
}

/// The write cache of a flash device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Bytes of RAM for data on its way to the dies; 0: writes are done when they are on the medium.
    pub bytes: u64,
    /// Which writes go through the cache: `all`, or a policy of the user's own. Others go past it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<String>,
}

/// Cleaning, within writes and between commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cleaning {
    /// False: blocks are cleaned as ever, but it takes no time, for an experiment without it.
    #[serde(default = "yes")]
    pub takes_time: bool,
    /// Clean dies that are idle.
    pub background: bool,
    /// A die is idle when nothing was asked of it for so long, nanoseconds.
    pub idle_before_ns: u64,
    /// Clean in the background while fewer blocks of the die are free.
    pub free_target_blocks: u32,
    /// What a command waits for that finds the die cleaning.
    pub suspend: Suspend,
    /// Steps of cleaning after each program of the host, while fewer than `free_target_blocks` blocks are free: a
    /// step moves an array page, or erases a block whose pages are moved. With 0, a die that has no free block left
    /// empties a whole one before it goes on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub steps_per_program: u32,
    /// The card cleans when the host tells it to, which it does after a command that left the card urgently short of
    /// free blocks: manual background operations (BKOPS) of eMMC.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manual_bkops: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(steps: &u32) -> bool {
    *steps == 0
}

fn is_default<T: Default + PartialEq>(section: &T) -> bool {
    *section == T::default()
}

fn yes() -> bool {
    true
}

impl Default for Cleaning {
    fn default() -> Self {
        Self {
            takes_time: true,
            background: false,
            idle_before_ns: 0,
            free_target_blocks: 0,
            suspend: Suspend::Page,
            steps_per_program: 0,
            manual_bkops: false,
        }
    }
}

/// Where background cleaning lets a command in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Suspend {
    /// After the page copy, or the erase, in progress.
    Page,
    /// After the block in progress.
    Block,
}

/// Why a device could not be had.
#[derive(Debug, Error)]
pub enum SpecError {
    /// No preset of that name.
    #[error("no device is called `{name}`{hint}; known: {known}")]
    Unknown {
        /// Name that was given.
        name: String,
        /// A near name, as a half sentence.
        hint: String,
        /// Names that are known.
        known: String,
    },
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// Path as it was given.
        path: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The text, or a value given, is no device.
    #[error("{place}: {message}")]
    Text {
        /// Path, preset name or override.
        place: String,
        /// Line, key and reason.
        message: String,
    },
    /// Parts that do not fit together.
    #[error("device `{name}`: {reason}")]
    Impossible {
        /// Name of the device.
        name: String,
        /// What does not fit, with the key.
        reason: String,
    },
}

/// Sections that a device may leave out, and whose keys can be set all the same.
const OPTIONAL_SECTIONS: &[&str] = &["read_retry", "slc", "suspend"];

/// Keys that [`DeviceSpec::set`] takes beside `flash.settings.NAME`.
const KEYS: &[&str] = &[
    "cache.admission",
    "cache.bytes",
    "cleaning.background",
    "cleaning.free_target_blocks",
    "cleaning.idle_before_ns",
    "cleaning.manual_bkops",
    "cleaning.steps_per_program",
    "cleaning.suspend",
    "cleaning.takes_time",
    "disk.cylinders",
    "disk.head_switch_ns",
    "disk.heads",
    "disk.read_ahead_bytes",
    "disk.revolutions_per_minute",
    "disk.sectors_per_track",
    "disk.seek.knee_cylinders",
    "disk.seek.per_cylinder_ps",
    "disk.seek.root_ns",
    "disk.seek.settle_ns",
    "flash.blocks",
    "flash.bus",
    "flash.capacity_bytes",
    "flash.channels",
    "flash.copy_back",
    "flash.dies_per_channel",
    "flash.ftl",
    "flash.mapping_unit_bytes",
    "flash.part",
    "host.arbitration",
    "host.arbitration_burst",
    "host.bytes_per_second",
    "host.command_overhead_ns",
    "host.executes",
    "host.interrupt_coalescing_threshold",
    "host.interrupt_coalescing_time_us",
    "host.packed_writes",
    "host.prefetches",
    "host.processors",
    "host.queue_depth",
    "host.queues_high",
    "host.queues_low",
    "host.queues_urgent",
    "host.submission_queues",
    "host.weight_high",
    "host.weight_low",
    "host.weight_medium",
    "host.write_overhead_ns",
    "read_retry.decode_ns",
    "read_retry.decoded_bits",
    "read_retry.erase_cycles",
    "read_retry.retention_days",
    "read_retry.step_percent",
    "read_retry.steps",
    "slc.blocks_per_die",
    "slc.dynamic_blocks_per_die",
    "slc.erase_ns",
    "slc.fold_idle_ns",
    "slc.program_ns",
    "slc.read_ns",
    "slc.when_full",
    "suspend.latency_ns",
    "suspend.per_operation",
    "suspend.resume_ns",
];

impl DeviceSpec {
    /// Parses a device; `place` names the text in messages.
    ///
    /// # Errors
    /// [`SpecError::Text`] with the line and the key that is wrong, unknown or missing.
    pub fn parse(place: &str, text: &str) -> Result<Self, SpecError> {
        let wrong = |message: String| SpecError::Text { place: place.to_owned(), message };
        let spec: Self = toml::from_str(text).map_err(|error| wrong(explain(&error)))?;
        match spec.check() {
            Ok(()) => Ok(spec),
            // The sentence begins with the key, by which its line is found.
            Err(sentence) => Err(wrong(match line_of(text, &sentence) {
                Some(line) => format!("line {line}: {sentence}"),
                None => sentence,
            })),
        }
    }

    /// Reads a user's device file. A part file that it names lies beside it, or where the name leads from
    /// the current folder.
    ///
    /// # Errors
    /// See [`SpecError`].
    pub fn load(path: &Path) -> Result<Self, SpecError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|reason| SpecError::File { path: shown.clone(), reason })?;
        let mut spec = Self::parse(&shown, &text)?;
        // A name of the catalogue wins over a file of that name.
        if let Some(flash) = spec.flash.as_mut()
            && nand::find_part(&flash.part).is_none()
        {
            let beside = path.with_file_name(&flash.part);
            if beside.is_file() {
                flash.part = beside.display().to_string();
            }
        }
        Ok(spec)
    }

    /// Changes one value: `cache.bytes`, `0`; `flash.settings.cleaning`, `fifo`.
    ///
    /// # Errors
    /// [`SpecError::Text`] for unknown keys, with a suggestion, and values that do not fit; the
    /// device is then unchanged.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SpecError> {
        let wrong = |message: String| SpecError::Text {
            place: format!("{}: {key} = {value}", self.name),
            message,
        };
        if !KEYS.contains(&key) && !key.starts_with("flash.settings.") {
            let hint = hint(key, KEYS.iter().copied());
            return Err(wrong(format!("unknown key `{key}`{hint}; known: {}", KEYS.join(", "))));
        }
        // Changed as a table and parsed again, so that one check covers files and overrides.
        let mut table = toml::Table::try_from(&*self).map_err(|error| wrong(error.to_string()))?;
        let (path, last) = key.rsplit_once('.').expect("every key has a section");
        if OPTIONAL_SECTIONS.contains(&path) {
            table.entry(path).or_insert_with(|| toml::Table::new().into());
        }
        let mut section = &mut table;
        for name in path.split('.') {
            section = match section.get_mut(name) {
                Some(toml::Value::Table(inner)) => inner,
                _ => return Err(wrong(format!("this device has no section `{path}`"))),
            };
        }
        section.insert(last.to_owned(), scalar(value));
        let changed: Self = table.try_into().map_err(|error| wrong(explain(&error)))?;
        // Keys that need one another come one by one; whether they fit together is asked when the device is made.
        changed.check_values().map_err(wrong)?;
        *self = changed;
        Ok(())
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence that begins with the key outside its range and names the permitted values.
    pub fn check(&self) -> Result<(), String> {
        self.check_values()?;
        self.slc.check_times()?;
        if self.cache.admission.is_some() && self.cache.bytes == 0 {
            return Err(
                "cache.admission needs cache.bytes above 0: without a cache nothing is admitted"
                    .into(),
            );
        }
        if self.cleaning.manual_bkops && self.host.executes > 1 {
            // `mmc_blk_cqe_complete_rq` looks at no exception bit.
            return Err("cleaning.manual_bkops needs host.executes = 1: with a command queue the host does not ask".into());
        }
        self.host.check_queues(self.disk.is_some())
    }

    /// As [`DeviceSpec::check`], without what keys of several queues ask of one another.
    fn check_values(&self) -> Result<(), String> {
        self.host.check_values()?;
        if let Some(published) = &self.published {
            published.check()?;
        }
        match (&self.flash, &self.disk) {
            (Some(flash), None) => {
                flash.check()?;
                self.read_retry.check()?;
                self.suspend.check()?;
                self.slc.check()?;
                self.cache.check()?;
                self.cleaning.check()
            }
            (None, Some(disk)) => {
                disk.check()?;
                if self.cache.bytes != 0 {
                    return Err("cache.bytes must be 0 for a disk: its write cache is off".into());
                }
                if self.cache.admission.is_some() {
                    return Err("cache.admission says nothing of a disk: leave it out".into());
                }
                if self.cleaning != Cleaning::default() {
                    return Err("cleaning says nothing of a disk: leave it out".into());
                }
                if !is_default(&self.read_retry) {
                    return Err("read_retry says nothing of a disk: leave it out".into());
                }
                if !is_default(&self.slc) {
                    return Err("slc says nothing of a disk: leave it out".into());
                }
                if !is_default(&self.suspend) {
                    return Err("suspend says nothing of a disk: leave it out".into());
                }
                if self.host.executes != 1 {
                    return Err("host.executes must be 1 for a disk: it has one arm".into());
                }
                Ok(())
            }
            _ => Err("flash and disk exclude each other: give one of them".into()),
        }
    }
}

/// The cells of [`Published`], by their keys.
const PUBLISHED_CELLS: [&str; 4] = [
    "random_read_per_s",
    "random_write_per_s",
    "sequential_read_mb_per_s",
    "sequential_write_mb_per_s",
];

impl Published {
    fn check(&self) -> Result<(), String> {
        let is_positive = |figure: f64| figure.is_finite() && figure > 0.0;
        let figures = [
            self.sequential_read_mb_per_s,
            self.sequential_write_mb_per_s,
            self.random_read_per_s,
            self.random_write_per_s,
        ];
        let is_cell = |name: &String| PUBLISHED_CELLS.contains(&name.as_str());
        let rules = [
            (
                figures.into_iter().all(is_positive),
                "random_read_per_s and the others must be above 0",
            ),
            (
                self.sequential_bytes >= 512 && self.sequential_bytes.is_multiple_of(512),
                "sequential_bytes must be a multiple of 512",
            ),
            (self.random_span_bytes >= 4096, "random_span_bytes must be at least 4096"),
            (
                self.sequential_depth > 0 && self.random_depth > 0,
                "random_depth and sequential_depth must be at least 1",
            ),
            (self.fitted.len() <= 2, "fitted must name two cells at most"),
            (
                self.fitted.iter().all(is_cell),
                "fitted must name cells: random_read_per_s, random_write_per_s, sequential_read_mb_per_s, sequential_write_mb_per_s",
            ),
        ];
        first_broken("published", &rules)
    }
}

impl FlashSpec {
    fn check(&self) -> Result<(), String> {
        let rules = [
            ((1..=64).contains(&self.channels), "channels must be 1 to 64"),
            ((1..=64).contains(&self.dies_per_channel), "dies_per_channel must be 1 to 64"),
            (
                self.capacity_bytes >= 4096 && self.capacity_bytes.is_multiple_of(512),
                "capacity_bytes must be a multiple of 512, at least 4096",
            ),
            (self.capacity_bytes <= 1 << 44, "capacity_bytes must be at most 2^44 (16 TiB)"),
            (
                ftl::find_ftl(&self.ftl).is_some(),
                "ftl must be a translation layer of `nandlab list`",
            ),
            (self.blocks.is_none_or(|blocks| blocks >= 8), "blocks must be at least 8"),
            (
                self.mapping_unit_bytes.is_none_or(|bytes| bytes >= 512 && bytes.is_power_of_two()),
                "mapping_unit_bytes must be a power of two, at least 512",
            ),
        ];
        first_broken("flash", &rules)
    }

    /// Parts of a page of `page_bytes` bytes, all planes together, that the layer maps one by one.
    ///
    /// # Errors
    /// A sentence with the key, if the page has no such parts.
    pub fn parts_of_page(&self, page_bytes: u32) -> Result<u32, String> {
        let maps_parts = ftl::find_ftl(&self.ftl).is_some_and(|entry| entry.maps_parts);
        let Some(unit_bytes) = self.mapping_unit_bytes.filter(|_| maps_parts) else { return Ok(1) };
        let parts = page_bytes / unit_bytes;
        if parts > 1 && self.copy_back {
            // The parts that move come from several pages, so they meet in the controller.
            return Err("flash.copy_back must be false where a layer maps parts of a page".into());
        }
        // Places are found by shifts, so a page of three planes has no parts.
        let divides = unit_bytes * parts == page_bytes && parts.is_power_of_two();
        if !divides || parts > nand::PAGES_PER_PROGRAM_MAX {
            return Err(format!(
                "flash.mapping_unit_bytes must divide the page of {page_bytes} bytes (all planes together) into 1, 2, 4, 8 or {} parts",
                nand::PAGES_PER_PROGRAM_MAX
            ));
        }
        Ok(parts)
    }

    /// Number of dies on all channels.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }
}

impl CacheSpec {
    fn check(&self) -> Result<(), String> {
        let is_known = self.admission.as_deref().is_none_or(admission::is_known);
        first_broken(
            "cache",
            &[(is_known, "admission must be `all`, or a policy of your own as FILE.py:CLASS")],
        )
    }
}

impl Cleaning {
    fn check(&self) -> Result<(), String> {
        let rules = [
            (
                // A target of one is what cleaning within writes keeps anyway.
                !self.background || self.free_target_blocks >= 2,
                "free_target_blocks must be at least 2 with background = true",
            ),
            (
                self.steps_per_program == 0 || self.free_target_blocks >= 2,
                "free_target_blocks must be at least 2 with steps_per_program",
            ),
            (
                // Levels are a half and a quarter of it.
                !self.manual_bkops || self.free_target_blocks >= 4,
                "free_target_blocks must be at least 4 with manual_bkops = true",
            ),
            (
                !(self.manual_bkops && self.background),
                "manual_bkops must be false with background = true: a card cleans by itself or when told to",
            ),
            (self.steps_per_program <= 1_000, "steps_per_program must be at most 1000"),
            (
                self.idle_before_ns <= 3_600_000_000_000,
                "idle_before_ns must be at most 3600000000000 (1 h)",
            ),
        ];
        first_broken("cleaning", &rules)
    }
}

fn scalar(text: &str) -> toml::Value {
    match text {
        "true" => toml::Value::Boolean(true),
        "false" => toml::Value::Boolean(false),
        _ => text.parse().map_or_else(|_| text.into(), toml::Value::Integer),
    }
}

/// What the parser says, and the key that was probably meant if it says "unknown field".
fn explain(error: &toml::de::Error) -> String {
    let message = error.to_string().trim_end().to_owned();
    let mut quoted = error.message().split('`').skip(1).step_by(2);
    let hint = match quoted.next() {
        Some(unknown) if error.message().starts_with("unknown ") => hint(unknown, quoted),
        _ => String::new(),
    };
    message + &hint
}

/// Line of the key that a sentence of [`DeviceSpec::check`] begins with, or of its section.
fn line_of(text: &str, sentence: &str) -> Option<usize> {
    let mut table = toml::de::DeTable::parse(text).ok()?.into_inner();
    let mut position = None;
    for key in sentence.split([' ', ':']).next()?.split('.') {
        let Some((name, value)) = table.get_key_value(key) else { break };
        position = Some(name.span().start);
        table = match value.get_ref().as_table() {
            Some(inner) => inner.clone(),
            None => break,
        };
    }
    position.map(|position| text[..position].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::{DeviceSpec, KEYS, ReadRetrySpec, SlcSpec, SuspendSpec};
    use crate::table::{TEXTS, devices, find_device};
    use std::collections::BTreeSet;

    fn leaves(prefix: &str, table: &toml::Table, found: &mut BTreeSet<String>) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            match value {
                toml::Value::Table(inner) => leaves(&format!("{key}."), inner, found),
                _ => {
                    found.insert(key);
                }
            }
        }
    }

    #[test]
    fn every_value_of_a_preset_has_a_source_and_every_source_a_value() {
        for (file, text) in TEXTS {
            let mut table: toml::Table = text.parse().expect("parsed before");
            let sources = table.remove("sources").expect("sources");
            // It states its own source.
            table.remove("published");
            let sources = sources.as_table().expect("a table");
            let mut keys = BTreeSet::new();
            leaves("", &table, &mut keys);
            keys.retain(|key| key != "name" && key != "summary");
            let names = |key: &str, source: &str| {
                key == source || key.strip_prefix(source).is_some_and(|rest| rest.starts_with('.'))
            };
            for key in &keys {
                assert!(sources.keys().any(|source| names(key, source)), "{file}: {key}");
            }
            for source in sources.keys() {
                assert!(keys.iter().any(|key| names(key, source)), "{file}: {source} is no key");
            }
        }
    }

    #[test]
    fn the_keys_of_set_are_sorted_and_complete() {
        assert!(KEYS.windows(2).all(|pair| pair[0] < pair[1]));
        let optional = [
            "cache.admission",
            "cleaning.manual_bkops",
            "flash.blocks",
            "flash.bus",
            "flash.mapping_unit_bytes",
            "host.arbitration",
            "host.arbitration_burst",
            "host.interrupt_coalescing_threshold",
            "host.interrupt_coalescing_time_us",
            "host.packed_writes",
            "host.processors",
            "host.queues_high",
            "host.queues_low",
            "host.queues_urgent",
            "host.submission_queues",
            "host.weight_high",
            "host.weight_low",
            "host.weight_medium",
        ];
        let mut found: BTreeSet<String> = optional.map(String::from).into();
        let sections = [
            ("read_retry.", toml::Table::try_from(ReadRetrySpec::default())),
            ("slc.", toml::Table::try_from(SlcSpec::default())),
            ("suspend.", toml::Table::try_from(SuspendSpec::default())),
        ];
        for (prefix, table) in sections {
            leaves(prefix, &table.expect("a table"), &mut found);
        }
        for spec in devices() {
            let mut table = toml::Table::try_from(&spec).expect("a table");
            let no_keys = ["name", "published", "sources", "summary"];
            table.retain(|name, _| !no_keys.contains(&name));
            leaves("", &table, &mut found);
        }
        found.retain(|key| !key.starts_with("flash.settings."));
        assert_eq!(found, KEYS.iter().map(|key| (*key).to_owned()).collect());
    }

    #[test]
    fn overrides_change_one_value_or_say_why_not() {
        let mut spec = find_device("emmc-4.5-64gb").expect("a preset");
        spec.set("cache.bytes", "0").expect("a key");
        spec.set("cleaning.suspend", "block").expect("a key");
        spec.set("flash.settings.cleaning", "fifo").expect("a key");
        assert_eq!(spec.cache.bytes, 0);
        let before = spec.clone();
        for (key, value, says) in [
            ("cache.byte", "0", "did you mean `cache.bytes`?"),
            ("host.executes", "0", "host.executes must be 1 to 1024"),
            ("host.executes", "many", "invalid type"),
            ("cleaning.suspend", "pages", "did you mean `page`?"),
            ("disk.heads", "2", "no section `disk`"),
        ] {
            let error = spec.set(key, value).expect_err(key).to_string();
            assert!(error.contains(says) && error.contains(key), "{error}");
        }
        assert_eq!(spec, before);
    }

    #[test]
    fn bad_texts_are_answered_with_place_and_reason() {
        let text = TEXTS[1].1;
        for (from, to, says) in [
            ("copy_back", "copyback", "did you mean `copy_back`?"),
            ("executes = 1", "executes = 0", "line 8: host.executes must be 1 to 1024"),
            ("channels = 1", "channels = 65", "flash.channels must be 1 to 64"),
            ("ftl = \"page\"", "ftl = \"pages\"", "flash.ftl must be a translation layer"),
        ] {
            assert!(text.contains(from), "{from}");
            let changed = text.replacen(from, to, 1);
            let error = DeviceSpec::parse("mine.toml", &changed).expect_err(from).to_string();
            assert!(error.starts_with("mine.toml: ") && error.contains(says), "{error}");
        }
        let error = find_device("emc-4.5-64gb").expect_err("unknown").to_string();
        assert!(error.contains("did you mean `emmc-4.5-64gb`?"), "{error}");
    }
}
