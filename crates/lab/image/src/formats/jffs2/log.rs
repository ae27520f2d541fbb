//! The order of nodes on a medium of JFFS2: whether it is that of one log from which nothing was copied.
//!
//! Versions grow within an inode and within a directory, and numbers of inodes grow as inodes are made.
//! Nodes that are written one after the other into one block after the other therefore have versions that
//! grow within a block, stretches of versions that do not overlap from block to block, and one order of
//! blocks that suits all inodes. A copy by the collector (`jffs2_garbage_collect_live` in `fs/jffs2/gc.c`)
//! puts an old version behind newer ones, and breaks this.

use std::collections::{BTreeMap, BTreeSet};

/// What counts versions of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counter {
    /// The nodes of an inode.
    Inode(u32),
    /// The entries of a directory.
    Directory(u32),
    /// The first nodes of all inodes, by inode.
    Inodes,
}

/// The inode that a node is counted by, and its number there.
#[derive(Clone, Copy)]
pub(crate) struct Versioned {
    pub(crate) inode: u32,
    pub(crate) version: u32,
}

/// The order of nodes.
#[derive(Default)]
pub(crate) struct Log {
    /// First and last version in each block.
    spans: BTreeMap<Counter, BTreeMap<u32, (u32, u32)>>,
    blocks: BTreeSet<u32>,
    /// A node stands behind a newer one.
    pub(crate) has_copies: bool,
}

impl Log {
    /// Nodes come block by block, each in the order of its bytes.
    pub(crate) fn add_inode(&mut self, block: u32, node: Versioned) {
        let Versioned { inode, version } = node;
        self.add(block, Counter::Inode(inode), version);
        if version == 1 {
            self.add(block, Counter::Inodes, inode);
        }
    }

    /// The inode is that of the directory.
    pub(crate) fn add_entry(&mut self, block: u32, node: Versioned) {
        self.add(block, Counter::Directory(node.inode), node.version);
    }

    fn add(&mut self, block: u32, counter: Counter, version: u32) {
        self.blocks.insert(block);
        let spans = self.spans.entry(counter).or_default();
        if let Some((_, last)) = spans.get_mut(&block) {
            // A version that is not larger than the one before it was copied here.
            self.has_copies |= version <= *last;
            *last = version.max(*last);
        } else {
            spans.insert(block, (version, version));
        }
    }

    /// The collector copied something, or the nodes came about in another way than by one log.
    pub(crate) fn is_copied(&self) -> bool {
        self.has_copies || self.orders().is_none_or(|orders| !has_order(&self.blocks, &orders))
    }

    /// Blocks that stand before others; none if versions overlap.
    fn orders(&self) -> Option<BTreeMap<u32, BTreeSet<u32>>> {
        let mut orders: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for spans in self.spans.values() {
            let mut sorted: Vec<((u32, u32), u32)> =
                spans.iter().map(|(block, span)| (*span, *block)).collect();
            sorted.sort_unstable();
            // Sorted by first versions, so that neighbours overlap if any do.
            for pair in sorted.windows(2) {
                let (((_, last), before), ((first, _), after)) = (pair[0], pair[1]);
                if first <= last {
                    return None;
                }
                orders.entry(before).or_default().insert(after);
            }
        }
        Some(orders)
    }
}

/// Whether the blocks can stand in a row in which all orders hold.
fn has_order(blocks: &BTreeSet<u32>, orders: &BTreeMap<u32, BTreeSet<u32>>) -> bool {
    // Kahn's algorithm: blocks that wait for none are placed first.
    let mut waits: BTreeMap<u32, usize> = blocks.iter().map(|block| (*block, 0)).collect();
    for after in orders.values().flatten() {
        *waits.entry(*after).or_default() += 1;
    }
    let free = waits.iter().filter(|(_, count)| **count == 0);
    let mut free: Vec<u32> = free.map(|(block, _)| *block).collect();
    let mut placed = 0;
    while let Some(block) = free.pop() {
        placed += 1;
        for after in orders.get(&block).into_iter().flatten() {
            let count = waits.entry(*after).or_default();
            *count -= 1;
            if *count == 0 {
                free.push(*after);
            }
        }
    }
    // A ring leaves blocks that wait for each other.
    placed == waits.len()
}

#[cfg(test)]
mod tests {
    use super::{Log, Versioned};

    #[test]
    fn a_log_is_plain_until_something_is_copied() {
        let plain = || {
            let mut log = Log::default();
            // Block 7 was written before block 3.
            for (block, inode, version) in [(3, 5, 4), (3, 6, 1), (7, 4, 1), (7, 5, 1), (7, 5, 3)] {
                log.add_inode(block, Versioned { inode, version });
            }
            log
        };
        assert!(!plain().is_copied());
        let copied: [&[(u32, u32, u32)]; 4] = [
            // Behind a newer node of the same block; twice; between two of another block.
            &[(7, 5, 2)],
            &[(8, 5, 4)],
            &[(8, 5, 2)],
            // Block 8 would stand before block 3 and behind it.
            &[(8, 6, 2), (8, 9, 1), (9, 9, 2), (9, 6, 3), (9, 7, 1)],
        ];
        for nodes in copied {
            let mut log = plain();
            for (block, inode, version) in nodes {
                log.add_inode(*block, Versioned { inode: *inode, version: *version });
            }
            assert!(log.is_copied(), "{nodes:?}");
        }
    }
}
