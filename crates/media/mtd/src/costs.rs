//! What a driver adds to the chip's own time.

use serde::{Deserialize, Serialize};

/// Costs of a driver, beside the array times of the chip.
///
/// The bytes cross the bus one by one under the processor's hand (PIO) where `transfer_ps_per_byte`
/// is processor time; the chip's own bus cycle is the least a byte can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriverCosts {
    /// Processor time of a command and its address cycles.
    #[serde(default)]
    pub command_ns: u64,
    /// Processor time of a byte between chip and memory.
    #[serde(default)]
    pub transfer_ps_per_byte: u64,
    /// Processor time of ECC in software for a byte; 0 where hardware does it.
    #[serde(default)]
    pub ecc_ps_per_byte: u64,
    /// Processor time of a read beyond all that, whether of a page or of its spare area alone.
    #[serde(default)]
    pub read_page_ns: u64,
    /// Processor time of a program beyond all that, whether of a page or of its spare area alone.
    #[serde(default)]
    pub program_page_ns: u64,
    /// The processor waits for the chip by asking it again and again, and does nothing else.
    #[serde(default)]
    pub polls: bool,
}
