//! Timelines of what is shared (host interface, channels) and the account of time lost to cleaning.

use std::collections::VecDeque;

/// A moment on the way of a command, and how much of the way there was a wait for cleaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) ns: u64,
    pub(crate) cleaning_ns: u64,
}

impl Moment {
    /// This moment, `ns` nanoseconds of other work later.
    #[inline]
    pub(crate) fn after(self, ns: u64) -> Self {
        Self { ns: self.ns + ns, ..self }
    }

    /// This moment, put off to `ns` by something that is not cleaning.
    #[inline]
    pub(crate) fn not_before(self, ns: u64) -> Self {
        Self { ns: self.ns.max(ns), ..self }
    }

    /// The later of the two: what a step waits for that needs both.
    #[inline]
    pub(crate) fn or_later(self, other: Self) -> Self {
        if other.ns > self.ns { other } else { self }
    }
}

/// What is used by one at a time; uses may be booked ahead, and later ones take the gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// Disjoint intervals in order; touching ones are one.
    booked: VecDeque<(u64, u64)>,
    busy_ns: u64,
    /// What ended by then is forgotten, so nothing may be booked before it.
    horizon_ns: u64,
}

impl Timeline {
    /// Books the first gap of `duration_ns` from `earliest_ns` on and says where it begins.
    #[inline]
    pub(crate) fn book(&mut self, earliest_ns: u64, duration_ns: u64) -> u64 {
        if duration_ns == 0 {
            return earliest_ns;
        }
        debug_assert!(
            earliest_ns >= self.horizon_ns,
            "{earliest_ns} ns is booked after times before {} ns were forgotten",
            self.horizon_ns
        );
        self.busy_ns += duration_ns;
        match self.booked.back_mut() {
            // Touching intervals are joined, so a busy bus is one entry.
            Some((_, end_ns)) if *end_ns == earliest_ns => *end_ns += duration_ns,
            // A transfer was booked ahead; an earlier one may fit before it.
            Some((_, end_ns)) if *end_ns > earliest_ns => {
                return self.book_gap(earliest_ns, duration_ns);
            }
            _ => self.booked.push_back((earliest_ns, earliest_ns + duration_ns)),
        }
        earliest_ns
    }

    fn book_gap(&mut self, earliest_ns: u64, duration_ns: u64) -> u64 {
        let mut start_ns = earliest_ns;
        // The first interval that ends after the moment.
        let mut index = self.booked.partition_point(|(_, end_ns)| *end_ns <= earliest_ns);
        while let Some((next_ns, end_ns)) = self.booked.get(index) {
            if start_ns + duration_ns <= *next_ns {
                break;
            }
            start_ns = *end_ns;
            index += 1;
        }
        let end_ns = start_ns + duration_ns;
        let joins_next = self.booked.get(index).is_some_and(|(next_ns, _)| *next_ns == end_ns);
        let joins_previous = index > 0 && self.booked[index - 1].1 == start_ns;
        match (joins_previous, joins_next) {
            (true, true) => {
                self.booked[index - 1].1 = self.booked[index].1;
                self.booked.remove(index);
            }
            (true, false) => self.booked[index - 1].1 = end_ns,
            (false, true) => self.booked[index].0 = start_ns,
            (false, false) => self.booked.insert(index, (start_ns, end_ns)),
        }
        debug_assert!(start_ns >= earliest_ns, "no use begins before its user is ready");
        debug_assert!(self.is_disjoint(), "one use at a time");
        start_ns
    }

    /// True if the intervals are in order, do not overlap and do not touch.
    fn is_disjoint(&self) -> bool {
        let next = self.booked.iter().skip(1);
        self.booked.iter().all(|(start_ns, end_ns)| start_ns < end_ns)
            && self.booked.iter().zip(next).all(|(before, after)| before.1 < after.0)
    }

    /// Forgets what ended by `ns`: nothing will be booked before it.
    #[inline]
    pub(crate) fn forget_before(&mut self, ns: u64) {
        debug_assert!(ns >= self.horizon_ns, "the horizon never goes back");
        self.horizon_ns = ns;
        while self.booked.front().is_some_and(|(_, end_ns)| *end_ns <= ns) {
            self.booked.pop_front();
        }
    }

    /// Forgets all bookings, as after a power cut; the time booked so far still counts.
    pub(crate) fn power_up(&mut self) {
        self.booked.clear();
        // Bookings may have been made ahead of the moment at which the supply failed.
        self.horizon_ns = 0;
    }

    /// Time booked so far.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }
}

/// When cleaning took place, as far back as anything may still have waited for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct CleaningTimes {
    /// Disjoint intervals in order.
    intervals: VecDeque<(u64, u64)>,
    // Each operation of a busy die asks about a dozen intervals: to add them up anew took 4 % of the instructions of a
    // replay on one die.
    /// How long they are together.
    sum_ns: u64,
}

impl CleaningTimes {
    /// The interval that ends at `end_ns`, if it is the last one, ends at `at_ns`: the rest was put off.
    pub(crate) fn cut_short(&mut self, end_ns: u64, at_ns: u64) {
        match self.intervals.back_mut() {
            Some((start_ns, last_ns)) if *last_ns == end_ns && *start_ns < at_ns => {
                self.sum_ns = self.sum_ns + at_ns - *last_ns;
                *last_ns = at_ns;
            }
            Some((start_ns, last_ns)) if *last_ns == end_ns => {
                self.sum_ns -= *last_ns - *start_ns;
                self.intervals.pop_back();
            }
            _ => {}
        }
    }

    /// Adds an interval that does not begin before the one added last.
    #[inline]
    pub(crate) fn add(&mut self, start_ns: u64, end_ns: u64) {
        if start_ns >= end_ns {
            return;
        }
        debug_assert!(
            self.intervals.back().is_none_or(|(last_start_ns, _)| *last_start_ns <= start_ns),
            "cleaning is added in the order of its beginnings"
        );
        match self.intervals.back_mut() {
            // Overlapping intervals are joined: time lost is counted once.
            Some((_, last_ns)) if *last_ns >= start_ns => {
                self.sum_ns += end_ns.saturating_sub(*last_ns);
                *last_ns = end_ns.max(*last_ns);
            }
            _ => {
                self.sum_ns += end_ns - start_ns;
                self.intervals.push_back((start_ns, end_ns));
            }
        }
    }

    /// Forgets what ended by `ns`.
    #[inline]
    pub(crate) fn forget_before(&mut self, ns: u64) {
        while let Some((start_ns, end_ns)) = self.intervals.front()
            && *end_ns <= ns
        {
            self.sum_ns -= end_ns - start_ns;
            self.intervals.pop_front();
        }
    }

    /// Cleaning between two moments.
    ///
    /// All of it less what lies outside: most questions are about nearly all that is remembered.
    #[inline]
    pub(crate) fn between(&self, from_ns: u64, to_ns: u64) -> u64 {
        debug_assert!(from_ns <= to_ns, "{from_ns} ns comes after {to_ns} ns");
        let mut sum_ns = self.sum_ns;
        // By number, since few are looked at: an iterator over a ring is made of two slices, which takes longer.
        let mut first = 0;
        while let Some((start_ns, end_ns)) = self.intervals.get(first)
            && *start_ns < from_ns
        {
            sum_ns -= (*end_ns).min(from_ns) - start_ns;
            first += 1;
        }
        let mut rest = self.intervals.len();
        while rest > 0
            && let Some((start_ns, end_ns)) = self.intervals.get(rest - 1)
            && *end_ns > to_ns
        {
            sum_ns -= end_ns - (*start_ns).max(to_ns);
            rest -= 1;
        }
        debug_assert_eq!(
            sum_ns,
            self.overlap_ns(from_ns, to_ns),
            "the sum is that of the intervals"
        );
        sum_ns
    }

    /// As [`CleaningTimes::between`], interval by interval.
    fn overlap_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let overlap = |(start_ns, end_ns): &(u64, u64)| {
            (*end_ns).min(to_ns).saturating_sub((*start_ns).max(from_ns))
        };
        self.intervals.iter().map(overlap).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{CleaningTimes, Timeline};
    use crate::tests::panics_with;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bookings_never_overlap_and_take_the_first_gap(
            requests in prop::collection::vec((0_u64..1000, 1_u64..40), 1..80)
        ) {
            let mut timeline = Timeline::default();
            let mut taken = [false; 10_000];
            for (earliest, duration) in &requests {
                let fits = |start: u64| {
                    taken[start as usize..(start + duration) as usize].iter().all(|busy| !busy)
                };
                let expected = (*earliest..9_000).find(|start| fits(*start)).expect("time is long");
                let start = timeline.book(*earliest, *duration);
                prop_assert_eq!(start, expected);
                taken[start as usize..(start + duration) as usize].fill(true);
            }
            let busy = taken.iter().filter(|busy| **busy).count() as u64;
            prop_assert_eq!(timeline.busy_ns(), busy);
            prop_assert!(timeline.booked.iter().zip(timeline.booked.iter().skip(1)).all(|(a, b)| a.1 < b.0));
        }
    }

    #[test]
    fn every_time_that_goes_back_is_seen() {
        let timeline = || {
            let mut timeline = Timeline::default();
            timeline.book(100, 10);
            timeline.book(130, 10);
            timeline.forget_before(50);
            timeline
        };
        assert_eq!(timeline().book(50, 10), 50);
        panics_with("is booked after times before 50 ns were forgotten", || {
            timeline().book(49, 10);
        });
        panics_with("the horizon never goes back", || timeline().forget_before(49));
        panics_with("one use at a time", || {
            let mut broken = timeline();
            broken.booked[0].1 = 135;
            broken.book(60, 10);
        });
        let mut times = CleaningTimes::default();
        times.add(10, 20);
        panics_with("in the order of its beginnings", || times.clone().add(9, 30));
        panics_with("30 ns comes after 20 ns", || {
            times.between(30, 20);
        });
        panics_with("the sum is that of the intervals", || {
            times.sum_ns += 1;
            times.between(0, 30);
        });
    }

    #[test]
    fn cleaning_between_two_moments_is_the_overlap() {
        let mut times = CleaningTimes::default();
        times.add(10, 20);
        times.add(20, 30);
        times.add(50, 60);
        assert_eq!(times.between(0, 100), 30);
        assert_eq!(times.between(15, 55), 20);
        assert_eq!(times.between(30, 50), 0);
        assert_eq!(times.between(52, 57), 5);
        assert_eq!(times.between(0, 5), 0);
        times.cut_short(60, 55);
        assert_eq!(times.between(0, 100), 25);
        times.cut_short(55, 50);
        assert_eq!(times.between(0, 100), 20);
        times.add(50, 60);
        times.forget_before(30);
        assert_eq!(times.between(0, 100), 10);
    }
}
