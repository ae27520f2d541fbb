//! The table of translation layers, and what makes a layer from its row.

use crate::contract::{Ftl, FtlEntry};
use crate::settings::{OwnRows, SettingError, Settings};
use crate::{
    Flash, bast, dftl, fast, hybrid, kast, last, lexar, m_systems, m_systems_anand, mitsubishi,
    page, sast, superblock,
};
use nand::{Chip, Geometry};

/// All translation layers, sorted by name.
pub const FTLS: &[&FtlEntry] = &[
    &bast::ENTRY,
    &dftl::ENTRY,
    &fast::ENTRY,
    &hybrid::ENTRY,
    &kast::ENTRY,
    &last::ENTRY,
    &lexar::ENTRY,
    &m_systems::ENTRY,
    &m_systems_anand::ENTRY,
    &mitsubishi::ENTRY,
    &page::ENTRY,
    &sast::ENTRY,
    &superblock::ENTRY,
];

/// Layers of the user's own.
pub static OWN_FTLS: OwnRows<FtlEntry> = OwnRows::new();

/// The layer called `name`.
pub fn find_ftl(name: &str) -> Option<&'static FtlEntry> {
    FTLS.iter().copied().find(|entry| entry.name == name).or_else(|| OWN_FTLS.find(name))
}

/// Makes a layer of `logical_pages` pages over `chip`, whose contents it takes for erased.
///
/// Call [`Ftl::rebuild`] next if the chip holds the data of an earlier life.
///
/// # Errors
/// [`SettingError::Impossible`] if the chip is too small or the part's rules forbid the algorithm.
pub fn build(
    entry: &FtlEntry,
    chip: Chip,
    logical_pages: u32,
    settings: &Settings,
) -> Result<Box<dyn Ftl>, SettingError> {
    let usable = (0..chip.geometry().blocks).filter(|block| !chip.is_bad(*block)).count() as u32;
    check_fit(entry, chip.geometry(), usable, logical_pages, settings)?;
    Ok((entry.build)(Flash::new(chip, settings), logical_pages, settings))
}

/// Checks that the layer can offer `logical_pages` pages on a chip with `good_blocks` good blocks.
///
/// # Errors
/// As [`build`].
pub fn check_fit(
    entry: &FtlEntry,
    geometry: &Geometry,
    good_blocks: u32,
    logical_pages: u32,
    settings: &Settings,
) -> Result<(), SettingError> {
    // The layer's own conditions first: they name the setting that is wrong.
    (entry.check)(geometry, settings)?;
    let name = entry.name;
    if geometry.pages_per_program > 1 && !entry.maps_parts {
        return Err(SettingError::Impossible(format!(
            "{name} maps whole pages, and this chip is divided into parts of a page"
        )));
    }
    if logical_pages == 0 || logical_pages > geometry.pages() {
        return Err(SettingError::Impossible(format!(
            "{logical_pages} logical pages are impossible on a chip of {} pages",
            geometry.pages()
        )));
    }
    // Blocks kept to replace bad ones come on top of what the layer needs.
    let required = (entry.blocks_required)(geometry, logical_pages, settings)
        + settings.integer("reserve_blocks");
    if good_blocks < required {
        return Err(SettingError::Impossible(format!(
            "{name} needs {required} good blocks for {logical_pages} logical pages, but the chip has {good_blocks}; \
             give it more blocks, or fewer logical pages"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::FTLS;

    #[test]
    fn the_table_is_sorted_and_its_names_are_unique() {
        assert!(FTLS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
