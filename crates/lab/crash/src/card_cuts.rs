//! What a power cut leaves of a card: what was flushed, and of the writes since then those that its cache had
//! brought to the medium.

use mount::{CardContents, CardOperation};
use random::Stream;

/// Bytes that a card keeps or loses as one: the least that a layer here maps.
const UNIT_BYTES: usize = units::PAGE_BYTES;

/// What becomes of writes that no flush has covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cached {
    /// All of them are there.
    Kept,
    /// None of them is.
    Lost,
    /// Each unit of each of them by itself is there or not, by a draw.
    Reordered,
}

/// A run on a card.
#[derive(Debug)]
pub(crate) struct CardRun {
    /// What the card held before it.
    pub(crate) before: CardContents,
    /// What was done, in order.
    pub(crate) journal: Vec<CardOperation>,
}

/// A card within a run.
#[derive(Clone, Debug)]
pub(crate) struct CardState {
    durable: CardContents,
    /// Writes that no flush has covered, in order.
    unflushed: Vec<usize>,
}

impl CardRun {
    /// The card before the first operation.
    pub(crate) fn start(&self) -> CardState {
        CardState { durable: self.before.clone(), unflushed: Vec::new() }
    }

    /// The card after all that was done, as if it were flushed.
    pub(crate) fn end(&self) -> CardContents {
        let mut contents = self.before.clone();
        for write in 0..self.journal.len() {
            self.put(&mut contents, write);
        }
        contents
    }

    fn put(&self, contents: &mut CardContents, write: usize) {
        if let CardOperation::Write { sector, bytes } = &self.journal[write] {
            contents.put(*sector, bytes);
        }
    }

    /// Carries an operation out.
    pub(crate) fn apply(&self, state: &mut CardState, at: usize) {
        match &self.journal[at] {
            CardOperation::Write { .. } => state.unflushed.push(at),
            CardOperation::Durable { writes } => {
                for write in writes.iter() {
                    self.put(&mut state.durable, *write);
                }
                state.unflushed.retain(|write| writes.binary_search(write).is_err());
            }
        }
    }

    /// What is left if the power fails while an operation is under way.
    pub(crate) fn left(
        &self,
        state: &CardState,
        at: usize,
        cached: Cached,
        seed: u64,
    ) -> CardContents {
        let mut contents = state.durable.clone();
        match cached {
            Cached::Lost => {}
            Cached::Kept => {
                for write in &state.unflushed {
                    self.put(&mut contents, *write);
                }
            }
            Cached::Reordered => {
                // The write under way may be there before those that came first.
                let under_way = matches!(self.journal[at], CardOperation::Write { .. });
                let mut draw = Stream::new(seed ^ at as u64, "cache of the card");
                for write in state.unflushed.iter().copied().chain(under_way.then_some(at)) {
                    self.put_some(&mut contents, write, &mut draw);
                }
            }
        }
        contents
    }

    /// Takes over units of a write, each by a draw.
    fn put_some(&self, contents: &mut CardContents, write: usize, draw: &mut Stream) {
        let CardOperation::Write { sector, bytes } = &self.journal[write] else { return };
        let start = units::sector_start(*sector) as usize;
        let mut at = 0;
        while at < bytes.len() {
            // Units lie where the layer has them, whatever the write begins with.
            let length = (UNIT_BYTES - (start + at) % UNIT_BYTES).min(bytes.len() - at);
            if draw.below(2) == 0 {
                contents.put(units::sector_of((start + at) as u64), &bytes[at..at + length]);
            }
            at += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cached, CardRun};
    use mount::{CardContents, CardOperation};

    fn write(sector: u64, byte: u8, sectors: usize) -> CardOperation {
        CardOperation::Write { sector, bytes: vec![byte; 512 * sectors].into() }
    }

    fn bytes(contents: &CardContents) -> Vec<(u64, u8)> {
        contents.sectors().map(|(sector, bytes)| (sector, bytes[0])).collect()
    }

    fn left(run: &CardRun, at: usize, cached: Cached, seed: u64) -> Vec<(u64, u8)> {
        let mut state = run.start();
        (0..at).for_each(|before| run.apply(&mut state, before));
        bytes(&run.left(&state, at, cached, seed))
    }

    #[test]
    fn what_was_flushed_stays_and_the_rest_is_kept_lost_or_mixed() {
        let durable = CardOperation::Durable { writes: vec![0, 2].into() };
        let journal = vec![write(0, 1, 1), write(8, 2, 1), write(0, 3, 1), durable, write(8, 4, 1)];
        let run = CardRun { before: CardContents::default(), journal };
        assert_eq!(left(&run, 2, Cached::Kept, 1), [(0, 1), (8, 2)]);
        assert_eq!(left(&run, 3, Cached::Lost, 1), []);
        assert_eq!(left(&run, 4, Cached::Lost, 1), [(0, 3)], "the second write waits for a flush");
        assert_eq!(left(&run, 4, Cached::Kept, 1), [(0, 3), (8, 2)]);
        assert_eq!(bytes(&run.end()), [(0, 3), (8, 4)]);
        let mixed: std::collections::BTreeSet<Vec<(u64, u8)>> =
            (0..50).map(|seed| left(&run, 4, Cached::Reordered, seed)).collect();
        let all = [vec![(0, 3)], vec![(0, 3), (8, 2)], vec![(0, 3), (8, 4)]];
        assert_eq!(mixed.into_iter().collect::<Vec<_>>(), all);
    }

    #[test]
    fn units_of_a_long_write_are_kept_each_by_itself() {
        let run = CardRun { before: CardContents::default(), journal: vec![write(4, 1, 20)] };
        let mixed: std::collections::BTreeSet<Vec<u64>> = (0..200)
            .map(|seed| left(&run, 0, Cached::Reordered, seed).iter().map(|(at, _)| *at).collect())
            .collect();
        // Sectors 4 to 7, 8 to 15 and 16 to 23: three units.
        assert_eq!(mixed.len(), 8, "{mixed:?}");
        assert!(mixed.contains(&(8..16).collect::<Vec<u64>>()), "{mixed:?}");
    }
}
