//! What a script is cut on: a small chip, and a file system of the table on it.

use crash::{Sabotage, Setup};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};

/// A chip of so many blocks of 16 pages: small blocks, so that much is collected.
pub(crate) fn chip(blocks: u32) -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = blocks;
    part.geometry.pages_per_block = 16;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

/// A mount without options, and nothing planted.
pub(crate) fn setup(kind: &'static str) -> Setup {
    setup_of(kind, None, Sabotage::None)
}

pub(crate) fn setup_of(kind: &'static str, profile: Option<&str>, sabotage: Sabotage) -> Setup {
    Setup {
        kind,
        request: MountRequest { profile: profile.map(Into::into), ..MountRequest::default() },
        layout: find_layout("linux-large").expect("in the table"),
        seed: 1,
        sabotage,
    }
}
