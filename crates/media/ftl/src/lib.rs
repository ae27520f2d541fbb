//! Flash translation layers over a NAND chip.
//!
//! Every layer is one file that exports one [`FtlEntry`]; [`FTLS`] is the sorted table of them and
//! the only other place a new layer is named. Cleaning policies of the page-mapped layers work the
//! same way (`cleaning::POLICIES`). All layers work on a [`Flash`]: virtual blocks over the chip,
//! with a free pool, wear levelling and bad-block replacement that the layers need not know.

mod bast;
pub mod cleaning;
mod contract;
mod dftl;
mod entry_cache;
mod error;
mod fast;
mod flash;
mod free;
mod hybrid;
mod kast;
mod last;
mod lexar;
mod locations;
mod logical_block;
mod m_systems;
mod m_systems_anand;
mod merge;
mod mitsubishi;
mod page;
mod page_groups;
mod page_log;
pub mod predicted_waf;
mod recovery;
mod sast;
mod settings;
mod shared_logs;
mod superblock;
mod table;
mod valid;
pub mod wear;
mod work;

pub use contract::{BlocksRequired, BuildFtl, Features, Ftl, FtlEntry, PredictWaf, Table};
pub use error::FtlError;
pub use flash::{Flash, MergeCounts, VirtualPage};
pub use locations::Locations;
pub use recovery::{BlockScan, PageScan, Scan};
pub use settings::{
    COMMON_PARAMETERS, Kind, OwnPolicyError, OwnRows, Parameter, SettingError, Settings, Value, own,
};
pub use table::{FTLS, OWN_FTLS, build, check_fit, find_ftl};
pub use work::{CleanStep, PageWork, Work};

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Checks that a call panics, with a message that contains `message`.
    pub(crate) fn panics_with(message: &str, call: impl FnOnce()) {
        let said = catch_unwind(AssertUnwindSafe(call)).expect_err(message);
        let said = said.downcast_ref::<String>().map_or_else(
            || said.downcast_ref::<&str>().copied().unwrap_or_default(),
            String::as_str,
        );
        assert!(said.contains(message), "{said:?} is not {message:?}");
    }
}
