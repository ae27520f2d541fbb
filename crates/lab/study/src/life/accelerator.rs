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
//! Scripts are worked in passes, and two things more are known of them. Their windows may be short: of so many
//! passes, where the script is small beside the flash. Then the rates are those of all short windows together.
//! And data that lies still may move by chance ([`Levelling`]), which no window is long enough to show.
//!
//! A gap is at most 1/[`GAPS`] of the rated cycles, and none passes the moment in which a block reaches them.
//! Left out: what becomes of a block beyond its rated cycles. It goes on, as blocks of the model do.

use super::curve::Point;
use super::rates::{Levelling, dealt_out, in_turn, mixed};
use random::Stream;

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

/// Passes after which a window of a small script may end short.
const SHORT_PASSES: u32 = 16;
/// Passes of a window that are too many: a life has 64 windows or more.
const WINDOW_PASSES_MAX: u32 = 64;
/// Erases of a short window, all blocks together, so that they are counted to a tenth.
const SHORT_ERASES: u64 = 64;
/// Short windows in a life; then it stays without an end.
/// Two file systems under the shipped data logger take less than a minute with them.
const SHORT_WINDOWS_MAX: u32 = 28;
/// Erases of the most worn block, all short windows together, before a gap may follow them.
/// With fewer, the place at which the turn of the blocks stands looks like wear that differs.
const TURNS: u64 = 8;
/// Gaps after short windows in a life, at least.
const SHORT_GAPS: u32 = 4;

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

/// A life under way.
#[derive(Debug)]
pub(crate) struct Accelerator {
    limit: u32,
    levelling: Levelling,
    window_erases: u32,
    /// Passes of the window, where windows may be short.
    passes: Option<u32>,
    /// Windows that were short.
    cut_windows: u32,
    /// Erases of each block in these.
    seen: Vec<u64>,
    /// Erases of each block in the window before.
    before: Vec<u32>,
    /// Draws which block gets which share of chance.
    draw: Stream,
    /// Blocks that are neither bad nor kept back.
    wears: Vec<bool>,
    has_gaps: bool,
    /// Blocks that are levelled together: those of a die.
    group_blocks: usize,
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
            levelling: threshold.map_or(Levelling::None, Levelling::Threshold),
            window_erases: WINDOW_ERASES,
            passes: None,
            cut_windows: 0,
            seen: vec![0; cycles.len()],
            before: vec![0; cycles.len()],
            draw: Stream::new(u64::from(limit), "wear by chance"),
            wears,
            has_gaps,
            group_blocks: cycles.len().max(1),
            window: cycles.to_vec(),
            window_bytes: 0,
            last: None,
            unsteady: 0,
            skipped_bytes: 0,
            curve: vec![Point::default()],
        }
    }

    /// The same where each `blocks` of them are levelled among themselves, as those of a die are.
    pub(crate) fn in_groups_of(mut self, blocks: usize) -> Self {
        self.group_blocks = blocks.max(1);
        self
    }

    /// The same for scripts, whose passes may be small beside the flash and whose parts few cycles.
    pub(crate) fn of_passes(mut self, levelling: Levelling) -> Self {
        self.levelling = levelling;
        self.passes = Some(0);
        // A gap has room for two windows on parts of a few hundred cycles.
        self.window_erases = (self.limit / (2 * GAPS)).clamp(2, WINDOW_ERASES);
        self
    }

    /// True if so much was simulated in short windows that no end is looked for.
    pub(crate) fn gives_up(&self) -> bool {
        self.cut_windows >= SHORT_WINDOWS_MAX
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
        let hottest = hottest.unwrap_or(0);
        let is_full = hottest >= self.window_erases;
        let is_cut = !is_full && self.has_gaps && self.is_cut(cycles, hottest);
        let is_window = is_full || is_cut;
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
        self.passes = self.passes.map(|_| 0);
        let next = self.gap(cycles, &erases, bytes, is_cut);
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

    /// True if the window ends here although no block had its erases, after one pass more.
    fn is_cut(&mut self, cycles: &[u32], hottest: u32) -> bool {
        let Some(passes) = &mut self.passes else { return false };
        *passes += 1;
        if *passes < SHORT_PASSES {
            return false;
        }
        let erases = cycles.iter().zip(&self.window).map(|(now, then)| u64::from(now - then));
        // A window that goes on as it began would take so many passes.
        let expected = *passes * self.window_erases / hottest.max(1);
        let is_long = expected > WINDOW_PASSES_MAX;
        *passes >= WINDOW_PASSES_MAX || is_long && erases.sum::<u64>() >= SHORT_ERASES
    }

    /// The gap that may follow a window.
    fn gap(&mut self, cycles: &[u32], erases: &[u32], bytes: u64, is_cut: bool) -> Next {
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
        if is_cut {
            self.cut_windows += 1;
            self.seen.iter_mut().zip(erases).for_each(|(seen, more)| *seen += u64::from(*more));
        }
        let both: Vec<u64> =
            erases.iter().zip(&self.before).map(|(now, before)| u64::from(now + before)).collect();
        self.before.copy_from_slice(erases);
        self.unsteady = if is_steady { 0 } else { self.unsteady + 1 };
        if !self.has_gaps || (!is_steady && self.unsteady < UNSTEADY_WINDOWS_MAX) {
            return Next::Work;
        }
        // In 1/1024 of an erase a window, so that a mean need not be whole.
        let own: Vec<u64> = if is_cut {
            // One short window says of no block how often its turn comes; all of them do.
            if self.seen.iter().copied().max().unwrap_or(0) < TURNS {
                return Next::Work;
            }
            in_turn(&self.seen, u64::from(self.cut_windows))
        } else if self.passes.is_some() && is_steady {
            // Of two windows that cost the same, so that the place of the turn matters half as much.
            in_turn(&both, 2)
        } else {
            erases.iter().map(|one| u64::from(*one) << 10).collect()
        };
        let mut rates = Vec::with_capacity(cycles.len());
        let mut widest = u64::MAX;
        for at in (0..cycles.len()).step_by(self.group_blocks) {
            let group = at..(at + self.group_blocks).min(cycles.len());
            let taking_part: Vec<usize> = group.clone().filter(|at| self.wears[*at]).collect();
            let spread = |of: &dyn Fn(usize) -> u64| {
                let all = || taking_part.iter().map(|at| of(*at));
                all().max().unwrap_or(0) - all().min().unwrap_or(0)
            };
            // Looked at anew after each window: levelling may fall behind, and then the rates of the
            // window count again.
            let threshold = match self.levelling {
                Levelling::Threshold(threshold) => Some(u64::from(threshold)),
                Levelling::None | Levelling::ByChance(_) => None,
            };
            let is_levelled =
                threshold.is_some_and(|most| spread(&|at| u64::from(cycles[at])) >= most);
            let sum: u64 = group.clone().map(|at| own[at]).sum();
            let mean = sum / taking_part.len().max(1) as u64;
            rates.extend(group.map(|at| match (is_levelled, self.wears[at]) {
                (true, true) => mean,
                _ => own[at],
            }));
            if let Some(threshold) = threshold.filter(|_| !is_levelled) {
                // The spread of one window is what each window of the gap adds, as rates are taken
                // to be constant.
                let widening = spread(&|at| own[at]).max(if is_cut { 1 } else { 1 << 10 });
                let room = (threshold / u64::from(WIDENING)).max(1);
                // A short window may widen it by less than one erase.
                let of_gap = if is_cut { (room << 10) / widening } else { room / (widening >> 10) };
                widest = widest.min(of_gap);
            }
        }
        let gaps = if is_cut { SHORT_GAPS } else { GAPS };
        let hottest = rates.iter().copied().max().unwrap_or(0).max(1);
        let mut windows = ((u64::from(self.limit / gaps) << 10) / hottest).min(widest);
        let others = match self.levelling {
            Levelling::ByChance(_) => dealt_out(&rates, &self.wears, &mut self.draw),
            _ => Vec::new(),
        };
        let aged = |windows: u64| match self.levelling {
            Levelling::ByChance(one_of) => mixed(&rates, &others, &self.wears, one_of, windows),
            _ => rates.iter().map(|rate| ((rate * windows) >> 10) as u32).collect(),
        };
        let (first_now, _) = self.most(cycles.iter().copied());
        // Short windows take long: there the moment of the limit is computed, from constant rates.
        while windows > 0 && !is_cut {
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
        let aged = aged(windows);
        // The bytes of the last window stand for those of each window that is left out: that is
        // what `is_steady` has shown.
        self.skipped_bytes = self.skipped_bytes.saturating_add(bytes.saturating_mul(windows));
        Next::Age(aged)
    }
}

#[cfg(test)]
mod tests {
    use super::super::curve::reached;
    use super::{Accelerator, Next};

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
}
