//! Cost-benefit: the largest age × free share / cost, with the cost of reading and writing back 2u.
//!
//! Waits for young blocks to empty further; good for skewed writes.
//! Source: Kawaguchi, Nishioka, Motoda, "A flash-memory based file system", USENIX 1995.

use super::contract::{Policy, PolicyEntry, View};
use std::cmp::Ordering;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "cost-benefit",
    summary: "the largest age × (1 − u) / 2u, u being the share of valid pages",
    source: "Kawaguchi, Nishioka, Motoda, USENIX 1995",
    needs_valid_index: false,
    predicted_waf: None,
    build: &|_| Box::new(CostBenefit),
};

struct CostBenefit;

impl Policy for CostBenefit {
    fn choose(&mut self, view: &View) -> Option<u32> {
        // a × (N − v) / 2v compared without division; the constant 2 falls out.
        let better = |left: &u32, right: &u32| -> Ordering {
            let side = |block: u32, other: u32| {
                let free = view.pages_per_block() - view.valid_pages(block);
                u128::from(view.age(block)) * u128::from(free) * u128::from(view.valid_pages(other))
            };
            side(*left, *right).cmp(&side(*right, *left))
        };
        // An empty block costs nothing to clean: its benefit is without bound, so it goes before
        // all.
        let empty = view.oldest_first().find(|block| view.valid_pages(*block) == 0);
        empty.or_else(|| view.oldest_first().max_by(better))
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(Self)
    }
}
