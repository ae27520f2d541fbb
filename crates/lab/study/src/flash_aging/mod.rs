//! Flash before a run begins: formatted, or aged by writes, overwrites and deletions.

mod aging;
mod prepared;
mod state;

pub(crate) use prepared::{FlashPlan, PreparedFlash, REST_NS, key_of};
pub use state::{FlashState, PercentOf};

/// Flash as the tool that formats it leaves it.
pub(crate) const FRESH: &str = "fresh";
