//! Jobs that end when their rate is steady (`steadystate` of fio).

use sim::Sim;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What is looked at each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Requests a second.
    Requests,
    /// Bytes a second.
    Bytes,
}

/// When a job is steady.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteadyState {
    /// What is looked at.
    pub measure: Measure,
    /// The slope of a straight line through the seconds is looked at, not their largest distance from the mean.
    pub is_slope: bool,
    /// It must be below this.
    pub limit: f64,
    /// The limit is in percent of the mean.
    pub is_percent: bool,
    /// Seconds that are looked at together (`ss_dur`).
    pub window_s: u32,
    /// Seconds at the beginning that are not looked at (`ss_ramp`).
    pub ramp_s: u32,
    /// All jobs of a group are looked at together (`group_reporting`).
    pub is_shared: bool,
}

impl SteadyState {
    /// True if these seconds, as many as the window has, are steady.
    ///
    /// Source: `steadystate_slope` and `steadystate_deviation` of fio's steadystate.c.
    fn holds(&self, seconds: &VecDeque<u64>) -> bool {
        let count = seconds.len() as u64;
        debug_assert!(count > 0, "a window has a second");
        let sum: u64 = seconds.iter().sum();
        let criterion = if self.is_slope {
            let weighted: u64 =
                (0..).zip(seconds).map(|(place, value): (u64, _)| place * value).sum();
            let places = count * (count - 1) / 2;
            let squares = (count - 1) * count * (2 * count - 1) / 6;
            let share = places as f64 / count as f64;
            let slope =
                (weighted as f64 - share * sum as f64) / (squares as f64 - share * places as f64);
            // fio divides whole numbers here.
            if self.is_percent { 100.0 * slope / (sum / count) as f64 } else { slope }
        } else {
            let mean = sum as f64 / count as f64;
            let distance =
                seconds.iter().map(|value| (*value as f64 - mean).abs()).fold(0.0, f64::max);
            if self.is_percent { 100.0 * distance / mean } else { distance }
        };
        // A window of nothing has no criterion, and is not steady.
        criterion.abs() < self.limit
    }
}

/// Counts what the processes do that are looked at together.
pub(crate) struct Meter {
    requests: Cell<u64>,
    bytes: Cell<u64>,
    /// When they were steady.
    steady_ns: Cell<Option<u64>>,
}

impl Meter {
    /// Starts to look each second, until the processes are steady.
    pub(crate) fn start(sim: &Sim, steady: SteadyState) -> Rc<Self> {
        let meter = Rc::new(Self {
            requests: Cell::new(0),
            bytes: Cell::new(0),
            steady_ns: Cell::new(None),
        });
        // Weak: the meter ends with its processes, and the task with the meter.
        let (own, task_sim) = (Rc::downgrade(&meter), sim.clone());
        sim.spawn_named("steady state", async move {
            let mut seconds = VecDeque::new();
            let mut before = 0;
            for second in 1_u32.. {
                task_sim.sleep(1_000_000_000).await;
                // Without a process there is nothing to look at any more.
                let Some(meter) = own.upgrade() else { return };
                let now = match steady.measure {
                    Measure::Requests => meter.requests.get(),
                    Measure::Bytes => meter.bytes.get(),
                };
                let in_second = now - std::mem::replace(&mut before, now);
                // The first window begins a whole second after the ramp (`steadystate_check`).
                if second <= steady.ramp_s {
                    continue;
                }
                seconds.push_back(in_second);
                if seconds.len() > steady.window_s as usize {
                    seconds.pop_front();
                }
                if seconds.len() == steady.window_s as usize && steady.holds(&seconds) {
                    meter.steady_ns.set(Some(task_sim.now()));
                    return;
                }
            }
        });
        meter
    }

    /// A request is complete.
    pub(crate) fn count(&self, bytes: u64) {
        self.requests.set(self.requests.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// When the processes were steady.
    pub(crate) fn steady_ns(&self) -> Option<u64> {
        self.steady_ns.get()
    }
}

#[cfg(test)]
mod tests {
    use super::{Measure, SteadyState};

    const LIMIT: SteadyState = SteadyState {
        measure: Measure::Requests,
        is_slope: false,
        limit: 10.0,
        is_percent: true,
        window_s: 4,
        ramp_s: 0,
        is_shared: false,
    };

    #[test]
    fn the_largest_distance_from_the_mean_decides() {
        // The mean is 100 in each.
        assert!(LIMIT.holds(&[91, 109, 100, 100].into()));
        assert!(!LIMIT.holds(&[90, 110, 100, 100].into()), "ten is not below ten");
        assert!(!LIMIT.holds(&[0, 0, 0, 0].into()), "nothing is not steady");
        let absolute = SteadyState { is_percent: false, ..LIMIT };
        assert!(absolute.holds(&[1009, 1000, 991, 1000].into()));
    }

    #[test]
    fn the_slope_decides_whatever_the_distance_is() {
        let slope = SteadyState { is_slope: true, limit: 5.0, ..LIMIT };
        assert!(!slope.holds(&[100, 110, 120, 130].into()), "ten a second of 115");
        assert!(slope.holds(&[100, 130, 130, 100].into()));
        assert!(!slope.holds(&[130, 120, 110, 100].into()), "it falls");
    }
}
