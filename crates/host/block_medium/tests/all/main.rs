//! Sectors and blocks in memory.

mod memory;
mod sectors;
