//! The B-tree of a block map: searching, and the operations that change one level of it.
//!
//! Source: `fs/nilfs2/btree.c`.
//!
//! May use: `ahead`, `engine`, `file`, `finding`, `node`.

use crate::ahead::NODES_AHEAD;
use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::finding::Code;
use crate::node;
use fs_api::{Errno, Place};
use std::collections::BTreeSet;
use std::rc::Rc;

/// One level of the way from the root to a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// The node; none for the root.
    pub(crate) node: Option<Rc<Buffer>>,
    /// Place in the node.
    pub(crate) index: usize,
    /// A neighbour that takes part in a change.
    pub(crate) sibling: Option<Rc<Buffer>>,
}

/// The way from the root to a block, by level; level 0 is the block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    pub(crate) steps: Vec<Step>,
}

impl Path {
    /// Level of the root.
    pub(crate) fn root_level(&self) -> usize {
        self.steps.len() - 1
    }

    /// Looks at the node of a level.
    pub(crate) fn with<R>(
        &self,
        file: &File,
        level: usize,
        look: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        match &self.steps[level].node {
            Some(node) => look(&mut node.data.borrow_mut()),
            None => look(&mut file.map.borrow_mut().root),
        }
    }

    pub(crate) fn pointer(&self, file: &File, level: usize) -> u64 {
        self.with(file, level, |bytes| node::pointer(bytes, self.steps[level].index))
    }

    /// Pointers behind that of the path, also those that the node has no more (`ncmax` in
    /// `struct nilfs_btree_readahead_info`).
    fn pointers_behind(&self, file: &File, level: usize, most: usize) -> Vec<u64> {
        let first = self.steps[level].index + 1;
        self.with(file, level, |bytes| {
            let end = node::capacity(bytes).min(first + most);
            (first..end).map(|index| node::pointer(bytes, index)).collect()
        })
    }

    pub(crate) fn count(&self, file: &File, level: usize) -> usize {
        self.with(file, level, |bytes| node::count(bytes))
    }

    fn dirty(&self, level: usize) {
        if let Some(node) = &self.steps[level].node {
            node.is_dirty.set(true);
        }
    }

    /// A node's first key changed: tells the levels above.
    pub(crate) fn promote(&self, file: &File, mut level: usize, key: u64) {
        loop {
            let index = self.steps[level].index;
            self.with(file, level, |bytes| node::set_key(bytes, index, key));
            self.dirty(level);
            level += 1;
            if index != 0 || level > self.root_level() {
                return;
            }
        }
    }

    fn promote_first(&self, file: &File, level: usize) {
        let first = self.with(file, level, |bytes| node::key(bytes, 0));
        self.promote(file, level + 1, first);
    }

    /// Inserts an entry where the path leads.
    pub(crate) fn insert(&self, file: &File, level: usize, key: u64, pointer: u64) {
        let index = self.steps[level].index;
        self.with(file, level, |bytes| node::insert(bytes, index, key, pointer));
        self.dirty(level);
        if index == 0 && level < self.root_level() {
            self.promote_first(file, level);
        }
    }

    /// Removes the entry to which the path leads.
    pub(crate) fn remove(&self, file: &File, level: usize) {
        let index = self.steps[level].index;
        debug_assert!(index < self.count(file, level), "entry {index} of level {level} is there");
        let left = self.with(file, level, |bytes| {
            node::remove(bytes, index);
            node::count(bytes)
        });
        self.dirty(level);
        if index == 0 && left > 0 && level < self.root_level() {
            self.promote_first(file, level);
        }
    }

    /// Works on a node and the sibling of its level, which are marked dirty.
    fn with_sibling<R>(&self, level: usize, work: impl FnOnce(&mut [u8], &mut [u8]) -> R) -> R {
        debug_assert!(level < self.root_level(), "the root, at level {level}, has no sibling");
        let step = &self.steps[level];
        let node = step.node.as_ref().expect("only blocks have siblings");
        let sibling = step.sibling.as_ref().expect("a sibling was chosen");
        node.is_dirty.set(true);
        sibling.is_dirty.set(true);
        let (mut node, mut sibling) = (node.data.borrow_mut(), sibling.data.borrow_mut());
        work(&mut node, &mut sibling)
    }

    fn go_to_sibling(&mut self, level: usize) {
        self.steps[level].node = self.steps[level].sibling.take();
    }

    /// Makes room by giving entries to the left neighbour, and inserts.
    pub(crate) fn carry_left(&mut self, file: &File, level: usize, key: u64, pointer: u64) {
        let index = self.steps[level].index;
        let (moved, follows, left_count) = self.with_sibling(level, |node, left| {
            let left_count = node::count(left);
            // `nilfs_btree_carry_left`: both nodes end with the same number; an entry that goes
            // left makes room by itself.
            let half = (node::count(node) + left_count).div_ceil(2) - left_count;
            let (moved, follows) = if half > index { (half - 1, true) } else { (half, false) };
            node::move_left(left, node, moved);
            (moved, follows, left_count)
        });
        self.promote_first(file, level);
        if follows {
            self.go_to_sibling(level);
            self.steps[level].index += left_count;
            self.steps[level + 1].index -= 1;
        } else {
            self.steps[level].index -= moved;
        }
        self.insert(file, level, key, pointer);
    }

    /// Makes room by giving entries to the right neighbour, and inserts.
    pub(crate) fn carry_right(&mut self, file: &File, level: usize, key: u64, pointer: u64) {
        let index = self.steps[level].index;
        let (follows, left_count, first) = self.with_sibling(level, |node, right| {
            let (count, right_count) = (node::count(node), node::count(right));
            let half = (count + right_count).div_ceil(2) - right_count;
            let (moved, follows) =
                if half > count - index { (half - 1, true) } else { (half, false) };
            node::move_right(node, right, moved);
            (follows, node::count(node), node::key(right, 0))
        });
        self.steps[level + 1].index += 1;
        self.promote(file, level + 1, first);
        if follows {
            self.go_to_sibling(level);
            self.steps[level].index -= left_count;
        } else {
            self.steps[level + 1].index -= 1;
        }
        self.insert(file, level, key, pointer);
    }

    /// Splits a node into itself and its new right sibling, and inserts. Gives the key under which
    /// the sibling is to be inserted above.
    pub(crate) fn split(&mut self, file: &File, level: usize, key: u64, pointer: u64) -> u64 {
        let index = self.steps[level].index;
        let (follows, left_count) = self.with_sibling(level, |node, right| {
            let count = node::count(node);
            let half = count.div_ceil(2);
            let (moved, follows) =
                if half > count - index { (half - 1, true) } else { (half, false) };
            node::move_right(node, right, moved);
            (follows, node::count(node))
        });
        if follows {
            // Nothing leads to the sibling yet, so its first key is not promoted.
            self.with_sibling(level, |_, right| {
                node::insert(right, index - left_count, key, pointer);
            });
        } else {
            self.insert(file, level, key, pointer);
        }
        let first = self.with_sibling(level, |_, right| node::key(right, 0));
        if follows {
            self.go_to_sibling(level);
            self.steps[level].index -= left_count;
        }
        self.steps[level + 1].index += 1;
        first
    }

    /// Removes, and takes entries from the left neighbour.
    pub(crate) fn borrow_left(&mut self, file: &File, level: usize) {
        self.remove(file, level);
        let moved = self.with_sibling(level, |node, left| {
            let moved = usize::midpoint(node::count(node), node::count(left)) - node::count(node);
            node::move_right(left, node, moved);
            moved
        });
        self.promote_first(file, level);
        self.steps[level].index += moved;
    }

    /// Removes, and takes entries from the right neighbour.
    pub(crate) fn borrow_right(&mut self, file: &File, level: usize) {
        self.remove(file, level);
        let first = self.with_sibling(level, |node, right| {
            let moved = usize::midpoint(node::count(node), node::count(right)) - node::count(node);
            node::move_left(node, right, moved);
            node::key(right, 0)
        });
        self.steps[level + 1].index += 1;
        self.promote(file, level + 1, first);
        self.steps[level + 1].index -= 1;
    }

    /// Removes, and moves all the rest to the left neighbour.
    pub(crate) fn join_left(&mut self, file: &File, level: usize) {
        self.remove(file, level);
        let before = self.with_sibling(level, |node, left| {
            let (count, before) = (node::count(node), node::count(left));
            node::move_left(left, node, count);
            before
        });
        self.forget_node(file, level);
        self.go_to_sibling(level);
        self.steps[level].index += before;
    }

    /// Removes, and takes all that the right neighbour has.
    pub(crate) fn join_right(&mut self, file: &File, level: usize) {
        self.remove(file, level);
        self.with_sibling(level, |node, right| {
            let count = node::count(right);
            node::move_left(node, right, count);
        });
        let right = self.steps[level].sibling.take().expect("a sibling was chosen");
        right.is_dirty.set(false);
        file.nodes.borrow_mut().remove(&right.key.get());
        self.steps[level + 1].index += 1;
    }

    /// Removes, and moves what the only child of the root still has into the root.
    pub(crate) fn shrink(&mut self, file: &File, level: usize) {
        self.remove(file, level);
        let rest = self.with(file, level, |bytes| node::entries(bytes));
        self.with(file, level + 1, |bytes| node::fill(bytes, level as u8, &rest));
        self.forget_node(file, level);
    }

    fn forget_node(&self, file: &File, level: usize) {
        let node = self.steps[level].node.as_ref().expect("a block");
        node.is_dirty.set(false);
        file.nodes.borrow_mut().remove(&node.key.get());
    }
}

impl Engine {
    /// The way to a key, down to `level_min`; whether it is there.
    pub(crate) async fn tree_search(
        &self,
        file: &File,
        key: u64,
        level_min: u8,
    ) -> Result<(bool, Path), Errno> {
        self.tree_search_with(file, key, level_min, false).await
    }

    /// [`Engine::tree_search`] that reads leaves behind the one of the key ahead, or not.
    pub(crate) async fn tree_search_with(
        &self,
        file: &File,
        key: u64,
        level_min: u8,
        reads_ahead: bool,
    ) -> Result<(bool, Path), Errno> {
        let root = file.map.borrow().root;
        if let Some(fault) = node::fault(&root) {
            return Err(self.damaged(
                Code::BadMap,
                Place::Inode(file.number),
                format!("inode {}: the map's root is {fault}", file.number),
            ));
        }
        let top = node::level(&root) as usize;
        let mut path = Path { steps: vec![Step::default(); top + 1] };
        let (index, mut found) = node::search(&root, key);
        path.steps[top].index = index;
        let mut next = (index < node::count(&root)).then(|| node::pointer(&root, index));
        for level in (level_min as usize..top).rev() {
            let pointer = next.ok_or(Errno::Eio)?;
            let buffer = if reads_ahead && level == node::LEVEL_MIN as usize {
                let siblings = path.pointers_behind(file, level + 1, NODES_AHEAD);
                self.node_block_with(file, pointer, &siblings).await?
            } else {
                self.node_block(file, pointer).await?
            };
            let data = buffer.data.borrow();
            if node::level(&data) as usize != level {
                let found = node::level(&data);
                return Err(self.damaged(
                    Code::BadMap,
                    Place::Inode(file.number),
                    format!(
                        "inode {}: a node of level {found} where one of level {level} should be",
                        file.number
                    ),
                ));
            }
            // Once the key equals that of a node, it is the first key of every node below.
            let index = if found {
                0
            } else {
                let (index, is_there) = node::search(&data, key);
                found = is_there;
                index
            };
            next = (index < node::count(&data)).then(|| node::pointer(&data, index));
            drop(data);
            path.steps[level] = Step { node: Some(buffer), index, sibling: None };
        }
        Ok((found, path))
    }

    /// The last key of a tree.
    pub(crate) async fn tree_last_key(&self, file: &File) -> Result<Option<u64>, Errno> {
        let root = file.map.borrow().root;
        if let Some(fault) = node::fault(&root) {
            return Err(self.damaged(
                Code::BadMap,
                Place::Inode(file.number),
                format!("inode {}: the map's root is {fault}", file.number),
            ));
        }
        let Some((mut key, mut pointer)) = node::entries(&root).last().copied() else {
            return Ok(None);
        };
        for level in (1..node::level(&root)).rev() {
            let buffer = self.node_block(file, pointer).await?;
            let data = buffer.data.borrow();
            if node::level(&data) != level {
                return Err(self.damaged(
                    Code::BadMap,
                    Place::Inode(file.number),
                    format!("inode {}: levels of nodes mixed", file.number),
                ));
            }
            (key, pointer) = *node::entries(&data).last().ok_or(Errno::Eio)?;
        }
        Ok(Some(key))
    }

    /// All keys of a tree, in order. A node that stands in it twice is damage, so that no tree is larger
    /// than the device.
    pub(crate) async fn tree_keys(&self, file: &File) -> Result<Vec<u64>, Errno> {
        let root = file.map.borrow().root;
        if let Some(fault) = node::fault(&root) {
            return Err(self.damaged(
                Code::BadMap,
                Place::Inode(file.number),
                format!("inode {}: the map's root is {fault}", file.number),
            ));
        }
        let mut entries = node::entries(&root);
        let mut seen = BTreeSet::new();
        for level in (1..node::level(&root)).rev() {
            let mut below = Vec::new();
            for (_, pointer) in entries {
                let buffer = self.node_block(file, pointer).await?;
                let data = buffer.data.borrow();
                if node::level(&data) != level || !seen.insert(pointer) {
                    let number = file.number;
                    return Err(self.damaged(
                        Code::BadMap,
                        Place::Inode(number),
                        format!("inode {number}: levels of nodes mixed"),
                    ));
                }
                below.extend(node::entries(&data));
            }
            entries = below;
        }
        Ok(entries.into_iter().map(|(key, _)| key).collect())
    }
}
