//! The places on which a device executes commands at once.

/// When each place is free: a heap, the first of them at the root.
// A search of all took a tenth of a command's time on a device that executes 32. Which place it is does not matter:
// all are alike.
#[derive(Clone, Debug)]
pub(crate) struct Places(Vec<u64>);

impl Places {
    /// So many places, all free; at least one.
    pub(crate) fn new(count: u32) -> Self {
        Self(vec![0; count as usize])
    }

    /// When the first place is free.
    #[inline]
    pub(crate) fn first_ns(&self) -> u64 {
        let first_ns = self.0[0];
        debug_assert!(
            self.0.iter().all(|place_ns| first_ns <= *place_ns),
            "no place is free before the first"
        );
        first_ns
    }

    /// Takes the first place until `done_ns`.
    ///
    /// It moves away from the root until no place below it is free earlier.
    #[inline]
    pub(crate) fn occupy_first(&mut self, done_ns: u64) {
        let places = self.0.as_mut_slice();
        let mut place = 0;
        while let Some(one) = places.get(2 * place + 1) {
            // The number of the earlier one is computed: which of two it is cannot be predicted.
            let is_other = places.get(2 * place + 2).is_some_and(|other| other < one);
            let child = 2 * place + 1 + usize::from(is_other);
            if done_ns <= places[child] {
                break;
            }
            places[place] = places[child];
            place = child;
        }
        places[place] = done_ns;
    }

    /// All places are free from the beginning of time on.
    pub(crate) fn start_over(&mut self) {
        self.0.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::Places;
    use crate::tests::panics_with;
    use proptest::prelude::*;

    proptest! {
        /// Beside a list that is searched.
        #[test]
        fn the_first_place_is_that_of_a_list(
            count in 1_u32..40, times in prop::collection::vec(0_u64..50, 1..200)
        ) {
            let (mut places, mut list) = (Places::new(count), vec![0; count as usize]);
            let mut now_ns = 0;
            for busy_ns in times {
                let first = list.iter_mut().min().expect("at least one");
                prop_assert_eq!(places.first_ns(), *first);
                now_ns = now_ns.max(*first) + busy_ns % 3;
                *first = now_ns + busy_ns;
                places.occupy_first(now_ns + busy_ns);
            }
            let mut left = places.0.clone();
            left.sort_unstable();
            list.sort_unstable();
            prop_assert_eq!(left, list);
        }
    }

    #[test]
    fn a_place_that_is_free_before_the_first_is_seen() {
        panics_with("no place is free before the first", || {
            Places(vec![5, 7, 4]).first_ns();
        });
    }
}
