//! The tree of a file's chunks ("tnodes"): sixteen chunks in a leaf, eight children in a node.
//!
//! Shape and number of nodes are those of the real tree, for checkpoints hold the leaves and memory
//! is counted by nodes.
//!
//! Source: `yaffs_guts.c` (`yaffs_add_find_tnode_0`, `yaffs_prune_tree`).
//!
//! May use no other file of the crate.

const LEAF_BITS: u32 = 4;
const NODE_BITS: u32 = 3;
/// Chunks of a leaf.
pub(crate) const LEAF_CHUNKS: usize = 1 << LEAF_BITS;
const NODE_CHILDREN: usize = 1 << NODE_BITS;
/// Greatest chunk number of a file.
pub(crate) const CHUNK_MAX: u32 = 0x000f_ffff;

#[derive(Clone, Debug)]
enum Node {
    Leaf(Box<[u32; LEAF_CHUNKS]>),
    Inner(Box<[Option<Node>; NODE_CHILDREN]>),
}

/// Chunks of a file by their number.
#[derive(Clone, Debug)]
pub(crate) struct ChunkTree {
    top: Option<Node>,
    levels: u32,
    leaves: u32,
    nodes: u32,
}

impl Default for ChunkTree {
    fn default() -> Self {
        Self::new()
    }
}

impl ChunkTree {
    /// The tree of a new file: one leaf.
    pub(crate) fn new() -> Self {
        let top = Some(Node::Leaf(Box::new([0; LEAF_CHUNKS])));
        Self { top, levels: 0, leaves: 1, nodes: 0 }
    }

    /// Nodes of all levels.
    pub(crate) fn node_count(&self) -> u32 {
        self.leaves + self.nodes
    }

    fn levels_of(chunk: u32) -> u32 {
        let above = chunk >> LEAF_BITS;
        (u32::BITS - above.leading_zeros()).div_ceil(NODE_BITS)
    }

    fn child_index(chunk: u32, level: u32) -> usize {
        (chunk >> (LEAF_BITS + (level - 1) * NODE_BITS)) as usize & (NODE_CHILDREN - 1)
    }

    /// Place of a chunk on the medium; zero if there is none.
    pub(crate) fn get(&self, chunk: u32) -> u32 {
        if Self::levels_of(chunk) > self.levels {
            return 0;
        }
        let (mut node, mut level) = (self.top.as_ref(), self.levels);
        while let Some(Node::Inner(children)) = node {
            node = children[Self::child_index(chunk, level)].as_ref();
            level -= 1;
        }
        match node {
            Some(Node::Leaf(chunks)) => chunks[chunk as usize % LEAF_CHUNKS],
            _ => 0,
        }
    }

    /// The leaf of a chunk, made if it is not there.
    fn leaf(&mut self, chunk: u32) -> &mut [u32; LEAF_CHUNKS] {
        // The tree grows at its top: what there is becomes child 0 of a new root, for chunk numbers
        // below keep leading zeros.
        debug_assert!(chunk <= CHUNK_MAX, "no file has a chunk {chunk}");
        let wanted = Self::levels_of(chunk.min(CHUNK_MAX));
        while self.levels < wanted {
            let mut children = [const { None }; NODE_CHILDREN];
            children[0] = self.top.take();
            self.top = Some(Node::Inner(Box::new(children)));
            self.nodes += 1;
            self.levels += 1;
        }
        let (leaves, nodes) = (&mut self.leaves, &mut self.nodes);
        let mut level = self.levels;
        let mut place = &mut self.top;
        loop {
            let node = place.get_or_insert_with(|| {
                if level == 0 {
                    *leaves += 1;
                    Node::Leaf(Box::new([0; LEAF_CHUNKS]))
                } else {
                    *nodes += 1;
                    Node::Inner(Box::new([const { None }; NODE_CHILDREN]))
                }
            });
            match node {
                Node::Leaf(chunks) => return chunks,
                Node::Inner(children) => {
                    place = &mut children[Self::child_index(chunk, level)];
                    level -= 1;
                }
            }
        }
    }

    /// Sets the place of a chunk; what it was before.
    pub(crate) fn set(&mut self, chunk: u32, place: u32) -> u32 {
        std::mem::replace(&mut self.leaf(chunk)[chunk as usize % LEAF_CHUNKS], place)
    }

    /// Makes the leaf of a chunk.
    pub(crate) fn prepare(&mut self, chunk: u32) {
        self.leaf(chunk);
    }

    /// Takes a whole leaf, as checkpoints hold it; `first` is the number of its first chunk.
    pub(crate) fn set_leaf(&mut self, first: u32, chunks: [u32; LEAF_CHUNKS]) {
        *self.leaf(first) = chunks;
    }

    /// Calls for every leaf, in order, with the number of its first chunk.
    pub(crate) fn for_each_leaf(&self, mut visit: impl FnMut(u32, &[u32; LEAF_CHUNKS])) {
        fn walk(
            node: Option<&Node>,
            number: u32,
            visit: &mut impl FnMut(u32, &[u32; LEAF_CHUNKS]),
        ) {
            match node {
                None => {}
                Some(Node::Leaf(chunks)) => visit(number << LEAF_BITS, chunks),
                Some(Node::Inner(children)) => {
                    for (index, child) in children.iter().enumerate() {
                        walk(child.as_ref(), number << NODE_BITS | index as u32, visit);
                    }
                }
            }
        }
        walk(self.top.as_ref(), 0, &mut visit);
    }

    /// All chunks that have a place: number and place.
    pub(crate) fn chunks(&self) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        self.for_each_leaf(|first, chunks| {
            let used = (first..).zip(chunks).filter(|(_, place)| **place != 0);
            all.extend(used.map(|(chunk, place)| (chunk, *place)));
        });
        all
    }

    /// Frees what holds no chunk; the first leaf stays.
    pub(crate) fn prune(&mut self) {
        if self.levels == 0 {
            return;
        }
        let (mut leaves, mut nodes) = (self.leaves, self.nodes);
        // Child 0 of child 0 … is never freed (`yaffs_prune_worker` with `del0` off): the real tree
        // keeps the leaf it was made with, and memory is counted by it.
        Self::prune_node(&mut self.top, false, &mut leaves, &mut nodes);
        while self.levels > 0 {
            match &mut self.top {
                Some(Node::Inner(children)) if children[1..].iter().all(Option::is_none) => {
                    let first = children[0].take();
                    self.top = first;
                    nodes -= 1;
                    self.levels -= 1;
                }
                _ => break,
            }
        }
        (self.leaves, self.nodes) = (leaves, nodes);
        debug_assert!(self.leaves > 0, "the first leaf stays");
    }

    /// All leaves lie at the depth of the tree, and there are as many nodes as are counted.
    ///
    /// # Panics
    /// If it is not so.
    pub(crate) fn assert_invariants(&self) {
        fn walk(node: &Node, level: u32, count: &mut (u32, u32)) {
            match node {
                Node::Leaf(_) => {
                    assert_eq!(level, 0, "a leaf lies at the depth of the tree");
                    count.0 += 1;
                }
                Node::Inner(children) => {
                    assert!(level > 0, "below the leaves is nothing");
                    count.1 += 1;
                    children.iter().flatten().for_each(|child| walk(child, level - 1, count));
                }
            }
        }
        let mut count = (0, 0);
        assert!(self.levels <= Self::levels_of(CHUNK_MAX), "a tree of {} levels", self.levels);
        self.top.iter().for_each(|top| walk(top, self.levels, &mut count));
        assert_eq!(count, (self.leaves, self.nodes), "leaves and inner nodes");
    }

    fn prune_node(place: &mut Option<Node>, may_go: bool, leaves: &mut u32, nodes: &mut u32) {
        let is_empty = match place {
            None => return,
            Some(Node::Leaf(chunks)) => chunks.iter().all(|chunk| *chunk == 0),
            Some(Node::Inner(children)) => {
                for (index, child) in children.iter_mut().enumerate() {
                    Self::prune_node(child, may_go || index > 0, leaves, nodes);
                }
                children.iter().all(Option::is_none)
            }
        };
        if is_empty && may_go {
            match place {
                Some(Node::Leaf(_)) => *leaves -= 1,
                _ => *nodes -= 1,
            }
            *place = None;
        }
    }
}

/// A leaf as checkpoints store it: entries of `width` bits, packed from the lowest bit on.
pub(crate) fn pack_leaf(chunks: &[u32; LEAF_CHUNKS], width: u32, stored_bytes: usize) -> Vec<u8> {
    debug_assert!(
        chunks.iter().all(|chunk| u64::from(*chunk) < 1 << width),
        "numbers of chunks have {width} bits: {chunks:?}"
    );
    let mut out = vec![0; stored_bytes];
    for (index, chunk) in chunks.iter().enumerate() {
        for bit in 0..width {
            if chunk >> bit & 1 != 0 {
                let at = index * width as usize + bit as usize;
                out[at / 8] |= 1 << (at % 8);
            }
        }
    }
    out
}

/// The leaf of stored bytes.
pub(crate) fn unpack_leaf(bytes: &[u8], width: u32) -> [u32; LEAF_CHUNKS] {
    std::array::from_fn(|index| {
        (0..width).fold(0, |chunk, bit| {
            let at = index * width as usize + bit as usize;
            chunk | u32::from(bytes[at / 8] >> (at % 8) & 1) << bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{ChunkTree, pack_leaf, unpack_leaf};

    #[test]
    fn chunks_are_found_and_nodes_counted() {
        let mut tree = ChunkTree::new();
        assert_eq!(tree.node_count(), 1);
        assert_eq!(tree.get(1000), 0);
        tree.set(3, 33);
        tree.set(16, 44);
        // A node above two leaves.
        assert_eq!(tree.node_count(), 3);
        tree.set(1000, 55);
        // 1000 >> 4 = 62: two levels of nodes, the second with a child for it.
        assert_eq!(tree.node_count(), 6);
        assert_eq!([tree.get(3), tree.get(16), tree.get(1000), tree.get(17)], [33, 44, 55, 0]);
        assert_eq!(tree.chunks(), [(3, 33), (16, 44), (1000, 55)]);
        assert_eq!(tree.set(1000, 0), 55);
        tree.prune();
        assert_eq!(tree.node_count(), 3);
        tree.set(16, 0);
        tree.set(3, 0);
        tree.prune();
        assert_eq!(tree.node_count(), 1);
    }

    #[test]
    fn leaves_are_packed_in_any_width() {
        for width in [16, 18, 22] {
            let leaf = std::array::from_fn(|index| (index as u32 * 4099 + 7) & ((1 << width) - 1));
            let bytes = pack_leaf(&leaf, width, 64);
            assert_eq!(unpack_leaf(&bytes, width), leaf);
        }
    }

    #[test]
    #[should_panic(expected = "leaves and inner nodes")]
    fn a_leaf_that_is_not_counted_is_found() {
        let mut tree = ChunkTree::new();
        tree.set(1000, 55);
        tree.assert_invariants();
        tree.leaves -= 1;
        tree.assert_invariants();
    }

    #[test]
    #[should_panic(expected = "a leaf lies at the depth of the tree")]
    fn a_tree_of_the_wrong_depth_is_found() {
        let mut tree = ChunkTree::new();
        tree.set(16, 44);
        tree.levels += 1;
        tree.assert_invariants();
    }
}
