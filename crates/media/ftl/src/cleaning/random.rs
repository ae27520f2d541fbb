//! Random: any closed block, each as likely as the others.
//!
//! The baseline: its write amplification under uniform writes is the inverse of the spare factor.
//! Source: Desnoyers, "Analytic models of SSD write performance", ACM TOS 10(2), 2014.

use super::contract::{Policy, PolicyEntry, View};
use crate::predicted_waf;
use nand::random::Stream;

pub(crate) const ENTRY: PolicyEntry = PolicyEntry {
    name: "random",
    summary: "any block, drawn at random",
    source: "Desnoyers, ACM Transactions on Storage 10(2), 2014",
    needs_valid_index: false,
    predicted_waf: Some(|occupancy, _| predicted_waf::random(occupancy)),
    build: &|settings| {
        Box::new(Random {
            stream: Stream::new(u64::from(settings.integer("cleaning_seed")), "random cleaning"),
        })
    },
};

#[derive(Clone)]
struct Random {
    stream: Stream,
}

impl Policy for Random {
    fn choose(&mut self, view: &View) -> Option<u32> {
        draw_closed(&mut self.stream, view)
    }

    fn clone_box(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

/// Draws a closed block, each as likely as the others.
pub(super) fn draw_closed(stream: &mut Stream, view: &View) -> Option<u32> {
    // Without a closed block the draw would never end.
    view.oldest_first().next()?;
    loop {
        // Draws among all blocks and rejects: closed ones are nearly all, and each is as likely as
        // the others.
        let block = stream.below(view.blocks());
        if view.is_closed(block) {
            return Some(block);
        }
    }
}
