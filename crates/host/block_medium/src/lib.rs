//! What a file system asks of a block device.
//!
//! A [`BlockMedium`] takes bios: reads and writes of blocks that stand together, flushes, discards. It is
//! plain bytes without time for tools ([`MemoryMedium`]), or a path of requests, a scheduler and a
//! device.

mod contract;
mod memory;
mod sectors;

pub use contract::{BlockMedium, MediumError, Pending, WriteFlags};
pub use memory::{Bio, MemoryMedium};
pub use sectors::SectorStore;
