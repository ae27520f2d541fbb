//! Busy queues in the order of their turns (`cfq_rb_root`).

use super::process::ThinkTime;
use super::queue::QueueId;

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

    pub(super) fn insert(&mut self, place: Place, id: QueueId) {
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
