//! Single-page writes, most of them to few pages.

use super::generated::{COLUMNS, Draw, axes, check, plan};
use crate::study_file::Workload;
use crate::workload::contract::WorkloadKind;
use nand::random::Stream;

/// Share of the pages that are hot if the study does not say, percent: with [`HOT_WRITES_PERCENT`] the
/// rule of 80 to 20 that studies of cleaning use (Rosenblum and Ousterhout 1992 used 90 to 10).
const HOT_PAGES_PERCENT: u32 = 20;

/// Share of the writes that go to them if the study does not say, percent.
const HOT_WRITES_PERCENT: u32 = 80;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "hot-cold",
    summary: "single-page writes, `hot_writes_percent` of them to `hot_pages_percent` of the pages",
    keys: &[
        "capacity_bytes",
        "hot_pages_percent",
        "hot_writes_percent",
        "warm_up_writes",
        "measured_writes",
    ],
    axes,
    has_timeline: false,
    columns: COLUMNS,
    check,
    plan: plan::<HotCold>,
};

/// Hot pages come first, cold ones after them.
struct HotCold {
    hot_pages: u32,
    hot_writes_percent: u32,
    pages: u32,
}

impl Draw for HotCold {
    fn new(workload: &Workload, pages: u32) -> Self {
        let percent = workload.hot_pages_percent.unwrap_or(HOT_PAGES_PERCENT);
        // 64 bits: a hundred times the pages of a large device is more than 32 hold.
        let hot_pages = (u64::from(pages) * u64::from(percent) / 100).max(1) as u32;
        debug_assert!(hot_pages <= pages, "{percent} % of {pages} pages are {hot_pages}");
        let hot_writes_percent = workload.hot_writes_percent.unwrap_or(HOT_WRITES_PERCENT);
        Self { hot_pages, hot_writes_percent, pages }
    }

    fn next(&mut self, numbers: &mut Stream) -> u32 {
        let is_hot = numbers.below(100) < self.hot_writes_percent;
        // Without cold pages all writes are hot.
        if is_hot || self.hot_pages == self.pages {
            numbers.below(self.hot_pages)
        } else {
            self.hot_pages + numbers.below(self.pages - self.hot_pages)
        }
    }
}
