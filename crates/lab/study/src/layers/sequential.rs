//! Single-page writes over the whole device, in order.

use super::generated::{COLUMNS, Draw, axes, check, plan};
use crate::study_file::Workload;
use crate::workload::contract::WorkloadKind;
use nand::random::Stream;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "sequential",
    summary: "single-page writes over the whole device, in order, again and again",
    keys: &["capacity_bytes", "warm_up_writes", "measured_writes"],
    axes,
    has_timeline: false,
    columns: COLUMNS,
    check,
    plan: plan::<Sequential>,
};

struct Sequential {
    next: u32,
    pages: u32,
}

impl Draw for Sequential {
    fn new(_: &Workload, pages: u32) -> Self {
        Self { next: 0, pages }
    }

    fn next(&mut self, _: &mut Stream) -> u32 {
        let page = self.next;
        self.next = (page + 1) % self.pages;
        page
    }
}
