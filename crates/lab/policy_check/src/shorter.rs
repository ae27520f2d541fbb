//! Makes a failing sequence shorter, as long as it still fails.
//!
//! Source: Zeller, Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002:
//! parts are taken out, large ones first.

/// Attempts at most: each is a whole run of the user's policy.
const ATTEMPTS_MAX: u32 = 500;

/// The shortest sequence found that fails, and what is said of it.
///
/// `simpler` offers operations that may stand for one: of two that fail alike, the simpler one is easier to follow.
pub(crate) fn shortest<T: Clone>(
    failing: &[T],
    said: String,
    simpler: &dyn Fn(&T) -> Vec<T>,
    fails: &mut dyn FnMut(&[T]) -> Option<String>,
) -> (Vec<T>, String) {
    let mut search = Search { best: failing.to_vec(), said, attempts: 0, fails };
    loop {
        let has_fewer = search.take_out();
        // An operation that is gone moves those behind it: then the place of a cut must move as well.
        if !search.simplify(simpler) && !has_fewer || search.attempts >= ATTEMPTS_MAX {
            return (search.best, search.said);
        }
    }
}

struct Search<'a, T> {
    best: Vec<T>,
    said: String,
    attempts: u32,
    fails: &'a mut dyn FnMut(&[T]) -> Option<String>,
}

impl<T: Clone> Search<'_, T> {
    /// Keeps `other` if it fails as well.
    fn try_other(&mut self, other: Vec<T>) -> bool {
        if self.attempts >= ATTEMPTS_MAX {
            return false;
        }
        self.attempts += 1;
        let Some(reason) = (self.fails)(&other) else { return false };
        (self.best, self.said) = (other, reason);
        true
    }

    fn take_out(&mut self) -> bool {
        let before = self.best.len();
        // Not the whole: an empty sequence says nothing, even if it fails.
        let mut part = before / 2;
        while part > 0 {
            let mut from = 0;
            while from < self.best.len() {
                let to = (from + part).min(self.best.len());
                let without = self.best[..from].iter().chain(&self.best[to..]).cloned().collect();
                // What follows has moved to `from`, if the part was not needed.
                if !self.try_other(without) {
                    from = to;
                }
            }
            part /= 2;
        }
        self.best.len() < before
    }

    fn simplify(&mut self, simpler: &dyn Fn(&T) -> Vec<T>) -> bool {
        let mut has_changed = false;
        for place in 0..self.best.len() {
            for other in simpler(&self.best[place]) {
                let mut changed = self.best.clone();
                changed[place] = other;
                if self.try_other(changed) {
                    has_changed = true;
                    break;
                }
            }
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::shortest;

    #[test]
    fn only_what_is_needed_to_fail_is_left() {
        let numbers: Vec<u32> = (0..100).collect();
        let mut fails = |some: &[u32]| {
            (some.contains(&7) && some.contains(&93)).then(|| format!("{} numbers", some.len()))
        };
        let (left, said) = shortest(&numbers, "100 numbers".into(), &|_| Vec::new(), &mut fails);
        assert_eq!((left, said.as_str()), (vec![7, 93], "2 numbers"));
    }

    #[test]
    fn simpler_operations_take_the_place_of_others() {
        let mut fails = |some: &[u32]| (some.iter().sum::<u32>() >= 10).then(String::new);
        let halves = |number: &u32| vec![number / 2];
        let (left, _) = shortest(&[40, 1, 2, 3], String::new(), &halves, &mut fails);
        assert_eq!(left, [10]);
    }

    #[test]
    fn a_sequence_of_which_nothing_can_be_taken_stays() {
        let mut fails = |some: &[u32]| (some.len() == 3).then(String::new);
        assert_eq!(shortest(&[1, 2, 3], String::new(), &|_| Vec::new(), &mut fails).0, [1, 2, 3]);
    }
}
