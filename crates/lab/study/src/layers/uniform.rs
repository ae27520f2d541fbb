//! Single-page writes, every page as likely as the others.

use super::generated::{COLUMNS, Draw, axes, check, plan};
use crate::study_file::Workload;
use crate::workload::contract::WorkloadKind;
use nand::random::Stream;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "uniform",
    summary: "single-page writes, every page as likely as the others",
    keys: &["capacity_bytes", "warm_up_writes", "measured_writes"],
    axes,
    has_timeline: false,
    columns: COLUMNS,
    check,
    plan: plan::<Uniform>,
};

struct Uniform {
    pages: u32,
}

impl Draw for Uniform {
    // The closed forms assume that every page is as likely as the others (`ftl::predicted_waf`).
    const HAS_PREDICTION: bool = true;

    fn new(_: &Workload, pages: u32) -> Self {
        Self { pages }
    }

    fn next(&mut self, numbers: &mut Stream) -> u32 {
        numbers.below(self.pages)
    }
}
