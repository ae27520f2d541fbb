//! The index in memory: a B-tree whose nodes are read as they are needed (tree node cache).
//!
//! Source: `fs/ubifs/tnc.c`, `tnc_misc.c`. A state: uses formats only.

use crate::keys::Key;
use crate::nodes::Place;
use crate::position::Position;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Number of a node in memory.
pub(crate) type ZnodeId = u32;

/// Leads to a node of the index, or at level zero to a node of a file or directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branch {
    pub(crate) key: Key,
    /// Zero bytes: not on the medium yet.
    pub(crate) place: Place,
    pub(crate) child: Option<ZnodeId>,
    /// An entry that was read before (leaf node cache).
    pub(crate) leaf: Option<Rc<[u8]>>,
}

/// A node of the index in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Znode {
    pub(crate) parent: Option<ZnodeId>,
    /// Number of its branch within the parent.
    pub(crate) position: usize,
    pub(crate) level: u16,
    pub(crate) branches: Vec<Branch>,
    pub(crate) is_dirty: bool,
    /// Its keys changed so that it may not be found by the key it has on the medium.
    pub(crate) is_altered: bool,
    /// Virtual time of the last use, nanoseconds; the shrinker compares it.
    pub(crate) used_ns: u64,
}

/// The index: the nodes in memory, and what the medium has of it.
#[derive(Default)]
pub(crate) struct Tnc {
    pub(crate) root: Branch,
    nodes: Vec<Option<Znode>>,
    free: Vec<ZnodeId>,
    pub(crate) dirty: u64,
    pub(crate) clean: u64,
    /// Nodes of the index on the medium that fell out of use since the last commit began.
    pub(crate) old: BTreeSet<Position>,
    /// Bytes of the index as it will be on the medium.
    pub(crate) index_bytes: u64,
}

impl Tnc {
    pub(crate) fn get(&self, id: ZnodeId) -> &Znode {
        self.nodes[id as usize].as_ref().expect("the node is in memory")
    }

    pub(crate) fn get_mut(&mut self, id: ZnodeId) -> &mut Znode {
        self.nodes[id as usize].as_mut().expect("the node is in memory")
    }

    pub(crate) fn insert(&mut self, znode: Znode) -> ZnodeId {
        if znode.is_dirty {
            self.dirty += 1;
        } else {
            self.clean += 1;
        }
        // Numbers are used again, so that the table does not grow with the number of nodes ever
        // read.
        if let Some(id) = self.free.pop() {
            self.nodes[id as usize] = Some(znode);
            return id;
        }
        self.nodes.push(Some(znode));
        self.nodes.len() as ZnodeId - 1
    }

    pub(crate) fn remove(&mut self, id: ZnodeId) -> Znode {
        let znode = self.nodes[id as usize].take().expect("the node is in memory");
        if znode.is_dirty {
            self.dirty -= 1;
        } else {
            self.clean -= 1;
        }
        self.free.push(id);
        znode
    }

    pub(crate) fn branch(&self, id: ZnodeId, at: usize) -> &Branch {
        &self.get(id).branches[at]
    }

    /// The branch that leads to a node.
    pub(crate) fn branch_to(&self, id: ZnodeId) -> &Branch {
        let znode = self.get(id);
        znode.parent.map_or(&self.root, |parent| self.branch(parent, znode.position))
    }

    pub(crate) fn branch_to_mut(&mut self, id: ZnodeId) -> &mut Branch {
        let (parent, position) = (self.get(id).parent, self.get(id).position);
        match parent {
            Some(parent) => &mut self.get_mut(parent).branches[position],
            None => &mut self.root,
        }
    }

    /// Entries that were read and kept, and their bytes.
    pub(crate) fn leaves(&self) -> (u64, u64) {
        let leaves = self.nodes.iter().flatten().flat_map(|znode| &znode.branches);
        let leaves = leaves.filter_map(|branch| branch.leaf.as_ref());
        leaves.fold((0, 0), |(count, bytes), leaf| (count + 1, bytes + leaf.len() as u64))
    }
}

impl Znode {
    /// Puts a branch into its place.
    pub(crate) fn insert_in_order(&mut self, at: usize, branch: Branch) {
        // Above level zero the neighbours are what the medium says of the children, which may be damaged.
        if self.level == 0 {
            let (key, right) = (branch.key, self.branches.get(at));
            let left = at.checked_sub(1).map(|left| &self.branches[left]);
            debug_assert!(left.is_none_or(|left| left.key <= key), "{key:?} belongs to the left");
            debug_assert!(
                right.is_none_or(|right| key <= right.key),
                "{key:?} belongs to the right"
            );
        }
        self.branches.insert(at, branch);
    }

    /// The branch with a key, or the last one before it: none if all are behind it.
    pub(crate) fn search(&self, key: Key) -> (bool, Option<usize>) {
        let (mut begin, mut end) = (0, self.branches.len());
        while begin < end {
            // With equal keys (hash collisions) any of them may be met, as in
            // `ubifs_search_zbranch`. Callers look to both sides.
            let middle = usize::midpoint(begin, end);
            match self.branches[middle].key.cmp(&key) {
                std::cmp::Ordering::Less => begin = middle + 1,
                std::cmp::Ordering::Greater => end = middle,
                std::cmp::Ordering::Equal => return (true, Some(middle)),
            }
        }
        (false, end.checked_sub(1))
    }
}

/// A place in the index: a node of level zero, and a branch of it or what is before all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) znode: ZnodeId,
    pub(crate) at: Option<usize>,
}

#[cfg(test)]
#[cfg(debug_assertions)]
mod tests {
    use super::{Branch, Key, Znode};

    fn branch(inode: u64) -> Branch {
        Branch { key: Key::inode(inode), ..Branch::default() }
    }

    #[test]
    #[should_panic(expected = "belongs to the right")]
    fn a_branch_in_the_wrong_place_is_noticed() {
        let mut znode = Znode::default();
        znode.insert_in_order(0, branch(5));
        znode.insert_in_order(1, branch(7));
        znode.insert_in_order(1, branch(9));
    }
}
