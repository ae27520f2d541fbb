//! Small chips, and pages whose contents say which write made them.
#![allow(dead_code, reason = "every test file uses a part of this")]

use ftl::{Ftl, FtlEntry, Settings, Value};
use nand::{Chip, FaultSettings, Part, Storage};
use std::collections::BTreeMap;

/// Bytes of a test page.
pub(crate) const PAGE_BYTES: usize = 256;

/// Whether `make test-long` runs, which makes more writes in the same trials.
pub(crate) fn is_long() -> bool {
    std::env::var_os("NANDLAB_LONG_TESTS").is_some()
}

/// A small-block SLC part with tiny pages.
pub(crate) fn small_part(pages_per_block: u32, blocks: u32) -> Part {
    let mut part = nand::find_part("published-small-block").expect("in the catalogue");
    part.geometry.page_data_bytes = PAGE_BYTES as u32;
    part.geometry.pages_per_block = pages_per_block;
    part.geometry.blocks = blocks;
    part
}

/// The contents of version `version` of a page; version 0 is zeros.
pub(crate) fn page_bytes(lpn: u32, version: u32) -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    if version > 0 {
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            word[..4].copy_from_slice(&lpn.wrapping_add(index as u32).to_le_bytes());
            word[4..].copy_from_slice(&version.to_le_bytes());
        }
    }
    bytes
}

/// Version of the page that `bytes` hold, or `None` if they are no page of `lpn`.
pub(crate) fn version_of(lpn: u32, bytes: &[u8]) -> Option<u32> {
    let version = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
    (bytes == page_bytes(lpn, version)).then_some(version)
}

/// A layer with the settings given, over a chip that stores bytes.
pub(crate) fn build(
    entry: &FtlEntry,
    part: &Part,
    logical_pages: u32,
    given: &BTreeMap<String, Value>,
) -> Result<Box<dyn Ftl>, String> {
    let settings = Settings::new(entry.parameters, given).map_err(|error| error.to_string())?;
    let chip = Chip::new(part, Storage::Bytes, &FaultSettings::default());
    ftl::build(entry, chip, logical_pages, &settings).map_err(|error| error.to_string())
}
