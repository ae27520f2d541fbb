//! The pool of free blocks: in order of release, or least worn first.

use std::collections::{BTreeSet, VecDeque};

/// Free blocks, erased or known to need an erase.
#[derive(Clone, Debug)]
pub(crate) enum FreePool {
    /// First released, first used.
    Fifo(VecDeque<u32>),
    // The ticket keeps equal counts in the order of release, so that the choice is the same on
    // every machine.
    /// Fewest erase cycles first, then first released: (erase cycles, ticket, block).
    LeastWorn(BTreeSet<(u32, u64, u32)>, u64),
}

impl FreePool {
    pub(crate) fn new(least_worn_first: bool) -> Self {
        if least_worn_first {
            Self::LeastWorn(BTreeSet::new(), 0)
        } else {
            Self::Fifo(VecDeque::new())
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Fifo(queue) => queue.len(),
            Self::LeastWorn(set, _) => set.len(),
        }
    }

    pub(crate) fn push(&mut self, block: u32, erase_cycles: u32) {
        match self {
            Self::Fifo(queue) => queue.push_back(block),
            Self::LeastWorn(set, ticket) => {
                set.insert((erase_cycles, *ticket, block));
                *ticket += 1;
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        match self {
            Self::Fifo(queue) => queue.pop_front(),
            Self::LeastWorn(set, _) => set.pop_first().map(|(_, _, block)| block),
        }
    }

    /// Takes the most worn free block.
    pub(crate) fn pop_most_worn(&mut self) -> Option<u32> {
        match self {
            // Static levelling always has the other pool; this arm keeps the match whole.
            Self::Fifo(queue) => queue.pop_back(),
            Self::LeastWorn(set, _) => set.pop_last().map(|(_, _, block)| block),
        }
    }

    /// Takes this block, which is in the pool.
    pub(crate) fn take(&mut self, wanted: u32) {
        match self {
            Self::Fifo(queue) => queue.retain(|block| *block != wanted),
            Self::LeastWorn(set, _) => set.retain(|(_, _, block)| *block != wanted),
        }
    }

    /// Orders the pool anew by the cycles that blocks have now; blocks of equal cycles keep their order.
    pub(crate) fn age(&mut self, cycles_of: impl Fn(u32) -> u32) {
        if let Self::LeastWorn(set, _) = self {
            let aged = set.iter().map(|(_, ticket, block)| (cycles_of(*block), *ticket, *block));
            *set = aged.collect();
        }
    }

    pub(crate) fn blocks(&self) -> Vec<u32> {
        match self {
            Self::Fifo(queue) => queue.iter().copied().collect(),
            Self::LeastWorn(set, _) => set.iter().map(|(_, _, block)| *block).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FreePool;

    #[test]
    fn a_pool_that_aged_gives_the_least_worn_block_first() {
        let mut pool = FreePool::new(true);
        for block in [4, 2, 9] {
            pool.push(block, block);
        }
        assert_eq!(pool.blocks(), [2, 4, 9]);
        // Block 2 wears most, and the others come to the same cycles: these stay in their order.
        pool.age(|block| if block == 2 { 60 } else { 50 });
        assert_eq!([(); 3].map(|()| pool.pop()), [Some(4), Some(9), Some(2)]);
        let mut queue = FreePool::new(false);
        for block in [4, 2] {
            queue.push(block, 0);
        }
        queue.age(|block| block);
        assert_eq!(queue.blocks(), [4, 2]);
    }
}
