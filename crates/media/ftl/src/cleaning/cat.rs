//! CAT (cost, age, times): the smallest u / (1 − u) × erase count / age.
//!
//! Cost-benefit that also spares worn blocks.
//! Source: Chiang, Chang, "Cleaning policies in mobile computers using flash memory", Journal of
//! Systems and Software 48, 1999.

use super::contract::{Policy, PolicyEntry, View};
use std::cmp::Ordering;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "cat",
    summary: "the smallest u / (1 − u) × erase count / age, u being the share of valid pages",
    source: "Chiang, Chang, Journal of Systems and Software 48, 1999",
    needs_valid_index: false,
    predicted_waf: None,
    build: &|_| Box::new(Cat),
};

struct Cat;

impl Policy for Cat {
    fn choose(&mut self, view: &View) -> Option<u32> {
        // v × e / ((N − v) × a) compared without division; a block never erased counts as erased once.
        let smaller = |left: &u32, right: &u32| -> Ordering {
            let side = |block: u32, other: u32| {
                // 128 bits: pages, erases and ages of a long run multiply past 64.
                let cost = u128::from(view.valid_pages(block))
                    * u128::from(view.erase_count(block).max(1));
                let free = view.pages_per_block() - view.valid_pages(other);
                cost * u128::from(free) * u128::from(view.age(other).max(1))
            };
            side(*left, *right).cmp(&side(*right, *left))
        };
        view.oldest_first().min_by(smaller)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(Self)
    }
}
