//! A process that searches for the number of its requests under way (`latency_target` of fio).

use super::Runner;
use crate::ProcessReport;
use crate::depth_search::{DepthSearch, Step};
use sim::Semaphore;

impl Runner {
    /// Takes the number of requests under way from `depth` to what the search wants; returns it.
    ///
    /// Slots that may not be used are held by the process itself.
    pub(super) async fn follow(&self, search: &DepthSearch, depth: u32, slots: &Semaphore) -> u32 {
        let now_ns = self.run.sim.now();
        let wanted = match search.step(now_ns) {
            // At the beginning all slots are free, and one may be used.
            None => search.depth(),
            Some(Step::To(wanted) | Step::DownTo(wanted)) => wanted,
            Some(Step::Done) => {
                self.is_done.set(true);
                depth
            }
            Some(Step::LastWindow) => {
                // `io_u_quiesce` and `reset_all_stats`: only the found number is reported.
                slots.acquire_many(depth).await.forget();
                slots.release(depth);
                search.begin_window(self.run.sim.now());
                self.forget_counts();
                depth
            }
        };
        if wanted < depth {
            // Requests under way end first (`__lat_target_failed`).
            slots.acquire_many(depth).await.forget();
            slots.release(wanted);
            // What they took says nothing of the smaller number.
            search.begin_window(self.run.sim.now());
        } else {
            slots.release(wanted - depth);
        }
        wanted
    }

    /// Drops what was counted: the process begins to count now.
    fn forget_counts(&self) {
        let now_ns = self.run.sim.now();
        self.counted_from_ns.set(now_ns);
        self.counted.take();
        let mut report = self.report.borrow_mut();
        *report = ProcessReport {
            pid: report.pid,
            start_ns: now_ns,
            end_ns: now_ns,
            error: report.error,
            ..ProcessReport::default()
        };
    }
}
