//! Devices whose bytes can be written one by one and over again, of the MTD type `MTD_CAP_RAM`.

use std::pin::Pin;
use thiserror::Error;

/// The device under such an MTD could not read or write (`EIO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the device under the MTD failed at byte {offset}")]
pub struct RamError {
    /// First byte that was not read or written.
    pub offset: u64,
}

/// What waits for an operation.
pub type RamPending<'a> = Pin<Box<dyn Future<Output = Result<(), RamError>> + 'a>>;

/// An MTD of the type RAM: no spare areas, no bad blocks, pages of one byte, bits that can be set again
/// without an erase. It has erase blocks because a file system asks for them.
///
/// Source of the shape: `MTD_CAP_RAM` of `include/uapi/mtd/mtd-abi.h`, as `drivers/mtd/devices/block2mtd.c`
/// of Linux 2.6.29 to 6.12 sets it.
pub trait RamMtd {
    /// Bytes of the device: a whole number of erase blocks.
    fn size_bytes(&self) -> u64;

    /// Bytes of an erase block.
    fn block_bytes(&self) -> u32;

    /// False for tools: nothing takes time.
    fn takes_time(&self) -> bool;

    /// Reads bytes from `offset` on.
    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> RamPending<'a>;

    /// Writes bytes from `offset` on, whatever stands there.
    fn write<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> RamPending<'a>;

    /// Sets all bits of an erase block.
    fn erase(&self, block: u32) -> RamPending<'_>;

    /// Waits until the device has all that was written (`mtd_sync`).
    fn sync(&self) -> RamPending<'_>;
}
