//! Workloads without a trace: single-page writes drawn from a named random stream.

use crate::StudyError;
use crate::replay::Replay;
use crate::study_file::{Study, Workload};
use nand::random::Stream;
use trace::Operation;

/// Writes before counting, in multiples of the logical pages, if the study does not say.
const WARM_UP_WRITES: u32 = 6;

/// Writes counted, in multiples of the logical pages, if the study does not say.
const MEASURED_WRITES: u32 = 4;

/// The short form writes this part of it.
const QUICK_DIVISOR: u64 = 4;

/// Writes between two looks at the stop flag.
const STRIDE: u64 = 4096;

/// Fills the device, writes until it is in a steady state, and writes on to be counted.
///
/// Returns false if `stopped` said so before the end.
pub(crate) fn run_generated(
    study: &Study,
    repeat: u32,
    replay: &mut Replay,
    stopped: &dyn Fn() -> bool,
) -> Result<bool, StudyError> {
    let workload = &study.workload;
    let mut pages =
        Pages::new(workload, study.seed.wrapping_add(repeat.into()), replay.ftl().logical_pages());
    let page_bytes = replay.ftl().flash().geometry().page_data_bytes;
    let divisor = if study.quick { QUICK_DIVISOR } else { 1 };
    let multiple = |count: Option<u32>, default: u32| {
        u64::from(count.unwrap_or(default)) * u64::from(pages.count) / divisor
    };
    let fill = u64::from(pages.count);
    let warm_up = multiple(workload.warm_up_writes, WARM_UP_WRITES);
    let measured = multiple(workload.measured_writes, MEASURED_WRITES);
    for number in 0..fill + warm_up + measured {
        if number % STRIDE == 0 && stopped() {
            return Ok(false);
        }
        // Filling and warming up are not counted.
        if number == fill + warm_up {
            replay.reset_counters();
        }
        // Each page once, in order; then as the workload draws them.
        let lpn = if number < fill { number as u32 } else { pages.next() };
        replay.serve(Operation::Write, u64::from(lpn) * u64::from(page_bytes), page_bytes)?;
    }
    Ok(true)
}

/// The pages a workload writes, one after the other.
struct Pages {
    kind: Kind,
    stream: Stream,
    count: u32,
}

enum Kind {
    Sequential { next: u32 },
    HotCold { hot_pages: u32, hot_writes_percent: u32 },
    Uniform,
}

impl Pages {
    fn new(workload: &Workload, seed: u64, count: u32) -> Self {
        // By default 80 % of the writes go to 20 % of the pages.
        let hot_pages =
            u64::from(count) * u64::from(workload.hot_pages_percent.unwrap_or(20)) / 100;
        let kind = match workload.kind.as_str() {
            "sequential" => Kind::Sequential { next: 0 },
            "hot-cold" => Kind::HotCold {
                hot_pages: hot_pages.max(1) as u32,
                hot_writes_percent: workload.hot_writes_percent.unwrap_or(80),
            },
            _ => Kind::Uniform,
        };
        // Named by the kind, so that no two kinds share their draws.
        Self { kind, stream: Stream::new(seed, &workload.kind), count }
    }

    fn next(&mut self) -> u32 {
        match &mut self.kind {
            Kind::Sequential { next } => {
                let page = *next;
                *next = (page + 1) % self.count;
                page
            }
            Kind::HotCold { hot_pages, hot_writes_percent } => {
                let is_hot = self.stream.below(100) < *hot_writes_percent;
                // Without cold pages all writes are hot.
                if is_hot || *hot_pages == self.count {
                    self.stream.below(*hot_pages)
                } else {
                    *hot_pages + self.stream.below(self.count - *hot_pages)
                }
            }
            Kind::Uniform => self.stream.below(self.count),
        }
    }
}
