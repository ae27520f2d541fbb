//! Kinds of workload: what a kind is (`contract.rs`), and all of them (`table.rs`).

pub(crate) mod contract;
pub(crate) mod table;
