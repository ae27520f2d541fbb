//! Valid pages and age of every block, kept so that cleaning need not search.

/// Number of valid pages by block, and for each number the set of closed blocks that have it.
///
/// The sets are bit rows with a summary row above, so that moving a block costs a few words and the
/// lowest block of the lowest number is found without a scan. One bit for each number and block is
/// an eighth of a byte a page.
#[derive(Clone, Debug)]
pub(crate) struct ValidIndex {
    counts: Vec<u16>,
    closed: Vec<bool>,
    indexed: bool,
    rows: Vec<u64>,
    row_words: usize,
    summaries: Vec<u64>,
    summary_words: usize,
    population: Vec<u32>,
    /// No row below this one is populated.
    fewest_bound: usize,
    pages_per_block: u32,
}

impl ValidIndex {
    /// No block closed. Without `indexed`, [`ValidIndex::fewest`] may not be asked.
    pub(crate) fn new(blocks: u32, pages_per_block: u32, indexed: bool) -> Self {
        // Policies that do not ask for the fewest save the rows and their upkeep.
        let numbers = if indexed { pages_per_block as usize + 1 } else { 0 };
        let row_words = (blocks as usize).div_ceil(64);
        let summary_words = row_words.div_ceil(64);
        Self {
            counts: vec![0; blocks as usize],
            closed: vec![false; blocks as usize],
            indexed,
            rows: vec![0; numbers * row_words],
            row_words,
            summaries: vec![0; numbers * summary_words],
            summary_words,
            population: vec![0; numbers],
            fewest_bound: 0,
            pages_per_block,
        }
    }

    pub(crate) fn is_indexed(&self) -> bool {
        self.indexed
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.counts.len() as u32
    }

    #[inline]
    pub(crate) fn count(&self, block: u32) -> u32 {
        u32::from(self.counts[block as usize])
    }

    #[inline]
    pub(crate) fn is_closed(&self, block: u32) -> bool {
        self.closed[block as usize]
    }

    /// A page of an open block became valid.
    #[inline]
    pub(crate) fn add(&mut self, block: u32) {
        debug_assert!(self.count(block) < self.pages_per_block, "a page is valid twice");
        debug_assert!(!self.is_closed(block), "no page of a closed block becomes valid");
        self.counts[block as usize] += 1;
    }

    /// A page of any block became stale.
    #[inline]
    pub(crate) fn remove(&mut self, block: u32) {
        let count = self.counts[block as usize];
        debug_assert!(count > 0, "a page becomes stale once");
        // Before the row changes: the count says in which row the block stands.
        self.counts[block as usize] = count - 1;
        if self.indexed && self.closed[block as usize] {
            self.take_out(block, count as usize);
            self.put_in(block, count as usize - 1);
        }
    }

    /// Valid pages of a block being cleaned moved to an open block.
    #[inline]
    pub(crate) fn move_pages(&mut self, from: u32, to: u32, pages: u32) {
        debug_assert!(self.count(from) >= pages, "a page becomes stale once");
        debug_assert!(self.count(to) + pages <= self.pages_per_block, "a page is valid twice");
        // A closed block would have to change its row.
        debug_assert!(!self.is_closed(from), "pages are moved out of a block being cleaned");
        debug_assert!(!self.is_closed(to), "no page of a closed block becomes valid");
        self.counts[from as usize] -= pages as u16;
        self.counts[to as usize] += pages as u16;
    }

    pub(crate) fn close(&mut self, block: u32) {
        debug_assert!(!self.is_closed(block), "a block is closed once");
        self.closed[block as usize] = true;
        if self.indexed {
            self.put_in(block, self.counts[block as usize] as usize);
        }
    }

    /// The block is being cleaned: it may not be chosen again, and its pages are moved one by one.
    pub(crate) fn take(&mut self, block: u32) {
        debug_assert!(self.is_closed(block), "only closed blocks are cleaned");
        self.closed[block as usize] = false;
        if self.indexed {
            self.take_out(block, self.counts[block as usize] as usize);
            // The bound only rises here; it falls when a block with fewer valid pages is put in.
            while self.population.get(self.fewest_bound) == Some(&0) {
                self.fewest_bound += 1;
            }
        }
    }

    /// The closed block with the fewest valid pages, the lowest number of equals.
    pub(crate) fn fewest(&self) -> Option<u32> {
        let number = (self.fewest_bound..self.population.len())
            .find(|number| self.population[*number] > 0)?;
        let summary =
            // The summary row finds the first word with a bit, which finds the lowest block of
            // equals.
            &self.summaries[number * self.summary_words..(number + 1) * self.summary_words];
        let (index, word) = summary.iter().enumerate().find(|(_, word)| **word != 0)?;
        let row_index = index * 64 + word.trailing_zeros() as usize;
        let row = self.rows[number * self.row_words + row_index];
        Some(row_index as u32 * 64 + row.trailing_zeros())
    }

    /// Checks the rows against the counts, in debug builds.
    pub(crate) fn audit(&self) {
        if !cfg!(debug_assertions) || !self.indexed {
            return;
        }
        for block in 0..self.blocks() {
            let stands_in = |number: usize| {
                self.rows[number * self.row_words + block as usize / 64] >> (block % 64) & 1 == 1
            };
            let count = self.count(block) as usize;
            assert_eq!(
                stands_in(count),
                self.is_closed(block),
                "block {block} is in the row of its {count} valid pages if it is closed"
            );
        }
        for number in 0..self.population.len() {
            let row = &self.rows[number * self.row_words..(number + 1) * self.row_words];
            let bits: u32 = row.iter().map(|word| word.count_ones()).sum();
            assert_eq!(bits, self.population[number], "population of row {number}");
            assert!(bits == 0 || number >= self.fewest_bound, "row {number} is below the bound");
            let summary = &self.summaries[number * self.summary_words..];
            let is_noted = |word: usize| summary[word / 64] >> (word % 64) & 1 == 1;
            assert!(
                row.iter().enumerate().all(|(word, bits)| (*bits != 0) == is_noted(word)),
                "summary of row {number}"
            );
        }
        let closed = self.closed.iter().filter(|closed| **closed).count();
        let population: u32 = self.population.iter().sum();
        assert_eq!(closed, population as usize, "every closed block is in one row");
    }

    #[inline]
    fn take_out(&mut self, block: u32, number: usize) {
        let (word, bit) = (block as usize / 64, block % 64);
        debug_assert!(
            self.rows[number * self.row_words + word] >> bit & 1 == 1,
            "a block leaves the row that it is in"
        );
        let row = &mut self.rows[number * self.row_words + word];
        *row &= !(1 << bit);
        if *row == 0 {
            self.summaries[number * self.summary_words + word / 64] &= !(1 << (word % 64));
        }
        self.population[number] -= 1;
    }

    #[inline]
    fn put_in(&mut self, block: u32, number: usize) {
        let (word, bit) = (block as usize / 64, block % 64);
        self.rows[number * self.row_words + word] |= 1 << bit;
        self.summaries[number * self.summary_words + word / 64] |= 1 << (word % 64);
        self.population[number] += 1;
        self.fewest_bound = self.fewest_bound.min(number);
    }
}

const END: u32 = u32::MAX;

/// Closed blocks in the order in which they were closed: a doubly linked list in two arrays.
#[derive(Clone, Debug)]
pub(crate) struct AgeList {
    older: Vec<u32>,
    newer: Vec<u32>,
    closed_at: Vec<u64>,
    oldest: u32,
    newest: u32,
}

impl AgeList {
    pub(crate) fn new(blocks: u32) -> Self {
        let ends = vec![END; blocks as usize];
        Self {
            older: ends.clone(),
            newer: ends,
            closed_at: vec![0; blocks as usize],
            oldest: END,
            newest: END,
        }
    }

    /// Sequence number at which the block was closed.
    pub(crate) fn closed_at(&self, block: u32) -> u64 {
        self.closed_at[block as usize]
    }

    pub(crate) fn push(&mut self, block: u32, sequence: u64) {
        debug_assert!(block != self.newest, "a block is closed once");
        debug_assert!(
            self.newest == END || self.closed_at(self.newest) <= sequence,
            "blocks are closed in the order of sequence numbers"
        );
        // Closed at a sequence number, so that age counts programs.
        self.closed_at[block as usize] = sequence;
        self.older[block as usize] = self.newest;
        self.newer[block as usize] = END;
        match self.newest {
            END => self.oldest = block,
            newest => self.newer[newest as usize] = block,
        }
        self.newest = block;
    }

    pub(crate) fn remove(&mut self, block: u32) {
        let (older, newer) = (self.older[block as usize], self.newer[block as usize]);
        debug_assert!(
            if older == END { self.oldest == block } else { self.newer[older as usize] == block },
            "the older neighbour leads to the block"
        );
        debug_assert!(
            if newer == END { self.newest == block } else { self.older[newer as usize] == block },
            "the newer neighbour leads to the block"
        );
        match older {
            END => self.oldest = newer,
            older => self.newer[older as usize] = newer,
        }
        match newer {
            END => self.newest = older,
            newer => self.older[newer as usize] = older,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let linked = |block: u32| (block != END).then_some(block);
        std::iter::successors(linked(self.oldest), move |block| linked(self.newer[*block as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::{AgeList, ValidIndex};
    use crate::tests::panics_with;

    /// What breaks a rule.
    type Break = fn(&mut ValidIndex);

    /// Blocks 0 and 1 closed with 2 and 1 valid pages of 4, block 2 open with one, block 70 closed.
    fn index() -> ValidIndex {
        let mut index = ValidIndex::new(80, 4, true);
        for block in [0, 0, 1, 2, 70] {
            index.add(block);
        }
        for block in [0, 1, 70] {
            index.close(block);
        }
        index.audit();
        index
    }

    #[test]
    fn every_broken_rule_of_the_index_is_seen() {
        let broken: [(&str, Break); 12] = [
            ("a page is valid twice", |index| (0..4).for_each(|_| index.add(2))),
            ("no page of a closed block becomes valid", |index| index.add(1)),
            ("a page becomes stale once", |index| index.remove(5)),
            ("a block is closed once", |index| index.close(1)),
            ("only closed blocks are cleaned", |index| index.take(2)),
            ("a block leaves the row that it is in", |index| {
                index.counts[1] = 3;
                index.remove(1);
            }),
            ("is in the row of its 2 valid pages", |index| {
                index.counts[1] = 2;
                index.audit();
            }),
            ("block 2 is in the row", |index| {
                index.put_in(2, 1);
                index.audit();
            }),
            ("population of row 1", |index| {
                index.population[1] = 1;
                index.audit();
            }),
            ("row 1 is below the bound", |index| {
                index.fewest_bound = 2;
                index.audit();
            }),
            ("summary of row 1", |index| {
                index.summaries[1] = 1;
                index.audit();
            }),
            ("every closed block is in one row", |index| {
                index.put_in(5, 3);
                index.audit();
            }),
        ];
        for (message, break_it) in broken {
            panics_with(message, || break_it(&mut index()));
        }
    }

    #[test]
    fn every_broken_link_of_the_list_is_seen() {
        let list = || {
            let mut list = AgeList::new(4);
            (0..3).for_each(|block| list.push(block, u64::from(block) + 5));
            list
        };
        panics_with("a block is closed once", || list().push(2, 9));
        panics_with("in the order of sequence numbers", || list().push(3, 6));
        panics_with("the older neighbour leads", || list().remove(3));
        panics_with("the newer neighbour leads", || {
            let mut list = list();
            list.older[2] = 0;
            list.remove(1);
        });
    }
}
