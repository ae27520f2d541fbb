//! The trees of a priority class: entities that wait, entities that are idle, and the virtual time.
//!
//! Quirk: the choice of the smallest finish among the eligible entities searches the tree as the
//! kernel does. Once it has passed an eligible entity it looks at left children alone, so that an
//! eligible entity to the right of one that is not is overlooked (`bfq_first_active_entity`). What is
//! found depends on the shape of the tree.
//!
//! Source: Linux 6.1 and 6.12, `struct bfq_service_tree`, `block/bfq-wf2q.c`.

use super::entity::{Tree, is_later};
use super::queue::Queues;
use crate::position_tree::{Nodes, PositionTree};
use crate::queue_id::QueueId;

/// Trees of one class.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceTree {
    /// Entities that wait, by finish; equal ones in the order of insertion.
    active: PositionTree,
    /// Entities that are idle, by finish.
    // A sorted list, not a tree: only its ends are looked at, and those do not depend on a shape.
    idle: Vec<QueueId>,
    pub vtime: u64,
    /// Sum of the weights of all that wait, are idle or are in service.
    pub weights: u64,
}

impl ServiceTree {
    pub(super) fn has_active(&self) -> bool {
        self.active.root().is_some()
    }

    /// `bfq_active_insert`, without the list.
    pub(super) fn insert_active(&mut self, nodes: &mut Nodes, queues: &mut Queues, id: QueueId) {
        debug_assert!(queues[id].entity.tree.is_none(), "an entity stands in one tree");
        let finish = queues[id].entity.finish;
        // Of equals to the right: who waits longer is served first (`bfq_insert`).
        self.active.insert_by(nodes, id, |other| is_later(queues[other].entity.finish, finish));
        queues[id].entity.tree = Some(Tree::Active);
        let [left, right] = nodes.below(id);
        // A rotation may have put nodes below the new one: from the deepest that changed (`bfq_active_insert`).
        update_upwards(nodes, queues, left.or(right).unwrap_or(id));
    }

    /// `bfq_active_extract`, without the list.
    pub(super) fn extract_active(&mut self, nodes: &mut Nodes, queues: &mut Queues, id: QueueId) {
        debug_assert_eq!(queues[id].entity.tree, Some(Tree::Active), "it waits");
        // Before the removal, which forgets the neighbours.
        let deepest = deepest_changed(nodes, id);
        self.active.remove(nodes, id);
        queues[id].entity.tree = None;
        if let Some(deepest) = deepest {
            update_upwards(nodes, queues, deepest);
        }
    }

    /// `bfq_idle_insert`.
    pub(super) fn insert_idle(&mut self, queues: &mut Queues, id: QueueId) {
        debug_assert!(queues[id].entity.tree.is_none(), "an entity stands in one tree");
        let finish = queues[id].entity.finish;
        let place =
            self.idle.partition_point(|other| !is_later(queues[*other].entity.finish, finish));
        self.idle.insert(place, id);
        queues[id].entity.tree = Some(Tree::Idle);
    }

    /// `bfq_idle_extract`.
    pub(super) fn extract_idle(&mut self, queues: &mut Queues, id: QueueId) {
        debug_assert_eq!(queues[id].entity.tree, Some(Tree::Idle), "it is idle");
        self.idle.retain(|other| *other != id);
        queues[id].entity.tree = None;
    }

    /// Sets the virtual time to the last idle finish if nothing waits, and says which idle entity is to
    /// be forgotten (`bfq_forget_idle`): one at most, for the time moves with each request.
    pub(super) fn settle_idle(&mut self, queues: &Queues) -> Option<QueueId> {
        let finish = |id: &QueueId| queues[*id].entity.finish;
        if !self.has_active()
            && let Some(last) = self.idle.last().map(finish)
            && !is_later(last, self.vtime)
        {
            // This may set the time back. Nothing waits, so nobody's stamps are hurt.
            self.vtime = last;
        }
        self.idle.first().copied().filter(|first| !is_later(finish(first), self.vtime))
    }

    /// The virtual time, or the smallest start of what waits if that lies ahead.
    pub(super) fn jump(&self, queues: &Queues) -> u64 {
        let start = self.active.root().map(|root| queues[root].entity.min_start);
        start.filter(|start| is_later(*start, self.vtime)).unwrap_or(self.vtime)
    }

    /// The eligible entity with the smallest finish, as far as the kernel finds it.
    pub(super) fn first(&self, nodes: &Nodes, queues: &Queues, vtime: u64) -> Option<QueueId> {
        let is_eligible = |start: u64| !is_later(start, vtime);
        // Once one is found the search goes left alone, to earlier finishes: the last one found is the first.
        let (mut first, mut node) = (None, self.active.root());
        while let Some(id) = node {
            if is_eligible(queues[id].entity.start) {
                first = Some(id);
            }
            let [left, right] = nodes.below(id);
            let is_left = left.filter(|left| is_eligible(queues[*left].entity.min_start));
            node = match (is_left, first) {
                (Some(left), _) => Some(left),
                (None, Some(_)) => break,
                (None, None) => right,
            };
        }
        first
    }

    /// All that wait or are idle, for a check.
    pub(super) fn members(&self, nodes: &Nodes) -> Vec<QueueId> {
        let mut members = self.idle.clone();
        let mut open: Vec<QueueId> = self.active.root().into_iter().collect();
        while let Some(id) = open.pop() {
            members.push(id);
            open.extend(nodes.below(id).into_iter().flatten());
        }
        members
    }

    pub(super) fn bytes(&self) -> usize {
        self.idle.capacity() * size_of::<QueueId>()
    }
}

/// `bfq_update_active_node`.
fn update_node(nodes: &Nodes, queues: &mut Queues, id: QueueId) {
    // A search can tell by this whether a subtree has anything eligible.
    let mut smallest = queues[id].entity.start;
    for child in nodes.below(id).into_iter().flatten() {
        let start = queues[child].entity.min_start;
        if is_later(smallest, start) {
            smallest = start;
        }
    }
    queues[id].entity.min_start = smallest;
}

/// `bfq_update_active_tree`: this node, then upwards with the siblings that a rotation may have changed.
fn update_upwards(nodes: &Nodes, queues: &mut Queues, mut id: QueueId) {
    loop {
        update_node(nodes, queues, id);
        let Some(above) = nodes.above(id) else { return };
        let [left, right] = nodes.below(above);
        let sibling = if left == Some(id) { right } else { left };
        if let Some(sibling) = sibling {
            update_node(nodes, queues, sibling);
        }
        id = above;
    }
}

/// The deepest node that the removal of `id` changes (`bfq_find_deepest`).
fn deepest_changed(nodes: &Nodes, id: QueueId) -> Option<QueueId> {
    match nodes.below(id) {
        [None, None] => nodes.above(id),
        [Some(only), None] | [None, Some(only)] => Some(only),
        // The successor takes the place of the node (`rb_erase`), so its old place is the deepest that changes.
        [Some(_), Some(_)] => {
            let heir = PositionTree::next(nodes, id)?;
            match nodes.below(heir)[1] {
                Some(right) => Some(right),
                None if nodes.above(heir) != Some(id) => nodes.above(heir),
                None => Some(heir),
            }
        }
    }
}
