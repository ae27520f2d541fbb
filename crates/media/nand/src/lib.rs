//! NAND flash chips as a host controller meets them.
//!
//! A [`Chip`] holds what the silicon holds: which pages are programmed, what their spare areas
//! say, how often each block was erased, which blocks are bad. It enforces the rules of the part
//! as errors, counts every operation, and can be made to fail: bit errors, failed programs and
//! erases, power cuts at any operation. Data bytes are kept only when asked for.
//!
//! What is left out: analogue effects below the bit, and multi-plane commands (a device above the
//! chip schedules dies and planes in time).

mod chip;
mod counters;
mod error;
mod fault;
mod geometry;
mod image;
mod journal;
mod part;
mod table;
mod tag;
mod temperature;
mod timing;
mod word_line;

pub use ::random;
pub use chip::{
    Chip, ChipOperation, ChipState, CutPoint, LowerPages, MediumChange, PageAddress, StateError,
    Storage, Torn, Unit,
};
pub use counters::{Cost, Counters};
pub use error::NandError;
pub use fault::{EccCounters, ErrorModel, FaultSettings};
pub use geometry::{Cell, Geometry, PAGES_PER_PROGRAM_MAX, PageOrder};
pub use image::{ImageError, ImageLayout};
pub use journal::RawOperation;
pub use part::{DEFAULT_PART, Part, PartError, load_part};
pub use table::{catalogue, find_part};
pub use tag::{Role, Tag};
pub use temperature::{RETENTION_RATED_CELSIUS, rated_retention_ns, retention_acceleration};
pub use timing::{BUS_MODES, BusMode, Timing};
