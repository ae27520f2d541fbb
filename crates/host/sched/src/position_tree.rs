//! Queues by the sector of their next request (`prio_trees`, `rq_pos_tree`), to find one close to the head.
//!
//! The kernel does not move a queue in its tree when only its next request changes, so the tree is
//! at times out of order, and what a search finds depends on the tree's very shape. Hence a real
//! red-black tree, balanced as textbooks (and kernels) do, and no sorted map. BFQ's service trees stand
//! on the same nodes, as what they find depends on the shape, too.
//!
//! Source: `cfq_prio_tree_lookup` of Linux 2.6.30 to 3.4, `bfq_rq_pos_tree_lookup` of 6.1 and 6.12,
//! `lib/rbtree.c`; T. H. Cormen, C. E. Leiserson,
//! R. L. Rivest, C. Stein, Introduction to Algorithms, chapter 13.

use crate::queue_id::QueueId;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Self {
        if self == Self::Left { Self::Right } else { Self::Left }
    }
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    children: [u32; 2],
    is_red: bool,
}

/// Nodes of all trees; a queue is in one tree at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes(Vec<Node>);

impl Nodes {
    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Node>()
    }

    fn child(&self, node: u32, side: Side) -> u32 {
        self.0[node as usize].children[side as usize]
    }

    fn set_child(&mut self, node: u32, side: Side, child: u32) {
        self.0[node as usize].children[side as usize] = child;
    }

    fn parent(&self, node: u32) -> u32 {
        self.0[node as usize].parent
    }

    fn set_parent(&mut self, node: u32, parent: u32) {
        if node != NONE {
            self.0[node as usize].parent = parent;
        }
    }

    fn is_red(&self, node: u32) -> bool {
        node != NONE && self.0[node as usize].is_red
    }

    fn set_red(&mut self, node: u32, is_red: bool) {
        if node != NONE {
            self.0[node as usize].is_red = is_red;
        }
    }

    fn side(&self, parent: u32, node: u32) -> Side {
        if self.child(parent, Side::Left) == node { Side::Left } else { Side::Right }
    }

    /// The node next to `node` in order, on one side.
    fn neighbour(&self, mut node: u32, side: Side) -> u32 {
        if self.child(node, side) != NONE {
            node = self.child(node, side);
            while self.child(node, side.other()) != NONE {
                node = self.child(node, side.other());
            }
            return node;
        }
        let mut parent = self.parent(node);
        while parent != NONE && self.child(parent, side) == node {
            node = parent;
            parent = self.parent(node);
        }
        parent
    }
}

impl Nodes {
    /// The queue above one in its tree.
    pub(crate) fn above(&self, id: QueueId) -> Option<QueueId> {
        some(self.parent(id.0))
    }

    /// The queues below one, left and right.
    pub(crate) fn below(&self, id: QueueId) -> [Option<QueueId>; 2] {
        self.0[id.index()].children.map(some)
    }
}

/// What a search for a sector ends at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The tree is empty.
    Nothing,
    /// A queue whose next request starts there.
    Exact(QueueId),
    /// The last queue passed, below which the sector would be inserted.
    Below(QueueId),
}

/// One tree; its nodes stand in a [`Nodes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PositionTree {
    root: u32,
}

impl Default for PositionTree {
    fn default() -> Self {
        Self { root: NONE }
    }
}

impl PositionTree {
    /// Searches for a sector; `position` is where the next request of a queue is now.
    pub(crate) fn find(
        self,
        nodes: &Nodes,
        sector: u64,
        position: impl Fn(QueueId) -> u64,
    ) -> Found {
        self.descend(nodes, sector, position).0
    }

    fn descend(
        self,
        nodes: &Nodes,
        sector: u64,
        position: impl Fn(QueueId) -> u64,
    ) -> (Found, Side) {
        let (mut found, mut side, mut node) = (Found::Nothing, Side::Left, self.root);
        while node != NONE {
            let id = QueueId(node);
            found = Found::Below(id);
            side = match sector.cmp(&position(id)) {
                // Strictly as `cfq_prio_tree_lookup` descends. The comparison may be wrong for a
                // node that is out of order, and then the search goes astray as the kernel's does.
                std::cmp::Ordering::Less => Side::Left,
                std::cmp::Ordering::Greater => Side::Right,
                std::cmp::Ordering::Equal => return (Found::Exact(id), side),
            };
            node = nodes.child(node, side);
        }
        (found, side)
    }

    /// Inserts a queue under a sector; false if there is another with the same.
    pub(crate) fn insert(
        &mut self,
        nodes: &mut Nodes,
        id: QueueId,
        sector: u64,
        position: impl Fn(QueueId) -> u64,
    ) -> bool {
        let (found, side) = self.descend(nodes, sector, position);
        let parent = match found {
            // Only the first queue of a sector is in the tree; the kernel leaves `p_root` unset for
            // the other.
            Found::Exact(_) => return false,
            Found::Below(parent) => parent.0,
            Found::Nothing => NONE,
        };
        self.attach(nodes, id, parent, side);
        true
    }

    /// Inserts a queue where the search that turns left as `goes_left` says ends.
    pub(crate) fn insert_by(
        &mut self,
        nodes: &mut Nodes,
        id: QueueId,
        goes_left: impl Fn(QueueId) -> bool,
    ) {
        let (mut parent, mut side, mut node) = (NONE, Side::Left, self.root);
        while node != NONE {
            parent = node;
            side = if goes_left(QueueId(node)) { Side::Left } else { Side::Right };
            node = nodes.child(node, side);
        }
        self.attach(nodes, id, parent, side);
    }

    fn attach(&mut self, nodes: &mut Nodes, id: QueueId, parent: u32, side: Side) {
        if nodes.0.len() <= id.index() {
            let unused = Node { parent: NONE, children: [NONE; 2], is_red: false };
            nodes.0.resize(id.index() + 1, unused);
        }
        nodes.0[id.index()] = Node { parent, children: [NONE; 2], is_red: true };
        if parent == NONE {
            self.root = id.0;
        } else {
            nodes.set_child(parent, side, id.0);
        }
        self.balance_insertion(nodes, id.0);
    }

    /// The queue at the top; none if the tree is empty.
    pub(crate) fn root(self) -> Option<QueueId> {
        some(self.root)
    }

    /// The queue after `id` in the tree.
    pub(crate) fn next(nodes: &Nodes, id: QueueId) -> Option<QueueId> {
        some(nodes.neighbour(id.0, Side::Right))
    }

    /// The queue before `id` in the tree.
    pub(crate) fn previous(nodes: &Nodes, id: QueueId) -> Option<QueueId> {
        some(nodes.neighbour(id.0, Side::Left))
    }

    fn put(&mut self, nodes: &mut Nodes, parent: u32, old: u32, new: u32) {
        if parent == NONE {
            self.root = new;
        } else {
            let side = nodes.side(parent, old);
            nodes.set_child(parent, side, new);
        }
        nodes.set_parent(new, parent);
    }

    /// Moves `node` down to `side`; its child of the other side takes its place.
    fn rotate(&mut self, nodes: &mut Nodes, node: u32, side: Side) {
        let up = nodes.child(node, side.other());
        let inner = nodes.child(up, side);
        nodes.set_child(node, side.other(), inner);
        nodes.set_parent(inner, node);
        let parent = nodes.parent(node);
        self.put(nodes, parent, node, up);
        nodes.set_child(up, side, node);
        nodes.set_parent(node, up);
    }

    fn balance_insertion(&mut self, nodes: &mut Nodes, mut node: u32) {
        while nodes.parent(node) != NONE && nodes.is_red(nodes.parent(node)) {
            let parent = nodes.parent(node);
            let grandparent = nodes.parent(parent);
            let side = nodes.side(grandparent, parent);
            let uncle = nodes.child(grandparent, side.other());
            if nodes.is_red(uncle) {
                nodes.set_red(uncle, false);
                nodes.set_red(parent, false);
                nodes.set_red(grandparent, true);
                node = grandparent;
                continue;
            }
            if nodes.side(parent, node) == side {
                nodes.set_red(parent, false);
            } else {
                self.rotate(nodes, parent, side);
                nodes.set_red(node, false);
                node = parent;
            }
            nodes.set_red(grandparent, true);
            self.rotate(nodes, grandparent, side.other());
        }
        nodes.set_red(self.root, false);
    }

    /// Takes out a queue, which is in this tree.
    pub(crate) fn remove(&mut self, nodes: &mut Nodes, id: QueueId) {
        let node = id.0;
        let [left, right] = nodes.0[id.index()].children;
        let (child, hole_parent, removed_red);
        if left != NONE && right != NONE {
            // The successor takes the place, as `rb_erase` of kernels before 3.7 and
            // `__rb_erase_augmented` of later ones do it; the predecessor would give another valid tree of
            // another shape.
            let heir = nodes.neighbour(node, Side::Right);
            child = nodes.child(heir, Side::Right);
            removed_red = nodes.is_red(heir);
            if nodes.parent(heir) == node {
                hole_parent = heir;
            } else {
                hole_parent = nodes.parent(heir);
                self.put(nodes, hole_parent, heir, child);
                nodes.set_child(heir, Side::Right, right);
                nodes.set_parent(right, heir);
            }
            let parent = nodes.parent(node);
            self.put(nodes, parent, node, heir);
            nodes.set_child(heir, Side::Left, left);
            nodes.set_parent(left, heir);
            let was_red = nodes.is_red(node);
            nodes.set_red(heir, was_red);
        } else {
            child = if left == NONE { right } else { left };
            hole_parent = nodes.parent(node);
            removed_red = nodes.is_red(node);
            self.put(nodes, hole_parent, node, child);
        }
        if !removed_red {
            self.balance_removal(nodes, child, hole_parent);
        }
    }

    /// Makes up for a black node missing above `node`, a child of `parent` that may be none.
    fn balance_removal(&mut self, nodes: &mut Nodes, mut node: u32, mut parent: u32) {
        // Textbook cases 1 to 4. `rb_erase` handles them in this order, so the shape agrees
        // rotation for rotation.
        while parent != NONE && !nodes.is_red(node) {
            let side = nodes.side(parent, node);
            let mut sibling = nodes.child(parent, side.other());
            if nodes.is_red(sibling) {
                nodes.set_red(sibling, false);
                nodes.set_red(parent, true);
                self.rotate(nodes, parent, side);
                sibling = nodes.child(parent, side.other());
            }
            let (near, far) = (nodes.child(sibling, side), nodes.child(sibling, side.other()));
            if !nodes.is_red(near) && !nodes.is_red(far) {
                nodes.set_red(sibling, true);
                node = parent;
                parent = nodes.parent(node);
                continue;
            }
            if !nodes.is_red(far) {
                nodes.set_red(near, false);
                nodes.set_red(sibling, true);
                self.rotate(nodes, sibling, side.other());
                sibling = nodes.child(parent, side.other());
            }
            let parent_red = nodes.is_red(parent);
            nodes.set_red(sibling, parent_red);
            nodes.set_red(parent, false);
            nodes.set_red(nodes.child(sibling, side.other()), false);
            self.rotate(nodes, parent, side);
            node = self.root;
            parent = NONE;
        }
        nodes.set_red(node, false);
    }
}

fn some(node: u32) -> Option<QueueId> {
    (node != NONE).then_some(QueueId(node))
}

#[cfg(test)]
mod tests {
    use super::{Found, NONE, Nodes, PositionTree, Side};
    use crate::queue_id::QueueId;
    use proptest::prelude::*;

    /// Black nodes on every way down, or none if the tree breaks a rule.
    fn black_height(nodes: &Nodes, node: u32) -> Option<u32> {
        if node == NONE {
            return Some(0);
        }
        let sides = [Side::Left, Side::Right].map(|side| nodes.child(node, side));
        let double_red = nodes.is_red(node) && sides.iter().any(|child| nodes.is_red(*child));
        let orphan = sides.iter().any(|child| *child != NONE && nodes.parent(*child) != node);
        let heights = sides.map(|child| black_height(nodes, child));
        if double_red || orphan || heights[0] != heights[1] {
            return None;
        }
        Some(heights[0]? + u32::from(!nodes.is_red(node)))
    }

    proptest! {
        #[test]
        fn stays_sorted_and_balanced(steps in prop::collection::vec((0u32..40, 0u64..60), 1..200)) {
            let (mut nodes, mut tree) = (Nodes::default(), PositionTree::default());
            let mut sectors: Vec<Option<u64>> = vec![None; 40];
            for (id, sector) in steps {
                let place = id as usize;
                if sectors[place].take().is_some() {
                    tree.remove(&mut nodes, QueueId(id));
                } else {
                    let at = |id: QueueId| sectors[id.index()].expect("is in the tree");
                    let is_new = !sectors.contains(&Some(sector));
                    prop_assert_eq!(tree.insert(&mut nodes, QueueId(id), sector, at), is_new);
                    sectors[place] = is_new.then_some(sector);
                }
                prop_assert!(black_height(&nodes, tree.root).is_some());
                let at = |id: QueueId| sectors[id.index()].expect("is in the tree");
                let mut order: Vec<u64> = Vec::new();
                let mut node = match tree.find(&nodes, 0, at) {
                    Found::Nothing => None,
                    Found::Exact(id) | Found::Below(id) => Some(id),
                };
                while let Some(id) = node {
                    order.push(at(id));
                    node = PositionTree::next(&nodes, id);
                }
                let mut expected: Vec<u64> = sectors.iter().flatten().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(order, expected);
            }
        }
    }
}
