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
        self.counts[block as usize] += 1;
    }

    /// A page of any block became stale.
    #[inline]
    pub(crate) fn remove(&mut self, block: u32) {
        let count = self.counts[block as usize];
        // Before the row changes: the count says in which row the block stands.
        self.counts[block as usize] = count - 1;
        if self.indexed && self.closed[block as usize] {
            self.take_out(block, count as usize);
            self.put_in(block, count as usize - 1);
        }
    }

    pub(crate) fn close(&mut self, block: u32) {
        self.closed[block as usize] = true;
        if self.indexed {
            self.put_in(block, self.counts[block as usize] as usize);
        }
    }

    /// The block is being cleaned: it may not be chosen again, and its pages are moved one by one.
    pub(crate) fn take(&mut self, block: u32) {
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

    #[inline]
    fn take_out(&mut self, block: u32, number: usize) {
        let (word, bit) = (block as usize / 64, block % 64);
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
