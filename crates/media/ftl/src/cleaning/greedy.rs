//! Greedy: the block with the fewest valid pages, the lowest number of equals.
//!
//! Best for uniform random writes; with skewed writes over one frontier it is not the best.
//! Source: Menon, Stockmeyer, "An age-threshold algorithm for garbage collection in log-structured
//! arrays and file systems", 1998, and the analysis of Bux and Iliadis, Performance Evaluation 67, 2010.

use super::contract::{Policy, PolicyEntry, View};
use crate::predicted_waf;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "greedy",
    summary: "the block with the fewest valid pages",
    source: "Bux, Iliadis, Performance Evaluation 67, 2010",
    needs_valid_index: true,
    predicted_waf: Some(|occupancy, _| predicted_waf::greedy(occupancy)),
    build: &|_| Box::new(Greedy),
};

struct Greedy;

impl Policy for Greedy {
    fn choose(&mut self, view: &View) -> Option<u32> {
        view.fewest_valid()
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(Self)
    }
}
