//! Queues that work close to the head (2.6.32 and 3.4).

use super::{Cfq, Version};
use crate::position_tree::{Found, PositionTree};
use crate::queue_id::QueueId;
use crate::{Queue, RequestId};

impl<V: Version> Cfq<V> {
    /// Distance of a request from the head.
    pub(super) fn distance_from_head(&self, request: RequestId, queue: &Queue) -> u64 {
        queue.requests[request].sector().abs_diff(self.head)
    }

    /// Puts a queue into the tree of its level under its next request, or nowhere if it has none.
    /// Of queues whose next requests start at one sector only the first is in the tree.
    pub(super) fn update_position(&mut self, id: QueueId, queue: &Queue) {
        if !V::KNOWS_POSITIONS {
            return;
        }
        // Removed first even if the sector is the same: `cfq_prio_tree_add` erases the node and
        // inserts it anew, which changes the tree's shape.
        self.leave_position(id);
        let own = &self.queues[id];
        // The idle class never cooperates: waiting is its purpose.
        let Some(next) = own.next.filter(|_| !own.is_idle_class()) else { return };
        let level = own.level;
        let queues = &self.queues;
        // Sectors are read from the queues at each comparison, as the kernel does; a key stored in
        // the node would hide that it is out of order.
        let position = |other: QueueId| sector_of_next(queues[other].next, queue);
        let is_in = self.positions[usize::from(level)].insert(
            &mut self.position_nodes,
            id,
            queue.requests[next].sector(),
            position,
        );
        // A queue that found its sector taken stands in no tree and is not found until it is placed
        // again.
        self.queues[id].position_level = is_in.then_some(level);
    }

    pub(super) fn leave_position(&mut self, id: QueueId) {
        if let Some(level) = self.queues[id].position_level.take() {
            self.positions[usize::from(level)].remove(&mut self.position_nodes, id);
        }
    }

    /// A queue of a level whose next request starts at the head, or no more than `reach` from it.
    ///
    /// Tried are the queue that the search for the head ends at, and the one on the other side.
    pub(super) fn queue_at_head(&self, level: u8, reach: u64, queue: &Queue) -> Option<QueueId> {
        let nodes = &self.position_nodes;
        let position = |id: QueueId| sector_of_next(self.queues[id].next, queue);
        // The distance counts from the head, so a queue far ahead of the search's end may still be
        // close.
        let is_close = |id: &QueueId| position(*id).abs_diff(self.head) <= reach;
        match self.positions[usize::from(level)].find(nodes, self.head, position) {
            Found::Nothing => None,
            Found::Exact(id) => Some(id),
            // The parent of the empty leaf is the closest on one side only; `cfqq_close` looks at
            // its neighbour too.
            Found::Below(id) if is_close(&id) => Some(id),
            Found::Below(id) if position(id) < self.head => {
                PositionTree::next(nodes, id).filter(is_close)
            }
            Found::Below(id) => PositionTree::previous(nodes, id).filter(is_close),
        }
    }
}

fn sector_of_next(next: Option<RequestId>, queue: &Queue) -> u64 {
    next.map_or(0, |request| queue.requests[request].sector())
}
