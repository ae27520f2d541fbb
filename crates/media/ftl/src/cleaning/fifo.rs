//! FIFO: the block that was closed first, whatever it holds (also called LRU or cyclic cleaning).
//!
//! Levels wear by itself; pays for it in copies when writes are skewed.
//! Source: Desnoyers, "Analytic models of SSD write performance", ACM TOS 10(2), 2014.

use super::contract::{Policy, PolicyEntry, View};
use crate::predicted_waf;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "fifo",
    summary: "the block closed first",
    source: "Desnoyers, ACM Transactions on Storage 10(2), 2014",
    needs_valid_index: false,
    predicted_waf: Some(|occupancy, _| predicted_waf::fifo(occupancy)),
    build: &|_| Box::new(Fifo),
};

struct Fifo;

impl Policy for Fifo {
    fn choose(&mut self, view: &View) -> Option<u32> {
        view.oldest_first().next()
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(Self)
    }
}
