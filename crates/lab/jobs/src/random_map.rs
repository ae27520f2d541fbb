//! Which blocks a random pass has touched, so that it touches each once.

/// Levels of words of 64 bits; a bit of the lowest is a block, a bit above a full word below.
///
/// fio has the same in `lib/axmap.c`. It is why a pass at random over a file reads or writes every block of it
/// exactly once unless `norandommap` is given.
#[derive(Clone, Debug)]
pub(crate) struct RandomMap {
    levels: Vec<Vec<u64>>,
    blocks: u64,
    taken: u64,
}

impl RandomMap {
    /// No block is taken.
    pub(crate) fn new(blocks: u64) -> Self {
        let mut levels = Vec::new();
        let mut bits = blocks;
        loop {
            let words = bits.div_ceil(64);
            let mut level = vec![0_u64; words as usize];
            // Bits behind the last block count as taken: a search never ends there.
            if let (Some(last), 1..) = (level.last_mut(), bits % 64) {
                *last = u64::MAX << (bits % 64);
            }
            levels.push(level);
            if words <= 1 {
                return Self { levels, blocks, taken: 0 };
            }
            bits = words;
        }
    }

    /// True once every block is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.taken == self.blocks
    }

    /// Begins a new pass.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.blocks);
    }

    fn is_taken(&self, block: u64) -> bool {
        self.levels[0][block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// The first block from `block` on that is not taken, from the begin on if there is none behind it.
    ///
    /// As `axmap_next_free`. At least one block must be left.
    pub(crate) fn next_free(&self, block: u64) -> u64 {
        debug_assert!(!self.is_full(), "a full map was cleared");
        let found = self.free_from(block).or_else(|| self.free_from(0));
        found.expect("a block is left")
    }

    fn free_from(&self, block: u64) -> Option<u64> {
        // Up until a word has a free bit behind the place, then down to the lowest of it.
        let mut place = block;
        let mut height = 0;
        loop {
            let word = *self.levels.get(height)?.get(place as usize / 64)?;
            let free = !word & (u64::MAX << (place % 64));
            if free != 0 {
                place = place / 64 * 64 + u64::from(free.trailing_zeros());
                break;
            }
            place = place / 64 + 1;
            height += 1;
        }
        for level in self.levels[..height].iter().rev() {
            place = place * 64 + u64::from((!level[place as usize]).trailing_zeros());
        }
        Some(place)
    }

    /// Takes up to `count` blocks from `block` on, until one is taken already; returns how many.
    ///
    /// As `axmap_set_nr`, by which fio cuts a request that would touch a block twice.
    pub(crate) fn take(&mut self, block: u64, count: u64) -> u64 {
        let end = self.blocks.min(block + count);
        let own = (block..end).take_while(|block| !self.is_taken(*block)).count() as u64;
        for taken in block..block + own {
            let mut place = taken;
            for level in &mut self.levels {
                let word = &mut level[place as usize / 64];
                *word |= 1 << (place % 64);
                if *word != u64::MAX {
                    break;
                }
                place /= 64;
            }
        }
        self.taken += own;
        debug_assert!(own > 0, "the first block was free");
        own
    }
}

#[cfg(test)]
mod tests {
    use super::RandomMap;
    use random::Stream;

    #[test]
    fn a_pass_takes_each_block_once() {
        // Around the borders of words, and of words of words.
        for blocks in [1_u64, 63, 64, 65, 4095, 4096, 4097, 300_000] {
            let mut map = RandomMap::new(blocks);
            let mut seen = vec![false; blocks as usize];
            let mut stream = Stream::new(1, "map");
            while !map.is_full() {
                let drawn = u64::from(stream.below(blocks as u32));
                let block = map.next_free(drawn);
                let count = map.take(block, 3);
                for one in block..block + count {
                    assert!(!std::mem::replace(&mut seen[one as usize], true), "{one} twice");
                }
            }
            assert!(seen.iter().all(|seen| *seen), "{blocks} blocks");
            map.clear();
            assert_eq!(map.next_free(blocks - 1), blocks - 1);
        }
    }

    #[test]
    fn the_next_free_block_is_the_next_one_and_wraps() {
        let mut map = RandomMap::new(200);
        map.take(10, 100);
        assert_eq!((map.next_free(9), map.next_free(10), map.next_free(150)), (9, 110, 150));
        map.take(110, 90);
        assert_eq!(map.next_free(50), 0);
        assert_eq!(map.take(8, 5), 2, "cut where blocks are taken");
    }
}
