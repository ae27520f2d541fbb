//! From which submission queue a drive fetches next.
//!
//! Round robin takes at most one burst from each queue that has commands. Weighted arbitration serves urgent queues
//! first of all. The classes high, medium and low follow in that order, each with as many commands in a round as its
//! weight; a class without commands is passed over. Within a class queues take turns, a burst each.
//!
//! A turn ends with the burst, or when the drive finds the queue empty. It looks when it can execute a command more.
//!
//! Source: NVM Express base specification, command arbitration and feature 01h. It leaves open in which pieces a round
//! gives each class its commands; here all of a class come in a row.

use crate::host_queues::{Arbitration, HostQueues, Weights};

/// Queues of one class, which take turns.
#[derive(Clone, Debug)]
struct Turns {
    /// First queue of the class.
    first: usize,
    /// Queues of the class.
    count: usize,
    /// The queue whose turn it is, counted from the first.
    current: usize,
    /// Commands left of its turn.
    left: u32,
}

impl Turns {
    fn new(first: usize, count: usize) -> Self {
        // Before the first turn, the last queue has had its own.
        Self { first, count, current: count.saturating_sub(1), left: 0 }
    }

    /// The queue of the next command, if one has any; counts it.
    fn next(&mut self, burst: u32, has_command: &impl Fn(usize) -> bool) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        if self.left > 0 && has_command(self.first + self.current) {
            self.left -= 1;
            return Some(self.first + self.current);
        }
        // The queue that had its turn comes last.
        let behind = self.current + 1..self.count;
        let place = behind.chain(0..=self.current).find(|place| has_command(self.first + place))?;
        self.current = place;
        self.left = burst - 1;
        Some(self.first + place)
    }
}

/// Classes with a weight: high, medium and low.
const WEIGHTED: usize = 3;

/// The arbiter of a drive: whose turn it is.
#[derive(Clone, Debug)]
pub(crate) struct Arbiter {
    burst: u32,
    /// Queues that go first of all.
    urgent: Turns,
    classes: [Turns; WEIGHTED],
    /// Commands of each class in a round.
    weights: [u32; WEIGHTED],
    /// The class whose turn it is, and what is left of its weight.
    class: usize,
    credit: u32,
}

impl Arbiter {
    pub(crate) fn new(queues: &HostQueues) -> Self {
        let count = queues.count as usize;
        let (urgent, sizes, weights) = match queues.arbitration {
            // One class of all queues whose weight is never used up.
            Arbitration::RoundRobin => (0, [count, 0, 0], [u32::MAX; WEIGHTED]),
            Arbitration::Weighted(weights) => {
                let Weights { queues_urgent, queues_high, queues_low, high, medium, low } = weights;
                let [urgent, first, last] =
                    [queues_urgent, queues_high, queues_low].map(|count| count as usize);
                debug_assert!(urgent + first + last <= count, "every queue is of one class");
                (urgent, [first, count - urgent - first - last, last], [high, medium, low])
            }
        };
        let mut begin = urgent;
        let classes = sizes.map(|size| {
            begin += size;
            Turns::new(begin - size, size)
        });
        Self {
            burst: queues.burst.unwrap_or(u32::MAX),
            urgent: Turns::new(0, urgent),
            classes,
            weights,
            class: 0,
            credit: weights[0],
        }
    }

    /// The queue from which a command is fetched now; none if none has any.
    pub(crate) fn next(&mut self, has_command: impl Fn(usize) -> bool) -> Option<usize> {
        if let Some(queue) = self.urgent.next(self.burst, &has_command) {
            return Some(queue);
        }
        // Each class once, and the first of them again: its round may be over while no other has commands.
        for _ in 0..=WEIGHTED {
            if self.credit > 0
                && let Some(queue) = self.classes[self.class].next(self.burst, &has_command)
            {
                self.credit -= 1;
                return Some(queue);
            }
            self.class = (self.class + 1) % WEIGHTED;
            self.credit = self.weights[self.class];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::Arbiter;
    use crate::host_queues::{Arbitration, HostQueues, Weights};

    fn queues(count: u32, burst: Option<u32>, arbitration: Arbitration) -> HostQueues {
        HostQueues { count, executes: 1, burst, arbitration, coalescing: None }
    }

    /// The order in which queues with so many commands are served.
    fn order(queues: &HostQueues, mut left: Vec<u32>) -> String {
        let mut arbiter = Arbiter::new(queues);
        let mut order = String::new();
        while let Some(queue) = arbiter.next(|queue| left[queue] > 0) {
            left[queue] -= 1;
            order += &queue.to_string();
        }
        assert!(left.iter().all(|left| *left == 0), "what is there is fetched");
        order
    }

    #[test]
    fn round_robin_takes_a_burst_from_each_queue() {
        let order = |burst, left| order(&queues(3, burst, Arbitration::RoundRobin), left);
        assert_eq!(order(Some(1), vec![4, 1, 2]), "0120200");
        assert_eq!(order(Some(2), vec![4, 1, 3]), "00122002");
        assert_eq!(order(Some(2), vec![0, 5, 0]), "11111");
        assert_eq!(order(None, vec![4, 1, 3]), "00001222");
    }

    #[test]
    fn urgent_queues_go_first_and_classes_have_their_weights() {
        let weights =
            Weights { queues_urgent: 1, queues_high: 1, queues_low: 1, high: 3, medium: 2, low: 1 };
        let order = |burst, left| order(&queues(5, burst, Arbitration::Weighted(weights)), left);
        assert_eq!(order(Some(1), vec![2, 6, 3, 3, 3]), "00111234111234234");
        // A burst ends with the weight of its class, and goes on in the next round.
        assert_eq!(order(Some(4), vec![0, 4, 5, 3, 0]), "111221223332");
        assert_eq!(order(Some(1), vec![0, 0, 0, 0, 4]), "4444", "a class alone has all");
    }

    #[test]
    fn more_queues_with_a_class_than_there_are_is_seen() {
        let (queues_urgent, queues_high, queues_low) = (1, 1, 1);
        let (high, medium, low) = (1, 1, 1);
        let weights = Weights { queues_urgent, queues_high, queues_low, high, medium, low };
        Arbiter::new(&queues(3, Some(1), Arbitration::Weighted(weights)));
        crate::tests::panics_with("every queue is of one class", || {
            Arbiter::new(&queues(2, Some(1), Arbitration::Weighted(weights)));
        });
    }

    /// However far apart depths are, a queue that always has commands gets its share.
    #[test]
    fn shares_of_queues_that_are_never_empty() {
        let shares = |queues: &HostQueues, rounds: u32| {
            let mut arbiter = Arbiter::new(queues);
            let mut counts = vec![0_u32; queues.count as usize];
            for _ in 0..rounds {
                counts[arbiter.next(|_| true).expect("all have commands")] += 1;
            }
            counts
        };
        assert_eq!(shares(&queues(4, Some(8), Arbitration::RoundRobin), 4 * 800), [800; 4]);
        let weights = Weights {
            queues_urgent: 0,
            queues_high: 1,
            queues_low: 1,
            high: 16,
            medium: 4,
            low: 1,
        };
        let weighted = queues(4, Some(1), Arbitration::Weighted(weights));
        assert_eq!(shares(&weighted, 21 * 100), [1600, 200, 200, 100]);
        let urgent = Weights { queues_urgent: 1, ..weights };
        let starved = queues(4, Some(1), Arbitration::Weighted(urgent));
        assert_eq!(shares(&starved, 500), [500, 0, 0, 0], "an urgent queue can starve the rest");
    }
}
