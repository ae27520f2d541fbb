//! Studies of whole file systems on raw NAND: mounts, benchmarks, memory, power cuts.

mod benchmark;
mod boot;
mod burst;
mod contract;
mod copy_delete;
mod files;
mod flash_use;
mod ledger;
mod life;
mod lifecycle;
mod lifecycle_metrics;
mod mounting;
mod plan;
mod script_file;
mod script_once;
pub(crate) mod spec;
mod table;
mod traffic;

pub(crate) use plan::KIND;
pub use spec::Limits;
pub(crate) use table::TESTS;
