//! What a flash device holds without power, part by part, so that it can be kept in a file.
//!
//! That is what the chips hold: cells, wear, and the bytes of pages. Tables, caches and queues are memory of the
//! controller: layers rebuild them from the spare areas, as after any loss of power. So a device that was saved
//! and one whose supply was away for a while go on alike.

use nand::{ChipState, StateError};
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

/// A part of what a device holds. Dies come before their pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SavedPart<'bytes> {
    /// The chips of a die.
    Die(Box<SavedDie>),
    /// A page that was written since the device stores bytes.
    Page(#[serde(borrow)] SavedPage<'bytes>),
}

/// The chips of a die, without the bytes of their pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedDie {
    /// Number of the die.
    pub die: u32,
    /// The chip of the translation layer.
    pub layer: SavedChip,
    /// The blocks of the SLC cache, if the device has one.
    pub slc: Option<SavedChip>,
    /// Pages that the host gave up, in order, and the newest version of any page at that time.
    pub given_up: Vec<(u32, u64)>,
    /// Number of the write that came last.
    pub last_version: u64,
}

/// A chip and the versions of its pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedChip {
    /// Cells and wear.
    pub chip: ChipState,
    /// Number of the write behind each page, block by block; none of a block that no write has reached.
    pub versions: Vec<Option<Box<[u64]>>>,
}

/// A logical page of a die and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPage<'bytes> {
    /// Number of the die.
    pub die: u32,
    /// Number of the page on the die's layer.
    pub lpn: u32,
    /// The newest version that was programmed.
    #[serde(borrow)]
    pub newest: SavedVersion<'bytes>,
    /// The one before, if the supply failed while the newest one was being written: a layer may go back to it.
    #[serde(borrow)]
    pub before: Option<SavedVersion<'bytes>>,
}

/// The bytes of a page after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedVersion<'bytes> {
    /// Number of the write.
    pub number: u64,
    /// What it wrote.
    #[serde(borrow)]
    pub content: SavedContent<'bytes>,
}

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SavedContent<'bytes> {
    /// Zeros.
    Zeros,
    /// Bytes that are no longer held: reads fail.
    Gone,
    /// Bytes of a whole page.
    Bytes(#[serde(borrow, serialize_with = "as_bytes")] &'bytes [u8]),
}

/// At once: element by element takes ten times as long.
fn as_bytes<S: Serializer>(bytes: &&[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(bytes)
}

/// A part that does not belong to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The cells of a chip.
    #[error("die {die}: {reason}")]
    Chip {
        /// Number of the die.
        die: u32,
        /// What is wrong.
        reason: StateError,
    },
    /// Anything else.
    #[error("die {die}: {what} do not fit the device")]
    Part {
        /// Number of the die.
        die: u32,
        /// What is wrong.
        what: &'static str,
    },
}
