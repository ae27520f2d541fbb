//! Inserting into the B-tree of a block map and deleting from it.
//!
//! As in the kernel, all that has to be read or allocated is prepared from the leaf up to the level
//! that needs no further change; then the levels are changed in the same order.
//! Source: `fs/nilfs2/btree.c` (`nilfs_btree_prepare_insert`, `nilfs_btree_prepare_delete`).
//!
//! May use: `engine`, `file`, `finding`, `map`, `node`, `records`, `tree`.

use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::finding::Code;
use crate::map::DIRECT_BLOCKS;
use crate::node;
use crate::records::MAP_BYTES;
use crate::tree::Path;
use fs_api::{Errno, Place};
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Insertion {
    Plain,
    CarryLeft,
    CarryRight,
    Split,
    Grow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    Plain,
    BorrowLeft,
    BorrowRight,
    JoinLeft,
    JoinRight,
    Shrink,
    Nothing,
}

/// A direct map holds at most so many blocks when a tree becomes one again: those of the root.
const BLOCKS_FOR_DIRECT: u64 = node::ROOT_CHILDREN_MAX as u64;

impl Engine {
    /// Inserts a key that is not there; gives the number of blocks allocated.
    pub(crate) async fn tree_insert(&self, file: &File, key: u64) -> Result<i64, Errno> {
        let (found, mut path) = self.tree_search(file, key, node::LEVEL_MIN).await?;
        debug_assert!(!found, "inode {}: block {key} is mapped already", file.number);
        debug_assert!(
            path.with(file, 1, |bytes| node::belongs(bytes, path.steps[1].index, key)),
            "inode {}: block {key} belongs to another place",
            file.number
        );
        let target = self.target(file, key, near(file, &path));
        let mut pointers = vec![self.new_pointer(file, target).await?];
        let mut work = Vec::new();
        let root = path.root_level();
        let mut level = node::LEVEL_MIN as usize;
        loop {
            let insertion = self.choose_insertion(file, &mut path, level, root).await?;
            work.push(insertion);
            if matches!(insertion, Insertion::Split | Insertion::Grow) {
                let last = *pointers.last().expect("one at least");
                // New nodes get numbers behind the new block, so that their entries share a block
                // of the DAT.
                let pointer = self.new_pointer(file, last + 1).await?;
                path.steps[level].sibling = Some(self.new_node(file, pointer, level, &[]));
                pointers.push(pointer);
            }
            // Only a split passes a new entry to the level above.
            if insertion != Insertion::Split {
                break;
            }
            level += 1;
        }
        debug_assert_eq!(
            pointers.len(),
            1 + work
                .iter()
                .filter(|work| matches!(work, Insertion::Split | Insertion::Grow))
                .count(),
            "a number for the block and for each new node: {work:?}"
        );
        // After everything that can fail: the map is unchanged if no number was to be had.
        file.map.borrow_mut().remember(key, pointers[0]);
        let (mut key, mut pointer) = (key, pointers[0]);
        for (index, insertion) in work.iter().enumerate() {
            let level = index + 1;
            match insertion {
                Insertion::Plain => path.insert(file, level, key, pointer),
                Insertion::CarryLeft => path.carry_left(file, level, key, pointer),
                Insertion::CarryRight => path.carry_right(file, level, key, pointer),
                Insertion::Split => {
                    key = path.split(file, level, key, pointer);
                    pointer = pointers[level];
                }
                Insertion::Grow => grow(file, &mut path, level, (key, pointer), pointers[level]),
            }
        }
        file.is_dirty.set(true);
        Ok(pointers.len().cast_signed() as i64)
    }

    async fn choose_insertion(
        &self,
        file: &File,
        path: &mut Path,
        level: usize,
        root: usize,
    ) -> Result<Insertion, Errno> {
        if !path.with(file, level, |bytes| node::is_full(bytes)) {
            return Ok(Insertion::Plain);
        }
        if level == root {
            return Ok(Insertion::Grow);
        }
        // Neighbours are tried before a split, left first (`nilfs_btree_prepare_insert`), which
        // keeps trees dense.
        for (is_left, insertion) in [(true, Insertion::CarryLeft), (false, Insertion::CarryRight)] {
            if let Some(sibling) = self.sibling(file, path, level, is_left).await?
                && !node::is_full(&sibling.data.borrow())
            {
                path.steps[level].sibling = Some(sibling.clone());
                return Ok(insertion);
            }
        }
        Ok(Insertion::Split)
    }

    /// The neighbour of the node of a level that has the same parent.
    async fn sibling(
        &self,
        file: &File,
        path: &Path,
        level: usize,
        is_left: bool,
    ) -> Result<Option<Rc<Buffer>>, Errno> {
        let index = path.steps[level + 1].index;
        let place = if is_left { index.checked_sub(1) } else { Some(index + 1) };
        let count = path.count(file, level + 1);
        let Some(place) = place.filter(|place| *place < count) else { return Ok(None) };
        let pointer = path.with(file, level + 1, |bytes| node::pointer(bytes, place));
        let sibling = self.node_block(file, pointer).await?;
        // Two pointers to one node, or to nodes of two levels, are damage: entries would move from a
        // node to itself.
        let is_itself =
            path.steps[level].node.as_ref().is_some_and(|node| Rc::ptr_eq(node, &sibling));
        if is_itself || node::level(&sibling.data.borrow()) as usize != level {
            return Err(self.damaged(
                Code::BadMap,
                Place::Inode(file.number),
                format!("inode {}: the neighbour of a node is none", file.number),
            ));
        }
        Ok(Some(sibling))
    }

    fn new_node(
        &self,
        file: &File,
        pointer: u64,
        level: usize,
        entries: &[(u64, u64)],
    ) -> Rc<Buffer> {
        let mut data = vec![0; self.geometry.block_bytes as usize];
        node::fill(&mut data, level as u8, entries);
        let buffer = Buffer::new(pointer, data, true);
        buffer.is_dirty.set(true);
        buffer.is_volatile.set(true);
        file.nodes.borrow_mut().insert(pointer, buffer.clone());
        buffer
    }

    /// Makes a tree of a direct map that a key does not fit into; gives the blocks allocated.
    pub(crate) async fn tree_from_direct(&self, file: &File, key: u64) -> Result<i64, Errno> {
        debug_assert!(key >= DIRECT_BLOCKS, "block {key} fits a direct map");
        let mut entries = file.map.borrow().direct_entries();
        let target = self.target(file, key, None);
        let pointer = self.new_pointer(file, target).await?;
        entries.push((key, pointer));
        let mut blocks = 1;
        let mut root = [0; MAP_BYTES];
        if entries.len() <= node::ROOT_CHILDREN_MAX {
            node::fill(&mut root, node::LEVEL_MIN, &entries);
        } else {
            let leaf = self.new_pointer(file, pointer + 1).await?;
            self.new_node(file, leaf, 1, &entries);
            node::fill(&mut root, node::LEVEL_MIN + 1, &[(entries[0].0, leaf)]);
            blocks += 1;
        }
        let mut map = file.map.borrow_mut();
        map.root = root;
        map.remember(key, pointer);
        file.is_dirty.set(true);
        Ok(blocks)
    }

    /// Deletes a key; gives the number of blocks freed.
    pub(crate) async fn tree_delete(&self, file: &File, key: u64) -> Result<i64, Errno> {
        let (found, mut path) = self.tree_search(file, key, node::LEVEL_MIN).await?;
        if !found {
            return Err(self.damaged(
                Code::BadMap,
                Place::Inode(file.number),
                format!("inode {}: block {key} is not mapped", file.number),
            ));
        }
        // Asked before the deletion, as `nilfs_bmap_do_delete` does: the answer depends on the last
        // key but one.
        let becomes_direct = self.becomes_direct(file, key).await?;
        let root = path.root_level();
        let mut level = node::LEVEL_MIN as usize;
        let mut index = path.steps[level].index;
        let (mut work, mut ended) = (Vec::new(), Vec::new());
        loop {
            let removed = index;
            ended.push(path.with(file, level, |bytes| node::pointer(bytes, removed)));
            let deletion = if level == root {
                Deletion::Plain
            } else {
                self.choose_deletion(file, &mut path, level).await?
            };
            work.push(deletion);
            index = match deletion {
                Deletion::JoinLeft | Deletion::Shrink => path.steps[level + 1].index,
                Deletion::JoinRight => path.steps[level + 1].index + 1,
                _ => break,
            };
            level += 1;
            if deletion == Deletion::Shrink {
                ended.push(path.with(file, level, |bytes| node::pointer(bytes, index)));
                work.push(Deletion::Nothing);
                break;
            }
        }
        // Ended before the nodes change: a failure here leaves the tree whole.
        for pointer in &ended {
            self.end_pointer(file, *pointer).await?;
        }
        for (index, deletion) in work.iter().enumerate() {
            let level = index + 1;
            match deletion {
                Deletion::Plain => path.remove(file, level),
                Deletion::BorrowLeft => path.borrow_left(file, level),
                Deletion::BorrowRight => path.borrow_right(file, level),
                Deletion::JoinLeft => path.join_left(file, level),
                Deletion::JoinRight => path.join_right(file, level),
                Deletion::Shrink => path.shrink(file, level),
                Deletion::Nothing => {}
            }
        }
        if becomes_direct {
            make_direct(file);
        }
        file.is_dirty.set(true);
        Ok(ended.len().cast_signed() as i64)
    }

    async fn choose_deletion(
        &self,
        file: &File,
        path: &mut Path,
        level: usize,
    ) -> Result<Deletion, Errno> {
        let least = node::children_min(self.geometry.block_bytes as usize);
        let count = path.count(file, level);
        if count > least {
            return Ok(Deletion::Plain);
        }
        let pairs = [
            (true, Deletion::BorrowLeft, Deletion::JoinLeft),
            (false, Deletion::BorrowRight, Deletion::JoinRight),
        ];
        for (is_left, borrowing, joining) in pairs {
            if let Some(sibling) = self.sibling(file, path, level, is_left).await? {
                let has_many = node::count(&sibling.data.borrow()) > least;
                path.steps[level].sibling = Some(sibling);
                return Ok(if has_many { borrowing } else { joining });
            }
        }
        let fits_root = count - 1 <= node::ROOT_CHILDREN_MAX;
        Ok(if fits_root { Deletion::Shrink } else { Deletion::Plain })
    }

    /// True if the tree is to be a direct map once its last key is gone.
    async fn becomes_direct(&self, file: &File, key: u64) -> Result<bool, Errno> {
        let root = file.map.borrow().root;
        let entries = match (node::level(&root), node::count(&root)) {
            (1, _) => node::entries(&root),
            (2, 1) => {
                let leaf = self.node_block(file, node::pointer(&root, 0)).await?;
                node::entries(&leaf.data.borrow())
            }
            _ => return Ok(false),
        };
        let (last, rest) = match entries.split_last() {
            Some((last, rest)) => (last.0, rest),
            None => return Ok(false),
        };
        let next = rest.last().map_or(0, |(key, _)| *key);
        Ok(last == key && next < BLOCKS_FOR_DIRECT)
    }
}

/// Virtual number near which that of a new block should be: that of the block before it, else that of
/// its leaf.
fn near(file: &File, path: &Path) -> Option<u64> {
    let leaf = node::LEVEL_MIN as usize;
    let index = path.steps[leaf].index;
    if index > 0 {
        return Some(path.with(file, leaf, |bytes| node::pointer(bytes, index - 1)));
    }
    (leaf < path.root_level()).then(|| path.pointer(file, leaf + 1))
}

/// Moves the root's entries into a new node below it, and inserts there.
fn grow(file: &File, path: &mut Path, level: usize, new: (u64, u64), child_pointer: u64) {
    let child = path.steps[level].sibling.take().expect("a new node");
    let entries = path.with(file, level, |bytes| node::entries(bytes));
    node::fill(&mut child.data.borrow_mut(), level as u8, &entries);
    let index = path.steps[level].index;
    node::insert(&mut child.data.borrow_mut(), index, new.0, new.1);
    let first = node::key(&child.data.borrow(), 0);
    path.with(file, level, |bytes| {
        node::fill(bytes, level as u8 + 1, &[(first, child_pointer)]);
    });
}

/// Makes a direct map of a root that points to data.
fn make_direct(file: &File) {
    let mut map = file.map.borrow_mut();
    debug_assert_eq!(node::level(&map.root), node::LEVEL_MIN, "the root points to data");
    let entries = node::entries(&map.root);
    map.root = [0; MAP_BYTES];
    for (key, pointer) in entries.into_iter().filter(|(key, _)| *key < DIRECT_BLOCKS) {
        map.set_direct(key, pointer);
    }
}
