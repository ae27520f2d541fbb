//! d-choices: the block with the fewest valid pages among d drawn at random, with replacement.
//!
//! Between random (d = 1) and greedy (d large); with skewed writes some finite d is best.
//! Source: Van Houdt, "A mean field model for a class of garbage collection algorithms in
//! flash-based solid state drives", SIGMETRICS 2013.

use super::contract::{Policy, PolicyEntry, View};
use super::random::draw_closed;
use crate::predicted_waf;
use nand::random::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "d-choices",
    summary: "the block with the fewest valid pages among `choices` drawn at random",
    source: "Van Houdt, SIGMETRICS 2013",
    needs_valid_index: false,
    predicted_waf: Some(|occupancy, settings| {
        predicted_waf::d_choices(occupancy, settings.integer("choices"))
    }),
    build: &|settings| {
        let stream = Stream::new(u64::from(settings.integer("cleaning_seed")), "d-choices");
        Box::new(DChoices { choices: settings.integer("choices"), stream })
    },
};

#[derive(Clone)]
struct DChoices {
    choices: u32,
    stream: Stream,
}

impl Policy for DChoices {
    fn choose(&mut self, view: &View) -> Option<u32> {
        let mut best = draw_closed(&mut self.stream, view)?;
        // With replacement, as in the mean-field analysis: one block may be drawn twice.
        for _ in 1..self.choices {
            let drawn = draw_closed(&mut self.stream, view)?;
            // Strictly fewer: of equals the first drawn wins, so no bias by block number enters.
            if view.valid_pages(drawn) < view.valid_pages(best) {
                best = drawn;
            }
        }
        Some(best)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
