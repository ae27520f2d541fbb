//! The write cache: pages, or parts of them, that wait to be programmed.
//!
//! Sectors are counted, pages are what is programmed: writes to the same page meet in the cache and
//! cost one program. Each die takes its pages in the order in which they came. A page leaves the
//! cache when its program is done; until then reads find it here.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Sectors of a page, one bit each.
pub(crate) type Sectors = u128;

/// The sectors `first..end` of a page.
#[inline]
pub(crate) fn sectors(first: u32, end: u32) -> Sectors {
    // A shift by all 128 bits would overflow.
    let below = |bit: u32| if bit >= Sectors::BITS { Sectors::MAX } else { (1 << bit) - 1 };
    below(end) & !below(first)
}

/// A page in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedPage {
    /// Number of the page on the device.
    pub(crate) page: u32,
    /// Sectors that the host wrote.
    pub(crate) written: Sectors,
    /// All of these sectors have arrived.
    pub(crate) ready_ns: u64,
    is_waiting: bool,
}

/// Pages that wait for their die, or are being programmed.
#[derive(Clone, Debug)]
pub(crate) struct WriteCache {
    capacity_sectors: u32,
    used_sectors: u32,
    slots: Vec<CachedPage>,
    free: Vec<u32>,
    newest: FxHashMap<u32, u32>,
    queues: Vec<VecDeque<u32>>,
    waiting: u32,
}

impl WriteCache {
    /// An empty cache of `bytes` bytes (0: none) in front of `dies` dies.
    pub(crate) fn new(bytes: u64, dies: u32) -> Self {
        Self {
            capacity_sectors: (bytes / crate::SECTOR_BYTES).min(u64::from(u32::MAX)) as u32,
            used_sectors: 0,
            slots: Vec::new(),
            free: Vec::new(),
            newest: FxHashMap::default(),
            queues: vec![VecDeque::new(); dies as usize],
            waiting: 0,
        }
    }

    /// Memory for data, in bytes.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        u64::from(self.capacity_sectors) * crate::SECTOR_BYTES
    }

    /// Sectors that have room.
    pub(crate) fn capacity_sectors(&self) -> u32 {
        self.capacity_sectors
    }

    /// True if there is a cache at all.
    #[inline]
    pub(crate) fn exists(&self) -> bool {
        self.capacity_sectors > 0
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used_sectors == 0
    }

    /// Sectors that take room.
    #[inline]
    pub(crate) fn used_sectors(&self) -> u32 {
        self.used_sectors
    }

    /// True if some page waits for its die.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// True if `count` more sectors fit.
    pub(crate) fn has_room(&self, count: u32) -> bool {
        self.used_sectors + count <= self.capacity_sectors
    }

    /// Sectors of the page that are here.
    pub(crate) fn held(&self, page: u32) -> Sectors {
        self.newest.get(&page).map_or(0, |slot| self.slots[*slot as usize].written)
    }

    /// The page, if it waits for its die.
    pub(crate) fn waiting_page(&self, page: u32) -> Option<CachedPage> {
        let slot = self.slots[*self.newest.get(&page)? as usize];
        slot.is_waiting.then_some(slot)
    }

    /// Sectors of the page that wait for their die: a write to it joins them.
    pub(crate) fn waiting(&self, page: u32) -> Option<Sectors> {
        self.waiting_page(page).map(|slot| slot.written)
    }

    /// Puts sectors of a page in; there must be room for those that are new.
    pub(crate) fn put(&mut self, die: usize, page: u32, written: Sectors, ready_ns: u64) {
        // Only a waiting page can be joined; one that its die has taken is being programmed.
        if let Some(held) = self.waiting(page) {
            let slot = &mut self.slots[self.newest[&page] as usize];
            slot.written = held | written;
            slot.ready_ns = slot.ready_ns.max(ready_ns);
            self.used_sectors += (written & !held).count_ones();
            self.check_occupancy();
            return;
        }
        let cached = CachedPage { page, written, ready_ns, is_waiting: true };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = cached;
            slot
        } else {
            self.slots.push(cached);
            self.slots.len() as u32 - 1
        };
        // Reads find the newest copy.
        self.newest.insert(page, slot);
        self.queues[die].push_back(slot);
        self.waiting += 1;
        self.used_sectors += written.count_ones();
        self.check_occupancy();
    }

    /// The page that the die takes next.
    #[inline]
    pub(crate) fn first(&self, die: usize) -> Option<CachedPage> {
        self.queues[die].front().map(|slot| self.slots[*slot as usize])
    }

    /// The first pages of a die that one program writes: how many of `most` wait, and when all have arrived.
    #[inline]
    pub(crate) fn group(&self, die: usize, most: usize) -> Option<(usize, u64)> {
        let ready =
            self.queues[die].iter().take(most).map(|slot| self.slots[*slot as usize].ready_ns);
        let count = self.queues[die].len().min(most);
        ready.max().map(|ready_ns| (count, ready_ns))
    }

    /// Pages that wait for the die.
    #[inline]
    pub(crate) fn waiting_of(&self, die: usize) -> usize {
        self.queues[die].len()
    }

    /// The die takes its first page; it stays in the cache until [`WriteCache::release`].
    pub(crate) fn take_first(&mut self, die: usize) -> Option<u32> {
        let slot = self.queues[die].pop_front()?;
        debug_assert!(self.slots[slot as usize].is_waiting, "what is in a queue waits");
        self.slots[slot as usize].is_waiting = false;
        self.waiting -= 1;
        self.check_occupancy();
        Some(slot)
    }

    /// The page was programmed.
    pub(crate) fn release(&mut self, slot: u32) {
        let cached = self.slots[slot as usize];
        debug_assert!(!self.free.contains(&slot), "a page leaves the cache once");
        debug_assert!(self.used_sectors >= cached.written.count_ones(), "its sectors were counted");
        // A write that came meanwhile has a slot of its own.
        if self.newest.get(&cached.page) == Some(&slot) {
            self.newest.remove(&cached.page);
        }
        self.used_sectors -= cached.written.count_ones();
        self.free.push(slot);
        self.check_occupancy();
    }

    /// Loses all that it holds, as without power. Returns the sectors.
    pub(crate) fn clear(&mut self) -> u64 {
        let lost = u64::from(self.used_sectors);
        let dies = self.queues.len() as u32;
        *self = Self::new(self.capacity_bytes(), dies);
        lost
    }

    /// Checks the counts beside what they count, in debug builds.
    #[inline]
    fn check_occupancy(&self) {
        debug_assert!(
            self.used_sectors <= self.capacity_sectors,
            "{} sectors are in a cache of {}",
            self.used_sectors,
            self.capacity_sectors
        );
        debug_assert_eq!(
            self.waiting as usize,
            self.queues.iter().map(VecDeque::len).sum::<usize>(),
            "as many pages wait as are in the queues"
        );
        debug_assert!(
            self.newest.len() <= self.slots.len() - self.free.len(),
            "every page that reads find has a slot"
        );
    }

    /// Takes a waiting page out: it is written otherwise, or not needed. Returns its sectors.
    pub(crate) fn withdraw(&mut self, die: usize, page: u32) -> Sectors {
        let Some(written) = self.waiting(page) else { return 0 };
        let slot = self.newest[&page];
        // Rare: only writes past the cache and discards withdraw pages.
        self.queues[die].retain(|queued| *queued != slot);
        self.waiting -= 1;
        self.release(slot);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::{Sectors, WriteCache, sectors};
    use crate::tests::panics_with;

    #[test]
    fn masks_are_the_sectors_named() {
        assert_eq!(sectors(0, 0), 0);
        assert_eq!(sectors(0, 8), 0xff);
        assert_eq!(sectors(8, 16), 0xff00);
        assert_eq!(sectors(0, 128), Sectors::MAX);
        assert_eq!(sectors(127, 128), 1 << 127);
    }

    #[test]
    fn every_broken_count_is_seen() {
        let cache = || {
            let mut cache = WriteCache::new(16 * 512, 1);
            cache.put(0, 7, sectors(0, 8), 100);
            cache
        };
        panics_with("17 sectors are in a cache of 16", || cache().put(0, 8, sectors(0, 9), 100));
        panics_with("as many pages wait as are in the queues", || {
            let mut broken = cache();
            broken.waiting += 1;
            broken.put(0, 8, sectors(0, 1), 100);
        });
        panics_with("a page leaves the cache once", || {
            let mut broken = cache();
            let slot = broken.take_first(0).expect("one");
            broken.release(slot);
            broken.release(slot);
        });
        panics_with("every page that reads find has a slot", || {
            let mut broken = cache();
            broken.newest.insert(9, 0);
            broken.put(0, 7, sectors(0, 1), 100);
        });
        panics_with("what is in a queue waits", || {
            let mut broken = cache();
            broken.slots[0].is_waiting = false;
            broken.take_first(0);
        });
    }

    #[test]
    fn a_page_counts_once_and_leaves_with_its_program() {
        let mut cache = WriteCache::new(16 * 512, 1);
        cache.put(0, 7, sectors(0, 8), 100);
        cache.put(0, 7, sectors(4, 12), 50);
        assert_eq!(cache.waiting(7), Some(sectors(0, 12)));
        assert!(cache.has_room(4) && !cache.has_room(5));
        assert_eq!(cache.first(0).expect("one").ready_ns, 100);
        let slot = cache.take_first(0).expect("one");
        assert_eq!((cache.waiting(7), cache.held(7)), (None, sectors(0, 12)));
        cache.put(0, 7, sectors(0, 4), 200);
        cache.release(slot);
        assert_eq!(cache.held(7), sectors(0, 4));
        assert_eq!(cache.withdraw(0, 7), sectors(0, 4));
        assert!(cache.is_empty() && !cache.has_waiting() && cache.has_room(16));
    }
}
