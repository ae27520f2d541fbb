//! A translation layer over a chip of a part, sized for what it has to hold.

use crate::StudyError;
use ftl::{FTLS, Ftl, FtlEntry, Settings, Value, find_ftl};
use nand::{Chip, FaultSettings, Part, Storage, catalogue, find_part, load_part};
use std::collections::BTreeMap;
use std::path::Path;

/// Share of the physical pages that a device offers at most if nobody says how large it is: an
/// over-provisioning of 7.5 % of the logical capacity, as usual between GB and GiB.
const LOGICAL_SHARE_PERCENT: u64 = 93;

/// What a device is made of.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// Name of the translation layer.
    pub ftl: String,
    /// Catalogue name or path of a part file; the default part if absent.
    pub part: Option<String>,
    /// Settings of the layer.
    pub settings: BTreeMap<String, Value>,
    /// Blocks of the chip, instead of the part's own number.
    pub blocks: Option<u32>,
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

/// Makes the device, in counting mode: tags are kept, data bytes are not.
///
/// # Errors
/// Unknown names, settings out of range, a chip too small for the layer.
pub fn build_device(options: &DeviceOptions) -> Result<Box<dyn Ftl>, StudyError> {
    let entry = find_layer(&options.ftl)?;
    let mut part = find_part_or_file(options.part.as_deref().unwrap_or(nand::DEFAULT_PART))?;
    let settings = Settings::new(entry.parameters, &options.settings)?;
    if let Some(blocks) = options.blocks {
        part.geometry.blocks = blocks;
        part.geometry
            .check()
            .map_err(|reason| StudyError::Study { place: "blocks".into(), reason })?;
    }
    let page_bytes = u64::from(part.geometry.page_data_bytes);
    let logical_pages = match options.logical_bytes {
        Some(bytes) => {
            u32::try_from(bytes.div_ceil(page_bytes)).map_err(|_| StudyError::Study {
                place: "logical size".into(),
                reason: format!("{bytes} bytes are more pages than a device can have"),
            })?
        }
        None => largest_logical_pages(entry, &part, &settings),
    };
    let chip = Chip::new(&part, Storage::Tags, &FaultSettings::default());
    Ok(ftl::build(entry, chip, logical_pages, &settings)?)
}

/// The most pages that the layer can offer on the part.
fn largest_logical_pages(entry: &FtlEntry, part: &Part, settings: &Settings) -> u32 {
    let geometry = &part.geometry;
    let blocks = geometry.blocks.saturating_sub(settings.integer("reserve_blocks"));
    let fits = |pages: u32| (entry.blocks_required)(geometry, pages, settings) <= blocks;
    let (mut low, mut high) =
        (0, (u64::from(geometry.pages()) * LOGICAL_SHARE_PERCENT / 100) as u32);
    if fits(high) {
        return high;
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { low = middle } else { high = middle }
    }
    low.max(1)
}
