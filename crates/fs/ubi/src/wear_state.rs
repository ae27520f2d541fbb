//! Which physical blocks are free, used, protected or to be scrubbed, and what is to be done.
//!
//! Source: `drivers/mtd/ubi/wl.c` of Linux 2.6.32 and 6.1. Uses numbers and the tree of free blocks only.

use crate::free_tree::FreeTree;
use crate::headers::ERASE_COUNTER_MAX;
use crate::numbers::{LebAddress, LebNumber, PebNumber, VolumeNumber};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Erases for which a block that was just taken is not moved (`UBI_PROT_QUEUE_LEN`).
const PROTECTION_LENGTH: usize = 10;

/// How long data is expected to stay (`dtype` of Linux before 3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DataType {
    /// Long: a worn block will do.
    LongTerm,
    /// Short: it takes the least worn block.
    ShortTerm,
    /// Not known; the only one since Linux 3.7.
    #[default]
    Unknown,
}

/// A work of the background thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Erase a block, which held this logical block of a volume.
    Erase { peb: PebNumber, leb: Option<LebAddress>, tortures: bool },
    /// Move a block for the sake of wear, or because bits had to be corrected.
    Move,
}

/// A move that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// The block whose data moves.
    pub(crate) from: PebNumber,
    /// The free block that takes the data.
    pub(crate) to: PebNumber,
    /// The reason is bits that had to be corrected, not wear.
    pub(crate) scrubs: bool,
}

/// Blocks by erase counter, then by number.
type ByWear = BTreeSet<(u64, PebNumber)>;

/// The blocks of a device. A block that is in none of the sets is being erased or moved, or is bad.
#[derive(Debug)]
pub(crate) struct WearState {
    counters: Vec<u64>,
    threshold: u64,
    pub(crate) free: FreeTree,
    used: ByWear,
    scrub: ByWear,
    erroneous: ByWear,
    protected: [BTreeSet<PebNumber>; PROTECTION_LENGTH],
    protection_head: usize,
    pub(crate) works: VecDeque<Work>,
    pub(crate) move_from: Option<PebNumber>,
    pub(crate) move_to: Option<PebNumber>,
    /// The target of the move was given back before the move ended.
    pub(crate) is_target_put: bool,
    /// A move is among the works, or under way.
    pub(crate) is_move_scheduled: bool,
    pub(crate) erase_counter_max: u64,
}

impl WearState {
    pub(crate) fn new(peb_count: u32, threshold: u64) -> Self {
        Self {
            counters: vec![0; peb_count as usize],
            threshold,
            free: FreeTree::new(peb_count),
            used: ByWear::new(),
            scrub: ByWear::new(),
            erroneous: ByWear::new(),
            protected: std::array::from_fn(|_| BTreeSet::new()),
            protection_head: 0,
            works: VecDeque::new(),
            move_from: None,
            move_to: None,
            is_target_put: false,
            is_move_scheduled: false,
            erase_counter_max: 0,
        }
    }

    pub(crate) fn counter(&self, peb: PebNumber) -> u64 {
        self.counters[peb.index()]
    }

    pub(crate) fn set_counter(&mut self, peb: PebNumber, erase_counter: u64) {
        debug_assert!(erase_counter <= ERASE_COUNTER_MAX, "{erase_counter} fits a header");
        debug_assert_eq!(self.holders(peb), 0, "block {peb} would be lost under its old counter");
        self.counters[peb.index()] = erase_counter;
        self.erase_counter_max = self.erase_counter_max.max(erase_counter);
    }

    /// Wears every block by so many erases that are not carried out; sets and trees follow.
    ///
    /// The tree of free blocks grows anew in the order of keys, so its root may be another block of
    /// the same wear.
    pub(crate) fn age(&mut self, erases: &[u32]) {
        assert_eq!(erases.len(), self.counters.len(), "a number for each block");
        let pebs = || (0..erases.len() as u32).map(PebNumber::new);
        let mut free: Vec<PebNumber> = pebs().filter(|peb| self.free.contains(*peb)).collect();
        for (counter, erases) in self.counters.iter_mut().zip(erases) {
            // Beyond it the kernel takes a header for damaged (`UBI_MAX_ERASECOUNTER`).
            *counter = (*counter + u64::from(*erases)).min(ERASE_COUNTER_MAX);
        }
        let counters = &self.counters;
        let key = |peb: PebNumber| (counters[peb.index()], peb);
        // The sets are keyed by counters; protected blocks are not, and come to `used` under their
        // new ones.
        for set in [&mut self.used, &mut self.scrub, &mut self.erroneous] {
            *set = set.iter().map(|(_, peb)| key(*peb)).collect();
        }
        // The shape of the tree depends on the order of insertions, and the root is what is
        // allocated: so the order must be fixed.
        free.sort_unstable_by_key(|peb| key(*peb));
        self.free = FreeTree::new(erases.len() as u32);
        for peb in free {
            self.free.insert(peb, counters[peb.index()]);
        }
        self.erase_counter_max = counters.iter().copied().max().unwrap_or(0);
    }

    /// How many of the sets and works have a block; one that is being erased or moved is in none.
    fn holders(&self, peb: PebNumber) -> usize {
        let key = self.key(peb);
        let is_erased =
            |work: &&Work| matches!(work, Work::Erase { peb: erased, .. } if *erased == peb);
        usize::from(self.free.contains(peb))
            + [&self.used, &self.scrub, &self.erroneous]
                .map(|set| usize::from(set.contains(&key)))
                .iter()
                .sum::<usize>()
            + self.protected.iter().filter(|slot| slot.contains(&peb)).count()
            + self.works.iter().filter(is_erased).count()
    }

    /// Rules that hold at any time and are broken now.
    pub(crate) fn broken_rules(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for peb in (0..self.counters.len() as u32).map(PebNumber::new) {
            let is_moving = self.move_from == Some(peb) || self.move_to == Some(peb);
            let holders = self.holders(peb);
            if holders + usize::from(is_moving) > 1 {
                broken.push(format!("block {peb} is in {holders} sets; is moving: {is_moving}"));
            }
            if self.counter(peb) > self.erase_counter_max {
                broken.push(format!("block {peb} was erased more often than the most worn one"));
            }
            if self.free.contains(peb) && self.free.erase_counter(peb) != self.counter(peb) {
                broken.push(format!("block {peb} is free with an old erase counter"));
            }
        }
        // A key with an old counter would never be found again.
        for (counter, peb) in self.used.iter().chain(&self.scrub).chain(&self.erroneous) {
            if *counter != self.counter(*peb) {
                broken.push(format!("block {peb} is in use with an old erase counter"));
            }
        }
        let is_work = self.works.contains(&Work::Move) || self.move_from.is_some();
        if is_work && !self.is_move_scheduled {
            broken.push("a move is scheduled, and the flag says no".to_owned());
        }
        broken
    }

    /// Blocks that are in a set, wait to be erased or are being moved.
    pub(crate) fn held_blocks(&self) -> usize {
        let protected: usize = self.protected.iter().map(BTreeSet::len).sum();
        let moving = [self.move_from, self.move_to].iter().flatten().count();
        let in_use = self.used.len() + self.scrub.len() + self.erroneous.len() + protected;
        in_use + self.free.len() as usize + self.pending_erases() as usize + moving
    }

    /// Whether a block holds the data of a volume, or is on its way to hold it.
    pub(crate) fn is_in_use(&self, peb: PebNumber) -> bool {
        let key = self.key(peb);
        [&self.used, &self.scrub, &self.erroneous].iter().any(|set| set.contains(&key))
            || self.protected.iter().any(|slot| slot.contains(&peb))
            || self.move_from == Some(peb)
            || self.move_to == Some(peb)
    }

    fn key(&self, peb: PebNumber) -> (u64, PebNumber) {
        (self.counter(peb), peb)
    }

    pub(crate) fn add_free(&mut self, peb: PebNumber) {
        debug_assert_eq!(self.holders(peb), 0, "block {peb} is in one set only");
        self.free.insert(peb, self.counters[peb.index()]);
    }

    pub(crate) fn add_used(&mut self, peb: PebNumber) {
        debug_assert_eq!(self.holders(peb), 0, "block {peb} is in one set only");
        self.used.insert(self.key(peb));
    }

    pub(crate) fn add_scrub(&mut self, peb: PebNumber) {
        debug_assert_eq!(self.holders(peb), 0, "block {peb} is in one set only");
        self.scrub.insert(self.key(peb));
    }

    pub(crate) fn add_erroneous(&mut self, peb: PebNumber) {
        debug_assert_eq!(self.holders(peb), 0, "block {peb} is in one set only");
        self.erroneous.insert(self.key(peb));
    }

    pub(crate) fn erroneous_count(&self) -> usize {
        self.erroneous.len()
    }

    pub(crate) fn scrub_count(&self) -> u32 {
        self.scrub.len() as u32
    }

    pub(crate) fn is_scrubbing(&self, peb: PebNumber) -> bool {
        let key = self.key(peb);
        self.move_from == Some(peb) || self.scrub.contains(&key) || self.erroneous.contains(&key)
    }

    /// Takes a free block and protects it from being moved.
    pub(crate) fn take_free(&mut self, data_type: DataType) -> Option<PebNumber> {
        let (first, last) = (self.free.first()?, self.free.last()?);
        let lowest = self.free.erase_counter(first);
        // How much more worn than the least worn one a block may be that is taken
        // (`WL_FREE_MAX_DIFF`).
        let difference_max = 2 * self.threshold;
        let peb = match data_type {
            DataType::LongTerm => self.free.last_below(lowest + difference_max)?,
            DataType::ShortTerm => first,
            DataType::Unknown if self.free.erase_counter(last) - lowest < difference_max => {
                // Any block will do while the spread is small, and the root costs no search: about
                // the middle, by which the most and the least worn are spared.
                self.free.root()?
            }
            DataType::Unknown => self.free.last_below(lowest + difference_max / 2)?,
        };
        let was_free = self.free.remove(peb);
        debug_assert!(was_free, "block {peb} is free");
        self.protect(peb);
        Some(peb)
    }

    /// Protects a block from being moved, for a number of erases.
    pub(crate) fn protect(&mut self, peb: PebNumber) {
        debug_assert_eq!(self.holders(peb), 0, "block {peb} is in one set only");
        // The last of ten slots, which comes to its turn after ten erases.
        let tail = (self.protection_head + PROTECTION_LENGTH - 1) % PROTECTION_LENGTH;
        self.protected[tail].insert(peb);
    }

    /// One more erase was made: the block that was protected longest may be moved again.
    pub(crate) fn serve_protection(&mut self) {
        for peb in std::mem::take(&mut self.protected[self.protection_head]) {
            self.add_used(peb);
        }
        self.protection_head = (self.protection_head + 1) % PROTECTION_LENGTH;
    }

    fn unprotect(&mut self, peb: PebNumber) -> bool {
        self.protected.iter_mut().any(|slot| slot.remove(&peb))
    }

    /// Takes a block out of use; whether it has to be tortured before it is used again. None if it
    /// is not in use.
    pub(crate) fn release(&mut self, peb: PebNumber) -> Option<bool> {
        let key = self.key(peb);
        // The order of `ubi_wl_put_peb`: used, scrub, erroneous, protected.
        if self.used.remove(&key) || self.scrub.remove(&key) {
            return Some(false);
        }
        if self.erroneous.remove(&key) {
            return Some(true);
        }
        self.unprotect(peb).then_some(false)
    }

    /// Puts a block that is used or protected among those to be scrubbed; false if it is neither.
    pub(crate) fn start_scrubbing(&mut self, peb: PebNumber) -> bool {
        let is_in_use = self.used.remove(&self.key(peb)) || self.unprotect(peb);
        if is_in_use {
            self.add_scrub(peb);
        }
        is_in_use
    }

    /// The block that a move would fill.
    fn target(&self) -> Option<PebNumber> {
        let least = self.free.erase_counter(self.free.first()?);
        // A worn block, so that data which stays rests there; not the most worn of all, or one
        // block would take all moves.
        self.free.last_below(least + 2 * self.threshold)
    }

    /// Whether the least worn used block should give its data to a worn free one.
    fn levelling(&self) -> Option<Move> {
        let (least, from) = *self.used.first()?;
        let to = self.target()?;
        let is_needed = self.free.erase_counter(to) >= least + self.threshold;
        is_needed.then_some(Move { from, to, scrubs: false })
    }

    /// Puts a move among the works if there is need; whether it did (`ensure_wear_leveling`).
    pub(crate) fn schedule_move(&mut self) -> bool {
        let is_needed =
            // One move at a time. Scrubbing is scheduled even with no free block; the worker then
            // gives up, and the next erase asks again.
            !self.is_move_scheduled && (!self.scrub.is_empty() || self.levelling().is_some());
        if is_needed {
            self.is_move_scheduled = true;
            self.works.push_back(Work::Move);
        }
        is_needed
    }

    /// Begins a move: both blocks leave their sets.
    pub(crate) fn begin_move(&mut self) -> Option<Move> {
        let begun = match self.scrub.first() {
            // Scrubbing goes before levelling: data is at stake, not wear.
            Some((_, from)) => Move { from: *from, to: self.target()?, scrubs: true },
            None => self.levelling()?,
        };
        debug_assert!(self.move_from.is_none() && self.move_to.is_none(), "one move at a time");
        debug_assert_ne!(begun.from, begun.to, "a free block is not in use");
        let key = self.key(begun.from);
        if begun.scrubs {
            self.scrub.remove(&key);
        } else {
            self.used.remove(&key);
        }
        self.free.remove(begun.to);
        (self.move_from, self.move_to) = (Some(begun.from), Some(begun.to));
        Some(begun)
    }

    /// Ends a move; whether its target was given back meanwhile.
    pub(crate) fn end_move(&mut self) -> bool {
        (self.move_from, self.move_to) = (None, None);
        self.is_move_scheduled = false;
        std::mem::take(&mut self.is_target_put)
    }

    /// Takes the first work, or the first that concerns a volume's block.
    pub(crate) fn take_work(
        &mut self,
        wanted: Option<(VolumeNumber, Option<LebNumber>)>,
    ) -> Option<Work> {
        let Some((volume, leb)) = wanted else { return self.works.pop_front() };
        let at = self.works.iter().position(|work| match work {
            Work::Erase { leb: Some(held), .. } => {
                held.volume == volume && leb.is_none_or(|leb| leb == held.leb)
            }
            Work::Erase { leb: None, .. } | Work::Move => false,
        })?;
        self.works.remove(at)
    }

    /// Blocks by erase counter, but for those that are left out.
    pub(crate) fn histogram(&self, is_left_out: impl Fn(PebNumber) -> bool) -> BTreeMap<u64, u32> {
        let mut blocks = BTreeMap::new();
        for (counter, peb) in self.counters.iter().zip(0..) {
            if !is_left_out(PebNumber::new(peb)) {
                *blocks.entry(*counter).or_insert(0) += 1;
            }
        }
        blocks
    }

    /// Blocks that wait to be erased.
    pub(crate) fn pending_erases(&self) -> u32 {
        self.works.iter().filter(|work| matches!(work, Work::Erase { .. })).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::{DataType, Move, PebNumber, WearState};

    fn peb(number: u32) -> PebNumber {
        PebNumber::new(number)
    }

    /// Blocks that Linux 6.12 took and freed under UBIFS, in order, from the operations of the chip.
    const RECORDS: &[(&str, u32, &str)] = &[
        ("base-t", 512, include_str!("../tests/data/blocks/ubifs-base-t.txt")),
        ("base-x", 512, include_str!("../tests/data/blocks/ubifs-base-x.txt")),
        ("fill-x", 512, include_str!("../tests/data/blocks/ubifs-fill-x.txt")),
        ("gc-x", 64, include_str!("../tests/data/blocks/ubifs-gc-x.txt")),
        ("2048-base-x", 512, include_str!("../tests/data/blocks/ubifs2048-base-x.txt")),
        ("2048-fill-x", 512, include_str!("../tests/data/blocks/ubifs2048-fill-x.txt")),
    ];

    #[test]
    fn old_kernels_choose_by_the_type_of_data() {
        let mut wear = WearState::new(40, 10);
        for number in 0..40 {
            wear.set_counter(peb(number), u64::from(number));
            wear.add_free(peb(number));
        }
        // Not the most worn ones: less than twice the threshold above the least.
        assert_eq!(wear.take_free(DataType::LongTerm), Some(peb(19)));
        assert_eq!(wear.take_free(DataType::ShortTerm), Some(peb(0)));
        // The spread is twice the threshold or more, so the middle is taken by counter.
        assert_eq!(wear.take_free(DataType::Unknown), Some(peb(10)));
    }

    #[test]
    fn blocks_that_age_stay_in_their_sets_under_new_counters() {
        let mut wear = WearState::new(6, 10);
        (0..4).for_each(|number| wear.add_free(peb(number)));
        (4..6).for_each(|number| wear.add_used(peb(number)));
        assert!(!wear.schedule_move(), "nothing is apart");
        wear.age(&[30, 13, 20, 0, 0, 7]);
        assert!(wear.broken_rules().is_empty(), "{:?}", wear.broken_rules());
        assert_eq!([wear.free.first(), wear.free.last()], [Some(peb(3)), Some(peb(0))]);
        // The least worn block in use gives its data to a worn one.
        assert!(wear.schedule_move());
        let begun = wear.begin_move().expect("wear is apart");
        assert_eq!((begun.from, begun.to), (peb(4), peb(1)));
    }

    #[test]
    fn protection_lasts_ten_erases() {
        let mut wear = WearState::new(4, 2);
        wear.set_counter(peb(3), 3);
        (0..4).for_each(|number| wear.add_free(peb(number)));
        let taken = wear.take_free(DataType::ShortTerm).expect("four are free");
        for _ in 0..9 {
            wear.serve_protection();
            assert!(!wear.schedule_move(), "a protected block is not moved");
        }
        wear.serve_protection();
        assert!(wear.schedule_move());
        let begun = wear.begin_move().expect("there is one to move");
        assert_eq!((begun.from, begun.scrubs), (taken, false));
        assert_ne!(begun.to, taken);
    }

    /// A used block, and free ones, by their erase counters; which of them a move would begin with.
    fn move_between(used: &[u64], free: &[u64]) -> Option<(u32, u32)> {
        let mut wear = WearState::new((used.len() + free.len()) as u32, 10);
        for (counter, number) in used.iter().chain(free).zip(0..) {
            let peb = peb(number);
            wear.set_counter(peb, *counter);
            if peb.index() < used.len() { wear.add_used(peb) } else { wear.add_free(peb) }
        }
        let is_scheduled = wear.schedule_move();
        let begun = wear.begin_move();
        assert_eq!(is_scheduled, begun.is_some(), "what is scheduled is done");
        begun.map(|Move { from, to, scrubs }| {
            assert!(!scrubs, "nothing was to be scrubbed");
            (from.get(), to.get())
        })
    }

    /// `ensure_wear_leveling` moves data when the difference has reached the threshold, not only behind it.
    #[test]
    fn data_moves_from_the_threshold_on() {
        assert_eq!(move_between(&[5], &[14]), None, "one below the threshold of ten");
        assert_eq!(move_between(&[5], &[15]), Some((0, 1)), "at the threshold");
        assert_eq!(move_between(&[5], &[16]), Some((0, 1)));
        // The least worn of the used ones gives its data.
        assert_eq!(move_between(&[7, 5, 6], &[15]), Some((1, 3)));
        // The target is the most worn free one less than twice the threshold above the least worn.
        assert_eq!(move_between(&[0], &[4, 23, 24, 25]), Some((0, 2)));
        assert_eq!(move_between(&[0], &[4, 24]), None, "the other one is too worn for it");
    }

    #[test]
    fn blocks_are_taken_in_the_order_of_linux() {
        for (name, peb_count, record) in RECORDS {
            let mut wear = WearState::new(*peb_count, 4096);
            // The first two hold the volume table after formatting.
            let mut is_free: Vec<bool> = (0..*peb_count).map(|peb| peb >= 2).collect();
            for (line, at) in record.lines().zip(1..) {
                let (what, number) = line.split_once(' ').unwrap_or((line, "0"));
                let block = peb(number.parse().expect("a block"));
                match what {
                    "attach" => {
                        let counters = wear.counters.clone();
                        wear = WearState::new(*peb_count, 4096);
                        wear.counters = counters;
                        (0..*peb_count)
                            .filter(|number| is_free[*number as usize])
                            .for_each(|number| wear.add_free(peb(number)));
                    }
                    "take" => {
                        let taken = wear.take_free(DataType::Unknown);
                        assert_eq!(taken, Some(block), "{name}, line {at}");
                        is_free[block.index()] = false;
                    }
                    _ => {
                        // It is in use no more; after an attach it never was.
                        wear.release(block);
                        wear.set_counter(block, wear.counter(block) + 1);
                        wear.add_free(block);
                        wear.serve_protection();
                        is_free[block.index()] = true;
                    }
                }
            }
        }
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "is in one set only")]
    fn a_block_that_is_freed_in_use_is_noticed() {
        let mut wear = WearState::new(4, 2);
        wear.add_used(peb(1));
        wear.add_free(peb(1));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "would be lost under its old counter")]
    fn the_counter_of_a_block_in_a_set_does_not_change() {
        let mut wear = WearState::new(4, 2);
        wear.add_free(peb(1));
        wear.set_counter(peb(1), 7);
    }
}
