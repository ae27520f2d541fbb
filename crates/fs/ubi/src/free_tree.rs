//! The free blocks, ordered by erase counter and number, in a red-black tree.
//!
//! A sorted set would do, if the kernel did not take the block at the root:
//! which one that is depends on the shape of the tree, so the tree keeps the shape that insertions and
//! removals give it. Source: T. H. Cormen et al., *Introduction to Algorithms*, chapter 13; Linux's
//! `lib/rbtree.c` rebalances likewise. Uses numbers only.

use crate::numbers::PebNumber;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node {
    erase_counter: u64,
    parent: u32,
    /// The child with lesser keys, the child with greater ones.
    children: [u32; 2],
    is_red: bool,
    is_in: bool,
}

const OUT: Node =
    Node { erase_counter: 0, parent: NONE, children: [NONE; 2], is_red: false, is_in: false };

/// Free blocks by (erase counter, number).
#[derive(Clone, Debug)]
pub(crate) struct FreeTree {
    /// One node a block, by its number.
    nodes: Vec<Node>,
    root: u32,
    count: u32,
}

impl FreeTree {
    /// An empty tree of a device of so many blocks.
    pub(crate) fn new(peb_count: u32) -> Self {
        Self { nodes: vec![OUT; peb_count as usize], root: NONE, count: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    pub(crate) fn contains(&self, peb: PebNumber) -> bool {
        self.nodes[peb.index()].is_in
    }

    /// The block at the root.
    pub(crate) fn root(&self) -> Option<PebNumber> {
        (self.root != NONE).then(|| PebNumber::new(self.root))
    }

    /// The least worn block.
    pub(crate) fn first(&self) -> Option<PebNumber> {
        self.end(0)
    }

    /// The most worn block.
    pub(crate) fn last(&self) -> Option<PebNumber> {
        self.end(1)
    }

    fn end(&self, side: usize) -> Option<PebNumber> {
        let mut at = self.root()?.get();
        while self.child(at, side) != NONE {
            at = self.child(at, side);
        }
        Some(PebNumber::new(at))
    }

    /// The erase counter that a free block was added with.
    pub(crate) fn erase_counter(&self, peb: PebNumber) -> u64 {
        debug_assert!(self.contains(peb), "block {peb} is not free");
        self.counter_of(peb.get())
    }

    fn counter_of(&self, at: u32) -> u64 {
        self.nodes[at as usize].erase_counter
    }

    /// The greatest block whose counter is below `limit`; the first if there is none
    /// (`find_wl_entry`).
    pub(crate) fn last_below(&self, limit: u64) -> Option<PebNumber> {
        let mut found = self.first()?.get();
        let mut at = self.root;
        while at != NONE {
            if self.counter_of(at) >= limit {
                at = self.child(at, 0);
            } else {
                found = at;
                at = self.child(at, 1);
            }
        }
        Some(PebNumber::new(found))
    }

    fn child(&self, at: u32, side: usize) -> u32 {
        self.nodes[at as usize].children[side]
    }

    fn key(&self, at: u32) -> (u64, u32) {
        (self.counter_of(at), at)
    }

    fn is_red(&self, at: u32) -> bool {
        at != NONE && self.nodes[at as usize].is_red
    }

    fn node(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    /// Which child of its parent a node is.
    fn side(&self, at: u32, parent: u32) -> usize {
        usize::from(self.child(parent, 1) == at)
    }

    /// Puts `with` in the place that `at` has under its parent.
    fn replace(&mut self, at: u32, with: u32) {
        let parent = self.nodes[at as usize].parent;
        if parent == NONE {
            self.root = with;
        } else {
            let side = self.side(at, parent);
            self.node(parent).children[side] = with;
        }
        if with != NONE {
            self.node(with).parent = parent;
        }
    }

    /// Turns the tree at a node: it goes down to `side`, its other child goes up.
    fn rotate(&mut self, at: u32, side: usize) {
        let up = self.child(at, 1 - side);
        let moved = self.child(up, side);
        self.replace(at, up);
        self.node(at).children[1 - side] = moved;
        if moved != NONE {
            self.node(moved).parent = at;
        }
        self.node(up).children[side] = at;
        self.node(at).parent = up;
    }

    /// Adds a block that is not in the tree.
    pub(crate) fn insert(&mut self, peb: PebNumber, erase_counter: u64) {
        debug_assert!(!self.contains(peb), "block {peb} is free already");
        let peb = peb.get();
        let (mut parent, mut side, mut at) = (NONE, 0, self.root);
        while at != NONE {
            parent = at;
            // By counter, then by number: `wl_tree_add` compares the same way, and the shape
            // depends on it.
            side = usize::from((erase_counter, peb) > self.key(at));
            at = self.child(at, side);
        }
        *self.node(peb) =
            Node { erase_counter, parent, children: [NONE; 2], is_red: true, is_in: true };
        if parent == NONE {
            self.root = peb;
        } else {
            self.node(parent).children[side] = peb;
        }
        self.count += 1;
        self.balance_insertion(peb);
    }

    fn balance_insertion(&mut self, inserted: u32) {
        let mut at = inserted;
        loop {
            let parent = self.nodes[at as usize].parent;
            if !self.is_red(parent) {
                break;
            }
            let grandparent = self.nodes[parent as usize].parent;
            let side = self.side(parent, grandparent);
            let uncle = self.child(grandparent, 1 - side);
            if self.is_red(uncle) {
                self.node(parent).is_red = false;
                self.node(uncle).is_red = false;
                self.node(grandparent).is_red = true;
                at = grandparent;
                continue;
            }
            let mut top = parent;
            if self.side(at, parent) != side {
                self.rotate(parent, side);
                top = at;
            }
            self.node(top).is_red = false;
            self.node(grandparent).is_red = true;
            self.rotate(grandparent, 1 - side);
            break;
        }
        let root = self.root;
        self.node(root).is_red = false;
    }

    /// Takes a block out; false if it is not in the tree.
    pub(crate) fn remove(&mut self, peb: PebNumber) -> bool {
        if !self.contains(peb) {
            return false;
        }
        let peb = peb.get();
        let [lesser, greater] = self.nodes[peb as usize].children;
        let (lost_red, hole, hole_parent);
        if lesser == NONE || greater == NONE {
            hole = if lesser == NONE { greater } else { lesser };
            hole_parent = self.nodes[peb as usize].parent;
            lost_red = self.is_red(peb);
            self.replace(peb, hole);
        } else {
            // The next greater block takes the place, and the colour.
            // The successor, not the predecessor: `rb_erase` takes the leftmost of the right side.
            let mut next = greater;
            while self.child(next, 0) != NONE {
                next = self.child(next, 0);
            }
            lost_red = self.is_red(next);
            hole = self.child(next, 1);
            if next == greater {
                hole_parent = next;
            } else {
                hole_parent = self.nodes[next as usize].parent;
                self.replace(next, hole);
                self.node(next).children[1] = greater;
                self.node(greater).parent = next;
            }
            self.replace(peb, next);
            self.node(next).children[0] = lesser;
            self.node(lesser).parent = next;
            let colour = self.is_red(peb);
            self.node(next).is_red = colour;
        }
        *self.node(peb) = OUT;
        self.count -= 1;
        if !lost_red {
            self.balance_removal(hole, hole_parent);
        }
        true
    }

    fn balance_removal(&mut self, hole: u32, hole_parent: u32) {
        let (mut at, mut parent) = (hole, hole_parent);
        while at != self.root && !self.is_red(at) && parent != NONE {
            // Beside a hole that lost a black node there is a sibling, so the hole is on one side only.
            let side = usize::from(self.child(parent, 0) != at);
            let mut sibling = self.child(parent, 1 - side);
            if self.is_red(sibling) {
                self.node(sibling).is_red = false;
                self.node(parent).is_red = true;
                self.rotate(parent, side);
                sibling = self.child(parent, 1 - side);
            }
            let [near, far] = [self.child(sibling, side), self.child(sibling, 1 - side)];
            if !self.is_red(near) && !self.is_red(far) {
                self.node(sibling).is_red = true;
                at = parent;
                parent = self.nodes[at as usize].parent;
                continue;
            }
            if !self.is_red(far) {
                self.node(near).is_red = false;
                self.node(sibling).is_red = true;
                self.rotate(sibling, 1 - side);
                sibling = self.child(parent, 1 - side);
            }
            let colour = self.is_red(parent);
            self.node(sibling).is_red = colour;
            self.node(parent).is_red = false;
            let far = self.child(sibling, 1 - side);
            self.node(far).is_red = false;
            self.rotate(parent, side);
            at = self.root;
        }
        if at != NONE {
            self.node(at).is_red = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FreeTree, NONE, PebNumber};
    use random::Stream;
    use std::collections::BTreeSet;

    /// Black nodes down to any leaf; panics where the tree is not one.
    fn black_height(tree: &FreeTree, at: u32) -> u32 {
        if at == NONE {
            return 1;
        }
        let [lesser, greater] = tree.nodes[at as usize].children;
        for child in [lesser, greater].into_iter().filter(|child| *child != NONE) {
            assert_eq!(tree.nodes[child as usize].parent, at);
            assert!(!(tree.is_red(at) && tree.is_red(child)), "two red ones in a row");
        }
        assert!(lesser == NONE || tree.key(lesser) < tree.key(at));
        assert!(greater == NONE || tree.key(greater) > tree.key(at));
        let heights = [lesser, greater].map(|child| black_height(tree, child));
        assert_eq!(heights[0], heights[1]);
        heights[0] + u32::from(!tree.is_red(at))
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "block 3 is free already")]
    fn a_block_is_free_once() {
        let mut tree = FreeTree::new(8);
        tree.insert(PebNumber::new(3), 1);
        tree.insert(PebNumber::new(3), 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "block 3 is not free")]
    fn a_block_in_use_has_no_counter_here() {
        FreeTree::new(8).erase_counter(PebNumber::new(3));
    }

    #[test]
    fn it_stays_a_sorted_red_black_tree() {
        let mut stream = Stream::new(1, "tree");
        let (mut tree, mut set) = (FreeTree::new(200), BTreeSet::new());
        for _ in 0..20_000 {
            let (peb, counter) = (stream.below(200), u64::from(stream.below(5)));
            let number = PebNumber::new(peb);
            if tree.contains(number) {
                set.remove(&tree.key(peb));
                assert!(tree.remove(number));
            } else {
                assert!(!tree.remove(number));
                set.insert((counter, peb));
                tree.insert(number, counter);
            }
            assert_eq!(tree.len() as usize, set.len());
            let number = |key: &(u64, u32)| PebNumber::new(key.1);
            assert_eq!(tree.first(), set.first().map(number));
            assert_eq!(tree.last(), set.last().map(number));
            let below = set.range(..(3, 0)).next_back().or(set.first()).map(number);
            assert_eq!(tree.last_below(3), below);
            assert!(!tree.is_red(tree.root));
            black_height(&tree, tree.root);
        }
    }

    /// Linux 6.12 took blocks 129, 130, 131 of a device of 512 whose first two held the volume table.
    #[test]
    fn the_root_is_the_one_that_linux_takes() {
        let mut tree = FreeTree::new(512);
        (2..512).for_each(|peb| tree.insert(PebNumber::new(peb), 0));
        let mut taken = Vec::new();
        for _ in 0..3 {
            let root = tree.root().expect("it is full");
            tree.remove(root);
            taken.push(root.get());
        }
        assert_eq!(taken, [129, 130, 131]);
    }
}
