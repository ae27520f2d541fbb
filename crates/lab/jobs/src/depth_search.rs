//! The largest number of requests under way that keeps a latency (`latency_target` of fio).

use std::cell::Cell;

/// What a job tries to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyTarget {
    /// Requests must not take longer (`latency_target`).
    pub latency_ns: u64,
    /// Each number of requests is tried for so long (`latency_window`).
    pub window_ns: u64,
    /// Share of the requests that must not, in millionths (`latency_percentile`).
    pub share_per_million: u32,
    /// The number goes on to change when it was found (`latency_run`).
    pub goes_on: bool,
}

/// What becomes of a process after a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many requests may be under way, more than before or as many.
    To(u32),
    /// So many, once those under way are done: else they would make the smaller number look slow.
    DownTo(u32),
    /// The number was found: what was counted is dropped, and one window counts.
    LastWindow,
    /// That window is over.
    Done,
}

/// The search of one process.
///
/// Source: `lat_target_success` and `__lat_target_failed` of fio's `io_u.c`: doubling until a number fails, and
/// then by halves.
#[derive(Debug)]
pub(crate) struct DepthSearch {
    target: LatencyTarget,
    /// Most requests (`iodepth`).
    most: u32,
    depth: Cell<u32>,
    low: Cell<u32>,
    high: Cell<u32>,
    /// Windows in a row in which the number could not grow.
    stable: Cell<u32>,
    requests: Cell<u64>,
    slow: Cell<u64>,
    since_ns: Cell<u64>,
    is_last_window: Cell<bool>,
}

impl DepthSearch {
    pub(crate) fn new(target: LatencyTarget, most: u32, now_ns: u64) -> Self {
        Self {
            target,
            most,
            depth: Cell::new(1),
            low: Cell::new(1),
            high: Cell::new(most),
            stable: Cell::new(0),
            requests: Cell::new(0),
            slow: Cell::new(0),
            since_ns: Cell::new(now_ns),
            is_last_window: Cell::new(false),
        }
    }

    /// Requests that may be under way.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.get()
    }

    /// A request took so long.
    pub(crate) fn count(&self, latency_ns: u64) {
        self.requests.set(self.requests.get() + 1);
        self.slow.set(self.slow.get() + u64::from(latency_ns > self.target.latency_ns));
    }

    /// What the window says, if it is over.
    pub(crate) fn step(&self, now_ns: u64) -> Option<Step> {
        let (requests, slow) = (u128::from(self.requests.get()), u128::from(self.slow.get()));
        // One slow request fails a window that permits none, and ends it (`lat_target_failed`).
        let is_failed_early = slow > 0 && self.target.share_per_million == 1_000_000;
        if now_ns < self.since_ns.get() + self.target.window_ns && !is_failed_early {
            return None;
        }
        let wanted = u128::from(self.target.share_per_million) * requests;
        // A window without a request keeps nothing.
        let is_kept = requests > 0 && (requests - slow) * 1_000_000 >= wanted;
        let step = if is_kept { self.kept() } else { self.failed() };
        self.begin_window(now_ns);
        Some(step)
    }

    /// A window begins now; requests of the one before are done (`lat_new_cycle`).
    pub(crate) fn begin_window(&self, now_ns: u64) {
        self.requests.set(0);
        self.slow.set(0);
        self.since_ns.set(now_ns);
    }

    fn kept(&self) -> Step {
        let before = self.depth.get();
        self.low.set(before);
        if before + 1 == self.high.get() {
            // Three such windows in a row: the limit may have been an accident.
            self.stable.set(self.stable.get() + 1);
            if self.stable.get() >= 3 {
                self.high.set(self.high.get() + 1);
                self.stable.set(0);
            }
        }
        let high = self.high.get();
        // Without a failure yet, doubling is faster than halves from the top.
        let next = if high == self.most { before * 2 } else { u32::midpoint(before, high) };
        self.depth.set(next.min(self.most));
        if self.target.goes_on || self.depth.get() != before {
            return Step::To(self.depth.get());
        }
        if self.is_last_window.replace(true) { Step::Done } else { Step::LastWindow }
    }

    fn failed(&self) -> Step {
        let depth = self.depth.get();
        // There is nothing below one; fio goes on with it.
        if depth == 1 {
            return Step::To(1);
        }
        self.high.set(depth);
        if depth == self.low.get() {
            self.low.set(depth - 1);
        }
        self.depth.set(u32::midpoint(depth, self.low.get()).max(1));
        self.stable.set(0);
        Step::DownTo(self.depth.get())
    }
}

#[cfg(test)]
mod tests {
    use super::{DepthSearch, LatencyTarget, Step};

    const TARGET: LatencyTarget = LatencyTarget {
        latency_ns: 100,
        window_ns: 1000,
        share_per_million: 900_000,
        goes_on: false,
    };

    /// Runs windows on a device whose latency is ten times the number of requests, until the search ends.
    fn found(target: LatencyTarget, most: u32) -> (u32, Vec<u32>) {
        let search = DepthSearch::new(target, most, 0);
        let mut depths = Vec::new();
        for window in 1..100 {
            depths.push(search.depth());
            for _ in 0..10 {
                search.count(u64::from(search.depth()) * 10);
            }
            if search.step(window * 1000) == Some(Step::Done) {
                return (search.depth(), depths);
            }
        }
        panic!("the search ends: {depths:?}");
    }

    #[test]
    fn doubling_and_halves_lead_to_the_largest_number_that_keeps_the_latency() {
        let (depth, depths) = found(TARGET, 64);
        assert_eq!(depth, 10, "a hundred nanoseconds: {depths:?}");
        assert_eq!(&depths[..5], &[1, 2, 4, 8, 16]);
        // Nothing fails: the most there is.
        assert_eq!(found(TARGET, 8).0, 8);
        assert_eq!(found(LatencyTarget { latency_ns: 1_000_000, ..TARGET }, 64).0, 64);
    }

    #[test]
    fn a_share_of_slow_requests_is_kept_and_a_hundred_percent_ends_the_window_at_once() {
        let search = DepthSearch::new(TARGET, 4, 0);
        (0..9).for_each(|_| search.count(1));
        search.count(1_000);
        assert_eq!(search.step(999), None);
        assert_eq!(search.step(1_000), Some(Step::To(2)), "nine of ten");
        (0..8).for_each(|_| search.count(1));
        (0..2).for_each(|_| search.count(1_000));
        assert_eq!(search.step(2_000), Some(Step::DownTo(1)), "eight of ten");
        let strict =
            DepthSearch::new(LatencyTarget { share_per_million: 1_000_000, ..TARGET }, 4, 0);
        strict.count(1);
        assert_eq!(strict.step(1_000), Some(Step::To(2)));
        strict.count(101);
        assert_eq!(strict.step(1_001), Some(Step::DownTo(1)));
        assert_eq!(strict.step(2_001), Some(Step::To(1)), "no request keeps nothing");
    }
}
