//! Windowed greedy: the block with the fewest valid pages among the w closed first.
//!
//! Between FIFO (w = 1) and greedy (w = all).
//! Source: Hu et al., "Write amplification analysis in flash-based solid state drives", SYSTOR 2009.

use super::contract::{Policy, PolicyEntry, View};

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "windowed",
    summary: "the block with the fewest valid pages among the oldest `window_blocks`",
    source: "Hu, Eleftheriou, Haas, Iliadis, Pletka, SYSTOR 2009",
    needs_valid_index: false,
    predicted_waf: None,
    build: &|settings| {
        Box::new(Windowed { window_blocks: settings.integer("window_blocks") as usize })
    },
};

#[derive(Clone)]
struct Windowed {
    window_blocks: usize,
}

impl Policy for Windowed {
    fn choose(&mut self, view: &View) -> Option<u32> {
        view.oldest_first().take(self.window_blocks).min_by_key(|block| view.valid_pages(*block))
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
