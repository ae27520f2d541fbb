//! A node of a B-tree: keys in order, and a pointer for each.
//!
//! The root has room for three and stands in the inode, other nodes fill a block.
//! Source: `struct nilfs_btree_node`, `fs/nilfs2/btree.c`.
//!
//! May use: `bytes`, `records`.

use crate::bytes::{get_u16, get_u64, put_u16, put_u64};
use crate::records::MAP_BYTES;

/// Level of nodes that point to data.
pub(crate) const LEVEL_MIN: u8 = 1;
/// Levels below this exist.
pub(crate) const LEVEL_MAX: u8 = 14;
/// Children of the root.
pub(crate) const ROOT_CHILDREN_MAX: usize = 3;
const ROOT_FLAG: u8 = 1;
const HEADER_BYTES: usize = 8;

/// Where keys and pointers are.
#[derive(Clone, Copy)]
struct Shape {
    keys: usize,
    max: usize,
}

impl Shape {
    fn of(bytes: &[u8]) -> Self {
        if bytes.len() == MAP_BYTES {
            Self { keys: HEADER_BYTES, max: ROOT_CHILDREN_MAX }
        } else {
            Self { keys: HEADER_BYTES * 2, max: children_max(bytes.len()) }
        }
    }
}

/// Children of a node that fills a block.
pub(crate) fn children_max(block_bytes: usize) -> usize {
    (block_bytes - HEADER_BYTES * 2) / 16
}

/// Children that a node has at least, but for the only child of the root.
pub(crate) fn children_min(block_bytes: usize) -> usize {
    (children_max(block_bytes) - 1) / 2 + 1
}

pub(crate) fn level(bytes: &[u8]) -> u8 {
    bytes[1]
}

pub(crate) fn count(bytes: &[u8]) -> usize {
    get_u16(bytes, 2) as usize
}

/// Children that a node has room for.
pub(crate) fn capacity(bytes: &[u8]) -> usize {
    Shape::of(bytes).max
}

pub(crate) fn is_full(bytes: &[u8]) -> bool {
    count(bytes) >= capacity(bytes)
}

pub(crate) fn key(bytes: &[u8], index: usize) -> u64 {
    get_u64(bytes, Shape::of(bytes).keys + index * 8)
}

pub(crate) fn set_key(bytes: &mut [u8], index: usize, key: u64) {
    debug_assert!(index < count(bytes), "key {index} of {}", count(bytes));
    let at = Shape::of(bytes).keys + index * 8;
    put_u64(bytes, at, key);
}

pub(crate) fn pointer(bytes: &[u8], index: usize) -> u64 {
    let shape = Shape::of(bytes);
    get_u64(bytes, shape.keys + (shape.max + index) * 8)
}

pub(crate) fn set_pointer(bytes: &mut [u8], index: usize, pointer: u64) {
    debug_assert!(index < count(bytes), "pointer {index} of {}", count(bytes));
    let shape = Shape::of(bytes);
    put_u64(bytes, shape.keys + (shape.max + index) * 8, pointer);
}

/// Keys and pointers, in order.
pub(crate) fn entries(bytes: &[u8]) -> Vec<(u64, u64)> {
    (0..count(bytes)).map(|index| (key(bytes, index), pointer(bytes, index))).collect()
}

/// Makes a node of these entries.
pub(crate) fn fill(bytes: &mut [u8], level: u8, entries: &[(u64, u64)]) {
    bytes.fill(0);
    // Flag and size both say whether it is a root; `fault` compares them.
    bytes[0] = if bytes.len() == MAP_BYTES { ROOT_FLAG } else { 0 };
    bytes[1] = level;
    replace(bytes, entries);
}

fn replace(bytes: &mut [u8], entries: &[(u64, u64)]) {
    debug_assert!(
        entries.len() <= capacity(bytes),
        "{} entries in a node for {}",
        entries.len(),
        capacity(bytes)
    );
    put_u16(bytes, 2, entries.len() as u16);
    for (index, (key, pointer)) in entries.iter().enumerate() {
        set_key(bytes, index, *key);
        set_pointer(bytes, index, *pointer);
    }
}

/// Whether a key belongs to a place. Neighbours that a damaged medium left out of order have no places.
pub(crate) fn belongs(bytes: &[u8], index: usize, key: u64) -> bool {
    let all = entries(bytes);
    let is_sorted = all.windows(2).all(|pair| pair[0].0 < pair[1].0);
    !is_sorted
        || (all[..index].iter().all(|(other, _)| *other < key)
            && all[index..].iter().all(|(other, _)| *other > key))
}

/// Inserts an entry at a place; the node must have room.
pub(crate) fn insert(bytes: &mut [u8], index: usize, key: u64, pointer: u64) {
    debug_assert!(!is_full(bytes), "a node of {} has room for one more", count(bytes));
    // Entries are moved as a list. Pointers behind the last one stay in the node, as in the kernel,
    // where read-ahead still sees them.
    let mut all = entries(bytes);
    all.insert(index, (key, pointer));
    replace(bytes, &all);
}

/// Removes the entry at a place.
pub(crate) fn remove(bytes: &mut [u8], index: usize) {
    let mut all = entries(bytes);
    all.remove(index);
    replace(bytes, &all);
}

/// Moves the first entries of the right node to the end of the left one.
pub(crate) fn move_left(left: &mut [u8], right: &mut [u8], moved: usize) {
    let (mut front, mut back) = (entries(left), entries(right));
    debug_assert!(moved <= back.len(), "{moved} of {} entries move", back.len());
    debug_assert_eq!(level(left), level(right), "levels of two neighbours");
    front.extend(back.drain(..moved));
    replace(left, &front);
    replace(right, &back);
}

/// Moves the last entries of the left node to the front of the right one.
pub(crate) fn move_right(left: &mut [u8], right: &mut [u8], moved: usize) {
    let (mut front, mut back) = (entries(left), entries(right));
    debug_assert!(moved <= front.len(), "{moved} of {} entries move", front.len());
    let keeps = front.len() - moved;
    back.splice(..0, front.drain(keeps..));
    replace(left, &front);
    replace(right, &back);
}

/// Place of a key, and whether it is there: of a leaf the place to insert at, else that of the child
/// that would hold it.
pub(crate) fn search(bytes: &[u8], wanted: u64) -> (usize, bool) {
    let (mut low, mut high) = (0, count(bytes));
    while low < high {
        let middle = usize::midpoint(low, high);
        match key(bytes, middle).cmp(&wanted) {
            std::cmp::Ordering::Equal => return (middle, true),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    // A key below the first of an inner node belongs to its first child, whose key then gets
    // smaller (`promote`).
    if level(bytes) > LEVEL_MIN { (low.saturating_sub(1), false) } else { (low, false) }
}

/// Why bytes are no node that can be used.
pub(crate) fn fault(bytes: &[u8]) -> Option<String> {
    let shape = Shape::of(bytes);
    let (level, count, is_root) = (level(bytes), count(bytes), bytes.len() == MAP_BYTES);
    if !(LEVEL_MIN..LEVEL_MAX).contains(&level) || (bytes[0] & ROOT_FLAG != 0) != is_root {
        return Some(format!("a node with flags {} of level {level}", bytes[0]));
    }
    if count > shape.max || (count == 0 && !is_root) {
        return Some(format!("a node of level {level} with {count} children"));
    }
    let is_sorted = (1..count).all(|index| key(bytes, index - 1) < key(bytes, index));
    (!is_sorted).then(|| format!("a node of level {level} whose keys are out of order"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::MAP_BYTES;

    #[test]
    fn a_search_gives_the_place_of_a_key() {
        let mut root = [0; MAP_BYTES];
        fill(&mut root, 1, &[(10, 100), (30, 300)]);
        let (index, found) = search(&root, 20);
        assert!(!found && belongs(&root, index, 20));
        assert!(!belongs(&root, 0, 20) && !belongs(&root, 2, 20));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a node of 3 has room for one more")]
    fn a_full_node_takes_no_entry() {
        let mut root = [0; MAP_BYTES];
        fill(&mut root, 1, &[(10, 100), (20, 200), (30, 300)]);
        insert(&mut root, 3, 40, 400);
    }

    /// Two leaves with two entries each.
    #[cfg(debug_assertions)]
    fn leaves() -> [Vec<u8>; 2] {
        [10, 30].map(|first| {
            let mut leaf = vec![0; 1024];
            fill(&mut leaf, 1, &[(first, 100), (first + 10, 200)]);
            leaf
        })
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "levels of two neighbours")]
    fn entries_do_not_move_between_levels() {
        let [mut left, mut right] = leaves();
        right[1] = 2;
        move_left(&mut left, &mut right, 1);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "3 of 2 entries move")]
    fn no_more_entries_move_than_there_are() {
        let [mut left, mut right] = leaves();
        move_right(&mut left, &mut right, 3);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "4 entries in a node for 3")]
    fn a_root_holds_three_children() {
        fill(&mut [0; MAP_BYTES], 1, &[(10, 100), (20, 200), (30, 300), (40, 400)]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "pointer 2 of 2")]
    fn a_pointer_behind_the_last_one_is_not_set() {
        set_pointer(&mut leaves()[0], 2, 300);
    }
}
