//! The shared table of files, from which the next operation is drawn.

use crate::random::Random;

/// What an operation does to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Create the file and write all of it. Whoever carries it out decides when it is durable.
    Copy,
    /// Remove the file, without a sync.
    Delete,
}

impl Kind {
    /// The word for this kind in the list of operations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Delete => "delete",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Absent,
    Present,
    /// Some process is copying or deleting it; no other process may draw it.
    Busy,
}

/// Which files are on the disk and how much room is left.
///
/// Room is counted here, in whole clusters, and not read from the file system, so that the drawn
/// operations depend only on the seed.
#[derive(Debug)]
pub struct Table {
    sizes_bytes: Vec<u64>,
    states: Vec<State>,
    cluster_bytes: u64,
    free_bytes: u64,
}

impl Table {
    /// A table of absent files on a disk with `free_bytes` of room in clusters of `cluster_bytes`.
    pub fn new(sizes_bytes: Vec<u64>, free_bytes: u64, cluster_bytes: u64) -> Self {
        let states = vec![State::Absent; sizes_bytes.len()];
        Self { sizes_bytes, states, cluster_bytes, free_bytes }
    }

    /// The size of a file in bytes.
    pub fn size_bytes(&self, file: usize) -> u64 {
        self.sizes_bytes[file]
    }

    /// The room left in bytes.
    pub const fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// How many files there are in all.
    pub const fn files(&self) -> usize {
        self.sizes_bytes.len()
    }

    /// True when this absent file fits into the room left.
    pub fn fits(&self, file: usize) -> bool {
        self.occupied_bytes(file) <= self.free_bytes
    }

    /// Draws the next operation and marks its file busy; `None` when every candidate is busy.
    ///
    /// Copy and delete are equally likely. A copy that does not fit becomes a delete, and a kind
    /// without a candidate becomes the other one.
    pub fn draw(&mut self, random: &mut Random) -> Option<(Kind, usize)> {
        let copy_first = random.coin();
        let drawn = if copy_first {
            self.draw_copy(random).or_else(|| self.draw_delete(random))
        } else {
            self.draw_delete(random).or_else(|| self.draw_copy(random))
        };
        if let Some((kind, file)) = drawn {
            self.begin(kind, file);
        }
        drawn
    }

    /// Marks a file busy and, for a copy, takes its room.
    pub fn begin(&mut self, kind: Kind, file: usize) {
        // Room is taken at the beginning of a copy and given back at the end of a deletion, so that two
        // processes never count on the same bytes.
        self.states[file] = State::Busy;
        if kind == Kind::Copy {
            self.free_bytes -= self.occupied_bytes(file);
        }
    }

    /// Ends an operation that `begin` started; a delete gives its room back only now.
    pub fn finish(&mut self, kind: Kind, file: usize) {
        match kind {
            Kind::Copy => self.states[file] = State::Present,
            Kind::Delete => {
                self.states[file] = State::Absent;
                self.free_bytes += self.occupied_bytes(file);
            }
        }
    }

    fn draw_copy(&self, random: &mut Random) -> Option<(Kind, usize)> {
        let file = self.pick(State::Absent, random)?;
        self.fits(file).then_some((Kind::Copy, file))
    }

    fn draw_delete(&self, random: &mut Random) -> Option<(Kind, usize)> {
        self.pick(State::Present, random).map(|file| (Kind::Delete, file))
    }

    fn pick(&self, state: State, random: &mut Random) -> Option<usize> {
        let candidates: Vec<usize> =
            (0..self.states.len()).filter(|&file| self.states[file] == state).collect();
        // Nothing is drawn where nothing can be chosen: the number goes to the other kind.
        (!candidates.is_empty()).then(|| candidates[random.below(candidates.len())])
    }

    fn occupied_bytes(&self, file: usize) -> u64 {
        self.sizes_bytes[file].next_multiple_of(self.cluster_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_does_not_fit_becomes_a_delete() {
        let mut table = Table::new(vec![4096, 4096], 4096, 4096);
        table.begin(Kind::Copy, 0);
        table.finish(Kind::Copy, 0);
        for seed in 0..8 {
            let drawn = table.draw(&mut Random::new(seed, 0));
            assert_eq!(drawn, Some((Kind::Delete, 0)));
            table.states[0] = State::Present;
        }
    }

    #[test]
    fn an_empty_disk_turns_deletes_into_copies() {
        for seed in 0..8 {
            let mut table = Table::new(vec![1], 4096, 4096);
            assert_eq!(table.draw(&mut Random::new(seed, 0)), Some((Kind::Copy, 0)));
            assert_eq!(table.free_bytes(), 0);
        }
    }

    #[test]
    fn a_busy_file_is_not_drawn_again() {
        let mut table = Table::new(vec![1], 8192, 4096);
        let mut random = Random::new(1, 1);
        assert!(table.draw(&mut random).is_some());
        assert_eq!(table.draw(&mut random), None);
        table.finish(Kind::Copy, 0);
        assert_eq!(table.draw(&mut random), Some((Kind::Delete, 0)));
    }
}
