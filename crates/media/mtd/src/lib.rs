//! Raw NAND as a file system sees it: a chip under a driver.
//!
//! [`Mtd`] offers the calls of Linux's MTD interface: reads of any bytes, writes of pages and
//! sub-pages, spare areas in three modes, erases, bad blocks. It keeps the driver's habits (a lock on
//! the chip for each call, a page buffer, ECC in the spare area) and its costs in simulated time. With
//! costs of zero the same calls serve a tool.
//!
//! Source of the behaviour: `drivers/mtd/nand/nand_base.c` of Linux 2.6.29 to 3.4,
//! `drivers/mtd/nand/raw/nand_base.c` of 6.1.

mod blank;
mod contract;
mod costs;
mod device;
mod error;
mod hamming;
mod operations;
mod ram;
mod table;

pub use blank::{first_written, is_blank, written_bytes};
pub use contract::{Ecc, OobLayout};
pub use costs::DriverCosts;
pub use device::{BadBlocks, Mtd, MtdOptions, OobMode, ReadStatus};
pub use error::MtdError;
pub use hamming::STEP_BYTES as ECC_STEP_BYTES;
pub use hamming::{Correction, hamming_check, hamming_code, hamming_correct};
pub use operations::{ChipObserver, Operation, OperationCounts};
pub use ram::{RamError, RamMtd, RamPending};
pub use table::{LAYOUTS, find_layout};

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Checks that a call panics, with a message that contains `message`.
    pub(crate) fn panics_with(message: &str, call: impl FnOnce()) {
        let panic = catch_unwind(AssertUnwindSafe(call)).expect_err(message);
        let text = panic.downcast_ref::<String>().map_or_else(
            || panic.downcast_ref::<&str>().copied().unwrap_or_default(),
            String::as_str,
        );
        assert!(text.contains(message), "{text:?} is not {message:?}");
    }
}
