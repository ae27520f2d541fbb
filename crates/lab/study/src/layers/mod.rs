//! Studies of translation layers alone: a trace, or generated writes, page by page and without time.

mod device_plan;
mod generated;
pub(crate) mod hot_cold;
pub(crate) mod sequential;
pub(crate) mod trace_replay;
pub(crate) mod uniform;

pub(crate) use device_plan::DEFAULT_SETTINGS;
