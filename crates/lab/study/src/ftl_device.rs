//! A translation layer over a chip of a part, sized for what it has to hold.

use crate::StudyError;
use ftl::{FTLS, Ftl, FtlEntry, Settings, Value, check_fit, find_ftl};
use nand::{Chip, FaultSettings, Geometry, Part, Storage, catalogue, find_part, load_part};
use std::collections::BTreeMap;
use std::path::Path;

/// Share of the physical pages that a device offers at most if its size is not given: an
/// over-provisioning of 7.5 % of the logical capacity, as usual between GB and GiB.
const LOGICAL_SHARE_PERCENT: u64 = 93;

/// Pages of a chip that can be simulated: some 20 bytes each, in chip and layer, make 5 GiB.
const CHIP_PAGES_MAX: u32 = 1 << 28;

/// What a device is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceOptions {
    /// Name of the translation layer.
    pub ftl: String,
    /// Catalogue name or path of a part file; the default part if absent.
    pub part: Option<String>,
    /// Settings of the layer.
    pub settings: BTreeMap<String, Value>,
    /// Blocks of the chip, instead of the part's own number.
    pub blocks: Option<u32>,
    /// Pages of a block, instead of the part's own number.
    pub pages_per_block: Option<u32>,
    /// Bytes the device offers; as many as layer and chip allow if absent.
    pub logical_bytes: Option<u64>,
}

/// The catalogue part of that name, else the part file at that path.
///
/// # Errors
/// [`StudyError::Unknown`] with a suggestion; [`StudyError::Part`] for a file that is no part.
pub fn find_part_or_file(name: &str) -> Result<Part, StudyError> {
    if let Some(part) = find_part(name) {
        return Ok(part);
    }
    let path = Path::new(name);
    // What looks like a file is one, so that the message is about the file.
    if path.extension().is_some_and(|extension| extension == "toml") || path.exists() {
        return Ok(load_part(path)?);
    }
    let parts = catalogue();
    Err(StudyError::unknown("part", name, parts.iter().map(|part| part.name.as_str())))
}

/// The row of the layer called `name`.
pub(crate) fn find_layer(name: &str) -> Result<&'static FtlEntry, StudyError> {
    find_ftl(name).ok_or_else(|| {
        StudyError::unknown("translation layer", name, FTLS.iter().map(|entry| entry.name))
    })
}

/// A device that can be built: names found, settings complete, sizes checked.
pub(crate) struct ResolvedDevice {
    entry: &'static FtlEntry,
    pub(crate) part: Part,
    settings: Settings,
    logical_pages: u32,
}

impl ResolvedDevice {
    /// Write amplification under uniform random writes, where a closed form is known.
    pub(crate) fn predicted_waf(&self) -> Option<f64> {
        let geometry = &self.part.geometry;
        ftl::predicted_waf::predicted_waf(self.entry, geometry, self.logical_pages, &self.settings)
    }
}

/// The part of a device, with as many blocks as the options say.
pub(crate) fn chip_of(options: &DeviceOptions) -> Result<Part, StudyError> {
    let mut part = find_part_or_file(options.part.as_deref().unwrap_or(nand::DEFAULT_PART))?;
    if let Some(blocks) = options.blocks {
        part.geometry.blocks = blocks;
    }
    if let Some(pages) = options.pages_per_block {
        part.geometry.pages_per_block = pages;
    }
    check_geometry(&part.geometry)
        .map_err(|reason| StudyError::Study { place: "blocks".into(), reason })?;
    Ok(part)
}

/// Checks the shape of a chip, and that it can be held in memory.
pub fn check_geometry(geometry: &Geometry) -> Result<(), String> {
    geometry.check()?;
    if geometry.pages() > CHIP_PAGES_MAX {
        return Err(format!(
            "a chip of {} pages is too large to simulate: at most {CHIP_PAGES_MAX}; give it fewer blocks",
            geometry.pages()
        ));
    }
    geometry.check_memory()
}

/// Checks everything about a device, without the memory and time it takes to build it.
///
/// # Errors
/// [`StudyError`], as of [`build_device`].
pub(crate) fn resolve(options: &DeviceOptions) -> Result<ResolvedDevice, StudyError> {
    let entry = find_layer(&options.ftl)?;
    let part = chip_of(options)?;
    let settings = Settings::new(entry.parameters, &options.settings)?;
    let geometry = &part.geometry;
    (entry.check)(geometry, &settings)?;
    let logical_pages = match options.logical_bytes {
        Some(bytes) => logical_pages_for(bytes, geometry)?,
        None => largest_logical_pages(entry, geometry, &settings),
    };
    check_fit(entry, geometry, geometry.blocks, logical_pages, &settings)?;
    Ok(ResolvedDevice { entry, part, settings, logical_pages })
}

fn logical_pages_for(bytes: u64, geometry: &Geometry) -> Result<u32, StudyError> {
    let pages = bytes.div_ceil(u64::from(geometry.page_data_bytes));
    if pages == 0 || pages > u64::from(geometry.pages()) {
        return Err(StudyError::Study {
            place: "logical size".into(),
            reason: format!(
                "{bytes} bytes are {pages} pages, and the chip has {}; give it more blocks, or another size",
                geometry.pages()
            ),
        });
    }
    Ok(pages as u32)
}

/// Makes the device, in counting mode: tags are kept, data bytes are not.
///
/// # Errors
/// Unknown names, settings out of range, a chip too small for the layer or too large for memory.
pub fn build_device(options: &DeviceOptions) -> Result<Box<dyn Ftl>, StudyError> {
    build_seeded(options, 0)
}

/// As [`build_device`]; `seed` is that of what policies of the user's own draw.
///
/// # Errors
/// As [`build_device`].
pub(crate) fn build_seeded(options: &DeviceOptions, seed: u64) -> Result<Box<dyn Ftl>, StudyError> {
    let ResolvedDevice { entry, part, settings, logical_pages } = resolve(options)?;
    let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
    Ok(ftl::build(entry, chip, logical_pages, &settings.with_seed(seed))?)
}

/// The most pages that the layer can offer on the part.
fn largest_logical_pages(entry: &FtlEntry, geometry: &Geometry, settings: &Settings) -> u32 {
    let blocks = geometry.blocks.saturating_sub(settings.integer("reserve_blocks"));
    let fits = |pages: u32| (entry.blocks_required)(geometry, pages, settings) <= blocks;
    let (mut low, mut high) =
        (0, (u64::from(geometry.pages()) * LOGICAL_SHARE_PERCENT / 100) as u32);
    if fits(high) {
        return high;
    }
    // The blocks that are needed grow with the pages, so the search may halve.
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    // One page at least, of which the check says what it lacks.
    low.max(1)
}
