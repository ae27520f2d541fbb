//! Cleaning: which block a page-mapped layer empties next.
//!
//! A policy decides and the layer acts: it sees closed blocks through a [`View`] and names one.
//! [`POLICIES`] is the sorted table of them.

mod cat;
mod contract;
mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod random;
mod table;
mod windowed;

pub use contract::{BuildPolicy, Policy, PolicyEntry, View};
pub(crate) use table::KIND;
pub use table::{OWN_POLICIES, POLICIES, find_policy};
