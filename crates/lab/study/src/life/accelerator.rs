//! From windows of work to the end of the blocks: what is simulated, and what is left out.
//!
//! A *window* is work until one block was erased [`WINDOW_ERASES`] times. Once a window costs what the one
//! before it cost, the same wear is added to every block for a number of windows that are not simulated,
//! and the next window shows what wear levelling makes of it. So the wear distribution goes on to the end.
//!
//! Levelling reads differences of erase counts. Two rules keep these near those of a run without gaps:
//!
//! - While the spread is below the threshold of static levelling, a gap widens it by a quarter of the
//!   threshold at most.
//! - From there on levelling holds the spread, so a gap wears all levelled blocks alike. That leaves every
//!   difference as it is.
//!
//! A gap is at most 1/[`GAPS`] of the rated cycles, and none passes the moment in which a block reaches them.
//! Left out: what becomes of a block beyond its rated cycles. It goes on, as blocks of the model do.

/// Erases of one block that make a window.
/// Enough that a block which is erased once more or less changes a rate by 1/16 at most, and few
/// beside the rated cycles of any part.
const WINDOW_ERASES: u32 = 16;
/// Gaps in a life, at least.
/// So one gap stands for 3 % of a life at most: a pattern that changes is noticed before it costs
/// the 10 % that is promised.
const GAPS: u32 = 32;
/// Windows after which a gap follows although they still differ.
/// Some work never becomes steady, such as cleaning that comes in waves. Without an end to the
/// waiting it would be simulated whole.
const UNSTEADY_WINDOWS_MAX: u32 = 16;
/// Share of the threshold by which a gap may widen the spread.
/// Levelling has to be seen to set in: a gap that crossed the threshold at once would show wear
/// that it never let happen.
const WIDENING: u32 = 4;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The work once more.
    Work,
    /// Every block wears by so many erases; then the work once more.
    Age(Vec<u32>),
    /// The life is over.
    Done,
}

/// How worn the most worn blocks are after so many bytes of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// Bytes that the host has written, gaps included.
    pub(crate) host_bytes: u64,
    /// Cycles of the most worn block.
    pub(crate) first: u32,
    /// Cycles that 1 % of the blocks have.
    pub(crate) one_percent: u32,
}

/// A life under way.
#[derive(Debug)]
pub(crate) struct Accelerator {
    limit: u32,
    threshold: Option<u32>,
    /// Blocks that are neither bad nor kept back.
    wears: Vec<bool>,
    has_gaps: bool,
    window: Vec<u32>,
    window_bytes: u64,
    /// Bytes and erases of the window before.
    last: Option<(u64, u64)>,
    unsteady: u32,
    skipped_bytes: u64,
    curve: Vec<Point>,
}

impl Accelerator {
    /// A life that begins with blocks of so many cycles, and ends when 1 % of them have `limit`.
    ///
    /// `threshold` is the difference at which static levelling moves data; `wears` is false for blocks that
    /// take no part. Without gaps every erase is simulated.
    pub(crate) fn new(
        limit: u32,
        threshold: Option<u32>,
        cycles: &[u32],
        wears: Vec<bool>,
        has_gaps: bool,
    ) -> Self {
        debug_assert_eq!(cycles.len(), wears.len(), "a word for each block");
        Self {
            limit,
            threshold,
            wears,
            has_gaps,
            window: cycles.to_vec(),
            window_bytes: 0,
            last: None,
            unsteady: 0,
            skipped_bytes: 0,
            curve: vec![Point::default()],
        }
    }

    /// Bytes that the host has written, gaps included, when `simulated_bytes` were simulated.
    pub(crate) fn host_bytes(&self, simulated_bytes: u64) -> u64 {
        self.skipped_bytes.saturating_add(simulated_bytes)
    }

    /// The wear so far.
    pub(crate) fn curve(&self) -> &[Point] {
        &self.curve
    }

    /// How often the two limits are counted: once for the first block, then for 1 % of them.
    fn one_percent_blocks(&self) -> usize {
        let blocks = self.wears.iter().filter(|wears| **wears).count();
        blocks.div_ceil(100).max(1)
    }

    /// Cycles of the most worn block, and those that 1 % of the blocks have.
    fn most(&self, cycles: impl Iterator<Item = u32>) -> (u32, u32) {
        let mut cycles: Vec<u32> =
            cycles.zip(&self.wears).filter(|(_, wears)| **wears).map(|(count, _)| count).collect();
        if cycles.is_empty() {
            return (0, 0);
        }
        let at = self.one_percent_blocks() - 1;
        let (above, at, _) = cycles.select_nth_unstable_by(at, |one, other| other.cmp(one));
        (above.iter().copied().max().unwrap_or(*at).max(*at), *at)
    }

    /// What follows a piece of work after which blocks have these cycles, `simulated_bytes` in all.
    pub(crate) fn after_work(&mut self, cycles: &[u32], simulated_bytes: u64) -> Next {
        let host_bytes = self.host_bytes(simulated_bytes);
        let hottest = cycles.iter().zip(&self.window).map(|(now, then)| now - then).max();
        let is_window = hottest.unwrap_or(0) >= WINDOW_ERASES;
        let was = self.curve.last().copied().unwrap_or_default();
        // Most pieces of work neither end a window nor wear a block out.
        if !is_window && cycles.iter().copied().max().unwrap_or(0) < self.limit {
            return Next::Work;
        }
        let (first, one_percent) = self.most(cycles.iter().copied());
        debug_assert!(was.first <= first && was.one_percent <= one_percent, "wear grows");
        let point = Point { host_bytes, first, one_percent };
        if one_percent >= self.limit {
            self.curve.push(point);
            return Next::Done;
        }
        if !is_window {
            // Between windows only the moment of the first block matters. Later points would make
            // the curve as long as the work.
            if was.first < self.limit {
                self.curve.push(point);
            }
            return Next::Work;
        }
        self.curve.push(point);
        let erases: Vec<u32> =
            cycles.iter().zip(&self.window).map(|(now, then)| now - then).collect();
        let bytes = simulated_bytes - self.window_bytes;
        let next = self.gap(cycles, &erases, bytes);
        self.window_bytes = simulated_bytes;
        self.window = cycles.to_vec();
        if let Next::Age(aged) = &next {
            // The next window begins after the gap: otherwise the wear that was left out would
            // count as its erases.
            for (count, more) in self.window.iter_mut().zip(aged) {
                *count += more;
            }
            let (first, one_percent) = self.most(self.window.iter().copied());
            let host_bytes = self.host_bytes(simulated_bytes);
            self.curve.push(Point { host_bytes, first, one_percent });
        }
        next
    }

    /// The gap that may follow a window.
    fn gap(&mut self, cycles: &[u32], erases: &[u32], bytes: u64) -> Next {
        let total: u64 = erases.iter().copied().map(u64::from).sum();
        let is_steady =
            self.last.replace((bytes, total)).is_some_and(|(last_bytes, last_total)| {
                // The bytes that an erase allows differ by a tenth at most.
                let (one, other) = (
                    // Crosswise, so that no ratio is rounded and no window without erases divides
                    // by zero.
                    u128::from(bytes) * u128::from(last_total),
                    u128::from(last_bytes) * u128::from(total),
                );
                one.abs_diff(other) * 10 <= one.max(other)
            });
        self.unsteady = if is_steady { 0 } else { self.unsteady + 1 };
        if !self.has_gaps || (!is_steady && self.unsteady < UNSTEADY_WINDOWS_MAX) {
            return Next::Work;
        }
        let taking_part = || {
            let both = cycles.iter().zip(erases).zip(&self.wears);
            both.filter(|(_, wears)| **wears).map(|(both, _)| both)
        };
        let spread = |of: fn((&u32, &u32)) -> u32| {
            let least = taking_part().map(of).min().unwrap_or(0);
            taking_part().map(of).max().unwrap_or(0) - least
        };
        let blocks = taking_part().count().max(1) as u64;
        // Looked at anew after each window: levelling may fall behind, and then the rates of the
        // window count again.
        let is_levelled = self.threshold.is_some_and(|most| spread(|(count, _)| *count) >= most);
        // In 1/1024 of an erase a window, so that a mean need not be whole.
        let mean = (total << 10) / blocks;
        let rates: Vec<u64> = erases
            .iter()
            .zip(&self.wears)
            .map(|(one, wears)| match (is_levelled, wears) {
                (true, true) => mean,
                _ => u64::from(*one) << 10,
            })
            .collect();
        let hottest = rates.iter().copied().max().unwrap_or(0).max(1);
        let mut windows = (u64::from(self.limit / GAPS) << 10) / hottest;
        if let Some(threshold) = self.threshold.filter(|_| !is_levelled) {
            // The spread of one window is what each window of the gap adds, as rates are taken to
            // be constant.
            let widening = u64::from(spread(|(_, erases)| *erases)).max(1);
            windows = windows.min(u64::from((threshold / WIDENING).max(1)) / widening);
        }
        let aged = |windows: u64| rates.iter().map(move |rate| ((rate * windows) >> 10) as u32);
        let (first_now, _) = self.most(cycles.iter().copied());
        while windows > 0 {
            let (first, one_percent) =
                self.most(cycles.iter().zip(aged(windows)).map(|(now, more)| now + more));
            // Once the first block is worn out, gaps may carry others past the limit one by one,
            // until 1 % are there.
            let next = if first_now < self.limit { first } else { one_percent };
            if next < self.limit {
                break;
            }
            // The last stretch is simulated, so the moment of the limit is seen and not computed.
            windows /= 2;
        }
        if windows == 0 {
            return Next::Work;
        }
        // The bytes of the last window stand for those of each window that is left out: that is
        // what `is_steady` has shown.
        self.skipped_bytes = self.skipped_bytes.saturating_add(bytes.saturating_mul(windows));
        Next::Age(aged(windows).collect())
    }
}

/// Bytes of the host at which `of` a curve reaches `limit`; none if it does not.
pub(crate) fn reached(curve: &[Point], limit: u32, of: fn(&Point) -> u32) -> Option<u64> {
    let at = curve.iter().position(|point| of(point) >= limit)?;
    let Some(before) = at.checked_sub(1).map(|at| &curve[at]) else { return Some(0) };
    let (from, to) = (u128::from(of(before)), u128::from(of(&curve[at])));
    // Between two points wear grows evenly.
    let bytes = u128::from(curve[at].host_bytes - before.host_bytes);
    let share = bytes * (u128::from(limit) - from) / (to - from).max(1);
    Some(before.host_bytes + u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Accelerator, Next, Point, reached};

    /// A life of blocks that wear at constant rates; the bytes of the first block and of 1 %.
    fn live(rates: &[u32], limit: u32, has_gaps: bool) -> (u64, u64, u64) {
        let mut cycles = vec![0; rates.len()];
        let wears = vec![true; rates.len()];
        let mut life = Accelerator::new(limit, None, &cycles, wears, has_gaps);
        let mut bytes = 0;
        loop {
            for (count, rate) in cycles.iter_mut().zip(rates) {
                *count += rate;
            }
            bytes += 1000;
            match life.after_work(&cycles, bytes) {
                Next::Work => {}
                Next::Age(more) => {
                    cycles.iter_mut().zip(more).for_each(|(count, more)| *count += more);
                }
                Next::Done => break,
            }
        }
        let first = reached(life.curve(), limit, |point| point.first).expect("reached");
        let most = reached(life.curve(), limit, |point| point.one_percent).expect("reached");
        (first, most, bytes)
    }

    #[test]
    fn constant_rates_end_where_division_says() {
        let mut rates = vec![1; 300];
        (rates[7], rates[8], rates[9]) = (4, 3, 2);
        for has_gaps in [false, true] {
            let (first, one_percent, simulated) = live(&rates, 60_000, has_gaps);
            assert_eq!((first, one_percent), (15_000 * 1000, 30_000 * 1000), "{has_gaps}");
            // With gaps a small part of the work is simulated.
            assert_eq!(simulated < 1_500_000, has_gaps, "{simulated}");
        }
    }

    #[test]
    fn a_curve_is_read_between_its_points() {
        let at = |host_bytes, first| Point { host_bytes, first, one_percent: 0 };
        let curve = [at(0, 0), at(100, 10), at(300, 20)];
        let first = |limit| reached(&curve, limit, |point| point.first);
        assert_eq!(
            [first(5), first(10), first(15), first(21)],
            [Some(50), Some(100), Some(200), None]
        );
    }
}
