//! Busy queues in the order of their turns (`cfq_rb_root`).

use super::process::ThinkTime;
use crate::queue_id::QueueId;

/// Where a busy queue stands: the smallest rank first, in it the smallest key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which of the scheduler's service trees.
    // 3.4 has a tree for each class and kind of work, and no ranks; before, `cfq_service_tree_add`
    // compared classes before keys.
    pub tree: usize,
    /// Order of classes in one tree.
    pub rank: u8,
    /// A time in jiffies: the earlier, the sooner the turn.
    pub key: u64,
}

impl Place {
    fn order(&self) -> (u8, u64) {
        (self.rank, self.key)
    }
}

/// Busy queues by rank and key; of equals, the one that came first.
#[derive(Clone, Debug, Default)]
// A sorted vector: tens of queues at most, and the order among equals must be that of insertion.
pub(super) struct ServiceTree {
    entries: Vec<(Place, QueueId)>,
    /// Of all processes whose queues are here (3.4).
    pub think_time: ThinkTime,
}

impl ServiceTree {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn first(&self) -> Option<(Place, QueueId)> {
        self.entries.first().copied()
    }

    pub(super) fn last(&self) -> Option<(Place, QueueId)> {
        self.entries.last().copied()
    }

    /// True if the queue stands at the place.
    pub(super) fn holds(&self, place: Place, id: QueueId) -> bool {
        self.entries.contains(&(place, id))
    }

    /// True if no queue stands before one of a smaller rank or key.
    pub(super) fn is_sorted(&self) -> bool {
        self.entries.is_sorted_by_key(|(place, _)| place.order())
    }

    pub(super) fn insert(&mut self, place: Place, id: QueueId) {
        debug_assert!(
            self.entries.iter().all(|(_, other)| *other != id),
            "a busy queue is in its tree once"
        );
        // `<=` puts a queue behind others of the same key: `cfq_service_tree_add` descends to the
        // right when keys are equal.
        let after = self.entries.partition_point(|(other, _)| other.order() <= place.order());
        self.entries.insert(after, (place, id));
    }

    pub(super) fn remove(&mut self, place: Place, id: QueueId) {
        let from = self.entries.partition_point(|(other, _)| other.order() < place.order());
        let offset = self.entries[from..].iter().position(|(_, other)| *other == id);
        self.entries.remove(from + offset.expect("a busy queue is in its tree"));
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.entries.capacity() * size_of::<(Place, QueueId)>()
    }
}

#[cfg(test)]
mod tests {
    use super::{Place, QueueId, ServiceTree};
    use crate::tests::panics_with;

    #[test]
    fn an_order_that_is_broken_is_seen() {
        let place = |rank, key| Place { tree: 0, rank, key };
        let mut tree = ServiceTree::default();
        tree.insert(place(1, 5), QueueId(0));
        tree.insert(place(0, 9), QueueId(1));
        assert!(tree.is_sorted() && tree.holds(place(0, 9), QueueId(1)));
        assert!(!tree.holds(place(0, 8), QueueId(1)));
        panics_with("a busy queue is in its tree", || tree.clone().remove(place(1, 4), QueueId(2)));
        tree.entries.swap(0, 1);
        assert!(!tree.is_sorted());
    }
}
